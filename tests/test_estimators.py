"""What the three linear estimators promise: formulas, weights, starts, storage, and fits that break."""

from __future__ import annotations

import doctest
import hashlib
import importlib
import inspect
import tracemalloc
import warnings
from functools import lru_cache

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.class_weight import compute_sample_weight
from threadpoolctl import threadpool_limits

from marginout import DropoutLogisticRegression, DropoutSVC, DropoutSVR, MCFClassifier, MCFRegressor
from marginout._objective import Objective
from marginout.noise import Deletion, Dropout, Gaussian, Laplace, Poisson

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


# --------------------------------------------------------------------------- the formula in the docstring

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


# --------------------------------------------------------------------------- what a fit reports


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


# --------------------------------------------------------------------------- several classes


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize("noise", [0.0, 0.3, Gaussian(0.2)], ids=repr)
@pytest.mark.parametrize("solver", SOLVERS)
def test_batch_equals_separate_fits(estimator, noise, solver):
    """Problems solved side by side take their steps together, but end where they end alone.

    ‖Δw‖ ≤ √(2ΔF), so that weights to 1e-6 need F to about 1e-12; lbfgs and Newton's method take one
    problem after the other anyway. Balanced, no class is given up: F has no tip to creep to.
    """
    X, y = problem(estimator, n=90, n_classes=4)
    labels = np.array(["d", "b", "a", "c"])[y]
    one_by_one = solver == "lbfgs" or (noise == 0.0 and estimator is DropoutSVC)
    tol = 1e-5 if one_by_one else 1e-12
    options = {"solver": solver, "tol": tol, "max_iter": 10_000, "class_weight": "balanced"}
    model = estimator(C=0.7, noise=noise, **options).fit(X, labels)
    assert_array_equal(model.classes_, ["a", "b", "c", "d"])
    batch, coef, intercept = model.objective_, model.coef_, model.intercept_
    total = 0.0
    for k, label in enumerate("abcd"):
        model.fit(X, np.where(labels == label, 1, -1))
        assert_allclose(model.coef_[0], coef[k], atol=1e-6)
        assert_allclose(model.intercept_[0], intercept[k], atol=1e-6)
        total += model.objective_
    assert_allclose(batch, total, rtol=1e-11)


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_two_classes_are_one_problem_for_the_second(estimator):
    X, y = problem(estimator, n_classes=2)
    words, signs = estimator().fit(X, np.array(["no", "yes"])[y]), estimator().fit(X, 2 * y - 1)
    assert_array_equal(words.coef_, signs.coef_)
    swapped = estimator(tol=1e-10).fit(X, 1 - y)
    assert_allclose(swapped.coef_, -estimator(tol=1e-10).fit(X, y).coef_, atol=1e-6)
    assert_array_equal(words.predict(X) == "yes", words.decision_function(X) > 0)


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_predict_is_the_highest_score(estimator):
    X, y = problem(estimator)
    model = estimator().fit(X, y)
    scores = X @ model.coef_.T + model.intercept_
    assert_allclose(model.decision_function(X), scores, rtol=1e-12)
    assert_array_equal(model.predict(X), scores.argmax(axis=1))


# --------------------------------------------------------------------------- weights


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


@pytest.mark.parametrize("estimator", ESTIMATORS)
@with_and_without_noise
def test_weights_are_repetitions(estimator, noise):
    X, y = problem(estimator)
    counts = np.random.default_rng(3).integers(1, 4, len(y))
    repeated = tight(estimator, noise).fit(X.repeat(counts, axis=0), y.repeat(counts))
    assert_same_solution(tight(estimator, noise).fit(X, y, sample_weight=counts), repeated)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@with_and_without_noise
def test_weight_zero_is_removal(estimator, noise):
    X, y = problem(estimator)
    keep = np.arange(len(y)) % 4 != 0
    outliers = np.where(keep[:, None], X, 50.0)
    weighted = tight(estimator, noise).fit(outliers, y, sample_weight=keep.astype(float))
    assert_same_solution(weighted, tight(estimator, noise).fit(X[keep], y[keep]))


