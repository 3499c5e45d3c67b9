"""scikit-learn's contract: its own checks, and the tools around an estimator that users reach for."""

from __future__ import annotations

import pickle
import re
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC, LinearSVR
from sklearn.utils.estimator_checks import parametrize_with_checks

import marginout
from marginout.noise import Deletion, Dropout, Gaussian, Laplace, Noise, Poisson
from tests.paper import DropoutLogisticRegression, DropoutSVC, DropoutSVR
from tests.problems import CLASSIFIERS, ESTIMATORS, SOLVERS, fitted_attributes, quiet

NOISES = {
    DropoutSVC: [0.0, Gaussian(0.1), Poisson()],
    DropoutLogisticRegression: [0.0, Laplace(0.1), Poisson()],
    DropoutSVR: [0.0, Deletion(0.3), Poisson()],
}
#: A noise model whose parameter is an array: what copying and storing must not lose.
PER_FEATURE = Dropout([0.1, 0.2, 0.3, 0.4])


# --------------------------------------------------------------------------- scikit-learn's own checks


def settings() -> list[BaseEstimator]:
    """Every solver and the other expectation for every estimator; every noise, every joint loss for some.

    A coarse `tol` where fits of the checks' data, many of which hold nothing to learn, take long.
    """
    return [
        *(estimator(solver=solver, tol=1e-2) for estimator in ESTIMATORS for solver in SOLVERS),
        *(estimator(expectation="gaussian") for estimator in ESTIMATORS),
        *(estimator(noise=noise) for estimator in ESTIMATORS for noise in NOISES[estimator]),
        *(estimator(multi_class="pairwise", tol=1e-2) for estimator in CLASSIFIERS),
        DropoutLogisticRegression(multi_class="multinomial"),
        marginout.DropoutSVC(),
        marginout.DropoutLogisticRegression(),
        marginout.DropoutSVR(),
    ]


def contradictions(estimator: BaseEstimator) -> dict[str, str]:
    """Checks that feed negative data to estimators that another check obliges to refuse them."""
    if not (is_classifier(estimator) and getattr(estimator.noise, "positive_only", False)):
        return {}
    reason = (
        "contradiction inside scikit-learn: the check fits blobs with negative values whatever the tag "
        "positive_only says, and check_positive_only_tag_during_fit demands that fit refuses them"
    )
    checks = ["check_class_weight_classifiers", "check_sparsify_coefficients"]
    if hasattr(estimator, "predict_proba"):
        checks.append("check_decision_proba_consistency")
    return dict.fromkeys(checks, reason)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(settings(), expected_failed_checks=contradictions)
def test_check_estimator(estimator, check):
    # scikit-learn's own test_common ignores ConvergenceWarning here too: the data are not scaled.
    check(estimator)


# --------------------------------------------------------------------------- data


@pytest.fixture(scope="module")
def iris() -> tuple[np.ndarray, np.ndarray]:
    """Three classes of words, four features."""
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), load_iris().target_names[y]


@pytest.fixture(scope="module")
def diabetes() -> tuple[np.ndarray, np.ndarray]:
    """A regression on four features, of unit size like those of `iris`."""
    X, y = load_diabetes(return_X_y=True)
    return StandardScaler().fit_transform(X[:150, :4]), (y[:150] - y.mean()) / y.std()


@pytest.fixture
def data_for(iris, diabetes):
    """Data that suit an estimator: three classes, two of them, or a regression."""

    def choose(estimator, n_classes: int = 3):
        if is_regressor(estimator):
            return diabetes
        X, y = iris
        keep = np.isin(y, np.unique(y)[-n_classes:])
        return X[keep], y[keep]

    return choose


def outputs(model: BaseEstimator, X) -> list[np.ndarray]:
    """Everything that a fitted model has to say about X."""
    methods = "predict", "decision_function", "predict_proba", "predict_log_proba"
    return [getattr(model, name)(X) for name in methods if hasattr(model, name)]


