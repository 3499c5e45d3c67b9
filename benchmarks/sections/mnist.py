"""MNIST, 60,000 x 784 dense float32, ten classes."""

from __future__ import annotations

from benchmarks import problems
from benchmarks.measure import Entry, Optima, race
from benchmarks.options import Options
from benchmarks.peers import LINEAR_SVC, SVC
from benchmarks.report import Report, row

C = 0.01
RATES = (0.5, 0.3, 0.1)


def run(options: Options) -> Report:
    """Time DropoutSVC on one and two threads, and LinearSVC."""
    report = Report()
    problem = problems.mnist().thin(options.rows(2000))
    optima = Optima(problem)
    entries = [Entry(SVC, C, rate, threads) for rate in RATES for threads in options.threads]
    *ours, plain = race(problem, [*entries, Entry(LINEAR_SVC, C)], options.slow_repeats)
    for outcome in ours:
        line = row(problem, outcome, plain, optima)
        report.rows.append(line)
        name = f"{SVC.name} on {line.threads}, rate {line.rate} / LinearSVC"
        report.summary[f"{name}: time ratio"] = line.ratio_to_peer or 0.0
        report.summary[f"{name}: CPU time ratio"] = line.cpu_ratio_to_peer or 0.0
    report.rows.append(row(problem, plain))
    return report