@pytest.mark.parametrize("estimator", ESTIMATORS)
@with_and_without_noise
def test_weights_multiply_C(estimator, noise):
    X, y = problem(estimator)
    weighted = tight(estimator, noise).fit(X, y, sample_weight=np.full(len(y), 2.5))
    assert_same_solution(weighted, tight(estimator, noise, C=2.5 * 0.8).fit(X, y))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_one_weight_is_for_all(estimator):
    X, y = problem(estimator)
    one = estimator().fit(X, y, sample_weight=2.5)
    assert_array_equal(one.coef_, estimator().fit(X, y, sample_weight=np.full(len(y), 2.5)).coef_)


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize("n_classes", [2, 3])
@with_and_without_noise
def test_class_weight_is_sample_weight(estimator, n_classes, noise):
    X, y = problem(estimator, n_classes=n_classes)
    own = np.random.default_rng(4).uniform(0.5, 2.0, len(y))
    each = {0: 3.0, 1: 0.5}  # a class that is not named weighs 1
    by_class = tight(estimator, noise, class_weight=each).fit(X, y, sample_weight=own)
    by_example = tight(estimator, noise).fit(X, y, sample_weight=own * np.array([3.0, 0.5, 1.0])[y])
    assert_same_solution(by_class, by_example)
    assert np.abs(by_class.coef_ - tight(estimator, noise).fit(X, y, sample_weight=own).coef_).max() > 0.01


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@with_and_without_noise
def test_balanced_gives_both_sides_the_same_weight(estimator, weighted, n_classes, noise):
    X, y = problem(estimator, n_classes=n_classes)
    own = np.random.default_rng(5).uniform(0.2, 3.0, len(y)) if weighted else np.ones(len(y))
    balanced = tight(estimator, noise, class_weight="balanced")
    balanced.fit(X, y, sample_weight=own if weighted else None)
    for k, label in enumerate([1] if n_classes == 2 else range(3)):
        positive = y == label
        share = np.where(positive, own[positive].sum(), own[~positive].sum())
        by_hand = tight(estimator, noise).fit(X, positive, sample_weight=own * own.sum() / (2 * share))
        far = np.sqrt(2 * by_hand.optimality_gap_) + np.sqrt(2 * balanced.optimality_gap_)
        assert far < 0.05
        assert np.linalg.norm(balanced.coef_[k] - by_hand.coef_[0]) <= far
        assert_allclose(balanced.intercept_[k], by_hand.intercept_[0], atol=far)


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@with_and_without_noise
def test_balanced_is_scikit_learns_for_two_classes(estimator, noise):
    X, y = problem(estimator, n_classes=2)
    by_sklearn = tight(estimator, noise).fit(X, y, sample_weight=compute_sample_weight("balanced", y))
    assert_same_solution(tight(estimator, noise, class_weight="balanced").fit(X, y), by_sklearn)


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_class_without_weight(estimator, class_weight):
    """A class whose examples all have weight zero is never predicted, and disturbs nobody."""
    X, y = problem(estimator)
    weights = (y != 2).astype(float)
    model = estimator(class_weight=class_weight).fit(X, y, sample_weight=weights)
    alone = estimator(class_weight=class_weight, tol=1e-6).fit(X[y != 2], y[y != 2])
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.intercept_).all()
    assert not (model.predict(X) == 2).any()
    assert np.mean(model.predict(X) == alone.predict(X)) > 0.95


# --------------------------------------------------------------------------- warm starts


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_warm_start_is_a_start(estimator, solver):
    X, y = problem(estimator)
    model = estimator(C=5.0, noise=0.05, solver=solver, tol=1e-6, warm_start=True)
    first = model.fit(X, y).objective_
    assert model.n_iter_ > 2
    assert model.fit(X, y).n_iter_ <= 2
    assert model.objective_ <= first * (1 + 1e-12)
    assert model.objective_ >= first * (1 - 1e-6)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_no_warm_start_unasked(estimator):
    X, y = problem(estimator)
    model = estimator(noise=0.2).fit(X, y)
    first = fitted_attributes(model)
    assert_same_attributes(model.fit(X, y), first)


