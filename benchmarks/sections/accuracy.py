"""Test errors on the four Amazon domains, every parameter chosen by cross-validation on the training half."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks import problems
from benchmarks.measure import convergence
from benchmarks.options import Options
from benchmarks.problems import Problem
from benchmarks.report import Report, Row
from marginout import DropoutLogisticRegression, DropoutSVC

CS = np.logspace(-3, 0, 7)
#: The plain models' best C is smaller: their grid goes on downwards, and up as far.
PLAIN_CS = np.logspace(-5, 1, 13)
RATES = (0.3, 0.5, 0.7, 0.8, 0.9)
BASELINE = "LinearSVC"


def run(options: Options) -> Report:
    """Five folds, one thread; the time is that of the whole search with its refit."""
    report = Report()
    noisy = {"C": CS[::6] if options.quick else CS, "noise": options.few(RATES, 2)}
    plain = {"C": PLAIN_CS[::6] if options.quick else PLAIN_CS}
    models: dict[str, tuple[Any, dict[str, Any]]] = {
        "DropoutSVC": (DropoutSVC(), noisy),
        "DropoutLR": (DropoutLogisticRegression(), noisy),
        BASELINE: (LinearSVC(loss="hinge", random_state=0), plain),
        "LinearSVC squared": (LinearSVC(random_state=0), plain),
        "LogisticRegression": (LogisticRegression(max_iter=1000), plain),
    }
    for domain in options.few(problems.DOMAINS):
        problem = problems.amazon(domain).thin(options.rows(500))
        report.rows += [_search(problem, name, *model) for name, model in models.items()]
    errors = {name: np.array([r.test_error for r in report.rows if r.model == name]) for name in models}
    for name, error in errors.items():
        report.summary[f"{name}: mean test error"] = float(error.mean())
    for name in models:
        if name != BASELINE:
            reduction = np.mean(1 - errors[name] / errors[BASELINE])
            report.summary[f"{name}: mean relative reduction of {BASELINE}'s error"] = float(reduction)
    return report


def _search(problem: Problem, name: str, model: Any, grid: dict[str, Any]) -> Row:
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    with threadpool_limits(limits=1), convergence() as late:
        start = time.perf_counter()
        search = GridSearchCV(model, grid, cv=folds).fit(problem.X, problem.y)
        seconds = time.perf_counter() - start
    return Row(
        problem=problem.name,
        model=name,
        C=float(search.best_params_["C"]),
        rate=search.best_params_.get("noise"),
        threads=1,
        repeats=1,
        time_s=seconds,
        converged=not late,
        test_error=1 - float(search.score(problem.X_test, problem.y_test)),
    )
