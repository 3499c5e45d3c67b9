"""Peak memory of a fit on top of its data, each in a new process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks import problems
from benchmarks.measure import Entry, peak_memory
from benchmarks.options import Options
from benchmarks.peers import LINEAR_SVC, LR, SVC
from benchmarks.problems import DataMissingError, Problem
from benchmarks.report import Report, Row


def run(options: Options) -> Report:
    """CSR: 200,000 x 50,000 with 100 entries per row. Dense float32: MNIST, and a generated problem."""
    report = Report()
    sizes = ((2000, 1000, 20), (2000, 100)) if options.quick else ((200_000, 50_000, 100), (200_000, 500))
    _fits(report, options, partial(problems.sparse, *sizes[0]), f"sparse {sizes[0]}", 0.1)
    _fits(report, options, partial(problems.dense, *sizes[1]), f"dense float32 {sizes[1]}", 0.1)
    digits = partial(_mnist, options.rows(2000))
    try:
        digits()
    except DataMissingError as missing:
        print(f"memory on mnist skipped: {missing}")
    else:
        _fits(report, options, digits, "mnist float32", 0.01)
    return report


def _mnist(rows: int | None) -> Problem:
    return problems.mnist().thin(rows)


def _fits(report: Report, options: Options, load: Callable[[], Problem], name: str, C: float) -> None:
    entries = [Entry(SVC, C, 0.5, threads) for threads in options.threads]
    entries += [Entry(LR, C, 0.5), Entry(LINEAR_SVC, C)]
    for entry in options.few(entries):
        peak, data = peak_memory(load, entry)
        report.rows.append(
            Row(
                problem=name,
                model=entry.peer.name,
                C=C,
                rate=entry.rate if entry.peer.noisy else None,
                threads=entry.threads,
                input_mb=data / 1e6,
                peak_mb=peak / 1e6,
                peak_over_input=peak / data,
            )
        )
        if entry.peer is SVC:
            report.summary[f"{name}, {entry.threads} threads: peak / input"] = peak / data
