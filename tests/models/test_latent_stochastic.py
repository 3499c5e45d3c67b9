"""The stochastic solver of the hidden layer: draws, gradients and fits, against formulas and solvers."""

from __future__ import annotations

import pickle
import re
import tracemalloc
import warnings
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.base import is_classifier
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from marginout import CollapsedModelWarning
from marginout._core.design.storage import design_of
from marginout._core.fit import heard
from marginout._models.latent import model as latent_model
from marginout._models.latent.activations import ACTIVATIONS
from marginout._models.latent.batches import PARTS, make_batches
from marginout._models.latent.objective import LatentObjective, Net
from marginout._models.latent.stochastic import (
    Adam,
    SampledLoss,
    Sampling,
    Single,
    Softmax,
    Training,
    epochs,
    rate,
    rates,
)
from marginout.losses import EpsilonInsensitive, Hinge, Quadratic, logistic
from marginout.noise import BitSwap, Deletion, Dropout, Gaussian, GroupDropout, Laplace, Poisson
from tests.paper import LatentDropoutLogisticRegression, LatentDropoutSVC, LatentDropoutSVR
from tests.problems import quiet

N, D, K, P = 60, 9, 4, 3
CLASSIFIERS = [LatentDropoutSVC, LatentDropoutLogisticRegression]
ESTIMATORS = [*CLASSIFIERS, LatentDropoutSVR]
STORAGES = [np.asarray, sp.csr_array]
NOISES = {
    "none": Dropout(0.0),
    "dropout": Dropout(0.3),
    "dropout-each": Dropout(np.linspace(0, 0.6, D)),
    "deletion": Deletion(0.4),
    "groups": GroupDropout(np.arange(D) // 3, 0.3),
    "gaussian": Gaussian(0.2),
    "laplace": Laplace(0.3),
    "poisson": Poisson(),
}
LOSSES = {
    "hinge": Hinge(1.3),
    "logistic": logistic(),
    "tube": EpsilonInsensitive(0.2, scale=2.0),
    "softmax": Softmax(),
}


def features(kind=np.asarray, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.gamma(1.0, size=(N, D)) * (rng.random((N, D)) < 0.6)
    X[3] = 0.0
    return kind(X.astype(dtype))


def network(size: float = 1.0, seed: int = 0) -> Net:
    rng = np.random.default_rng(seed)
    shapes = (D, K), K, (K, P), P
    return Net(*(size * rng.normal(size=shape) for shape in shapes))


def targets(seed: int = 0) -> np.ndarray:
    labels = np.random.default_rng(seed).integers(P, size=N)
    return np.where(labels[:, None] == np.arange(P), 1.0, -1.0)


def sampled(X, noise, *, loss="hinge", activation="sigmoid", hidden_noise=0.0, weights=None, rng=0):
    weights = np.ones((N, 1)) if weights is None else weights
    joint = LOSSES["hinge" if loss == "softmax" else loss]
    objective = LatentObjective(
        design_of(X, noise), ACTIVATIONS[activation], "taylor", joint, targets(), weights, 0.7, True
    )
    draws = Sampling(
        noise, hidden_noise, np.random.default_rng(rng), LOSSES[loss] if loss == "softmax" else None
    )
    return objective, draws


# --------------------------------------------------------------------------- draws


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("kind", STORAGES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_draws_have_the_moments_of_the_noise(noise, kind, dtype):
    X, rows, count = features(kind, dtype), np.array([7, 3, 7, 50]), 1000
    batches = make_batches(X, noise, len(rows), 1)
    eye, out = np.eye(D, dtype=np.float32), np.empty((len(rows), D), np.float32)
    draws = np.empty((count, len(rows), D))
    for seed in range(count):
        batches.load(rows, seed)
        batches.forward(eye, out)
        draws[seed] = out
    dense = features()[rows]
    mean, variance = noise.mean(dense), noise.var(dense)
    deviation = np.sqrt(variance)
    assert np.all(np.abs(draws.mean(axis=0) - mean) <= 5 * deviation / np.sqrt(count) + 1e-5)
    spread = np.sqrt(np.mean((draws - mean) ** 4, axis=0) / count)
    assert np.all(np.abs(np.mean((draws - mean) ** 2, axis=0) - variance) <= 5 * spread + 1e-5)
    if noise.moments(D).groups is None:  # one feature's noise says nothing about another's, or another row's
        flat = (draws - mean).reshape(count, -1)[:, (deviation > 0).ravel()]
        if flat.size:
            correlation = np.corrcoef(flat.T) - np.eye(flat.shape[1])
            assert np.abs(correlation).max() < 6 / np.sqrt(count)


def test_a_rate_that_bits_cannot_say_keeps_the_mean():
    rate = 1 - 0.4 / PARTS  # nearer to 1 than to any part
    batches = make_batches(np.ones((1, 1)), Dropout(rate), 1, 1)
    chance = 1 - batches.threshold[0] / PARTS
    assert chance == 1 / PARTS
    assert_allclose(batches.factor[0] * chance, 1.0, rtol=1e-6)


@pytest.mark.parametrize("kind", STORAGES)
@pytest.mark.parametrize("noise", [NOISES["dropout"], NOISES["groups"]], ids=["dropout", "groups"])
def test_backward_is_the_adjoint_of_forward(kind, noise):
    rng, rows = np.random.default_rng(1), np.array([4, 9, 9, 31, 0])
    batches = make_batches(features(kind), noise, len(rows), 2)
    alpha, dA = (rng.normal(size=(size, 300)).astype(np.float32) for size in (D, len(rows)))
    A, G = np.empty_like(dA), np.full((D, 300), np.nan, np.float32)
    batches.load(rows, 5)
    batches.forward(alpha, A)
    batches.backward(dA, G)
    assert_allclose(np.vdot(A, dA), np.vdot(alpha, G), rtol=1e-4)


@pytest.mark.parametrize("indices", [np.int32, np.int64])
def test_threads_and_index_types_change_no_bit(indices):
    X = features(sp.csr_array)
    X.indices, X.indptr = X.indices.astype(indices), X.indptr.astype(indices)
    rng, rows = np.random.default_rng(1), np.arange(40)
    alpha, dA = (rng.normal(size=(size, 520)).astype(np.float32) for size in (D, 40))
    found = []
    for threads in 1, 2, 3:
        batches = make_batches(X, Dropout(0.3), 40, threads)
        A, G = np.empty((40, 520), np.float32), np.empty((D, 520), np.float32)
        batches.load(rows, 11)
        batches.forward(alpha, A)
        batches.backward(dA, G)
        found.append((A, G))
    for A, G in found[1:]:
        assert_array_equal(A, found[0][0])
        assert_array_equal(G, found[0][1])


# --------------------------------------------------------------------------- gradients


def with_part(net: Single, name: str, at, value: float) -> Single:
    part = getattr(net, name).copy()
    part[at] += value
    return net._replace(**{name: part})


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("hidden_noise", [0.0, 0.4])
@pytest.mark.parametrize("kind", STORAGES)
def test_the_gradient_is_that_of_finite_differences(loss, activation, hidden_noise, kind):
    """In one direction for each part: single precision allows steps of 1e-2, and the draw stays the same."""
    weights = np.random.default_rng(3).gamma(2.0, size=(N, 1))
    objective, draws = sampled(
        features(kind),
        NOISES["dropout-each"],
        loss=loss,
        activation=activation,
        hidden_noise=hidden_noise,
        weights=weights,
    )
    f, net = SampledLoss(objective, draws, K), Single.of(network(0.5, 2))
    f.floor = 0.05  # rounds off the kinks, for differences
    rows, out = np.array([5, 9, 22]), net.zeros()
    f.value_and_gradient(net, rows, 77, out)
    rng, t = np.random.default_rng(4), 1e-2
    for name in Single._fields:
        direction = rng.normal(size=getattr(net, name).shape).astype(np.float32)
        if activation == "relu" and name in ("alpha", "a"):
            direction *= 0.01  # no unit crosses its kink
        step = (t * direction).astype(np.float32)
        values = [f.value(with_part(net, name, ..., sign * step), rows, 77) for sign in (1, -1)]
        slope = float(np.vdot(getattr(out, name), step))
        assert_allclose((values[0] - values[1]) / 2, slope, rtol=2e-2, atol=2e-6)


@pytest.mark.parametrize("kind", STORAGES)
@pytest.mark.parametrize("loss", ["hinge", "logistic", "tube"])
def test_without_noise_value_and_gradient_are_those_of_the_joint_objective(kind, loss):
    weights = np.random.default_rng(3).gamma(2.0, size=(N, 1))
    objective, draws = sampled(features(kind), Dropout(0.0), loss=loss, weights=weights)
    net = network()
    value, gradient = objective.value_and_gradient(net)
    training = Training(objective, net, draws)
    f, out = training.loss, training.net.zeros()
    total, sums = 0.0, Net(*(np.zeros_like(part) for part in net))
    for rows in np.array_split(np.arange(N), -(-N // f.size)):
        total += len(rows) / N * f.value_and_gradient(training.net, rows, 1, out)
        for part, more in zip(sums, out, strict=True):
            part += len(rows) / N * more
    assert_allclose(training._complete(total), value, rtol=1e-5)
    assert_allclose(training.value(), value, rtol=1e-5)
    for part, own, decay, other in zip(sums, net, training.decays, gradient, strict=True):
        assert_allclose(f.total * (part + decay * own), other, rtol=2e-3, atol=2e-4 * np.abs(other).max())


def mean_gradient(objective, draws, net: Net, count: int = 500) -> tuple[np.ndarray, np.ndarray]:
    """The mean over draws of the loss's gradient, over all examples, and its standard error."""
    f, single = SampledLoss(objective, draws, K), Single.of(net)
    out, parts = single.zeros(), np.array_split(np.arange(N), -(-N // f.size))
    sums = squares = 0.0
    for seed in range(count):
        total = 0.0
        for i, rows in enumerate(parts):
            f.value_and_gradient(single, rows, seed * len(parts) + i, out)
            total = total + len(rows) / N * np.concatenate([part.ravel().astype(float) for part in out])
        sums, squares = sums + total, squares + total**2
    mean = sums / count
    return mean, np.sqrt((squares / count - mean**2) / count)


def marginalised(objective, net: Net) -> np.ndarray:
    """The gradient of the joint objective's loss alone, divided by the number of examples."""
    _, gradient = objective.value_and_gradient(net)
    alpha = gradient.alpha - objective.hidden_penalty * net.alpha
    return gradient._replace(alpha=alpha, W=gradient.W - net.W).pack() / N


@pytest.mark.parametrize(
    "noise", [Dropout(0.3), Gaussian(0.2), GroupDropout(np.arange(D) // 3, 0.3)], ids=repr
)
@pytest.mark.parametrize("kind", STORAGES)
def test_the_mean_of_sampled_gradients_is_the_marginalised_one(noise, kind):
    """For a quadratic loss of a linear network, where the joint objective has no error."""
    objective, draws = sampled(features(kind), noise, activation="identity")
    objective.loss, objective.floor = Quadratic(), 0.0
    net = network(0.3)
    mean, error = mean_gradient(objective, draws, net)
    assert np.all(np.abs(mean - marginalised(objective, net)) <= 5.5 * error + 1e-6)


def test_what_is_left_is_the_error_of_taylors_expansion():
    """The slopes in alpha lack a term that is linear in alpha; the others fall with its square."""
    distances = []
    for size in 1.0, 0.25:
        objective, draws = sampled(features(), Gaussian(0.5), loss="logistic")
        objective.loss, objective.floor = Quadratic(), 0.0
        net = network(0.5)
        net = net._replace(alpha=size * net.alpha)
        mean, error = mean_gradient(objective, draws, net, 2000)
        distance = np.abs(mean - marginalised(objective, net)).max()
        distances.append(distance)
        if size == 1.0:
            assert distance > 10 * error.max()
    assert distances[1] < 0.35 * distances[0]


# --------------------------------------------------------------------------- the optimiser


def test_adam_is_the_formula_of_the_paper():
    """Kingma & Ba (2015), algorithm 1, with the penalty in the slope."""
    rng, rates, decays = np.random.default_rng(0), [0.1, 0.02, 0.3, 0.05], [0.5, 0.0, 0.1, 0.0]
    net = Single.of(network())
    adam = Adam(net, rates, decays, 2)
    w = [part.astype(float) for part in net]
    m, v = [0.0] * 4, [0.0] * 4
    for t in range(1, 8):
        for part in adam.slopes:
            part[...] = rng.normal(size=part.shape)
        adam.step(0.7)
        for i in range(4):
            g = adam.slopes[i].astype(float) + decays[i] * w[i]
            m[i], v[i] = 0.9 * m[i] + 0.1 * g, 0.999 * v[i] + 0.001 * g * g
            w[i] = w[i] - 0.7 * rates[i] * (m[i] / (1 - 0.9**t)) / (np.sqrt(v[i] / (1 - 0.999**t)) + 1e-8)
            assert_allclose(net[i], w[i], rtol=1e-4, atol=1e-5)


def test_the_rate_rises_and_falls_to_zero():
    rates = np.array([rate(step, 5000) for step in range(5000)])
    assert rates[0] == 0.01
    assert rates.argmax() == 99
    assert_allclose(np.diff(rates[99:]), -1 / 5000)
    assert 0 < rates[-1] < 1e-3
    assert max(rate(step, 4) for step in range(4)) == 0.03 * 0.5


def test_steps_of_a_wide_layer_are_short():
    """Beyond WIDE units those of the hidden layer fall like 1/√K, those of output weights like 1/K."""
    peaks = {}
    for units in 64, 128, 512:
        objective, draws = sampled(features(), Dropout(0.3))
        net = objective.start(units, np.random.RandomState(0))
        unit = float(np.sqrt(np.mean(net.alpha**2)))
        found = rates(objective, net, SampledLoss(objective, draws, units))
        peaks[units] = np.array(found) / [unit, 1, 1, 1]
    assert_allclose(peaks[128] / peaks[64], [1, 1, np.sqrt(0.5), 1])
    assert_allclose(peaks[512] / peaks[128], [0.5, 0.5, 0.25, 1])


@pytest.mark.parametrize(
    ("n", "tol", "count"),
    [
        (60_000, 1e-3, 30),
        (60_000, 1e-1, 3),
        (60_000, 1e-5, 300),
        (200, 1e-3, 250),
        (20, 1e-3, 1000),
        (20, 1e9, 1),
    ],
)
def test_epochs_follow_from_the_number_of_examples_and_tol(n, tol, count):
    assert epochs(n, tol) == count


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_fit_has_as_many_epochs_as_tol_asks_for_and_max_iter_allows(estimator):
    X, y = problem(estimator)
    assert make(estimator, tol=0.1).fit(X, y).n_iter_ == 25
    assert make(estimator, tol=0.1, max_iter=7).fit(X, y).n_iter_ == 7


def test_a_listener_hears_the_share_of_the_epochs_that_is_done():
    X, y = problem(LatentDropoutSVC)
    shares = []
    with heard(lambda name, share: shares.append((name, share))):
        make(LatentDropoutSVC, max_iter=4, shared=False).fit(X, y)
    assert {name for name, _ in shares} == {"iteration"}
    assert_allclose([share for _, share in shares], np.arange(1, 13) / 12)


# --------------------------------------------------------------------------- fits


def problem(estimator, n: int = 200, d: int = 5, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    scores = np.column_stack([X[:, 0] * X[:, 1], X[:, 2] + 0.5, X[:, 3] ** 2 - 0.5])
    return X, scores.argmax(axis=1) if is_classifier(estimator()) else scores.sum(axis=1)


def make(estimator, **more):
    return estimator(**{"n_hidden": 8, "noise": 0.1, "solver": "stochastic", "random_state": 0, **more})


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("shared", [True, False])
def test_without_noise_it_comes_close_to_the_joint_solver(estimator, shared):
    X, y = problem(estimator)
    more = {"noise": 0.0, "C": 10.0, "n_hidden": 20}
    if is_classifier(estimator()):
        more["shared"] = shared
    if estimator is LatentDropoutLogisticRegression:
        more["multi_class"] = "ovr"
    elif not shared and estimator is LatentDropoutSVR:
        pytest.skip("A regression has one output, and one layer for it.")
    # F is not convex. A regression all but interpolates: from five starts, joint ends between 83 and 100.
    lowest = value = 0.0
    for seed in range(1 if is_classifier(estimator()) else 3):
        more["random_state"] = seed
        lowest += make(estimator, **more, solver="joint", tol=1e-4).fit(X, y).objective_
        value += make(estimator, **more, tol=1e-5, max_iter=3000).fit(X, y).objective_
    assert 0.95 * lowest < value < (1.05 if is_classifier(estimator()) else 1.2) * lowest


@pytest.mark.parametrize("kind", STORAGES)
def test_under_noise_the_network_is_as_good_as_that_of_the_joint_solver(kind):
    X, y = load_digits(return_X_y=True)
    train, test, labels, truth = train_test_split(X / 16, y, random_state=0)
    scores = {
        solver: LatentDropoutSVC(20, noise=0.3, solver=solver, random_state=0)
        .fit(kind(train), labels)
        .score(test, truth)
        for solver in ("joint", "stochastic")
    }
    assert scores["stochastic"] > scores["joint"] - 0.015


def test_the_objective_is_the_expectation_over_explicit_draws():
    X, y = problem(LatentDropoutLogisticRegression)
    model = make(LatentDropoutLogisticRegression, noise=Gaussian(0.3), C=3.0, hidden_penalty=0.5).fit(X, y)
    rng, values = np.random.default_rng(9), []
    for _ in range(400):
        drawn = X + np.sqrt(0.3) * rng.normal(size=X.shape)
        values.append(-model.predict_log_proba(drawn)[np.arange(len(y)), y].sum())
    squares = 0.5 * np.sum(model.coef_**2) + 0.25 * np.sum(model.hidden_coef_**2)
    F = squares + 3.0 * np.mean(values)
    assert_allclose(model.objective_, F, rtol=0.02)
    assert_allclose(model.objective_history_[-1], F, rtol=0.1)
    assert len(model.objective_history_) == model.n_iter_


def test_probabilities_of_a_joint_loss_are_the_softmax_of_the_scores():
    X, y = problem(LatentDropoutLogisticRegression)
    model = make(LatentDropoutLogisticRegression).fit(X, y)
    assert model.multi_class_ == "multinomial"
    assert_allclose(model.predict_proba(X), softmax(model.decision_function(X), axis=1), rtol=1e-10)
    other = make(LatentDropoutLogisticRegression, multi_class="ovr").fit(X, y)
    assert other.multi_class_ == "ovr"
    p = 1 / (1 + np.exp(-other.decision_function(X)))
    assert_allclose(other.predict_proba(X), p / p.sum(axis=1, keepdims=True), rtol=1e-10)
    frequencies = np.bincount(y) / len(y)
    collapsed = make(LatentDropoutLogisticRegression, C=1e-4, noise=0.0)
    with pytest.warns(CollapsedModelWarning):
        found = collapsed.fit(X, y).predict_proba(X)
    assert_allclose(found.mean(axis=0), frequencies, atol=0.02)  # offsets are free


@pytest.mark.parametrize("kind", STORAGES)
def test_balanced_weights_are_those_of_scikit_learn(kind):
    """In a joint loss a class has the weight n/(P n_c) for each example."""
    X, y = problem(LatentDropoutLogisticRegression)
    keep = (y != 2) | (np.arange(len(y)) % 4 == 0)
    X, y = kind(X)[keep], y[keep]
    weights = len(y) / (3 * np.bincount(y))
    balanced = make(LatentDropoutLogisticRegression, class_weight="balanced").fit(X, y)
    given = make(LatentDropoutLogisticRegression, class_weight=dict(enumerate(weights))).fit(X, y)
    sample = make(LatentDropoutLogisticRegression).fit(X, y, sample_weight=weights[y])
    assert_allclose(balanced.coef_, given.coef_, rtol=1e-4, atol=1e-5)
    assert_allclose(sample.coef_, given.coef_, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("kind", STORAGES)
def test_same_seed_same_bits_and_copies_too(estimator, kind):
    X, y = problem(estimator)
    model = make(estimator, max_iter=5).fit(kind(X), y)
    again = make(estimator, max_iter=5).fit(kind(X), y)
    assert_array_equal(model.hidden_coef_, again.hidden_coef_)
    assert model.objective_ == again.objective_
    other = make(estimator, max_iter=5, random_state=1).fit(kind(X), y)
    assert not np.array_equal(model.coef_, other.coef_)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_repeated_examples_are_weights_to_the_last_bit(estimator):
    X, y = problem(estimator, 60)
    counts = np.arange(60) % 3
    weighted = make(estimator, max_iter=4).fit(X, y, sample_weight=counts)
    repeated = make(estimator, max_iter=4).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    assert_array_equal(weighted.hidden_coef_, repeated.hidden_coef_)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_scale_of_features_and_targets_does_not_matter_where_penalties_are_small(estimator, scale):
    X, y = problem(estimator)
    more = {"C": 1e6 * max(scale, 1 / scale) ** 2, "noise": 0.0}
    if is_classifier(estimator()):
        better = make(estimator, **more).fit(scale * X, y).score(scale * X, y)
        assert better > 0.9
        return
    more["epsilon"] = 0.01 * scale
    assert make(estimator, **more).fit(X, scale * y).score(X, scale * y) > 0.9


@pytest.mark.parametrize("noise", [*NOISES.values(), BitSwap(0.1)], ids=[*NOISES, "bits"])
@pytest.mark.parametrize("kind", STORAGES)
def test_every_noise_trains(noise, kind):
    rng = np.random.default_rng(0)
    X = (rng.random((300, D)) < 0.5).astype(float)
    y = (X[:, 0] + X[:, 1] == 1).astype(int)
    more = {"fit_intercept": True, "C": 100.0, "activation": "tanh"}
    model = make(LatentDropoutSVC, noise=noise, **more).fit(kind(X), y)
    assert np.isfinite(model.objective_)
    floor = 0.6 if repr(noise)[:7] in ("Poisson", "Laplace", "Deletio", "GroupDr") else 0.75
    assert model.score(kind(X), y) > floor


def test_hidden_noise_matters_and_spreads_the_weights():
    X, y = load_digits(return_X_y=True)
    more = {"n_hidden": 60, "noise": 0.0, "C": 30.0, "activation": "relu"}
    train, test, labels, truth = train_test_split(X / 16, y, random_state=0)
    plain, noisy = (
        make(LatentDropoutLogisticRegression, hidden_noise=rate, **more).fit(train, labels)
        for rate in (0.0, 0.5)
    )

    def kept(model) -> float:
        """The score where every second unit is gone, and the others count twice."""
        gates = np.random.default_rng(0).random((len(test), 60)) < 0.5
        scores = 2 * (model.transform(test) * gates) @ model.coef_.T + model.intercept_
        return float(np.mean(scores.argmax(axis=1) == truth))

    assert kept(noisy) > kept(plain) + 0.05
    assert noisy.score(test, truth) > plain.score(test, truth) - 0.01


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_warm_start_goes_on(estimator):
    X, y = problem(estimator)
    model = make(estimator, warm_start=True, C=10.0).fit(X, y)
    first = model.objective_
    model.set_params(max_iter=1).fit(X, y)
    cold = make(estimator, max_iter=1, C=10.0).fit(X, y)
    assert model.objective_ < 1.3 * first < cold.objective_


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_offsets_that_are_not_fitted_are_zero(estimator):
    X, y = problem(estimator)
    model = make(estimator, fit_intercept=False, max_iter=5).fit(X, y)
    assert not model.hidden_intercept_.any()
    assert not np.any(model.intercept_)


def test_a_fit_that_is_interrupted_leaves_the_last_one(monkeypatch):
    X, y = problem(LatentDropoutSVC)
    model = make(LatentDropoutSVC, max_iter=3).fit(X, y)
    before, calls = {name: value for name, value in vars(model).items() if name.endswith("_")}, []

    def interrupt(self, count):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return epoch(self, count)

    epoch = Training.epoch
    monkeypatch.setattr(Training, "epoch", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:50], y[:50])
    assert len(calls) == 2
    for name, value in before.items():
        assert_array_equal(getattr(model, name), value)


def test_verbose_prints_a_line_per_epoch(capsys):
    X, y = problem(LatentDropoutSVC)
    make(LatentDropoutSVC, max_iter=3, verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(re.match(r"problem 0, iteration \d: objective ", line) for line in lines)


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"hidden_noise": 1.0}, "hidden_noise=1.0 must be a dropout rate"),
        ({"hidden_noise": -0.1}, "hidden_noise=-0.1 must be a dropout rate"),
        ({"hidden_noise": "much"}, "hidden_noise='much' must be a dropout rate"),
        ({"hidden_noise": 0.5, "solver": "joint"}, "set solver='stochastic', or hidden_noise=0"),
        ({"propagation": "gaussian"}, "leave it at 'taylor', or set solver='joint'"),
        ({"expectation": "gaussian"}, "leave it at 'bound', or set solver='joint'"),
        ({"multi_class": "both"}, "multi_class='both'"),
        ({"multi_class": "multinomial", "solver": "joint"}, "or set multi_class='ovr'"),
        ({"multi_class": "multinomial", "shared": False}, "or set multi_class='ovr'"),
    ],
)
def test_what_does_not_go_together_is_refused(more, match):
    X, y = problem(LatentDropoutLogisticRegression)
    model = make(LatentDropoutLogisticRegression, **more)
    with pytest.raises(ValueError, match=re.escape(match)):
        model.fit(X, y)
    assert not hasattr(model, "coef_")


def test_numbers_beyond_single_precision_are_refused():
    X, y = problem(LatentDropoutSVC)
    with pytest.raises(ValueError, match=r"The fit diverges.*Scale the features"):
        make(LatentDropoutSVC).fit(1e60 * X, y)


EXTREMES = {
    "tiny": lambda X: 1e-30 * X,
    "large": lambda X: 1e10 * X,
    "huge": lambda X: 1e30 * X,
    "beyond single precision": lambda X: 1e60 * X,
    "far from zero": lambda X: X + 1e8,
    "a constant feature": lambda X: np.column_stack([X, np.full(len(X), 7.0)]),
    "constant": np.ones_like,
    "zero": np.zeros_like,
    "a huge feature": lambda X: X * [1e12, 1, 1, 1, 1],
    "an outlier": lambda X: np.vstack([X[:-1], np.full((1, 5), 1e15)]),
}


@pytest.mark.parametrize("change", EXTREMES.values(), ids=EXTREMES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("C", [1e-12, 1.0, 1e12])
def test_no_number_is_nan(change, estimator, C):
    """Of a fit and of a stream: either all numbers are finite, or the features are to be scaled."""
    X, y = problem(estimator, 80)
    X = change(X)
    fitted, learnt = (make(estimator, C=C, max_iter=3) for _ in range(2))
    known = {"classes": np.unique(y)} if is_classifier(fitted) else {}
    for model, train in ((fitted, fitted.fit), (learnt, partial(learnt.partial_fit, **known))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                train(X, y)
            except ValueError as error:
                assert re.search(r"(?i)scale the features|divide by a constant", str(error))  # noqa: PT017
                assert not hasattr(model, "coef_")
                continue
        names = "coef_", "intercept_", "hidden_coef_", "hidden_intercept_", "objective_", "objective_history_"
        scores = model.decision_function(X) if is_classifier(model) else model.predict(X)
        for value in (scores, *(getattr(model, name, 0.0) for name in names)):
            assert np.isfinite(value).all()


def test_targets_beyond_single_precision_are_refused():
    X, y = problem(LatentDropoutSVR)
    with pytest.raises(ValueError, match=r"The fit diverges.*in a regression y"):
        make(LatentDropoutSVR, max_iter=20).fit(X, 1e60 * y)
    scaled = StandardScaler().fit_transform(1e60 * y[:, None])[:, 0]
    assert np.isfinite(make(LatentDropoutSVR, max_iter=20).fit(X, scaled).objective_)


def test_clean_data_are_learnt_as_by_scikit_learn():
    X, y = load_digits(return_X_y=True)
    train, test, labels, truth = train_test_split(X / 16, y, random_state=0)
    model = make(LatentDropoutLogisticRegression, n_hidden=100, activation="relu", C=100.0, noise=0.2)
    peer = quiet(MLPClassifier((100,), random_state=0), train, labels)
    assert model.fit(train, labels).score(test, truth) >= peer.score(test, truth)


@pytest.mark.parametrize("kind", STORAGES)
def test_memory_stays_below_half_of_x(kind):
    rng = np.random.default_rng(0)
    X = rng.random((4000, 1000)) * (rng.random((4000, 1000)) < (0.5 if kind is np.asarray else 0.2))
    X, y = kind(X), np.arange(4000) % 2
    nbytes = X.nbytes if kind is np.asarray else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    model = make(LatentDropoutSVC, noise=0.3, max_iter=1)
    quiet(model, X, y)
    tracemalloc.start()
    quiet(model, X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * nbytes


def test_auto_draws_for_large_data_and_for_hidden_noise_unless_an_approximation_is_asked_for(monkeypatch):
    X, y = problem(LatentDropoutLogisticRegression)

    def kind(**more) -> str:
        return (
            make(LatentDropoutLogisticRegression, solver="auto", max_iter=20, **more).fit(X, y).multi_class_
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert kind() == "ovr"
        assert kind(hidden_noise=0.2) == "multinomial"
        monkeypatch.setattr(latent_model, "SAMPLED_WORK", X.size * 8 * 4 - 1)
        assert kind() == "multinomial"
        assert kind(propagation="gaussian") == kind(expectation="gaussian") == "ovr"
        monkeypatch.setattr(latent_model, "SAMPLED_WORK", X.size * 8 * 4)
        assert kind() == "ovr"