def assert_same_outputs(one: BaseEstimator, other: BaseEstimator, X) -> None:
    for left, right in zip(outputs(one, X), outputs(other, X), strict=True):
        assert_array_equal(left, right)


def assert_near_outputs(one: BaseEstimator, other: BaseEstimator, X) -> None:
    """The same, but for what the offset changes when it is settled after the last iteration."""
    for left, right in zip(outputs(one, X), outputs(other, X), strict=True):
        if left.dtype.kind == "f":
            assert_allclose(left, right, rtol=1e-5, atol=1e-6)
        else:
            assert_array_equal(left, right)


def assert_close(left, right, rtol: float) -> None:
    """Labels are equal, numbers equal up to rounding."""
    if left.dtype.kind == "f":
        assert_allclose(left, right, rtol=rtol, atol=rtol)
    else:
        assert_array_equal(left, right)


# --------------------------------------------------------------------------- parameters


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("noise", [0.25, Gaussian(0.5), PER_FEATURE], ids=repr)
def test_clone_keeps_parameters_and_drops_the_fit(estimator, noise, data_for):
    model = estimator(C=0.3, noise=noise).fit(*data_for(estimator()))
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not fitted_attributes(copy)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_get_params_rebuild_the_estimator(estimator):
    model = estimator(C=0.3, noise=PER_FEATURE, expectation="gaussian", solver="irls", verbose=1)
    assert estimator(**model.get_params()).get_params() == model.get_params()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_set_params_is_as_good_as_the_constructor(estimator, data_for):
    X, y = data_for(estimator())
    changed = estimator().fit(X, y).set_params(C=0.2, noise=Laplace(0.3), fit_intercept=False)
    fresh = estimator(C=0.2, noise=Laplace(0.3), fit_intercept=False)
    assert_array_equal(changed.fit(X, y).coef_, fresh.fit(X, y).coef_)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_set_params_refuses_unknown_names(estimator):
    with pytest.raises(ValueError, match="Invalid parameter 'rate'"):
        estimator().set_params(rate=0.5)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("noise", [0.25, Gaussian(0.5), PER_FEATURE], ids=repr)
def test_repr_names_the_noise(estimator, noise):
    assert repr(noise) in " ".join(repr(estimator(noise=noise)).split())


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("noise", [0.25, Gaussian(0.5), PER_FEATURE], ids=repr)
def test_html_repr(estimator, noise, data_for):
    model = estimator(noise=noise)
    before = model._repr_html_()
    after = model.fit(*data_for(model))._repr_html_()
    for page in before, after:
        assert estimator.__name__ in page
        assert type(noise).__name__ in page if isinstance(noise, Noise) else "0.25" in page
    assert "Not fitted" in before
    assert "Not fitted" not in after


# --------------------------------------------------------------------------- selection and composition

GRIDS = [
    (DropoutSVC, {"noise": [0.0, 0.3, Gaussian(0.2)], "margin": [0.5, 1.0]}),
    (DropoutLogisticRegression, {"noise": [Deletion(0.2), PER_FEATURE, 0.6], "C": [0.1, 1.0]}),
    (DropoutSVR, {"noise": [0.1, Laplace(0.3)], "C": [0.1, 1.0], "epsilon": [0.0, 0.5]}),
]


