"""Features far from zero, with little noise: the stop must know how far the optimum is.

Under additive noise the minimum does not depend on where zero lies; under the others it is SciPy's, in
variables that centre the features.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from marginout import blocks
from marginout._core.design.storage import make_design
from marginout.losses import Hinge
from marginout.noise import Dropout, Gaussian, GroupDeletion, GroupDropout, Laplace
from marginout.solvers import single_precision
from tests.paper import DropoutLogisticRegression, DropoutSVC, DropoutSVR
from tests.problems import ESTIMATORS, EXPECTATIONS, SOLVERS, make_objective

N, D = 150, 8
GROUPS = np.arange(D) // 2
STORAGES = [np.asarray, lambda X: X.astype(np.float32), sp.csr_array]
#: What a fit promises: a factor of ten is left for its estimate of the suboptimality to err.
TOL = 1e-3


def data(offset: float, classes: bool):
    """Features of unit deviation around an offset, whole multiples of 2⁻⁸: float32 holds them too."""
    rng = np.random.default_rng(0)
    X = np.round(256 * rng.normal(size=(N, D))) / 256
    y = X @ rng.normal(size=D) + 0.3 * rng.normal(size=N)
    return X + offset, np.where(y > 0, 1, -1) if classes else y


@pytest.mark.parametrize("storage", STORAGES, ids=["float64", "float32", "csr"])
@pytest.mark.parametrize("expectation", EXPECTATIONS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_additive_noise_finds_the_minimum_wherever_zero_lies(estimator, expectation, storage):
    for noise in Gaussian(0.001), Gaussian(0.02), Laplace(0.5):
        for C in 1e-3, 1.0, 1e3:
            model = estimator(C, noise=noise, expectation=expectation)
            classes = estimator is not DropoutSVR
            best = estimator(C, noise=noise, expectation=expectation, tol=1e-7).fit(*data(0.0, classes))
            for offset in 3.0, 30.0, 1e3, 1e4:
                X, y = data(offset, classes)
                with warnings.catch_warnings():
                    warnings.simplefilter("error", ConvergenceWarning)
                    model.fit(storage(X), y)
                assert model.objective_ <= (1 + TOL) * best.objective_
                # The certificate can be as tight as the last digit of F.
                assert model.objective_ - model.optimality_gap_ <= (1 + 1e-15) * best.objective_


def minimum(X, y, C: float, variance, fit_intercept: bool = True) -> float:
    """min over w, b of ½‖w‖² + C Σ ½(z + √(z² + v)), z = 1 − y(w·x + b): the bound on the hinge loss."""
    middle = X.mean(axis=0) if fit_intercept else np.zeros(D)

    def f(u):
        w, c = u[:-1], u[-1]
        z = 1 - y * ((X - middle) @ w + c * fit_intercept)
        v, dv = variance(w)
        root = np.sqrt(z * z + v + 1e-20)
        slope = -0.5 * C * y * (1 + z / root)
        G = w + (X - middle).T @ slope + dv.T @ (0.25 * C / root)
        if not fit_intercept:  # c must have a minimum, too, or the Hessian is singular
            return 0.5 * u @ u + 0.5 * C * np.sum(z + root), np.append(G, c)
        return 0.5 * w @ w + 0.5 * C * np.sum(z + root), np.append(G, slope.sum())

    def hessian(u):
        step = 1e-6 * np.eye(len(u)) / np.append(np.maximum(1.0, np.abs(X.mean(axis=0))), 1.0)[:, None]
        H = np.array([(f(u + s)[1] - f(u - s)[1]) / (2 * s.sum()) for s in step])
        return 0.5 * (H + H.T)

    start = np.full(D + 1, 1e-8)
    return float(minimize(f, start, jac=True, hess=hessian, method="trust-exact", options={"gtol": 1e-8}).fun)


@pytest.mark.parametrize("offset", [30.0, 300.0])
@pytest.mark.parametrize(
    "noise",
    [Dropout(0.01), GroupDropout(GROUPS, 0.1), GroupDeletion(GROUPS, 0.1)],
    ids=["dropout", "groups", "groups deleted"],
)
def test_noise_that_grows_with_features_finds_the_minimum_far_from_zero(noise, offset):
    X, y = data(offset, classes=True)
    scale, kappa, _, groups = noise.moments(D)
    together = np.eye(D) if groups is None else np.asarray(groups[:, None] == groups, dtype=float)

    def variance(w):
        """v = Σ_g κ s², s = w_g·m_g, and ∂v/∂w."""
        sums = (M * w) @ together
        return (kappa * M * w * sums).sum(axis=1), 2 * kappa * M * sums

    M = scale * X
    for C in 1e-3, 1.0:
        best = minimum(M, y, C, variance)
        for solver in SOLVERS:
            model = DropoutSVC(C, noise=noise, solver=solver).fit(X, y)
            assert best * (1 - 1e-6) <= model.objective_ <= best * (1 + TOL)


@pytest.mark.parametrize("offset", [30.0, 300.0, 1000.0])
@pytest.mark.parametrize(
    "noise", [Gaussian(0.001), Gaussian(0.02), GroupDropout(GROUPS, 0.1)], ids=["little", "more", "groups"]
)
def test_without_an_offset_the_minimum_is_found_far_from_zero(noise, offset):
    X, y = data(offset, classes=True)
    _, kappa, _, groups = noise.moments(D)
    together = np.eye(D) if groups is None else np.asarray(groups[:, None] == groups, dtype=float)
    M = np.ones_like(X) if groups is None else X

    def variance(w):
        sums = (M * w) @ together
        return (kappa * M * w * sums).sum(axis=1), 2 * kappa * M * sums

    for C in 1e-3, 1.0:
        best = minimum(X, y, C, variance, fit_intercept=False)
        for solver in SOLVERS:
            model = DropoutSVC(C, noise=noise, solver=solver, fit_intercept=False)
            for storage in STORAGES:
                model.fit(storage(X), y)
                assert best * (1 - 1e-6) <= model.objective_ <= best * (1 + TOL)
            if solver != "irls":
                blocks.fit(model, [(X[:70], y[:70]), (X[70:], y[70:])], storage="memory")
                assert best * (1 - 1e-6) <= model.objective_ <= best * (1 + TOL)


@pytest.mark.parametrize("noise", [Gaussian(0.02), GroupDropout(GROUPS, 0.1)], ids=["gaussian", "groups"])
def test_blocks_find_the_minimum_far_from_zero(noise):
    X, y = data(100.0, classes=True)
    best = DropoutLogisticRegression(noise=noise, tol=1e-7).fit(X, y).objective_
    for solver in "ncg", "lbfgs":
        model = DropoutLogisticRegression(noise=noise, solver=solver)
        blocks.fit(model, [(X[:70], y[:70]), (X[70:], y[70:])], storage="memory")
        assert best * (1 - 1e-6) <= model.objective_ <= best * (1 + TOL)


@pytest.mark.skipif(not single_precision._single_precision.AVAILABLE, reason="this processor has no AVX2")
def test_the_quick_way_of_searches_does_not_go_far_from_zero():
    """It does not centre, and its estimate of the suboptimality is not to be believed there."""
    for offset, near in (1.0, True), (100.0, False):
        X, y = data(offset, classes=True)
        for fit_intercept in True, False:
            design = make_design(sp.csr_array(X), Dropout(0.01))
            objective = make_objective(design, Hinge(), y[:, None] * 1.0, np.ones((N, 1)), fit_intercept)
            assert single_precision.suits(objective) == near


@pytest.mark.parametrize("rate", [1e-9, 1e-6])
def test_hardly_any_group_noise_a_million_deviations_from_zero(rate):
    X, y = data(1e6, classes=True)
    noise = GroupDropout(GROUPS, rate)
    together = np.asarray(GROUPS[:, None] == GROUPS, dtype=float)

    def variance(w):
        sums = (X * w) @ together
        kappa = rate / (1 - rate)
        return (kappa * X * w * sums).sum(axis=1), 2 * kappa * X * sums

    for C in 1e-2, 1.0:
        best = minimum(X, y, C, variance)
        for storage in STORAGES[::2]:
            assert best * (1 - 1e-6) <= DropoutSVC(C, noise=noise).fit(storage(X), y).objective_
            assert DropoutSVC(C, noise=noise).fit(storage(X), y).objective_ <= best * (1 + TOL)
