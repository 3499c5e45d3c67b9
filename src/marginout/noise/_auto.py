"""How much dropout the data bear, without a look at y: `noise="auto"`.

A row has n_eff = (Σ_d x_d²)² / Σ_d x_d⁴ features that share its weight. Dropout of variance κ·x² gives a
score a variance of about κ/n_eff, relatively. The rate is that of

    κ = min(1, (median n_eff / SHARED)²) / mean_d (E x_d² / Var x_d)

because under dropout a feature far from zero has more noise than signal. All parts are sums over the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Features that share a row's weight from which on a rate of ½ is taken.
SHARED = 40.0
#: Bins of log2(n_eff) per octave, and how many there are: the median is known to 2 %.
PER_OCTAVE, BINS = 16, 1024
#: Columns whose mean and variance are looked at, at most, evenly spaced.
COLUMNS = 1024
#: A variance below this share of E x² is rounding: the column is constant.
CONSTANT = 1e-12
#: Entries that are worked on at a time.
CHUNK = 2**20


@dataclass(frozen=True)
class Extent:
    """Weighted sums over some rows: a histogram of n_eff; 1, x and x² of some columns."""

    counts: Array
    weight: float
    moments: Array

    @classmethod
    def of(cls, X: Any, weights: Array) -> Extent:
        """What the rows of X, dense or CSR, are like: O(entries)."""
        n, d = X.shape
        step = max(1, -(-d // COLUMNS))
        counts, moments = np.zeros(BINS), np.zeros((2, len(range(0, d, step))))
        rows = max(1, CHUNK * n // max(X.size, n))
        for i in range(0, n, rows):
            part, own = X[i : i + rows], np.asarray(weights[i : i + rows], dtype=np.float64)
            extents, some = _extents(part)
            bins = np.clip(np.floor(PER_OCTAVE * np.log2(extents)), 0, BINS - 1).astype(np.intp)
            counts += np.bincount(bins, own[some], BINS)
            moments += _moments(part, own, step)
        return cls(counts, float(np.sum(weights)), moments)

    def merge(self, other: Extent) -> Extent:
        return Extent(self.counts + other.counts, self.weight + other.weight, self.moments + other.moments)

    def rate(self) -> float:
        """The dropout rate, to two digits, so that the order of sums does not matter."""
        total = np.cumsum(self.counts)
        if not total[-1] > 0:
            return 0.0
        middle = int(np.searchsorted(total, 0.5 * total[-1]))
        n_eff = 2.0 ** ((middle + 0.5) / PER_OCTAVE) if middle else 1.0
        with np.errstate(invalid="ignore", over="ignore"):
            mean, square = self.moments / self.weight
            variance = square - mean * mean
            told = np.isfinite(square) & (variance > CONSTANT * square)
            distance = float(np.mean(square[told] / variance[told])) if told.any() else 1.0
        kappa = min(1.0, (n_eff / SHARED) ** 2) / distance
        return float(f"{kappa / (1.0 + kappa):.2g}")


def _extents(X: Any) -> tuple[Array, NDArray[np.bool_]]:
    """n_eff of the rows that are not zero, and which these are."""
    if sp.issparse(X):
        some, starts = np.diff(X.indptr) > 0, X.indptr[:-1][np.diff(X.indptr) > 0]
        if not some.any():
            return np.empty(0), some
        x = np.abs(X.data[: X.indptr[-1]], dtype=np.float64)
        lengths = np.diff(X.indptr)[some]
        peaks = np.maximum.reduceat(x, starts)
        x /= np.repeat(np.where(peaks > 0, peaks, 1.0), lengths)
        x *= x
        squares = np.add.reduceat(x, starts)
        fourth = np.add.reduceat(x * x, starts)
        some[some] = kept = peaks > 0
        return squares[kept] ** 2 / fourth[kept], some
    peaks = np.abs(X).max(axis=1, initial=0.0).astype(np.float64)
    some = peaks > 0
    x = X[some] / peaks[some, None]
    x *= x
    return x.sum(axis=1) ** 2 / np.einsum("nd,nd->n", x, x), some


def _moments(X: Any, weights: Array, step: int) -> Array:
    """Σ s·x and Σ s·x² of every step-th column."""
    with np.errstate(over="ignore"):
        if not sp.issparse(X):
            x = X[:, ::step].astype(np.float64)
            return np.array([weights @ x, weights @ (x * x)])
        x = X.data[: X.indptr[-1]].astype(np.float64)
        s, d = np.repeat(weights, np.diff(X.indptr)), X.shape[1]
        columns = X.indices[: X.indptr[-1]]
        return np.array([np.bincount(columns, s * x, d)[::step], np.bincount(columns, s * x * x, d)[::step]])
