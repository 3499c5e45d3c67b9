"""FeatureDeletionSVC against a conic solver, all deletions, and a plain SVM."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from marginout import FeatureDeletionSVC
from tests.problems import fitted_attributes

N, D = 40, 6
_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(N, D))
THIN = X * (_RNG.random((N, D)) < 0.5)
SIGNS = np.where(X[:, 0] + THIN[:, 1] + 0.5 * _RNG.normal(size=N) > 0.3, 1, -1)
LABELS = np.where(THIN[:, 2] > 0.2, "c", np.where(SIGNS > 0, "b", "a"))
WEIGHTS = np.linspace(0.1, 2.0, N)


def objective(model, data, y, c):
    """F from its definition: the worst of all deletions of up to K features, enumerated."""
    w, b = model.coef_[0], model.intercept_[0]
    total = 0.5 * w @ w
    for x, sign, weight in zip(data, y, c, strict=True):
        worst = max(
            1 - sign * (w @ np.where(np.isin(np.arange(D), gone), 0.0, x) + b)
            for k in range(model.n_deletions + 1)
            for gone in itertools.combinations(range(D), k)
        )
        total += weight * max(0.0, worst)
    return total


def conic_optimum(data, y, c, K, fit_intercept):
    w, b = cp.Variable(D), cp.Variable()
    losses = []
    for x, sign, weight in zip(data, y, c, strict=True):
        lost = cp.sum_largest(cp.pos(sign * cp.multiply(w, x)), K) if K else 0.0
        losses.append(weight * cp.pos(1 - sign * (w @ x + (b if fit_intercept else 0.0)) + lost))
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + sum(losses)))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return problem.value, w.value


@pytest.mark.parametrize("data", [X, THIN], ids=["full", "thin"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("K", "C"), [(0, 1.0), (1, 0.1), (1, 10.0), (2, 1.0), (3, 0.1), (6, 1.0)])
def test_optimum_is_the_conic_solvers(data, fit_intercept, K, C):
    best, w = conic_optimum(data, SIGNS, C * WEIGHTS, K, fit_intercept)
    model = FeatureDeletionSVC(C, n_deletions=K, fit_intercept=fit_intercept)
    model.fit(data, SIGNS, sample_weight=WEIGHTS)
    assert_allclose(model.objective_, best, rtol=1e-5)
    assert model.objective_ - model.optimality_gap_ <= best * (1 + 1e-8)
    assert model.optimality_gap_ <= 1e-4 * best
    assert_allclose(model.coef_[0], w, atol=1e-3)
    assert_allclose(objective(model, data, SIGNS, C * WEIGHTS), model.objective_, rtol=1e-9)


@pytest.mark.parametrize(
    "storage",
    [np.asfortranarray, sp.csr_array, sp.csc_matrix, lambda X: sp.coo_array(X).astype(np.float32)],
)
def test_storage_does_not_matter(storage):
    plain = FeatureDeletionSVC(n_deletions=2).fit(THIN.astype(np.float32), SIGNS)
    stored = FeatureDeletionSVC(n_deletions=2).fit(storage(THIN.astype(np.float32)), SIGNS)
    assert_allclose(stored.coef_, plain.coef_, atol=1e-6)


def test_stored_zeros_and_tiny_entries_are_nothing():
    stored = sp.csr_array(THIN)
    stored.data[:4] = [0.0, 1e-200, -1e-320, 0.0]
    dense = stored.toarray()
    before = stored.data.copy()
    model = FeatureDeletionSVC(n_deletions=1).fit(stored, SIGNS)
    assert_array_equal(stored.data, before)
    assert_allclose(model.coef_, FeatureDeletionSVC(n_deletions=1).fit(dense, SIGNS).coef_, atol=1e-9)


def test_several_classes_are_one_vs_rest():
    model = FeatureDeletionSVC(n_deletions=1).fit(X, LABELS)
    wrapped = OneVsRestClassifier(FeatureDeletionSVC(n_deletions=1)).fit(X, LABELS)
    assert model.coef_.shape == (3, D)
    assert_allclose(model.decision_function(X), wrapped.decision_function(X), atol=1e-5)
    assert_array_equal(model.to_sklearn().predict(X), model.predict(X))


def test_threads_change_nothing(monkeypatch):
    one = FeatureDeletionSVC(n_deletions=1).fit(X, LABELS)
    monkeypatch.setattr("marginout._models.fdrop.solver.worker_threads", lambda work: 2)
    two = FeatureDeletionSVC(n_deletions=1).fit(X, LABELS)
    assert_array_equal(one.coef_, two.coef_)
    assert_array_equal(one.objective_history_, two.objective_history_)


def test_no_deletions_is_a_plain_svm():
    plain = SVC(kernel="linear", C=0.5, tol=1e-8).fit(X, SIGNS)
    model = FeatureDeletionSVC(C=0.5, n_deletions=0, tol=1e-8).fit(X, SIGNS)
    assert_allclose(model.coef_, plain.coef_, atol=1e-5)


def test_more_deletions_mean_smaller_reliance_on_one_feature():
    """Of two copies of a feature and a better single one, the worst case prefers the copies."""
    rng = np.random.default_rng(1)
    y = np.where(rng.random(400) < 0.5, 1, -1)
    good = y + 0.3 * rng.normal(size=400)
    weak = [y + 1.0 * rng.normal(size=400) for _ in range(4)]
    data = np.column_stack([good, *weak])
    bold = FeatureDeletionSVC(0.1, n_deletions=0).fit(data, y).coef_[0]
    safe = FeatureDeletionSVC(0.1, n_deletions=1).fit(data, y).coef_[0]
    assert bold[0] / np.abs(bold).sum() > 0.5
    assert safe[0] / np.abs(safe).sum() < 0.35


def test_balanced_class_weight_and_max_iter(capsys):
    weights = np.where(SIGNS > 0, N / (2 * np.sum(SIGNS > 0)), N / (2 * np.sum(SIGNS < 0)))
    by_hand = FeatureDeletionSVC(n_deletions=1).fit(X, SIGNS, sample_weight=weights)
    balanced = FeatureDeletionSVC(n_deletions=1, class_weight="balanced").fit(X, SIGNS)
    assert_allclose(balanced.coef_, by_hand.coef_, atol=1e-6)
    with pytest.warns(UserWarning, match="Stopped at max_iter=3"):
        FeatureDeletionSVC(C=1e3, n_deletions=1, tol=1e-9, max_iter=3, verbose=1).fit(X, SIGNS)
    assert "iteration 3" in capsys.readouterr().out


BAD = [
    ({"n_deletions": D + 1}, f"n_deletions={D + 1} must be at most the number of features, n_features={D}"),
    ({"n_deletions": -1}, "n_deletions=-1 must be a whole number >= 0"),
    ({"n_deletions": 1.5}, "n_deletions=1.5 must be a whole number"),
    ({"n_deletions": "2"}, "n_deletions='2' must be a whole number"),
    ({"C": 0}, "C=0 must be a number > 0"),
    ({"tol": -1.0}, "tol=-1.0"),
]


@pytest.mark.parametrize(("parameters", "match"), BAD)
def test_bad_parameters(parameters, match):
    model = FeatureDeletionSVC(**parameters)
    with pytest.raises(ValueError, match=match):
        model.fit(X, SIGNS)
    assert not fitted_attributes(model)


def test_huge_features_stay_finite():
    with pytest.warns(UserWarning, match="Scale the features"):
        model = FeatureDeletionSVC(n_deletions=1, max_iter=50).fit(X * 1e30, SIGNS)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(FeatureDeletionSVC().fit(np.zeros((4, 2)), [0, 1, 0, 1]).intercept_).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [FeatureDeletionSVC(), FeatureDeletionSVC(0.1, n_deletions=1, class_weight="balanced")]
)
def test_check_estimator(estimator, check):
    check(estimator)


def test_a_large_C_warns_with_the_gap_and_more_sweeps_are_the_cure():
    model = FeatureDeletionSVC(100.0, n_deletions=1, max_iter=40)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        model.fit(X, SIGNS)
    early, gap = model.objective_, model.optimality_gap_
    assert gap > 1e-4 * early
    best = model.set_params(max_iter=100_000).fit(X, SIGNS)
    assert best.n_iter_ < 100_000
    assert best.optimality_gap_ <= 1e-4 * best.objective_
    assert early - gap <= best.objective_ <= early


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("n_deletions", [0, 3])
def test_a_fit_without_a_finite_solution_speaks_of_parameters_that_there_are(n_deletions):
    X = 1e70 * np.random.default_rng(0).normal(size=(40, 5))
    model = FeatureDeletionSVC(1e100, n_deletions=n_deletions, fit_intercept=False, max_iter=200)
    with pytest.raises(ValueError, match="no finite solution") as caught:
        model.fit(X, X[:, 0] > 0)
    assert f"for C=1e+100 and n_deletions={n_deletions}. Scale" in str(caught.value)
    assert str(caught.value).endswith("or lower C or n_deletions.")
    assert "noise" not in str(caught.value)
