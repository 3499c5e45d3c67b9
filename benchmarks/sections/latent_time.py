"""One hidden layer: time and error, compared with MLPClassifier with as many units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sklearn.neural_network import MLPClassifier

from benchmarks import problems
from benchmarks.measure import Entry, race
from benchmarks.options import Options
from benchmarks.peers import Peer
from benchmarks.problems import Problem
from benchmarks.report import Report, row
from benchmarks.sections.latent import RATE, C, first_digits
from marginout import LatentDropoutLogisticRegression, LatentDropoutSVC


def run(options: Options) -> Report:
    """Time Amazon books on one thread, and the first 10,000 digits of MNIST once, on all threads."""
    report = Report()
    K = 4 if options.quick else 20
    books = problems.amazon("books").thin(options.rows(300))
    peers = [
        _peer("LatentDropoutSVC", LatentDropoutSVC, K),
        _peer("LatentDropoutSVC gaussian", LatentDropoutSVC, K, propagation="gaussian"),
        _peer("LatentDropoutLR", LatentDropoutLogisticRegression, K),
    ]
    _race(report, books, [_mlp(K), *peers], options.slow_repeats, 1)
    peers = [
        _mlp(10 * K),
        _peer("LatentDropoutSVC", LatentDropoutSVC, K),
        _peer("LatentDropoutSVC a class", LatentDropoutSVC, K, shared=False),
    ]
    _race(report, first_digits(options), [_mlp(K), *peers], 1, options.threads[-1])
    return report


def _mlp(n_hidden: int) -> Peer:
    return Peer(f"MLPClassifier, {n_hidden} units", lambda C, rate: MLPClassifier((n_hidden,), max_iter=1000))


def _peer(name: str, model: Callable[..., Any], n_hidden: int, **more: Any) -> Peer:
    def make(C: float, rate: float) -> Any:
        return model(n_hidden, C, noise=rate, solver="joint", **more)

    return Peer(f"{name}, {n_hidden} units", make, noisy=True)


def _race(report: Report, problem: Problem, peers: Sequence[Peer], repeats: int, threads: int) -> None:
    plain, *others = race(problem, [Entry(peer, C, RATE, threads) for peer in peers], repeats)
    report.rows += [row(problem, plain), *(row(problem, outcome, plain) for outcome in others)]
    for line in report.rows[-len(others) :]:
        report.summary[f"{problem.name}, {line.model}: CPU time ratio"] = line.cpu_ratio_to_peer or 0.0
