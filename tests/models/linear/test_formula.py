"""The linear estimators minimise what their docstrings say, and report how well."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm
from sklearn.base import is_classifier

from marginout.noise import Deletion, Dropout, Gaussian, Laplace, Poisson
from tests.paper import DropoutSVC, DropoutSVR
from tests.problems import ESTIMATORS, EXPECTATIONS, SOLVERS, problem, quiet

#: Mean and variance of a corrupted entry, written down again, and not taken from marginout.noise.
NOISES = {
    0.0: (lambda x: x, lambda x: 0 * x),
    0.3: (lambda x: x, lambda x: 0.3 / 0.7 * x**2),
    Dropout([0.1, 0.9, 0.0, 0.5, 0.5, 0.2]): (
        lambda x: x,
        lambda x: np.array([1 / 9, 9.0, 0.0, 1.0, 1.0, 0.25]) * x**2,
    ),
    Deletion(0.3): (lambda x: 0.7 * x, lambda x: 0.21 * x**2),
    Gaussian(0.4): (lambda x: x, lambda x: np.full_like(x, 0.4)),
    Laplace(0.5): (lambda x: x, lambda x: np.full_like(x, 0.5)),
    Poisson(): (lambda x: x, lambda x: x),
}


def expected_abs(z, v, expectation):
    """E|ζ| for a score of mean z and variance v: its bound, or its value for a normal ζ."""
    if expectation == "bound":
        return np.sqrt(z**2 + v)
    s = np.sqrt(np.maximum(v, 1e-300))
    return z * (2 * norm.cdf(z / s) - 1) + 2 * s * norm.pdf(z / s)


def expected_loss(model, m, v, y):
    """E loss of the class docstrings, by formulas of its own."""
    expectation = model.expectation
    if isinstance(model, DropoutSVC):
        z = model.margin - y * m
        return 0.5 * (z + expected_abs(z, v, expectation))
    if isinstance(model, DropoutSVR):
        low, high = y - m - model.epsilon, y - m + model.epsilon
        return 0.5 * (expected_abs(low, v, expectation) + expected_abs(high, v, expectation)) - model.epsilon
    if expectation == "bound":
        w = np.sqrt(m**2 + v)
        return np.logaddexp(0.5 * w, -0.5 * w) - 0.5 * y * m
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    scores = m[..., None] + np.sqrt(v)[..., None] * nodes
    return np.logaddexp(0, -y[..., None] * scores) @ weights / np.sqrt(2 * np.pi)


def objective(model, X, y, moments, sample_weight=1.0) -> float:
    """F of the class docstrings at coef_ and intercept_, summed over the one-vs-rest problems."""
    mean, variance = moments
    W = np.atleast_2d(model.coef_).T
    m = mean(X) @ W + model.intercept_
    v = variance(X) @ W**2
    if is_classifier(model):
        classes = model.classes_[1:] if len(model.classes_) == 2 else model.classes_
        Y = np.where(np.asarray(y)[:, None] == classes, 1.0, -1.0)
    else:
        Y = y[:, None]
    losses = (np.ones(len(X)) * sample_weight) @ expected_loss(model, m, v, Y)
    return float(0.5 * np.sum(W**2) + model.C * losses.sum())


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("expectation", EXPECTATIONS)
@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_objective_is_the_formula(estimator, expectation, noise, n_classes):
    X, y = problem(estimator, n_classes=n_classes)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    special = {"margin": 0.7} if estimator is DropoutSVC else {}
    special = {"epsilon": 0.3} if estimator is DropoutSVR else special
    model = estimator(C=0.6, noise=noise, expectation=expectation, **special)
    quiet(model, X, y, sample_weight=weights)
    assert_allclose(model.objective_, objective(model, X, y, NOISES[noise], weights), rtol=1e-8)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("expectation", EXPECTATIONS)
@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_no_direction_leads_down(estimator, expectation, noise):
    """Steps from the solution, those of the offset among them, lower the formula by no more than tol says."""
    X, y = problem(estimator, n_classes=2)
    tol = 1e-6 if noise else 1e-5
    model = estimator(C=0.6, noise=noise, expectation=expectation, tol=tol, max_iter=10_000).fit(X, y)
    least = model.objective_ * (1 - 0.1 * tol)
    coef, intercept = model.coef_, model.intercept_
    rng = np.random.default_rng(2)
    for size in 1e-1, 1e-2, 1e-3:
        for _ in range(20):
            model.coef_ = coef + size * rng.normal(size=coef.shape)
            model.intercept_ = intercept + size * rng.normal(size=1)
            assert objective(model, X, y, NOISES[noise]) >= least
        for step in -size, size:
            model.coef_, model.intercept_ = coef, intercept + step
            assert objective(model, X, y, NOISES[noise]) >= least


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_report_is_consistent(estimator, solver, n_classes):
    X, y = problem(estimator, n_classes=n_classes)
    model = estimator(C=2.0, noise=0.2, solver=solver, tol=1e-6).fit(X, y)
    K = 3 if is_classifier(model) and n_classes == 3 else 1
    assert model.coef_.shape == ((K, 6) if is_classifier(model) else (6,))
    assert model.intercept_.shape == (K,)
    assert model.coef_.dtype == model.intercept_.dtype == np.float64
    assert model.n_features_in_ == 6
    assert type(model.n_iter_) is int
    assert type(model.objective_) is type(model.optimality_gap_) is float
    assert 1 < model.n_iter_ < model.max_iter
    assert model.objective_history_.shape == (model.n_iter_,)
    assert_allclose(model.objective_history_[-1], model.objective_, rtol=1e-14)
    assert (np.diff(model.objective_history_) <= 1e-12 * model.objective_).all()


@pytest.mark.parametrize("estimator", [DropoutSVC, DropoutSVR])
@pytest.mark.parametrize("shape", [(60, 6), (1600, 160)], ids=["Newton", "dual"])
def test_report_without_noise(estimator, shape):
    """Without noise the history holds F at every check of the duality gap, and ends at the solution."""
    X, y = problem(estimator, *shape, n_classes=2)
    model = estimator(C=0.01, noise=0.0).fit(X - 1.0, y)
    assert model.objective_history_[-1] == model.objective_
    assert 1 <= len(model.objective_history_) <= model.n_iter_ < model.max_iter
    assert 0 <= model.optimality_gap_ <= 1e-4 * model.objective_


@lru_cache
def best_known(estimator, expectation, noise, seed) -> float:
    """The lowest F that a long fit finds, for the problem of a seed."""
    X, y = problem(estimator, n_classes=2, seed=seed)
    return quiet(estimator(noise=noise, expectation=expectation, tol=1e-9, max_iter=20_000), X, y).objective_


settings = pytest.mark.parametrize(
    ("noise", "solver"),
    [
        (0.0, "auto"),
        *((noise, solver) for noise in (0.01, 0.1, 0.5, 0.95, Gaussian(0.2)) for solver in SOLVERS),
    ],
    ids=str,
)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("expectation", EXPECTATIONS)
@settings
def test_the_gap_is_a_certificate(estimator, expectation, noise, solver):
    """However early a fit stops: F at its solution, less the gap, is below F anywhere."""
    for seed in range(2):
        X, y = problem(estimator, n_classes=2, seed=seed)
        best = best_known(estimator, expectation, noise, seed)
        for max_iter, tol in (1, 1e-3), (3, 1e-3), (1000, 1e-2), (1000, 1e-3):
            model = estimator(noise=noise, expectation=expectation, solver=solver, max_iter=max_iter, tol=tol)
            quiet(model, X, y)
            assert model.objective_ - model.optimality_gap_ <= best * (1 + 1e-12)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("expectation", EXPECTATIONS)
@settings
def test_tol_is_kept(estimator, expectation, noise, solver):
    """A fit that warns of nothing is within tol, relatively, of the best that is known.

    It stops at an estimate of tol/10, so there is a margin of ten for the estimate's error.
    """
    for seed in range(2):
        X, y = problem(estimator, n_classes=2, seed=seed)
        model = estimator(noise=noise, expectation=expectation, solver=solver).fit(X, y)
        assert model.objective_ <= best_known(estimator, expectation, noise, seed) * (1 + 1e-3)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("expectation", EXPECTATIONS)
def test_the_origin_is_no_trap(solver, expectation):
    """Where noise drowns the features F has a kink at w = 0, next to its minimum but not its minimum."""
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(40, 3))
    X[X < 0.6] = 0.0
    y = rng.randint(0, 3, size=40)
    best = quiet(DropoutSVC(expectation=expectation, tol=1e-8, max_iter=20_000), X, y).objective_
    model = DropoutSVC(expectation=expectation, solver=solver).fit(X, y)
    assert model.objective_ <= best * (1 + 1e-3)


#: Corners that are known to be hard: counts and booleans, drowned in noise or hardly touched by it.
CORNERS = {
    "booleans, little C, hardly any noise": (1, {"C": 0.01, "noise": 1e-6, "expectation": "gaussian"}),
    "booleans, little C, heavy noise": (4, {"C": 0.01, "noise": 0.9, "expectation": "gaussian"}),
    "counts, heavy noise": (8, {"C": 1.0, "noise": 0.9}),
    "numbers, large C, hardly any noise": (9, {"C": 100.0, "noise": 1e-6}),
}


def corner(seed: int):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(10, 200)), int(rng.integers(1, 30))
    X = rng.normal(size=(n, d))
    if seed % 3:
        X = (X > 0).astype(float) if seed % 3 == 1 else rng.poisson(0.3, size=(n, d)).astype(float)
    f = X @ rng.normal(size=d) + rng.normal(size=n)
    return X, np.where(f > np.median(f) + 0.3, 1, 0)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", CORNERS)
def test_hard_corners(solver, name):
    """A fit that warns of nothing is as good as tol says, and its gap is true."""
    seed, parameters = CORNERS[name]
    X, y = corner(seed)
    best = quiet(DropoutSVC(tol=1e-9, max_iter=20_000, **parameters), X, y).objective_
    model = DropoutSVC(solver=solver, **parameters).fit(X, y)
    assert model.objective_ - model.optimality_gap_ <= best * (1 + 1e-12)
    assert model.objective_ <= best * (1 + 1e-3)
