"""Cells, the units of work of an experiment, and the store of their results: one file per experiment.

A cell is a dict of settings that holds everything a measurement depends on: models, data, grids, seeds.
Its key is made of the settings. So a finished cell is found again, and a cell with a changed protocol is
another cell.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

Settings = dict[str, Any]
Result = dict[str, Any]

#: Packages whose versions may change a number.
PACKAGES = "marginout", "numpy", "scipy", "scikit-learn"


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    `cells(quick)` lists the settings of its cells, `measure(settings)` runs one cell, and
    `section(results)` writes the chapter of the report.
    """

    name: str
    where: str
    title: str
    cells: Callable[[bool], list[Settings]]
    measure: Callable[[Settings], Result]
    section: Callable[[Any], Any]


def key(settings: Settings) -> str:
    """The name of a cell: its short settings, readable, and a hash of all settings."""
    values = [str(value) for value in settings.values() if isinstance(value, (str, int, float))]
    words = re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(values))[:60].strip("-.")
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    return f"{words}-{digest[:10]}"


@dataclass(frozen=True)
class Store:
    """Records of finished cells: FOLDER/EXPERIMENT.jsonl, one line per cell, sorted by `key`."""

    folder: Path

    def path(self, experiment: str) -> Path:
        return self.folder / f"{experiment}.jsonl"

    def load(self, experiment: str, cells: Sequence[Settings]) -> list[Result | None]:
        """The record of each cell, None for a cell that has not been run.

        A last line that is not complete counts as not run, with a warning; the next `save` removes it.
        """
        records, complete = _read(self.path(experiment))
        if not complete:
            warnings.warn(
                f"{self.path(experiment)}: the last line is not complete; its cell counts as not run.",
                stacklevel=2,
            )
        return [records.get(key(settings)) for settings in cells]

    def save(self, experiment: str, settings: Settings, result: Result, seconds: float) -> None:
        """Add the record of a cell, in place of an earlier one.

        The file is replaced as a whole, so that it is complete at every moment, and sorted. The lock lets
        several processes add to one file; it ends with its process. Reading and writing the largest file
        (1,000 cells, 0.6 MB) takes about 40 ms. A cell of it takes 1.5 s.
        """
        record = {
            "experiment": experiment,
            "settings": settings,
            "result": result,
            "seconds": round(seconds, 3),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            **environment(),
        }
        path = self.path(experiment)
        self.folder.mkdir(parents=True, exist_ok=True)
        with _locked(self.folder):
            records, _ = _read(path)
            records[key(settings)] = record
            partial = path.with_suffix(".partial")
            with partial.open("w", encoding="utf-8") as file:
                file.writelines(json.dumps(records[each]) + "\n" for each in sorted(records))
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)


def _read(path: Path) -> tuple[dict[str, Result], bool]:
    """The records of a file by their keys, and whether its last line is complete."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return {}, True
    records = {}
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except ValueError:
            if number == len(lines):
                return records, False
            raise ValueError(
                f"{path}, line {number} is not JSON: remove it, and its cell is run again."
            ) from None
        records[key(record["settings"])] = record
    return records, True


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Wait until no other process writes in a folder. Windows has no fcntl: one process at a time there."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@cache
def environment() -> dict[str, Any]:
    """Versions and machine, stored in every record."""
    packages = {name: version(name) for name in PACKAGES}
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs"
    threads = os.environ.get("OMP_NUM_THREADS", "all")
    return {
        "versions": {"python": platform.python_version(), **packages},
        "machine": {"processor": machine, "system": platform.system(), "threads": threads},
    }


def grid(**axes: Sequence[Any]) -> list[Settings]:
    """All combinations of the values of the axes. The first axis changes slowest."""
    cells: list[Settings] = [{}]
    for name, values in axes.items():
        cells = [{**cell, name: value} for cell in cells for value in values]
    return cells
