"""Extreme numbers: a right and finite answer."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, SVR

from marginout.noise import Deletion, Gaussian
from tests.paper import DropoutLogisticRegression, DropoutSVC, DropoutSVR
from tests.problems import EXPECTATIONS

from .inputs import TARGET, D, N, X, accepted, each_classifier, each_estimator, targets


def reference(model, data, y):
    """The minimum of F for dropout and the bound, from its formula and SciPy, in scaled variables."""
    rate, C = model.noise, model.C
    size = np.maximum(np.abs(data).max(axis=0), 1.0) / np.sqrt(1 - rate)
    A = data / size

    def F(u):
        w, b = u[:-1], u[-1]
        m, v = A @ w + b, rate / (1 - rate) * (A**2 @ w**2) + 1e-14
        if isinstance(model, DropoutLogisticRegression):
            omega, s = np.sqrt(m**2 + v), 2 * y - 1
            loss = np.logaddexp(omega / 2, -omega / 2) - s * m / 2
        elif isinstance(model, DropoutSVC):
            z = 1 - (2 * y - 1) * m
            loss = 0.5 * (z + np.sqrt(z**2 + v))
        else:
            low, high = y - m - model.epsilon, y - m + model.epsilon
            loss = 0.5 * (np.sqrt(low**2 + v) + np.sqrt(high**2 + v)) - model.epsilon
        return 0.5 * np.sum((w / size) ** 2) / C + loss.sum()

    starts = np.zeros(data.shape[1] + 1), np.append(np.zeros(data.shape[1]), -1.0)
    options = {"maxiter": 20_000, "maxfun": 10**6, "ftol": 1e-15, "gtol": 1e-10}
    return C * min(minimize(F, start, method="L-BFGS-B", options=options).fun for start in starts)


def assert_optimal(model, data, y) -> None:
    """F is the least that there is, up to what tol says."""
    best = reference(model, np.asarray(data, dtype=float), y)
    assert model.objective_ <= best * (1 + model.tol) + 1e-9
    assert model.objective_ >= best * (1 - 1e-4) - 1e-9


EXTREME_X = {
    "scale 1e3": X * 1e3,
    "scale 1e-3": X * 1e-3,
    "scale 1e30": X * 1e30,
    "scale 1e99": X * 1e99,
    "scales from 1e-30 to 1e30": X * [1e30, 1.0, 1e-30, 1e15],
    "float32 max": np.abs(X / np.abs(X).max() * 0.99 * np.finfo(np.float32).max).astype(np.float32),
    "far from the origin": X + 1e4,
    "one feature": X[:, :1],
    "one row large": np.vstack([1e6 * X[:1], X[1:]]),
    "constant feature": np.column_stack([X, np.full(N, 3.0)]),
    "two equal features": np.column_stack([X, X[:, 0]]),
    "duplicated rows": np.repeat(X[: N // 2], 2, axis=0),
    "whole numbers": np.round(X),
    "booleans": (X > 0).astype(float),
}


@each_estimator
@pytest.mark.parametrize("case", EXTREME_X)
def test_extreme_X(estimator, case):
    data = EXTREME_X[case]
    assert_optimal(accepted(estimator(), data, targets(estimator)), data, targets(estimator))


def plain_objective(model, w, b, data, y) -> float:
    """F without noise, at some weights and offset."""
    m = data @ w + b
    losses = {
        DropoutSVC: lambda: np.maximum(0, 1 - (2 * y - 1) * m),
        DropoutSVR: lambda: np.maximum(0, np.abs(y - m) - 0.1),
        DropoutLogisticRegression: lambda: np.logaddexp(0, -(2 * y - 1) * m),
    }
    return 0.5 * w @ w + model.C * losses[type(model)]().sum()


PLAIN = {
    DropoutSVC: SVC(kernel="linear", tol=1e-6),
    DropoutSVR: SVR(kernel="linear", tol=1e-6),
    DropoutLogisticRegression: LogisticRegression(solver="newton-cholesky", tol=1e-8, max_iter=1000),
}


@each_estimator
@pytest.mark.parametrize("case", EXTREME_X)
def test_extreme_X_without_noise(estimator, case):
    """No worse than scikit-learn's exact solvers, up to a thousandth of the cost of w = 0."""
    data, y = EXTREME_X[case], targets(estimator)
    model = accepted(estimator(noise=0.0), data, y)
    data, nothing = data.astype(float), without_features(model, y)
    value = plain_objective(model, np.ravel(model.coef_), model.intercept_[0], data, y)
    assert_allclose(model.objective_, value, rtol=1e-9, atol=1e-9 * nothing)
    scale = np.abs(data).max(axis=0)  # libsvm knows no way around features of 1e30, nor a C of 1e60
    plain = clone(PLAIN[estimator]).set_params(C=min(scale.max() ** 2, 10.0)).fit(data / scale, y)
    best = plain_objective(model, np.ravel(plain.coef_) / scale, plain.intercept_[0], data, y)
    assert model.objective_ <= best + 1e-3 * nothing


