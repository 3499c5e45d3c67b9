"""The paper's models by name, and its protocol: at every rate, C is chosen by cross-validation.

Models with a search in the library use it. The others use scikit-learn's GridSearchCV, with the same folds
of the training data. A grid is widened where its outermost value is the best. The chosen model is fitted to
all training data and tested once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, StratifiedKFold

from marginout import (
    DropoutLogisticRegression,
    DropoutLogisticRegressionCV,
    DropoutSVC,
    DropoutSVCCV,
    DropoutSVR,
    DropoutSVRCV,
    LatentDropoutLogisticRegression,
    LatentDropoutSVC,
    MCFClassifier,
    MCFRegressor,
)
from reproduction.cells import Result, Settings
from reproduction.data import Problem
from reproduction.growing import Grown

#: The rates of the paper's figures.
RATES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
#: Grids of C: for counts, and for rows of length one.
COUNT_CS = tuple(float(f"{C:.3g}") for C in np.logspace(-4, 1, 11))
UNIT_CS = tuple(float(f"{C:.3g}") for C in np.logspace(-2, 2, 9))

SVM, LR, MCF_LOGISTIC, MCF_QUADRATIC = "Dropout-SVM", "Dropout-LR", "MCF-Logistic", "MCF-Quadratic"
SVR, MCF_REGRESSION = "Dropout-SVR", "MCF-Quadratic regression"
LATENT_SVM, LATENT_LR = "Dropout-LatentSVM", "Dropout-LatentLR"
#: Models that are not in the paper.
GAUSSIAN, BALANCED, GAUSSIAN_SVR = f"{SVM}, Gaussian", f"{SVM}, balanced", f"{SVR}, Gaussian"

#: Steps: by how many values a grid of C is widened at most.
WIDER = 4


class Method(NamedTuple):
    """How to make a model from settings without C, and the library's search for C if it has one."""

    model: Callable[[Settings], Any]
    own: Callable[..., Any] | None = None

    def search(self, Cs: Sequence[float], cv: Any, settings: Settings) -> Any:
        if self.own is not None:
            return self.own(Cs, [settings["rate"]], cv=cv, refit=False)
        return GridSearchCV(self.model(settings), {"C": Cs}, cv=cv, refit=False)


def _linear(model: Any, own: Any, **options: Any) -> Method:
    return Method(lambda settings: model(noise=settings["rate"], **options), partial(own, **options))


def _mcf(loss: str) -> Method:
    return Method(lambda settings: MCFClassifier(loss, noise=settings["rate"]))


def _latent(model: Any) -> Method:
    """K hidden units, per class if there are several; fits may start on a part of the examples."""

    def make(settings: Settings) -> Any:
        latent = model(
            settings["K"],
            noise=settings["rate"],
            shared=False,
            solver="joint",
            random_state=settings["seed"],
            max_iter=settings.get("max_iter", 1000),
        )
        if "finish" in settings:
            latent = Grown(latent, 1.0, settings["parts"], settings["finish"])
        return latent

    return Method(make)


def _one_vs_rest(settings: Settings) -> Any:
    return DropoutLogisticRegression(noise=settings["rate"], multi_class="ovr")


#: The loss of the paper, and its expectation.
PAPER: dict[str, Any] = {"loss": "hinge", "expectation": "bound"}
MODELS: dict[str, Method] = {
    SVM: _linear(DropoutSVC, DropoutSVCCV, **PAPER),
    LR: Method(_one_vs_rest, DropoutLogisticRegressionCV),
    MCF_LOGISTIC: _mcf("logistic"),
    MCF_QUADRATIC: _mcf("quadratic"),
    GAUSSIAN: _linear(DropoutSVC, DropoutSVCCV, **{**PAPER, "expectation": "gaussian"}),
    BALANCED: _linear(DropoutSVC, DropoutSVCCV, class_weight="balanced", **PAPER),
    SVR: _linear(DropoutSVR, DropoutSVRCV, epsilon=0.1),
    GAUSSIAN_SVR: _linear(DropoutSVR, DropoutSVRCV, epsilon=0.1, expectation="gaussian"),
    MCF_REGRESSION: Method(lambda settings: MCFRegressor(noise=settings["rate"])),
    LATENT_SVM: _latent(LatentDropoutSVC),
    LATENT_LR: _latent(LatentDropoutLogisticRegression),
}


def folds(settings: Settings, regression: bool) -> Any:
    """Shuffled folds, or one random fifth if folds = 1.

    With `search_rows`, the last fifth of the first `search_rows` examples.
    """
    rows = settings.get("search_rows")
    if rows is not None:
        return [(np.arange(rows * 4 // 5), np.arange(rows * 4 // 5, rows))]
    number, seed = settings["folds"], settings["seed"]
    if number == 1:
        return ShuffleSplit(1, test_size=0.2, random_state=seed)
    return (KFold if regression else StratifiedKFold)(number, shuffle=True, random_state=seed)


def choose(problem: Problem, settings: Settings) -> Result:
    """Choose C by cross-validation on the training data, for one model and rate."""
    method = MODELS[settings["model"]]
    cv = folds(settings, problem.y.dtype.kind == "f")

    def best(Cs: Sequence[float]) -> tuple[float, float]:
        search = method.search(Cs, cv, settings).fit(problem.X, problem.y)
        return float(search.best_score_), float(search.best_params_["C"])

    cv_score, C, at_edge = widened(best, [float(C) for C in settings["Cs"]])
    return {"cv_score": cv_score, "C": C, "C_at_edge": at_edge}


def fitted(problem: Problem, settings: Settings, choice: Result) -> Any:
    """Fit the model with the chosen C to all training data."""
    model = MODELS[settings["model"]].model(settings)
    return model.set_params(C=choice["C"]).fit(problem.X, problem.y)


def tested(problem: Problem, settings: Settings, choice: Result) -> Result:
    """The choice, and the test score of its model."""
    score = fitted(problem, settings, choice).score(problem.X_test, problem.y_test)
    return {**choice, "test_score": float(score), "n_test": len(problem.y_test)}


def chosen_and_tested(problem: Problem, settings: Settings) -> Result:
    return tested(problem, settings, choose(problem, settings))


def widened(
    best: Callable[[Sequence[float]], tuple[float, float]], Cs: Sequence[float]
) -> tuple[float, float, bool]:
    """The best score, its C, and whether that C is the outermost value tried.

    `best(Cs)` returns the best score and its C in a grid. If C is the smallest or the largest value, the
    grid is extended on that side by one step at a time, until the score does not rise or after WIDER steps.
    """
    grid = sorted(Cs)
    score, C = best(grid)
    if len(grid) == 1:
        return score, C, True
    steps = {grid[0]: grid[0] / grid[1], grid[-1]: grid[-1] / grid[-2]}
    if C not in steps:
        return score, C, False
    factor = steps[C]
    for _ in range(WIDER):
        further = float(f"{C * factor:.3g}")
        beyond, _ = best([further])
        if not beyond > score:  # NaN if a fit failed
            return score, C, False
        score, C = beyond, further
    return score, C, True
