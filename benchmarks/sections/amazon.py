"""Four Amazon domains, 2,000 reviews x 5,000 words: time / time of scikit-learn, one thread each."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Any

from benchmarks import problems
from benchmarks.measure import Entry, Optima, race
from benchmarks.options import Options
from benchmarks.peers import (
    DUAL_LR,
    LINEAR_SVC,
    LR,
    LR_IRLS,
    LR_LBFGS,
    PLAIN_LR,
    PRIMAL_LR,
    SGD,
    SQUARED_SVC,
    SVC,
    SVC_IRLS,
    SVC_LBFGS,
    Peer,
)
from benchmarks.problems import WORDS, Problem
from benchmarks.report import RESULTS, Report, Row, geometric_mean, row
from benchmarks.sections import choice

RATES = (0.5, 0.0, 0.05, 0.1, 0.3, 0.7, 0.9)
HEADLINE = (0.3, 0.5, 0.7, 0.9)
CS, UNIT_CS = (0.1, 0.01, 1.0), (1.0, 0.1, 10.0)
#: scikit-learn's models of the same kind.
PEERS = {SVC: (LINEAR_SVC, SQUARED_SVC), LR: (PLAIN_LR, PRIMAL_LR, DUAL_LR)}
#: Rates at which the other solvers and SGD run too. They are slower, and a few cells are enough.
SOLVER_RATES = (0.5, 0.1, 0.9)
#: Names of these models in the section `choice`.
CHOSEN = {
    SVC: choice.SVC,
    LINEAR_SVC: choice.HINGE,
    SQUARED_SVC: choice.SQUARED,
    LR: choice.LR,
    PLAIN_LR: choice.LOGISTIC,
    PRIMAL_LR: choice.LOGISTIC,
    DUAL_LR: choice.LOGISTIC,
}


def run(options: Options) -> Report:
    """Time all words x domains x C x rates, then each model at the C and rate chosen by its folds.

    Ratios are to the fastest peer of the same cell. Precision is measured on the first domain.
    """
    report = Report()
    chosen = _chosen()
    for words in options.few(WORDS):
        for domain in options.few(problems.DOMAINS):
            problem = problems.amazon(domain).thin(options.rows(500)).words_as(words)
            optima = Optima(problem) if domain == problems.DOMAINS[0] else None
            for C in options.few(UNIT_CS if words.endswith("unit rows") else CS):
                for ours, peers in PEERS.items():
                    own = [Entry(ours, C, rate) for rate in options.few(RATES, 2)]
                    _race(report, problem, own, [Entry(peer, C) for peer in peers], options.repeats, optima)
            for ours, peers in PEERS.items():
                cells = {peer: chosen.get((domain, words, CHOSEN[peer])) for peer in (ours, *peers)}
                if None not in cells.values():
                    first, *rest = [Entry(peer, *cell) for peer, cell in cells.items() if cell]
                    _race(report, problem, [first], rest, options.repeats, None, f"{domain}, chosen")
    _other_solvers(report, options)
    _summarise(report)
    return report


def _chosen() -> dict[tuple[str, str, str], tuple[float, float]]:
    """C and rate by domain, words and model, from the results of the section `choice`."""
    path = RESULTS / "choice.csv"
    if not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        found = [line for line in csv.DictReader(file) if line["C"]]
    return {
        (line["problem"], line["words"], line["model"]): (float(line["C"]), float(line["rate"] or 0))
        for line in found
        if "words" in line
    }


def _race(
    report: Report,
    problem: Problem,
    ours: Sequence[Entry],
    peers: Sequence[Entry],
    repeats: int,
    optima: Optima | None,
    name: str | None = None,
) -> None:
    """Time our entries and peers in one race. Ratios are to the fastest peer."""
    outcomes = race(problem, [*ours, *peers], repeats)
    fastest = min(outcomes[len(ours) :], key=lambda outcome: outcome.cpu_time)
    lines = [row(problem, outcome, fastest, optima) for outcome in outcomes]
    for line in lines:
        line.problem = name or line.problem
    report.rows += lines


def _other_solvers(report: Report, options: Options) -> None:
    """Time the other solvers on counts, the first two domains, C = 0.1."""
    for domain in options.few(problems.DOMAINS[:2]):
        problem = problems.amazon(domain).thin(options.rows(500)).words_as("counts")
        for rate in options.few(SOLVER_RATES):
            for own, peer in (((SVC_IRLS, SVC_LBFGS, SGD), LINEAR_SVC), ((LR_IRLS, LR_LBFGS), PLAIN_LR)):
                entries = [Entry(each, CS[0], rate) for each in own]
                name = f"{domain}, other solvers"
                _race(report, problem, entries, [Entry(peer, CS[0])], options.repeats, None, name)


def _summarise(report: Report) -> None:
    grid = [line for line in report.rows if line.problem in problems.DOMAINS]
    for ours, peers in PEERS.items():
        for words in dict.fromkeys(line.words for line in report.rows):
            own = [line for line in grid if (line.model, line.words) == (ours.name, words)]
            name = f"{ours.name}, {words}"
            for rate in sorted({line.rate for line in own if line.rate is not None}):
                _ratio(report, f"{name}, rate {rate}", [line for line in own if line.rate == rate])
            heavy = [line for line in own if line.rate in HEADLINE]
            _ratio(report, f"{name}, rates 0.3-0.9", heavy)
            _worst(report, f"{name}, rates 0.3-0.9", heavy)
            _worst(report, f"{name}, all rates", own)
            for peer in peers:
                ratios = _ratios_to(grid, heavy, peer)
                report.summary[f"{name}, rates 0.3-0.9: CPU time / {peer.name}"] = geometric_mean(ratios)
            chosen = [
                line
                for line in report.rows
                if line.problem.endswith(", chosen") and (line.model, line.words) == (ours.name, words)
            ]
            if chosen:
                _ratio(report, f"{name}, chosen", chosen)
                _worst(report, f"{name}, chosen", chosen)
            precision = [line.suboptimality for line in own if line.suboptimality is not None]
            report.summary[f"{name}: max suboptimality"] = max(precision)
    for peer in (each for peers in PEERS.values() for each in peers):
        precision = [line.suboptimality or 0.0 for line in grid if line.model == peer.name]
        report.summary[f"{peer.name}, max suboptimality on its own objective"] = max(precision)
    for peer in (SVC_IRLS, SVC_LBFGS, SGD, LR_IRLS, LR_LBFGS):
        lines = [line for line in report.rows if line.model == peer.name]
        _ratio(report, f"{peer.name} / {lines[0].peer}", lines)


def _ratio(report: Report, name: str, lines: Sequence[Row]) -> None:
    report.summary[f"{name}: CPU time ratio"] = geometric_mean(line.cpu_ratio_to_peer for line in lines)
    report.summary[f"{name}: wall time ratio"] = geometric_mean(line.ratio_to_peer for line in lines)


def _worst(report: Report, name: str, lines: Sequence[Row]) -> None:
    report.summary[f"{name}: largest CPU time ratio"] = max(line.cpu_ratio_to_peer or 0.0 for line in lines)


def _ratios_to(grid: Sequence[Row], own: Sequence[Row], peer: Peer) -> list[float]:
    """CPU times of rows / CPU times of one peer in the same races."""

    def cell(line: Row) -> Any:
        return line.problem, line.words, line.C

    theirs = {cell(line): line.cpu_s or 0.0 for line in grid if line.model == peer.name}
    return [(line.cpu_s or 0.0) / theirs[cell(line)] for line in own]
