"""The hidden layer: moments and gradients against definitions, fits against formulas and scikit-learn."""

from __future__ import annotations

import doctest
import importlib
import pickle
import re
import tracemalloc
import warnings
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import binom
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from marginout import (
    DropoutSVC,
    LatentDropoutLogisticRegression,
    LatentDropoutSVC,
    LatentDropoutSVR,
)
from marginout._activations import ACTIVATIONS
from marginout._design import make_design
from marginout._latent import BLOCK_ENTRIES, LatentObjective, Net
from marginout.losses import EpsilonInsensitive, Hinge, Quadratic, logistic
from marginout.noise import BitSwap, Deletion, Dropout, Gaussian, Laplace, Poisson
from marginout.plotting import HiddenUnitsDisplay
from marginout.solvers.latent import SOLVERS

CLASSIFIERS = [LatentDropoutSVC, LatentDropoutLogisticRegression]
ESTIMATORS = [*CLASSIFIERS, LatentDropoutSVR]
N, D, K = 40, 6, 3
RATES = np.linspace(0.1, 0.6, D)
NOISES = [Dropout(0.0), Dropout(0.4), Deletion(RATES), Gaussian(0.3), Laplace(RATES), Poisson()]
LOSSES = {
    "hinge": Hinge(1.0),
    "hinge gaussian": Hinge(0.7, "gaussian"),
    "insensitive": EpsilonInsensitive(0.1),
    "insensitive gaussian": EpsilonInsensitive(0.1, "gaussian"),
    "logistic": logistic("bound"),
    "logistic gaussian": logistic("gaussian"),
    "quadratic": Quadratic(),
}
FUNCTIONS = {
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "tanh": np.tanh,
    "relu": lambda z: np.maximum(z, 0),
    "identity": lambda z: z,
}


def features(seed: int = 0) -> np.ndarray:
    """Non-negative, with zeros, and one row of nothing but zeros."""
    rng = np.random.default_rng(seed)
    X = rng.gamma(1.0, size=(N, D)) * (rng.random((N, D)) < 0.6)
    X[3] = 0.0
    return X


def network(P: int, seed: int = 0, size: float = 1.0) -> Net:
    rng = np.random.default_rng(seed)
    return Net(
        size * rng.normal(size=(D, K)), rng.normal(size=K), rng.normal(size=(K, P)), rng.normal(size=P)
    )


def objective(
    X, noise, *, activation="sigmoid", propagation="taylor", loss=LOSSES["hinge"], P=1, seed=0, weights=None
):
    rng = np.random.default_rng(seed)
    Y = np.where(rng.random((N, P)) < 0.5, 1.0, -1.0)
    weights = np.ones((N, 1)) if weights is None else weights
    design = make_design(X, noise)
    return LatentObjective(design, ACTIVATIONS[activation], propagation, loss, Y, weights, 0.7, True)


# --------------------------------------------------------------------------- activations


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize(
    ("mean", "variance"), [(0.0, 1.0), (-1.3, 0.2), (2.5, 9.0), (7.0, 4.0), (-0.1, 50.0)]
)
def test_moments_of_a_normal_input_are_those_of_quadrature(name, mean, variance):
    function, s = FUNCTIONS[name], np.sqrt(variance)

    def expect(g):
        def density(z):
            return g(z) * np.exp(-0.5 * ((z - mean) / s) ** 2) / (s * np.sqrt(2 * np.pi))

        return quad(density, mean - 12 * s, mean + 12 * s, points=[0.0, mean], limit=400)[0]

    g = expect(function)
    slope = expect(lambda z: function(z) * (z - mean)) / variance  # Stein: E σ' = Cov(σ, z)/S
    rest = expect(lambda z: (function(z) - g) ** 2) - slope**2 * variance
    unit = ACTIVATIONS[name].gaussian(np.array([mean]), np.array([variance]))
    assert_allclose([unit.g[0], unit.eta[0], unit.rest.r[0]], [g, slope, rest], atol=1e-7)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_without_variance_a_unit_is_its_function(name):
    z = np.linspace(-20, 20, 101) + 0.05
    activation = ACTIVATIONS[name]
    assert_allclose(activation(z), FUNCTIONS[name](z), rtol=1e-12)
    taylor, normal = activation.taylor(z), activation.gaussian(z, np.full_like(z, 1e-12))
    assert_allclose(taylor.g, FUNCTIONS[name](z), rtol=1e-12)
    assert_allclose(normal.g, taylor.g, atol=1e-7)
    assert_allclose(normal.eta, taylor.eta, atol=1e-7)
    assert_allclose(normal.rest.r, 0.0, atol=1e-7)


