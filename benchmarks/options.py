"""Options of the command line that all sections share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

#: One thread and, where there are two CPUs, two.
THREADS = (1, 2) if (os.cpu_count() or 1) > 1 else (1,)


@dataclass(frozen=True)
class Options:
    """Fits per entry, fits where one takes seconds, whether to run a tiny version, thread counts.

    `timed` says whether times are written; not of a busy machine.
    """

    repeats: int = 5
    slow_repeats: int = 3
    quick: bool = False
    threads: Sequence[int] = THREADS
    timed: bool = True

    def few(self, values: Sequence[T], count: int = 1) -> Sequence[T]:
        """All values, or the first `count` of them in a quick run."""
        return values[:count] if self.quick else values

    def rows(self, count: int) -> int | None:
        """All rows (None), or `count` rows in a quick run."""
        return count if self.quick else None
