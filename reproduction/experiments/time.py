"""Figure 10: training and test time of all models on Amazon books."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from marginout import (
    DropoutLogisticRegression,
    DropoutSVC,
    LatentDropoutLogisticRegression,
    LatentDropoutSVC,
    MCFClassifier,
)
from reproduction import data, figures
from reproduction.cells import Experiment, Result, Settings
from reproduction.protocol import LATENT_LR, LATENT_SVM, LR, MCF_LOGISTIC, MCF_QUADRATIC, SVM
from reproduction.writing import Check, NotRunError, Results, Section, check, table

MODELS: dict[str, Callable[[float, float, int], Any]] = {
    SVM: lambda C, rate, K: DropoutSVC(C, noise=rate, loss="hinge", expectation="bound"),
    LR: lambda C, rate, K: DropoutLogisticRegression(C, noise=rate, multi_class="ovr"),
    MCF_LOGISTIC: lambda C, rate, K: MCFClassifier("logistic", C, noise=rate),
    MCF_QUADRATIC: lambda C, rate, K: MCFClassifier("quadratic", C, noise=rate),
    LATENT_SVM: lambda C, rate, K: LatentDropoutSVC(K, C, noise=rate, solver="joint", random_state=0),
    LATENT_LR: lambda C, rate, K: LatentDropoutLogisticRegression(
        K, C, noise=rate, solver="joint", random_state=0
    ),
}
#: Close to the C that cross-validation chooses at this rate.
CS = {SVM: 0.03, LR: 0.3, MCF_LOGISTIC: 0.3, MCF_QUADRATIC: 0.03, LATENT_SVM: 0.3, LATENT_LR: 0.3}


def cells(quick: bool) -> list[Settings]:
    """One cell: fits of all models alternate, so that a busy moment of the machine slows all of them."""
    size = {"K": 2, "repeats": 1, "rows": 60} if quick else {"K": 20, "repeats": 5, "rows": None}
    return [{"data": "books", "rate": 0.5, "Cs": CS, **size}]


def measure(settings: Settings) -> Result:
    problem = data.amazon("books").thin(settings["rows"])
    train: dict[str, list[float]] = {name: [] for name in MODELS}
    test: dict[str, list[float]] = {name: [] for name in MODELS}
    for _ in range(settings["repeats"]):
        for name, make in MODELS.items():
            model = make(settings["Cs"][name], settings["rate"], settings["K"])
            train[name].append(seconds(model.fit, problem.X, problem.y))
            test[name].append(seconds(model.predict, problem.X_test))
    return {"train": train, "test": test, "load": os.getloadavg()[0]}


def seconds(work: Callable[..., Any], *args: Any) -> float:
    start = time.perf_counter()
    work(*args)
    return time.perf_counter() - start


def section(results: Results) -> Section:
    part = Section(
        claim="Dropout-SVM and Dropout-LR train about as fast as MCF-Logistic and MCF-Quadratic, a little "
        "faster; models with a hidden layer take longer; all predict in no time.",
        protocol="2,000 reviews of 5,000 features to train on, 4,465 to predict, rate 0.5, C near the one "
        "that cross-validation chooses, 20 hidden units; medians of five fits, all models in turn. The "
        "paper compares C++ with the MCF authors' Matlab; here all six are this library's, with the same "
        "care for each.",
        checks=judge(results),
    )
    try:
        (record,) = results.records()
    except NotRunError:
        return part
    times = {phase: {name: median(record[phase][name]) for name in MODELS} for phase in ("train", "test")}
    body = [[name, *(f"{1000 * times[phase][name]:.1f}" for phase in times)] for name in MODELS]
    caption = f"Milliseconds, load of the machine {record['load']:.1f}:"
    part.tables = [table(["model", "training", "prediction of 4,465 reviews"], body, caption)]
    part.figures = {"time": figures.bars(times, "seconds")}
    return part


def judge(results: Results) -> list[Check]:
    def times(phase: str) -> dict[str, float]:
        (record,) = results.records()
        return {name: median(record[phase][name]) for name in MODELS}

    def as_fast() -> tuple[bool, str]:
        train = times("train")
        slowest = max(train[SVM], train[LR])
        ratio = slowest / min(train[MCF_LOGISTIC], train[MCF_QUADRATIC])
        return (
            ratio <= 1.5,
            f"the slower of the two takes {ratio:.1f} times the faster MCF (wanted: 1.5 at most; five fits "
            "of some 20 ms bear one digit)",
        )

    def hidden_slower() -> tuple[bool, str]:
        train = times("train")
        ratio = min(train[LATENT_SVM], train[LATENT_LR]) / max(train[SVM], train[LR])
        return ratio > 1, f"at least {ratio:.0f} times as long as the linear models"

    def quick_tests() -> tuple[bool, str]:
        slowest = max(times("test").values())
        return slowest < 1, f"at most {1000 * slowest:.1f} ms for all test reviews"

    return [
        check("Dropout-SVM and Dropout-LR train about as fast as the MCF models.", as_fast),
        check("Models with a hidden layer train longer.", hidden_slower),
        check("Prediction is fast for all.", quick_tests),
    ]


EXPERIMENT = Experiment("time", "Figure 10", "Training and test time", cells, measure, section)