# --------------------------------------------------------------------------- moments of the scores


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("activation", ["sigmoid", "tanh", "relu"])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_taylor_moments_are_their_definition(noise, activation, storage):
    X, net = features(), network(3)
    m, v = objective(storage(X), noise, activation=activation, P=3).moments(net)
    mean, variance, function = noise.mean(X), noise.var(X), FUNCTIONS[activation]
    A = mean @ net.alpha + net.a
    slope = (function(A + 1e-6) - function(A - 1e-6)) / 2e-6
    assert_allclose(m, function(A) @ net.W + net.b, rtol=1e-12)
    J = slope[:, :, None] * net.alpha.T  # the N×K×D array that the library never forms
    h = np.einsum("kp,nkd->npd", net.W, J)
    assert_allclose(v, np.einsum("nd,npd->np", variance, h**2), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("propagation", ["taylor", "gaussian"])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_with_the_identity_the_moments_are_the_linear_models(noise, propagation, storage):
    X, net = storage(features()), network(2)
    m, v = objective(X, noise, activation="identity", propagation=propagation, P=2).moments(net)
    mean, variance = make_design(X, noise).moments(net.alpha @ net.W)
    assert_allclose(m, mean + net.a @ net.W + net.b, rtol=1e-10, atol=1e-12)
    assert_allclose(v, variance, rtol=1e-10, atol=1e-12)


def test_with_the_identity_the_variance_is_that_of_all_masks():
    X, net, rate = features()[:5], network(1), 0.3
    masks = np.array(list(product([0.0, 1.0], repeat=D)))
    chances = np.prod(np.where(masks > 0, 1 - rate, rate), axis=1)
    scores = np.array([(X * mask / (1 - rate)) @ net.alpha @ net.W for mask in masks])[..., 0]
    mean = chances @ scores
    Y = np.ones((5, 1))
    layer = LatentObjective(
        make_design(X, Dropout(rate)), ACTIVATIONS["identity"], "taylor", Hinge(), Y, Y, 1.0, True
    )
    m, v = layer.moments(net)
    assert_allclose(m[:, 0], mean + net.a @ net.W[:, 0] + net.b[0], rtol=1e-10)
    assert_allclose(v[:, 0], chances @ (scores - mean) ** 2, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("noise", [Gaussian(0.5), Dropout(0.5), Deletion(0.4), Laplace(0.5)], ids=repr)
@pytest.mark.parametrize("activation", ["sigmoid", "tanh", "relu"])
@pytest.mark.parametrize("size", [1.0, 3.0])
def test_gaussian_propagation_is_closer_to_monte_carlo_than_taylor(noise, activation, size):
    rng = np.random.default_rng(0)
    d, draws = 30, 20_000
    X = rng.gamma(1.0, size=(12, d))
    net = Net(
        size * rng.normal(size=(d, 4)) / np.sqrt(d), rng.normal(size=4), rng.normal(size=(4, 1)), np.zeros(1)
    )
    scores = np.array(
        [
            FUNCTIONS[activation](noise.corrupt(np.tile(x, (draws, 1)), rng) @ net.alpha + net.a) @ net.W
            for x in X
        ]
    )[..., 0]
    errors = {}
    for propagation in "taylor", "gaussian":
        Y = np.ones((12, 1))
        layer = LatentObjective(
            make_design(X, noise), ACTIVATIONS[activation], propagation, Hinge(), Y, Y, 1.0, True
        )
        m, v = layer.moments(net)
        errors[propagation] = (
            np.mean((m[:, 0] - scores.mean(axis=1)) ** 2),
            np.mean(np.abs(np.log(v[:, 0] / scores.var(axis=1)))),
        )
    assert errors["gaussian"][0] < errors["taylor"][0]
    assert errors["gaussian"][1] < errors["taylor"][1]


def test_saturated_units_keep_their_variance_under_gaussian_propagation():
    d = 40
    X = np.ones((1, d))
    net = Net(np.full((d, 1), 1.5), np.array([-40.0]), np.ones((1, 1)), np.zeros(1))
    layers = [
        LatentObjective(
            make_design(X, Dropout(0.5)), ACTIVATIONS["sigmoid"], way, Hinge(), X[:, :1], X[:, :1], 1.0, True
        )
        for way in ("taylor", "gaussian")
    ]
    kept = np.arange(d + 1)
    chances = binom.pmf(kept, d, 0.5)
    response = expit(3.0 * kept - 40.0)
    truth = chances @ response**2 - (chances @ response) ** 2
    taylor, gaussian = (float(layer.moments(net)[1][0, 0]) for layer in layers)
    assert taylor < 1e-4 * truth
    assert gaussian == pytest.approx(truth, rel=0.1)


# --------------------------------------------------------------------------- gradients


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("propagation", ["taylor", "gaussian"])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_agree_with_finite_differences(noise, activation, propagation, storage, loss):
    for P, weighted in ((1, False), (3, True)):
        weights = np.random.default_rng(1).random((N, P)) if weighted else None
        settings = {"activation": activation, "propagation": propagation, "loss": LOSSES[loss]}
        F = objective(storage(features()), noise, **settings, P=P, weights=weights)
        net = network(P)
        x, gradient = net.pack(), F.value_and_gradient(net)[1].pack()
        for seed in range(2):
            p = np.random.default_rng(seed).normal(size=x.size)

            def along(t, F=F, net=net, x=x, p=p):
                return F.value(net.unpack(x + t * p))

            e = 1e-5
            slope = (8 * (along(e) - along(-e)) - (along(2 * e) - along(-2 * e))) / (12 * e)
            assert gradient @ p == pytest.approx(slope, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("propagation", ["taylor", "gaussian"])
def test_every_entry_of_the_gradient(storage, propagation):
    F = objective(storage(features()), Dropout(0.4), propagation=propagation, P=2)
    net = network(2)
    x, gradient = net.pack(), F.value_and_gradient(net)[1].pack()
    e = 1e-5
    for i, unit in enumerate(np.eye(x.size)):
        slope = (F.value(net.unpack(x + e * unit)) - F.value(net.unpack(x - e * unit))) / (2 * e)
        assert gradient[i] == pytest.approx(slope, rel=1e-6, abs=1e-6)


def test_without_offsets_their_gradient_is_zero():
    F = objective(features(), Dropout(0.4))
    F.fit_intercept = False
    gradient = F.value_and_gradient(network(1))[1]
    assert not gradient.a.any()
    assert not gradient.b.any()


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("propagation", ["taylor", "gaussian"])
@pytest.mark.parametrize("noise", [Dropout(0.4), Gaussian(0.3)], ids=repr)
def test_blocks_change_nothing(storage, propagation, noise, monkeypatch):
    X, net = storage(features()), network(3)
    whole = objective(X, noise, propagation=propagation, P=3)
    value, gradient = whole.value_and_gradient(net)
    matrix = whole.output_curvature(net)
    monkeypatch.setattr("marginout._latent.BLOCK_ENTRIES", 1)  # sixteen rows at a time
    assert len(whole._blocks(100)) == 3
    parts = objective(X, noise, propagation=propagation, P=3)
    other, slopes = parts.value_and_gradient(net)
    assert other == pytest.approx(value, rel=1e-12)
    assert_allclose(slopes.pack(), gradient.pack(), rtol=1e-9, atol=1e-11)
    assert_allclose(parts.output_curvature(net), matrix, rtol=1e-10)


@pytest.mark.parametrize("propagation", ["taylor", "gaussian"])
@pytest.mark.parametrize("noise", [Dropout(0.4), Gaussian(0.3), Poisson()], ids=repr)
def test_output_curvature_is_exact_for_the_quadratic_loss(noise, propagation):
    # γ = 1: the majoriser is F itself, and one step from anywhere ends where its gradient is zero.
    F = objective(features(), noise, propagation=propagation, loss=Quadratic(), P=2)
    net = network(2)
    H, gradient = F.output_curvature(net), F.value_and_gradient(net)[1]
    for p in range(2):
        slopes = np.append(gradient.W[:, p], gradient.b[p])
        step = np.linalg.solve(H[p], slopes)
        net.W[:, p] -= step[:-1]
        net.b[p] -= step[-1]
    after = F.value_and_gradient(net)[1]
    assert_allclose(after.W, 0, atol=1e-9)
    assert_allclose(after.b, 0, atol=1e-9)


# --------------------------------------------------------------------------- solvers


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", ["hinge", "logistic", "insensitive"])
@pytest.mark.parametrize("propagation", ["taylor", "gaussian"])
def test_solvers_go_down_to_a_stationary_point(solver, loss, propagation):
    F = objective(features(), Dropout(0.3), loss=LOSSES[loss], propagation=propagation)
    net = F.start(K, np.random.default_rng(0))
    precise = solver == "joint"  # gradient steps take their time
    result = SOLVERS[solver](F, net, tol=1e-9 if precise else 1e-5, max_iter=2000 if precise else 60)
    assert np.all(np.diff(result.history) <= 1e-12 * np.abs(result.history[1:]))
    assert result.value == pytest.approx(F.value(result.net), rel=1e-12)
    start, end = (np.abs(F.value_and_gradient(where)[1].pack()).max() for where in (net, result.net))
    assert end < (1e-2 if precise else 0.2) * start


def test_the_quasi_newton_method_is_not_above_the_papers():
    F = objective(features(), Dropout(0.3), P=3)
    net = F.start(K, np.random.default_rng(0))
    joint, alternating = (SOLVERS[name](F, net, tol=1e-5, max_iter=300).value for name in SOLVERS)
    assert joint < 1.01 * alternating


def test_an_output_step_of_the_paper_cannot_go_up():
    F = objective(features(), Dropout(0.3), P=2)
    net = network(2, size=0.3)
    history = SOLVERS["alternating"](F, net, tol=1e-6, max_iter=30).history
    assert history[0] < F.value(net)
    assert np.all(np.diff(history) <= 0)


# --------------------------------------------------------------------------- estimators: formulas


def problem(estimator, n: int = 80, d: int = 5, n_classes: int = 3, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    scores = np.column_stack([X[:, 0] * X[:, 1], X[:, 2] + 0.5, X[:, 3] ** 2 - 0.5])
    if not is_classifier(estimator()):
        return X, scores.sum(axis=1)
    if n_classes == 2:
        return X, np.where(scores[:, 0] > 0, "yes", "no")
    return X, scores.argmax(axis=1)


def quiet(model, X, y, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y, **kwargs)


def formula(model, X, y, weights) -> float:
    """F of the class docstrings by Taylor's expansion and the bound, for dropout, in the plainest way."""
    alpha, a = model.hidden_coef_.T, model.hidden_intercept_
    W, b = np.atleast_2d(model.coef_).T, model.intercept_
    G = expit(X @ alpha + a)
    h = np.einsum("kp,nk,dk->npd", W, G * (1 - G), alpha)
    m, v = G @ W + b, np.einsum("nd,npd->np", model.noise / (1 - model.noise) * X**2, h**2)
    if isinstance(model, LatentDropoutSVR):
        low, high = y[:, None] - m - model.epsilon, y[:, None] - m + model.epsilon
        loss = 0.5 * (np.sqrt(low**2 + v) + np.sqrt(high**2 + v)) - model.epsilon
    else:
        classes = model.classes_[1:] if len(model.classes_) == 2 else model.classes_
        Y = np.where(y[:, None] == classes, 1.0, -1.0)
        if isinstance(model, LatentDropoutSVC):
            z = model.margin - Y * m
            loss = 0.5 * (z + np.sqrt(z**2 + v))
        else:
            loss = np.logaddexp(0.5 * np.sqrt(m**2 + v), -0.5 * np.sqrt(m**2 + v)) - 0.5 * Y * m
    ridge = 0.5 * np.sum(W**2) + 0.5 * model.hidden_penalty * np.sum(alpha**2)
    return float(ridge + model.C * (weights @ loss).sum())


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_objective_is_the_formula(estimator, shared, n_classes):
    X, y = problem(estimator, n_classes=n_classes)
    weights = np.random.default_rng(0).random(len(y))
    more = {"shared": shared} if is_classifier(estimator()) else {}
    model = estimator(4, 2.0, noise=0.2, hidden_penalty=0.5, random_state=0, max_iter=40, **more)
    quiet(model, X, y, sample_weight=weights)
    assert model.objective_ == pytest.approx(formula(model, X, y, weights), rel=1e-6)
    assert model.objective_history_[-1] == pytest.approx(model.objective_, rel=1e-9)
    assert len(model.objective_history_) == model.n_iter_


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("shared", [True, False])
def test_scores_are_the_layers(estimator, shared):
    X, y = problem(estimator)
    if is_classifier(estimator()):
        model = quiet(estimator(4, random_state=0, shared=shared, max_iter=30), X, y)
        scores, units, outputs = model.decision_function(X), 4 if shared else 12, 3
        assert_array_equal(model.predict(X), model.classes_[scores.argmax(axis=1)])
    else:
        model = quiet(estimator(4, random_state=0, max_iter=30), X, y)
        scores, units, outputs = model.predict(X)[:, None], 4, 1
    assert model.hidden_coef_.shape == (units, X.shape[1])
    assert model.hidden_intercept_.shape == (units,)
    assert np.atleast_2d(model.coef_).shape == (outputs, units)
    G = expit(X @ model.hidden_coef_.T + model.hidden_intercept_)
    assert_allclose(model.transform(X), G, rtol=1e-12)
    assert_allclose(scores, G @ np.atleast_2d(model.coef_).T + model.intercept_, rtol=1e-10, atol=1e-12)
    for matrix in sp.csr_matrix(X), sp.csc_array(X):
        assert_allclose(model.transform(matrix), G, rtol=1e-10)


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_a_layer_for_each_class_is_a_fit_for_each_class(estimator):
    X, y = problem(estimator)
    together = quiet(estimator(4, shared=False, random_state=0, max_iter=30), X, y)
    first = quiet(estimator(4, random_state=0, max_iter=30), X, y == 0)
    assert_array_equal(together.hidden_coef_[:4], first.hidden_coef_)
    assert_array_equal(together.coef_[0, :4], first.coef_[0])
    assert not together.coef_[0, 4:].any()


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_same_seed_same_bits(estimator, storage):
    X, y = problem(estimator)
    one, two, other = (
        quiet(estimator(4, random_state=seed, max_iter=30), storage(X), y) for seed in (7, 7, 8)
    )
    for name in "hidden_coef_", "hidden_intercept_", "coef_", "intercept_", "objective_history_":
        assert_array_equal(getattr(one, name), getattr(two, name))
    assert not np.allclose(one.hidden_coef_, other.hidden_coef_)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_repeated_examples_are_weights_to_the_last_bit(estimator):
    X, y = problem(estimator, n=40)
    weights = np.random.default_rng(0).integers(0, 4, size=len(y))
    order = np.random.default_rng(1).permutation(weights.sum())
    model = estimator(3, random_state=0, max_iter=60)
    weighted = quiet(clone(model), X, y, sample_weight=weights)
    repeated = quiet(clone(model), np.repeat(X, weights, axis=0)[order], np.repeat(y, weights)[order])
    assert_array_equal(weighted.coef_, repeated.coef_)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_float32_and_float64_agree_and_float32_comes_back(estimator, storage):
    X, y = problem(estimator, n=60)
    X = X.astype(np.float32)
    single = quiet(estimator(3, random_state=0, max_iter=15), storage(X), y)
    double = quiet(estimator(3, random_state=0, max_iter=15), storage(X.astype(np.float64)), y)
    assert_allclose(single.coef_, double.coef_, rtol=1e-4, atol=1e-5)
    assert single.transform(storage(X)).dtype == np.float32
    assert double.transform(storage(X.astype(np.float64))).dtype == np.float64


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_sparse_and_dense_agree(estimator):
    X, y = problem(estimator)
    dense, sparse = (
        quiet(estimator(3, random_state=0, max_iter=15), data, y) for data in (X, sp.csr_matrix(X))
    )
    assert_allclose(dense.coef_, sparse.coef_, rtol=1e-6, atol=1e-8)


def test_class_weight_is_a_weight():
    X, y = problem(LatentDropoutSVC, n_classes=2)
    each = {"yes": 3.0, "no": 0.5}
    by_class = quiet(LatentDropoutSVC(3, class_weight=each, random_state=0, max_iter=40), X, y)
    weights = np.where(y == "yes", 3.0, 0.5)
    by_hand = quiet(LatentDropoutSVC(3, random_state=0, max_iter=40), X, y, sample_weight=weights)
    assert_array_equal(by_class.coef_, by_hand.coef_)
    balanced = quiet(LatentDropoutSVC(3, class_weight="balanced", random_state=0, max_iter=40), X, y)
    assert not np.allclose(balanced.coef_, by_hand.coef_)


def test_every_parameter_matters():
    X, y = problem(LatentDropoutSVC)
    base = quiet(LatentDropoutSVC(3, random_state=0, max_iter=20), X, y).decision_function(X)
    changes = [
        {"n_hidden": 4},
        {"C": 2.0},
        {"noise": 0.2},
        {"margin": 2.0},
        {"hidden_penalty": 0.1},
        {"activation": "tanh"},
        {"propagation": "gaussian"},
        {"expectation": "gaussian"},
        {"fit_intercept": False},
        {"shared": False},
        {"solver": "alternating"},
        {"class_weight": "balanced"},
        {"max_iter": 10},
        {"random_state": 1},
    ]
    for change in changes:
        model = LatentDropoutSVC(**{"n_hidden": 3, "random_state": 0, "max_iter": 20, **change})
        assert not np.allclose(quiet(model, X, y).decision_function(X), base, rtol=1e-4), change
    assert not quiet(LatentDropoutSVC(3, fit_intercept=False), X, y).hidden_intercept_.any()
    loose, tight = (LatentDropoutSVC(3, random_state=0, tol=tol).fit(X, y) for tol in (1e-2, 1e-4))
    assert loose.n_iter_ < tight.n_iter_
    assert loose.objective_ > tight.objective_


def test_the_best_of_several_starts_is_kept():
    X, y = problem(LatentDropoutSVR)
    single = [quiet(LatentDropoutSVR(3, random_state=s, noise=0.1), X, y).objective_ for s in (0,)]
    several = quiet(LatentDropoutSVR(3, random_state=0, noise=0.1, n_init=4), X, y).objective_
    assert several < single[0]


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("shared", [True, False])
def test_warm_start_goes_on(estimator, shared):
    X, y = problem(estimator)
    more = {"shared": shared} if is_classifier(estimator()) else {}
    model = estimator(3, noise=0.2, warm_start=True, random_state=0, tol=1e-4, **more).fit(X, y)
    before = model.objective_
    model.fit(X, y)
    assert model.objective_ <= before * (1 + 1e-9)
    model.set_params(n_hidden=4).fit(X, y)  # another shape: a fresh start
    assert model.hidden_coef_.shape[0] in (4, 12)


def test_stopping_early_warns_and_says_how_fast_it_went():
    X, y = problem(LatentDropoutSVC)
    with pytest.warns(ConvergenceWarning, match="max_iter=40.*ten iterations still lowered"):
        LatentDropoutSVC(3, tol=1e-8, max_iter=40, random_state=0).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="max_iter=2.*raise max_iter"):
        LatentDropoutSVC(3, max_iter=2, random_state=0).fit(X, y)


def test_verbose_prints_a_line_per_iteration(capsys):
    X, y = problem(LatentDropoutSVC)
    model = quiet(LatentDropoutSVC(3, max_iter=5, random_state=0, verbose=1), X, y)
    assert len(capsys.readouterr().out.splitlines()) == model.n_iter_ == 5


# --------------------------------------------------------------------------- scikit-learn's contract


def settings():
    return [
        *(estimator() for estimator in ESTIMATORS),
        LatentDropoutLogisticRegression(5, propagation="gaussian", activation="tanh", noise=0.2),
        LatentDropoutSVR(5, propagation="gaussian", noise=0.2),
        LatentDropoutSVC(3, shared=False, activation="relu", noise=0.0),
        LatentDropoutSVC(4, solver="alternating", noise=Gaussian(0.1), max_iter=15),
    ]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(settings())
def test_check_estimator(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_features_out_have_names(estimator):
    pandas = pytest.importorskip("pandas")
    X, y = problem(estimator)
    frame = pandas.DataFrame(X, columns=list("abcde"))
    model = quiet(estimator(3, random_state=0, max_iter=10), frame, y)
    names = [f"{estimator.__name__.lower()}{i}" for i in range(3)]
    assert_array_equal(model.get_feature_names_out(), names)
    assert list(model.set_output(transform="pandas").transform(frame).columns) == names


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_pipelines_searches_and_pickles(estimator):
    X, y = problem(estimator)
    model = make_pipeline(StandardScaler(), estimator(3, random_state=0, max_iter=300, noise=0.1))
    grid = {f"{estimator.__name__.lower()}__activation": ["sigmoid", "relu"]}
    search = quiet(GridSearchCV(model, grid, cv=2), X, y)
    copy = pickle.loads(pickle.dumps(search))
    assert_array_equal(copy.predict(X), search.predict(X))


def test_one_vs_one_works_around_it():
    X, y = problem(LatentDropoutSVC)
    model = quiet(OneVsOneClassifier(LatentDropoutSVC(4, 10.0, noise=0.0, random_state=0)), X, y)
    assert model.score(X, y) > 0.9


def test_skops_stores_it():
    skops_io = pytest.importorskip("skops.io")
    X, y = problem(LatentDropoutSVC)
    model = quiet(LatentDropoutSVC(3, noise=Deletion(0.2), random_state=0, max_iter=10), X, y)
    stored = skops_io.dumps(model)
    copy = skops_io.loads(stored, trusted=skops_io.get_untrusted_types(data=stored))
    assert_array_equal(copy.decision_function(X), model.decision_function(X))


def test_probabilities_come_from_the_scores():
    X, y = problem(LatentDropoutLogisticRegression)
    model = quiet(LatentDropoutLogisticRegression(3, random_state=0, max_iter=20), X, y)
    expected = expit(model.decision_function(X))
    assert_allclose(model.predict_proba(X), expected / expected.sum(axis=1, keepdims=True), rtol=1e-10)


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.7])
def test_a_shift_of_the_mean_is_taken_up_by_the_hidden_offsets(rate):
    X = (np.random.default_rng(0).random((60, 5)) < 0.5).astype(float)
    y = X[:, 0] + X[:, 1] == 1
    model = LatentDropoutSVC(3, 5.0, noise=BitSwap(rate), random_state=0, warm_start=True, tol=1e-4)
    quiet(model, X, y)
    W, b = model.coef_.T, model.intercept_
    G = expit((rate + (1 - 2 * rate) * X) @ model.hidden_coef_.T + model.hidden_intercept_)
    h = np.einsum("kp,nk,kd->npd", W, G * (1 - G), model.hidden_coef_)
    z = 1.0 - np.where(y, 1.0, -1.0)[:, None] * (G @ W + b)
    loss = 0.5 * (z + np.sqrt(z**2 + rate * (1 - rate) * np.sum(h**2, axis=2)))
    F = 0.5 * np.sum(W**2) + 0.5 * np.sum(model.hidden_coef_**2) + 5.0 * loss.sum()
    assert model.objective_ == pytest.approx(F, rel=1e-6)
    again = quiet(clone(model), X, y).fit(X, y)
    assert again.objective_ <= model.objective_ * (1 + 1e-9)
    refused(LatentDropoutSVC(noise=BitSwap(rate), fit_intercept=False), X, y, "fit_intercept=False")


# --------------------------------------------------------------------------- bad input


def refused(model, X, y, match: str, **more) -> None:
    with pytest.raises((ValueError, TypeError), match=match):
        model.fit(X, y, **more)
    assert [name for name in vars(model) if name.endswith("_")] == []


NOT_POSITIVE = 0, -1.0, np.nan, np.inf, "1", None, True
BAD = [
    *(("n_hidden", value) for value in (0, -1, 1.5, "20", None, True)),
    *(("n_init", value) for value in (0, 1.5, None)),
    *(("activation", value) for value in ("step", "", None, 3)),
    *(("propagation", value) for value in ("exact", None)),
    *(("expectation", value) for value in ("exact", None)),
    *(("solver", value) for value in ("irls", None)),
    *(("hidden_penalty", value) for value in NOT_POSITIVE),
    *(("C", value) for value in NOT_POSITIVE),
    *(("tol", value) for value in NOT_POSITIVE),
    *(("noise", value) for value in (1.0, -0.1, np.nan, None, "0.5")),
    *(("max_iter", value) for value in (0, 1.5, None)),
    *(("verbose", value) for value in (-1, None)),
    *(("warm_start", value) for value in ("no", None)),
    *(("fit_intercept", value) for value in ("no", None)),
    *(("random_state", value) for value in ("seed", -1, 1.5)),
]


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(("name", "value"), BAD, ids=lambda value: repr(value)[:20])
def test_bad_parameters(estimator, name, value):
    X, y = problem(estimator)
    refused(estimator(**{name: value}), X, y, re.escape(f"{name}={value!r}"))


@pytest.mark.parametrize("value", ["yes", None, 2])
def test_bad_shared(value):
    refused(LatentDropoutSVC(shared=value), *problem(LatentDropoutSVC), re.escape(f"shared={value!r}"))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_bad_data(estimator):
    X, y = problem(estimator)
    for value, match in ((np.nan, "NaN"), (np.inf, "infinity"), (1e150, "X holds values as large")):
        bad = X.copy()
        bad[0, 0] = value
        refused(estimator(), bad, y, match)
        refused(estimator(), sp.csr_array(bad), y, match)
    refused(estimator(noise=Poisson()), X, y, "Negative values in data")
    refused(estimator(noise=Dropout([0.1, 0.2])), X, y, "2 values but X has 5 features")
    refused(estimator(), X[:0], y[:0], "0 sample")
    refused(estimator(), X, y[:-1], "inconsistent numbers of samples")
    refused(estimator(), X, y, "negative weights", sample_weight=np.full(len(y), -1.0))
    refused(estimator(), X, y, "zero for every example", sample_weight=np.zeros(len(y)))
    if is_classifier(estimator()):
        refused(estimator(), X, np.zeros(len(y)), "one class only")


@pytest.mark.parametrize("estimator", [LatentDropoutSVC, LatentDropoutSVR])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("propagation", ["taylor", "gaussian"])
@pytest.mark.parametrize("scale", [1e-30, 1e40])
def test_features_of_any_size_give_a_finite_fit(estimator, activation, propagation, scale):
    X, y = problem(estimator, n=30)
    model = estimator(3, activation=activation, propagation=propagation, random_state=0, max_iter=12)
    quiet(model, scale * X, y)
    for name in "hidden_coef_", "hidden_intercept_", "coef_", "intercept_", "objective_":
        assert np.isfinite(getattr(model, name)).all(), name


def test_a_fit_that_diverges_says_so_and_leaves_nothing():
    X, y = problem(LatentDropoutSVR)
    heavy = np.full(len(y), 1e198)
    refused(LatentDropoutSVR(3, C=1e99), X, 1e97 * y, "diverges.*lower C", sample_weight=heavy)
    refused(LatentDropoutSVR(3, C=1e100), X, y, re.escape("C=1e+100 times"), sample_weight=100 * heavy)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_read_only_strided_and_wide_index_data(estimator):
    X, y = problem(estimator)
    expected = quiet(estimator(3, random_state=0, max_iter=10), X, y).coef_
    frozen = X.copy()
    frozen.flags.writeable = False
    wide = sp.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    for data in frozen, np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], wide:
        model = quiet(estimator(3, random_state=0, max_iter=10), data, y)
        assert_allclose(model.coef_, expected, rtol=1e-6, atol=1e-9)


# --------------------------------------------------------------------------- hidden units


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:400] / 16, y[:400]