@pytest.mark.parametrize(("estimator", "grid"), GRIDS, ids=lambda value: getattr(value, "__name__", ""))
def test_grid_search_with_two_processes(estimator, grid, data_for):
    X, y = data_for(estimator())
    search = GridSearchCV(estimator(), grid, cv=KFold(3, shuffle=True, random_state=0), n_jobs=2)
    search.fit(X, y)
    names = sorted(grid)
    tried = [tuple(params[name] for name in names) for params in search.cv_results_["params"]]
    assert tried == list(product(*(grid[name] for name in names)))
    # A fold scored by hand: the parameters did arrive in the other process.
    train, test = next(search.cv.split(X))
    for params, score in zip(
        search.cv_results_["params"], search.cv_results_["split0_test_score"], strict=True
    ):
        assert score == estimator(**params).fit(X[train], y[train]).score(X[test], y[test])
    assert_array_equal(search.best_estimator_.coef_, estimator(**search.best_params_).fit(X, y).coef_)


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_one_vs_rest_wrapper_equals_the_batch(estimator, iris):
    X, y = iris
    plain = estimator(tol=1e-10)
    wrapped = OneVsRestClassifier(plain).fit(X, y)
    assert_allclose(wrapped.decision_function(X), plain.fit(X, y).decision_function(X), atol=1e-5)
    assert_array_equal(wrapped.predict(X), plain.predict(X))


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_one_vs_one_wrapper_fits_every_pair(estimator, iris):
    X, y = iris
    wrapped = OneVsOneClassifier(estimator()).fit(X, y)
    first, second, third = np.unique(y)
    pairs = [(first, second), (first, third), (second, third)]
    for model, pair in zip(wrapped.estimators_, pairs, strict=True):
        keep = np.isin(y, pair)
        assert_array_equal(model.coef_, estimator().fit(X[keep], y[keep] == pair[1]).coef_)
    assert wrapped.score(X, y) > 0.9


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_calibration(estimator, method, iris):
    X, y = iris
    weights = np.linspace(0.5, 2.0, len(y))
    model = CalibratedClassifierCV(estimator(noise=0.1), method=method, cv=3).fit(X, y, sample_weight=weights)
    probabilities = model.predict_proba(X)
    assert_allclose(probabilities.sum(axis=1), 1.0)
    assert accuracy_score(y, model.classes_[probabilities.argmax(axis=1)]) > 0.9


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_pipeline_is_a_scaler_and_then_the_model(estimator, data_for):
    X, y = data_for(estimator())
    X = X * [1.0, 10.0, 100.0, 1000.0] + 7.0
    pipeline = make_pipeline(StandardScaler(), estimator(C=0.5)).fit(X, y)
    by_hand = estimator(C=0.5).fit(StandardScaler().fit_transform(X), y)
    assert_array_equal(pipeline[-1].coef_, by_hand.coef_)
    assert pipeline.score(X, y) == by_hand.score(StandardScaler().fit_transform(X), y)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_sample_weight_is_routed(estimator, data_for):
    X, y = data_for(estimator())
    weights = np.linspace(0.0, 2.0, len(y))
    folds = KFold(3, shuffle=True, random_state=0)
    with config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        weighted = estimator().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        # Before scikit-learn 1.8 a pipeline's own score has to ask for them, too.
        model = make_pipeline(scaler, weighted).set_score_request(sample_weight=True)
        scores = cross_validate(
            model,
            X,
            y,
            cv=folds,
            params={"sample_weight": weights},
            return_estimator=True,
            error_score="raise",
        )
    for fitted, (train, _) in zip(scores["estimator"], folds.split(X), strict=True):
        inside = StandardScaler().fit_transform(X[train])
        by_hand = estimator().fit(inside, y[train], sample_weight=weights[train])
        assert_array_equal(fitted[-1].coef_, by_hand.coef_)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_sample_weight_is_not_routed_unasked(estimator, data_for):
    X, y = data_for(estimator())
    with config_context(enable_metadata_routing=True), pytest.raises(ValueError, match="sample_weight"):
        cross_validate(estimator(), X, y, params={"sample_weight": np.ones(len(y))}, error_score="raise")


# --------------------------------------------------------------------------- data frames

