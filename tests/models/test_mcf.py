"""MCF against enumeration of masks, quadrature, sampling, finite differences, cvxpy and scikit-learn."""

from __future__ import annotations

import itertools
import os
import warnings
from dataclasses import replace
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from marginout import MCFClassifier, MCFRegressor
from marginout._core import penalties
from marginout._core.design.storage import make_design
from marginout._models.mcf import least_squares
from marginout._models.mcf.cumulants import (
    Coding,
    CountCumulants,
    DeletionCumulants,
    JointCountCumulants,
    make_cumulants,
)
from marginout._models.mcf.objective import MgfObjective
from marginout.noise import BitSwap, Deletion, Dropout, Gaussian, Laplace, Moments, Noise, Poisson, Thinning
from marginout.solvers._systems import FORMS
from tests.paper import DropoutSVC
from tests.problems import fitted_attributes

N, D = 30, 5
_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(N, D)) * (_RNG.random((N, D)) < 0.7)
COUNTS = _RNG.poisson(1.0, size=(N, D)).astype(float)
BITS = (X != 0).astype(float)
LABELS = _RNG.integers(0, 3, N)
LABELS[:3] = [0, 1, 2]
SIGNS = np.where(X[:, 0] + 0.5 * _RNG.normal(size=N) > 0, 1, -1)
TARGET = X @ np.arange(D) + _RNG.normal(size=N) + 3.0
WEIGHTS = np.linspace(0.2, 2.0, N)

RATES = np.array([0.0, 0.2, 0.5, 0.9, 0.99])
NOISES = {
    "Dropout": (Dropout(0.4), X),
    "Dropout, each": (Dropout(np.minimum(RATES, 0.9)), X),
    "Deletion": (Deletion(0.4), X),
    "Deletion, each": (Deletion(RATES), X),
    "Deletion, counts": (Deletion(RATES), COUNTS),
    "Gaussian": (Gaussian(0.3), X),
    "Gaussian, each": (Gaussian([0.0, 0.1, 0.2, 0.3, 2.0]), X),
    "Laplace": (Laplace(0.2), X),
    "Laplace, each": (Laplace([0.0, 0.1, 0.2, 0.3, 0.05]), X),
    "Poisson": (Poisson(), COUNTS),
    "Thinning": (Thinning(0.4), COUNTS),
    "Thinning, each": (Thinning(np.minimum(RATES, 0.9)), COUNTS),
    "BitSwap": (BitSwap(0.2), BITS),
    "BitSwap, each": (BitSwap(RATES), BITS),
}
each_noise = pytest.mark.parametrize("case", NOISES)
STORAGES = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "csr": sp.csr_array,
    "csr, int64": lambda X: _int64(sp.csr_matrix(X)),
}


def _int64(X):
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def codings():
    """A joint problem of three classes, and a binary one with targets 1 and −1/2."""
    classes = LABELS.astype(np.int64)
    joint = Coding(classes, np.ones((3, 3)), True)
    return joint, Coding((classes > 0).astype(np.int64), np.array([[0.5], [-1.0]]), False)


def outcomes(noise, x):
    """All that a noise can turn a row into, with probabilities: for deletions and swaps."""
    rate = np.broadcast_to(noise.rate, x.shape)
    if isinstance(noise, BitSwap):
        other, same = 1 - x, x
    else:
        other, same = np.zeros_like(x), x / (1 - rate) if isinstance(noise, Dropout) else x
    for events in itertools.product([False, True], repeat=len(x)):
        hit = np.array(events)
        yield np.where(hit, other, same), np.prod(np.where(hit, rate, 1 - rate))


def log_mgf(noise, t, x):
    """log E exp(t·x̃) of a row: enumeration, SciPy's closed forms, or the counts' series."""
    if isinstance(noise, Thinning):
        return sum(map(log_mgf_of_thinned, x.astype(int), np.broadcast_to(1 - noise.rate, x.shape), t))
    if hasattr(noise, "rate"):
        values, probabilities = zip(*outcomes(noise, x), strict=True)
        return np.log(np.exp(np.array(values) @ t) @ np.array(probabilities))
    if isinstance(noise, Gaussian):
        return t @ x + 0.5 * np.sum(noise.variance * t**2)
    if isinstance(noise, Laplace):
        return t @ x - np.sum(np.log(1 - (noise.scale * t) ** 2))
    k = np.arange(60)
    factorials = np.cumsum(np.log(np.maximum(k, 1)))
    terms = [
        np.where(m > 0, k * np.log(m or 1.0), np.where(k == 0, 0.0, -np.inf)) - m - factorials for m in x
    ]
    return sum(np.log(np.exp(term + k * s).sum()) for term, s in zip(terms, t, strict=True))


