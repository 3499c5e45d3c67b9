"""Bad, odd and extreme input: an error that names the culprit, or a right and finite answer.

Never a crash, a hang, a RuntimeWarning (pytest turns warnings into errors here), a NaN, changed input,
or half a fit: after an error no attribute ending with an underscore exists.
"""

from __future__ import annotations

import copy
import re

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, SVR

from marginout import DropoutLogisticRegression, DropoutSVC, DropoutSVR
from marginout.noise import Deletion, Dropout, Gaussian, Laplace, Poisson

CLASSIFIERS = [DropoutSVC, DropoutLogisticRegression]
ESTIMATORS = [*CLASSIFIERS, DropoutSVR]

N, D = 30, 4
_RNG = np.random.default_rng(0)
X = np.round(_RNG.normal(size=(N, D)), 3)
X.flags.writeable = False
TARGET = X @ [1.0, 2.0, 0.0, -1.0] + 0.1 * _RNG.normal(size=N)
TARGET.flags.writeable = False
LABELS = (X[:, 0] + 0.3 * _RNG.normal(size=N) > 0.2).astype(int)
LABELS.flags.writeable = False

each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS)
each_classifier = pytest.mark.parametrize("estimator", CLASSIFIERS)


def targets(estimator):
    """Targets that suit an estimator."""
    return LABELS if is_classifier(estimator()) else TARGET


def snapshot(value):
    """A copy to compare with later; objects inside of arrays are the same objects."""
    return value.copy() if isinstance(value, np.ndarray) else copy.deepcopy(value)


def assert_unchanged(value, before) -> None:
    if sp.issparse(value):
        assert (value.shape, value.dtype, value.format) == (before.shape, before.dtype, before.format)
        for name in {"data", "indices", "indptr", "offsets"} & set(dir(value)):
            assert_array_equal(getattr(value, name), getattr(before, name))
    elif isinstance(value, np.ndarray):
        assert (value.dtype, value.shape) == (before.dtype, before.shape)
        if value.dtype == object:
            assert all(a is b for a, b in zip(value.flat, before.flat, strict=True))
        else:
            assert_array_equal(value, before)
    else:
        assert type(value) is type(before)


def fitted_attributes(model) -> list[str]:
    return [name for name in vars(model) if name.endswith("_")]


def refused(model, data, y, match: str, sample_weight=None) -> None:
    """The fit is refused with a message, leaves no trace on the model and none on the input."""
    given = data, y, sample_weight
    before = [snapshot(value) for value in given]
    with pytest.raises((ValueError, TypeError), match=match):
        model.fit(data, y, sample_weight=sample_weight)
    assert fitted_attributes(model) == []
    for value, old in zip(given, before, strict=True):
        assert_unchanged(value, old)


def accepted(model, data, y, sample_weight=None):
    """The fit warns of nothing, leaves the input alone, and is finite through and through."""
    given = data, y, sample_weight
    before = [snapshot(value) for value in given]
    model.fit(data, y, sample_weight=sample_weight)
    for value, old in zip(given, before, strict=True):
        assert_unchanged(value, old)
    for name in "coef_", "intercept_", "objective_", "objective_history_":
        assert np.isfinite(getattr(model, name)).all(), name
    assert not np.isnan(model.optimality_gap_)
    scores = model.decision_function(data) if is_classifier(model) else model.predict(data)
    assert np.isfinite(scores).all()
    return model


def spoiled(values, value, at: int = 3):
    """A writeable copy with one bad entry."""
    values = np.array(values, dtype=float)
    values.flat[at] = value
    return values


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


# --------------------------------------------------------------------------- bad y

BAD_Y = {
    "NaN": (lambda y: spoiled(y, np.nan), "Input y contains NaN"),
    "inf": (lambda y: spoiled(y, np.inf), "Input y contains infinity"),
    "short": (lambda y: y[:-1], "inconsistent numbers of samples: \\[30, 29\\]"),
    "long": (lambda y: np.append(y, y[0]), "inconsistent numbers of samples: \\[30, 31\\]"),
    "empty": (lambda y: y[:0], "inconsistent numbers of samples: \\[30, 0\\]"),
    "two columns": (lambda y: np.column_stack([y, y]), "y should be a 1d array.*\\(30, 2\\)"),
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
    *wrong("noise", 1.0, 1, -0.1, np.nan, np.inf, None, True, "0.5", [0.5], np.array([0.5] * D), Dropout),
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


# --------------------------------------------------------------------------- odd X, usual answer


def memmap(tmp_path):
    path = tmp_path / "X.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r")


