"""Several classes, and examples and classes that weigh more or less."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils.class_weight import compute_sample_weight

from marginout.noise import Gaussian
from tests.paper import DropoutSVC
from tests.problems import (
    CLASSIFIERS,
    ESTIMATORS,
    SOLVERS,
    assert_same_solution,
    problem,
    tight,
    with_and_without_noise,
)


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