def log_mgf_of_thinned(x, kept, t):
    """log E exp(t·Bin(x, kept)/kept), the sum over all that can be left."""
    left = np.arange(x + 1)
    return np.log(np.sum(stats.binom(x, kept).pmf(left) * np.exp(t * left / kept)))


# --------------------------------------------------------------------------- the cumulants


def cumulants_of(data, noise, coding):
    return make_cumulants(make_design(data, noise), noise, coding)


@each_noise
@pytest.mark.parametrize("storage", STORAGES)
def test_cumulants_are_those_of_all_events(case, storage):
    noise, data = NOISES[case]
    for coding in codings():
        K = coding.a.shape[1]
        W = np.random.default_rng(1).normal(size=(D, K)) * 0.5
        found = cumulants_of(STORAGES[storage](data), noise, coding).forward(W)
        for n in range(0, N, 7):
            T = coding.contrast(W, coding.classes[n])
            expected = [log_mgf(noise, T[:, k], data[n]) for k in range(K)]
            assert_allclose(found[n], expected, atol=1e-5 if storage == "float32" else 1e-11)


@each_noise
def test_gradients_by_finite_differences(case):
    noise, data = NOISES[case]
    for coding in codings():
        for loss in ["logistic"] if coding.joint else ["logistic", "exponential"]:
            for fit_intercept in (True, False):
                objective = MgfObjective(
                    penalties.Ridge(), make_design(data, noise), noise, coding, WEIGHTS, loss, fit_intercept
                )
                W = np.random.default_rng(1).normal(size=(D, objective.K)) * 0.5
                b = np.zeros(objective.K)
                G = objective.gradient(objective.point(W, b))
                steps = 1e-5 * np.eye(W.size).reshape(-1, *W.shape)
                slopes = [objective.point(W + E, b).value - objective.point(W - E, b).value for E in steps]
                assert_allclose(G.ravel(), np.array(slopes) / 2e-5, rtol=1e-6, atol=1e-6)


def test_large_whole_numbers_in_few_columns():
    """More different values than there are entries: no table of them."""
    counts = np.rint(1000 * np.abs(X[:, :2]))
    plain, sparse = (MCFClassifier(tol=1e-8).fit(data, SIGNS) for data in (counts, sp.csr_array(counts)))
    assert_allclose(sparse.coef_, plain.coef_, rtol=1e-6)


