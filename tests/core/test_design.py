"""Designs and compiled passes against plain NumPy on the dense means M and variances V."""

import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from marginout._core.design import storage as _storage
from marginout._core.design.storage import CsrDesign, DenseDesign, linear_scores, make_design
from marginout._kernels import _passes
from marginout.noise import Dropout, Gaussian, Poisson, Thinning
from tests.problems import make_noises

N, D = 23, 7
RATES = np.array([0.0, 0.1, 0.5, 0.9, 0.3, 0.0, 0.7])

NOISES = make_noises(RATES, 3 * RATES) | {"thinning": Thinning(0.3), "thinning-each": Thinning(RATES)}
INDICES = {
    "matrix-int32": (sp.csr_matrix, np.int32),
    "matrix-int64": (sp.csr_matrix, np.int64),
    "array-int32": (sp.csr_array, np.int32),
    "array-int64": (sp.csr_array, np.int64),
}
LAYOUTS = ["C", "F", "strided", "csr", *INDICES]


def data(dtype=np.float64, seed=0, n=N, d=D):
    """Non-negative data (for Poisson noise), half zeros, with an empty row and an empty column."""
    rng = np.random.default_rng(seed)
    X = rng.gamma(2.0, size=(n, d)) * rng.integers(0, 2, (n, d))
    X[3] = 0.0
    X[:, 2] = 0.0
    return X.astype(dtype)


def stored(X, layout):
    """X in one of the layouts, with the same values."""
    if layout == "strided":
        wide = np.full((2 * X.shape[0], 3 * X.shape[1]), np.nan, X.dtype)
        wide[::2, ::3] = X
        return wide[::2, ::3]
    if layout in ("C", "F"):
        return np.array(X, order=layout)
    container, index = INDICES.get(layout, (sp.csr_array, np.int32))
    S = container(X)
    S.indices, S.indptr = S.indices.astype(index), S.indptr.astype(index)
    return S


def problem(noise, K, dtype=np.float64, layout="C", seed=0):
    """A design, its means and variances as dense float64 matrices, and random weights."""
    X = data(dtype, seed)
    design = make_design(stored(X, layout), noise)
    dense = X.astype(np.float64)
    rng = np.random.default_rng(seed + 1)
    W, P = rng.normal(size=(D, K)), rng.normal(size=(D, K))
    return design, noise.mean(dense), noise.var(dense), W, P, rng


def close(got, wanted, rtol=1e-12):
    """Agreement up to rounding; results are float64 whatever X is."""
    assert np.asarray(got).dtype == np.float64
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol * max(1.0, np.abs(wanted).max()))


# ----------------------------------------------------------------------------------------- the verbs


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("K", [1, 3, 9])
def test_verbs_are_matrix_products(K, noise, dtype, layout):
    """line, moments, apply, pullback, diagonal, gram and kernel against products with M and V."""
    design, M, V, W, P, rng = problem(noise, K, dtype, layout)
    assert isinstance(design, DenseDesign if layout in ("C", "F", "strided") else CsrDesign)
    assert (design.n, design.d) == (N, D)
    for got, wanted in zip(design.line(W, P), (M @ P, V @ (W * P), V @ (P * P)), strict=True):
        close(got, wanted)
    for got, wanted in zip(design.moments(W), (M @ W, V @ (W * W)), strict=True):
        close(got, wanted)
    close(design.apply(P), M @ P)
    dm, dv = rng.normal(size=(N, K)), rng.normal(size=(N, K))
    close(design.pullback(W, dm, dv), M.T @ dm + 2 * W * (V.T @ dv))
    a = rng.random((N, K))
    for got, wanted in zip(design.diagonal(a), ((M * M).T @ a, V.T @ a), strict=True):
        close(got, wanted)
    close(design.gram(a[:, 0]), M.T @ (a[:, :1] * M) + np.diag(V.T @ a[:, 0]))
    close(design.kernel(P[:, 0] ** 2), M @ (P[:, :1] ** 2 * M.T))
    close(design.row_norms(), np.sum(data(dtype).astype(np.float64) ** 2, axis=1))
    assert design.noiseless == (not V.any())


