"""Odd input to the linear estimators: the usual answer."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from tests.paper import DropoutSVR

from .inputs import LABELS, TARGET, D, N, X, accepted, each_classifier, each_estimator, targets

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
