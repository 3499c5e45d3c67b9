"""Solutions over a grid: each is what `fit` finds alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_diabetes, load_digits
from sklearn.preprocessing import scale

import marginout
from marginout.noise import BitSwap, Deletion, Dropout, Gaussian, GroupDropout, Poisson
from tests.paper import DropoutLogisticRegression, DropoutSVC, DropoutSVCCV, DropoutSVR

CS = [0.003, 0.1, 1.0]
NOISES = [0.0, 0.05, 0.5, 0.9, Gaussian(0.2), Deletion(0.4), Deletion(0.7), Poisson(), Dropout([0.3] * 12)]


def data(estimator):
    """Twelve non-negative features, and three classes or a regression."""
    if isinstance(estimator, DropoutSVR):
        X, y = load_diabetes(return_X_y=True)
        return np.abs(np.hstack([scale(X), scale(X)[:, :2]]))[:120], 10 + scale(y)[:120]
    X, y = load_digits(return_X_y=True)
    keep = np.flatnonzero(y < 3)[:120]
    return X[keep][:, 18:30] / 16, y[keep]


@pytest.mark.parametrize("solver", ["auto", "irls"])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    "estimator",
    [
        DropoutSVC(tol=1e-7, class_weight="balanced", max_iter=5000),
        DropoutSVC(tol=1e-7, margin=0.5, expectation="gaussian", max_iter=5000),
        DropoutLogisticRegression(tol=1e-7, fit_intercept=False, max_iter=5000),
        DropoutSVR(tol=1e-7, epsilon=0.2, max_iter=5000),
    ],
)
def test_every_cell_is_what_fit_finds(estimator, make, solver):
    X, y = data(estimator)
    weights = np.random.default_rng(0).random(len(y))
    estimator.set_params(solver=solver)
    path = marginout.path(estimator, make(X), y, Cs=CS, noises=NOISES, sample_weight=weights, n_jobs=2)
    assert path.noises == NOISES
    for i, C in enumerate(CS):
        for j, noise in enumerate(NOISES):
            estimator.set_params(C=C, noise=noise).fit(X, y, weights)
            assert path.objectives[i, j] == pytest.approx(estimator.objective_, rel=1e-5), (C, noise)
            assert path.gaps[i, j] >= 0
            coef = np.atleast_2d(estimator.coef_)
            assert_allclose(path.coefs[i, j], coef, atol=2e-2 * np.abs(coef).max() + 1e-4)
            assert_allclose(path.intercepts[i, j], estimator.intercept_, atol=2e-2)
    assert path.converged.all()


def test_threads_change_nothing_and_order_does_not_matter():
    X, y = data(DropoutSVC())
    one, two = (marginout.path(DropoutSVC(), X, y, Cs=CS, noises=[0.8, 0.0, 0.2], n_jobs=n) for n in (1, 2))
    assert_array_equal(one.coefs, two.coefs)
    mixed = marginout.path(DropoutSVC(), X, y, Cs=CS[::-1], noises=[0.8, 0.0, 0.2])
    assert_array_equal(mixed.Cs, CS)
    assert_array_equal(mixed.coefs, one.coefs)


def test_noise_that_moves_the_mean():
    X, y = data(DropoutSVC())
    X = (X > 0.5).astype(float)
    noises = [0.3, BitSwap(0.1), BitSwap(0.3)]
    path = marginout.path(DropoutSVC(tol=1e-7), X, y, Cs=CS, noises=noises)
    for j, noise in enumerate(noises):
        model = DropoutSVC(CS[1], noise=noise, tol=1e-7).fit(X, y)
        assert_allclose(path.intercepts[1, j], model.intercept_, atol=1e-2)
    with pytest.raises(ValueError, match="fit_intercept=False must be True"):
        marginout.path(DropoutSVC(fit_intercept=False), X, y, Cs=CS, noises=noises)


def test_groups_by_name():
    X, y = data(DropoutSVC())
    frame = pd.DataFrame(X, columns=[f"{'ab'[i % 2]}{i}" for i in range(12)])
    named, numbered = GroupDropout([["a"], ["b"]], 0.3), GroupDropout(np.arange(12) % 2, 0.3)
    one, other = (
        marginout.path(DropoutSVC(), frame, y, Cs=CS, noises=[noise]) for noise in (named, numbered)
    )
    assert_array_equal(one.coefs, other.coefs)


def test_the_estimator_is_left_alone():
    X, y = data(DropoutSVC())
    estimator = DropoutSVC(C=3.0, noise=0.2)
    path = marginout.path(estimator, X, y, Cs=2, noises=[0.5])
    assert estimator.get_params() == DropoutSVC(C=3.0, noise=0.2).get_params()
    assert not hasattr(estimator, "coef_")
    assert path.coefs.shape == (2, 1, 3, 12)
    assert_array_equal(path.classes, [0, 1, 2])


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"estimator": "svm"}, TypeError, "estimator='svm' must be a DropoutSVC"),
        ({"estimator": DropoutSVCCV()}, TypeError, "must be a DropoutSVC"),
        ({"Cs": []}, ValueError, "empty"),
        ({"Cs": [-1.0]}, ValueError, "must be a number > 0"),
        ({"noises": []}, ValueError, "empty"),
        ({"noises": [2.0]}, ValueError, "noise=2.0"),
        ({"y": np.zeros(120)}, ValueError, "one class only"),
        ({"y": np.zeros(119)}, ValueError, "inconsistent"),
        ({"X": np.full((120, 12), np.nan)}, ValueError, "NaN"),
        ({"sample_weight": np.zeros(120)}, ValueError, "sample_weight is zero"),
    ],
)
def test_bad_input_is_named(arguments, error, match):
    X, y = data(DropoutSVC())
    given = {"estimator": DropoutSVC(), "X": X, "y": y, "Cs": [0.1], "noises": [0.5]} | arguments
    with pytest.raises(error, match=match):
        marginout.path(given.pop("estimator"), given.pop("X"), given.pop("y"), **given)
