"""Dual coordinate descent: the offset against a search; the squared hinge against other solvers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from sklearn.svm import LinearSVC

from marginout._core.design.storage import make_design
from marginout.losses import SquaredHinge
from marginout.noise import Dropout
from marginout.solvers import choose, dual, lbfgs, ncg, soft_dual
from marginout.solvers.dual import balance, flattest, smoothest
from tests.paper import DropoutSVC, DropoutSVCCV
from tests.problems import make_objective


@pytest.mark.parametrize("seed", range(20))
def test_the_flattest_point_is_a_minimum(seed):
    """f(b) = Σ c·max(0, y·(k − b)) is no lower at any of its kinks, nor half-way between two of them."""
    rng = np.random.default_rng(seed)
    kinks, y = rng.normal(size=9).round(1), np.where(rng.random(9) < 0.5, 1.0, -1.0)
    c = rng.integers(1, 4, 9).astype(float)  # whole weights: some functions are flat somewhere

    def f(b):
        return float(c @ np.maximum(y * (kinks - b), 0.0))

    found = flattest(kinks, c, -float(c[y > 0].sum()))
    ends = np.sort(kinks)
    others = [*ends, *(0.5 * (ends[1:] + ends[:-1]))]
    assert f(found) <= min(map(f, others)) + 1e-12


def test_the_middle_of_a_flat_piece():
    assert flattest(np.array([3.0, 1.0]), np.array([1.0, 1.0]), -1.0) == 2.0
    assert flattest(np.array([3.0]), np.array([2.0]), -2.0) == 3.0  # constant from its only kink on


def test_balance():
    assert balance(2.0, 1.0) == (0.5, 1.0)
    assert balance(0.0, 1.0) == (0.0, 0.0)


@pytest.mark.parametrize("seed", range(20))
def test_the_smoothest_point_is_a_minimum(seed):
    """Of Σ c·max(0, y·(k − b))² no point of a search in the bracket is lower, one class or two."""
    rng = np.random.default_rng(seed)
    kinks, c, y = rng.normal(size=9), rng.random(9), np.where(rng.random(9) < 0.5, 1.0, -1.0)
    y[:] = (1.0, -1.0)[seed] if seed < 2 else y
    kinks += 1e6 if seed == 3 else 0.0

    def f(b):
        return float(c @ np.maximum(y * (kinks - b), 0.0) ** 2)

    up = y > 0
    found = smoothest(kinks[up], 2 * c[up], kinks[~up], 2 * c[~up])
    best = minimize_scalar(f, bounds=(kinks.min(), kinks.max()), method="bounded", options={"xatol": 1e-12})
    assert f(found) <= min([best.fun, *map(f, kinks)]) * (1 + 1e-9) + 1e-18


def test_the_offset_between_classes_that_are_apart():
    assert 0.0 <= smoothest(np.array([0.0, -1.0]), np.ones(2), np.array([2.0, 5.0]), np.ones(2)) <= 2.0


def squared(X, Y, weights, offset=True, noise=0.0):
    return make_objective(make_design(X, Dropout(noise)), SquaredHinge(), Y, weights, offset)


def text(n=120, d=400, classes=3, seed=0):
    """Sparse counts with more features than examples, labels that depend on them, and uneven weights."""
    rng = np.random.default_rng(seed)
    X = sp.random_array(
        (n, d), density=0.04, format="csr", rng=rng, data_sampler=lambda size: rng.poisson(1.0, size) + 1.0
    )
    y = np.argmax(X @ rng.normal(size=(d, classes)) + rng.normal(size=(n, classes)), axis=1)
    weights = rng.gamma(2.0, 0.5, n)
    weights[::7] = 0.0
    return X, y, weights


@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("make", [sp.csr_array, lambda X: X.toarray()], ids=["csr", "dense"])
@pytest.mark.parametrize("C", [0.01, 1.0, 10.0])
def test_the_squared_hinge_has_the_optimum_of_other_solvers(C, make, offset):
    """Within the certificates, for three problems with zero weights; the gap is a bound early, too."""
    X, y, s = text()
    Y = np.where(y[:, None] == np.arange(3), 1.0, -1.0)
    objective = squared(make(X), Y, C * s[:, None], offset)
    start = np.zeros((X.shape[1], 3)), np.zeros(3)
    end = dual.solve(objective, *start, tol=1e-9, max_iter=10_000)
    assert end.converged.all()
    for solve in (ncg.solve, lbfgs.solve, soft_dual.solve):
        other = solve(objective, *start, tol=1e-8, max_iter=10_000)
        assert np.all(end.value <= other.value * (1 + 1e-9))
        assert np.all(other.value - end.value <= 2e-8 * end.value)
    for sweeps in (1, 3, 10, 30):
        early = dual.solve(objective, *start, tol=1e-12, max_iter=sweeps)
        assert np.all(early.value - end.value <= early.gap)
        assert np.all(early.gap >= 0)


def test_the_squared_hinge_is_that_of_linear_svc():
    """The same coefficients without an offset, on data with a constant column."""
    X, y, s = text()
    X = sp.csr_array(sp.hstack([X, np.ones((X.shape[0], 1))]))
    for C in (0.03, 1.0, 30.0):
        theirs = LinearSVC(C=C, tol=1e-9, fit_intercept=False, max_iter=1_000_000).fit(X, y, sample_weight=s)
        ours = DropoutSVC(C, noise=0.0, loss="squared_hinge", fit_intercept=False, tol=1e-12).fit(
            X, y, sample_weight=s
        )
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-6)


def test_auto_takes_it_for_sparse_text_without_noise():
    """With more features than examples, and enough weight; elsewhere others are as fast."""
    X, y, s = text(300, 1000)
    Y, s = np.where(y[:, None] == np.arange(3), 1.0, -1.0), 10 * s[:, None]
    assert choose("auto", squared(X, Y, s)) is soft_dual.solve
    assert choose("ncg", squared(X, Y, s)) is ncg.solve
    tall = sp.csr_array(sp.vstack([X] * 4))
    others = [
        squared(X, Y, s, noise=0.3),
        squared(X, Y, 1e-4 * s),
        squared(X.toarray() + 0.5, Y, s),
        squared(tall, np.tile(Y, (4, 1)), np.tile(s, (4, 1))),
    ]
    assert all(choose("auto", other) is not soft_dual.solve for other in others)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_class_weights_and_a_warm_start(class_weight):
    X, y, s = text(300, 1000)
    options = {
        "loss": "squared_hinge",
        "noise": 0.0,
        "class_weight": class_weight,
        "tol": 1e-8,
        "max_iter": 10_000,
    }
    auto = DropoutSVC(30.0, **options).fit(X, y, sample_weight=s)
    named = DropoutSVC(30.0, solver="ncg", **options).fit(X, y, sample_weight=s)
    np.testing.assert_allclose(auto.objective_, named.objective_, rtol=3e-8)
    np.testing.assert_allclose(auto.coef_, named.coef_, atol=2e-3)


def test_dual_variables_of_a_smaller_c_start_a_larger_one():
    X, y, s = text(classes=2)
    Y, start = np.where(y == 1, 1.0, -1.0)[:, None], (np.zeros((X.shape[1], 1)), np.zeros(1))
    beta = np.zeros_like(Y)
    light = dual.solve(squared(X, Y, s[:, None]), *start, tol=1e-8, max_iter=1000, beta=beta)
    assert np.all(beta * Y >= 0)
    assert np.all(beta[s == 0] == 0)
    np.testing.assert_allclose(X.T @ beta, light.W, atol=1e-10)
    heavy = squared(X, Y, 1.2 * s[:, None])
    cold = dual.solve(heavy, *start, tol=1e-8, max_iter=1000)
    warm = dual.solve(heavy, light.W, light.b, tol=1e-8, max_iter=1000, beta=beta)
    assert warm.converged.all()
    assert warm.n_iter <= cold.n_iter
    np.testing.assert_allclose(warm.value, cold.value, rtol=2e-8)


def test_a_search_finds_what_separate_fits_find():
    """On every training set, at every C along the way, where each starts from the one before."""
    X, y, _ = text(300, 1000)
    options = {"loss": "squared_hinge", "tol": 1e-8, "max_iter": 10_000}
    Cs, rows, found = [0.1, 1.0, 10.0, 100.0], np.arange(len(y)), []

    def keep(model, X, y):
        found.append(model)
        return 0.0

    DropoutSVCCV(Cs, [0.0], cv=[(rows[60:], rows[:60])], scoring=keep, refit=False, **options).fit(X, y)
    for C, model in zip(Cs, found, strict=True):
        alone = DropoutSVC(C, noise=0.0, solver="ncg", **options).fit(X[60:], y[60:])
        np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-3)
        np.testing.assert_allclose(model.intercept_, alone.intercept_, atol=1e-3)
