"""Explicit corruption: what the estimator is given, routing, memory, and where it tends to."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, SGDClassifier
from sklearn.model_selection import cross_validate
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from marginout import ExplicitCorruptionClassifier, ExplicitCorruptionRegressor, GaussianImputer, MCFRegressor
from marginout._core.validation import make_generator
from marginout.noise import Deletion, Dropout, Gaussian, Poisson
from tests.paper import DropoutSVC
from tests.problems import fitted_attributes

N, D = 50, 6
_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(N, D)) + 0.5
LABELS = np.where(X[:, 0] > 0.3, "yes", "no")
TARGET = X @ np.arange(D) + 0.1 * _RNG.normal(size=N)
WEIGHTS = np.linspace(0.0, 2.0, N)


class Spy(ClassifierMixin, BaseEstimator):
    """Keeps what it was fitted to."""

    def fit(self, X, y, sample_weight=None, groups=None):
        self.X_, self.y_, self.weight_, self.groups_ = X, y, sample_weight, groups
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(X.shape[0], self.classes_[0])


class BlockSpy(Spy):
    """Keeps what every call of partial_fit was given."""

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        self.calls_ = [*getattr(self, "calls_", []), (X, y, sample_weight)]
        self.classes_ = classes
        return self


class NumberSpy(RegressorMixin, BaseEstimator):
    def fit(self, X, y, sample_weight=None):
        self.X_, self.y_ = X, y
        return self

    def predict(self, X):
        return np.zeros(X.shape[0])


@pytest.mark.parametrize("storage", [np.asarray, np.float32, sp.csr_array])
def test_the_estimator_is_given_weighted_copies(storage):
    data = storage(X)
    model = ExplicitCorruptionClassifier(Spy(), noise=Deletion(0.3), n_copies=40, random_state=0)
    seen = model.fit(data, LABELS, sample_weight=WEIGHTS).estimator_
    assert sp.issparse(seen.X_) == sp.issparse(data)
    assert seen.X_.dtype == data.dtype
    copies = (seen.X_.toarray() if sp.issparse(seen.X_) else seen.X_).reshape(40, N, D)
    kept = copies != 0
    assert_array_equal(copies[kept], np.broadcast_to(np.asarray(X, dtype=data.dtype), copies.shape)[kept])
    assert abs(kept.mean() - 0.7) < 3 * np.sqrt(0.21 / kept.size)
    assert_array_equal(seen.y_, np.tile(LABELS, 40))
    assert_allclose(seen.weight_, np.tile(WEIGHTS / 40, 40))
    assert_array_equal(model.classes_, ["no", "yes"])


def test_without_blocks_fit_gets_all_copies():
    """SGD goes over the copies until it converges, instead of once over each."""
    spy = ExplicitCorruptionClassifier(BlockSpy(), n_copies=3, blocks=False, random_state=0).fit(X, LABELS)
    assert spy.estimator_.X_.shape == (3 * N, D)
    assert not hasattr(spy.estimator_, "calls_")
    once, often = (
        ExplicitCorruptionClassifier(SGDClassifier(), noise=0.1, n_copies=3, blocks=blocks, random_state=0)
        for blocks in (True, False)
    )
    assert once.fit(X, LABELS).estimator_.n_iter_ == 1
    assert often.fit(X, LABELS).estimator_.n_iter_ > 3


def test_partial_fit_gets_one_copy_at_a_time():
    model = ExplicitCorruptionClassifier(BlockSpy(), noise=0.5, n_copies=5, random_state=0).fit(X, LABELS)
    calls = model.estimator_.calls_
    assert [call[0].shape for call in calls] == [(N, D)] * 5
    assert_allclose([call[2] for call in calls], 1 / 5)
    stacked = ExplicitCorruptionClassifier(Spy(), noise=0.5, n_copies=5, random_state=0).fit(X, LABELS)
    assert_array_equal(np.vstack([call[0] for call in calls]), stacked.estimator_.X_)


def test_the_first_copies_are_the_same_for_every_number_of_them():
    def copies(count):
        model = ExplicitCorruptionRegressor(NumberSpy(), n_copies=count, random_state=7)
        return model.fit(X, TARGET).estimator_.X_

    few, many = copies(2), copies(5)
    assert_array_equal(few, many[: 2 * N])
    assert np.abs(many[:N] - many[N : 2 * N]).max() > 0


def test_reproducible_with_estimators_that_are_not():
    tree = DecisionTreeClassifier(max_features=1)

    def scores(seed):
        model = ExplicitCorruptionClassifier(tree, n_copies=3, random_state=seed).fit(X, LABELS)
        return model.predict_proba(X)

    assert_array_equal(scores(3), scores(3))
    assert np.abs(scores(3) - scores(4)).max() > 0
    assert tree.random_state is None
    for state in (np.random.RandomState(0), np.random.default_rng(0), None):
        ExplicitCorruptionClassifier(tree, n_copies=2, random_state=state).fit(X, LABELS)


def test_blocks_and_stack_are_the_same_for_naive_bayes():
    counts = np.random.default_rng(1).poisson(2.0, size=(N, D))
    model = ExplicitCorruptionClassifier(MultinomialNB(), noise=Deletion(0.4), n_copies=6, random_state=0)
    model.fit(counts, LABELS)
    spy = clone(model).set_params(estimator=Spy()).fit(counts, LABELS).estimator_
    whole = MultinomialNB().fit(spy.X_, spy.y_, sample_weight=spy.weight_)
    assert_allclose(model.predict_proba(counts), whole.predict_proba(counts))


def test_memory_does_not_grow_with_copies_in_blocks():
    data = np.random.default_rng(0).random((2000, 50))
    labels = np.arange(2000) % 2

    def peak(copies):
        model = ExplicitCorruptionClassifier(SGDClassifier(random_state=0), n_copies=copies, random_state=0)
        tracemalloc.start()
        model.fit(data, labels)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    assert peak(40) < 1.2 * peak(2)


def test_many_copies_tend_to_the_marginalised_model():
    """Least squares: the expected loss is known exactly."""
    exact = MCFRegressor(C=1.0, noise=Gaussian(0.3)).fit(X, TARGET)
    distances = []
    for copies in (1, 16, 1024):
        model = ExplicitCorruptionRegressor(Ridge(), noise=Gaussian(0.3), n_copies=copies, random_state=0)
        distances.append(np.abs(model.fit(X, TARGET).estimator_.coef_ - exact.coef_).max())
    assert distances[0] > distances[1] > distances[2]
    assert distances[2] < 0.02


def test_the_estimator_and_the_data_are_left_alone():
    estimator, data = LogisticRegression(), sp.csr_matrix(X)
    before = data.copy()
    model = ExplicitCorruptionClassifier(estimator, n_copies=2, random_state=0).fit(data, LABELS)
    assert not hasattr(estimator, "coef_")
    assert_array_equal(data.toarray(), before.toarray())
    assert_array_equal(model.decision_function(X), model.estimator_.decision_function(X))
    assert clone(model).get_params()["estimator__C"] == 1.0
    assert not hasattr(ExplicitCorruptionClassifier(LinearSVC()), "predict_proba")


def test_feature_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    model = ExplicitCorruptionClassifier(LogisticRegression(), n_copies=2, random_state=0).fit(frame, LABELS)
    assert_array_equal(model.feature_names_in_, list("abcdef"))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[list("fedcba")])


# --------------------------------------------------------------------------- metadata


def test_metadata_are_repeated_for_every_copy():
    groups = np.arange(N)
    model = ExplicitCorruptionClassifier(Spy(), n_copies=3, random_state=0).fit(X, LABELS, groups=groups)
    assert_array_equal(model.estimator_.groups_, np.tile(groups, 3))


def test_sparse_metadata_are_repeated_too():
    groups = sp.csr_array(np.arange(2.0 * N).reshape(N, 2))
    model = ExplicitCorruptionClassifier(Spy(), n_copies=3).fit(X, LABELS, groups=groups)
    assert_array_equal(model.estimator_.groups_.toarray(), np.tile(groups.toarray(), (3, 1)))


def test_metadata_are_routed():
    def wrap(estimator):
        return ExplicitCorruptionClassifier(estimator, n_copies=2, random_state=0)

    weights = {"sample_weight": WEIGHTS}
    with config_context(enable_metadata_routing=True):
        asking = wrap(Spy().set_fit_request(sample_weight=True)).set_score_request(sample_weight=False)
        fits = cross_validate(asking, X, LABELS, cv=3, params=weights, return_estimator=True)["estimator"]
        for fitted in fits:
            assert len(np.unique(fitted.estimator_.weight_)) > 10
        with pytest.raises(TypeError, match="not routed to any object"):
            wrap(Spy().set_fit_request(sample_weight=False)).fit(X, LABELS, **weights)
        with pytest.raises(ValueError, match="sample_weight"):
            wrap(Spy()).fit(X, LABELS, **weights)
        assert_allclose(wrap(Spy()).fit(X, LABELS).estimator_.weight_, 0.5)
        blocks = SGDClassifier().set_partial_fit_request(sample_weight=True)
        assert wrap(blocks).fit(X, LABELS, **weights).score(X, LABELS) > 0.5
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, LogisticRegression().set_fit_request(sample_weight=True))
        assert wrap(pipeline).fit(X, LABELS).score(X, LABELS) > 0.6


# --------------------------------------------------------------------------- bad input

LOGISTIC = LogisticRegression()
BAD = [
    (ExplicitCorruptionClassifier(LOGISTIC, n_copies=0), "n_copies=0 must be a whole number >= 1"),
    (ExplicitCorruptionClassifier(LOGISTIC, n_copies=2.5), "n_copies=2.5 must be a whole number"),
    (ExplicitCorruptionClassifier(LOGISTIC, noise=1.5), "noise=1.5 must be a dropout rate"),
    (ExplicitCorruptionClassifier(LOGISTIC, noise=Poisson()), "noise needs X >= 0"),
    (ExplicitCorruptionClassifier(LOGISTIC, noise=Dropout([0.1])), "has 1 values but X has 6 features"),
    (
        ExplicitCorruptionClassifier(LOGISTIC, random_state="x"),
        "random_state='x' must be None",
    ),
    (ExplicitCorruptionClassifier(LinearRegression()), "does not suit ExplicitCorruptionClassifier"),
    (ExplicitCorruptionRegressor(LOGISTIC), "does not suit ExplicitCorruptionRegressor"),
    (ExplicitCorruptionClassifier(LogisticRegression), "must be an estimator"),
    (ExplicitCorruptionClassifier(None), "estimator=None must be an estimator"),
]


@pytest.mark.parametrize(("model", "match"), BAD, ids=lambda value: value if isinstance(value, str) else "")
def test_bad_parameters(model, match):
    with pytest.raises((ValueError, TypeError), match=match):
        model.fit(X, LABELS)
    assert not fitted_attributes(model)


def test_the_last_step_of_a_pipeline_has_the_weights():
    for inner in (LOGISTIC, make_pipeline(StandardScaler(), LOGISTIC)):
        pipeline = make_pipeline(StandardScaler(), inner)
        name = "__".join((pipeline.steps[-1][0], *([inner.steps[-1][0]] if inner is not LOGISTIC else [])))
        model = ExplicitCorruptionClassifier(pipeline, n_copies=3, random_state=0)
        model.fit(X, LABELS, sample_weight=WEIGHTS)
        seed = int(make_generator(0).integers(2**63))
        copies = [Dropout(0.5).corrupt(X, np.random.default_rng((seed, m))) for m in range(3)]
        weights = {f"{name}__sample_weight": np.tile(WEIGHTS, 3) / 3}
        want = clone(pipeline).fit(np.vstack(copies), np.tile(LABELS, 3), **weights)
        assert_allclose(model.decision_function(X), want.decision_function(X), rtol=1e-6)


def test_estimators_without_weights():
    for estimator in (KNeighborsClassifier(), make_pipeline(StandardScaler(), KNeighborsClassifier())):
        model = ExplicitCorruptionClassifier(estimator, n_copies=2, random_state=0).fit(X, LABELS)
        assert model.score(X, LABELS) > 0.5
        before = model.estimator_
        with pytest.raises(ValueError, match="takes no sample_weight in fit: leave sample_weight out"):
            model.fit(X, LABELS, sample_weight=WEIGHTS)
        assert model.estimator_ is before


def test_holes_reach_an_estimator_that_takes_them():
    Z = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    for first in (GaussianImputer(), "passthrough"):
        pipeline = make_pipeline(first, HistGradientBoostingClassifier(max_iter=5))
        model = ExplicitCorruptionClassifier(pipeline, noise=0.1, n_copies=2, random_state=0).fit(Z, LABELS)
        assert model.score(Z, LABELS) > 0.5
        assert model.__sklearn_tags__().input_tags.allow_nan
    with pytest.raises(ValueError, match="NaN"):
        ExplicitCorruptionClassifier(make_pipeline(LOGISTIC)).fit(Z, LABELS)


def test_bad_data_leave_the_last_fit_alone():
    model = ExplicitCorruptionClassifier(LOGISTIC, n_copies=2, random_state=0).fit(X, LABELS)
    before = model.predict_proba(X)
    for data, labels, weights, match in [
        (X[:, :3], np.full(N, "no"), None, "one class only"),
        (np.full_like(X, np.nan), LABELS, None, "NaN"),
        (X, LABELS, -np.ones(N), "negative weights"),
        (X, LABELS, np.zeros(N), "zero for every example"),
    ]:
        with pytest.raises(ValueError, match=match):
            model.fit(data, labels, **({} if weights is None else {"sample_weight": weights}))
    assert model.n_features_in_ == D
    assert_array_equal(model.predict_proba(X), before)
    with pytest.raises(NotFittedError):
        ExplicitCorruptionClassifier(LOGISTIC).predict(X)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        ExplicitCorruptionClassifier(LogisticRegression()),
        ExplicitCorruptionClassifier(SGDClassifier(alpha=1e-5), noise=Gaussian(0.1)),
        ExplicitCorruptionRegressor(Ridge()),
    ]
)
def test_check_estimator(estimator, check):
    check(estimator)


# --------------------------------------------------------------------------- real data


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_error_falls_with_copies_on_book_reviews():
    folder = os.environ.get("MARGINOUT_DATA")
    if folder is None:
        pytest.skip("MARGINOUT_DATA does not name a folder of real data sets")
    with np.load(Path(folder) / "amazon_books_5000.npz") as z:
        data = sp.csr_array((z["data"].astype(float), z["indices"], z["indptr"]), shape=tuple(z["shape"]))
        y, train = z["y"], z["split"] == 0
    errors = []
    for copies in (1, 4, 32):
        fits = [
            ExplicitCorruptionClassifier(LinearSVC(loss="hinge", C=0.01), n_copies=copies, random_state=seed)
            for seed in range(2)
        ]
        scores = [fit.fit(data[train], y[train]).score(data[~train], y[~train]) for fit in fits]
        errors.append(1 - np.mean(scores))
    ours = DropoutSVC(0.01, noise=0.5).fit(data[train], y[train])
    assert errors[0] > errors[1] > errors[2]
    assert abs(errors[2] - (1 - ours.score(data[~train], y[~train]))) < 0.01
