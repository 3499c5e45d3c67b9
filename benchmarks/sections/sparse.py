"""Sparse and large data, beside every peer that a user would pick: time, suboptimality, error.

A cell is a data set, a loss and a rate; its ratio is CPU time on one thread / that of LinearSVC or
LogisticRegression on the same data with the same C. C is fixed by the scale of the rows, and not chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks import libraries, problems
from benchmarks.libraries import MulticoreModel, SnapModel
from benchmarks.measure import Entry, Outcome, race
from benchmarks.options import Options
from benchmarks.peers import DUAL_LR, LINEAR_SVC, LR, PAPER, PLAIN_LR, SGD, SQUARED_SVC, SVC, Peer
from benchmarks.problems import WORDS, DataMissingError, Problem
from benchmarks.report import Report, Row, geometric_mean, row
from marginout import DropoutLogisticRegression, DropoutSVC

RATES = (0.5, 0.0, 0.05, 0.1, 0.3, 0.9)
#: The rate at which other expectations and two threads are timed too.
MIDDLE = 0.5
#: C by the length of the rows: one, or that of counts.
UNIT_C, COUNTS_C = 1.0, 0.1


class Data(NamedTuple):
    """A problem, made when it is needed; the group that its ratios are averaged in first; C."""

    group: str
    make: Callable[[], Problem]
    C: float
    slow: bool = False


def _amazon(words: str) -> list[Data]:
    C = UNIT_C if words.endswith("unit rows") else COUNTS_C
    return [
        Data(f"Amazon, {words}", partial(_worded, partial(problems.amazon, domain), words), C)
        for domain in problems.DOMAINS
    ]


def _worded(make: Callable[[], Problem], words: str) -> Problem:
    return make().words_as(words)


def _digits() -> Problem:
    return problems.mnist().thin(10_000)


COUNTS, BINARY, LOG, _, TFIDF = WORDS
PANEL = (
    *(data for words in (COUNTS, BINARY, LOG, TFIDF) for data in _amazon(words)),
    Data("a9a", problems.a9a, COUNTS_C),
    Data("w8a", problems.w8a, COUNTS_C),
    Data("AG News, tf-idf, unit rows", partial(_worded, problems.news, TFIDF), UNIT_C),
    Data("20 newsgroups, counts", partial(_worded, problems.newsgroups, COUNTS), COUNTS_C, slow=True),
    Data("20 newsgroups, tf-idf, unit rows", partial(_worded, problems.newsgroups, TFIDF), UNIT_C, slow=True),
    Data("MNIST, 10,000 digits", _digits, 0.01, slow=True),
    Data("generated, 400,000 x 20,000", partial(problems.sparse, 400_000, 20_000, 50), 0.01, slow=True),
)

GAUSS = Peer(
    "DropoutSVC hinge gaussian",
    lambda C, rate: DropoutSVC(C, noise=rate, **{**PAPER, "expectation": "gaussian"}),
    noisy=True,
)
SQUARED = Peer("DropoutSVC squared hinge gaussian", lambda C, rate: DropoutSVC(C, noise=rate), noisy=True)
LR_GAUSS = Peer(
    "DropoutLR gaussian",
    lambda C, rate: DropoutLogisticRegression(C, noise=rate, expectation="gaussian", multi_class="ovr"),
    noisy=True,
)
SNAP_SVC = Peer("Snap ML SVM", lambda C, rate: SnapModel("hinge", C))
SNAP_LR = Peer("Snap ML LR", lambda C, rate: SnapModel("log_loss", C))
MULTICORE = Peer("liblinear-multicore hinge", lambda C, rate: MulticoreModel("hinge", C))
MULTICORE_LR = Peer("liblinear-multicore LR", lambda C, rate: MulticoreModel("log_loss", C))


class Kind(NamedTuple):
    """Ours under the bound, and the normal law; the peer of the ratios; others; some for two classes."""

    bound: Peer
    gaussian: Sequence[Peer]
    plain: Peer
    others: Sequence[Peer]
    elsewhere: dict[str, Peer]


KINDS = (
    Kind(
        SVC,
        (GAUSS, SQUARED),
        LINEAR_SVC,
        (SQUARED_SVC, SGD),
        {libraries.SNAP: SNAP_SVC, libraries.MULTICORE: MULTICORE},
    ),
    Kind(
        LR,
        (LR_GAUSS,),
        PLAIN_LR,
        (),
        {"sklearn": DUAL_LR, libraries.SNAP: SNAP_LR, libraries.MULTICORE: MULTICORE_LR},
    ),
)


def run(options: Options) -> Report:
    """Time all cells of the panel, and summarise them."""
    report = Report()
    groups: dict[tuple[str, str | None], str] = {}
    for reason in filter(None, map(libraries.missing, (libraries.SNAP, libraries.MULTICORE))):
        print(f"Some models are left out: {reason}.", flush=True)
    for data in PANEL[:: len(PANEL) // 2] if options.quick else PANEL:
        try:
            problem = data.make().thin(options.rows(400))
        except DataMissingError as missing:
            print(f"{data.group} skipped: {missing}", flush=True)
            continue
        groups[problem.name, problem.words] = data.group
        for lines in _cells(data, problem, options):
            report.rows += lines
        print(f"{data.group}: {problem.name} done", flush=True)
    _summarise(report, groups)
    return report


def _cells(data: Data, problem: Problem, options: Options) -> list[list[Row]]:
    """The rows of one data set, a race for each kind of loss and number of threads."""
    several = len(np.unique(problem.y)) > 2
    repeats = options.slow_repeats if data.slow else options.repeats
    made = []
    for kind in KINDS:
        there = {} if several else kind.elsewhere
        found = [peer for package, peer in there.items() if not libraries.missing(package)]
        ours = [Entry(kind.bound, data.C, rate) for rate in options.few(RATES, 2)]
        ours += [Entry(peer, data.C, MIDDLE) for peer in kind.gaussian]
        peers = [Entry(peer, data.C) for peer in (kind.plain, *kind.others, *found)]
        made.append(_lines(problem, [*ours, *peers], len(ours), repeats))
        for threads in options.threads[1:]:
            own = [Entry(kind.bound, data.C, rate, threads) for rate in options.few((MIDDLE, 0.3, 0.9))]
            peers = [Entry(kind.plain, data.C), *(Entry(peer, data.C, threads=threads) for peer in found)]
            made.append(_lines(problem, [*own, *peers], len(own), repeats))
    return made


def _lines(problem: Problem, entries: Sequence[Entry], plain: int, repeats: int) -> list[Row]:
    """Rows of a race; ratios are to the entry with the number `plain`."""
    outcomes = race(problem, entries, repeats)
    return [_line(problem, outcome, outcomes[plain]) for outcome in outcomes]


def _line(problem: Problem, outcome: Outcome, plain: Outcome) -> Row:
    line = row(problem, outcome, plain)
    line.n, line.d = problem.X.shape
    line.nnz = problem.nnz
    if outcome.entry.peer.noisy:
        line.suboptimality = max(_certified(model) for model in outcome.models)
    return line


def _certified(model: Any) -> float:
    """How far F may be above its minimum, relative to that: the certificate of the fit."""
    return float(model.optimality_gap_ / max(model.objective_ - model.optimality_gap_, 1e-300))


def _summarise(report: Report, groups: dict[Any, str]) -> None:
    """Geometric means over the groups, in which data sets of one source count once; the worst cell."""
    one = [line for line in report.rows if line.threads == 1 and line.cpu_ratio_to_peer]
    for kind in KINDS:
        for model in (kind.bound, *kind.gaussian):
            own = [line for line in one if line.model == model.name]
            for rate in sorted({line.rate for line in own if line.rate is not None}):
                _put(report, groups, f"{model.name}, rate {rate}", [x for x in own if x.rate == rate])
            _put(report, groups, f"{model.name}, rates from 0.3", [x for x in own if (x.rate or 0) >= 0.3])
            _put(report, groups, f"{model.name}, all rates", own)
            gaps = [line.suboptimality for line in own if line.suboptimality is not None]
            report.summary[f"{model.name}: largest suboptimality"] = max(gaps)
        base = {(*_place(line), line.rate): line.cpu_s for line in one if line.model == kind.bound.name}
        for model in kind.gaussian:
            found = [line for line in one if line.model == model.name]
            ratios = [(line.cpu_s or 0.0) / (base[*_place(line), line.rate] or 1.0) for line in found]
            _put_ratios(report, f"{model.name} / {kind.bound.name}: {{}}CPU time ratio", ratios)
        two = [line for line in report.rows if line.threads != 1]
        for peer in kind.elsewhere.values():
            clock = {_place(line): line.time_s for line in two if line.model == peer.name}
            own = [line for line in two if line.model == kind.bound.name and _place(line) in clock]
            ratios = [(line.time_s or 0.0) / (clock[_place(line)] or 1.0) for line in own]
            name = f"{kind.bound.name} / {peer.name}, two threads, rates from 0.3"
            _put_ratios(report, f"{name}: {{}}time ratio", ratios)


def _place(line: Row) -> tuple[str, str | None]:
    return line.problem, line.words


def _put_ratios(report: Report, name: str, ratios: Sequence[float]) -> None:
    if ratios:
        report.summary[name.format("")] = geometric_mean(ratios)
        report.summary[name.format("largest ")] = max(ratios)


def _put(report: Report, groups: dict[Any, str], name: str, lines: Sequence[Row]) -> None:
    """The geometric mean over the groups of the geometric means of their cells, and the worst cell."""
    cells: dict[str, list[float]] = {}
    for line in lines:
        cells.setdefault(groups[_place(line)], []).append(line.cpu_ratio_to_peer or 0.0)
    if cells:
        report.summary[f"{name}: CPU time ratio"] = geometric_mean(map(geometric_mean, cells.values()))
        report.summary[f"{name}: largest CPU time ratio"] = max(max(each) for each in cells.values())
