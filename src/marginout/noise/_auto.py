"""How much dropout the data bear, without a look at y: `noise="auto"`.

Dropout of variance κ·x² is a penalty of κ times the features' own second moments. The penalty that d weights
bear, learnt from n examples, is about d/n (Hoerl, Kennard and Baldwin, 1975). The rate is that of

    κ = min(1, (d/n)^POWER) / mean_d (E x_d² / Var x_d)

with the features d that vary, because under dropout a feature far from zero has more noise than signal. All
parts are sums over the rows; n is the sum of their weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Power of d/n. Above 1, as noise that is independent for each feature drowns small differences of features
#: that go together. Of 1, 1.5 and 2 it is the best on the development half of `benchmarks/panel.py`.
POWER = 1.5
#: Columns whose mean and variance are looked at, at most, evenly spaced.
COLUMNS = 1024
#: A variance below this share of E x² is rounding: the column is constant.
CONSTANT = 1e-12
#: Entries that are worked on at a time.
CHUNK = 2**20


@dataclass(frozen=True)
class Extent:
    """Weighted sums over some rows of d columns: of 1; of x and x² of some columns."""

    d: int
    weight: float
    moments: Array

    @classmethod
    def of(cls, X: Any, weights: Array) -> Extent:
        """What the rows of X, dense or CSR, are like: O(entries)."""
        n, d = X.shape
        step = max(1, -(-d // COLUMNS))
        moments = np.zeros((2, len(range(0, d, step))))
        rows = max(1, CHUNK * n // max(X.size, n))
        for i in range(0, n, rows):
            moments += _moments(X[i : i + rows], np.asarray(weights[i : i + rows], dtype=np.float64), step)
        return cls(d, float(np.sum(weights)), moments)

    def merge(self, other: Extent) -> Extent:
        return Extent(self.d, self.weight + other.weight, self.moments + other.moments)

    def rate(self) -> float:
        """The dropout rate, to two digits, so that the order of sums does not matter."""
        with np.errstate(invalid="ignore", over="ignore"):
            mean, square = self.moments / self.weight
            variance = square - mean * mean
            told = np.isfinite(square) & (variance > CONSTANT * square)
            if not told.any():
                return 0.0
            distance = float(np.mean(square[told] / variance[told]))
        varying = self.d * float(np.mean(told))
        kappa = min(1.0, (varying / self.weight) ** POWER) / distance
        return float(f"{kappa / (1.0 + kappa):.2g}")


def _moments(X: Any, weights: Array, step: int) -> Array:
    """Σ s·x and Σ s·x² of every step-th column."""
    with np.errstate(over="ignore"):
        if not sp.issparse(X):
            x = X[:, ::step].astype(np.float64)
            return np.array([weights @ x, weights @ (x * x)])
        x = X.data[: X.indptr[-1]].astype(np.float64)
        s, d = np.repeat(weights, np.diff(X.indptr)), X.shape[1]
        columns = X.indices[: X.indptr[-1]]
        if step > 1:  # in O(entries): a stream asks for every row
            kept = columns % step == 0
            columns, s, x = columns[kept] // step, s[kept], x[kept]
        width = len(range(0, d, step))
        return np.array([np.bincount(columns, s * x, width), np.bincount(columns, s * x * x, width)])
