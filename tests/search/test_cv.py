"""Searches over C and noise: the scores that scikit-learn would find, the cell that it would choose."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning, NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.metrics import accuracy_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.preprocessing import scale
from sklearn.utils.estimator_checks import parametrize_with_checks

from marginout import DropoutQuantileRegressorCV, DropoutSVRCV, GridEdgeWarning, path
from marginout._core.design.storage import make_design
from marginout._kernels import _single_precision
from marginout._search import chains
from marginout.noise import Deletion, Dropout, Gaussian, Poisson
from marginout.solvers import newton
from tests.paper import (
    DropoutLogisticRegression,
    DropoutLogisticRegressionCV,
    DropoutSVC,
    DropoutSVCCV,
    DropoutSVR,
)
from tests.problems import fitted_attributes, make_objective

PLAIN = {
    DropoutSVCCV: DropoutSVC,
    DropoutLogisticRegressionCV: DropoutLogisticRegression,
    DropoutSVRCV: DropoutSVR,
}
SEARCHES = list(PLAIN)
pytestmark = pytest.mark.filterwarnings("ignore::marginout.GridEdgeWarning")


def data(search, n_classes: int = 3):
    """Small real data that suit a search."""
    if not is_classifier(search()):
        X, y = load_diabetes(return_X_y=True)
        return scale(X[:150]), scale(y[:150])
    if n_classes == 2:
        X, y = load_breast_cancer(return_X_y=True)
        return scale(X[:200]), y[:200]
    X, y = load_digits(return_X_y=True)
    keep = np.flatnonzero(y < n_classes)[:160]
    return X[keep] / 16, y[keep]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@parametrize_with_checks([search(Cs=[0.1, 1.0], noises=[0.2, 0.6], cv=3) for search in SEARCHES])
def test_check_estimator(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "noises", [[0.0, 0.1, 0.5, 0.9], [Gaussian(0.1), Gaussian(0.5)], [Deletion(0.3), 0.3]]
)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("search", SEARCHES)
def test_scores_are_those_of_cross_val_score(search, n_classes, noises):
    X, y = data(search, n_classes)
    folds = list((StratifiedKFold(4) if is_classifier(search()) else KFold(4)).split(X, y))
    Cs = [0.01, 0.3]
    found = search(Cs, noises, cv=folds, tol=1e-6).fit(X, y)
    assert found.scores_.shape == (4, 2, len(noises))
    for i, C in enumerate(Cs):
        for j, noise in enumerate(noises):
            expected = cross_val_score(PLAIN[search](C, noise=noise, tol=1e-6), X, y, cv=folds)
            assert_allclose(found.scores_[:, i, j], expected, atol=1e-3, err_msg=f"{C}, {noise}")


@pytest.mark.parametrize("search", SEARCHES)
def test_a_search_ends_at_most_twice_as_far_from_the_optimum_as_a_fit(search):
    """A fit ends within tol/10 of F; a search, where X has more than 100,000 entries, within twice that."""
    rng = np.random.default_rng(0)
    n, d, Cs, noises = 1500, 100, [0.001, 0.01, 0.1, 1.0], [0.0, 0.1, 0.5]
    X = rng.normal(size=(n, d)) * np.geomspace(0.1, 3.0, d)
    y = X @ rng.normal(size=d) + 3 * rng.normal(size=n)
    y = np.where(y > np.median(y), 1.0, -1.0) if is_classifier(search()) else y
    cells = {noise: [] for noise in noises}

    def keep(model, X, y):
        cells[model.noise.rate].append(model)  # from the smallest C to the largest
        return 0.0

    search(Cs, noises, cv=[(np.arange(n), np.arange(5))], scoring=keep, refit=False).fit(X, y)
    for noise, models in cells.items():
        for C, model in zip(Cs, models, strict=True):
            best = PLAIN[search](C, noise=noise, tol=1e-7, max_iter=20_000).fit(X, y)
            Y = y[:, None]
            F = make_objective(make_design(X, model.noise), model._loss(Y), Y, np.full((n, 1), C), True)
            point = F.point(np.ascontiguousarray(np.atleast_2d(model.coef_).T), model.intercept_)
            assert point.value.sum() / best.objective_ - 1 < 2 * 0.1 * model.tol, (C, noise)


@pytest.mark.parametrize("search", SEARCHES)
def test_chooses_as_grid_search_does_and_refits(search):
    X, y = data(search)
    Cs, noises = [0.001, 0.03, 1.0], [0.1, 0.5, 0.8]
    found = search(Cs, noises, cv=3, tol=1e-5).fit(X, y)
    grid = GridSearchCV(PLAIN[search](tol=1e-5), {"C": Cs, "noise": noises}, cv=3).fit(X, y)
    assert found.best_params_ == grid.best_params_ == {"C": found.C_, "noise": found.noise_}
    assert found.best_index_ == grid.best_index_
    assert found.best_score_ == pytest.approx(grid.best_score_, abs=1e-3)
    assert_array_equal(found.predict(X), grid.predict(X))
    direct = PLAIN[search](found.C_, noise=found.noise_, tol=1e-5).fit(X, y)
    assert_array_equal(found.coef_, direct.coef_)
    assert_array_equal(found.to_sklearn().predict(X), direct.predict(X))


def test_cv_results_read_like_those_of_grid_search():
    X, y = data(DropoutSVCCV)
    Cs, noises = [0.01, 0.1], [0.2, 0.5, 0.7]
    found = DropoutSVCCV(Cs, noises, cv=3, tol=1e-5).fit(X, y)
    grid = GridSearchCV(DropoutSVC(tol=1e-5), {"C": Cs, "noise": noises}, cv=3).fit(X, y)
    ours, theirs = pd.DataFrame(found.cv_results_), pd.DataFrame(grid.cv_results_)
    assert set(ours.columns) == set(theirs.columns)
    for name in theirs.columns:
        if not name.endswith("time"):
            assert ours[name].dtype == theirs[name].dtype, name
            assert ours[name].tolist() == (
                theirs[name].tolist() if name == "params" else pytest.approx(theirs[name].tolist())
            )


@pytest.mark.parametrize("search", SEARCHES)
def test_threads_change_nothing(search):
    X, y = data(search)
    grid = {"Cs": [0.01, 0.1, 1.0], "noises": [0.0, 0.2, 0.5, 0.8], "cv": 3}
    one, two = (search(**grid, n_jobs=n).fit(X, y) for n in (1, 2))
    assert_array_equal(one.scores_, two.scores_)
    assert_array_equal(one.coef_, two.coef_)


@pytest.mark.parametrize(
    "make", [sp.csr_matrix, sp.csc_array, np.asfortranarray, lambda X: X.astype(np.float32)]
)
def test_storage_changes_nothing(make):
    X, y = data(DropoutSVCCV)
    found = [DropoutSVCCV([0.01, 0.1], [0.0, 0.5], cv=3, tol=1e-6).fit(Z, y) for Z in (X, make(X))]
    assert_allclose(found[0].scores_, found[1].scores_, atol=1e-3)
    assert_allclose(found[0].coef_, found[1].coef_, atol=1e-3)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 3.0, 2: 0.5}])
def test_class_weights_are_those_of_each_training_set(class_weight):
    X, y = data(DropoutSVCCV)
    keep = np.flatnonzero((y != 1) | (np.arange(len(y)) % 3 == 0))
    X, y = X[keep], y[keep]
    found = DropoutSVCCV([0.05], [0.5], cv=4, tol=1e-6, class_weight=class_weight).fit(X, y)
    model = DropoutSVC(0.05, noise=0.5, tol=1e-6, class_weight=class_weight)
    assert_allclose(found.scores_[:, 0, 0], cross_val_score(model, X, y, cv=4), atol=1e-3)


@pytest.mark.parametrize("scoring", ["neg_log_loss", "f1_macro", lambda model, X, y: model.score(X, y) - 1])
def test_scoring(scoring):
    X, y = data(DropoutLogisticRegressionCV)
    found = DropoutLogisticRegressionCV([0.1, 1.0], [0.3], cv=3, tol=1e-6, scoring=scoring).fit(X, y)
    for i, C in enumerate([0.1, 1.0]):
        model = DropoutLogisticRegression(C, noise=0.3, tol=1e-6)
        expected = cross_val_score(model, X, y, cv=3, scoring=scoring)
        assert_allclose(found.scores_[:, i, 0], expected, atol=1e-3)


def test_weights_weigh_the_scores_too():
    X, y = data(DropoutSVCCV, 2)
    weights = np.random.default_rng(0).integers(0, 4, len(y))
    train, test = np.arange(120), np.arange(120, 200)
    found = DropoutSVCCV([0.1], [0.3], cv=[(train, test)], tol=1e-6).fit(X, y, weights)
    model = DropoutSVC(0.1, noise=0.3, tol=1e-6).fit(X[train], y[train], weights[train])
    assert found.scores_[0, 0, 0] == pytest.approx(model.score(X[test], y[test], weights[test]))
    again = DropoutSVCCV([0.1], [0.3], cv=[(train, test)], tol=1e-6, scoring="accuracy").fit(X, y, weights)
    assert_allclose(again.scores_, found.scores_)


def test_classes_missing_from_a_training_set_are_not_predicted():
    X, y = data(DropoutSVCCV, 3)
    y = y.copy()
    y[-1] = 7  # one example, the last
    folds = list(KFold(4).split(X))
    found = DropoutSVCCV([0.05], [0.5], cv=folds, tol=1e-6).fit(X, y)
    expected = cross_val_score(DropoutSVC(0.05, noise=0.5, tol=1e-6), X, y, cv=folds)
    assert_allclose(found.scores_[:, 0, 0], expected, atol=1e-3)
    assert_array_equal(found.classes_, [0, 1, 2, 7])
    two = [(np.flatnonzero(y < 2), np.flatnonzero(y >= 0))]
    for scoring in (None, "accuracy"):
        search = DropoutSVCCV([0.05], [0.5], cv=two, tol=1e-6, scoring=scoring).fit(X, y)
        model = DropoutSVC(0.05, noise=0.5, tol=1e-6).fit(X[two[0][0]], y[two[0][0]])
        assert search.scores_[0, 0, 0] == pytest.approx(accuracy_score(y, model.predict(X)))


@pytest.mark.parametrize("scoring", [None, "accuracy"])
@pytest.mark.parametrize("absent", [0, 1, 2, 3])
def test_any_class_may_be_missing_from_a_training_set(absent, scoring):
    """The columns of a training set are those of its own classes: labels do not move up."""
    X, y = data(DropoutSVCCV, 4)
    folds = [(np.flatnonzero(y != absent), np.arange(len(y))), *KFold(2).split(X)]
    found = DropoutSVCCV([0.05], [0.5], cv=folds, tol=1e-6, scoring=scoring).fit(X, y)
    for (train, test), score in zip(folds, found.scores_[:, 0, 0], strict=True):
        model = DropoutSVC(0.05, noise=0.5, tol=1e-6).fit(X[train], y[train])
        assert score == pytest.approx(model.score(X[test], y[test]), abs=1e-3)


def test_one_se_is_the_standard_error_of_the_mean():
    """√(Σ(s − s̄)²/(k − 1)/k) over k = 4 folds: 0.0645 for the best noise, not 0.0559 or 0.129."""
    X, y = data(DropoutSVCCV, 2)
    sizes = [10, 20, 30, 40]
    tests = np.split(np.arange(100), np.cumsum(sizes)[:-1])
    folds = [(np.arange(100, 200), test) for test in tests]
    below = {0.1: 0.0, 0.3: 0.03, 0.5: 0.06, 0.8: 0.07}

    def scoring(model, X, y):
        return [0.7, 0.8, 0.9, 1.0][sizes.index(len(y))] - below[model.noise.rate]

    lazy = DropoutSVCCV([0.1], list(below), cv=folds, scoring=scoring, select="one_se").fit(X, y)
    assert lazy.noise_ == 0.5


def test_one_se_takes_the_heaviest_noise_then_the_smallest_C():
    X, y = data(DropoutSVCCV, 2)
    grid = {"Cs": [0.01, 0.1, 1.0], "noises": [0.6, 0.0, 0.3, 0.8], "cv": 4}
    best = DropoutSVCCV(**grid).fit(X, y)
    lazy = DropoutSVCCV(**grid, select="one_se").fit(X, y)
    assert_array_equal(best.scores_, lazy.scores_)
    mean = best.scores_.mean(axis=0)
    i, j = np.unravel_index(mean.argmax(), mean.shape)
    limit = mean.max() - best.scores_[:, i, j].std(ddof=1) / 2
    near = mean >= limit
    heaviest = max(rate for k, rate in enumerate(grid["noises"]) if near[:, k].any())
    smallest = min(C for k, C in enumerate(grid["Cs"]) if near[k, grid["noises"].index(heaviest)])
    assert (lazy.noise_, lazy.C_) == (heaviest, smallest)
    assert lazy.best_score_ <= best.best_score_


def test_default_grid_reaches_from_nothing_to_overfitting():
    for search in SEARCHES:
        X, y = data(search)
        found = search(noises=[0.3], cv=3).fit(X, y)
        assert len(found.Cs_) == 10
        assert_allclose(np.diff(np.log10(found.Cs_)), 2 / 3)
        tiny = PLAIN[search](found.Cs_[0], noise=0.3).fit(X, y)
        assert np.std(X @ np.atleast_2d(tiny.coef_).T, axis=0).max() < 0.3
        # The best R² is that of C → ∞: the last digits decide between the cells of a plateau.
        means = found.scores_.mean(axis=0)[:, 0]
        assert means[1:-1].max() >= means.max() - 1e-4
        assert means[0] < means.max() - 0.01


def _variance(rate):
    return rate / (1 - rate)


@pytest.mark.parametrize("kind", [*SEARCHES, DropoutQuantileRegressorCV])
def test_the_default_noises_fit_the_data(kind):
    """None, what the data bear, and 4 and 16 times its variance, up to a rate of 0.8: forty cells."""
    X, y = data(DropoutSVRCV if kind is DropoutQuantileRegressorCV else kind)
    found = kind(cv=2).fit(X, y)
    borne = _variance(DropoutSVC(noise="auto").fit(X, np.arange(len(X)) % 2).noise_)  # whatever y is
    wanted = borne * np.array([0, 1, 4, 16] if 16 * borne <= _variance(0.8) else [0, 0.25, 1, 4])
    assert found.scores_.shape == (2, 10, 4)
    assert_allclose([_variance(rate) for rate in found.noises_], wanted, rtol=0.06)  # two digits
    assert found.noise_ in found.noises_  # a number
    same = kind(noises=found.noises_, cv=2).fit(X, y)
    assert_array_equal(same.scores_, found.scores_)


def test_the_default_noises_of_text_and_of_a_constant():
    X = sp.csr_array(np.random.default_rng(0).random((40, 400)) < 0.05, dtype=float)
    y = np.arange(40) % 2
    text = DropoutSVCCV(Cs=[1.0], cv=2, refit=False).fit(X, y)
    assert_allclose(text.noises_, [0.0, 0.2, 0.5, 0.8], atol=0.03)
    constant = DropoutSVCCV(Cs=[1.0], cv=2, refit=False).fit(np.ones((40, 2)), y)
    assert constant.noises_ == [0.0]


def _long(model, X, y):
    return np.abs(model.coef_).sum()


def _heavy(model, X, y):
    return model.noise.rate


@pytest.mark.filterwarnings("default::marginout.GridEdgeWarning")
@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize(
    ("scoring", "message"),
    [
        (
            _long,
            {
                -1.0: r"best C=0\.001 is the smallest .* a smaller one may .* Extend Cs .* by 0\.0001\.",
                1.0: r"best C=0\.1 is the largest .* a larger one may .* Extend Cs .* by 1\.",
            },
        ),
        (
            _heavy,
            {
                -1.0: r"best noise 0\.2 is the lightest .* a lighter one may .* Extend noises .* by 0\.059\.",
                1.0: r"best noise 0\.7 is the heaviest .* a heavier one may .* Extend noises .* by 0\.903\.",
            },
        ),
    ],
    ids=["C", "noise"],
)
def test_the_edge_of_a_grid_is_the_one_to_extend(scoring, message, sign):
    """Scores that grow with w, so with C, or with the rate, or fall: the best cell lies on a known edge."""
    X, y = data(DropoutSVCCV, 2)
    with pytest.warns(GridEdgeWarning) as caught:
        DropoutSVCCV(
            [0.1, 0.01, 0.001] if scoring is _long else [0.1],
            [0.7, 0.2, 0.4] if scoring is _heavy else [0.5],
            cv=3,
            scoring=lambda *given: sign * scoring(*given),
        ).fit(X, y)
    assert len(caught) == 1
    assert re.search(message[sign], str(caught[0].message)), caught[0].message


@pytest.mark.parametrize(
    ("Cs", "noises", "scoring"),
    [
        ([0.01, 0.1], [0.5], lambda model, X, y: 0.7),  # all the same: the first is as good as any
        ([0.1], [0.3, 0.5], lambda model, X, y: 0.7),
        ([0.1], [0.0, 0.5], lambda model, X, y: -model.noise.rate),  # nothing is lighter than no noise
    ],
)
def test_no_edge_is_named_where_nothing_lies_beyond(Cs, noises, scoring):
    X, y = data(DropoutSVCCV, 2)
    with warnings.catch_warnings():  # a mark would not outdo that of the module
        warnings.simplefilter("error")
        DropoutSVCCV(Cs, noises, cv=3, scoring=scoring).fit(X, y)


def test_a_cell_without_a_score_is_not_chosen():
    """A scorer that is NaN, or negative: ranks as in GridSearchCV, NaN last."""
    X, y = data(DropoutSVCCV, 2)
    scores = {0.2: np.nan, 0.4: -3.0, 0.6: -2.0, 0.8: np.nan}
    found = DropoutSVCCV([0.1], list(scores), cv=3, scoring=lambda model, X, y: scores[model.noise.rate])
    found.fit(X, y)
    assert (found.noise_, found.best_score_) == (0.6, -2.0)
    assert_array_equal(found.cv_results_["rank_test_score"], [3, 2, 1, 3])


@pytest.mark.filterwarnings("default::marginout.GridEdgeWarning")
def test_edges_of_the_grid_are_named_with_the_cure():
    X, y = data(DropoutSVCCV, 2)
    with pytest.warns(GridEdgeWarning, match="largest of the grid.*Extend Cs"):
        DropoutSVCCV([1e-4, 1e-2], [0.3], cv=3).fit(X, y)
    with pytest.warns(GridEdgeWarning, match="lightest of the grid.*Extend noises"):
        DropoutSVCCV([0.1], [0.9, 0.99], cv=3).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DropoutSVCCV([0.1], [0.5], cv=3).fit(X, y)  # one cell has no edge


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"Cs": []}, "Cs=.* is empty"),
        ({"Cs": 0}, "Cs=0"),
        ({"Cs": [0.1, -1.0]}, "-1.0 must be a number > 0"),
        ({"Cs": [0.1, 0.1]}, "twice"),
        ({"Cs": "many"}, "Cs='many'"),
        ({"Cs": 1.5}, "Cs=1.5"),
        ({"Cs": [np.nan]}, "nan must be"),
        ({"noises": []}, "noises=.* is empty"),
        ({"noises": 0.5}, "noises=0.5 must be 'auto', or a sequence"),
        ({"noises": "much"}, "noises='much' must be 'auto', or a sequence"),
        ({"noises": Dropout(0.5)}, "must be 'auto', or a sequence"),
        ({"noises": [0.5, 1.0]}, "noise=1.0"),
        ({"noises": [0.5, "much"]}, "noise='much'"),
        ({"noises": [Dropout([0.1, 0.2])]}, "2 values but X has"),
        ({"noises": [Poisson()]}, "Negative values"),
        ({"noises": [0.5, Gaussian(0.1)], "select": "one_se"}, "several kinds"),
        ({"select": "worst"}, "select='worst'"),
        ({"refit": "yes"}, "refit='yes'"),
        ({"cv": []}, "makes no split"),
        ({"cv": 1}, "1"),
        ({"cv": [(np.arange(5), np.array([], int))]}, "no training or no test"),
        ({"tol": 0.0}, "tol=0.0"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"margin": -1.0}, "margin=-1.0"),
        ({"expectation": "exact"}, "expectation='exact'"),
        ({"fit_intercept": None}, "fit_intercept=None"),
        ({"verbose": -1}, "verbose=-1"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"n_jobs": "all"}, "n_jobs"),
        ({"scoring": "beauty"}, "beauty"),
    ],
)
def test_bad_parameters_are_named_and_leave_nothing(parameters, match):
    X, y = data(DropoutSVCCV, 2)
    search = DropoutSVCCV(**{"Cs": [0.1], "noises": [0.5], "cv": 3} | parameters)
    with pytest.raises(ValueError, match=match):
        search.fit(X, y)
    assert not fitted_attributes(search)


def test_what_a_search_has_not_is_no_attribute():
    search = DropoutSVCCV()
    assert not hasattr(search, "warm_start")
    with pytest.raises(
        AttributeError, match=r"has no partial_fit: choose C and the noise .* best_estimator_"
    ):
        search.partial_fit  # noqa: B018
    search = DropoutSVCCV([0.1], noises=[0.2], cv=2).fit(
        *(part[:100] for part in load_digits(return_X_y=True))
    )
    assert search.best_estimator_.partial_fit(*load_digits(return_X_y=True)) is search.best_estimator_


def test_folds_of_one_class():
    X, y = data(DropoutSVCCV, 2)
    order = np.argsort(y, kind="stable")
    with pytest.raises(ValueError, match=r"one class only.*StratifiedKFold"):
        DropoutSVCCV([0.1], [0.5], cv=KFold(2)).fit(X[order][20:140], np.repeat([0, 1], 60))
    with pytest.raises(ValueError, match="one class only"):
        DropoutSVCCV([0.1], [0.5], cv=3).fit(X, np.zeros(len(y)))


def test_groups():
    X, y = data(DropoutSVCCV, 2)
    groups = np.arange(len(y)) // 10
    found = DropoutSVCCV([0.1], [0.5], cv=GroupKFold(4), tol=1e-6).fit(X, y, groups=groups)
    model = DropoutSVC(0.1, noise=0.5, tol=1e-6)
    expected = cross_val_score(model, X, y, cv=GroupKFold(4), groups=groups)
    assert_allclose(found.scores_[:, 0, 0], expected, atol=1e-3)
    with pytest.raises(ValueError, match="groups"):
        DropoutSVCCV([0.1], [0.5], cv=GroupKFold(4)).fit(X, y)
    with pytest.raises(ValueError, match="inconsistent"):
        DropoutSVCCV([0.1], [0.5], cv=GroupKFold(4)).fit(X, y, groups=groups[1:])


def test_mixed_floats_and_noise_objects():
    X, y = data(DropoutSVCCV, 2)
    found = DropoutSVCCV([0.05, 0.1], [Dropout(0.3), 0.3, Gaussian(0.2), 0.0], cv=3, tol=1e-6).fit(X, y)
    assert_allclose(found.scores_[:, :, 0], found.scores_[:, :, 1])
    assert found.noises_ == [Dropout(0.3), 0.3, Gaussian(0.2), 0.0]
    assert pd.DataFrame(found.cv_results_)["param_noise"].tolist()[:4] == found.noises_


def test_without_refit_there_is_no_model():
    X, y = data(DropoutSVCCV, 2)
    search = DropoutSVCCV([0.1], [0.5], cv=3, refit=False)
    with pytest.raises(NotFittedError):
        search.predict(X)
    search.fit(X, y)
    assert search.C_ == 0.1
    assert not hasattr(search, "coef_")
    with pytest.raises(AttributeError, match="refit=False"):
        search.predict(X)


def test_overlapping_and_partial_splits():
    X, y = data(DropoutSVCCV, 2)
    cv = ShuffleSplit(3, train_size=0.4, test_size=0.2, random_state=0)
    found = DropoutSVCCV([0.1], [0.3], cv=cv, tol=1e-6).fit(X, y)
    expected = cross_val_score(DropoutSVC(0.1, noise=0.3, tol=1e-6), X, y, cv=cv)
    assert_allclose(found.scores_[:, 0, 0], expected, atol=1e-3)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_interruption_leaves_the_last_fit(n_jobs):
    X, y = data(DropoutSVCCV, 2)
    search = DropoutSVCCV([0.01, 0.1], [0.3, 0.5], cv=3, n_jobs=n_jobs).fit(X, y)
    before = fitted_attributes(search)
    count = 0

    def interrupt(model, X, y):
        nonlocal count
        count += 1
        if count == 4:
            raise KeyboardInterrupt
        return 0.0

    search.set_params(scoring=interrupt)
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, y)
    after = fitted_attributes(search)
    assert after.keys() == before.keys()
    assert all(after[name] is before[name] for name in before)


def test_cut_short_it_warns_once():
    X, y = data(DropoutSVCCV, 2)
    with pytest.warns(ConvergenceWarning, match="of 3 fits of the search"):
        DropoutSVCCV([10.0], [0.05], cv=3, max_iter=2, refit=False).fit(X, y)


def test_verbose_and_callbacks(capsys):
    callback = pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since 1.9")
    X, y = data(DropoutSVCCV, 2)
    search = DropoutSVCCV([0.1], [0.3], cv=3, verbose=1)
    search.set_callbacks(callback.ProgressBar()).fit(X, y)
    assert capsys.readouterr().out.count("score 0.") == 3


@pytest.mark.parametrize("estimator", PLAIN.values())
@pytest.mark.parametrize("tool", [GridSearchCV, HalvingGridSearchCV])
def test_plain_searches_work_around_every_estimator(estimator, tool):
    search = {plain: ours for ours, plain in PLAIN.items()}[estimator]
    X, y = data(search)
    own = {DropoutSVC: {"margin": [0.5, 1.0]}, DropoutSVR: {"epsilon": [0.0, 0.2]}}.get(estimator, {})
    X, y = X[:90], y[:90]
    grid = {"C": [0.01, 0.1], "noise": [0.5, Gaussian(0.1), Dropout([0.2] * X.shape[1])], **own}
    options = {"random_state": 0} if tool is HalvingGridSearchCV else {}
    found = [tool(clone(estimator()), grid, cv=3, n_jobs=n, **options).fit(X, y) for n in (1, 2)]
    assert found[0].best_params_ == found[1].best_params_
    assert_array_equal(found[0].predict(X), found[1].predict(X))
    assert clone(found[0].best_estimator_).get_params()["noise"] == found[0].best_params_["noise"]


# --------------------------------------------------------------------------- cells without a solution

#: Weights of 1e198, whose squares overflow: with noise there is a variance of the score, and it is infinite.
BROKEN = {"Cs": [1.0, 10.0], "noises": [0.0, 0.3], "cv": 3, "max_iter": 30}


@pytest.fixture
def in_python(monkeypatch):
    """Compiled Newton's method starts from w = 0, and its weights of 1e-98 do not overflow."""
    monkeypatch.setattr(newton, "compiled", lambda objective: False)


