"""Batches of corrupted examples, in single precision: x̃ of some rows, and its products with the hidden layer.

Features that are deleted one by one are drawn by the compiled kernels, straight from X: dense rows into a
buffer for BLAS, CSR rows into a smaller CSR matrix of the survivors. Every other noise draws its own copy of
the rows. Buffers are allocated once, and X is neither copied nor converted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marginout._core.validation import csr_arrays
from marginout._kernels import _stochastic
from marginout.noise import Noise

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]

#: Parts of which a rate of deletion is a whole number: random bits are drawn 16 at a time.
PARTS = 1 << 16


class Batches(ABC):
    """The rows of X, a batch at a time.

    Parameters
    ----------
    X : validated, dense or CSR
    noise : Noise
    size : int
        The most rows of a batch.
    threads : int
        Threads of the compiled kernels; no result depends on their number.
    """

    def __init__(self, X: Any, noise: Noise, size: int, threads: int) -> None:
        self.X, self.noise, self.threads = X, noise, threads
        self.n, self.d = X.shape
        self.threshold, self.factor = np.zeros(1, np.int32), np.ones(1, np.float32)
        if noise.deletes:
            self.threshold, self.factor = deletion(noise, self.d)

    @abstractmethod
    def load(self, rows: Rows, seed: int) -> None:
        """Draw x̃ of some rows."""

    @abstractmethod
    def forward(self, alpha: Floats, out: Floats) -> None:
        """out = X̃ α, (rows, K)."""

    @abstractmethod
    def backward(self, dA: Floats, G: Floats) -> None:
        """G = X̃ᵀ dA, (d, K)."""


def deletion(noise: Noise, d: int) -> tuple[NDArray[np.int32], Floats]:
    """Thresholds of a deletion and factors of survivors, one of each where all features have the same.

    A rate is rounded to a multiple of 1/PARTS. The factor takes the rounding back: means are exact.
    """
    rate, factor = noise.survivors(d)
    threshold = np.minimum(np.round(rate * PARTS), PARTS - 1).astype(np.int32)
    factor = factor * (1 - rate) / (1 - threshold / PARTS)
    if np.all(threshold == threshold[0]) and np.all(factor == factor[0]):
        threshold, factor = threshold[:1].copy(), factor[:1]
    return threshold, factor.astype(np.float32)


class DenseBatches(Batches):
    """Rows in a dense buffer, multiplied by BLAS. X may be CSR where the noise leaves no zeros."""

    def __init__(self, X: Any, noise: Noise, size: int, threads: int) -> None:
        super().__init__(X, noise, size, threads)
        self._buffer = np.empty((size, self.d), np.float32)

    def load(self, rows: Rows, seed: int) -> None:
        self._batch = self._buffer[: len(rows)]
        if self.noise.deletes:
            _stochastic.dense_batch(
                self.X, rows, self.threshold, self.factor, seed, self._batch, self.threads
            )
        else:
            part = self.X[rows]
            part = part.toarray() if sp.issparse(part) else part
            self._batch[...] = self.noise.corrupt(part, np.random.default_rng(seed))

    def forward(self, alpha: Floats, out: Floats) -> None:
        np.matmul(self._batch, alpha, out=out)

    def backward(self, dA: Floats, G: Floats) -> None:
        np.matmul(self._batch.T, dA, out=G)


class CsrBatches(Batches):
    """Rows as a CSR matrix of the survivors, beside its transpose."""

    def __init__(self, X: Any, noise: Noise, size: int, threads: int) -> None:
        super().__init__(X, noise, size, threads)
        self._arrays = csr_arrays(X)
        longest = np.sort(np.diff(X.indptr))[-size:]
        self._reserve(int(longest.sum()) + 1, size)

    def _reserve(self, entries: int, size: int) -> None:
        """Make room for so many entries, and for one more than the batch has rows."""
        self._values, self._turned = np.empty(entries, np.float32), np.empty(entries, np.float32)
        self._columns, self._rows = np.empty(entries, np.int32), np.empty(entries, np.int32)
        self._starts, self._ends = np.empty(size + 1, np.int32), np.empty(self.d + 1, np.int32)

    def load(self, rows: Rows, seed: int) -> None:
        arrays, threshold, factor = self._arrays, self.threshold, self.factor
        if not self.noise.deletes:
            drawn = self.noise.corrupt(self.X[rows], np.random.default_rng(seed))
            if drawn.nnz >= len(self._values):
                self._reserve(drawn.nnz + 1, len(self._starts) - 1)
            arrays, rows = csr_arrays(drawn), np.arange(len(rows))
        starts = self._starts[: len(rows) + 1]
        _stochastic.csr_batch(*arrays, rows, threshold, factor, seed, self._values, self._columns, starts)
        _stochastic.transpose(self._values, self._columns, starts, self._turned, self._rows, self._ends)
        self._batch = self._values, self._columns, starts

    def forward(self, alpha: Floats, out: Floats) -> None:
        _stochastic.product(*self._batch, alpha, out, self.threads)

    def backward(self, dA: Floats, G: Floats) -> None:
        _stochastic.product(self._turned, self._rows, self._ends, dA, G, self.threads)


def make_batches(X: Any, noise: Noise, size: int, threads: int) -> Batches:
    """The batches of X: CSR stays sparse unless the noise is added to every entry."""
    sparse = sp.issparse(X) and noise.moments(X.shape[1]).power > 0
    return (CsrBatches if sparse else DenseBatches)(X, noise, min(size, X.shape[0]), threads)