def test_counts_take_the_same_values_by_another_road():
    counts = np.random.default_rng(2).poisson(0.3, size=(300, 8)).astype(float)
    classes = np.random.default_rng(3).integers(0, 2, 300).astype(np.int64)
    coding = Coding(classes, np.array([[1.0], [-1.0]]), False)
    noise = Dropout([0.0, 0.1, 0.5, 0.9, 0.3, 0.3, 0.3, 0.999])
    quick = cumulants_of(sp.csr_array(counts), noise, coding)
    plain = cumulants_of(counts, noise, coding)
    assert isinstance(quick, CountCumulants)
    assert isinstance(plain, DeletionCumulants)
    for size in (0.1, 1e4):
        W = np.random.default_rng(4).normal(size=(8, 1)) * size
        R = np.random.default_rng(5).random((300, 1))
        assert_allclose(quick.forward(W), plain.forward(W), rtol=1e-12, atol=1e-12)
        assert_allclose(quick.backward(W, R), plain.backward(W, R), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("threads", [1, 3])
def test_joint_counts_take_the_same_values_by_another_road(threads, index, monkeypatch):
    monkeypatch.setattr("marginout._models.mcf.cumulants.worker_threads", lambda work: threads)
    rng = np.random.default_rng(2)
    counts = rng.poisson(0.5, size=(300, 40)) - rng.poisson(0.1, size=(300, 40))
    coding = Coding(rng.integers(0, 3, 300), np.ones((5, 5)), True)  # two classes have no examples
    noise = Deletion(rng.choice([0.0, 1e-200, 0.1, 0.5, 0.9, 1 - 1e-9], 40))
    rows = sp.csr_array(counts.astype(float))
    rows.indices, rows.indptr = rows.indices.astype(index), rows.indptr.astype(index)
    quick, plain = cumulants_of(rows, noise, coding), cumulants_of(counts.astype(float), noise, coding)
    assert isinstance(quick, JointCountCumulants)
    assert not isinstance(plain, JointCountCumulants)
    for size in (0.1, 3.0, 30.0, 1e4):  # many factors in a product, few, one, none: no table
        W = rng.normal(size=(40, 5)) * size
        R = rng.random((300, 5))
        assert (quick._table(W) is None) == (size == 1e4)
        assert_allclose(quick.forward(W), plain.forward(W), rtol=1e-12, atol=1e-11)
        assert_allclose(quick.backward(W, R), plain.backward(W, R), rtol=1e-10, atol=1e-11)


def test_counts_without_noise_need_no_table():
    counts = sp.csr_array(np.random.default_rng(2).poisson(0.5, size=(50, 8)).astype(float))
    coding = Coding(np.arange(50) % 3, np.ones((3, 3)), True)
    cumulants = cumulants_of(counts, Dropout(0.0), coding)
    assert not isinstance(cumulants, JointCountCumulants)
    W = np.random.default_rng(4).normal(size=(8, 3))
    scores = counts @ W
    assert_allclose(cumulants.forward(W), scores - scores[np.arange(50), coding.classes][:, None], atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_entries_beyond_the_last_row_are_no_entries(classes):
    counts = sp.csr_matrix(np.random.default_rng(2).poisson(0.5, size=(200, 10)).astype(float))
    labels = np.arange(200) % classes
    wanted = MCFClassifier(noise=0.5).fit(counts, labels)
    counts.data, counts.indices = np.r_[counts.data, 0.5, 8.0], np.r_[counts.indices, [1, 2]].astype(np.int32)
    assert_array_equal(MCFClassifier(noise=0.5).fit(counts, labels).coef_, wanted.coef_)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_long_rows_and_extreme_rates(size):
    """Products of hundreds of factors, some as small as a rate, do not leave the range of doubles."""
    rng = np.random.default_rng(6)
    data, labels = rng.normal(size=(20, 700)), np.arange(20) % 3
    noise = Deletion(rng.choice([0.0, 1e-250, 1e-150, 1e-3, 0.5, 0.9, 1 - 1e-12], 700))
    coding = Coding(labels, np.ones((3, 3)), True)
    W, R = rng.normal(size=(700, 3)) * size, rng.random((20, 3))
    cumulants = cumulants_of(data, noise, coding)
    assert isinstance(cumulants, DeletionCumulants)
    q = noise.rate[:, None]
    G, Y = np.zeros_like(W), np.eye(3)[labels]
    with np.errstate(divide="ignore"):
        for x, r, own, found in zip(data, R, Y, cumulants.forward(W), strict=True):
            z = x[:, None] * (W - (W @ own)[:, None])
            log_mgfs = np.logaddexp(np.log(q), np.log1p(-q) + z)
            assert_allclose(found, log_mgfs.sum(axis=0), rtol=1e-12, atol=1e-12 * np.abs(log_mgfs).sum())
            slopes = x[:, None] * r * np.exp(np.log1p(-q) + z - log_mgfs)
            G += slopes - slopes.sum(axis=1, keepdims=True) * own
    assert_allclose(cumulants.backward(W, R), G, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("threads", [1, 3])
def test_passes_do_not_depend_on_threads(threads, monkeypatch):
    monkeypatch.setattr("marginout._models.mcf.cumulants.worker_threads", lambda work: threads)
    coding = codings()[0]
    W = np.random.default_rng(1).normal(size=(D, 3))
    R = np.random.default_rng(2).random((N, 3))
    for data in (X, sp.csr_array(X)):
        cumulants = cumulants_of(data, Dropout(RATES), coding)
        serial = np.array(
            [log_mgf(Dropout(RATES), coding.contrast(W, c)[:, 1], x) for c, x in zip(LABELS, X, strict=True)]
        )
        assert_allclose(cumulants.forward(W)[:, 1], serial, atol=1e-11)
        monkeypatch.setattr("marginout._models.mcf.cumulants.worker_threads", lambda work: 1)
        one = cumulants.backward(W, R)
        monkeypatch.setattr("marginout._models.mcf.cumulants.worker_threads", lambda work: threads)
        assert_allclose(cumulants.backward(W, R), one, rtol=1e-12)


@pytest.mark.parametrize("case", ["Gaussian", "Laplace", "Poisson", "Dropout", "BitSwap"])
def test_expected_losses_by_sampling(case):
    """Monte Carlo within three standard errors: the exponential loss is exact, the logistic a bound."""
    noise, data = NOISES[case]
    coding = Coding((SIGNS > 0).astype(np.int64), np.array([[1.0], [-1.0]]), False)
    w = np.random.default_rng(1).normal(size=(D, 1)) * 0.3
    samples = 8_000
    for loss in ("exponential", "logistic"):
        objective = MgfObjective(
            penalties.Ridge(), make_design(data, noise), noise, coding, np.ones(N), loss, True
        )
        point = objective.point(w, np.zeros(1))
        value = point.value - 0.5 * float(np.vdot(w, w))
        rng = np.random.default_rng(0)
        z = np.stack([-SIGNS * (noise.corrupt(data, rng) @ w[:, 0] + point.b) for _ in range(samples)])
        if loss == "exponential":
            draws = np.exp(z).sum(axis=1)
            assert abs(draws.mean() - value) < 3 * draws.std() / np.sqrt(samples)
        else:
            draws = np.logaddexp(0, z).sum(axis=1)
            assert draws.mean() - 3 * draws.std() / np.sqrt(samples) < value
            jensen = np.log1p(np.exp(z).mean(axis=0)).sum()
            assert_allclose(value, jensen, rtol=0.03)


# --------------------------------------------------------------------------- solutions


def conic_cumulant(noise, t, x):
    """L(t) of a row as a convex cvxpy expression."""
    total = 0
    for d, value in enumerate(x):
        if isinstance(noise, (Dropout, Deletion)):
            rate = np.broadcast_to(noise.rate, x.shape)[d]
            factor = 1 / (1 - rate) if isinstance(noise, Dropout) else 1.0
            if rate == 0 or value == 0:
                total += t[d] * value
            else:
                shifts = cp.hstack([np.log(rate), np.log(1 - rate) + factor * value * t[d]])
                total += cp.log_sum_exp(shifts)
        elif isinstance(noise, Thinning):
            rate = np.broadcast_to(noise.rate, x.shape)[d]
            token = cp.hstack([np.log(rate), np.log(1 - rate) + t[d] / (1 - rate)])
            total += value * cp.log_sum_exp(token)
        elif isinstance(noise, BitSwap):
            on = noise._on(x)[d]
            total += cp.log_sum_exp(cp.hstack([np.log(1 - on), np.log(on) + t[d]]))
        elif isinstance(noise, Gaussian):
            total += t[d] * value + 0.5 * noise.variance * cp.square(t[d])
        elif isinstance(noise, Laplace):
            b = noise.scale
            total += t[d] * value - cp.log(1 - b * t[d]) - cp.log(1 + b * t[d])
        else:
            total += value * (cp.exp(t[d]) - 1)
    return total


def conic_optimum(noise, data, labels, loss, C):
    """The least objective by cvxpy, from the formulas of the classifier's docstring."""
    classes = np.unique(labels)
    several = len(classes) > 2
    W, b = (
        cp.Variable((data.shape[1], len(classes) if several else 1)),
        cp.Variable(len(classes) if several else 1),
    )
    total = 0
    for x, label in zip(data, labels, strict=True):
        if several and loss == "logistic":
            y = int(np.searchsorted(classes, label))
            scores = [
                conic_cumulant(noise, W[:, k] - W[:, y], x) + b[k] - b[y] if k != y else cp.Constant(0.0)
                for k in range(len(classes))
            ]
            total += cp.log_sum_exp(cp.hstack(scores))
            continue
        for k in range(W.shape[1]):
            y = (
                (1.0 if label == classes[k] else -1 / (len(classes) - 1))
                if several
                else (1 if label == classes[1] else -1)
            )
            score = conic_cumulant(noise, -y * W[:, k], x) - y * b[k]
            total += cp.exp(score) if loss == "exponential" else cp.logistic(score)
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(W) + C * total))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver="CLARABEL")
    return problem.value


