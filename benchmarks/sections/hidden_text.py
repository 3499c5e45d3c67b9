"""One hidden layer of 20 units on text: Amazon's book reviews, and hotel ratings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.neural_network import MLPClassifier, MLPRegressor

from benchmarks import problems
from benchmarks.measure import Entry, race
from benchmarks.options import Options
from benchmarks.peers import Peer
from benchmarks.problems import Problem
from benchmarks.report import Report, Row, row
from benchmarks.sections.hidden import BATCH, TorchNetwork, needs_torch
from marginout import DropoutSVC, DropoutSVR, LatentDropoutSVC, LatentDropoutSVR

#: Units of every layer.
UNITS = 20
#: Values of C and rates of our models, and learning rates of the others, to choose from.
CS, RATES, LEARNING_RATES = (0.1, 1.0, 10.0), (0.3, 0.5, 0.7), (1e-3, 4e-3, 1.6e-2)
#: Share of the training reviews on which they are chosen.
HELD = 0.25


def run(options: Options) -> Report:
    """Times and errors, one thread: first with C = 1 and rate 0.5, then with what held-out reviews choose."""
    needs_torch()
    report, repeats = Report(), options.slow_repeats
    books, hotel = problems.amazon("books").thin(options.rows(200)), problems.hotel().thin(options.rows(200))
    joint, drawn = _ours(LatentDropoutSVC, solver="joint"), _ours(LatentDropoutSVC)
    outcomes = race(books, [Entry(peer, 1.0, 0.5) for peer in (joint, drawn)], repeats)
    report.rows += [row(books, outcome, outcomes[0]) for outcome in outcomes]
    if options.timed:
        report.summary["books, C = 1, rate 0.5: CPU seconds of the default solver"] = outcomes[1].cpu_time
    networks = [drawn, joint, Peer("DropoutSVC", _linear(DropoutSVC), noisy=True)]
    _choose(report, replace(books, name="books, chosen"), networks, _multilayer(MLPClassifier), options)
    networks = [_ours(LatentDropoutSVR), Peer("DropoutSVR", _linear(DropoutSVR), noisy=True)]
    _choose(report, replace(hotel, name="hotel, chosen"), networks, _multilayer(MLPRegressor), options)
    return report if options.timed else report.without_times()


def _choose(
    report: Report, problem: Problem, ours: list[Peer], plain: Callable[[float], Any], options: Options
) -> None:
    """Choose the parameters of every model on held-out reviews; then fit to all, in turn."""
    order = np.random.default_rng(0).permutation(len(problem.y))
    train, held = np.split(order, [int((1 - HELD) * len(order))])
    part = replace(
        problem, X=problem.X[train], y=problem.y[train], X_test=problem.X[held], y_test=problem.y[held]
    )
    CS_, rates, speeds = (options.few(values) for values in (CS, RATES, LEARNING_RATES))
    grids = [[Entry(peer, C, rate) for C in CS_ for rate in rates] for peer in ours]
    grids.append(
        [
            Entry(Peer(f"PyTorch, {UNITS} units", _torch(speed), noisy=True), 1.0, rate)
            for speed in speeds
            for rate in rates
        ]
    )
    name = f"MLP{'Regressor' if problem.y.dtype.kind == 'f' else 'Classifier'}, {UNITS} units"
    grids.append([Entry(Peer(name, lambda C, rate, s=speed: plain(s)), 1.0) for speed in speeds])
    chosen = []
    for entries in grids:
        lines = [row(part, outcome) for outcome in race(part, entries, 1)]
        chosen.append(entries[int(np.argmin([_loss(line) for line in lines]))])
    outcomes = race(problem, chosen, options.slow_repeats)
    report.rows += [row(problem, outcome, outcomes[0]) for outcome in outcomes]


def _loss(line: Row) -> float:
    return -line.r2 if line.test_error is None and line.r2 is not None else line.test_error or 0.0


def _ours(model: Callable[..., Any], **more: Any) -> Peer:
    name = ", ".join([model.__name__, f"{UNITS} units", *more.values()])
    return Peer(name, lambda C, rate: model(UNITS, C, noise=rate, **more), noisy=True)


def _linear(model: Callable[..., Any]) -> Callable[[float, float], Any]:
    return lambda C, rate: model(C, noise=rate)


def _torch(speed: float) -> Callable[[float, float], Any]:
    return lambda C, rate: TorchNetwork(UNITS, noise=rate, learning_rate=speed)


def _multilayer(model: Callable[..., Any]) -> Callable[[float], Any]:
    """scikit-learn's network by its learning rate, for as many passes as PyTorch's."""
    return lambda speed: model(
        hidden_layer_sizes=(UNITS,), batch_size=BATCH, learning_rate_init=speed, max_iter=30
    )