def overflowing():
    X = np.random.default_rng(0).normal(size=(60, 4))
    return 1e-99 * X, 1e99 * X[:, 0]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("scoring", "n_jobs"), [(None, None), ("r2", 2)])
def test_a_cell_without_a_finite_solution_scores_nan(scoring, n_jobs, in_python):
    """As with error_score=nan of GridSearchCV: the other cells are what they are without it."""
    X, y = overflowing()
    search = DropoutSVRCV(**BROKEN, scoring=scoring, n_jobs=n_jobs)
    with pytest.warns(
        FitFailedWarning, match=r"6 of 12 fits.*NaN: C=1 with noise=0\.3, C=10 with noise=0\.3\."
    ):
        search.fit(X, y)
    assert np.isnan(search.scores_[:, :, 1]).all()
    assert_array_equal(search.cv_results_["rank_test_score"][[1, 3]], 3)
    plain = DropoutSVRCV(**{**BROKEN, "noises": [0.0]}, scoring=scoring).fit(X, y)
    assert_array_equal(search.scores_[:, :, 0], plain.scores_[:, :, 0])
    assert (search.C_, search.noise_) == (plain.C_, 0.0)
    assert_array_equal(search.coef_, plain.coef_)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_search_without_any_finite_solution_is_refused(in_python):
    X, y = overflowing()
    with pytest.raises(ValueError, match=r"no finite solution.*noise=Dropout\(rate=0\.3\)"):
        DropoutSVRCV(**{**BROKEN, "noises": [0.3]}).fit(X, y)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_path_has_no_holes(in_python):
    with pytest.raises(ValueError, match=r"no finite solution.*noise=Dropout\(rate=0\.3\)"):
        path(DropoutSVR(max_iter=30), *overflowing(), Cs=[1.0, 10.0], noises=[0.0, 0.3])


