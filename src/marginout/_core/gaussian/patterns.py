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
    def order(self) -> NDArray[np.intp]:
        """The rows, those of the first pattern first."""
        return np.argsort(self.index, kind="stable")

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """Where the rows of each pattern begin in that order, and where the last ones end."""
        return np.concatenate([[0], np.cumsum(self.counts.astype(np.intp))])

    def rows(self, some: slice) -> NDArray[np.intp]:
        """The rows of some patterns, in that order."""
        return self.order[self.starts[some.start] : self.starts[some.stop]]

    def alone(self, some: slice) -> tuple[NDArray[np.intp], NDArray[np.intp], list[tuple[int, slice]]]:
        """Which of some patterns have one row, where it is in `rows`, and the others with theirs."""
        starts = self.starts[some.start : some.stop + 1] - self.starts[some.start]
        one = np.diff(starts) == 1
        others = [(int(i), slice(int(starts[i]), int(starts[i + 1]))) for i in np.flatnonzero(~one)]
        return np.flatnonzero(one), starts[:-1][one], others

    @cached_property
    def _selector(self) -> Any:
        n = len(self.index)
        return sp.csr_array((np.ones(n), (self.index, np.arange(n))), shape=(len(self), n))

    def sums(self, a: Array) -> Array:
        """Σ of the rows of `a`, (n, K), over every pattern's rows, (u, K)."""
        return np.asarray(self._selector @ a)
