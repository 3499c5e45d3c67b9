"""How X is stored, and the few questions that training asks of it.

For a batch of K problems that share X, with weights W of shape (d, K) and entrywise
means M = X·diag(scale) and variances V = coefficient·M**power of the corrupted data:

    line(W, P)            M P, V (W∘P), V (P∘P)             what a step along P does
    pullback(W, dm, dv)   Mᵀdm + 2 W∘(Vᵀdv)                 example derivatives to weights
    diagonal(a)           (M∘M)ᵀa, Vᵀa                      for the preconditioner
    gram(a)               Mᵀdiag(a)M + diag(Vᵀa)            d×d, one problem
    hessian(W, …)         second derivatives in w           d×d, all problems; see `hessians`
    kernel(scale)         M diag(scale) Mᵀ                  n×n, one problem

`groups` answers them for features that are corrupted together, whose V is not diagonal.

V is never stored, sparse X is never made dense, float32 data stay float32, and every
sum is taken in float64. Additive noise (power 0) has the same variance in every row and
is added in O(d), outside of the pass over X.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marginout._core.design.buffers import BufferPool
from marginout._core.design.hessians import Hessians
from marginout._core.interfaces import Array, Columns
from marginout._core.threads import SERIAL_WORK, one_blas_thread, worker_threads
from marginout._core.validation import csr_arrays
from marginout._kernels import _dual, _passes
from marginout.noise import Noise

#: Entries of a dense block: 128 rows of 784 float64 values, small enough for a core's cache.
BLOCK_ENTRIES = 100_000
#: A feature lies far from zero if its squared mean is so many times its variance, noise included: never under
#: dropout at a rate of 4 % or more.
FAR = 25.0
#: Rows that show it, and how many of them are copied at a time.
SAMPLE, AT_ONCE = 64, 16

#: What rounding may leave of a sum of squares where its centre is taken away.
CANCELLED = 1e-14
#: Features for every feature that some examples have, from which on the others are left out of their design.
NARROW = 2
#: A dense X with at most this share of non-zeros is stored as CSR.
MOSTLY_ZEROS = 0.25


def linear_scores(X: Any, W: Array) -> Array:
    """X W in float64, (n, K), without a float64 copy of a float32 X."""
    if X.dtype == np.float64:
        return np.asarray(X @ W)
    entries = X.nnz if sp.issparse(X) else X.size
    rows = max(16, BLOCK_ENTRIES * X.shape[0] // max(entries, 1))
    starts = range(0, X.shape[0], rows)
    return np.concatenate([np.asarray(X[i : i + rows] @ W) for i in starts])


class Design(Hessians):
    """X together with the moments of its corruption."""

    #: How X is stored, "csr" or "dense"; it says what `rows` holds.
    storage: str

    def __init__(self, X: Any, noise: Noise) -> None:
        self.X, self.noise = X, noise
        self.n, self.d = X.shape
        self.nnz = X.nnz if sp.issparse(X) else self.n * self.d
        self.scale, self.coefficient, self.power, self.groups = noise.moments(self.d)
        self.noiseless = not self.coefficient.any()
        #: One factor on V for every output, (K,), or 1 for all.
        self.factors: Array | float = 1.0
        self._serial = False
        self._pool: BufferPool | None = None
        self._shrinks = bool(np.any(self.scale != 1.0))
        # The coefficient as a pass sees it: additive noise is none of its business.
        self._kappa = self.coefficient if self.power else np.zeros(self.d)

    def arrays(self) -> list[NDArray[Any]]:
        """What X is made of, in the form that it has here."""
        X = self.X
        if not sp.issparse(X):
            return [X]
        X = sp.csr_array((X.data, X.indices, X.indptr), shape=X.shape)  # with the indices that it will have
        return [X.data, X.indices, X.indptr]

    def under(self, noise: Noise) -> Design:
        """The design under a noise, if this one was made without any; else itself."""
        if not self.noiseless or not noise.moments(self.d).coefficient.any():
            return self
        design = make_design(self.X, noise)
        design._sample = self._sample
        return design

    def with_factors(self, factors: Array) -> Self:
        """The same design for outputs that each have a noise of their own: V times a factor."""
        design = copy(self)
        design.factors = factors
        return design

    def select(self, columns: Columns) -> Self:
        return self if np.isscalar(self.factors) else self.with_factors(np.asarray(self.factors)[columns])

    def serial(self) -> Self:
        design = copy(self)
        design._serial = True
        return design

    def reusing(self) -> Self:
        """The same design with a pool of buffers for scores."""
        design = copy(self)
        design._pool = BufferPool()
        return design

    def take(self, rows: slice | NDArray[np.intp]) -> Self:
        """The same design for a copy of some of the examples."""
        design = type(self)(self.X[rows], self.noise)
        design.factors, design._serial = self.factors, self._serial
        return design

    def narrow(self) -> tuple[Self, NDArray[np.intp] | slice]:
        """The same design without features that no example has, and which features are left."""
        return self, slice(None)

    def scores(self, count: int, K: int) -> tuple[Array, ...]:
        if self._pool is not None:
            return self._pool.empty(count, (self.n, K))
        return super().scores(count, K)

    def threads(self, work: int) -> int:
        return 1 if self._serial else worker_threads(work)

    def apply(self, P: Array) -> Array:
        return linear_scores(self.X, self._scaled(P))

    def line(self, W: Array, P: Array) -> tuple[Array, Array, Array]:
        xp, vwp, vpp = self._line(*map(np.ascontiguousarray, (self._scaled(W), self._scaled(P))))
        if self.power == 0:
            vwp += np.einsum("d,dk,dk->k", self.coefficient, W, P)
            vpp += np.einsum("d,dk,dk->k", self.coefficient, P, P)
        if not np.isscalar(self.factors):
            vwp *= self.factors
            vpp *= self.factors
        return xp, vwp, vpp

    def pullback(self, W: Array, dm: Array, dv: Array) -> Array:
        if not np.isscalar(self.factors):
            dv = self.factors * dv
        G = self._scaled(self._pullback(self._scaled(W), dm, dv))
        if self.power == 0:
            G += 2 * self.coefficient[:, None] * W * dv.sum(axis=0)
        return G

    def diagonal(self, a: Array) -> tuple[Array, Array]:
        squares = self._squares(a) * (self.scale**2)[:, None]
        if self.power == 2:
            variance = self.coefficient[:, None] * squares
        elif self.power == 1:
            zero = np.zeros((self.d, a.shape[1]))
            variance = self.coefficient[:, None] * self._pullback(zero, a, np.zeros_like(a))
        else:
            variance = self.coefficient[:, None] * a.sum(axis=0)
        return squares, self.factors * variance

    def far(self) -> bool:
        """Whether any feature lies far from zero, by a sample of rows.

        Noise of variance c·x² with c >= 1/FAR rules it out, as E x² >= mean².
        """
        factor = np.min(self.factors)
        if self.power == 2 and FAR * factor * self.coefficient.min() >= 1:
            return False
        mean, square = (x * self.scale**p for p, x in enumerate(self._sample, 1))
        noise = factor * self.coefficient * (1.0, mean, square)[self.power]
        return bool(np.any(mean * mean > FAR * (square - mean * mean + noise)))

    @cached_property
    def _sample(self) -> tuple[Array, Array]:
        """Mean and mean square of every feature of X, (d,) each, in a sample of rows."""
        rows = np.arange(self.n)
        if self.n > SAMPLE:
            rows = np.linspace(0, self.n - 1, SAMPLE).astype(np.intp)
        powers = np.zeros((2, self.d))
        for some in np.array_split(rows, -(-len(rows) // AT_ONCE)):
            part = self.X[some]
            if sp.issparse(part):
                x = part.data.astype(np.float64)
                sums = [np.bincount(part.indices, x**p, self.d) for p in (1, 2)]
            else:
                x = part.astype(np.float64)
                sums = [x.sum(axis=0), np.einsum("nd,nd->d", x, x)]
            powers += np.array(sums) / len(rows)
        return powers[0], powers[1]

    def table(self) -> tuple[Any, ...] | None:
        if self.grouping is not None:
            return None
        constant = self.coefficient - self._kappa
        return self.X, self.scale, self._kappa, constant, self.power, self.factors

    @property
    @abstractmethod
    def rows(self) -> tuple[Any, ...]:
        """X as the row-wise kernels take it: (data, indices, indptr) or (X,)."""

    @abstractmethod
    def _line(self, W: Array, P: Array) -> tuple[Array, Array, Array]: ...

    @abstractmethod
    def _pullback(self, W: Array, dm: Array, dv: Array) -> Array: ...

    @abstractmethod
    def _squares(self, a: Array) -> Array: ...

    def _columns(self, part: NDArray[Any], features: Columns) -> tuple[Any, Any, Any, Array, int]:
        """The answer to `columns` of a part of X that has all entries."""
        data = np.asarray(part * self.scale[features], np.float64).ravel(order="F")
        index = np.arange(self.n, dtype=np.int64)
        edges = self.n * np.arange(len(features) + 1)
        spans = np.stack([edges[:-1], edges[1:]])
        return data, np.tile(index, len(features)), spans, *self._noise_of(features)

    def _noise_of(self, features: Columns) -> tuple[Array, int]:
        """κ of some features, for a design of one output, and the power."""
        return self.coefficient[features] * np.ravel(self.factors), self.power

    def _scaled(self, W: Array) -> Array:
        return self.scale[:, None] * W if self._shrinks else W

    def _add_variance(self, gram: Array, a: Array) -> Array:
        """The Gram matrix of X, in place, as that of M with the variance added."""
        gram *= self.scale[:, None] * self.scale
        np.einsum("dd->d", gram)[...] += self.diagonal(a[:, None])[1][:, 0]
        return gram


class CsrDesign(Design):
    """Rows of non-zeros, passed over by the compiled kernels.

    A few problems at a time: more would share no more work, and a pass jumps
    about in (d, K) arrays that had better stay in a core's cache.
    """

    batch = 8
    storage = "csr"

    def __init__(self, X: Any, noise: Noise) -> None:
        super().__init__(X, noise)
        self._uniform = bool(np.all(self._kappa == self._kappa[0]))
        self._csr = csr_arrays(X)

    def _line(self, W: Array, P: Array) -> tuple[Array, Array, Array]:
        K = W.shape[1]
        xp, vwp, vpp = self.scores(3, K)
        threads = self.threads(self.nnz * K)
        _passes.csr_line(*self._csr, self._kappa, self._uniform, self.power == 2, W, P, xp, vwp, vpp, threads)
        return xp, vwp, vpp

    def _pullback(self, W: Array, dm: Array, dv: Array) -> Array:
        parts = self._parts(W.shape[1])
        U, dm, dv = map(np.ascontiguousarray, (2 * self._kappa[:, None] * W, dm, dv))
        _passes.csr_pullback(*self._csr, self.power == 2, U, dm, dv, parts, len(parts))
        return self._sum(parts)

    def _squares(self, a: Array) -> Array:
        parts = self._parts(a.shape[1])
        _passes.csr_squares(*self._csr, np.ascontiguousarray(a), parts, len(parts))
        return self._sum(parts)

    def narrow(self) -> tuple[Self, NDArray[np.intp] | slice]:
        used = np.unique(self.X.indices)
        if self.power == 0 or self.groups is not None or NARROW * len(used) > self.d:
            return self, slice(None)
        place = np.zeros(self.d, self.X.indices.dtype)
        place[used] = np.arange(len(used))
        design = copy(self)
        data, _, indptr = self._csr
        design.X = sp.csr_array((data[: self.nnz], place[self.X.indices], indptr), (self.n, len(used)))
        design._csr, design.d = csr_arrays(design.X), len(used)
        design.scale, design.coefficient = self.scale[used], self.coefficient[used]
        design._kappa = self._kappa[used]
        return design, used

    @property
    def rows(self) -> tuple[Any, ...]:
        return self._csr

    @cached_property
    def _csc(self) -> Any:
        return self.X.tocsc()

    @cached_property
    def _means(self) -> Array:
        """The entries of M, column by column."""
        data = np.asarray(self._csc.data, dtype=np.float64)
        return data * np.repeat(self.scale, np.diff(self._csc.indptr)) if self._shrinks else data

    def columns(self, features: Columns) -> tuple[Any, Any, Any, Array, int]:
        csc = self._csc
        if self.power == 0:  # every entry has a variance
            return self._columns(csc[:, features].toarray(), features)
        spans = np.stack([csc.indptr[features], csc.indptr[features + 1]]).astype(csc.indices.dtype)
        return self._means, csc.indices, spans, *self._noise_of(features)

    def sweep(self, *state: Any) -> Any:
        return _dual.csr_sweep(*self._csr, *state)

    def uniform_rows(self) -> tuple[Any, ...] | None:
        packed = self._csr[1].dtype == np.int32 and not self._shrinks
        if not packed or self.power != 2 or not self._uniform or self.grouping is not None:
            return None
        return *self._csr, self.coefficient[0] * np.atleast_1d(self.factors)

    def row_norms(self) -> Array:
        ones = np.ones((self.d, 1))
        mean, cross, square = (np.empty((self.n, 1)) for _ in range(3))
        threads = self.threads(self.nnz)
        _passes.csr_line(*self._csr, ones[:, 0], True, True, ones, ones, mean, cross, square, threads)
        return square[:, 0]

    def gram(self, a: Array) -> Array:
        weighted = self.X.multiply(a[:, None]).tocsr()
        return self._add_variance((self.X.T @ weighted).toarray().astype(np.float64, copy=False), a)

    def kernel(self, weights: Array) -> Array:
        weighted = self.X.multiply(weights * self.scale**2).tocsr()
        return np.asarray((weighted @ self.X.T).toarray(), dtype=np.float64)

    def _parts(self, K: int) -> Array:
        # One (d, K) sum per thread; no more of them than rows of X fill, or adding them up is the work.
        threads = min(self.threads(self.nnz * K), max(1, self.nnz // max(1, 2 * self.d)))
        return np.zeros((threads, self.d, K))

    @staticmethod
    def _sum(parts: Array) -> Array:
        total: Array = parts[0]
        for part in parts[1:]:
            total += part
        return total


class DenseDesign(Design):
    """Blocks of rows, copied to float64 one at a time and multiplied by BLAS."""

    storage = "dense"

    def __init__(self, X: Any, noise: Noise) -> None:
        super().__init__(X, noise)
        rows = min(self.n, max(16, BLOCK_ENTRIES // self.d))
        self._blocks = [slice(i, min(i + rows, self.n)) for i in range(0, self.n, rows)]

    def _line(self, W: Array, P: Array) -> tuple[Array, Array, Array]:
        K = W.shape[1]
        xp, both = np.empty((self.n, K)), np.empty((self.n, 2 * K))
        kappa = self._kappa[:, None]
        products = np.hstack([kappa * W * P, kappa * P * P])

        def work(rows: slice, block: Array) -> None:
            np.matmul(block, P, out=xp[rows])
            np.matmul(self._powered(block), products, out=both[rows])

        self._each_block(work, K)
        return xp, np.ascontiguousarray(both[:, :K]), np.ascontiguousarray(both[:, K:])

    def _pullback(self, W: Array, dm: Array, dv: Array) -> Array:
        def work(rows: slice, block: Array) -> Array:
            mean = block.T @ dm[rows]
            return np.concatenate([mean, self._powered(block).T @ dv[rows]])

        total = self._each_block(work, W.shape[1])
        assert total is not None
        return np.asarray(total[: self.d] + 2 * self._kappa[:, None] * W * total[self.d :])

    def _squares(self, a: Array) -> Array:
        def work(rows: slice, block: Array) -> Array:
            np.multiply(block, block, out=block)
            return np.asarray(block.T @ a[rows])

        total = self._each_block(work, a.shape[1])
        assert total is not None
        return total

    @property
    def rows(self) -> tuple[Any, ...]:
        return (self.X,)

    def columns(self, features: Columns) -> tuple[Any, Any, Any, Array, int]:
        return self._columns(self.X[:, features], features)

    def sweep(self, *state: Any) -> Any:
        return _dual.dense_sweep(self.X, *state)

    def row_norms(self) -> Array:
        out = np.empty(self.n)

        def work(rows: slice, block: Array) -> None:
            out[rows] = np.einsum("nd,nd->n", block, block)

        self._each_block(work, 1)
        return out

    def gram(self, a: Array) -> Array:
        def work(rows: slice, block: Array) -> Array:
            return np.asarray(block.T @ (a[rows, None] * block))

        total = self._each_block(work, self.d)
        assert total is not None
        return self._add_variance(total, a)

    def kernel(self, weights: Array) -> Array:
        out = np.empty((self.n, self.n))
        X = self.X.astype(np.float64, copy=False)  # n is small where this is asked

        def work(rows: slice, block: Array) -> None:
            np.matmul(block * (weights * self.scale**2), X.T, out=out[rows])

        self._each_block(work, self.n)
        return out

    def _powered(self, block: Array) -> Array:
        """The block to the noise's power; the block itself is spent."""
        return np.multiply(block, block, out=block) if self.power == 2 else block

    def _each_block(self, work: Callable[[slice, Array], Array | None], K: int) -> Array | None:
        """Run `work(rows, block)` over all blocks, and add up what it returns.

        Every thread takes fixed blocks, and BLAS is kept to one thread inside of each.
        """
        threads = min(self.threads(self.nnz * K), len(self._blocks))

        def share(first: int) -> Array | None:
            buffer = np.empty((self._blocks[0].stop, self.d))
            total = None
            for rows in self._blocks[first::threads]:
                block = buffer[: rows.stop - rows.start]
                np.copyto(block, self.X[rows])
                result = work(rows, block)
                if total is None:
                    total = result
                elif result is not None:
                    total += result
            return total

        if threads == 1:
            return share(0)
        with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
            first, *others = pool.map(share, range(threads))
        for other in others:
            if first is not None and other is not None:
                first += other
        return first


