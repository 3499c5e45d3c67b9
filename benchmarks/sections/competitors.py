"""Competitors and deletion curves: MCF, FDROP, memory of explicit corruption, `deletion_curve`."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import SGDClassifier
from sklearn.svm import LinearSVC

from benchmarks import problems
from benchmarks.measure import Entry, convergence, peak_memory_of, race
from benchmarks.options import Options
from benchmarks.peers import LR, Peer
from benchmarks.problems import Problem
from benchmarks.report import Report, Row, row
from marginout import ExplicitCorruptionClassifier, FeatureDeletionSVC, MCFClassifier
from marginout.noise import Deletion
from marginout.robustness import deletion_curve

MCF = Peer("MCFClassifier", lambda C, rate: MCFClassifier(C=C, noise=rate), noisy=True)


def run(options: Options) -> Report:
    """Measure all parts, on Amazon books and MNIST."""
    report = Report()
    _mcf_on_books(report, options)
    _mcf_on_digits(report, options)
    _block_memory(report, options)
    _curve(report, options)
    _fdrop(report, options)
    return report


def _mcf_on_books(report: Report, options: Options) -> None:
    """Time MCF's logistic bound and DropoutLogisticRegression on one thread."""
    problem = problems.amazon("books").thin(options.rows(300))
    for C in options.few((0.01, 1.0, 10.0)):
        plain, mcf = race(problem, [Entry(LR, C, 0.5), Entry(MCF, C, 0.5)], options.repeats)
        report.rows += [row(problem, plain), row(problem, mcf, plain)]


def _mcf_on_digits(report: Report, options: Options) -> None:
    """Digits of MCF's authors, half of the test pixels deleted. Errors of their code: 0.1966 and 0.1928."""
    problem = problems.mcf_digits().thin(options.rows(200))
    halves = [Deletion(0.5).corrupt(problem.X_test, seed) for seed in range(3)]
    for name, model in {
        "quadratic, Deletion(0.5)": MCFClassifier("quadratic", 1e6, noise=Deletion(0.5)),
        "quadratic, Deletion(0.7)": MCFClassifier("quadratic", 1e6, noise=Deletion(0.7)),
        "logistic, Deletion(0.5)": MCFClassifier(noise=Deletion(0.5)),
    }.items():
        seconds = _fit(model, problem)
        errors = [1 - float(model.score(half, problem.y_test)) for half in halves]
        report.rows.append(
            Row(
                f"{problem.name}, half deleted",
                f"MCFClassifier {name}",
                model.C,
                repeats=1,
                time_s=seconds,
                test_error=float(np.mean(errors)),
                test_error_sd=float(np.std(errors)),
            )
        )


def _block_memory(report: Report, options: Options) -> None:
    """Memory / bytes of X of explicit corruption with `partial_fit`, by number of copies M."""
    load = partial(_books, options.rows(300))
    for count in (2, 4) if options.quick else (1, 16, 256):
        wrapped = SGDClassifier(alpha=1e-3 / count, random_state=0)
        model = ExplicitCorruptionClassifier(wrapped, n_copies=count, random_state=0)
        peak, data = peak_memory_of(load, model)
        name = f"explicit M={count}, SGDClassifier in blocks"
        report.rows.append(Row("books", name, input_mb=data / 1e6, peak_mb=peak / 1e6))


def _books(rows: int | None) -> Problem:
    return problems.amazon("books").thin(rows)


def _curve(report: Report, options: Options) -> None:
    """Time `deletion_curve` of a linear model: 20 repeats of 10 rates on 10,000 digits."""
    whole = problems.mnist()
    model = LinearSVC(C=0.01, random_state=0).fit(whole.X[:2000], whole.y[:2000])
    rows, repeats = (200, 2) if options.quick else (10_000, 20)
    start = time.perf_counter()
    deletion_curve(model, whole.X_test[:rows], whole.y_test[:rows], n_repeats=repeats, random_state=0)
    seconds = time.perf_counter() - start
    report.rows.append(Row(whole.name, f"deletion_curve, {repeats} repeats of 10 rates", time_s=seconds))


def _fdrop(report: Report, options: Options) -> None:
    """Time FDROP on all of MNIST, ten classes, with its certificate."""
    problem = problems.mnist().thin(options.rows(300))
    model = FeatureDeletionSVC(0.1, n_deletions=5)
    seconds = _fit(model, problem)
    gap = model.optimality_gap_ / model.objective_
    report.rows.append(
        Row(
            problem.name,
            "FeatureDeletionSVC, 5 deletions",
            0.1,
            threads=options.threads[-1],
            time_s=seconds,
            reference_gap=gap,
            n_iter=model.n_iter_,
        )
    )


def _fit(model: Any, problem: Problem) -> float:
    """Wall-clock seconds of a fit."""
    with convergence():
        start = time.perf_counter()
        model.fit(problem.X, problem.y)
        return time.perf_counter() - start
