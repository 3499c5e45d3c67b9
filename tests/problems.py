"""Problems that many tests solve: models, noises, losses, data, objectives in one shard and in several."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning

from marginout._blocks.executors import Serial
from marginout._core.design.storage import make_design
from marginout._core.objective import Objective
from marginout._core.penalties import Ridge
from marginout._core.shard import ROUNDING, Shard
from marginout.losses import (
    EpsilonInsensitive,
    Hinge,
    Logistic,
    LogisticGaussian,
    Loss,
    Quadratic,
    SquaredHinge,
)
from marginout.noise import Deletion, Dropout, Gaussian, Laplace, Noise, Poisson
from tests.paper import DropoutLogisticRegression, DropoutSVC, DropoutSVR

CLASSIFIERS = [DropoutSVC, DropoutLogisticRegression]
ESTIMATORS = [*CLASSIFIERS, DropoutSVR]
SOLVERS = ["ncg", "irls", "lbfgs", "newton"]
EXPECTATIONS = ["bound", "gaussian"]
LOSSES: dict[str, Loss] = {
    "hinge": Hinge(1.3),
    "hinge-gaussian": Hinge(0.8, "gaussian"),
    "epsilon": EpsilonInsensitive(0.2),
    "epsilon-gaussian": EpsilonInsensitive(0.3, "gaussian"),
    "logistic": Logistic(),
    "logistic-gaussian": LogisticGaussian(),
    "quadratic": Quadratic(),
    "squared": SquaredHinge(1.3),
    "squared-gaussian": SquaredHinge(0.8, "gaussian"),
}

with_and_without_noise = pytest.mark.parametrize("noise", [0.0, 0.3], ids=["no noise", "noise"])


def make_noises(rates: np.ndarray, spreads: np.ndarray) -> dict[str, Noise]:
    """Every noise of single features: with one parameter for all features, and with one for each."""
    return {
        "dropout": Dropout(0.5),
        "dropout-each": Dropout(rates),
        "deletion": Deletion(0.3),
        "deletion-each": Deletion(rates),
        "gaussian": Gaussian(0.7),
        "gaussian-each": Gaussian(spreads),
        "laplace": Laplace(0.4),
        "laplace-each": Laplace(spreads),
        "poisson": Poisson(),
        "none": Dropout(0.0),
    }


# ------------------------------------------------------------------------------------------- objectives


def make_objective(
    design: Any, loss: Any, Y: Any, weights: Any, fit_intercept: bool, rounding: float = ROUNDING
) -> Objective:
    """F of examples in memory."""
    return Objective.of(Ridge(), Shard(design, loss, Y, weights, rounding), fit_intercept)


def in_shards(
    count: int, X: Any, noise: Noise, loss: Any, Y: Any, weights: Any, fit_intercept: bool
) -> Objective:
    """F of examples in memory, or in so many shards that an executor adds up."""
    if count == 1:
        return make_objective(make_design(X, noise), loss, Y, weights, fit_intercept)
    rows = np.array_split(np.arange(X.shape[0]), count)
    shards = [Shard(make_design(X[own], noise), loss, Y[own], weights[own]) for own in rows]
    traits = Objective.of(Ridge(), shards[0], fit_intercept).traits
    traits = traits._replace(n=X.shape[0], nnz=sum(shard.design.nnz for shard in shards))
    return Objective(Ridge(), Serial(), shards, traits, loss, Y.shape[1], fit_intercept)


# ----------------------------------------------------------------------------------------- linear models


def problem(estimator, n: int = 60, d: int = 6, n_classes: int = 3, seed: int = 0):
    """Non-negative features of unit size, and targets that suit the estimator."""
    rng = np.random.default_rng(seed)
    X = rng.gamma(1.0, size=(n, d))
    scores = (X - 1.0) @ rng.normal(size=(d, n_classes)) + 0.5 * rng.normal(size=(n, n_classes))
    if not is_classifier(estimator()):
        return X, scores[:, 0]
    if n_classes == 2:
        return X, np.where(scores[:, 0] > np.median(scores[:, 0]) + 0.5, 1, 0)
    return X, scores.argmax(axis=1)


def quiet(model, X, y, **kwargs):
    """Fit without a word about convergence, where a fit is cut short on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y, **kwargs)


def fitted_attributes(model) -> dict:
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


def assert_same_attributes(model, before: dict) -> None:
    after = fitted_attributes(model)
    assert after.keys() == before.keys()
    for name, value in before.items():
        assert_array_equal(after[name], value, err_msg=name)


def tight(estimator, noise, **parameters):
    """An estimator that leaves two equal problems no room for two answers."""
    plain_svm = noise == 0.0 and estimator is not DropoutLogisticRegression
    tol = 1e-5 if plain_svm else 1e-10
    return estimator(**{"C": 0.8, "noise": noise, "tol": tol, "max_iter": 20_000, **parameters})


def assert_same_solution(one, other) -> None:
    """Two fits of one problem: as close as their certificates say, ‖Δw‖ ≤ √(2·gap) for each."""
    far = np.sqrt(2 * one.optimality_gap_) + np.sqrt(2 * other.optimality_gap_)
    assert far < 0.05  # or there is nothing to see here
    assert np.linalg.norm(one.coef_ - other.coef_) <= far
    assert_allclose(one.objective_, other.objective_, rtol=0.2 * one.tol)
    assert_allclose(one.intercept_, other.intercept_, atol=far)