@pytest.mark.parametrize("estimator", [DropoutSVC, DropoutSVR])
def test_warm_start_without_noise_changes_nothing(estimator):
    X, y = problem(estimator)
    model = estimator(noise=0.0, tol=1e-5, warm_start=True)
    first = model.fit(X, y).objective_
    assert_allclose(model.fit(X, y).objective_, first, rtol=1e-6)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_warm_start_follows_a_path(estimator):
    """A model warm-started along C reaches the optimum of every C."""
    X, y = problem(estimator)
    walker = estimator(noise=0.2, tol=1e-8, warm_start=True)
    for C in 0.01, 0.1, 1.0, 10.0:
        walker.set_params(C=C).fit(X, y)
        fresh = estimator(C=C, noise=0.2, tol=1e-8).fit(X, y)
        assert_allclose(walker.objective_, fresh.objective_, rtol=1e-8)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_warm_start_ignores_another_number_of_features(estimator):
    X, y = problem(estimator)
    model = estimator(warm_start=True).fit(X, y).fit(X[:, :4], y)
    assert_array_equal(model.coef_, estimator().fit(X[:, :4], y).coef_)


@pytest.mark.parametrize("estimator", [*ESTIMATORS, MCFClassifier, MCFRegressor])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_warm_start_without_an_offset_forgets_the_last_one(estimator, noise):
    X, y = problem(estimator)
    model = estimator(noise=noise, tol=1e-8, warm_start=True).fit(X + 1, y)
    assert model.intercept_.any()
    model.set_params(fit_intercept=False).fit(X + 1, y)
    fresh = estimator(noise=noise, tol=1e-8, fit_intercept=False).fit(X + 1, y)
    assert not model.intercept_.any()
    assert_allclose(model.objective_, fresh.objective_, rtol=1e-6)


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize("others", [lambda y: y + 1, lambda y: y == 0, lambda y: y % 2], ids=range(3))
def test_warm_start_ignores_other_classes(estimator, others):
    X, y = problem(estimator)
    model = estimator(warm_start=True).fit(X, y).fit(X, others(y))
    assert_array_equal(model.coef_, estimator().fit(X, others(y)).coef_)


# --------------------------------------------------------------------------- every parameter matters

CHANGES = [
    *((estimator, {"C": 1.0}, {"C": 0.1}) for estimator in ESTIMATORS),
    *((estimator, {"noise": 0.5}, {"noise": 0.4}) for estimator in ESTIMATORS),
    *((estimator, {"noise": 0.5}, {"noise": Deletion(0.5)}) for estimator in ESTIMATORS),
    *((estimator, {"expectation": "bound"}, {"expectation": "gaussian"}) for estimator in ESTIMATORS),
    *((estimator, {"fit_intercept": True}, {"fit_intercept": False}) for estimator in ESTIMATORS),
    *((estimator, {"class_weight": None}, {"class_weight": "balanced"}) for estimator in CLASSIFIERS),
    *((estimator, {"class_weight": None}, {"class_weight": {0: 2.0}}) for estimator in CLASSIFIERS),
    (DropoutSVC, {"margin": 1.0}, {"margin": 0.5}),
    (DropoutSVR, {"epsilon": 0.1}, {"epsilon": 0.5}),
]


@pytest.mark.parametrize(("estimator", "usual", "other"), CHANGES)
def test_parameter_changes_the_solution(estimator, usual, other):
    X, y = problem(estimator)
    X = X + 1.0  # an offset has something to do
    default = estimator(tol=1e-6).fit(X, y)
    assert_array_equal(estimator(tol=1e-6, **usual).fit(X, y).coef_, default.coef_)
    changed = estimator(tol=1e-6, **other).fit(X, y)
    assert np.abs(changed.coef_ - default.coef_).max() > 0.01 * np.abs(default.coef_).max()


def test_margin_is_a_unit_of_length():
    """With margin ℓ, C = c/ℓ and ℓ·w solve the problem of margin 1: F(ℓw; ℓ, C) = ℓ²·F(w; 1, C/ℓ)."""
    X, y = problem(DropoutSVC, n_classes=2)
    one = DropoutSVC(C=0.5, tol=1e-10).fit(X, y)
    wide = DropoutSVC(C=0.5 * 3.0, margin=3.0, tol=1e-10).fit(X, y)
    assert_allclose(wide.coef_, 3.0 * one.coef_, atol=1e-5)
    assert_allclose(wide.objective_, 9.0 * one.objective_, rtol=1e-9)


