"""All digits of MNIST, 800 hidden units: rates chosen on the last sixth of the training digits."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from benchmarks import problems
from benchmarks.measure import Entry, race
from benchmarks.options import Options
from benchmarks.peers import Peer
from benchmarks.problems import Problem
from benchmarks.report import Report, Row, row
from benchmarks.sections.hidden import damaged_rows, digit_network

#: Rates of dropout of the inputs, and values of C, to choose from.
RATES, CS = (0.1, 0.2, 0.3), (1.0, 3.0)


def run(options: Options) -> Report:
    """A fit for each rate and C; only the model of the pair that is chosen sees the test digits."""
    report, K, threads = Report(), 8 if options.quick else 800, options.threads[-1]
    whole = problems.mnist().thin(options.rows(300))
    n = len(whole.y) * 5 // 6
    part = Problem("mnist, held-out digits", whole.X[:n], whole.y[:n], whole.X[n:], whole.y[n:])
    peer = Peer(f"LatentDropoutLR, {K} units", lambda C, rate: digit_network(K, C, rate), noisy=True)
    for C in options.few(CS):
        for rate in options.few(RATES):

            def trial(C: float = C, rate: float = rate) -> dict[str, Any]:
                (outcome,) = race(part, [Entry(peer, C, rate, threads)], 1)
                return asdict(row(part, outcome))

            cell = {"rate": rate, "C": C, "units": K, "threads": threads}
            report.rows.append(Row(**options.cell("hidden_large", cell, trial)))
    best = min(report.rows, key=lambda line: line.test_error or 0.0)
    (outcome,) = race(whole, [Entry(peer, best.C or 1.0, best.rate or 0.0, threads)], 1)
    report.rows += damaged_rows(replace(whole, name="mnist"), outcome)
    report.summary["rate, chosen"], report.summary["C, chosen"] = outcome.entry.rate, outcome.entry.C
    return report if options.timed else report.without_times()
