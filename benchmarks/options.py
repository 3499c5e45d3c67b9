"""What the command line decides for all sections."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Options:
    """Fits per entry, fits where one takes seconds, and whether to run a tiny version."""

    repeats: int = 5
    slow_repeats: int = 3
    quick: bool = False

    def few(self, values: Sequence[T], count: int = 1) -> Sequence[T]:
        """All values, or the first of them in a quick run."""
        return values[:count] if self.quick else values

    def rows(self, count: int) -> int | None:
        """All rows (None), or so many of them in a quick run."""
        return count if self.quick else None

    @property
    def threads(self) -> list[int]:
        """One thread and, where there are two CPUs, two."""
        return [1, 2] if (os.cpu_count() or 1) > 1 else [1]
