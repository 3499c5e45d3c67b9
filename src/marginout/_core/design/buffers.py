"""Memory of arrays that nobody looks at any more, for the next ones of their shape.

Every evaluation on a block makes arrays with a number for each example. On Dask's workers the system takes
back whatever is freed (their nanny sets MALLOC_TRIM_THRESHOLD_), and a page that it gives out again is
cleared first: 3 µs for 4 kB, a fifth of a pass over 50 non-zeros a row.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from marginout._core.interfaces import Array


class BufferPool:
    """Arrays of one shape side by side; the memory comes back by itself when the last of them is dropped.

    Nobody else has it in between, in whatever thread. One lot of every size is kept, those of the last shape;
    elsewhere, as in the copy that is pickled, there is none.
    """

    def __init__(self) -> None:
        self._lots: dict[int, deque[Array]] = {}

    def __reduce__(self) -> tuple[type[BufferPool], tuple[()]]:
        return BufferPool, ()

    def empty(self, count: int, shape: tuple[int, ...]) -> tuple[Array, ...]:
        """Arrays with anything in them."""
        try:
            memory = self._kept(count).pop()  # in one step: of two threads one finds nothing
        except IndexError:
            memory = np.empty((count, *shape))
        if memory.shape != (count, *shape):
            memory = np.empty((count, *shape))
        return tuple(np.asarray(_Loan(memory, self._kept(count))))

    def _kept(self, count: int) -> deque[Array]:
        return self._lots.setdefault(count, deque(maxlen=1))


class _Loan:
    """What arrays look at: memory that goes back with the last of them."""

    def __init__(self, memory: Array, home: deque[Array]) -> None:
        self._memory, self._home = memory, home

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._memory.__array_interface__

    def __del__(self) -> None:
        self._home.append(self._memory)