def test_epsilon_is_a_tube():
    """A tube that holds all the targets asks for nothing; without noise, errors below ε cost nothing."""
    X, y = problem(DropoutSVR)
    assert_allclose(DropoutSVR(epsilon=np.ptp(y)).fit(X, y).coef_, 0.0, atol=1e-8)
    model = DropoutSVR(C=100.0, noise=0.0, epsilon=2.0).fit(X, y)
    errors = np.abs(y - model.predict(X))
    assert errors.max() == pytest.approx(2.0, abs=1e-3)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_fit_intercept(estimator, noise):
    X, y = problem(estimator)
    model = estimator(noise=noise, fit_intercept=False).fit(X, y)
    assert_array_equal(model.intercept_, 0.0)
    assert estimator(noise=noise).fit(X, y).objective_ < model.objective_


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_solver_is_another_road_to_the_same_place(estimator, solver):
    X, y = problem(estimator)
    model = estimator(C=3.0, noise=0.2, solver=solver, tol=1e-8, max_iter=10_000).fit(X, y)
    auto = estimator(C=3.0, noise=0.2, tol=1e-8, max_iter=10_000).fit(X, y)
    assert_allclose(model.objective_, auto.objective_, rtol=2e-9)
    same_road = np.array_equal(model.objective_history_, auto.objective_history_)
    assert same_road == (solver == "ncg")


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_tol_buys_accuracy_with_iterations(estimator, solver):
    X, y = problem(estimator)
    fits = [estimator(C=3.0, noise=0.2, solver=solver, tol=tol).fit(X, y) for tol in (1e-1, 1e-3, 1e-6)]
    coarse, default, fine = (fit.n_iter_ for fit in fits)
    assert coarse <= default < fine
    assert min(fits[0].objective_, fits[1].objective_) > fits[2].objective_
    assert_array_equal(fits[1].coef_, estimator(C=3.0, noise=0.2, solver=solver).fit(X, y).coef_)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("road", [{"solver": s} for s in SOLVERS] + [{"noise": 0.0}], ids=str)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_max_iter_warns_with_the_gap_and_the_cure(estimator, road, n_classes):
    X, y = problem(estimator, n_classes=n_classes)
    model = estimator(C=3.0, max_iter=2, tol=1e-12, **road)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X, y)
    assert len(caught) == 1
    text = str(caught[0].message)
    assert "max_iter=2" in text
    assert "raise max_iter" in text
    problems = 3 if is_classifier(model) and n_classes == 3 else 1
    assert ("one-vs-rest problems" in text) == (problems == 3)
    assert model.n_iter_ == 2
    if problems == 1:
        assert f"within {model.optimality_gap_ / model.objective_:.1e} of its minimum" in text


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_warning_points_to_the_call_of_fit(estimator):
    with pytest.warns(ConvergenceWarning) as caught:
        estimator(max_iter=1, tol=1e-12).fit(*problem(estimator))
    assert caught[0].filename == __file__


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("road", [{"solver": s} for s in SOLVERS] + [{"noise": 0.0}], ids=str)
def test_verbose_prints_a_line_per_iteration(estimator, road, capsys):
    X, y = problem(estimator, n_classes=2)
    estimator(**road).fit(X, y)
    assert capsys.readouterr().out == ""
    model = estimator(verbose=1, **road).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(model.objective_history_)
    assert lines[-1].startswith(f"iteration {model.n_iter_}: objective ")
    shown = float(lines[-1].split()[3].rstrip(","))
    assert_allclose(shown, model.objective_, rtol=1e-6)  # the offset is settled at the end


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_no_parameter_without_a_test(estimator):
    """A new constructor parameter needs a test above that shows it matters."""
    tested = {name for cls, _, other in CHANGES if cls is estimator for name in other}
    tested |= {"solver", "tol", "max_iter", "verbose", "warm_start"}
    tested |= {"missing"}  # test_missing.py
    assert set(inspect.signature(estimator).parameters) == tested


# --------------------------------------------------------------------------- the same fit, twice


def large(estimator, sparse: bool):
    """Data that two threads do share: more than one block, and more than 200,000 multiplications."""
    rng = np.random.default_rng(6)
    X = (
        rng.normal(size=(4000, 100))
        if not sparse
        else sp.random_array((4000, 500), density=0.1, rng=rng, format="csr")
    )
    f = X @ rng.normal(size=X.shape[1]) + rng.normal(size=4000)
    return X, (np.digitize(f, np.quantile(f, [0.3, 0.6])) if is_classifier(estimator()) else f)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "CSR"])
