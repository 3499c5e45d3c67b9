"""Reuters-21578, 58 classes, 5,946 x 18,933 counts: all classes in one batch, or one after the other."""

from __future__ import annotations

from benchmarks import problems
from benchmarks.measure import Entry, Optima, race
from benchmarks.options import Options
from benchmarks.peers import LINEAR_SVC, SQUARED_SVC, SVC
from benchmarks.report import Report, geometric_mean, row

CS = (0.1, 0.01, 1.0)
#: The rate that folds choose here, and a high one.
RATES = (0.1, 0.5)


def run(options: Options) -> Report:
    """Time DropoutSVC on one and two threads, and LinearSVC; ratios to the faster of its losses."""
    report = Report()
    problem = problems.reuters().thin(options.rows(500))
    optima = Optima(problem)
    for C in options.few(CS):
        entries = [Entry(SVC, C, rate, threads) for rate in RATES for threads in options.threads]
        entries += [Entry(LINEAR_SVC, C), Entry(SQUARED_SVC, C)]
        *ours, plain, squared = race(problem, entries, options.repeats)
        fastest = min(plain, squared, key=lambda outcome: outcome.cpu_time)
        report.rows += [row(problem, outcome, fastest, optima) for outcome in ours]
        report.rows += [row(problem, outcome, fastest) for outcome in (plain, squared)]
    for rate in RATES:
        for threads in options.threads:
            own = [r for r in report.rows if (r.model, r.rate, r.threads) == (SVC.name, rate, threads)]
            name = f"{SVC.name} on {threads}, rate {rate} / LinearSVC"
            report.summary[f"{name}: time ratio"] = geometric_mean(r.ratio_to_peer for r in own)
            report.summary[f"{name}: CPU time ratio"] = geometric_mean(r.cpu_ratio_to_peer for r in own)
    return report
