"""Problems for the three linear estimators, and what their tests share."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning

from marginout import DropoutLogisticRegression, DropoutSVC, DropoutSVR

CLASSIFIERS = [DropoutSVC, DropoutLogisticRegression]
ESTIMATORS = [*CLASSIFIERS, DropoutSVR]
SOLVERS = ["ncg", "irls", "lbfgs"]
EXPECTATIONS = ["bound", "gaussian"]


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


with_and_without_noise = pytest.mark.parametrize("noise", [0.0, 0.3], ids=["no noise", "noise"])


def assert_same_solution(one, other) -> None:
    """Two fits of one problem: as close as their certificates say, ‖Δw‖ ≤ √(2·gap) for each."""
    far = np.sqrt(2 * one.optimality_gap_) + np.sqrt(2 * other.optimality_gap_)
    assert far < 0.05  # or there is nothing to see here
    assert np.linalg.norm(one.coef_ - other.coef_) <= far
    assert_allclose(one.objective_, other.objective_, rtol=0.2 * one.tol)
    assert_allclose(one.intercept_, other.intercept_, atol=far)
