"""Test errors with C and the rate chosen by DropoutSVCCV on the training data, beside a tuned LinearSVC."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import LinearSVC

from benchmarks import problems
from benchmarks.options import Options
from benchmarks.problems import Problem
from benchmarks.report import Report, Row
from marginout import DropoutSVCCV

CS = np.logspace(-3.5, 0.5, 9)
RATES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
#: For data of many classes, where little noise is best.
LIGHT = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)
PLAIN, OURS = "GridSearchCV(LinearSVC)", "DropoutSVCCV"


def run(options: Options) -> Report:
    """The same five folds and values of C for both, all cores; the time is that of search and refit."""
    report = Report()
    amazon: list[Callable[[], Problem]] = [partial(problems.amazon, name) for name in problems.DOMAINS]
    for load in options.few(amazon):
        _compare(report, load().thin(options.rows(300)), CS, RATES, options)
    errors = {
        name: np.array([r.test_error for r in report.rows if r.model == name]) for name in (PLAIN, OURS)
    }
    reduction = float(np.mean(1 - errors[OURS] / errors[PLAIN]))
    report.summary[f"Amazon: mean relative reduction of {PLAIN}'s error"] = reduction
    for load in (problems.reuters, problems.newsgroups):
        problem = load().thin(options.rows(300))
        error = _compare(report, problem, CS[3:], LIGHT, options)
        report.summary[f"{problem.name}: test error less that of {PLAIN}"] = error[OURS] - error[PLAIN]
    return report


def _compare(report: Report, problem: Problem, Cs: Any, rates: Any, options: Options) -> dict[str, float]:
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    threads = options.threads[-1]
    if options.quick:
        Cs, rates = Cs[::4], rates[::4]
    searches = {
        PLAIN: GridSearchCV(LinearSVC(loss="hinge", random_state=0), {"C": Cs}, cv=folds, n_jobs=threads),
        OURS: DropoutSVCCV(Cs, rates, cv=folds, n_jobs=threads),
    }
    errors = {}
    for name, search in searches.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of classes with fewer members than folds, and of edges
            start = time.perf_counter()
            search.fit(problem.X, problem.y)
            seconds = time.perf_counter() - start
        errors[name] = 1 - float(search.score(problem.X_test, problem.y_test))
        report.rows.append(
            Row(
                problem=problem.name,
                model=name,
                C=float(search.best_params_["C"]),
                rate=search.best_params_.get("noise"),
                threads=threads,
                repeats=1,
                time_s=seconds,
                test_error=errors[name],
            )
        )
    return errors
