"""The four Amazon domains, 2,000 reviews x 5,000 counts: time over scikit-learn's, one thread each side."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import problems
from benchmarks.measure import Entry, Optima, race
from benchmarks.options import Options
from benchmarks.peers import (
    LINEAR_SVC,
    LR,
    LR_IRLS,
    LR_LBFGS,
    PLAIN_LR,
    SGD,
    SVC,
    SVC_IRLS,
    SVC_LBFGS,
    Peer,
)
from benchmarks.report import Report, Row, geometric_mean, row

RATES = (0.5, 0.0, 0.05, 0.1, 0.3, 0.7, 0.9)
HEADLINE = (0.3, 0.5, 0.7, 0.9)
CS = (0.1, 0.01, 1.0)
#: The cells in which the other solvers, and SGD, run as well: they are slower, and a few suffice.
SOLVER_RATES = (0.5, 0.1, 0.9)


def run(options: Options) -> Report:
    """All domains x C x rates for the default solver; the others on the first two domains at C = 0.1."""
    report = Report()
    domains = options.few(problems.DOMAINS)
    for domain in domains:
        problem = problems.amazon(domain).thin(options.rows(500))
        optima = Optima(problem)
        for C in options.few(CS):
            for rate in options.few(RATES, 2):
                _pair(report, problem, optima, C, rate, options, (SVC, LINEAR_SVC))
                _pair(report, problem, optima, C, rate, options, (LR, PLAIN_LR))
        if domain in problems.DOMAINS[:2]:
            for rate in options.few(SOLVER_RATES):
                others = (SVC_IRLS, SVC_LBFGS, SGD, LINEAR_SVC)
                _pair(report, problem, optima, CS[0], rate, options, others)
                _pair(report, problem, optima, CS[0], rate, options, (LR_IRLS, LR_LBFGS, PLAIN_LR))
    _summarise(report)
    return report


def _pair(
    report: Report,
    problem: problems.Problem,
    optima: Optima,
    C: float,
    rate: float,
    options: Options,
    peers: Sequence[Peer],
) -> None:
    """Race some peers against the last of them."""
    outcomes = race(problem, [Entry(peer, C, rate) for peer in peers], options.repeats)
    report.rows += [row(problem, outcome, outcomes[-1], optima) for outcome in outcomes]


def _summarise(report: Report) -> None:
    for peer in (SVC, LR):
        own = [line for line in report.rows if line.model == peer.name]
        against = own[0].peer
        for rate in sorted({line.rate for line in own if line.rate is not None}):
            _ratio(report, f"{peer.name} / {against}, rate {rate}", [r for r in own if r.rate == rate])
        _ratio(report, f"{peer.name} / {against}, rates 0.3-0.9", [r for r in own if r.rate in HEADLINE])
    for name in (SVC_IRLS.name, SVC_LBFGS.name, SGD.name, LR_IRLS.name, LR_LBFGS.name):
        lines = [line for line in report.rows if line.model == name]
        _ratio(report, f"{name} / {lines[0].peer}", lines)
    for name in (LINEAR_SVC.name, PLAIN_LR.name):
        precision = [line.suboptimality or 0.0 for line in report.rows if line.model == name]
        report.summary[f"{name}, max suboptimality on its own objective"] = max(precision)


def _ratio(report: Report, name: str, lines: Sequence[Row]) -> None:
    report.summary[f"{name}: time ratio"] = geometric_mean(line.ratio_to_peer for line in lines)
    report.summary[f"{name}: max suboptimality"] = max(line.suboptimality or 0.0 for line in lines)
