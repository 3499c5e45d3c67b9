"""Bad input to the linear estimators: an error that names the culprit."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from marginout.noise import Deletion, Dropout, Gaussian, Laplace, Poisson, Thinning
from tests.paper import DropoutLogisticRegression, DropoutSVC, DropoutSVR
from tests.problems import CLASSIFIERS, ESTIMATORS

from .inputs import LABELS, TARGET, D, N, X, each_classifier, each_estimator, refused, spoiled, targets

# --------------------------------------------------------------------------- bad X

BAD_X = {
    "NaN": (lambda: spoiled(X, np.nan), "Input X contains NaN"),
    "inf": (lambda: spoiled(X, np.inf), "Input X contains infinity"),
    "-inf": (lambda: spoiled(X, -np.inf), "Input X contains infinity"),
    "NaN, sparse": (lambda: sp.csr_array(spoiled(X, np.nan)), "Input X contains NaN"),
    "inf, sparse": (lambda: sp.csr_array(spoiled(X, np.inf)), "Input X contains infinity"),
    "NaN, float32": (lambda: spoiled(X, np.nan).astype(np.float32), "Input X contains NaN"),
    "NaN, object": (lambda: spoiled(X, np.nan).astype(object), "Input X contains NaN"),
    "None in object": (lambda: np.where(np.abs(X) > 1, None, X), "Input X contains NaN"),
    "1-D": (lambda: X[:, 0].copy(), "Expected 2D array, got 1D array"),
    "3-D": (lambda: X[:, :, None].copy(), "dim 3"),
    "scalar": (lambda: 1.0, "Expected 2D array, got scalar"),
    "None": (lambda: None, "Expected 2D array, got scalar"),
    "complex": (lambda: X * 1j, "Complex data not supported"),
    "words": (lambda: np.full((N, D), "one"), "could not convert string to float: .*one"),
    "objects": (lambda: np.full((N, D), object()), "argument must be .*not 'object'"),
    "ragged": (lambda: [[1.0, 2.0], [1.0]] * 15, "inhomogeneous|sequence"),
    "no rows": (lambda: X[:0].copy(), "0 sample"),
    "no columns": (lambda: X[:, :0].copy(), "0 feature"),
    "no columns, sparse": (lambda: sp.csr_array((N, 0)), "0 feature"),
    "1e150": (lambda: X * 1e150, "X holds values as large as .*e\\+150.*1e\\+100"),
    "1e150, sparse": (lambda: sp.csr_array(X * 1e150), "X holds values as large as .*e\\+150"),
    "float64 max": (lambda: spoiled(X, np.finfo(float).max), "X holds values as large as 1.8e\\+308"),
}


@each_estimator
@pytest.mark.parametrize("case", BAD_X)
def test_bad_X(estimator, case):
    make, match = BAD_X[case]
    data = make()
    rows = data.shape[0] if hasattr(data, "shape") and data.ndim else N
    refused(estimator(), data, targets(estimator)[:rows], match)


@each_estimator
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array, sp.csc_array])
def test_negative_data_with_poisson_noise(estimator, storage):
    match = re.escape("Negative values in data passed to X: -2.3") + ".*Poisson"
    refused(estimator(noise=Poisson()), storage(X), targets(estimator), match)


@each_estimator
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array, sp.csc_array])
def test_scaled_counts_with_thinning(estimator, storage):
    counts = np.rint(np.abs(X))
    counts[3, 1] = 0.25
    match = r"X holds 0\.25, but Thinning\(rate=0\.5\) noise needs counts.*before it is scaled"
    refused(estimator(noise=Thinning()), storage(counts), targets(estimator), match)
    estimator(noise=Thinning()).fit(storage(np.rint(np.abs(X))), targets(estimator))


# --------------------------------------------------------------------------- bad y

BAD_Y = {
    "NaN": (lambda y: spoiled(y, np.nan), "Input y contains NaN"),
    "inf": (lambda y: spoiled(y, np.inf), "Input y contains infinity"),
    "short": (lambda y: y[:-1], "inconsistent numbers of samples: \\[30, 29\\]"),
    "long": (lambda y: np.append(y, y[0]), "inconsistent numbers of samples: \\[30, 31\\]"),
    "empty": (lambda y: y[:0], "inconsistent numbers of samples: \\[30, 0\\]"),
    "3-D": (lambda y: np.ones((N, 1, 1)), "dim 3"),
    "scalar": (lambda y: 1.0, "y should be a 1d array"),
    "None": (lambda y: None, "requires y to be passed, but the target y is None"),
    "None inside": (lambda y: np.array([None, *y[1:]], dtype=object), "y contains NaN|Unknown label type"),
    "complex": (lambda y: y + 1j, "Complex data not supported"),
    "sparse": (lambda y: sp.csr_array(y[:, None]), "[sS]parse|y should be a 1d array"),
    "dicts": (lambda y: np.array([{}] * N), "Unknown label type|not 'dict'"),
}


@each_estimator
@pytest.mark.parametrize("case", BAD_Y)
def test_bad_y(estimator, case):
    make, match = BAD_Y[case]
    refused(estimator(), X, make(targets(estimator)), match)


@each_classifier
def test_two_columns_of_classes(estimator):
    y = np.column_stack([LABELS, LABELS + 1])
    refused(estimator(), X, y, r"y has 2 columns, which must hold 0 or 1.*MultiOutputClassifier")


@each_classifier
@pytest.mark.parametrize("label", [0, 1.0, "a", True], ids=repr)
def test_one_class(estimator, label):
    refused(estimator(), X, np.full(N, label), f"y has .* one class only.*{label}")


@each_classifier
def test_continuous_labels(estimator):
    refused(estimator(), X, TARGET, "Unknown label type: continuous")


@pytest.mark.parametrize(
    ("y", "match"), [(np.array(["a", "b"] * 15), "y|'a'"), (np.full(N, 1e200), "y holds")]
)
def test_bad_targets(y, match):
    refused(DropoutSVR(), X, y, match)


# --------------------------------------------------------------------------- bad weights

BAD_WEIGHTS = {
    "NaN": (lambda: spoiled(np.ones(N), np.nan), "sample_weight contains NaN"),
    "inf": (lambda: spoiled(np.ones(N), np.inf), "sample_weight contains infinity"),
    "negative": (lambda: spoiled(np.ones(N), -0.5), "sample_weight holds -0.5"),
    "all zero": (lambda: np.zeros(N), "sample_weight is zero for every example"),
    "zero for all": (lambda: 0.0, "sample_weight is zero for every example"),
    "short": (lambda: np.ones(N - 1), "sample_weight.*29"),
    "long": (lambda: np.ones(N + 1), "sample_weight.*31"),
    "empty": (lambda: np.ones(0), "sample_weight|0 sample"),
    "2-D": (lambda: np.ones((N, 1)), "sample_weight has shape \\(30, 1\\)"),
    "words": (lambda: ["heavy"] * N, "sample_weight.*heavy"),
    "a word": (lambda: "heavy", "sample_weight.*heavy"),
    "complex": (lambda: np.ones(N) * 1j, "Complex data not supported"),
    "None inside": (lambda: np.array([None] * N), "sample_weight contains NaN"),
    "1e307": (lambda: np.full(N, 1e307), "sample_weight"),
}


@each_estimator
@pytest.mark.parametrize("case", BAD_WEIGHTS)
def test_bad_weights(estimator, case):
    make, match = BAD_WEIGHTS[case]
    refused(estimator(), X, targets(estimator), match, sample_weight=make())


@each_classifier
def test_weights_that_leave_one_class(estimator):
    refused(estimator(), X, LABELS, "one class only.*1", sample_weight=LABELS.astype(float))


# --------------------------------------------------------------------------- bad parameters


def wrong(name, *values):
    return [(name, value) for value in values]


NOT_POSITIVE = 0, -1.0, np.nan, np.inf, "1", None, True, [1.0], 1j, 10**400
BAD_PARAMETERS = [
    *wrong("C", *NOT_POSITIVE, 1e308),
    *wrong("tol", *NOT_POSITIVE),
    *wrong("noise", 1.0, 1, -0.1, np.nan, np.inf, True, "0.5", [0.5], np.array([0.5] * D), Dropout),
    *wrong("solver", "newton-cg", "", None, 3, ["ncg"]),
    *wrong("expectation", "exact", "", None, 3),
    *wrong("max_iter", 0, -1, 1.5, 10.0, np.nan, "100", None, True),
    *wrong("verbose", -1, 0.5, "yes", None),
    *wrong("fit_intercept", "no", None, 2.0),
    *wrong("warm_start", "no", None, 2.0),
]


@each_estimator
@pytest.mark.parametrize(("name", "value"), BAD_PARAMETERS, ids=lambda value: repr(value)[:24])
def test_bad_parameters(estimator, name, value):
    refused(estimator(**{name: value}), X, targets(estimator), re.escape(f"{name}={value!r}"))


@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, "1", None, True], ids=repr)
def test_bad_margin(value):
    refused(DropoutSVC(margin=value), X, LABELS, re.escape(f"margin={value!r}"))


@pytest.mark.parametrize("value", [-1e-9, -1.0, np.nan, np.inf, "1", None, True], ids=repr)
def test_bad_epsilon(value):
    refused(DropoutSVR(epsilon=value), X, TARGET, re.escape(f"epsilon={value!r}"))


BAD_CLASS_WEIGHTS = [
    ("heavy", "class_weight='heavy'"),
    ([1.0, 2.0], re.escape("class_weight=[1.0, 2.0]")),
    (2.0, "class_weight=2.0"),
    ({0: 1.0, "x": 2.0}, "class_weight"),  # 1 has no weight, and "x" is no class: surely a mistake
    ({0: -1.0}, re.escape("class_weight={0: -1.0}")),
    ({0: np.nan}, re.escape("class_weight={0: nan}")),
    ({0: np.inf}, re.escape("class_weight={0: inf}")),
    ({0: "a"}, "class_weight"),
    ({0: None}, "class_weight"),
    ({0: 0.0}, "class_weight|one class only"),
    ({0: 0.0, 1: 0.0}, "class_weight|one class only"),
]


@each_classifier
@pytest.mark.parametrize(("value", "match"), BAD_CLASS_WEIGHTS, ids=lambda value: repr(value)[:30])
def test_bad_class_weight(estimator, value, match):
    refused(estimator(class_weight=value), X, LABELS, match)


PER_FEATURE = [(Dropout, "rate"), (Deletion, "rate"), (Gaussian, "variance"), (Laplace, "scale")]


@each_estimator
@pytest.mark.parametrize(("noise", "field"), PER_FEATURE)
@pytest.mark.parametrize("length", [1, D - 1, D + 1])
def test_wrong_number_of_rates(estimator, noise, field, length):
    match = re.escape(f"{noise.__name__}({field}=") + f".*{length} values but X has {D} features"
    refused(estimator(noise=noise([0.1] * length)), X, targets(estimator), match)


# --------------------------------------------------------------------------- bad use


METHODS = [
    *((estimator, method) for estimator in ESTIMATORS for method in ("predict", "score", "to_sklearn")),
    *((estimator, "decision_function") for estimator in CLASSIFIERS),
    (DropoutLogisticRegression, "predict_proba"),
    (DropoutLogisticRegression, "predict_log_proba"),
]


@pytest.mark.parametrize(("estimator", "method"), METHODS)
def test_use_before_fit(estimator, method):
    arguments = {"score": (X, targets(estimator)), "to_sklearn": ()}.get(method, (X,))
    with pytest.raises(NotFittedError, match=f"This {estimator.__name__} instance is not fitted yet"):
        getattr(estimator(), method)(*arguments)


BAD_QUERIES = {
    "too few features": (X[:, :-1], "X has 3 features, but .* is expecting 4"),
    "too many features": (np.hstack([X, X]), "X has 8 features, but .* is expecting 4"),
    "1-D": (X[0], "Expected 2D array, got 1D"),
    "3-D": (X[None], "dim 3"),
    "NaN": (spoiled(X, np.nan), "Input X contains NaN"),
    "inf, sparse": (sp.csr_array(spoiled(X, np.inf)), "Input X contains infinity"),
    "empty": (X[:0], "0 sample"),
    "complex": (X * 1j, "Complex data not supported"),
    "words": (np.full((N, D), "one"), "could not convert string to float"),
}


@each_estimator
@pytest.mark.parametrize("case", BAD_QUERIES)
def test_bad_queries(estimator, case):
    data, match = BAD_QUERIES[case]
    model = estimator().fit(X, targets(estimator))
    with pytest.raises(ValueError, match=match):
        model.predict(data)
    assert model.predict(X).shape == (N,)
