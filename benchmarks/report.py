"""Rows, aligned tables, CSV files, and the line that describes machine and versions."""

from __future__ import annotations

import csv
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import version
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from benchmarks.measure import Optima, Outcome, scores_on_test
from benchmarks.problems import Problem

#: Folder of the measured numbers.
RESULTS = Path(__file__).parent / "results"


@dataclass
class Row:
    """One line of the table and CSV file of a section. None is a number that the section does not measure.

    time_s            = median wall-clock time
    cpu_s             = median CPU time of the process
    ratio_to_peer     = time_s / time_s of the entry named `peer` in the same race
    cpu_ratio_to_peer = cpu_s / cpu_s of that entry
    suboptimality     = F/min F − 1; reference_gap bounds the relative error of min F
    *_mb              = memory in MB of 1e6 bytes
    reduction         = 1 − test error / test error of the peer, in [low, high] with 95 % confidence
    p_value           = p of McNemar's test
    balanced_error    = mean over the classes of the error on their rows
    difference        = peer's error − error, or R² − peer's R², in points, in [low, high]; `worst` of several
    """

    problem: str
    model: str
    C: float | None = None
    rate: float | None = None
    threads: int | None = None
    repeats: int | None = None
    time_s: float | None = None
    peer: str | None = None
    ratio_to_peer: float | None = None
    suboptimality: float | None = None
    reference_gap: float | None = None
    test_error: float | None = None
    test_error_sd: float | None = None
    r2: float | None = None
    n_iter: int | None = None
    converged: bool | None = None
    n: int | None = None
    d: int | None = None
    nnz: int | None = None
    input_mb: float | None = None
    peak_mb: float | None = None
    peak_over_input: float | None = None
    words: str | None = None
    cpu_s: float | None = None
    cpu_ratio_to_peer: float | None = None
    reduction: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    balanced_error: float | None = None
    difference: float | None = None
    worst: float | None = None


@dataclass
class Report:
    """Result of a section: rows and headline numbers."""

    rows: list[Row] = field(default_factory=list)
    summary: dict[str, float] = field(default_factory=dict)

    def without_times(self) -> Report:
        """The same, measured on a busy machine: errors alone."""
        for line in self.rows:
            line.time_s = line.cpu_s = line.ratio_to_peer = line.cpu_ratio_to_peer = None
        return self


COLUMNS = [column.name for column in fields(Row)]


def row(
    problem: Problem,
    outcome: Outcome,
    against: Outcome | None = None,
    optima: Optima | None = None,
    **more: Any,
) -> Row:
    """The row of an outcome, with ratios to `against` and precision if `optima` are given."""
    entry = outcome.entry
    line = Row(
        problem=problem.name,
        model=entry.peer.name,
        C=entry.C,
        rate=entry.rate if entry.peer.noisy else None,
        threads=entry.threads,
        repeats=len(outcome.seconds),
        time_s=outcome.time,
        cpu_s=outcome.cpu_time,
        words=problem.words,
        n_iter=outcome.n_iter,
        converged=outcome.converged,
        **more,
    )
    if against is not None and against is not outcome:
        line.peer = against.entry.peer.name
        line.ratio_to_peer = outcome.time / against.time
        line.cpu_ratio_to_peer = outcome.cpu_time / against.cpu_time
    if optima is not None:
        line.suboptimality, line.reference_gap = optima.precision(outcome) or (None, None)
    if problem.X_test is not None:
        scores = scores_on_test(problem, outcome)
        if problem.y.dtype.kind == "f":
            line.r2 = fmean(scores)
        else:
            line.test_error, line.test_error_sd = 1 - fmean(scores), pstdev(scores)
    return line


def geometric_mean(values: Iterable[float | None]) -> float:
    return float(np.exp(np.mean(np.log([value for value in values if value is not None]))))


def table(rows: Sequence[Row]) -> str:
    """Rows as aligned text, without empty columns."""
    used = [name for name in COLUMNS if any(getattr(line, name) is not None for line in rows)]
    cells = [used, *([_text(getattr(line, name)) for name in used] for line in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    texts = [index < 2 for index in range(len(used))]  # problem and model are left-aligned
    return "\n".join(
        "  ".join(
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(line, widths, texts, strict=True)
        ).rstrip()
        for line in cells
    )


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def show(report: Report) -> None:
    """Print the table and the headline numbers of a section."""
    print(table(report.rows))
    width = max(map(len, report.summary), default=0)
    for name, value in report.summary.items():
        print(f"  {name.ljust(width)}  {value:.4g}")
    print(flush=True)


def write(report: Report, section: str, folder: Path) -> None:
    """Write section.csv with the rows, and section_summary.csv with the headline numbers, if any."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{section}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(asdict(line) for line in report.rows)
    if report.summary:
        with (folder / f"{section}_summary.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("measure", "value"), *report.summary.items()])


def write_lines(lines: Sequence[dict[str, Any]], name: str, folder: Path) -> None:
    """Write name.csv from lines with any columns."""
    folder.mkdir(parents=True, exist_ok=True)
    columns = list(dict.fromkeys(column for line in lines for column in line))
    with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def read_lines(name: str, folder: Path) -> list[dict[str, str]]:
    """The lines of name.csv."""
    with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def load() -> float:
    """Load of the machine in the last minute; nan if it is not known."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


def environment(before: float | None = None) -> str:
    """Describe the machine, its load now and before a run, versions and thread pools."""
    packages = ("marginout", "scikit-learn", "numpy", "scipy")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    pools = sorted({f"{pool['internal_api']} {pool['num_threads']}" for pool in threadpool_info()})
    loads = f"load {load():.2f}" if before is None else f"load {before:.2f} before, {load():.2f} after"
    return (
        f"{_processor()}, {os.cpu_count()} CPUs, {loads}, Python {platform.python_version()}, {versions}; "
        f"threads available: {', '.join(pools)}; threads used: the column `threads`"
    )


def record(section: str, before: float, folder: Path) -> None:
    """Write the environment of a section to its line of environment.txt."""
    path = folder / "environment.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    lines = [line for line in lines if not line.startswith(f"{section}: ")]
    lines.append(f"{section}: {environment(before)}")
    path.write_text("\n".join(sorted(lines)) + "\n", encoding="utf-8")


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