def disordered(shape=(N, D)):
    """X as CSR with unsorted indices, every entry split in two duplicates, and explicit zeros."""
    rows, columns = np.nonzero(np.ones(shape))
    order = np.random.default_rng(1).permutation(3 * rows.size)
    rows, columns = np.tile(rows, 3)[order], np.tile(columns, 3)[order]
    values = np.concatenate([0.25 * X.ravel(), 0.75 * X.ravel(), np.zeros(X.size)])[order]
    inside = np.argsort(rows, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=N))])
    return sp.csr_array((values[inside], columns[inside], indptr), shape=shape)


ODD_X = {
    "read-only": lambda tmp_path: X,
    "memmap": memmap,
    "every other row of a larger array": lambda tmp_path: np.repeat(X, 2, axis=0)[::2],
    "columns of a larger array": lambda tmp_path: np.repeat(X, 3, axis=1)[:, ::3],
    "backwards": lambda tmp_path: X[::-1, ::-1].copy()[::-1, ::-1],
    "F order": lambda tmp_path: np.asfortranarray(X),
    "list of lists": lambda tmp_path: X.tolist(),
    "object": lambda tmp_path: X.astype(object),
    "numbers as words": lambda tmp_path: X.astype(str),
    "long double": lambda tmp_path: X.astype(np.longdouble),
    "other byte order": lambda tmp_path: X.astype(X.dtype.newbyteorder()),
    "csr_matrix": lambda tmp_path: sp.csr_matrix(X),
    "duplicates, unsorted, explicit zeros": lambda tmp_path: disordered(),
    "DIA": lambda tmp_path: sp.dia_array(X),
    "DOK": lambda tmp_path: sp.dok_array(X),
}


@each_estimator
@pytest.mark.parametrize("noise", [0.3, 0.0])
@pytest.mark.parametrize("case", ODD_X)
def test_odd_X(estimator, noise, case, tmp_path):
    usual = estimator(noise=noise).fit(X.copy(), targets(estimator))
    model = accepted(estimator(noise=noise), ODD_X[case](tmp_path), targets(estimator))
    assert_allclose(model.coef_, usual.coef_, rtol=1e-7, atol=1e-9)
    assert_allclose(model.intercept_, usual.intercept_, rtol=1e-7, atol=1e-9)


@each_estimator
@pytest.mark.parametrize("kind", [bool, np.int8, np.int64, np.uint8, np.float16])
def test_whole_numbers(estimator, kind):
    whole = np.abs(X).round().astype(kind)
    model = accepted(estimator(), whole, targets(estimator))
    assert_array_equal(model.coef_, estimator().fit(whole.astype(float), targets(estimator)).coef_)
    assert_array_equal(model.predict(whole), model.predict(whole.astype(float)))


@each_estimator
@pytest.mark.parametrize("noise", [0.3, 0.0])
def test_empty_rows_and_columns(estimator, noise):
    """An empty column gets weight zero; an empty row counts for the offset, stored or not."""
    holes = np.insert(X, [0, 2, D], 0.0, axis=1)
    holes = np.vstack([np.zeros(D + 3), holes, np.zeros(D + 3)])
    y = np.concatenate([targets(estimator)[:1], targets(estimator), targets(estimator)[-1:]])
    dense = accepted(estimator(noise=noise, tol=1e-5), holes, y)
    sparse = accepted(estimator(noise=noise, tol=1e-5), sp.csr_array(holes), y)
    full = np.ravel(dense.coef_)
    assert_array_equal(full[[0, 3, D + 2]], 0.0)
    assert_allclose(np.ravel(sparse.coef_), full, atol=1e-6)
    assert_allclose(sparse.objective_, dense.objective_, rtol=1e-9)
    without = estimator(noise=noise, tol=1e-5).fit(np.delete(holes, [0, 3, D + 2], axis=1), y)
    assert_allclose(dense.objective_, without.objective_, rtol=1e-9)