def without_features(model, y) -> float:
    """The minimum of F over the offset alone, which is all there is to choose when X is (next to) nothing."""
    if isinstance(model, DropoutSVC):
        return model.C * 2 * min(np.sum(y == 0), np.sum(y == 1))
    if isinstance(model, DropoutLogisticRegression):
        p = np.mean(y == 1)
        return -model.C * len(y) * (p * np.log(p) + (1 - p) * np.log(1 - p))
    kinks = np.concatenate([y - model.epsilon, y + model.epsilon])
    return model.C * min(np.maximum(np.abs(y - b) - model.epsilon, 0).sum() for b in kinks)


NO_X = {
    "zeros": np.zeros((N, D)),
    "zeros, stored sparsely": sp.csr_array(np.zeros((N, D))),
    "explicit zeros": sp.csr_array((np.zeros(N), np.zeros(N, int), np.arange(N + 1)), shape=(N, D)),
    "1e-30": X * 1e-30,
    "1e-300": X * 1e-300,
    "denormal": X * 1e-320,
    "1e-300, sparse": sp.csr_array(X * 1e-300),
}


@each_estimator
@pytest.mark.parametrize("noise", [0.5, 0.0, Deletion(0.3), Gaussian(0.1)], ids=repr)
@pytest.mark.parametrize("expectation", EXPECTATIONS)
@pytest.mark.parametrize("case", NO_X)
def test_no_X_to_speak_of(estimator, noise, expectation, case):
    """No features, no weights: the offset alone, and its cost is known in closed form."""
    y = targets(estimator)
    model = accepted(estimator(noise=noise, expectation=expectation), NO_X[case], y)
    assert_allclose(model.coef_, 0.0, atol=1e-20)
    assert_allclose(model.objective_, without_features(model, y), rtol=1e-4)
    assert model.objective_ - model.optimality_gap_ <= without_features(model, y) * (1 + 1e-9)


@each_estimator
@pytest.mark.parametrize("C", [1e-10, 1e-3, 1e3, 1e10])
def test_extreme_C(estimator, C):
    y = targets(estimator)
    model = accepted(estimator(C=C), X, y)
    best = reference(model, X, y)
    assert_allclose(model.objective_, best, rtol=1e-3)
    if C == 1e-10:
        assert_allclose(model.coef_, 0.0, atol=1e-7)


@each_estimator
@pytest.mark.parametrize("rate", [1e-12, 1e-3, 0.999, 1 - 1e-9])
def test_extreme_rate(estimator, rate):
    y = targets(estimator)
    assert_optimal(accepted(estimator(noise=rate), X, y), X, y)


