"""Figure 5: models with a hidden layer on Amazon reviews, error over the dropout rate."""

from __future__ import annotations

from statistics import mean

from reproduction import data, figures
from reproduction.cells import Experiment, Result, Settings, grid
from reproduction.experiments import amazon
from reproduction.protocol import LATENT_LR, LATENT_SVM, LR, RATES, SVM, chosen_and_tested
from reproduction.writing import Check, Results, Section, check, curve, points, positive, rate_table

MODELS = (LATENT_SVM, LATENT_LR)
#: Hidden units; the paper does not say how many it used here.
K = 20
CS = (0.03, 0.3, 3.0)


def cells(quick: bool) -> list[Settings]:
    if quick:
        tiny = {"K": 2, "Cs": [0.1, 1.0], "folds": 2, "seed": 0, "rows": 60}
        return [{**cell, **tiny} for cell in grid(domain=["books"], model=MODELS, rate=[0.5])]
    full = {"K": K, "Cs": list(CS), "folds": 3, "seed": 0, "rows": None}
    return [{**cell, **full} for cell in grid(domain=data.DOMAINS, model=MODELS, rate=RATES)]


def measure(settings: Settings) -> Result:
    return chosen_and_tested(data.amazon(settings["domain"]).thin(settings["rows"]), settings)


def section(results: Results) -> Section:
    linear = results.other(amazon.EXPERIMENT)
    panels = {
        domain: {
            **{model: curve(results, domain=domain, model=model) for model in MODELS},
            **{model: curve(linear, domain=domain, model=model) for model in (SVM, LR)},
        }
        for domain in data.DOMAINS
    }
    rows = {model: {"model": model} for model in MODELS}
    return Section(
        claim="The two models with a hidden layer err alike; dropout lowers the error of both on all four "
        "domains; on text they are no clear improvement on the linear models.",
        protocol=f"As Figure 2 at 5,000 features, with {K} sigmoid units (the paper does not say how many), "
        f"the paper's Taylor propagation of the noise, C of {', '.join(f'{C:g}' for C in CS)} by three "
        "folds at every rate, one random start.",
        checks=judge(results, linear),
        tables=[
            rate_table(results.where(domain=domain), rows, RATES, f"Test error on {domain}:")
            for domain in data.DOMAINS
        ],
        figures={"latent_amazon": figures.lines(panels, "dropout rate", "test error")},
    )


def judge(results: Results, linear: Results) -> list[Check]:
    def alike() -> tuple[bool, str]:
        gap = mean(
            results.error(domain=domain, model=LATENT_SVM, rate=rate)
            - results.error(domain=domain, model=LATENT_LR, rate=rate)
            for domain in data.DOMAINS
            for rate in RATES
        )
        return abs(
            gap
        ) < 0.01, f"error of LatentSVM less that of LatentLR, mean over domains and rates: {points(gap)}"

    def boosts(model: str) -> tuple[bool | None, str]:
        spreads = [results.standard_error(domain=domain, model=model) for domain in data.DOMAINS]
        cuts = [
            results.error(domain=domain, model=model, rate=0.0)
            - results.chosen_error(domain=domain, model=model)
            for domain in data.DOMAINS
        ]
        words = ", ".join(f"{domain} {points(cut)}" for domain, cut in zip(data.DOMAINS, cuts, strict=True))
        return positive(cuts, spreads), f"{model}, error without noise less that at the chosen rate: {words}"

    def no_better() -> tuple[bool, str]:
        gains = [
            linear.chosen_error(domain=domain, model=SVM)
            - results.chosen_error(domain=domain, model=LATENT_SVM)
            for domain in data.DOMAINS
        ]
        words = ", ".join(
            f"{domain} {points(gain)}" for domain, gain in zip(data.DOMAINS, gains, strict=True)
        )
        return mean(gains) < 0.01, f"error of Dropout-SVM less that of Dropout-LatentSVM: {words}"

    return [
        check("LatentSVM and LatentLR err alike (within a point on average).", alike),
        check("Dropout lowers the error of LatentSVM on every domain.", lambda: boosts(LATENT_SVM)),
        check("Dropout lowers the error of LatentLR on every domain.", lambda: boosts(LATENT_LR)),
        check(
            "The hidden layer brings no clear improvement on text (less than a point on average).", no_better
        ),
    ]


EXPERIMENT = Experiment(
    "latent_amazon",
    "Figure 5",
    "Reviews with a hidden layer: error over the dropout rate",
    cells,
    measure,
    section,
)