CONIC = [
    (Dropout(0.5), X, SIGNS, "logistic", 1.0),
    (Deletion(0.3), X, SIGNS, "logistic", 10.0),
    (Gaussian(0.3), X, SIGNS, "logistic", 1.0),
    (Laplace(0.4), X, SIGNS, "logistic", 10.0),
    (Poisson(), COUNTS, SIGNS, "logistic", 1.0),
    (Thinning(0.4), COUNTS, SIGNS, "logistic", 1.0),
    (BitSwap(0.1), BITS, SIGNS, "logistic", 1.0),
    (Dropout(0.5), X, SIGNS, "exponential", 1.0),
    (Laplace(0.4), X, SIGNS, "exponential", 10.0),
    (BitSwap(0.1), BITS, SIGNS, "exponential", 1.0),
    (Deletion(0.5), X, LABELS, "logistic", 1.0),
    (Poisson(), COUNTS, LABELS, "logistic", 1.0),
    (Thinning(0.4), COUNTS, LABELS, "logistic", 1.0),
    (Dropout(0.3), X, LABELS, "exponential", 1.0),
]


@pytest.mark.parametrize(("noise", "data", "labels", "loss", "C"), CONIC)
def test_optimum_is_the_conic_solvers(noise, data, labels, loss, C):
    best = conic_optimum(noise, data[:15], labels[:15], loss, C)
    model = MCFClassifier(loss, C=C, noise=noise, tol=1e-8).fit(data[:15], labels[:15])
    assert_allclose(model.objective_, best, rtol=2e-6)
    default = MCFClassifier(loss, C=C, noise=noise).fit(data[:15], labels[:15])
    assert default.objective_ <= model.objective_ * (1 + 2e-4)
    assert default.objective_ - default.optimality_gap_ <= model.objective_ * (1 + 1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("noise", [0.0, Gaussian(0.0)], ids=repr)
def test_logistic_without_noise_is_scikit_learns(noise, fit_intercept):
    for labels in (SIGNS, LABELS):
        options = {"C": 2.0, "fit_intercept": fit_intercept}
        peer = LogisticRegression(
            solver="newton-cholesky" if fit_intercept else "newton-cg", tol=1e-10, **options
        )
        peer.fit(X, labels, sample_weight=WEIGHTS)
        model = MCFClassifier(noise=noise, tol=1e-11, **options).fit(X, labels, sample_weight=WEIGHTS)
        assert_allclose(model.coef_, peer.coef_, atol=2e-5)
        assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=2e-5)
        assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))