NAMES = ["sepal length", "sepal width", "petal length", "petal width"]


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames(estimator, library, data_for):
    frames = pytest.importorskip(library)
    X, y = data_for(estimator())
    frame = frames.DataFrame(dict(zip(NAMES, X.T, strict=True)))
    model = estimator().fit(frame, frames.Series(y))
    assert_array_equal(model.feature_names_in_, NAMES)
    plain = estimator().fit(X, y)
    for left, right in zip(outputs(model, frame), outputs(plain, X), strict=True):
        assert_close(left, right, rtol=1e-9)  # frames are stored by columns: their sums round otherwise
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[NAMES[::-1]])
    assert not hasattr(plain, "feature_names_in_")


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_feature_names_are_forgotten_by_a_fit_without_them(estimator, data_for):
    pandas = pytest.importorskip("pandas")
    X, y = data_for(estimator())
    model = estimator().fit(pandas.DataFrame(X, columns=NAMES), y).fit(X, y)
    assert not hasattr(model, "feature_names_in_")


# --------------------------------------------------------------------------- storage

STORED_NOISES = [0.25, PER_FEATURE, Deletion(0.2), Gaussian(0.3), Laplace([0.1, 0.2, 0.3, 0.4])]


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("noise", STORED_NOISES, ids=repr)
def test_pickle(estimator, noise, data_for):
    X, y = data_for(estimator())
    model = estimator(noise=noise).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    assert copy.get_params() == model.get_params()
    assert_same_outputs(copy, model, X)
    assert_array_equal(clone(copy).fit(X, y).coef_, model.coef_)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("noise", STORED_NOISES, ids=repr)
def test_skops(estimator, noise, data_for):
    skops_io = pytest.importorskip("skops.io")
    X, y = data_for(estimator())
    public = getattr(marginout, estimator.__name__)  # it stores classes by the name that imports them
    model = public(noise=noise).fit(X, y)
    stored = skops_io.dumps(model)
    untrusted = skops_io.get_untrusted_types(data=stored)
    assert [name for name in untrusted if not name.startswith("marginout.")] == []
    copy = skops_io.loads(stored, trusted=untrusted)
    assert copy.get_params() == model.get_params()
    assert_same_outputs(copy, model, X)
    assert_array_equal(clone(copy).fit(X, y).coef_, model.coef_)


# --------------------------------------------------------------------------- callbacks


class Recorder:
    """A fit callback that takes notes, and asks to stop after some iterations."""

    def __init__(self, stop_after: float = np.inf) -> None:
        self.stop_after = stop_after
        self.events: list[str] = []
        self.seen: list[dict] = []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.events.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        self.events.append(f"end {context.task_name}")
        if context.task_name != "iteration":
            return False
        self.seen.append({"X": X, "y": y, "model": fitted_estimator})
        return len(self.seen) >= self.stop_after


@pytest.fixture
def callback():
    return pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since 1.9")


#: Every solver that small data can be given to; without noise an SVM goes to Newton's method.
ROADS = [{"solver": "ncg"}, {"solver": "irls"}, {"solver": "lbfgs"}, {"noise": 0.0}]


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("road", ROADS, ids=str)
def test_callbacks_see_the_fit(estimator, road, data_for, callback):
    X, y = data_for(estimator(), n_classes=2)
    recorder = Recorder()
    model = estimator(**road).set_callbacks(recorder).fit(X, y)
    n = len(recorder.seen)
    inside = ["begin iteration", "end iteration"] * n
    assert recorder.events == ["setup", "begin fit", *inside, "end fit", "teardown"]
    assert n == len(model.objective_history_)
    assert_array_equal(model.coef_, estimator(**road).fit(X, y).coef_)
    for seen in recorder.seen:
        assert_array_equal(seen["X"], X)
        assert_array_equal(seen["y"], y)
    assert_near_outputs(recorder.seen[-1]["model"], model, X)
    assert recorder.seen[-1]["model"].coef_.shape == model.coef_.shape


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize("road", ROADS, ids=str)
def test_callbacks_with_several_classes(estimator, road, iris, callback):
    """max_iter is a limit for each of the three problems, and reaching it breaks no callback."""
    recorder = Recorder()
    model = estimator(**road, max_iter=3).set_callbacks(recorder)
    quiet(model, *iris)
    assert model.coef_.shape == (3, 4)
    assert recorder.events[-1] == "teardown"


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_callback_stops_the_fit(estimator, solver, n_classes, data_for, callback):
    X, y = data_for(estimator(), n_classes)
    recorder = Recorder(stop_after=2)
    model = estimator(C=10.0, tol=1e-6, solver=solver).set_callbacks(recorder).fit(X, y)  # warns of nothing
    assert len(recorder.seen) == 2
    assert model.n_iter_ == 2
    assert len(model.objective_history_) == 2
    assert np.isfinite(model.objective_)
    if solver != "lbfgs" or n_classes == 2:  # it solves class by class: the others get their first point
        assert_near_outputs(model, recorder.seen[-1]["model"], X)
    assert model.set_callbacks().fit(X, y).n_iter_ > 2


