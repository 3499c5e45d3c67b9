"""Fits of models with a hidden layer: against formulas and scikit-learn, and around bad input."""

from __future__ import annotations

import doctest
import importlib
import pickle
import re
import tracemalloc
from copy import copy

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from marginout._models.latent.activations import ACTIVATIONS
from marginout._models.latent.objective import BLOCK_ENTRIES
from marginout._models.latent.solvers import SOLVERS
from marginout.noise import BitSwap, Deletion, Dropout, Gaussian, Poisson
from marginout.plotting import HiddenUnitsDisplay
from tests.paper import DropoutSVC, LatentDropoutLogisticRegression, LatentDropoutSVC, LatentDropoutSVR
from tests.problems import fitted_attributes, quiet

CLASSIFIERS = [LatentDropoutSVC, LatentDropoutLogisticRegression]
ESTIMATORS = [*CLASSIFIERS, LatentDropoutSVR]


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
    more = {"n_hidden": 3, "noise": 0.5, "random_state": 0, "max_iter": 40}
    each = {"yes": 3.0, "no": 0.5}
    by_class = quiet(LatentDropoutSVC(**more, class_weight=each), X, y)
    weights = np.where(y == "yes", 3.0, 0.5)
    by_hand = quiet(LatentDropoutSVC(**more), X, y, sample_weight=weights)
    assert_array_equal(by_class.coef_, by_hand.coef_)
    balanced = quiet(LatentDropoutSVC(**more, class_weight="balanced"), X, y)
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
        LatentDropoutSVC(3, shared=False, activation="relu", noise=0.0, max_iter=100),
        LatentDropoutSVC(4, solver="alternating", noise=Gaussian(0.1), max_iter=15),
        *(estimator(5, solver="stochastic", noise=0.2, max_iter=20) for estimator in ESTIMATORS),
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


class Caller:
    """A scikit-learn callback that answers the end of the second iteration."""

    def __init__(self, answer):
        self.answer = answer

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if context.task_name != "iteration" or context.task_id < 1:
            return False
        return self.answer(fitted_estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_fit_that_is_interrupted_leaves_the_last_one(estimator):
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since 1.9")
    X, y = problem(estimator)
    model = quiet(estimator(3, random_state=0, max_iter=20), X, y)
    before = fitted_attributes(model)
    model.set_params(n_hidden=5)

    def press_ctrl_c(fitted):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.set_callbacks(Caller(press_ctrl_c)).fit(X[:, :4], y)
    after = fitted_attributes(model)
    assert list(after) == list(before)
    assert all(after[name] is before[name] for name in before)
    assert len(model.get_feature_names_out()) == 3


@pytest.mark.parametrize("shared", [True, False])
def test_a_callback_stops_the_fit_and_the_objective_is_that_of_its_model(shared):
    """It stops where kinks are still rounded off: the objective is F even so."""
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since 1.9")
    X, y = problem(LatentDropoutSVC)
    shapes = []

    def stop(fitted):
        shapes.append(fitted.predict(X).shape)
        return True

    model = LatentDropoutSVC(3, noise=0.3, shared=shared, random_state=0).set_callbacks(Caller(stop))
    model.fit(X, y)  # warns of nothing
    assert set(shapes) == {(80,)}
    assert model.n_iter_ <= 2
    assert_allclose(model.objective_, formula(model, X, y, np.ones(80)), rtol=1e-12)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_warm_start_without_offsets_forgets_the_last_ones(estimator, solver):
    X, y = problem(estimator)
    model = quiet(estimator(3, warm_start=True, solver=solver, random_state=0, max_iter=20), X + 1, y)
    assert model.intercept_.any()
    assert model.hidden_intercept_.any()
    quiet(model.set_params(fit_intercept=False), X + 1, y)
    assert not model.intercept_.any()
    assert not model.hidden_intercept_.any()


# --------------------------------------------------------------------------- bad input


def refused(model, X, y, match: str, **more) -> None:
    with pytest.raises((ValueError, TypeError), match=match):
        model.fit(X, y, **more)
    assert not fitted_attributes(model)


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
    *(("noise", value) for value in (1.0, -0.1, np.nan, "0.5")),
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
    for shape in (7, 9), (64,), 64, (-8, -8), (1, 1, 8, 8):
        with pytest.raises(ValueError, match=re.escape(f"image_shape={shape!r} must")):
            HiddenUnitsDisplay.from_estimator(fitted, X, image_shape=shape)
    plt.close("all")


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_hidden_units_where_transform_returns_data_frames(digits, fitted, kind):
    pytest.importorskip(kind)
    X, y = digits
    expected, model = fitted.hidden_units(X, y, output=1), copy(fitted)
    model.set_output(transform=kind)
    assert list(model.transform(X).columns) == list(model.get_feature_names_out())
    found = model.hidden_units(X, y, output=1)
    assert_array_equal(found.examples, expected.examples)
    assert_array_equal(found.class_means, expected.class_means)


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
    rng = np.random.default_rng(0)
    places = rng.integers(2000, size=20_000), rng.integers(100_000, size=20_000)
    X = sp.csr_array((rng.random(20_000), places), shape=(2000, 100_000))
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
