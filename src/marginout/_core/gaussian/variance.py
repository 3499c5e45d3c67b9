r"""The variance that missing values give to scores.

With t = L_Mᵀ w_M of a pattern, in units of the features' scales,

    v = w_Mᵀ S_M w_M = tᵀ G t + Σ_M D w²          ∂v/∂w_M = 2 (L_M G t + D_M w_M)

so that a pass costs r products for each pattern and missing feature, and the d×d matrices S are never made.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from marginout._core.gaussian.law import KEPT, Law
from marginout._core.gaussian.patterns import Patterns
from marginout._core.interfaces import Array

#: Rows whose scores' variances are computed at a time.
ROWS = 4096


class HiddenVariance:
    """w_Mᵀ S_M w_M of u patterns, (u, K), and what training asks of it."""

    def __init__(self, law: Law, patterns: Patterns) -> None:
        self.law, self.missing = law, ~patterns.known
        self._patterns = patterns
        self._keeps = len(patterns) * law.rank**2 <= KEPT
        self._kept: list[tuple[slice, Array]] | None = None

    def forgetful(self) -> Self:
        """The same for one of many blocks: what is computed again takes no memory."""
        other = copy(self)
        other._keeps, other._kept = False, None
        return other

    def _parts(self) -> Iterator[tuple[slice, Array]]:
        """G of all patterns; computed again in every pass where there are too many to keep."""
        if self._keeps and self._kept is None:
            self._kept = list(self.law.parts(self._patterns))
        return self.law.parts(self._patterns) if self._kept is None else iter(self._kept)

    def _pulls(self, some: slice, W: Array) -> Array:
        """t of some patterns for weights in units of the scale, (u, r, K)."""
        d, K = W.shape
        products = (self.law.loadings[:, :, None] * W[:, None]).reshape(d, -1)
        return np.asarray(self.missing[some].astype(np.float64) @ products).reshape(-1, self.law.rank, K)

    def forward(self, W: Array, P: Array) -> Array:
        """w_Mᵀ S_M p_M, (u, K)."""
        W, P = self.law.scale[:, None] * W, self.law.scale[:, None] * P
        out = self.missing @ (self.law.noise[:, None] * W * P)
        for some, G in self._parts():
            first = self._pulls(some, W)
            second = first if P is W else self._pulls(some, P)
            out[some] += np.einsum("urk,urk->uk", first, np.matmul(G, second))
        return np.asarray(out)

    def covariances(self, W: Array) -> Array:
        """W_Mᵀ S_M W_M of every pattern, (u, K, K)."""
        W = self.law.scale[:, None] * W
        d, K = W.shape
        pairs = (self.law.noise[:, None, None] * W[:, :, None] * W[:, None]).reshape(d, -1)
        out = (self.missing.astype(np.float64) @ pairs).reshape(-1, K, K)
        for some, G in self._parts():
            t = self._pulls(some, W)
            out[some] += np.matmul(t.transpose(0, 2, 1), np.matmul(G, t))
        return np.asarray(out)

    def backward(self, W: Array, a: Array) -> Array:
        """∂/∂W of Σ_u a_u w_Mᵀ S_M w_M, (d, K)."""
        W = self.law.scale[:, None] * W
        out = W * (self.missing.T @ a) * self.law.noise[:, None]
        for some, G in self._parts():
            pulled = np.matmul(G, self._pulls(some, W)) * a[some, None]
            back = self.missing[some].T.astype(np.float64) @ pulled.reshape(len(pulled), -1)
            out += np.einsum("drk,dr->dk", back.reshape(*self.law.loadings.shape, -1), self.law.loadings)
        return np.asarray(2.0 * self.law.scale[:, None] * out)

    def diagonal(self, a: Array) -> Array:
        """Σ_u a_u diag(S_M), (d, K)."""
        out = np.zeros((self.missing.shape[1], a.shape[1]))
        for some, G in self._parts():
            out += (self.law.spread(G) * self.missing[some]).T @ a[some]
        return self.law.scale[:, None] ** 2 * out

    def gram(self, a: Array) -> Array:
        """Σ_u a_u S_M, (d, d)."""
        scale = self.law.scale
        total = np.zeros((len(scale), len(scale)))
        for some, G in self._parts():
            total += self.law.summed_covariance(self.missing[some], G, a[some])
        return np.asarray(scale[:, None] * total * scale)


def score_covariances(law: Law, X: NDArray[Any], W: Array) -> Array:
    """The covariances of the scores X W by what X misses, (n, K, K)."""
    patterns = Patterns(~np.isnan(X))
    return np.asarray(HiddenVariance(law, patterns).forgetful().covariances(W)[patterns.index])


def score_variances(law: Law, X: NDArray[Any], W: Array) -> Array:
    """The variance of the scores X W by what X misses, (n, K)."""
    missing = np.isnan(X)
    out = np.zeros((len(X), W.shape[1]))
    rows = np.flatnonzero(missing.any(axis=1))
    for some in np.array_split(rows, max(1, len(rows) // ROWS)) if len(rows) else []:
        patterns = Patterns(~missing[some])
        out[some] = HiddenVariance(law, patterns).forward(W, W)[patterns.index]
    return out