# --------------------------------------------------------------------------- odd y, usual answer

ODD_LABELS = {
    "words": (lambda y: np.array(["no", "yes"])[y], ["no", "yes"]),
    "objects": (lambda y: np.array(["no", "yes"], dtype=object)[y], ["no", "yes"]),
    "booleans": (lambda y: y.astype(bool), [False, True]),
    "floats": (lambda y: y.astype(float), [0.0, 1.0]),
    "signs": (lambda y: 2 * y - 1, [-1, 1]),
    "large numbers": (lambda y: y * 10**12 - 7, [-7, 10**12 - 7]),
    "bytes": (lambda y: y.astype(np.uint8), [0, 1]),
    "list": (lambda y: y.tolist(), [0, 1]),
    "column": (lambda y: y[:, None], [0, 1]),
}


@each_classifier
@pytest.mark.parametrize("case", ODD_LABELS)
@pytest.mark.filterwarnings("ignore:A column-vector y:sklearn.exceptions.DataConversionWarning")
def test_odd_labels(estimator, case):
    make, classes = ODD_LABELS[case]
    usual = estimator().fit(X, LABELS)
    model = accepted(estimator(), X, make(LABELS))
    assert_array_equal(model.classes_, classes)
    assert_array_equal(model.coef_, usual.coef_)
    assert_array_equal(model.predict(X), np.asarray(classes)[usual.predict(X)])


@each_classifier
@pytest.mark.parametrize("ordered", [False, True])
def test_categorical_labels(estimator, ordered):
    pandas = pytest.importorskip("pandas")
    names = pandas.Categorical(
        np.array(["low", "high"])[LABELS], categories=["low", "high", "never"], ordered=ordered
    )
    model = estimator().fit(X, pandas.Series(names))
    assert_array_equal(model.classes_, ["high", "low"])
    assert_allclose(model.coef_, -estimator().fit(X, LABELS).coef_, atol=1e-2)


ODD_TARGETS = {
    "list": lambda y: y.tolist(),
    "float32": lambda y: y.astype(np.float32),
    "strided": lambda y: np.repeat(y, 3)[::3],
    "objects": lambda y: y.astype(object),
    "long double": lambda y: y.astype(np.longdouble),
}


@pytest.mark.parametrize("case", ODD_TARGETS)
def test_odd_targets(case):
    exact = TARGET.astype(np.float32).astype(float)
    model = accepted(DropoutSVR(), X, ODD_TARGETS[case](exact))
    assert_allclose(model.coef_, DropoutSVR().fit(X, exact).coef_, rtol=1e-10)


def test_whole_targets():
    whole = (10 * TARGET).round()
    model = accepted(DropoutSVR(), X, whole.astype(int))
    assert_array_equal(model.coef_, DropoutSVR().fit(X, whole).coef_)
    assert np.abs(accepted(DropoutSVR(), X, LABELS.astype(bool)).coef_).max() > 0


# --------------------------------------------------------------------------- extreme numbers


def reference(model, data, y):
    """The minimum of F for dropout and the bound, from its formula and SciPy, in scaled variables."""
    rate, C = model.noise, model.C
    size = np.maximum(np.abs(data).max(axis=0), 1.0) / np.sqrt(1 - rate)
    A = data / size

    def F(u):
        w, b = u[:-1], u[-1]
        m, v = A @ w + b, rate / (1 - rate) * (A**2 @ w**2) + 1e-14
        if isinstance(model, DropoutLogisticRegression):
            omega, s = np.sqrt(m**2 + v), 2 * y - 1
            loss = np.logaddexp(omega / 2, -omega / 2) - s * m / 2
        elif isinstance(model, DropoutSVC):
            z = 1 - (2 * y - 1) * m
            loss = 0.5 * (z + np.sqrt(z**2 + v))
        else:
            low, high = y - m - model.epsilon, y - m + model.epsilon
            loss = 0.5 * (np.sqrt(low**2 + v) + np.sqrt(high**2 + v)) - model.epsilon
        return 0.5 * np.sum((w / size) ** 2) / C + loss.sum()

    starts = np.zeros(data.shape[1] + 1), np.append(np.zeros(data.shape[1]), -1.0)
    options = {"maxiter": 20_000, "maxfun": 10**6, "ftol": 1e-15, "gtol": 1e-10}
    return C * min(minimize(F, start, method="L-BFGS-B", options=options).fun for start in starts)


