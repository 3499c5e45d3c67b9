"""Rows by what they miss: rows of one pattern share all that is expensive."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marginout._core.interfaces import Array


class Patterns:
    """The distinct patterns of known values of some rows, and the rows of each.

    Parameters
    ----------
    known : (n, d) array of bool, whether each value is known
    """

    def __init__(self, known: NDArray[np.bool_]) -> None:
        packed = np.packbits(known, axis=1)
        keys = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
        names, first, index = np.unique(keys, return_index=True, return_inverse=True)
        self.names = [name.tobytes() for name in names]
        self.known = known[first]
        #: The number of every row's pattern, (n,).
        self.index: NDArray[np.intp] = index.reshape(-1)

    def __len__(self) -> int:
        return len(self.known)

    @cached_property
    def counts(self) -> Array:
        """How many rows each pattern has."""
        return np.bincount(self.index, minlength=len(self)).astype(np.float64)

    @cached_property
    def rows(self) -> list[NDArray[np.intp]]:
        """The rows of every pattern."""
        order = np.argsort(self.index, kind="stable")
        return np.split(order, np.cumsum(self.counts.astype(np.intp))[:-1])

    @cached_property
    def _selector(self) -> Any:
        n = len(self.index)
        return sp.csr_array((np.ones(n), (self.index, np.arange(n))), shape=(len(self), n))

    def sums(self, a: Array) -> Array:
        """Σ of the rows of `a`, (n, K), over every pattern's rows, (u, K)."""
        return np.asarray(self._selector @ a)
