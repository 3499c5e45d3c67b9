"""Matrices that are like the majoriser's, I + Mᵀdiag(a)M + Var, but quickly solved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Preconditioner(ABC):
    """One matrix for each of K problems."""

    @abstractmethod
    def solve(self, G: Array) -> Array:
        """The solutions S of A_k s_k = g_k, (d, K)."""

    @abstractmethod
    def select(self, columns: NDArray[np.intp]) -> Self:
        """The same for some of the problems."""


class Diagonal(Preconditioner):
    """The diagonal, which independent noise makes heavy."""

    def __init__(self, D: Array) -> None:
        self._D = D

    def solve(self, G: Array) -> Array:
        return np.asarray(G / self._D)

    def select(self, columns: NDArray[np.intp]) -> Diagonal:
        return Diagonal(np.ascontiguousarray(self._D[:, columns]))


class Blocks(Preconditioner):
    """The blocks of groups of features, which group noise makes heavy.

    Without them, neighbouring pixels that vanish together take four times the iterations.
    """

    def __init__(self, members: list[NDArray[np.intp]], inverses: list[Array]) -> None:
        self._members, self._inverses = members, inverses  # of every group: (K, size, size)

    def solve(self, G: Array) -> Array:
        S = np.empty_like(G)
        for own, inverse in zip(self._members, self._inverses, strict=True):
            S[own] = np.matmul(inverse, G[own].T[:, :, None])[:, :, 0].T
        return S

    def select(self, columns: NDArray[np.intp]) -> Blocks:
        return Blocks(self._members, [inverse[columns] for inverse in self._inverses])
