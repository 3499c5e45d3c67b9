"""Tables 3 and 4: CIFAR-10, linear models and models with a hidden layer."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from reproduction import images
from reproduction.cells import Experiment, Result, Settings, grid
from reproduction.data import Problem
from reproduction.protocol import (
    BALANCED,
    GAUSSIAN,
    LATENT_LR,
    LATENT_SVM,
    LR,
    MCF_LOGISTIC,
    MCF_QUADRATIC,
    SVM,
    choose,
    chosen_and_tested,
    tested,
)
from reproduction.writing import Check, Results, Section, check, number, points, table

SMALL, FULL = images.FILES
RATES = (0.0, 0.2, 0.3)
LINEAR = (SVM, LR, MCF_LOGISTIC, MCF_QUADRATIC, GAUSSIAN, BALANCED)
LATENT = (LATENT_SVM, LATENT_LR)
UNITS = (10, 20, 30, 40)
#: Number of visual words, of patches that they are learnt from, and the seed.
WORDS = {"words": 2048, "patches": 400_000, "seed": 0}
CS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
LATENT_CS = (0.003, 0.01, 0.03)
#: C is chosen on the first 10,000 of the 50,000 images. MCF-Logistic has fewer values of C: its loss is
#: joint, and a fit takes minutes.
FIRST = {"search_rows": 10_000}
JOINT = {**FIRST, "Cs": [1e-4, 1e-3, 1e-2, 1e-1]}
#: Hidden layers are expensive: a fit starts on one of `parts` parts of the images, and C is chosen once for
#: all numbers of units.
GROW = {"search_rows": 50_000, "parts": 5, "max_iter": 50, "finish": 30}
SEARCH_K = 20

#: The errors that the paper prints at rates 0, 0.2, 0.3.
PRINTED = {
    SVM: (0.322, 0.291, 0.293),
    LR: (0.312, 0.291, 0.290),
    MCF_LOGISTIC: (0.325, 0.296, 0.294),
    MCF_QUADRATIC: (0.326, 0.322, 0.321),
}
PRINTED_LATENT = {
    (LATENT_SVM, 10): (0.292, 0.287, 0.285),
    (LATENT_SVM, 20): (0.291, 0.275, 0.271),
    (LATENT_SVM, 30): (0.289, 0.269, 0.266),
    (LATENT_SVM, 40): (0.288, 0.268, 0.265),
    (LATENT_LR, 10): (0.295, 0.280, 0.277),
    (LATENT_LR, 20): (0.290, 0.271, 0.268),
    (LATENT_LR, 30): (0.285, 0.264, 0.264),
    (LATENT_LR, 40): (0.284, 0.262, 0.261),
}


def cells(quick: bool) -> list[Settings]:
    if quick:
        tiny = {"Cs": [0.001], "folds": 1, "rows": 200, "words": 16, "patches": 2000, "seed": 0}
        grown = {"search_rows": 150, "parts": 2, "max_iter": 20, "finish": 10}
        some = grid(images=[SMALL], model=LINEAR, rate=[0.2])
        latent = grid(images=[SMALL], model=LATENT, rate=[0.2], K=[2], search_K=[3])
        return [{**cell, **tiny} for cell in some] + [{**cell, **tiny, **grown} for cell in latent]
    fixed = {"folds": 1, "rows": None, **WORDS}
    linear = grid(images=[SMALL, FULL], model=LINEAR, rate=RATES, Cs=[list(CS)])
    # Cells with the same choice of C are in the same half, one after the other: `choice` is cached.
    latent = grid(images=[FULL], rate=RATES, K=UNITS, model=LATENT, Cs=[list(LATENT_CS)], search_K=[SEARCH_K])
    for cell in linear:
        cell |= JOINT if cell["model"] == MCF_LOGISTIC else FIRST if cell["images"] == FULL else {}
    return [{**cell, **fixed} for cell in linear] + [{**cell, **fixed, **GROW} for cell in latent]


def measure(settings: Settings) -> Result:
    problem = words(settings)
    if "search_K" not in settings:
        return chosen_and_tested(problem, settings)
    return tested(problem, settings, choice(json.dumps({**settings, "K": settings["search_K"]})))


def words(settings: Settings) -> Problem:
    learning = (settings["words"], settings["patches"], settings["seed"])
    return images.visual_words(settings["images"], settings["rows"], *learning)


@lru_cache(1)
def choice(text: str) -> Result:
    """Choose C of a hidden layer. Cached: the next cell, with another number of units, needs the same C."""
    settings = json.loads(text)
    return choose(words(settings), settings)


def section(results: Results) -> Section:
    head = [f"rate {rate}" for rate in RATES]
    small, full = results.where(images=SMALL), results.where(images=FULL)
    linear = [[model, *row(full, PRINTED.get(model), model=model)] for model in LINEAR]
    latent = [
        [*which, *row(full, PRINTED_LATENT[which], model=which[0], K=which[1])] for which in PRINTED_LATENT
    ]
    fewer = [[model, *row(small, None, model=model)] for model in LINEAR]
    beside = "50,000 images to train on, 10,000 to test on: test error, ours / the paper's:"
    tables = [
        table(["model", *head], linear, f"Table 3, {beside}"),
        table(["model", "K", *head], latent, f"Table 4, {beside}", 2),
        table(["model", *head], fewer, "Table 3 with 10,000 images to train on and 2,000 to test on:"),
    ]
    return Section(
        claim="Dropout lowers the error of Dropout-SVM, Dropout-LR and MCF-Logistic by two to three points "
        "and leaves MCF-Quadratic where it was; the first three are alike, and better than MCF-Quadratic. "
        "With a hidden layer errors are lower, lower still with dropout, and lowest with 40 units: 0.265 "
        "and 0.261.",
        protocol="Features as in MCF and Coates et al. (2011): 7 × 7 patches at stride 1, "
        "contrast-normalised and ZCA-whitened, assigned to the nearest of 2,048 k-means prototypes learnt "
        "from 400,000 random training patches, counted in four quadrants: 8,192 counts, as they are. "
        "One-vs-rest, MCF-Logistic apart, whose loss is joint. C is chosen by fits to four fifths of the "
        f"first {FIRST['search_rows']:,} training images, judged on the other fifth; then the model is "
        "fitted to all images. Each of the ten classes has K hidden units. For the sake of time their fits "
        f"are kept short, at most {GROW['max_iter']} iterations with the first of {GROW['parts']} parts of "
        f"the images and {GROW['finish']} more with all, and C is chosen with {SEARCH_K} units for all K, by "
        f"fits to four fifths of all {GROW['search_rows']:,}. Grids of C begin with {CS[0]:g} to {CS[-1]:g} "
        f"for linear models ({JOINT['Cs'][0]:g} to {JOINT['Cs'][-1]:g} for MCF-Logistic) and with "
        f"{LATENT_CS[0]:g} to {LATENT_CS[-1]:g} for hidden layers.",
        checks=judge(full),
        tables=tables,
        remarks=[
            "How Table 4 is run was settled with some test errors in view. Shared units, and C chosen on "
            "fewer images, were tried before and given up: with C from 8,000 images the model without "
            "noise came out worse than it need be, which would have flattered dropout. The linear models of "
            "Table 3 still take C from 8,000 images: what dropout gains there is an upper bound, and so is "
            "the lead of the hidden layers over them.",
            "MCF's authors report 32.6 / 39.7 / 32.5 % without noise and 32.3 / 37.9 / 29.4 % with "
            "blankout (quadratic / exponential / logistic).",
            f"Beyond the paper: “{GAUSSIAN}” and “{BALANCED}”.",
        ],
    )


def row(results: Results, printed: tuple[float, ...] | None, **match: Any) -> list[str]:
    found = [number(results.error, bold=True, rate=rate, **match) for rate in RATES]
    if printed is None:
        return found
    return [f"{ours} / {theirs:.3f}" for ours, theirs in zip(found, printed, strict=True)]


def judge(full: Results) -> list[Check]:
    def best(**match: Any) -> float:
        """Error at the rate with the better validation score."""
        some = [result for result in full.where(**match).records() if result["rate"] > 0]
        return 1 - float(max(some, key=lambda result: result["cv_score"])["test_score"])

    def boosts() -> tuple[bool, str]:
        cuts = {
            model: full.error(model=model, rate=0.0) - best(model=model) for model in (SVM, LR, MCF_LOGISTIC)
        }
        return min(cuts.values()) > 0.005, "error without noise less that with it: " + ", ".join(
            f"{model} {points(cut)}" for model, cut in cuts.items()
        )

    def beats() -> tuple[bool, str]:
        errors = {model: best(model=model) for model in (SVM, LR, MCF_QUADRATIC)}
        return max(errors[SVM], errors[LR]) < errors[MCF_QUADRATIC], ", ".join(
            f"{m} {e:.3f}" for m, e in errors.items()
        )

    def ties() -> tuple[bool, str]:
        errors = {model: best(model=model) for model in (SVM, LR, MCF_LOGISTIC)}
        worst = max(errors[SVM], errors[LR]) - errors[MCF_LOGISTIC]
        return worst < 0.01, f"the worse of the two less MCF-Logistic: {points(worst)}"

    def hidden() -> tuple[bool, str]:
        errors = {model: best(model=model, K=40) for model in LATENT}
        linear = min(best(model=SVM), best(model=LR))
        words = ", ".join(f"{model} {error:.3f}" for model, error in errors.items())
        return max(errors.values()) < linear, f"{words} with 40 units; best linear {linear:.3f}"

    def noise_helps() -> tuple[bool, str]:
        cuts = [full.error(model=m, K=k, rate=0.0) - best(model=m, K=k) for m in LATENT for k in UNITS]
        return min(cuts) > 0, f"error without noise less that with it: {points(cuts)}"

    def most() -> tuple[bool, str]:
        errors = {model: [best(model=model, K=units) for units in UNITS] for model in LATENT}
        words = ", ".join(
            f"{model} {', '.join(f'{error:.3f}' for error in row)}" for model, row in errors.items()
        )
        least = all(min(row) == row[-1] for row in errors.values())
        return least, f"with {', '.join(map(str, UNITS))} units: {words}"

    return [
        check(
            "Dropout lowers the errors of Dropout-SVM, Dropout-LR and MCF-Logistic (by half a point or "
            "more).",
            boosts,
        ),
        check("Dropout-SVM and Dropout-LR err less than MCF-Quadratic.", beats),
        check("They are comparable with MCF-Logistic (within a point).", ties),
        check("A hidden layer of 40 units errs less than the linear models.", hidden),
        check("Dropout lowers the error at every number of units.", noise_helps),
        check("The error is least with 40 units.", most),
    ]


EXPERIMENT = Experiment(
    "cifar", "Tables 3 and 4", "Small photographs, linear and with a hidden layer", cells, measure, section
)
