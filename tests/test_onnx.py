"""Converted models say in onnxruntime what they say in Python."""

from __future__ import annotations

import subprocess
import sys
from copy import deepcopy
from importlib import import_module

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_diabetes, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from marginout import (
    DropoutLogisticRegression,
    DropoutLogisticRegressionCV,
    DropoutQuantileRegressor,
    DropoutQuantileRegressorCV,
    DropoutSVC,
    DropoutSVCCV,
    DropoutSVR,
    DropoutSVRCV,
    FeatureDeletionSVC,
    LatentDropoutLogisticRegression,
    LatentDropoutSVC,
    LatentDropoutSVR,
    MCFClassifier,
    MCFRegressor,
)

skl2onnx = pytest.importorskip("skl2onnx", reason="conversion needs the extra 'onnx'")
onnxruntime = pytest.importorskip("onnxruntime", reason="converted models run in onnxruntime")

SEARCH = {"Cs": [0.1, 1.0, 10.0], "noises": [0.0, 0.1, 0.2], "cv": 2}
HIDDEN = {"n_hidden": 4, "noise": 0.1, "tol": 1e-2, "random_state": 0}
CLASSIFIERS = [
    DropoutSVC(noise=0.2),
    DropoutSVC(noise=0.2, fit_intercept=False),
    DropoutSVC(noise=0.2, multi_class="pairwise"),
    DropoutSVCCV(**SEARCH),
    DropoutLogisticRegression(noise=0.2),
    DropoutLogisticRegression(noise=0.2, multi_class="pairwise"),
    DropoutLogisticRegression(noise=0.2, multi_class="multinomial"),
    DropoutLogisticRegressionCV(**SEARCH),
    FeatureDeletionSVC(n_deletions=1),
    MCFClassifier(noise=0.2),
    MCFClassifier("quadratic", noise=0.2),
    MCFClassifier("exponential", noise=0.2),
    *(
        model(**HIDDEN, activation=activation, shared=shared)
        for model in (LatentDropoutSVC, LatentDropoutLogisticRegression)
        for activation, shared in (("sigmoid", False), ("tanh", True), ("relu", True), ("identity", True))
    ),
]
REGRESSORS = [
    DropoutSVR(noise=0.2),
    DropoutSVRCV(**SEARCH),
    DropoutQuantileRegressor(0.7, noise=0.2),
    DropoutQuantileRegressor([0.1, 0.9], noise=0.2),
    DropoutQuantileRegressorCV([0.1, 0.9], **SEARCH),
    MCFRegressor(noise=0.2),
    *(LatentDropoutSVR(**HIDDEN, activation=activation) for activation in ("sigmoid", "tanh", "relu")),
]
LABELS = {
    "int": np.array([3, 5, 9]),
    "str": np.array(["setosa", "versicolor", "virginica"]),
    "two": np.array([-1, 1, 1]),
    "two str": np.array(["no", "yes", "yes"], dtype=object),
    "bool": np.array([False, True, True]),
}
# The searches' best cell may lie at the edge of so small a grid.
pytestmark = [
    pytest.mark.filterwarnings("ignore::marginout.GridEdgeWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def _registered():
    import marginout.onnx

    marginout.onnx.register()


def run(model, X, **options):
    graph = skl2onnx.to_onnx(model, X[:1], options={id(model): options} if options else None)
    return onnxruntime.InferenceSession(graph.SerializeToString()).run(None, {"X": X})


def two_sided(scores):
    """Scores with one column per class, as the converted models give them."""
    return np.column_stack([-scores, scores]) if scores.ndim == 1 else scores


def iris(labels="int"):
    X, y = load_iris(return_X_y=True)
    return X, LABELS[labels][y]


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("model", CLASSIFIERS, ids=repr)
def test_classifiers(model, labels):
    X, y = iris(labels)
    pipeline = make_pipeline(StandardScaler(), model).fit(X, y)
    for dtype, tolerance in ((np.float32, 1e-5), (np.float64, 1e-12)):
        label, second = run(pipeline, X.astype(dtype), zipmap=False)
        probabilities = hasattr(pipeline, "predict_proba")
        expected = pipeline.predict_proba(X) if probabilities else two_sided(pipeline.decision_function(X))
        assert_array_equal(label, pipeline.predict(X))
        assert second.dtype == dtype
        assert_allclose(second, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("model", REGRESSORS, ids=repr)
def test_regressors(model):
    X, y = load_diabetes(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), model).fit(X, scale(y))
    for dtype, tolerance in ((np.float32, 1e-5), (np.float64, 1e-12)):
        (predicted,) = run(pipeline, X.astype(dtype))
        expected = pipeline.predict(X).reshape(len(y), -1)
        assert predicted.shape == expected.shape
        assert_allclose(predicted, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("labels", ["str", "two"])
def test_options(labels):
    X, y = iris(labels)
    model = DropoutLogisticRegression(noise=0.2).fit(X, y)
    probabilities = model.predict_proba(X)
    _, dicts = run(model, X.astype(np.float32))
    by_class = [[row[c] for c in model.classes_.tolist()] for row in dicts]
    assert_allclose(by_class, probabilities, atol=1e-5)
    _, *columns = run(model, X.astype(np.float32), zipmap="columns")
    assert_allclose(np.column_stack(columns), probabilities, atol=1e-5)
    _, scores = run(model, X, zipmap=False, raw_scores=True)
    assert_allclose(scores, two_sided(model.decision_function(X)), rtol=1e-12)
    numbers, _ = run(model, X, zipmap=False, nocl=True)
    assert_array_equal(model.classes_[numbers], model.predict(X))
    *_, classes = run(model, X, zipmap=False, output_class_labels=True)
    assert_array_equal(classes, model.classes_)


def test_whole_numbers_as_features():
    X, y = iris()
    X = (10 * X).round().astype(np.int64)
    model = DropoutSVC(C=1e-3, noise=0.2).fit(X, y)
    label, scores = run(model, X, zipmap=False)
    assert_array_equal(label, model.predict(X))
    assert_allclose(scores, model.decision_function(X), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [1e2, 1e4])
def test_all_classes_unlikely(size):
    X, y = iris()
    model = DropoutLogisticRegression(noise=0.2).fit(X, y)
    model.intercept_ = model.intercept_ - size
    _, probabilities = run(model, X, zipmap=False)
    assert_allclose(probabilities, model.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize("labels", ["int", "two"])
def test_calibrated(labels):
    X, y = iris(labels)
    model = CalibratedClassifierCV(DropoutSVC(noise=0.2), cv=2).fit(X, y)
    _, probabilities = run(model, X, zipmap=False)
    assert_allclose(probabilities, model.predict_proba(X), atol=1e-6)


def test_labels_that_onnx_does_not_know():
    X, y = iris()
    model = DropoutSVC().fit(X, y)
    model.classes_ = np.array([0.5, 1.0, 1.5])
    with pytest.raises(ValueError, match="whole numbers or strings"):
        run(model, X, zipmap=False)


def test_without_skl2onnx():
    code = (
        "import sys, marginout; assert 'skl2onnx' not in sys.modules; sys.modules['skl2onnx'] = None; "
        "import marginout.onnx"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'marginout[onnx]'" in done.stderr.splitlines()[-1]


def test_what_deletes_missing_entries_is_refused():
    X, y = load_iris(return_X_y=True)
    import_module("marginout.onnx").register()
    with pytest.raises(ValueError, match="missing='deleted' cannot be converted"):
        skl2onnx.to_onnx(DropoutSVC(missing="deleted").fit(X, y), X[:1])


def test_conditional_means_are_filled_in_before_the_graph():
    X, y = load_iris(return_X_y=True)
    import_module("marginout.onnx").register()
    model = DropoutSVC(missing="conditional").fit(X, y)
    with pytest.raises(ValueError, match="on a copy, convert that"):
        skl2onnx.to_onnx(model, X[:1])
    Z = np.where(np.random.default_rng(0).random(X.shape) < 0.4, np.nan, X)
    filled = model.to_sklearn()[0].transform(Z)
    labels, scores = run(deepcopy(model).set_params(missing="error"), filled, zipmap=False)
    assert_array_equal(labels, model.predict(Z))
    assert_allclose(scores, model.decision_function(Z), atol=1e-9)
