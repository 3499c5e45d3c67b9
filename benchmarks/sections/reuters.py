"""Reuters-21578, 58 classes, 5,946 x 18,933 counts: all classes in one batch against one after the other."""

from __future__ import annotations

from benchmarks import problems
from benchmarks.measure import Entry, Optima, race
from benchmarks.options import Options
from benchmarks.peers import LINEAR_SVC, SVC
from benchmarks.report import Report, geometric_mean, row

CS = (0.1, 0.01, 1.0)
RATE = 0.5


def run(options: Options) -> Report:
    """DropoutSVC on one and two threads against LinearSVC."""
    report = Report()
    problem = problems.reuters().thin(options.rows(500))
    optima = Optima(problem)
    for C in options.few(CS):
        entries = [Entry(SVC, C, RATE, threads) for threads in options.threads]
        *ours, plain = race(problem, [*entries, Entry(LINEAR_SVC, C)], options.repeats)
        report.rows += [row(problem, outcome, plain, optima) for outcome in ours]
        report.rows.append(row(problem, plain))
    for threads in options.threads:
        ratios = [r.ratio_to_peer for r in report.rows if r.model == SVC.name and r.threads == threads]
        report.summary[f"{SVC.name} on {threads} / LinearSVC: time ratio"] = geometric_mean(ratios)
    return report
