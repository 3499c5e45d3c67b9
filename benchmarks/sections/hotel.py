"""Hotel ratings from 2,500 reviews x 12,000 words: regression."""

from __future__ import annotations

from benchmarks import problems
from benchmarks.measure import Entry, Optima, race
from benchmarks.options import Options
from benchmarks.peers import LINEAR_SVR, SVR
from benchmarks.report import Report, geometric_mean, row

CS = (1.0, 0.1, 10.0)
RATES = (0.5, 0.1, 0.3)


def run(options: Options) -> Report:
    """Time DropoutSVR and LinearSVR, epsilon = 0.1, on one thread."""
    report = Report()
    problem = problems.hotel().thin(options.rows(500))
    optima = Optima(problem)
    for C in options.few(CS):
        for rate in options.few(RATES):
            outcomes = race(problem, [Entry(SVR, C, rate), Entry(LINEAR_SVR, C)], options.repeats)
            report.rows += [row(problem, outcome, outcomes[-1], optima) for outcome in outcomes]
    ratios = [line.ratio_to_peer for line in report.rows if line.model == SVR.name]
    report.summary["DropoutSVR / LinearSVR: time ratio"] = geometric_mean(ratios)
    for peer in (SVR, LINEAR_SVR):
        own = [line for line in report.rows if line.model == peer.name]
        report.summary[f"{peer.name}: best R2 of the grid"] = max(line.r2 or 0.0 for line in own)
        report.summary[f"{peer.name}: max suboptimality"] = max(line.suboptimality or 0.0 for line in own)
    return report
