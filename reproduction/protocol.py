"""The paper's models by their names, and its protocol: at every rate, C by cross-validation.

Where the library has a search of its own it is used; around other models stands scikit-learn's
GridSearchCV, with the same folds of the training data. The chosen model is
fitted to all training data and tested once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, StratifiedKFold

from marginout import (
    DropoutLogisticRegressionCV,
    DropoutSVCCV,
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
#: For counts as they are, and for rows of length one.
COUNT_CS = tuple(float(f"{C:.3g}") for C in np.logspace(-4, 1, 11))
UNIT_CS = tuple(float(f"{C:.3g}") for C in np.logspace(-2, 2, 9))

SVM, LR, MCF_LOGISTIC, MCF_QUADRATIC = "Dropout-SVM", "Dropout-LR", "MCF-Logistic", "MCF-Quadratic"
SVR, MCF_REGRESSION = "Dropout-SVR", "MCF-Quadratic regression"
LATENT_SVM, LATENT_LR = "Dropout-LatentSVM", "Dropout-LatentLR"
#: With K hidden units for every class, as in the paper; the two above share K among the classes.
EACH_SVM, EACH_LR = f"{LATENT_SVM}, K each", f"{LATENT_LR}, K each"
#: Ours, beyond the paper.
GAUSSIAN, BALANCED = "Dropout-SVM, Gaussian", "Dropout-SVM, balanced"

Search = Callable[[Sequence[float], float, Any, Settings], Any]


def _own(model: Any, **options: Any) -> Search:
    return lambda Cs, rate, cv, settings: model(Cs, [rate], cv=cv, **options)


def _mcf(loss: str) -> Search:
    return lambda Cs, rate, cv, settings: GridSearchCV(MCFClassifier(loss, noise=rate), {"C": Cs}, cv=cv)


def _latent(model: Any, shared: bool = True) -> Search:
    """K hidden units, shared by the classes where there are several, or K for each of them."""

    def search(Cs: Sequence[float], rate: float, cv: Any, settings: Settings) -> Any:
        latent = model(
            settings["K"],
            noise=rate,
            shared=shared,
            random_state=settings["seed"],
            max_iter=settings.get("max_iter", 1000),
        )
        if "finish" in settings:
            latent = Grown(latent, 1.0, settings["grow_from"], settings["finish"])
        return GridSearchCV(latent, {"C": Cs}, cv=cv)

    return search


MODELS: dict[str, Search] = {
    SVM: _own(DropoutSVCCV),
    LR: _own(DropoutLogisticRegressionCV),
    MCF_LOGISTIC: _mcf("logistic"),
    MCF_QUADRATIC: _mcf("quadratic"),
    GAUSSIAN: _own(DropoutSVCCV, expectation="gaussian"),
    BALANCED: _own(DropoutSVCCV, class_weight="balanced"),
    SVR: _own(DropoutSVRCV, epsilon=0.1),
    MCF_REGRESSION: lambda Cs, rate, cv, settings: GridSearchCV(MCFRegressor(noise=rate), {"C": Cs}, cv=cv),
    LATENT_SVM: _latent(LatentDropoutSVC),
    LATENT_LR: _latent(LatentDropoutLogisticRegression),
    EACH_SVM: _latent(LatentDropoutSVC, shared=False),
    EACH_LR: _latent(LatentDropoutLogisticRegression, shared=False),
}


def folds(settings: Settings, regression: bool) -> Any:
    """So many shuffled folds; one held-out fifth, of the first `search_rows` if given, where folds = 1."""
    rows = settings.get("search_rows")
    if rows is not None:
        return [(np.arange(rows * 4 // 5), np.arange(rows * 4 // 5, rows))]
    number, seed = settings["folds"], settings["seed"]
    if number == 1:
        return ShuffleSplit(1, test_size=0.2, random_state=seed)
    return (KFold if regression else StratifiedKFold)(number, shuffle=True, random_state=seed)


def chosen_and_tested(problem: Problem, settings: Settings) -> Result:
    """C by cross-validation for one model and rate, and the score of the refitted model on the test data."""
    Cs = [float(C) for C in settings["Cs"]]
    regression = problem.y.dtype.kind == "f"
    search = MODELS[settings["model"]](Cs, settings["rate"], folds(settings, regression), settings)
    search.fit(problem.X, problem.y)
    C = float(search.best_params_["C"])
    scores = {
        "cv_score": float(search.best_score_),
        "test_score": float(search.score(problem.X_test, problem.y_test)),
    }
    return {**scores, "C": C, "C_at_edge": C in (min(Cs), max(Cs)), "n_test": len(problem.y_test)}
