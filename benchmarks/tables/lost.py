"""Test errors when columns of tables, or pixels, are NaN at prediction time."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from benchmarks.tables.parts import Row, percent, rows, signed, table


def lost_columns() -> str:
    """Mean error of the tables with classes, mean R² of those with numbers, by share of columns."""
    found = rows("lost_columns")
    errors = [row for row in found if row["test_error"]]
    numbers = [row for row in found if row["r2"]]
    kinds = len({row["problem"] for row in errors}), len({row["problem"] for row in numbers})
    first = _shares(errors, f"mean error of {kinds[0]} tables, %, by share of the columns lost", _error)
    second = _shares(numbers, f"mean R² of {kinds[1]} tables, by share of the columns lost", _r2)
    return f"{first}\n\n{second}"


def lost_pixels() -> str:
    """Errors on scikit-learn's digits and on USPS by share of pixels."""
    found = rows("lost_pixels")
    names = {"digits": "digits 8 × 8", "usps": "USPS 16 × 16"}
    shares = list(dict.fromkeys(row["rate"] for row in found))
    cells = {(row["problem"], row["model"], row["rate"]): _error([row]) for row in found}
    head = [f"{text}, {_percent(share)} lost" for text in names.values() for share in shares]
    models = dict.fromkeys(row["model"] for row in found)
    body = [
        [model, *(cells.get((name, model, share), "") for name in names for share in shares)]
        for model in models
    ]
    return table(["test error, %", *head], body)


#: Columns of the tables of single missing values: the heading and the model of `benchmarks.holes`.
SINGLE = {
    "mean": "LR, mean",
    "Iterative": "LR, IterativeImputer",
    "KNN": "LR, KNNImputer",
    "ours": "DropoutLR, conditional",
    "trees": "HistGradientBoosting",
    "trees, Gaussian": "HistGradientBoosting, GaussianImputer",
}


def holes() -> str:
    """Errors and log losses of every table by share of single values: a table for each share."""
    found = {(row["missing"], row["table"], row["model"]): row for row in rows("holes")}
    names = sorted({table for _, table, _ in found})
    return "\n\n".join(_single(found, names, share) for share in sorted({share for share, *_ in found}))


def _single(found: dict[tuple[str, str, str], Row], names: list[str], share: str) -> str:
    head = [f"{_percent(share)} missing: test error, %", *SINGLE]
    head += ["Iterative less ours [95 %]", "KNN less ours [95 %]", "log loss, ours", "plug-in"]
    body = []
    for name in names:
        own = {heading: found[share, name, model] for heading, model in SINGLE.items()}
        plug_in = found[share, name, "DropoutLR, conditional, plug-in"]
        ahead = [
            signed(*(float(own[heading][key]) for key in ("ahead", "low", "high")))
            for heading in ("Iterative", "KNN")
        ]
        losses = [f"{float(row['log_loss']):.3f}" for row in (own["ours"], plug_in)]
        body.append([f"{name} ({own['ours']['half']})", *map(percent, own.values()), *ahead, *losses])
    return table(head, body)


def _shares(found: list[Row], title: str, text: Callable[[list[Row]], str]) -> str:
    """A row per model that is measured on all tables, a column per share."""
    problems = {row["problem"] for row in found}
    shares = list(dict.fromkeys(row["rate"] for row in found))
    models = [
        model
        for model in dict.fromkeys(row["model"] for row in found)
        if {row["problem"] for row in found if row["model"] == model} == problems
    ]
    body = [
        [model, *(text([r for r in found if (r["model"], r["rate"]) == (model, share)]) for share in shares)]
        for model in models
    ]
    return table([title, *map(_percent, shares)], body)


def _error(found: list[Row]) -> str:
    return f"{100 * fmean(float(row['test_error']) for row in found):.1f}"


def _r2(found: list[Row]) -> str:
    return f"{fmean(float(row['r2']) for row in found):.2f}".replace("-", "−")


def _percent(share: str) -> str:
    return f"{100 * float(share):.0f} %"