def test_callback_stops_the_dual_solver(callback):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 200))
    y = rng.normal(size=2000) + X[:, 0] > 0
    recorder = Recorder(stop_after=1)
    model = DropoutSVC(noise=0.0, tol=1e-10).set_callbacks(recorder).fit(X, y)
    assert len(recorder.seen) == 1
    assert_same_outputs(model, recorder.seen[-1]["model"], X)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_progress_bar(estimator, data_for, callback, capsys):
    pytest.importorskip("rich")
    X, y = data_for(estimator())
    model = estimator().set_callbacks(callback.ProgressBar()).fit(X, y)
    assert_array_equal(model.coef_, estimator().fit(X, y).coef_)
    assert estimator.__name__ in capsys.readouterr().out


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_scoring_monitor(estimator, n_classes, data_for, callback):
    X, y = data_for(estimator(), n_classes)
    name = "r2" if is_regressor(estimator()) else "accuracy"
    monitor = callback.ScoringMonitor(scoring=name)
    model = estimator().set_callbacks(monitor).fit(X, y)
    log = monitor.get_logs().data
    scores = [row[name] for row in log if row["task_name"] == "iteration"]
    assert len(scores) == model.n_iter_
    assert_allclose(scores[-1], model.score(X, y), rtol=1e-6)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_progress_bar_around_a_grid_search(estimator, data_for, callback, capsys):
    pytest.importorskip("rich")
    X, y = data_for(estimator())
    search = GridSearchCV(estimator(), {"noise": [0.2, 0.4]}, cv=2)
    if not hasattr(search, "set_callbacks"):
        pytest.skip("this scikit-learn's GridSearchCV takes no callbacks")
    search.set_callbacks(callback.ProgressBar(max_propagation_depth=None)).fit(X, y)
    assert estimator.__name__ in capsys.readouterr().out


# --------------------------------------------------------------------------- to scikit-learn and back

EXPORTS = [
    (DropoutSVC, 2, LinearSVC),
    (DropoutSVC, 3, LinearSVC),
    (DropoutLogisticRegression, 2, LogisticRegression),
    (DropoutLogisticRegression, 3, OneVsRestClassifier),
    (DropoutSVR, 0, LinearSVR),
]


