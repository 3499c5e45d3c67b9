"""Hidden units as in the paper: weight, images of largest response, mean response by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from reproduction import figures
from reproduction.cells import Result, Settings
from reproduction.data import Problem
from reproduction.growing import Grown
from reproduction.protocol import choose, fitted
from reproduction.writing import Check, NotRunError, Results, check

POSITIVE, NEUTRAL, NEGATIVE = "positive", "neutral", "negative"


def fitted_units(problem: Problem, own: int, pictures: Any, settings: Settings) -> Result:
    """Fit a model of one class against the rest; return test score, weights, and some of its units."""
    binary = replace(problem, y=problem.y == own, y_test=problem.y_test == own)
    choice = choose(binary, settings)
    model = fitted(binary, settings, choice)
    if isinstance(model, Grown):
        model = model.model_
    return {
        **choice,
        "test_score": float(model.score(binary.X_test, binary.y_test)),
        "weights": [round(float(w), 4) for w in sorted(model.coef_[0], reverse=True)],
        "units": extremes(model, problem.X_test, problem.y_test, pictures, settings),
    }


def extremes(model: Any, X: Any, y: Any, pictures: Any, settings: Settings) -> list[Result]:
    """The units with the most positive, the smallest and the most negative weights, `each` of each."""
    weights, each = model.coef_[0], settings["each"]
    by_weight, by_size = np.argsort(-weights), np.argsort(abs(weights))
    groups = {POSITIVE: by_weight[:each], NEUTRAL: by_size[:each], NEGATIVE: by_weight[::-1][:each]}
    responses = model.transform(X)
    return [
        {
            "group": group,
            "unit": int(unit),
            "weight": float(weights[unit]),
            "response": [round(float(responses[y == label, unit].mean()), 4) for label in np.unique(y)],
            "images": [
                figures.pack(pictures[i]) for i in np.argsort(-responses[:, unit])[: settings["images"]]
            ],
        }
        for group, units in groups.items()
        for unit in units
    ]


def portraits(name: str, results: Results, classes: Sequence[str]) -> dict[str, Any]:
    try:
        (record,) = results.records()
    except NotRunError:
        return {}
    return {name: figures.units(record["units"], classes)}


def judge(results: Results, own: int, classes: Sequence[str]) -> list[Check]:
    def contrast(group: str) -> list[float]:
        """Mean response to the own class − mean response to the others, for every unit of a group."""
        (record,) = results.records()
        found = []
        for unit in record["units"]:
            if unit["group"] == group:
                others = [value for label, value in enumerate(unit["response"]) if label != own]
                found.append(unit["response"][own] - sum(others) / len(others))
        return found

    def signed(group: str, sign: int) -> tuple[bool, str]:
        values = contrast(group)
        words = ", ".join(f"{value:+.2f}" for value in values)
        return all(
            sign * value > 0 for value in values
        ), f"response to {classes[own]} less that to the others: {words}"

    def neutral() -> tuple[bool, str]:
        sizes = [max(map(abs, contrast(group))) for group in (NEUTRAL, POSITIVE, NEGATIVE)]
        words = "largest contrast of neutral, positive, negative units: " + ", ".join(
            f"{s:.2f}" for s in sizes
        )
        return sizes[0] < min(sizes[1:]), words

    return [
        check(f"Units with positive weights respond more to {classes[own]}.", lambda: signed(POSITIVE, 1)),
        check("Units with negative weights respond more to other classes.", lambda: signed(NEGATIVE, -1)),
        check("Units with weights near zero tell them apart least.", neutral),
    ]