def assert_optimal(model, data, y) -> None:
    """F is the least that there is, up to what tol says."""
    best = reference(model, np.asarray(data, dtype=float), y)
    assert model.objective_ <= best * (1 + model.tol) + 1e-9
    assert model.objective_ >= best * (1 - 1e-4) - 1e-9


EXTREME_X = {
    "scale 1e3": X * 1e3,
    "scale 1e-3": X * 1e-3,
    "scale 1e30": X * 1e30,
    "scale 1e99": X * 1e99,
    "scales from 1e-30 to 1e30": X * [1e30, 1.0, 1e-30, 1e15],
    "float32 max": np.abs(X / np.abs(X).max() * 0.99 * np.finfo(np.float32).max).astype(np.float32),
    "far from the origin": X + 1e4,
    "one feature": X[:, :1],
    "one row large": np.vstack([1e6 * X[:1], X[1:]]),
    "constant feature": np.column_stack([X, np.full(N, 3.0)]),
    "two equal features": np.column_stack([X, X[:, 0]]),
    "duplicated rows": np.repeat(X[: N // 2], 2, axis=0),
    "whole numbers": np.round(X),
    "booleans": (X > 0).astype(float),
}


@each_estimator
@pytest.mark.parametrize("case", EXTREME_X)
def test_extreme_X(estimator, case):
    data = EXTREME_X[case]
    assert_optimal(accepted(estimator(), data, targets(estimator)), data, targets(estimator))


def plain_objective(model, w, b, data, y) -> float:
    """F without noise, at some weights and offset."""
    m = data @ w + b
    losses = {
        DropoutSVC: lambda: np.maximum(0, 1 - (2 * y - 1) * m),
        DropoutSVR: lambda: np.maximum(0, np.abs(y - m) - 0.1),
        DropoutLogisticRegression: lambda: np.logaddexp(0, -(2 * y - 1) * m),
    }
    return 0.5 * w @ w + model.C * losses[type(model)]().sum()


PLAIN = {
    DropoutSVC: SVC(kernel="linear", tol=1e-6),
    DropoutSVR: SVR(kernel="linear", tol=1e-6),
    DropoutLogisticRegression: LogisticRegression(solver="newton-cholesky", tol=1e-8, max_iter=1000),
}


@each_estimator
@pytest.mark.parametrize("case", EXTREME_X)
def test_extreme_X_without_noise(estimator, case):
    """No worse than scikit-learn's exact solvers, up to a thousandth of the cost of w = 0."""
    data, y = EXTREME_X[case], targets(estimator)
    model = accepted(estimator(noise=0.0), data, y)
    data, nothing = data.astype(float), without_features(model, y)
    value = plain_objective(model, np.ravel(model.coef_), model.intercept_[0], data, y)
    assert_allclose(model.objective_, value, rtol=1e-9, atol=1e-9 * nothing)
    scale = np.abs(data).max(axis=0)  # libsvm knows no way around features of 1e30, nor a C of 1e60
    plain = clone(PLAIN[estimator]).set_params(C=min(scale.max() ** 2, 10.0)).fit(data / scale, y)
    best = plain_objective(model, np.ravel(plain.coef_) / scale, plain.intercept_[0], data, y)
    assert model.objective_ <= best + 1e-3 * nothing


def without_features(model, y) -> float:
    """The minimum of F over the offset alone, which is all there is to choose when X is (next to) nothing."""
    if isinstance(model, DropoutSVC):
        return model.C * 2 * min(np.sum(y == 0), np.sum(y == 1))
    if isinstance(model, DropoutLogisticRegression):
        p = np.mean(y == 1)
        return -model.C * len(y) * (p * np.log(p) + (1 - p) * np.log(1 - p))
    kinks = np.concatenate([y - model.epsilon, y + model.epsilon])
    return model.C * min(np.maximum(np.abs(y - b) - model.epsilon, 0).sum() for b in kinks)


NO_X = {
    "zeros": np.zeros((N, D)),
    "zeros, stored sparsely": sp.csr_array(np.zeros((N, D))),
    "explicit zeros": sp.csr_array((np.zeros(N), np.zeros(N, int), np.arange(N + 1)), shape=(N, D)),
    "1e-30": X * 1e-30,
    "1e-300": X * 1e-300,
    "denormal": X * 1e-320,
    "1e-300, sparse": sp.csr_array(X * 1e-300),
}


@each_estimator
@pytest.mark.parametrize("noise", [0.5, 0.0, Deletion(0.3), Gaussian(0.1)], ids=repr)
@pytest.mark.parametrize("expectation", ["bound", "gaussian"])
@pytest.mark.parametrize("case", NO_X)
def test_no_X_to_speak_of(estimator, noise, expectation, case):
    """No features, no weights: the offset alone, and its cost is known in closed form."""
    y = targets(estimator)
    model = accepted(estimator(noise=noise, expectation=expectation), NO_X[case], y)
    assert_allclose(model.coef_, 0.0, atol=1e-20)
    assert_allclose(model.objective_, without_features(model, y), rtol=1e-4)
    assert model.objective_ - model.optimality_gap_ <= without_features(model, y) * (1 + 1e-9)


@each_estimator
@pytest.mark.parametrize("C", [1e-10, 1e-3, 1e3, 1e10])
def test_extreme_C(estimator, C):
    y = targets(estimator)
    model = accepted(estimator(C=C), X, y)
    best = reference(model, X, y)
    assert_allclose(model.objective_, best, rtol=1e-3)
    if C == 1e-10:
        assert_allclose(model.coef_, 0.0, atol=1e-7)


@each_estimator
@pytest.mark.parametrize("rate", [1e-12, 1e-3, 0.999, 1 - 1e-9])
def test_extreme_rate(estimator, rate):
    y = targets(estimator)
    assert_optimal(accepted(estimator(noise=rate), X, y), X, y)


@each_estimator
def test_weights_of_all_sizes(estimator):
    """Weights over twelve orders of magnitude; those next to nothing do count for next to nothing."""
    y = targets(estimator)
    weights = 10.0 ** np.tile([0.0, -12.0], N // 2)
    model = accepted(estimator(tol=1e-6), X, y, sample_weight=weights)
    assert_allclose(model.objective_, estimator(tol=1e-6).fit(X[::2], y[::2]).objective_, rtol=1e-6)
    tiny = accepted(estimator(), X, y, sample_weight=np.full(N, 1e-300))
    assert_allclose(tiny.coef_, 0.0, atol=1e-100)


@each_estimator
@pytest.mark.parametrize("size", [1e10, 1e100, 1e200])
def test_huge_weights(estimator, size):
    """The ridge is nothing to weights of this size; they are all the same otherwise."""
    y = targets(estimator)
    usual = estimator(C=1e8).fit(X, y)
    model = accepted(estimator(), X, y, sample_weight=np.full(N, size))
    assert_allclose(model.coef_, usual.coef_, atol=1e-6)
    assert_allclose(model.objective_ / size, usual.objective_ / 1e8, rtol=1e-6)


@pytest.mark.parametrize("noise", [0.5, 0.0])
@pytest.mark.parametrize("shift", [1e3, -1e6, 1e9])
def test_targets_far_from_zero(noise, shift):
    """The offset takes up what all targets share, however far it is."""
    usual = DropoutSVR(noise=noise, tol=1e-5).fit(X, TARGET)
    model = accepted(DropoutSVR(noise=noise, tol=1e-5), X, TARGET + shift)
    assert_allclose(model.objective_, usual.objective_, rtol=1e-5)
    assert_allclose(model.coef_, usual.coef_, atol=1e-2)
    assert_allclose(model.intercept_ - shift, usual.intercept_, atol=0.02)


@pytest.mark.parametrize("size", [1e-8, 1e8, 1e50, 1e99])
def test_targets_of_any_size(size):
    """SVR has no unit of its own: y, ε, w and b scale together if C scales too."""
    usual = DropoutSVR(tol=1e-6).fit(X, TARGET)
    model = accepted(DropoutSVR(C=size, epsilon=0.1 * size, tol=1e-6), X, size * TARGET)
    assert_allclose(model.coef_ / size, usual.coef_, atol=1e-2)
    assert_allclose(model.objective_ / size**2, usual.objective_, rtol=1e-5)


def test_huge_targets_usual_epsilon():
    model = accepted(DropoutSVR(C=1e-3), X, 1e12 * TARGET)
    assert_optimal(model, X, 1e12 * TARGET)


@pytest.mark.parametrize("value", [0.0, 5.0, -1e6, 1e99])
@pytest.mark.parametrize("noise", [0.5, 0.0])
def test_constant_target(value, noise):
    """Nothing to explain: w = 0, an offset within ε of the constant, no cost."""
    model = accepted(DropoutSVR(noise=noise), X, np.full(N, value))
    assert_allclose(model.coef_, 0.0, atol=1e-9)
    assert_allclose(model.intercept_, value, rtol=1e-9, atol=0.1 + 1e-6)
    assert_allclose(model.objective_, 0.0, atol=1e-6 * max(1.0, abs(value)))


@each_classifier
@pytest.mark.parametrize("noise", [0.5, 0.0])
def test_contradictory_rows(estimator, noise):
    """Every example with both labels: nothing to learn, and every offset in the margin costs the same."""
    model = accepted(estimator(noise=noise), np.repeat(X, 2, axis=0), np.tile([0, 1], N))
    assert_allclose(model.coef_, 0.0, atol=1e-3)
    assert_allclose(model.objective_, without_features(model, np.tile([0, 1], N)), rtol=1e-4)


@each_estimator
@pytest.mark.parametrize("noise", [0.5, 0.0])
@pytest.mark.parametrize("storage", [np.array, sp.csr_array])
def test_two_examples(estimator, noise, storage):
    model = accepted(estimator(noise=noise), storage(X[:2]), np.array([0, 1]))
    assert model.coef_.shape == ((1, D) if is_classifier(model) else (D,))
    if is_classifier(model) and noise == 0.0:
        assert_array_equal(model.predict(X[:2]), [0, 1])
    if noise:
        assert_optimal(model, X[:2], np.array([0, 1]))


def test_one_example():
    model = accepted(DropoutSVR(), X[:1], TARGET[:1])
    assert_allclose(model.predict(X[:1]), TARGET[:1], atol=0.1 + 1e-6)


@each_estimator
@pytest.mark.parametrize("noise", [0.5, 0.0])
@pytest.mark.parametrize("storage", [np.array, sp.csr_array])
def test_many_more_features_than_examples(estimator, noise, storage):
    wide = np.random.default_rng(3).normal(size=(8, 3000))
    y = np.arange(8) % 2
    tol = 1e-10 if estimator is DropoutLogisticRegression else 1e-3
    model = accepted(estimator(C=0.01, noise=noise, tol=tol), storage(wide), y)
    if is_classifier(model):
        assert_array_equal(model.predict(wide), y)
    # w lies in the span of the examples when nothing is corrupted (the representer theorem).
    if noise == 0.0:
        inside = np.linalg.lstsq(wide.T, np.ravel(model.coef_), rcond=None)[0] @ wide
        assert_allclose(inside, np.ravel(model.coef_), atol=1e-7)


@each_estimator
@pytest.mark.parametrize("size", [1e150, 1e300])
def test_huge_queries(estimator, size):
    """A far-away example has a class or a number, or is refused by name; it is never a NaN."""
    model = estimator().fit(X, targets(estimator))
    far = np.sign(X) * size
    scores = model.decision_function if is_classifier(model) else model.predict
    try:
        answer = scores(far)
    except ValueError as error:
        answer = None
        message = str(error)
    if answer is None:
        assert "X holds values" in message
    else:
        assert not np.isnan(answer).any()