@each_estimator
def test_weights_of_all_sizes(estimator):
    """Weights over twelve orders of magnitude; those next to nothing do count for next to nothing."""
    y = targets(estimator)
    weights = 10.0 ** np.tile([0.0, -12.0], N // 2)
    model = accepted(estimator(tol=1e-6), X, y, sample_weight=weights)
    assert_allclose(model.objective_, estimator(tol=1e-6).fit(X[::2], y[::2]).objective_, rtol=1e-6)
    tiny = accepted(estimator(), X, y, sample_weight=np.full(N, 1e-300))
    assert_allclose(tiny.coef_, 0.0, atol=1e-100)


@each_estimator
@pytest.mark.parametrize("size", [1e10, 1e100, 1e200])
def test_huge_weights(estimator, size):
    """The ridge is nothing to weights of this size; they are all the same otherwise."""
    y = targets(estimator)
    usual = estimator(C=1e8).fit(X, y)
    model = accepted(estimator(), X, y, sample_weight=np.full(N, size))
    assert_allclose(model.coef_, usual.coef_, atol=1e-6)
    assert_allclose(model.objective_ / size, usual.objective_ / 1e8, rtol=1e-6)


@pytest.mark.parametrize("noise", [0.5, 0.0])
@pytest.mark.parametrize("shift", [1e3, -1e6, 1e9])
def test_targets_far_from_zero(noise, shift):
    """The offset takes up what all targets share, however far it is."""
    usual = DropoutSVR(noise=noise, tol=1e-5).fit(X, TARGET)
    model = accepted(DropoutSVR(noise=noise, tol=1e-5), X, TARGET + shift)
    assert_allclose(model.objective_, usual.objective_, rtol=1e-5)
    assert_allclose(model.coef_, usual.coef_, atol=1e-2)
    assert_allclose(model.intercept_ - shift, usual.intercept_, atol=0.02)


@pytest.mark.parametrize("size", [1e-8, 1e8, 1e50, 1e99])
def test_targets_of_any_size(size):
    """SVR has no unit of its own: y, ε, w and b scale together if C scales too."""
    usual = DropoutSVR(tol=1e-6).fit(X, TARGET)
    model = accepted(DropoutSVR(C=size, epsilon=0.1 * size, tol=1e-6), X, size * TARGET)
    assert_allclose(model.coef_ / size, usual.coef_, atol=1e-2)
    assert_allclose(model.objective_ / size**2, usual.objective_, rtol=1e-5)


def test_huge_targets_usual_epsilon():
    model = accepted(DropoutSVR(C=1e-3), X, 1e12 * TARGET)
    assert_optimal(model, X, 1e12 * TARGET)


@pytest.mark.parametrize("value", [0.0, 5.0, -1e6, 1e99])
@pytest.mark.parametrize("noise", [0.5, 0.0])
def test_constant_target(value, noise):
    """Nothing to explain: w = 0, an offset within ε of the constant, no cost."""
    model = accepted(DropoutSVR(noise=noise), X, np.full(N, value))
    assert_allclose(model.coef_, 0.0, atol=1e-9)
    assert_allclose(model.intercept_, value, rtol=1e-9, atol=0.1 + 1e-6)
    assert_allclose(model.objective_, 0.0, atol=1e-6 * max(1.0, abs(value)))


@each_classifier
@pytest.mark.parametrize("noise", [0.5, 0.0])
def test_contradictory_rows(estimator, noise):
    """Every example with both labels: nothing to learn, and every offset in the margin costs the same."""
    model = accepted(estimator(noise=noise), np.repeat(X, 2, axis=0), np.tile([0, 1], N))
    assert_allclose(model.coef_, 0.0, atol=1e-3)
    assert_allclose(model.objective_, without_features(model, np.tile([0, 1], N)), rtol=1e-4)


@each_estimator
@pytest.mark.parametrize("noise", [0.5, 0.0])
@pytest.mark.parametrize("storage", [np.array, sp.csr_array])
def test_two_examples(estimator, noise, storage):
    model = accepted(estimator(noise=noise), storage(X[:2]), np.array([0, 1]))
    assert model.coef_.shape == ((1, D) if is_classifier(model) else (D,))
    if is_classifier(model) and noise == 0.0:
        assert_array_equal(model.predict(X[:2]), [0, 1])
    if noise:
        assert_optimal(model, X[:2], np.array([0, 1]))


def test_one_example():
    model = accepted(DropoutSVR(), X[:1], TARGET[:1])
    assert_allclose(model.predict(X[:1]), TARGET[:1], atol=0.1 + 1e-6)


@each_estimator
@pytest.mark.parametrize("noise", [0.5, 0.0])
@pytest.mark.parametrize("storage", [np.array, sp.csr_array])
def test_many_more_features_than_examples(estimator, noise, storage):
    wide = np.random.default_rng(3).normal(size=(8, 3000))
    y = np.arange(8) % 2
    tol = 1e-10 if estimator is DropoutLogisticRegression else 1e-3
    model = accepted(estimator(C=0.01, noise=noise, tol=tol), storage(wide), y)
    if is_classifier(model):
        assert_array_equal(model.predict(wide), y)
    # w lies in the span of the examples when nothing is corrupted (the representer theorem).
    if noise == 0.0:
        inside = np.linalg.lstsq(wide.T, np.ravel(model.coef_), rcond=None)[0] @ wide
        assert_allclose(inside, np.ravel(model.coef_), atol=1e-7)


@each_estimator
@pytest.mark.parametrize("size", [1e150, 1e300])
def test_huge_queries(estimator, size):
    """A far-away example has a class or a number, or is refused by name; it is never a NaN."""
    model = estimator().fit(X, targets(estimator))
    far = np.sign(X) * size
    scores = model.decision_function if is_classifier(model) else model.predict
    try:
        answer = scores(far)
    except ValueError as error:
        answer = None
        message = str(error)
    if answer is None:
        assert "X holds values" in message
    else:
        assert not np.isnan(answer).any()
