"""Options of the command line that all sections share."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from reproduction.cells import Result, Settings, Store

T = TypeVar("T")

#: One thread and, where there are two CPUs, two.
THREADS = (1, 2) if (os.cpu_count() or 1) > 1 else (1,)


@dataclass(frozen=True)
class Options:
    """Fits per entry, fits where one takes seconds, whether to run a tiny version, thread counts.

    `timed` says whether times are written; not of a busy machine. `resume` is a folder in which long sections
    keep their finished cells.
    """

    repeats: int = 5
    slow_repeats: int = 3
    quick: bool = False
    threads: Sequence[int] = THREADS
    timed: bool = True
    resume: Path | None = None

    def cell(self, section: str, settings: Settings, measure: Callable[[], Result]) -> Result:
        """The result of a cell: measured, or that of an interrupted run of this revision in `resume`."""
        if self.resume is None:
            return measure()
        store, settings = Store(self.resume), {**settings, "quick": self.quick, "revision": revision()}
        (record,) = store.load(section, [settings])
        if record is None:
            start = time.perf_counter()
            record = {"result": measure()}
            store.save(section, settings, record["result"], time.perf_counter() - start)
        result: Result = record["result"]
        return result

    def few(self, values: Sequence[T], count: int = 1) -> Sequence[T]:
        """All values, or the first `count` of them in a quick run."""
        return values[:count] if self.quick else values

    def rows(self, count: int) -> int | None:
        """All rows (None), or `count` rows in a quick run."""
        return count if self.quick else None


@cache
def revision() -> str:
    """The revision of this checkout, and whether files were changed since."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40"]
    return subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True).stdout.strip()
