"""Table 1: hinge and logistic loss as re-weighted quadratic losses, and their special cases."""

from __future__ import annotations

from typing import Any

import numpy as np

from marginout import DropoutLogisticRegression, DropoutSVC, MCFClassifier, MCFRegressor
from reproduction import data
from reproduction.cells import Experiment, Result, Settings, grid
from reproduction.writing import NOT_RUN, Check, Results, Section, check, table

HINGE, LOGISTIC = "hinge", "logistic"
BREAST, BOOKS = "breast_cancer", "amazon_books"
RATES = (0.1, 0.5, 0.9)
C = {BREAST: 0.1, BOOKS: 0.01}


def cells(quick: bool) -> list[Settings]:
    if quick:
        return grid(data=[BREAST], loss=[HINGE, LOGISTIC], rate=[0.5], C=[C[BREAST]], tol=[1e-6])
    return [
        cell
        for name in C
        for cell in grid(data=[name], loss=[HINGE, LOGISTIC], rate=RATES, C=[C[name]], tol=[1e-8])
    ]


def measure(settings: Settings) -> Result:
    name, rate, C, tol = settings["data"], settings["rate"], settings["C"], settings["tol"]
    problem = data.bundled(name) if name == BREAST else data.amazon("books")
    X, y = problem.X, np.asarray(problem.y, dtype=np.float64)
    hinge = settings["loss"] == HINGE
    options = {"noise": rate, "tol": tol, "max_iter": 10_000, "expectation": "bound"}
    model = DropoutSVC(C, loss="hinge", **options) if hinge else DropoutLogisticRegression(C, **options)
    model.fit(X, y)
    w, b = model.coef_[0], model.intercept_[0]
    weights, targets = (hinge_step if hinge else logistic_step)(*moments(X, w, b, rate), y)
    quadratic = MCFClassifier("quadratic", C, noise=rate, tol=tol).fit(X, y)
    ones = np.ones(len(y))
    reduced = solve(X, reduced_targets(settings["loss"], y), ones, C, rate, tol)
    return {
        "fixed_point": distance(solve(X, targets, weights, C, rate, tol), (w, b)),
        "reduction": distance(reduced, (quadratic.coef_, quadratic.intercept_)),
        "smallest_weight": float(weights.min()),
        "largest_weight": float(weights.max()),
    }


def moments(X: Any, w: Any, b: float, rate: float) -> tuple[Any, Any]:
    """Mean and variance of the noisy scores."""
    squares = X.multiply(X) if hasattr(X, "multiply") else X * X
    return X @ w + b, rate / (1 - rate) * (squares @ (w * w))


def hinge_step(m: Any, v: Any, y: Any, margin: float = 1.0) -> tuple[Any, Any]:
    """γ = 1/(2√E ζ²) and y·(ℓ + √E ζ²), with ζ = ℓ − y·score."""
    root = np.sqrt((margin - y * m) ** 2 + v)
    return 0.5 / root, y * (margin + root)


def logistic_step(m: Any, v: Any, y: Any) -> tuple[Any, Any]:
    """γ = tanh(ω/2)/(2ω) with ω = √E score², and y/(2γ)."""
    omega = np.sqrt(m * m + v)
    gamma = np.tanh(omega / 2) / (2 * omega)
    return gamma, y / (2 * gamma)


def reduced_targets(loss: str, y: Any, c: float = 1.0) -> Any:
    """Targets of the table, in the paper's notation, at its special values. All weights are then equal."""
    if loss == HINGE:
        margin, gamma = 0.0, 1 / c
        return (1 / (c * gamma) + margin) * y
    gamma = c / 2
    return c / (2 * gamma) * y


def solve(X: Any, targets: Any, weights: Any, C: float, rate: float, tol: float) -> tuple[Any, float]:
    """Minimise ½‖w‖² + C Σ ½γ E(w·x̃ + b − t)² by the closed form of MCF."""
    model = MCFRegressor(C, noise=rate, tol=tol, max_iter=10_000).fit(X, targets, sample_weight=weights)
    return np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])


def distance(found: tuple[Any, Any], wanted: tuple[Any, Any]) -> float:
    """‖found − wanted‖ / ‖wanted‖, weights and offset together."""
    one, other = (np.append(np.ravel(w), b) for w, b in (found, wanted))
    return float(np.linalg.norm(one - other) / np.linalg.norm(other))


def section(results: Results) -> Section:
    names = ("fixed_point", "reduction", "smallest_weight", "largest_weight")
    body = [
        [
            settings["data"].replace("_", " "),
            settings["loss"],
            settings["rate"],
            *(NOT_RUN if record is None else f"{record['result'][name]:.2g}" for name in names),
        ]
        for settings, record in results.cells
    ]
    head = [
        "data",
        "loss",
        "rate",
        "distance after a step",
        "distance, reduced",
        "least weight",
        "largest weight",
    ]
    return Section(
        claim="Dropout training of the hinge loss and of the logistic loss is a sequence of quadratic "
        "problems with noise: in each step every example has a weight γ and a target, given in closed "
        "form. With margin 0 and equal weights the hinge problem is MCF-Quadratic; with equal weights the "
        "logistic problem is.",
        protocol="A model is fitted by the library's solver (not by re-weighting). Weights and targets are "
        "computed from its scores by the table's formulas, and the weighted quadratic problem is solved: "
        "if the table is right, the same model comes back. Then the reduction: with the table's special "
        "values the solution must be MCF-Quadratic's. The number is the norm of the difference over the "
        "norm.",
        checks=judge(results),
        tables=[table(head, body, labels=3)],
    )


def judge(results: Results) -> list[Check]:
    def returns() -> tuple[bool, str]:
        worst = max(result["fixed_point"] for result in results.records())
        return worst < 1e-3, f"largest relative distance {worst:.1e}"

    def reduces() -> tuple[bool, str]:
        worst = max(result["reduction"] for result in results.records())
        return worst < 1e-6, f"largest relative distance {worst:.1e}"

    return [
        check("One re-weighted quadratic problem returns the optimum.", returns),
        check("The table's special values give MCF-Quadratic.", reduces),
    ]


EXPERIMENT = Experiment(
    "losses", "Table 1", "The losses as re-weighted quadratic ones", cells, measure, section
)