@pytest.mark.parametrize("noise", [0.5, 0.0], ids=["noise", "no noise"])
@pytest.mark.parametrize("threads", [1, 2])
def test_two_fits_are_bit_equal(estimator, sparse, noise, threads):
    X, y = large(estimator, sparse)
    with threadpool_limits(threads):
        first, second = (quiet(estimator(C=0.01, noise=noise, max_iter=20), X, y) for _ in range(2))
    assert_same_attributes(first, fitted_attributes(second))


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "CSR"])
def test_threads_change_the_rounding_only(estimator, sparse):
    X, y = large(estimator, sparse)
    fits = []
    for threads in 1, 2:
        with threadpool_limits(threads):
            fits.append(estimator(C=0.01).fit(X, y))
    assert_allclose(fits[0].coef_, fits[1].coef_, atol=1e-7)


# --------------------------------------------------------------------------- storage


def with_int64(X):
    X = X.copy()
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def inside(X):
    """A view into a larger array, with a stride in both directions."""
    room = np.full((2 * X.shape[0], 3 * X.shape[1]), np.nan, dtype=X.dtype)
    room[::2, 1::3] = X
    return room[::2, 1::3]


STORAGE = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": inside,
    "csr_matrix": sp.csr_matrix,
    "csr_array": sp.csr_array,
    "csr int64": lambda X: with_int64(sp.csr_array(X)),
    "csc_array": sp.csc_array,
    "coo_array": sp.coo_array,
}


def parts(X) -> list[np.ndarray]:
    """The arrays that X is made of."""
    names = "data", "indices", "indptr", "coords", "row", "col", "rows"
    return [np.asarray(getattr(X, n)) for n in names if hasattr(X, n)] if sp.issparse(X) else [X]


def fingerprint(X) -> list[tuple]:
    return [
        (a.dtype, a.shape, a.strides, a.flags.writeable, hashlib.sha256(np.ascontiguousarray(a)).hexdigest())
        for a in parts(X)
        if a.dtype != object
    ]


def sparse_problem(estimator, dtype):
    X, y = problem(estimator, n=80, d=12, n_classes=3)
    X = np.where(X > 1.0, X, 0.0)  # numbers that float32 holds exactly: the data are the same
    return np.round(X * 64) / 64, y


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("noise", [0.3, 0.0, Poisson()], ids=repr)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("storage", STORAGE)
def test_storage_does_not_matter(estimator, noise, dtype, storage):
    X, y = sparse_problem(estimator, dtype)
    reference = tight(estimator, noise).fit(X, y)
    stored = STORAGE[storage](X.astype(dtype))
    before = fingerprint(stored)
    model = tight(estimator, noise).fit(stored, y)
    # float32 data are read as they are and summed in float64, so the same numbers give the same fit.
    assert_same_solution(model, reference)
    assert model.coef_.dtype == np.float64
    assert_allclose(model.predict(stored), model.predict(X), rtol=1e-12)
    assert fingerprint(stored) == before


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("storage", ["C", "csr_array"])
def test_read_only_data(estimator, solver, storage):
    X, y = sparse_problem(estimator, np.float64)
    stored = STORAGE[storage](X)
    for part in parts(stored):
        part.flags.writeable = False
    y.flags.writeable = False
    weights = np.ones(len(y))
    weights.flags.writeable = False
    model = estimator(solver=solver).fit(stored, y, sample_weight=weights)
    assert_array_equal(model.coef_, estimator(solver=solver).fit(STORAGE[storage](X), y.copy()).coef_)