@pytest.mark.parametrize("layout", ["C", "csr"])
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_pullback_is_the_adjoint_of_the_moments(noise, layout):
    """⟨dm, M P⟩ + ⟨dv, 2 V(W∘P)⟩ = ⟨pullback(W, dm, dv), P⟩, from the verbs alone."""
    design, _, _, W, P, rng = problem(noise, 4, layout=layout)
    dm, dv = rng.normal(size=(N, 4)), rng.normal(size=(N, 4))
    xp, vwp, _ = design.line(W, P)
    left = np.sum(dm * xp + 2 * dv * vwp, axis=0)
    np.testing.assert_allclose(np.sum(design.pullback(W, dm, dv) * P, axis=0), left, rtol=1e-11)


@pytest.mark.parametrize("layout", ["C", "csr"])
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_verbs_agree_with_one_another(noise, layout):
    """w·gram(a)·w = Σ a (m² + v); diagonal is gram's; the line gives the moments further on."""
    design, _, _, W, P, rng = problem(noise, 1, layout=layout)
    a = rng.random((N, 1))
    (m, v), (xp, vwp, vpp) = design.moments(W), design.line(W, P)
    np.testing.assert_allclose(W[:, 0] @ design.gram(a[:, 0]) @ W[:, 0], np.sum(a * (m * m + v)), rtol=1e-11)
    np.testing.assert_allclose(np.diag(design.gram(a[:, 0])), sum(design.diagonal(a))[:, 0], rtol=1e-12)
    further = design.moments(W + 0.3 * P)
    np.testing.assert_allclose(further[0], m + 0.3 * xp, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(further[1], v + 0.6 * vwp + 0.09 * vpp, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_inputs_may_be_read_only_and_are_left_alone(noise, layout):
    """Every verb on read-only X, W, P and derivatives; X itself is not copied."""
    X = stored(data(), layout)
    parts = [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]
    rng = np.random.default_rng(0)
    W, P, a = rng.random((D, 2)), rng.random((D, 2)), rng.random((N, 2))
    for array in (*parts, W, P, a):
        array.flags.writeable = False
    design = make_design(X, noise)
    assert design.X is X
    design.line(W, P), design.moments(W), design.apply(P), design.pullback(W, a, a), design.diagonal(a)
    design.gram(a[:, 0]), design.kernel(W[:, 0]), design.row_norms()


@pytest.mark.parametrize("layout", ["C", "csr"])
def test_arguments_in_any_memory_order(layout):
    """Fortran-ordered and strided weights and derivatives give what contiguous ones give."""
    design, _, _, W, P, rng = problem(Dropout(RATES), 4, layout=layout)
    dm, dv = rng.normal(size=(N, 4)), rng.normal(size=(N, 4))
    odd = lambda A: np.repeat(np.asfortranarray(A), 2, axis=0)[::2]  # noqa: E731
    for got, wanted in zip(design.line(odd(W), odd(P)), design.line(W, P), strict=True):
        close(got, wanted)
    close(design.pullback(odd(W), odd(dm), odd(dv)), design.pullback(W, dm, dv))
    close(design.apply(odd(P)), design.apply(P))
    close(design.diagonal(odd(dm))[0], design.diagonal(dm)[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_a_matrix_without_non_zeros(noise, container, dtype):
    """nnz = 0: means vanish, and what variance is left is that of additive noise."""
    design = make_design(container((N, D), dtype=dtype), noise)
    zero = np.zeros((N, D))
    M, V = noise.mean(zero), noise.var(zero)
    W, a = np.random.default_rng(0).normal(size=(D, 3)), np.random.default_rng(1).random((N, 3))
    close(design.moments(W)[0], M @ W)
    close(design.moments(W)[1], V @ (W * W))
    close(design.pullback(W, a, a), 2 * W * (V.T @ a))
    close(design.diagonal(a)[1], V.T @ a)
    close(design.gram(a[:, 0]), np.diag(V.T @ a[:, 0]))
    close(design.kernel(np.ones(D)), np.zeros((N, N)))
    close(design.row_norms(), np.zeros(N))


@pytest.mark.parametrize("part", ["data", "indices", "indptr"])
def test_csr_parts_may_be_strided(part):
    """SciPy takes views of other arrays for its three parts; so must the passes."""
    X = sp.csr_array(data())
    parts = {name: getattr(X, name) for name in ("data", "indices", "indptr")}
    parts[part] = np.repeat(parts[part], 2)[::2]
    view = sp.csr_array(tuple(parts.values()), X.shape)
    W = np.random.default_rng(0).normal(size=(D, 2))
    close(make_design(view, Dropout(0.5)).moments(W)[0], X @ W)
    close(make_design(view, Dropout(0.5)).row_norms(), np.sum(data() ** 2, axis=1))


def test_csr_indices_of_two_widths():
    """indptr may be wider than indices: both end up in one type, with the same results."""
    X = sp.csr_array(data())
    X.indptr = X.indptr.astype(np.int64)
    W = np.random.default_rng(0).normal(size=(D, 2))
    close(make_design(X, Dropout(0.5)).moments(W)[0], data() @ W)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1)])
@pytest.mark.parametrize("layout", ["C", "csr"])
def test_smallest_shapes(layout, shape):
    """One row, one column, one entry."""
    X = np.random.default_rng(0).normal(size=shape)
    design = make_design(stored(X, layout), Dropout(0.5))
    W, a = np.ones((shape[1], 1)), np.ones((shape[0], 1))
    close(design.moments(W)[0], X @ W)
    close(design.pullback(W, a, a), X.T @ a + 2 * W * ((X * X).T @ a))
    close(design.gram(a[:, 0]), X.T @ X + np.diag(np.sum(X * X, axis=0)))


def test_float32_is_summed_in_float64():
    """A sum of 1 + 1e-9·… that float32 would lose, dense and sparse, is kept; X stays float32."""
    X = np.full((2, 4096), 1e-4, np.float32)
    X[:, 0] = 1e4
    exact = X.astype(np.float64).sum(axis=1, keepdims=True)
    for layout in ("C", "csr"):
        design = make_design(stored(X, layout), Dropout(0.5))
        assert design.X.dtype == np.float32
        ones = np.ones((4096, 1))
        np.testing.assert_allclose(design.apply(ones), exact, rtol=1e-13)
        np.testing.assert_allclose(design.moments(ones)[0], exact, rtol=1e-13)
        pulled = design.pullback(ones, np.ones((2, 1)), np.zeros((2, 1)))
        np.testing.assert_allclose(pulled, 2 * X[:1].T.astype(np.float64), rtol=1e-13)


def test_float32_stays_float32_and_sparse_stays_sparse():
    """No verb makes a second copy of X: peak memory of the dense passes stays below one of float64."""
    import tracemalloc

    X = np.random.default_rng(0).random((4000, 300), dtype=np.float32)
    design = make_design(X, Dropout(0.5))
    W, a = np.ones((300, 1)), np.ones((4000, 1))
    tracemalloc.start()
    design.line(W, W), design.pullback(W, a, a), design.diagonal(a), design.apply(W), design.row_norms()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < X.nbytes


@pytest.mark.parametrize("layout", ["C", "F", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_linear_scores_are_a_product(layout, dtype):
    """X W in float64, over block boundaries."""
    X = data(dtype, n=900, d=400)
    W = np.random.default_rng(0).normal(size=(400, 3))
    close(linear_scores(stored(X, layout), W), X.astype(np.float64) @ W)


# ------------------------------------------------------------------------------------------- threads


@pytest.fixture
def eager(monkeypatch):
    """Threads for any work, and dense blocks small enough that there are several."""
    monkeypatch.setattr("marginout._core.threads.SERIAL_WORK", 0)
    monkeypatch.setattr(_storage, "BLOCK_ENTRIES", 50 * D)


def all_verbs(design, W, P, a):
    """What every verb returns, as one flat list."""
    parts = [*design.line(W, P), *design.moments(W), design.apply(P), design.pullback(W, a, a)]
    return [*parts, *design.diagonal(a), design.gram(a[:, 0]), design.kernel(W[:, 0]), design.row_norms()]


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("layout", ["C", "F", "csr"])
@pytest.mark.parametrize("noise", [Dropout(0.5), Dropout(RATES), Gaussian(0.5), Poisson()], ids=repr)
@pytest.mark.usefixtures("eager")
def test_threads_change_rounding_only(noise, layout, K):
    """One thread against two and three to 1e-12; every number of threads repeats its own bits."""
    X = stored(data(n=333), layout)
    rng = np.random.default_rng(2)
    W, P, a = rng.normal(size=(D, K)), rng.normal(size=(D, K)), rng.random((333, K))
    results = {}
    for threads in (1, 2, 3):
        with threadpool_limits(threads):
            assert _passes.max_threads() == threads
            design = make_design(X, noise)
            results[threads], again = all_verbs(design, W, P, a), all_verbs(design, W, P, a)
        for first, second in zip(results[threads], again, strict=True):
            np.testing.assert_array_equal(first, second)
    for threads in (2, 3):
        for one, many in zip(results[1], results[threads], strict=True):
            np.testing.assert_allclose(many, one, rtol=1e-12, atol=1e-12 * np.abs(one).max())


@pytest.mark.usefixtures("eager")
def test_more_threads_than_rows():
    """Ranges of rows may be empty; heavy and empty rows do not upset the sharing out."""
    X = np.zeros((4, D))
    X[1] = 1.0
    with threadpool_limits(4):
        design = make_design(sp.csr_array(X), Dropout(0.5))
        close(design.moments(np.ones((D, 1)))[0][:, 0], [0.0, D, 0.0, 0.0])
        close(design.pullback(np.zeros((D, 1)), np.ones((4, 1)), np.zeros((4, 1))), np.ones((D, 1)))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_large_dense_X_of_zeros_is_packed(order, dtype):
    """Mostly zeros and large: CSR inside, same numbers, float32 kept; otherwise dense."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((700, 300)) < 0.2, rng.normal(size=(700, 300)), 0.0)
    X[5] = 0.0
    X = np.asarray(X, dtype=dtype, order=order)
    before, W = X.copy(), rng.normal(size=(300, 3))
    design = make_design(X, Dropout(0.5))
    assert isinstance(design, CsrDesign)
    assert design.X.dtype == dtype
    for got, wanted in zip(design.line(W, W), DenseDesign(X, Dropout(0.5)).line(W, W), strict=True):
        close(got, wanted)
    np.testing.assert_array_equal(X, before)
    assert isinstance(make_design(X[:, :100], Dropout(0.5)), DenseDesign)  # small
    assert isinstance(make_design(X + dtype(1), Dropout(0.5)), DenseDesign)  # no zeros


def test_the_memory_of_dropped_scores_serves_again():
    design = make_design(sp.csr_array(data()), Dropout(0.5))
    W, P = np.random.default_rng(0).normal(size=(2, D, 2))
    kept, plain = design.reusing(), design.line(W, P)
    first = kept.line(W, P)
    place = first[0].ctypes.data
    np.testing.assert_array_equal(first, plain)
    last = first[2][3:]  # a part of one of them is enough to keep all
    del first
    second = kept.line(W, P)
    assert not any(np.shares_memory(last, part) for part in second)
    del last
    third = kept.line(-W, P)
    assert third[0].ctypes.data == place
    np.testing.assert_array_equal(second, plain)
    assert [part.shape for part in kept.scores(3, 5)] == [(N, 5)] * 3
    other = pickle.loads(pickle.dumps((kept, third)))  # as it goes to another worker
    np.testing.assert_array_equal(other[1], third)
    np.testing.assert_array_equal(other[0].line(W, P), plain)
    assert not any(np.shares_memory(part, known) for part in other[0].scores(3, 2) for known in third)


def test_threads_do_not_share_spare_memory():
    design = make_design(sp.csr_array(data()), Dropout(0.5)).reusing()

    def work(number):
        for turn in range(300):
            arrays = design.scores(2, 1 + number % 2)
            for array in arrays:
                array.fill(number)
            time.sleep(0 if turn % 10 else 1e-4)  # others have their turn
            if any((array != number).any() for array in arrays):
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