@pytest.mark.parametrize(("estimator", "n_classes", "target"), EXPORTS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_to_sklearn(estimator, n_classes, target, fit_intercept, data_for):
    pandas = pytest.importorskip("pandas")
    X, y = data_for(estimator(), n_classes)
    frame = pandas.DataFrame(X, columns=NAMES)
    model = estimator(noise=Deletion(0.3), fit_intercept=fit_intercept).fit(frame, y)
    export = model.to_sklearn()
    assert type(export) is target
    for method in "predict", "decision_function", "predict_proba", "predict_log_proba":
        if hasattr(model, method) and (target is not OneVsRestClassifier or method != "predict_log_proba"):
            assert_close(getattr(export, method)(frame), getattr(model, method)(frame), rtol=1e-12)
    assert export.n_features_in_ == 4
    assert_array_equal(export.feature_names_in_, NAMES)
    assert_close(export.coef_, model.coef_, rtol=0)
    assert_close(export.intercept_, model.intercept_, rtol=0)
    assert_allclose(export.score(frame, y), model.score(frame, y), rtol=1e-12)
    assert_array_equal(pickle.loads(pickle.dumps(export)).predict(frame), export.predict(frame))
    inner = getattr(export, "estimator", export)
    assert (inner.C, inner.fit_intercept) == (model.C, fit_intercept)


@pytest.mark.filterwarnings("ignore::marginout.GridEdgeWarning")
@pytest.mark.parametrize(
    ("search", "n_classes"),
    [
        ("DropoutSVCCV", 3),
        ("DropoutLogisticRegressionCV", 2),
        ("DropoutLogisticRegressionCV", 3),
        ("DropoutSVRCV", 0),
    ],
)
def test_to_sklearn_of_a_search_keeps_the_names(search, n_classes, data_for):
    pandas = pytest.importorskip("pandas")
    search = getattr(marginout, search)
    X, y = data_for(search(), n_classes)
    frame = pandas.DataFrame(X, columns=NAMES)
    model = search([0.1, 1.0], [0.0, 0.3], cv=2).fit(frame, y)
    export = model.to_sklearn()
    assert_array_equal(export.feature_names_in_, NAMES)
    assert_array_equal(export.predict(frame), model.predict(frame))
    scores = "predict" if n_classes == 0 else "decision_function"
    expected = getattr(model, scores)(frame)
    assert_close(getattr(export, scores)(frame), expected, rtol=1e-12)
    assert_close(getattr(model.best_estimator_, scores)(X), expected, rtol=1e-12)  # without a warning


@pytest.mark.parametrize(("estimator", "n_classes", "target"), EXPORTS)
def test_to_sklearn_is_a_copy(estimator, n_classes, target, data_for):
    X, y = data_for(estimator(), n_classes)
    model = estimator().fit(X, y)
    export = model.to_sklearn()
    before = model.predict(X).copy()
    for part in getattr(export, "estimators_", [export]):
        part.coef_ *= -1.0
    assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_to_sklearn_before_fit(estimator):
    with pytest.raises(Exception, match=re.escape(f"This {estimator.__name__} instance is not fitted yet")):
        estimator().to_sklearn()


# --------------------------------------------------------------------------- probabilities


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities(n_classes, data_for):
    X, y = data_for(DropoutLogisticRegression(), n_classes)
    model = DropoutLogisticRegression().fit(X, y)
    probabilities, scores = model.predict_proba(X), model.decision_function(X)
    each = 1 / (1 + np.exp(-(np.column_stack([-scores, scores]) if n_classes == 2 else scores)))
    assert_allclose(probabilities, each / each.sum(axis=1, keepdims=True), rtol=1e-12)
    assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-14)
    assert_allclose(np.exp(model.predict_log_proba(X)), probabilities, rtol=1e-14)
    assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(X))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("size", [1e2, 1e4, 1e8, 1e150])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_probabilities_of_extreme_scores(n_classes, size, sign, data_for):
    X, y = data_for(DropoutLogisticRegression(), n_classes)
    model = DropoutLogisticRegression().fit(X, y)
    far = sign * size * X
    probabilities, logarithms = model.predict_proba(far), model.predict_log_proba(far)
    assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    assert np.isfinite(logarithms).all()
    assert (logarithms <= 0).all()
    predicted = np.searchsorted(model.classes_, model.predict(far))
    assert_array_equal(logarithms[np.arange(len(far)), predicted], logarithms.max(axis=1))


def test_all_classes_unlikely():
    """Where every one-vs-rest score is far below zero, the least unlikely class still wins, by its score."""
    model = DropoutLogisticRegression().fit(np.eye(3), ["a", "b", "c"])
    model.coef_, model.intercept_ = np.zeros((3, 3)), np.array([-1000.0, -1001.0, -2000.0])
    probabilities = model.predict_proba(np.eye(3)[:1])[0]
    assert_allclose(probabilities, [1 / (1 + np.exp(-1)), 1 / (1 + np.exp(1)), 0.0], rtol=1e-12)