def peak_memory(function) -> int:
    """The most bytes that NumPy and Python held at a time, above what they held before."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module", params=["C", "F", "strided", "csr_array"])
def heavy(request) -> dict:
    """One large X for each precision: what a copy of it would cost is plain to see."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(1500, 1200))
    X = X * (rng.random(X.shape) < 0.5) if request.param == "csr_array" else X
    return {dtype: STORAGE[request.param](X.astype(dtype)) for dtype in (np.float32, np.float64)}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("noise", [0.5, 0.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_data_are_not_copied(estimator, noise, dtype, heavy):
    """Neither in one piece nor as X∘X: fit and predict need less than half of what X takes."""
    X = heavy[dtype]
    size = sum(part.nbytes for part in parts(X))
    y = np.arange(X.shape[0]) % 2 if is_classifier(estimator()) else np.arange(X.shape[0]) / X.shape[0]
    model = estimator(C=1e-3, noise=noise, max_iter=3)
    assert peak_memory(lambda: quiet(model, X, y)) < size / 2
    assert peak_memory(lambda: model.predict(X)) < size / 2


# --------------------------------------------------------------------------- fits that break


class Interruption:
    """Objective.gradient, with Ctrl-C at a given call."""

    def __init__(self, at: int) -> None:
        self.left, self.gradient = at, Objective.gradient

    def __get__(self, objective, owner=None):
        def gradient(point):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
            return self.gradient(objective, point)

        return gradient


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("road", [{"solver": s} for s in SOLVERS] + [{"noise": 0.0}], ids=str)
@pytest.mark.parametrize("at", [1, 3])
def test_interrupted_fit_leaves_the_last_one(estimator, road, at, monkeypatch):
    pandas = pytest.importorskip("pandas")
    X, y = problem(estimator)
    model = estimator(C=3.0, tol=1e-5, warm_start=True, **road)
    model.fit(pandas.DataFrame(X, columns=list("abcdef")), y)
    before = fitted_attributes(model)
    assert {"coef_", "intercept_", "n_features_in_", "feature_names_in_", "n_iter_"} <= before.keys()
    monkeypatch.setattr(Objective, "gradient", Interruption(at))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :4] * 2, (y * 2 if is_classifier(model) else y))
    assert_same_attributes(model, before)
    assert_array_equal(model.predict(pandas.DataFrame(X, columns=list("abcdef"))).shape, y.shape)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_interrupted_first_fit_leaves_nothing(estimator, monkeypatch):
    X, y = problem(estimator)
    model = estimator()
    monkeypatch.setattr(Objective, "gradient", Interruption(2))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert fitted_attributes(model) == {}


class Interrupter:
    """A scikit-learn callback in which Ctrl-C is pressed at the end of the second iteration."""

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context):
        if context.task_name == "iteration" and context.task_id == 1:
            raise KeyboardInterrupt


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("noise", [0.5, 0.0])
def test_fit_interrupted_in_a_callback_leaves_the_last_one(estimator, noise):
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since 1.9")
    X, y = problem(estimator, n=1600, d=160)  # without noise, a case for the dual solver
    model = quiet(estimator(C=0.01, noise=noise, tol=1e-5, max_iter=30), X, y)
    before = fitted_attributes(model)
    model.set_callbacks(Interrupter())
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :-1], y)
    assert_same_attributes(model, before)


BREAKS = {
    "y": lambda model, X, y: model.fit(X, np.full(len(y), np.nan)),
    "length": lambda model, X, y: model.fit(X, y[:-1]),
    "X": lambda model, X, y: model.fit(np.where(X > 1, np.inf, X)[:, :3], y),
    "weights": lambda model, X, y: model.fit(X[:, :3], y, sample_weight=-np.ones(len(y))),
    "parameter": lambda model, X, y: model.set_params(C=-1.0).fit(X[:, :3], y),
    "noise": lambda model, X, y: model.set_params(noise=Dropout([0.1, 0.2])).fit(X[:, :3], y),
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("broken", BREAKS)
def test_failed_fit_leaves_the_last_one(estimator, broken):
    X, y = problem(estimator)
    model = estimator().fit(X, y)
    before = fitted_attributes(model)
    with pytest.raises(ValueError):  # noqa: PT011 - the messages are test_bad_input's business
        BREAKS[broken](model, X, y)
    assert_same_attributes(model, before)


# --------------------------------------------------------------------------- documentation

MODULES = ["marginout.estimators.svm", "marginout.estimators.logistic"]


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings(module):
    results = doctest.testmod(importlib.import_module(module))
    assert results.attempted > 0
    assert results.failed == 0


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_docstring_names_parameters_and_attributes(estimator):
    text = inspect.getdoc(estimator)
    parameters, attributes = text.split("Attributes\n----------")
    for name in inspect.signature(estimator).parameters:
        assert f"\n{name} : " in parameters
    pandas = pytest.importorskip("pandas")
    X, y = problem(estimator)
    model = estimator().fit(pandas.DataFrame(X, columns=list("abcdef")), y)
    for name in fitted_attributes(model):
        assert f"\n{name} : " in attributes