@pytest.mark.parametrize("noises", [[0.3], [0.0]], ids=str)
def test_a_larger_C_starts_anew_after_a_cell_without_a_solution(noises, monkeypatch):
    X, y = data(DropoutSVCCV)
    search = DropoutSVCCV([0.01, 0.1, 1.0], noises, cv=2)
    whole = clone(search).fit(X, y).scores_
    solve = chains._Solver.__call__

    def breaking(self, objective, W, b):
        assert np.isfinite(W).all()
        result = solve(self, objective, W, b)
        if np.isclose(objective.examples.weights.max(), 0.1):
            result.W[0, 0] = np.nan
        return result

    monkeypatch.setattr(chains._Solver, "__call__", breaking)
    with pytest.warns(FitFailedWarning, match="C=0.1 with"):
        search.fit(X, y)
    assert np.isnan(search.scores_[:, 1]).any()
    assert_allclose(search.scores_[:, [0, 2]], whole[:, [0, 2]], atol=0.02)


@pytest.mark.skipif(not _single_precision.AVAILABLE, reason="made for processors with AVX2 and FMA")
def test_a_search_goes_in_single_precision(monkeypatch, in_python):
    calls, real = [], chains._Solver._sprint

    def sprint(self, *args):
        calls.append(args)
        return real(self, *args)

    monkeypatch.setattr(chains._Solver, "_sprint", sprint)
    X, y = load_digits(return_X_y=True)
    DropoutSVCCV(Cs=[0.01, 0.1], noises=[0.3, 0.5], cv=3).fit(sp.csr_matrix(X[:300] / 16), y[:300])
    assert calls
    # Three problems of many features would leave most of the eight lanes empty.
    calls.clear()
    wide, y = sp.random(60, chains.WIDE, density=0.001, format="csr", random_state=0), np.arange(60) % 2
    options = {"noises": [0.5], "cv": 3, "refit": False}
    double = DropoutSVCCV(Cs=[0.1, 1.0], **options).fit(wide, y)
    assert not calls
    monkeypatch.setattr(chains, "WIDE", chains.WIDE + 1)
    single = DropoutSVCCV(Cs=[0.1, 1.0], **options).fit(wide, y)
    assert calls
    assert_allclose(single.scores_, double.scores_, atol=0.05)
