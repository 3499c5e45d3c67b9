"""Cells, the units of work of an experiment, and the folder of small files that keeps their results.

A cell is a dict of settings that says everything a measurement depends on: models, data, grids,
seeds. Its file is named after them, so a finished cell is found again, and one whose protocol has changed
is not mistaken for it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

Settings = dict[str, Any]
Result = dict[str, Any]

#: What a number may depend on besides the settings.
PACKAGES = "marginout", "numpy", "scipy", "scikit-learn"


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    `cells(quick)` are the settings of its cells, `measure(settings)` runs one of them, and
    `section(results)` writes the chapter of the report.
    """

    name: str
    where: str
    title: str
    cells: Callable[[bool], list[Settings]]
    measure: Callable[[Settings], Result]
    section: Callable[[Any], Any]


def key(settings: Settings) -> str:
    """The name of a cell's file: its short settings, readable, and a hash of all of them."""
    values = [str(value) for value in settings.values() if isinstance(value, (str, int, float))]
    words = re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(values))[:60].strip("-.")
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    return f"{words}-{digest[:10]}"


@dataclass(frozen=True)
class Store:
    """Results of finished cells: FOLDER/EXPERIMENT/KEY.json."""

    folder: Path

    def path(self, experiment: str, settings: Settings) -> Path:
        return self.folder / experiment / f"{key(settings)}.json"

    def load(self, experiment: str, settings: Settings) -> Result | None:
        """The whole record of a cell, None if it has not been run."""
        try:
            record = json.loads(self.path(experiment, settings).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return dict(record)

    def save(self, experiment: str, settings: Settings, result: Result, seconds: float) -> None:
        """Keep a result, all of it or nothing: a file appears under its name only when it is complete."""
        record = {
            "experiment": experiment,
            "settings": settings,
            "result": result,
            "seconds": round(seconds, 3),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            **environment(),
        }
        path = self.path(experiment, settings)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.partial")
        with partial.open("w", encoding="utf-8") as file:
            json.dump(record, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)

    def sweep(self, experiment: str) -> None:
        """Remove what killed runs left half-written, unless the process that writes it is alive."""
        for partial in (self.folder / experiment).glob("*.partial"):
            if not _alive(int(partial.suffixes[-2][1:])):
                partial.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@cache
def environment() -> dict[str, Any]:
    """Versions and machine, for every record."""
    packages = {name: version(name) for name in PACKAGES}
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs"
    threads = os.environ.get("OMP_NUM_THREADS", "all")
    return {
        "versions": {"python": platform.python_version(), **packages},
        "machine": {"processor": machine, "system": platform.system(), "threads": threads},
    }


def grid(**axes: Sequence[Any]) -> list[Settings]:
    """All combinations, the first axis slowest."""
    cells: list[Settings] = [{}]
    for name, values in axes.items():
        cells = [{**cell, name: value} for cell in cells for value in values]
    return cells
