"""Stacked corrupted copies, compared with the noise integrated out: Amazon books."""

from __future__ import annotations

from benchmarks import problems
from benchmarks.measure import Entry, race
from benchmarks.options import Options
from benchmarks.peers import SVC, explicit
from benchmarks.report import Report, row

#: (C, rate) on both sides of the choice of cross-validation for DropoutSVC on books.
CELLS = ((0.1, 0.5), (0.01, 0.5))


def run(options: Options) -> Report:
    """1 to 256 copies, with as many seeds as slow repeats, on one thread; the mean error falls."""
    report = Report()
    problem = problems.amazon("books").thin(options.rows(500))
    for C, rate in options.few(CELLS):
        copies = (2, 4) if options.quick else (1, 4, 16, 64, 256)
        entries = [Entry(SVC, C, rate), *(Entry(explicit(count), C, rate) for count in copies)]
        outcomes = race(problem, entries, options.slow_repeats)
        rows = [row(problem, outcome, outcomes[0]) for outcome in outcomes]
        report.rows += rows
        for line in rows[1:]:
            cell = f"{line.model}, C {C}, rate {rate}"
            report.summary[f"{cell}: time ratio to {SVC.name}"] = line.ratio_to_peer or 0.0
    return report