PENALTIES = {
    "Dropout": lambda noise: (WEIGHTS @ X**2) * noise.rate / (1 - noise.rate),
    "Gaussian": lambda noise: np.full(D, WEIGHTS.sum() * noise.variance),
    "Laplace": lambda noise: np.full(D, WEIGHTS.sum() * 2 * noise.scale**2),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("case", [*PENALTIES])
def test_quadratic_is_ridge_with_the_analytic_penalty(case, fit_intercept, form, monkeypatch):
    noise, data = NOISES[case]
    monkeypatch.setattr(least_squares, "cheapest", lambda *problem: form)
    C = 0.7
    penalty = 1 / C + PENALTIES[case](noise)
    scaled = Ridge(alpha=1.0, fit_intercept=fit_intercept).fit(
        data / np.sqrt(penalty), TARGET, sample_weight=WEIGHTS
    )
    coef = scaled.coef_ / np.sqrt(penalty)
    for storage in (np.asarray, sp.csr_array):
        model = MCFRegressor(C, noise=noise, fit_intercept=fit_intercept, tol=1e-12)
        model.fit(storage(data), TARGET, sample_weight=WEIGHTS)
        assert_allclose(model.coef_, coef, atol=1e-9)
        assert_allclose(model.predict(data), data @ coef + scaled.intercept_, atol=1e-8)
        assert_allclose(model.to_sklearn().predict(data), model.predict(data))


def test_indices_and_row_ends_of_different_types():
    mixed = sp.csr_array(X)
    mixed.indptr = mixed.indptr.astype(np.int64)
    for loss in ("logistic", "quadratic", "exponential"):
        model, same = (MCFClassifier(loss).fit(data, SIGNS) for data in (mixed, X))
        assert_allclose(model.coef_, same.coef_, atol=1e-6)
    assert mixed.indices.dtype == np.int32


def test_quadratic_classifier_is_least_squares_on_one_hot_targets():
    noise, C = Deletion(0.3), 5.0
    model = MCFClassifier("quadratic", C, noise=noise, tol=1e-12).fit(X, LABELS)
    for k in range(3):
        each = MCFRegressor(C, noise=noise, tol=1e-12).fit(X, (k == LABELS).astype(float))
        assert_allclose(model.coef_[k], each.coef_, atol=1e-10)
        assert_allclose(model.intercept_[k], each.intercept_[0], atol=1e-10)
    two = MCFClassifier("quadratic", C, noise=noise, tol=1e-12).fit(X, SIGNS)
    assert_allclose(two.coef_[0], MCFRegressor(C, noise=noise, tol=1e-12).fit(X, SIGNS).coef_, atol=1e-10)


def test_quadratic_under_bit_swaps_is_that_of_all_flips():
    """E over all 2^D flips of every row, as weighted copies for a plain ridge."""
    noise, C = BitSwap([0.1, 0.2, 0.3, 0.0, 0.45]), 2.0
    copies = [(value, p, y) for x, y in zip(BITS, TARGET, strict=True) for value, p in outcomes(noise, x)]
    rows, weights, targets = (np.array(column) for column in zip(*copies, strict=True))
    plain = Ridge(alpha=1 / C).fit(rows, targets, sample_weight=weights)
    model = MCFRegressor(C, noise=noise, tol=1e-12).fit(BITS, TARGET)
    assert_allclose(model.coef_, plain.coef_, atol=1e-9)
    assert_allclose(model.intercept_[0], plain.intercept_, atol=1e-9)
    again = model.set_params(warm_start=True).fit(BITS, TARGET)
    assert_allclose(again.coef_, plain.coef_, atol=1e-9)


@pytest.mark.parametrize("loss", ["logistic", "quadratic", "exponential"])
def test_parameters_matter(loss):
    def coef(labels=LABELS, **parameters):
        return MCFClassifier(loss, **{"tol": 1e-8, **parameters}).fit(X, labels).coef_

    base = coef()
    assert np.abs(coef(C=3.0) - base).max() > 1e-3
    assert np.abs(coef(noise=0.1) - base).max() > 1e-2
    assert np.abs(coef(fit_intercept=False) - base).max() > 1e-3
    weights = {0: 1.0, 1: 3.0, 2: 0.5}
    by_hand = MCFClassifier(loss, tol=1e-8).fit(X, LABELS, sample_weight=[weights[c] for c in LABELS])
    assert_allclose(coef(class_weight=weights), by_hand.coef_, atol=1e-6)
    counts = np.bincount(LABELS)
    balanced = dict(enumerate(N / (3 * counts)))
    assert_allclose(coef(class_weight="balanced"), coef(class_weight=balanced), atol=1e-9)
    model = MCFClassifier(loss, warm_start=True, tol=1e-8).fit(X, LABELS)
    assert model.fit(X, LABELS).n_iter_ <= 2


def test_max_iter_and_verbose(capsys):
    with pytest.warns(UserWarning, match="Stopped at max_iter=2"):
        MCFClassifier(C=100.0, tol=1e-8, max_iter=2, verbose=1).fit(X, LABELS)
    assert capsys.readouterr().out.count("iteration") == 2
    model = MCFClassifier(C=100.0).fit(X, LABELS)
    assert np.all(np.diff(model.objective_history_) <= 1e-12 * model.objective_)
    assert len(model.objective_history_) == model.n_iter_


@pytest.mark.parametrize("labels", [SIGNS, LABELS], ids=["binary", "joint"])
@pytest.mark.parametrize("loss", ["logistic", "exponential"])
def test_laplace_domain_is_respected(loss, labels):
    """Little data, no ridge to speak of: without the MGF's barrier the weights would run away."""
    model = MCFClassifier(loss, C=1e4, noise=Laplace(0.5)).fit(X[:6], labels[:6])
    W = model.coef_
    reach = np.abs(W[:, None] - W[None]).max() if loss == "logistic" and len(W) > 1 else np.abs(W).max()
    assert 0.5 < reach < 2.0
    assert np.isfinite(model.objective_)


@pytest.mark.parametrize("loss", ["logistic", "exponential", "quadratic"])
@pytest.mark.parametrize("noise", [0.5, Deletion(0.5), Gaussian(0.1), 0.0], ids=repr)
def test_no_overflow_for_huge_scores(loss, noise):
    for labels in (SIGNS, LABELS):
        model = MCFClassifier(loss, C=1e3, noise=noise).fit(X * 1e4, labels)
        assert np.isfinite(model.coef_).all()
        assert np.isfinite(model.objective_)
        if loss == "logistic":
            far = model.predict_proba(X * 1e12)
            assert np.isfinite(far).all()
    coding = Coding((SIGNS > 0).astype(np.int64), np.array([[1.0], [-1.0]]), False)
    objective = MgfObjective(
        penalties.Ridge(), make_design(X, Dropout(0.5)), Dropout(0.5), coding, np.ones(N), "logistic", False
    )
    point = objective.point(np.full((D, 1), 1e4), np.zeros(1))
    z = np.array([log_mgf_large(-s * np.full(D, 1e4), x) for s, x in zip(SIGNS, X, strict=True)])
    assert_allclose(point.value - 0.5 * D * 1e8, np.logaddexp(0, z).sum(), rtol=1e-12)


def log_mgf_large(t, x):
    """Dropout(0.5)'s, by logaddexp."""
    return np.logaddexp(np.log(0.5), np.log(0.5) + 2 * t * x).sum()


def test_multiclass_with_a_class_of_no_weight():
    weights = np.where(LABELS == 2, 0.0, 1.0)
    for loss in ("logistic", "quadratic", "exponential"):
        model = MCFClassifier(loss).fit(X, LABELS, sample_weight=weights)
        assert np.isfinite(model.coef_).all()
        assert np.isfinite(model.intercept_).all()
        if loss == "logistic":
            assert set(model.predict(X)) <= {0, 1}


def test_probabilities_are_for_the_logistic_loss():
    model = MCFClassifier("quadratic").fit(X, LABELS)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba"):
        model.predict_proba(X)
    assert hasattr(MCFClassifier(), "predict_log_proba")


@pytest.mark.parametrize("loss", ["logistic", "quadratic", "exponential"])
def test_to_sklearn(loss):
    for labels in (SIGNS, LABELS):
        model = MCFClassifier(loss).fit(X, labels)
        plain = model.to_sklearn()
        assert_array_equal(plain.predict(X), model.predict(X))
        if loss == "logistic":
            assert_allclose(plain.predict_proba(X), model.predict_proba(X))


# --------------------------------------------------------------------------- bit swaps elsewhere


def test_bit_swaps_suit_every_model_with_an_offset():
    """DropoutSVC under BitSwap: its objective is that of moments over all flips."""
    noise = BitSwap(0.2)
    model = DropoutSVC(noise=noise, tol=1e-8).fit(BITS, SIGNS)
    w, b = model.coef_[0], model.intercept_[0]
    moments = []
    for x in BITS:
        values, p = (np.array(column) for column in zip(*outcomes(noise, x), strict=True))
        scores = values @ w + b
        moments.append((p @ scores, p @ (scores - p @ scores) ** 2))
    m, v = np.array(moments).T
    z = 1 - SIGNS * m
    assert_allclose(model.objective_, 0.5 * w @ w + 0.5 * np.sum(z + np.sqrt(z**2 + v)), rtol=1e-9)
    warm = DropoutSVC(noise=noise, tol=1e-8, warm_start=True).fit(BITS, SIGNS).fit(BITS, SIGNS)
    assert_allclose(warm.coef_, model.coef_, atol=1e-6)


# --------------------------------------------------------------------------- bad input

BAD = [
    (MCFClassifier("hinge"), X, "loss='hinge' must be one of 'logistic', 'quadratic', 'exponential'"),
    (MCFClassifier(None), X, "loss=None must be one of"),
    (MCFClassifier(C=-1), X, "C=-1 must be a number > 0"),
    (MCFClassifier(noise=1.0), X, r"noise=1.0 must be a dropout rate in \[0, 1\)"),
    (MCFClassifier(noise=Poisson()), X, "noise needs X >= 0"),
    (MCFClassifier(noise=BitSwap(0.1)), X, "needs features of 0 and 1"),
    (MCFClassifier(noise=Thinning(0.1)), np.abs(X), "needs counts"),
    (MCFClassifier("quadratic", noise=BitSwap(0.1)), X, "needs features of 0 and 1"),
    (MCFClassifier(noise=Dropout([0.1, 0.2])), X, "has 2 values but X has 5 features"),
    (MCFClassifier(noise=Deletion([0.1, 0.2])), X, "has 2 values but X has 5 features"),
    (MCFClassifier(noise=Gaussian([0.1, 0.2])), X, "has 2 values but X has 5 features"),
    (MCFClassifier("quadratic", noise=BitSwap([0.1])), BITS, "has 1 values but X has 5 features"),
    (MCFClassifier(class_weight="even"), X, "class_weight='even' must be one of 'balanced'"),
    (MCFClassifier(max_iter=0), X, "max_iter=0"),
    (
        MCFClassifier("quadratic", noise=BitSwap(0.1), fit_intercept=False),
        BITS,
        "fit_intercept=False must be True",
    ),
    (DropoutSVC(noise=BitSwap(0.1), fit_intercept=False), BITS, "fit_intercept=False must be True"),
]


@pytest.mark.parametrize(
    ("model", "data", "match"), BAD, ids=lambda value: value if isinstance(value, str) else ""
)
def test_bad_input(model, data, match):
    with pytest.raises(ValueError, match=match):
        model.fit(data, LABELS)
    assert not fitted_attributes(model)


class Uniform(Noise):
    """A user's noise that gives the moments and no more of its MGF than it must."""

    def log_mgf(self, t, x):
        return np.log(np.sinh(t) / t) + t * x

    def _sample(self, x, columns, rng):
        return x + rng.uniform(-1, 1, x.shape)

    def _form(self):
        return 1.0, 1 / 3, 0

    def moments(self, n_features):
        return Moments(np.ones(n_features), np.full(n_features, 1 / 3), 0)


def test_noises_of_two_moments_are_for_the_quadratic_loss():
    model = MCFClassifier("quadratic", noise=Uniform(), tol=1e-10).fit(X, LABELS)
    same = MCFClassifier("quadratic", noise=Gaussian(1 / 3), tol=1e-10).fit(X, LABELS)
    assert_allclose(model.coef_, same.coef_, atol=1e-9)
    for loss in ("logistic", "exponential"):
        with pytest.raises(ValueError, match="choose loss='quadratic', or another noise"):
            MCFClassifier(loss, noise=Uniform()).fit(X, LABELS)


@pytest.mark.parametrize("loss", ["logistic", "exponential"])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_the_stop_is_honest_on_unscaled_features(loss, C):
    """Means of 0.004 to 880 in one table: the default fit used to end up to 1 % above the minimum."""
    data, labels = load_breast_cancer(return_X_y=True)
    for noise in (Gaussian(1.0), Dropout(1e-3)):
        model, tight = (
            MCFClassifier(loss, C, noise=noise, tol=tol, max_iter=5000).fit(data, labels)
            for tol in (1e-3, 1e-9)
        )
        assert model.objective_ <= (1 + 1e-4) * tight.objective_


def test_few_examples_and_hardly_any_ridge():
    """Woodbury's matrix loses all that matters here; nothing senseless may come of it, nor an error."""
    rng = np.random.default_rng(0)
    data, target = rng.normal(size=(20, 50)) + 100.0, rng.normal(size=20)
    for C in (1e10, 1e12, 1e16):
        with pytest.warns(ConvergenceWarning, match="where F would not fall any further"):
            model = MCFRegressor(C, noise=0.0).fit(data, target)
        assert_allclose(model.predict(data), target, atol=1e-3)
        assert model.optimality_gap_ > 0.05 * model.objective_  # in 60 digits: 2 to 6 % above the minimum


def test_conjugate_gradients_that_are_cut_short_say_so(monkeypatch):
    monkeypatch.setattr(least_squares, "cheapest", lambda *problem: "cg")
    # Too many features to factorise.
    monkeypatch.setattr(least_squares, "EFFORT", replace(least_squares.EFFORT, max_iter=1, largest=D - 1))
    with pytest.warns(UserWarning, match="Stopped at max_iter=2"):
        MCFRegressor(1e3, noise=0.01, tol=1e-12, max_iter=2).fit(X * np.logspace(0, 2, D), TARGET)


def test_logistic_loss_takes_bit_swaps_without_an_offset():
    model = MCFClassifier(noise=BitSwap(0.1), fit_intercept=False).fit(BITS, LABELS)
    assert_array_equal(model.intercept_, 0.0)


# --------------------------------------------------------------------------- scikit-learn's checks


def settings():
    losses = "logistic", "quadratic", "exponential"
    return [
        *(MCFClassifier(loss, noise=noise) for loss in losses for noise in (0.5, Laplace(0.1))),
        MCFRegressor(),
        MCFRegressor(noise=Deletion(0.2)),
    ]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(settings())
def test_check_estimator(estimator, check):
    check(estimator)


# --------------------------------------------------------------------------- real data


def data_file(name):
    folder = os.environ.get("MARGINOUT_DATA")
    if folder is None:
        pytest.skip("MARGINOUT_DATA does not name a folder of real data sets")
    return Path(folder) / name


@pytest.mark.parametrize("rate", [0.5, 0.7])
def test_the_authors_numbers_on_their_digits(rate):
    """No ridge, half of the test pixels deleted: the authors' code errs 0.1966 and 0.1928."""
    with np.load(data_file("mnist.npz")) as z:
        train, test = z["mcf_demo_train_idx"], z["mcf_demo_test_idx"]
        digits, labels = z["X_train"][train].reshape(-1, 784) / 255.0, z["y_train"][train]
        seen, truth = z["X_test"][test].reshape(-1, 784) / 255.0, z["y_test"][test]
    model = MCFClassifier("quadratic", C=1e6, noise=Deletion(rate)).fit(digits, labels)
    errors = [1 - model.score(Deletion(0.5).corrupt(seen, seed), truth) for seed in range(3)]
    assert abs(np.mean(errors) - 0.195) < 0.012


@pytest.mark.parametrize("loss", ["logistic", "exponential"])
def test_absurd_weights_are_no_start(loss):
    """Where F is larger than at w = 0, or no number at all, a warm start begins at zero."""
    rng = np.random.default_rng(0)
    X, y = rng.poisson(2.0, size=(100, 10)).astype(float), rng.integers(2, size=100)
    model = MCFClassifier(loss, noise=0.5, warm_start=True).fit(X, y)
    best = model.objective_
    for size in 10.0, 14.0, 20.0, 26.0, 1e2, 1e4:
        model.coef_ = np.full_like(model.coef_, size)
        assert model.fit(X, y).objective_ <= best * (1 + 1e-3)
