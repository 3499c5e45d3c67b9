"""One hidden layer: against MLPClassifier of as many units, the two solvers, and deleted pixels."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC

from benchmarks import problems
from benchmarks.measure import Entry, convergence, peak_memory, race
from benchmarks.options import Options
from benchmarks.peers import LATENT_MEMORY, Peer
from benchmarks.problems import DataMissingError, Problem
from benchmarks.report import Report, Row, row
from marginout import DropoutSVC, LatentDropoutLogisticRegression, LatentDropoutSVC
from marginout._activations import ACTIVATIONS
from marginout._design import make_design
from marginout._latent import LatentObjective
from marginout.losses import Hinge
from marginout.noise import Dropout
from marginout.solvers.latent import SOLVERS

#: C and rate of the timed fits, and those of the best clean and the most robust digits.
C, RATE = 1.0, 0.5
RATES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


def run(options: Options) -> Report:
    """Digits need no files; Amazon books and MNIST are left out where theirs are missing."""
    report = Report()
    _digits(report, options)
    for part in _books, _mnist:
        try:
            part(report, options)
        except DataMissingError as missing:
            print(f"latent, {part.__name__[1:]} skipped: {missing}")
    return report


def _latent(model: Any, n_hidden: int, **more: Any) -> Callable[[float, float], Any]:
    def make(C: float, rate: float) -> Any:
        return model(n_hidden, C, noise=rate, **more)

    return make


def _mlp(n_hidden: int) -> Peer:
    return Peer(f"MLPClassifier {n_hidden}", lambda C, rate: MLPClassifier((n_hidden,), max_iter=1000))


def _digits(report: Report, options: Options) -> None:
    """Clean and half-deleted errors, survivors rescaled, over ten halves of scikit-learn's digits."""
    K = 3 if options.quick else 60
    LR, SVC = LatentDropoutLogisticRegression, LatentDropoutSVC
    models: dict[str, tuple[Callable[[], Any], float | None, float | None]] = {
        f"MLPClassifier {K}": (lambda: MLPClassifier((K,), max_iter=1000), None, None),
        **{f"LinearSVC C={c:g}": (partial(LinearSVC, C=c), c, None) for c in (0.1, 0.3, 1.0, 3.0)},
        **{
            f"{name} K={K} {way}, noise {rate:g}": (
                partial(model, K, 10.0, noise=rate, propagation=way),
                10.0,
                rate,
            )
            for name, model in (("LatentDropoutLR", LR), ("LatentDropoutSVC", SVC))
            for way, rate in (("taylor", 0.0), ("taylor", 0.1), ("gaussian", 0.1), ("gaussian", 0.2))
        },
    }
    seeds = range(1 if options.quick else 10)
    for name in options.few(list(models)[::-1], 2):
        make, C_, rate = models[name]
        clean, deleted, seconds = [], [], []
        for seed in seeds:
            problem = problems.bundled("digits", seed).thin(options.rows(100))
            model = make().set_params(random_state=seed)
            with convergence():
                start = time.perf_counter()
                model.fit(problem.X, problem.y)
                seconds.append(time.perf_counter() - start)
            clean.append(1 - model.score(problem.X_test, problem.y_test))
            half = Dropout(0.5).corrupt(problem.X_test, seed)
            deleted.append(1 - model.score(half, problem.y_test))
        time_s = float(np.median(seconds))
        for what, errors in (("digits", clean), ("digits, half deleted", deleted)):
            mean, sd = float(np.mean(errors)), float(np.std(errors))
            report.rows.append(
                Row(
                    what, name, C_, rate, repeats=len(seeds), time_s=time_s, test_error=mean, test_error_sd=sd
                )
            )


def _books(report: Report, options: Options) -> None:
    """Amazon books, K = 20: time and error beside MLPClassifier's, and the race of the solvers."""
    problem = problems.amazon("books").thin(options.rows(300))
    K = 4 if options.quick else 20
    peers = [
        _mlp(K),
        Peer(f"LatentDropoutSVC {K}", _latent(LatentDropoutSVC, K), noisy=True),
        Peer(
            f"LatentDropoutSVC {K} gaussian", _latent(LatentDropoutSVC, K, propagation="gaussian"), noisy=True
        ),
        Peer(f"LatentDropoutLR {K}", _latent(LatentDropoutLogisticRegression, K), noisy=True),
    ]
    _timed(report, problem, peers, options.slow_repeats, 1)
    _solvers(report, problem, K, 1)
    digits = problems.bundled("digits").thin(options.rows(200))
    _solvers(report, digits, K, 1)