#: By whether features are corrupted in groups, and whether X is CSR; `groups` adds its own.
DESIGNS: dict[tuple[bool, bool], type[Design]] = {(False, False): DenseDesign, (False, True): CsrDesign}


def make_design(X: Any, noise: Noise) -> Design:
    """The design for validated X: CSR, or dense in any memory order.

    A large dense X that is mostly zeros, such as images of strokes, is packed into CSR first:
    a fit then passes over the non-zeros alone, which take at most half of X's bytes.
    """
    if not sp.issparse(X) and X.size > SERIAL_WORK and np.count_nonzero(X) <= MOSTLY_ZEROS * X.size:
        X = _packed(X)
    return design_of(X, noise)


def design_of(X: Any, noise: Noise) -> Design:
    """The design for X as it is stored."""
    together = noise.moments(X.shape[1]).groups is not None
    return DESIGNS[together, bool(sp.issparse(X))](X, noise)


def _packed(X: NDArray[Any]) -> Any:
    """A dense X as CSR, block by block: SciPy's own way takes several times the memory."""
    rows = np.count_nonzero(X, axis=1)
    indptr = np.concatenate([[0], np.cumsum(rows)])
    index = np.int32 if indptr[-1] <= np.iinfo(np.int32).max else np.int64
    data, indices = np.empty(indptr[-1], X.dtype), np.empty(indptr[-1], index)
    size = max(1, BLOCK_ENTRIES // X.shape[1])
    for i in range(0, len(X), size):
        block = X[i : i + size]
        here = slice(indptr[i], indptr[min(i + size, len(X))])
        where = np.nonzero(block)
        data[here], indices[here] = block[where], where[1]
    return sp.csr_array((data, indices, indptr.astype(index)), shape=X.shape)


def centred(squares: Array, mean: Array, total: Array) -> Array:
    """(M∘M)ᵀa − Σa·μ∘μ, with total = Σa: the deviations' squares, as far as rounding leaves them."""
    return np.maximum(squares - total * mean * mean, CANCELLED * squares)
