"""The same fit twice, and the same data stored in other ways."""

from __future__ import annotations

import hashlib
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import is_classifier
from threadpoolctl import threadpool_limits

from marginout.noise import Poisson
from tests.problems import (
    ESTIMATORS,
    SOLVERS,
    assert_same_attributes,
    assert_same_solution,
    fitted_attributes,
    problem,
    quiet,
    tight,
)


def large(estimator, sparse: bool):
    """Data that two threads do share: more than one block, and more than 200,000 multiplications."""
    rng = np.random.default_rng(6)
    if sparse:
        X = sp.csr_array(rng.random((4000, 500)) * (rng.random((4000, 500)) < 0.1))
    else:
        X = rng.normal(size=(4000, 100))
    f = X @ rng.normal(size=X.shape[1]) + rng.normal(size=4000)
    return X, (np.digitize(f, np.quantile(f, [0.3, 0.6])) if is_classifier(estimator()) else f)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "CSR"])
@pytest.mark.parametrize("noise", [0.5, 0.0], ids=["noise", "no noise"])
@pytest.mark.parametrize("threads", [1, 2])
def test_two_fits_are_bit_equal(estimator, sparse, noise, threads):
    X, y = large(estimator, sparse)
    with threadpool_limits(threads):
        first, second = (quiet(estimator(C=0.01, noise=noise, max_iter=20), X, y) for _ in range(2))
    assert_same_attributes(first, fitted_attributes(second))


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "CSR"])
def test_threads_change_the_rounding_only(estimator, sparse):
    X, y = large(estimator, sparse)
    fits = []
    for threads in 1, 2:
        with threadpool_limits(threads):
            fits.append(estimator(C=0.01).fit(X, y))
    assert_allclose(fits[0].coef_, fits[1].coef_, atol=1e-7)


def with_int64(X):
    X = X.copy()
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def inside(X):
    """A view into a larger array, with a stride in both directions."""
    room = np.full((2 * X.shape[0], 3 * X.shape[1]), np.nan, dtype=X.dtype)
    room[::2, 1::3] = X
    return room[::2, 1::3]


STORAGE = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": inside,
    "csr_matrix": sp.csr_matrix,
    "csr_array": sp.csr_array,
    "csr int64": lambda X: with_int64(sp.csr_array(X)),
    "csc_array": sp.csc_array,
    "coo_array": sp.coo_array,
}


def parts(X) -> list[np.ndarray]:
    """The arrays that X is made of."""
    names = "data", "indices", "indptr", "coords", "row", "col", "rows"
    return [np.asarray(getattr(X, n)) for n in names if hasattr(X, n)] if sp.issparse(X) else [X]


def fingerprint(X) -> list[tuple]:
    return [
        (a.dtype, a.shape, a.strides, a.flags.writeable, hashlib.sha256(np.ascontiguousarray(a)).hexdigest())
        for a in parts(X)
        if a.dtype != object
    ]


def sparse_problem(estimator, dtype):
    X, y = problem(estimator, n=80, d=12, n_classes=3)
    X = np.where(X > 1.0, X, 0.0)  # numbers that float32 holds exactly: the data are the same
    return np.round(X * 64) / 64, y


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("noise", [0.3, 0.0, Poisson()], ids=repr)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("storage", STORAGE)
def test_storage_does_not_matter(estimator, noise, dtype, storage):
    X, y = sparse_problem(estimator, dtype)
    reference = tight(estimator, noise).fit(X, y)
    stored = STORAGE[storage](X.astype(dtype))
    before = fingerprint(stored)
    model = tight(estimator, noise).fit(stored, y)
    # float32 data are read as they are and summed in float64, so the same numbers give the same fit.
    assert_same_solution(model, reference)
    assert model.coef_.dtype == np.float64
    assert_allclose(model.predict(stored), model.predict(X), rtol=1e-12)
    assert fingerprint(stored) == before


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("storage", ["C", "csr_array"])
def test_read_only_data(estimator, solver, storage):
    X, y = sparse_problem(estimator, np.float64)
    stored = STORAGE[storage](X)
    for part in parts(stored):
        part.flags.writeable = False
    y.flags.writeable = False
    weights = np.ones(len(y))
    weights.flags.writeable = False
    model = estimator(solver=solver).fit(stored, y, sample_weight=weights)
    assert_array_equal(model.coef_, estimator(solver=solver).fit(STORAGE[storage](X), y.copy()).coef_)


def peak_memory(function) -> int:
    """The most bytes that NumPy and Python held at a time, above what they held before."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module", params=["C", "F", "strided", "csr_array"])
def heavy(request) -> dict:
    """One large X for each precision: what a copy of it would cost is plain to see."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(1500, 1200))
    X = X * (rng.random(X.shape) < 0.5) if request.param == "csr_array" else X
    return {dtype: STORAGE[request.param](X.astype(dtype)) for dtype in (np.float32, np.float64)}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("noise", [0.5, 0.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_data_are_not_copied(estimator, noise, dtype, heavy):
    """Neither in one piece nor as X∘X: fit and predict need less than half of what X takes."""
    X = heavy[dtype]
    size = sum(part.nbytes for part in parts(X))
    y = np.arange(X.shape[0]) % 2 if is_classifier(estimator()) else np.arange(X.shape[0]) / X.shape[0]
    model = estimator(C=1e-3, noise=noise, max_iter=3)
    assert peak_memory(lambda: quiet(model, X, y)) < size / 2
    assert peak_memory(lambda: model.predict(X)) < size / 2