@pytest.fixture(scope="module")
def fitted(digits):
    return quiet(LatentDropoutSVC(5, shared=False, random_state=0, max_iter=15, noise=0.2), *digits)


def test_hidden_units_are_sorted_and_right(digits, fitted):
    X, y = digits
    found = fitted.hidden_units(X, y, output=2, n_examples=4)
    assert sorted(found.units) == [10, 11, 12, 13, 14]  # the third class's own layer
    assert np.all(np.diff(found.weights) <= 0)
    G = fitted.transform(X)
    for row, unit in enumerate(found.units):
        assert found.weights[row] == fitted.coef_[2, unit]
        assert_array_equal(found.responses[row], np.sort(G[:, unit])[::-1][:4])
        assert_array_equal(G[found.examples[row], unit], found.responses[row])
        assert_allclose(found.class_means[row], [G[y == c, unit].mean() for c in found.classes])
    assert fitted.hidden_units(X).class_means is None


@pytest.mark.parametrize(
    ("more", "match"),
    [({"output": 10}, "output=10"), ({"n_examples": 0}, "n_examples=0"), ({"y": [1, 2]}, "y has shape")],
)
def test_hidden_units_refuse(digits, fitted, more, match):
    with pytest.raises(ValueError, match=match):
        fitted.hidden_units(digits[0], **more)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_hidden_units_display(digits, fitted):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    X, y = digits
    display = HiddenUnitsDisplay.from_estimator(fitted, X, y, n_units=3, n_examples=4, image_shape=(8, 8))
    assert display.axes_.shape == (3, 5)
    top = display.units.examples[0, 0]
    assert_array_equal(display.axes_[0, 0].get_images()[0].get_array(), X[top].reshape(8, 8))
    bars = [bar.get_height() for bar in display.axes_[0, -1].patches]
    assert_allclose(bars, display.units.class_means[0])
    plain = HiddenUnitsDisplay.from_estimator(fitted, sp.csr_array(X), n_units=2)
    assert plain.axes_.shape == (2, 1)
    with pytest.raises(ValueError, match=re.escape("image_shape=(7, 9)")):
        HiddenUnitsDisplay.from_estimator(fitted, X, image_shape=(7, 9))
    plt.close("all")


