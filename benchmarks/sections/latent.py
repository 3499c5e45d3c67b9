"""One hidden layer: errors compared with MLPClassifier's, the two solvers, and deleted pixels."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks import problems
from benchmarks.measure import Entry, convergence, peak_memory
from benchmarks.options import Options
from benchmarks.peers import LATENT_MEMORY
from benchmarks.problems import DataMissingError, Problem
from benchmarks.report import Report, Row
from marginout import (
    DropoutSVC,
    ExplicitCorruptionClassifier,
    LatentDropoutLogisticRegression,
    LatentDropoutSVC,
    MCFClassifier,
)
from marginout._core.design.storage import make_design
from marginout._models.latent.activations import ACTIVATIONS
from marginout._models.latent.objective import LatentObjective
from marginout._models.latent.solvers import SOLVERS
from marginout.losses import Hinge
from marginout.noise import Dropout

#: C and rate of the timed fits.
C, RATE = 1.0, 0.5
RATES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
#: Values of C, where it is chosen, and masks per held-out example.
TUNED = [10 ** (k / 2) for k in range(-6, 5)]
MASKS = 5


def run(options: Options) -> Report:
    """Digits need no files. Amazon books and MNIST are skipped if their files are missing."""
    report = Report()
    _digits(report, options)
    for part in _books, _mnist:
        try:
            part(report, options)
        except DataMissingError as missing:
            print(f"latent, {part.__name__[1:]} skipped: {missing}")
    return report


#: A function of X, y and a seed that returns a fitted model.
Fit = Callable[[Any, Any, int], Any]


def _digits(report: Report, options: Options) -> None:
    """Errors on scikit-learn's digits, whole and with half of the pixels deleted, over ten random halves.

    Remaining pixels are rescaled. "whole" and "half" in a name say for which images C is chosen, by folds of
    the training half. Models with a hidden layer have their parameters in their names. The time is that of
    one fit: CPU seconds, one thread.
    """
    K = 3 if options.quick else 60
    models = _digit_models(K)
    seeds = range(1 if options.quick else 10)
    for name in options.few(list(models)[::-1], 2):
        fit, C_, rate = models[name]
        found = []
        for seed in seeds:
            measure = partial(_digit_cell, fit, seed, options.rows(100), timed=seed == seeds[-1])
            found.append(options.cell("latent", {"model": name, "seed": seed}, measure))
        time_s = found[-1]["time_s"]
        for what in ("digits", "digits, half deleted"):
            errors = [cell[what] for cell in found]
            mean, sd = float(np.mean(errors)), float(np.std(errors))
            report.rows.append(
                Row(
                    what, name, C_, rate, repeats=len(seeds), time_s=time_s, test_error=mean, test_error_sd=sd
                )
            )

    peer = f"MLPClassifier {K}"
    times = {line.model: line.time_s for line in report.rows if line.time_s}
    for line in report.rows if peer in times else []:
        line.peer, line.ratio_to_peer = peer, times[line.model] / times[peer]


def _digit_cell(fit: Fit, seed: int, rows: int | None, timed: bool) -> dict[str, float]:
    """Errors on whole and on half-deleted digits of one half, and the time of one more fit if asked for."""
    problem = problems.bundled("digits", seed).thin(rows)
    half = Dropout(0.5).corrupt(problem.X_test, seed)
    with convergence(), threadpool_limits(1):
        model = fit(problem.X, problem.y, seed)
        start = time.process_time()
        if timed:
            clone(model).fit(problem.X, problem.y)
        time_s = time.process_time() - start
    return {
        "digits": _error(model, problem.X_test, problem.y_test),
        "digits, half deleted": _error(model, half, problem.y_test),
        "time_s": time_s,
    }


def _digit_models(K: int) -> dict[str, tuple[Fit, float | None, float | None]]:
    """The fit of each model, and its C and rate if they are fixed."""
    balanced: dict[str, Any] = {"expectation": "gaussian", "class_weight": "balanced"}
    plain = {
        "LinearSVC": LinearSVC(random_state=0),
        "LogisticRegression": LogisticRegression(max_iter=1000),
    }
    linear = {
        "DropoutSVC": DropoutSVC(noise=0.5, loss="hinge", **balanced),
        "MCF-Logistic": MCFClassifier(noise=0.5),
    }
    mlp = MLPClassifier((K,), max_iter=1000)
    hidden = {"LatentDropoutLR": LatentDropoutLogisticRegression, "LatentDropoutSVC": LatentDropoutSVC}
    ways = ("taylor", 0.0), ("taylor", 0.1), ("gaussian", 0.1), ("gaussian", 0.2)
    return {
        f"MLPClassifier {K}": (partial(_seeded, mlp), None, None),
        **{
            f"MLPClassifier {K}, ten copies, rate {rate:g}": (
                partial(_seeded, ExplicitCorruptionClassifier(mlp, noise=rate, n_copies=10, blocks=False)),
                None,
                rate,
            )
            for rate in (0.2, 0.5)
        },
        **{
            f"{name}, C for {what}": (partial(_tuned, model, rate), None, None)
            for name, model in plain.items()
            for what, rate in (("whole", 0.0), ("half", 0.5))
        },
        **{f"{name}, C for half": (partial(_tuned, model, 0.5), None, 0.5) for name, model in linear.items()},
        **{
            f"{name} K={K} {way}, noise {rate:g}": (
                partial(_seeded, model(K, 10.0, noise=rate, propagation=way, solver="joint")),
                10.0,
                rate,
            )
            for name, model in hidden.items()
            for way, rate in ways
        },
    }


def _seeded(model: Any, X: Any, y: Any, seed: int) -> Any:
    return clone(model).set_params(random_state=seed).fit(X, y)


def _tuned(model: Any, rate: float, X: Any, y: Any, seed: int) -> Any:
    """Fit with the C of smallest error on held-out thirds of X with pixels deleted at this rate."""
    folds = list(StratifiedKFold(3, shuffle=True, random_state=seed).split(X, y))
    errors = []
    for C in TUNED:
        trial = clone(model).set_params(C=C)
        found = []
        for train, held in folds:
            trial.fit(X[train], y[train])
            copies = [Dropout(rate).corrupt(X[held], mask) for mask in range(MASKS if rate else 1)]
            found += [_error(trial, copy, y[held]) for copy in copies]
        errors.append(float(np.mean(found)))
    return clone(model).set_params(C=TUNED[int(np.argmin(errors))]).fit(X, y)


def _error(model: Any, X: Any, y: Any) -> float:
    return float(np.mean(model.predict(X) != y))


def _books(report: Report, options: Options) -> None:
    """Compare the solvers on Amazon books and digits, K = 20."""
    K = 4 if options.quick else 20
    _solvers(report, problems.amazon("books").thin(options.rows(300)), K, 1)
    _solvers(report, problems.bundled("digits").thin(options.rows(200)), K, 1)


def _mnist(report: Report, options: Options) -> None:
    """The first 10,000 digits of MNIST, K = 60: errors with deleted pixels, and memory."""
    _deletion(report, first_digits(options), 4 if options.quick else 60)
    threads = options.threads[-1]
    peak, data = peak_memory(partial(_mnist_rows, options.rows(2000)), Entry(LATENT_MEMORY, C, RATE, threads))
    report.summary["mnist, K = 60: peak memory on top of the input, MiB"] = peak / 2**20
    report.rows.append(
        Row("mnist", LATENT_MEMORY.name, C, RATE, threads, input_mb=data / 1e6, peak_mb=peak / 1e6)
    )


def first_digits(options: Options) -> Problem:
    """The first 10,000 training digits of MNIST, and all test digits."""
    whole, n = problems.mnist(), 300 if options.quick else 10_000
    return Problem(f"mnist {n}", whole.X[:n], whole.y[:n], whole.X_test, whole.y_test)


def _mnist_rows(rows: int | None) -> Problem:
    return problems.mnist().thin(rows)


def _solvers(report: Report, problem: Problem, K: int, seeds: int) -> None:
    """F of the paper's alternation when the joint method has converged / F of the joint method."""
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
    """Errors of fixed models by share of deleted test pixels; remaining pixels are rescaled."""
    balanced = {"expectation": "gaussian", "class_weight": "balanced"}
    plain = LatentDropoutLogisticRegression(
        K, noise=0.0, solver="joint", tol=1e-2, warm_start=True, random_state=0
    )
    _fixed(report, problem, "LinearSVC", LinearSVC(C=0.01, random_state=0))
    _fixed(report, problem, "LinearSVC C=0.001", LinearSVC(C=0.001, random_state=0))
    mlp = MLPClassifier((K,), max_iter=1000, random_state=0)
    copies = ExplicitCorruptionClassifier(mlp, noise=0.2, n_copies=4, blocks=False, random_state=0)
    _fixed(report, problem, f"MLPClassifier {K}, four copies, rate 0.2", copies)
    _fixed(report, problem, "DropoutSVC", DropoutSVC(0.1, noise=0.5, loss="hinge", **balanced))
    _fixed(report, problem, f"LatentDropoutLR {K}, no noise", plain)
    # An iteration without noise is much cheaper; a few with noise from there are enough.
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
