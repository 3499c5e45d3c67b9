"""The hidden layer: moments and gradients against definitions and finite differences."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import binom

from marginout._core.design.storage import make_design
from marginout._models.latent.activations import ACTIVATIONS
from marginout._models.latent.objective import LatentObjective, Net
from marginout._models.latent.solvers import SOLVERS
from marginout.losses import Hinge, Quadratic
from marginout.noise import Deletion, Dropout, Gaussian, GroupDropout, Laplace, Poisson
from tests.problems import LOSSES, make_noises

N, D, K = 40, 6, 3
RATES = np.linspace(0.1, 0.6, D)
NOISES = [
    make_noises(RATES, RATES)[name]
    for name in ("none", "dropout", "deletion-each", "gaussian", "laplace-each", "poisson")
]
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
    monkeypatch.setattr("marginout._models.latent.objective.BLOCK_ENTRIES", 1)  # sixteen rows at a time
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


# --------------------------------------------------------------------------- single precision


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("propagation", ["taylor", "gaussian"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_single_precision_gives_f_and_its_gradient_to_a_millionth(noise, propagation, dtype, monkeypatch):
    monkeypatch.setattr("marginout._models.latent.objective.SINGLE_WORK", 0)
    F, net = objective(features().astype(dtype), noise, propagation=propagation, P=3), network(3)
    fast = F.single()
    assert fast is not F
    value, gradient = F.value_and_gradient(net)
    other, slopes = fast.value_and_gradient(net)
    assert other == pytest.approx(value, rel=2e-6)
    assert other != value
    assert_allclose(slopes.pack(), gradient.pack(), rtol=1e-5, atol=1e-5 * np.abs(gradient.pack()).max())


@pytest.mark.parametrize(
    ("X", "noise"),
    [
        (sp.csr_array(features()), Dropout(0.3)),
        (1e12 * features(), Dropout(0.3)),
        (1e-12 * features(), Dropout(0.3)),
        (np.zeros((N, D)), Dropout(0.3)),
        (features() + 1e6, Gaussian(0.3)),
        (features(), GroupDropout(np.arange(D) // 2, 0.3)),
    ],
    ids=["csr", "large", "small", "zero", "far", "groups"],
)
def test_single_precision_is_for_dense_data_that_it_bears(X, noise, monkeypatch):
    F = objective(features(), Dropout(0.3))
    assert F.single() is F  # little work
    monkeypatch.setattr("marginout._models.latent.objective.SINGLE_WORK", 0)
    F = objective(X, noise)
    assert F.single() is F


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_a_fit_in_single_precision_tells_f_of_its_result_in_double(loss, monkeypatch):
    F = objective(features(), Dropout(0.3), loss=LOSSES[loss], P=2)
    net = F.start(K, np.random.default_rng(0))
    precise, plain = (SOLVERS["joint"](F, net, tol=tol, max_iter=300) for tol in (1e-5, 1e-3))
    monkeypatch.setattr("marginout._models.latent.objective.SINGLE_WORK", 0)
    fast = SOLVERS["joint"](F, net, tol=1e-3, max_iter=300)
    assert fast.history[-1] != plain.history[-1]
    assert fast.value == F.value(fast.net) == pytest.approx(plain.value, rel=2e-2)
    assert SOLVERS["joint"](F, net, tol=1e-5, max_iter=300).history == precise.history


# --------------------------------------------------------------------------- solvers


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", ["hinge", "logistic", "epsilon"])
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