# --------------------------------------------------------------------------- what it is good for


def test_memory_does_not_grow_with_examples_times_features_times_units():
    rng = np.random.default_rng(0)
    n, d, units = 3000, 300, 30
    X = rng.random((n, d)).astype(np.float32)
    y = rng.integers(0, 10, n)
    model = LatentDropoutSVC(units, random_state=0, max_iter=2)
    tracemalloc.start()
    quiet(model, X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert n * d * units * 8 > 200e6
    assert peak < 40 * BLOCK_ENTRIES * 8 / 4 + 20e6


def test_sparse_data_are_never_made_dense():
    X = sp.random_array((2000, 100_000), density=1e-4, format="csr", rng=np.random.default_rng(0))
    y = np.arange(2000) % 2
    tracemalloc.start()
    quiet(LatentDropoutSVC(2, random_state=0, max_iter=2), X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6 < 2000 * 100_000 * 8


def test_a_hidden_layer_beats_a_linear_model_and_noise_pays_on_deleted_pixels():
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X / 16, y, test_size=0.5, random_state=0)
    linear = min(
        1 - model.fit(X, y).score(X_test, y_test)
        for model in [
            *(LinearSVC(C=C, random_state=0) for C in (0.1, 0.3, 1.0)),
            DropoutSVC(C=1.0, noise=0.1),
        ]
    )
    noisy, plain = (
        quiet(
            LatentDropoutLogisticRegression(40, 10.0, noise=q, propagation="gaussian", random_state=0), X, y
        )
        for q in (0.2, 0.0)
    )
    deleted = Dropout(0.5).corrupt(X_test, 0)
    assert 1 - noisy.score(X_test, y_test) < 0.8 * linear
    assert 1 - noisy.score(deleted, y_test) < 0.85 * (1 - plain.score(deleted, y_test))


def test_the_examples_of_the_docstrings_run():
    module = importlib.import_module("marginout.estimators.latent")
    failed, attempted = doctest.testmod(module)
    assert attempted > 10
    assert failed == 0