def _mnist(report: Report, options: Options) -> None:
    """The first 10,000 digits of MNIST: K = 20 in time, K = 60 as pixels are deleted; and memory."""
    whole = problems.mnist()
    n = 300 if options.quick else 10_000
    problem = Problem(f"mnist {n}", whole.X[:n], whole.y[:n], whole.X_test, whole.y_test)
    K, threads = (3, 1) if options.quick else (20, options.threads[-1])
    own = _latent(LatentDropoutSVC, K, shared=False)
    peers = [
        _mlp(K),
        _mlp(10 * K),
        Peer(f"LatentDropoutSVC {K}", _latent(LatentDropoutSVC, K), noisy=True),
        Peer(f"LatentDropoutSVC {K} a class", own, noisy=True),
    ]
    _timed(report, problem, peers, 1, threads)
    _deletion(report, problem, 4 if options.quick else 60)
    peak, data = peak_memory(partial(_mnist_rows, options.rows(2000)), Entry(LATENT_MEMORY, C, RATE, threads))
    report.summary["mnist, K = 60: peak memory on top of the input, MiB"] = peak / 2**20
    report.rows.append(
        Row(whole.name, LATENT_MEMORY.name, C, RATE, threads, input_mb=data / 1e6, peak_mb=peak / 1e6)
    )


def _mnist_rows(rows: int | None) -> Problem:
    return problems.mnist().thin(rows)


def _timed(report: Report, problem: Problem, peers: Sequence[Peer], repeats: int, threads: int) -> None:
    entries = [Entry(peer, C, RATE, threads) for peer in peers]
    plain, *ours = race(problem, entries, repeats)
    report.rows += [row(problem, plain), *(row(problem, outcome, plain) for outcome in ours)]


def _solvers(report: Report, problem: Problem, K: int, seeds: int) -> None:
    """F of the paper's alternation at the time when the joint method has converged, over the latter's F."""
    classes = np.unique(problem.y)
    Y = np.where(np.equal.outer(problem.y, classes[1:] if len(classes) == 2 else classes), 1.0, -1.0)
    ones = np.full((len(Y), 1), C)
    F = LatentObjective(
        make_design(problem.X, Dropout(RATE)), ACTIVATIONS["sigmoid"], "taylor", Hinge(), Y, ones, 1.0, True
    )
    for seed in range(seeds):
        net = F.start(K, np.random.default_rng(seed))
        start = time.perf_counter()
        joint = SOLVERS["joint"](F, net, tol=1e-3, max_iter=1000)
        budget = time.perf_counter() - start

        def late(iteration: int, value: float, decrease: float, net: Any, since: float, most: float) -> bool:
            return time.perf_counter() - since > most

        monitor = partial(late, since=time.perf_counter(), most=budget)
        other = SOLVERS["alternating"](F, net, tol=1e-12, max_iter=100_000, monitor=monitor)
        name = f"{problem.name}, seed {seed}: F of alternating / F of joint after the same time"
        report.summary[name] = other.value / joint.value


def _deletion(report: Report, problem: Problem, K: int) -> None:
    """Errors of fixed models as more pixels of the test digits are deleted, survivors rescaled."""
    balanced = {"expectation": "gaussian", "class_weight": "balanced"}
    plain = LatentDropoutLogisticRegression(K, noise=0.0, tol=1e-2, warm_start=True, random_state=0)
    _fixed(report, problem, "LinearSVC", LinearSVC(C=0.01, random_state=0))
    _fixed(report, problem, "DropoutSVC", DropoutSVC(0.1, noise=0.5, **balanced))
    _fixed(report, problem, f"LatentDropoutLR {K}, no noise", plain)
    # Without noise an iteration costs a fraction; a few with noise from there are enough.
    noisy = plain.set_params(noise=0.2, propagation="gaussian", max_iter=25)
    _fixed(report, problem, f"LatentDropoutLR {K}, then noise 0.2", noisy)


def _fixed(report: Report, problem: Problem, name: str, model: Any) -> None:
    with convergence():
        start = time.perf_counter()
        model.fit(problem.X, problem.y)
        seconds = time.perf_counter() - start
    for rate in RATES:
        error = 1 - float(model.score(Dropout(rate).corrupt(problem.X_test, 0), problem.y_test))
        report.rows.append(
            Row(f"{problem.name}, {rate:.0%} deleted", name, repeats=1, time_s=seconds, test_error=error)
        )
