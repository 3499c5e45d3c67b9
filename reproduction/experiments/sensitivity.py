"""Figure 9: how the error of the model with a hidden layer depends on the number of units."""

from __future__ import annotations

from reproduction import data, figures
from reproduction.cells import Experiment, Result, Settings, grid
from reproduction.protocol import LATENT_SVM, chosen_and_tested
from reproduction.writing import Results, Section, check, curve, number, points, table

UNITS = (5, 10, 20, 40)
RATES = (0.1, 0.5, 0.9)
CS = (0.03, 0.3, 3.0)


def cells(quick: bool) -> list[Settings]:
    if quick:
        tiny = {"Cs": [0.1, 1.0], "folds": 2, "seed": 0, "rows": 60}
        return [{**cell, **tiny} for cell in grid(domain=["dvd"], model=[LATENT_SVM], rate=[0.5], K=[1, 3])]
    full = {"Cs": list(CS), "folds": 3, "seed": 0, "rows": None}
    return [{**cell, **full} for cell in grid(domain=data.DOMAINS, model=[LATENT_SVM], rate=RATES, K=UNITS)]


def measure(settings: Settings) -> Result:
    return chosen_and_tested(data.amazon(settings["domain"]).thin(settings["rows"]), settings)


def section(results: Results) -> Section:
    panels = {
        domain: {f"rate {rate}": curve(results, axis="K", domain=domain, rate=rate) for rate in RATES}
        for domain in data.DOMAINS
    }
    body = [
        [domain, rate, *(number(results.error, domain=domain, rate=rate, K=units) for units in UNITS)]
        for domain in data.DOMAINS
        for rate in RATES
    ]
    return Section(
        claim="The error of Dropout-LatentSVM hardly depends on the number of hidden units, at any rate, "
        "on all four domains.",
        protocol="As Figure 5, with 5 to 40 units.",
        checks=[
            check(
                "The error varies by less than two points over the numbers of units.", lambda: flat(results)
            )
        ],
        tables=[table(["domain", "rate", *(f"K = {units}" for units in UNITS)], body, "Test error:", 2)],
        figures={"sensitivity": figures.lines(panels, "hidden units", "test error", log="x")},
    )


def flat(results: Results) -> tuple[bool, str]:
    spreads = []
    for domain in data.DOMAINS:
        for rate in RATES:
            errors = [results.error(domain=domain, rate=rate, K=units) for units in UNITS]
            spreads.append(max(errors) - min(errors))
    return max(
        spreads
    ) < 0.02, f"largest difference {points(max(spreads))}, mean {points(sum(spreads) / len(spreads))}"


EXPERIMENT = Experiment(
    "sensitivity", "Figure 9", "Error over the number of hidden units", cells, measure, section
)
