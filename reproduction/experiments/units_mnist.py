"""Figure 7: responses of the hidden units of a "0 against the rest" model on MNIST."""

from __future__ import annotations

from reproduction import data
from reproduction.cells import Experiment, Result, Settings
from reproduction.protocol import LATENT_SVM
from reproduction.units import fitted_units, judge, portraits
from reproduction.writing import Results, Section

DIGITS = "0123456789"
CS = (0.01, 0.1, 1.0)
#: Digits that C is chosen on: the first of the 60,000.
FIRST = 10_000


def cells(quick: bool) -> list[Settings]:
    fixed = {"model": LATENT_SVM, "digit": 0, "rate": 0.3, "folds": 1, "seed": 0, "each": 2, "images": 6}
    if quick:
        return [{**fixed, "K": 4, "Cs": [0.1], "rows": 200, "max_iter": 20}]
    return [{**fixed, "K": 60, "Cs": list(CS), "search_rows": FIRST, "rows": None, "max_iter": 500}]


def measure(settings: Settings) -> Result:
    problem = data.mnist().thin(settings["rows"])
    pictures = (255 * problem.X_test).round().astype("uint8").reshape(-1, 28, 28)
    return fitted_units(problem, settings["digit"], pictures, settings)


def section(results: Results) -> Section:
    return Section(
        claim="Hidden units with large positive weights respond to zeros, those with large negative "
        "weights to some of the other digits, and those with weights near zero to all digits alike.",
        protocol="Dropout-LatentSVM with 60 units, “0 against the rest”, all 60,000 digits, rate 0.3. C of "
        f"{', '.join(f'{C:g}' for C in CS)} is chosen by fits to four fifths of the first {FIRST:,} digits, "
        "judged on the other fifth. Of the test digits: the six to which a unit responds most, and its mean "
        "response to each digit.",
        checks=judge(results, 0, DIGITS),
        figures=portraits("units_mnist", results, DIGITS),
    )


EXPERIMENT = Experiment("units_mnist", "Figure 7", "Hidden units of digits", cells, measure, section)
