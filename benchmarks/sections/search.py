"""Choosing C and the rate by five folds on 8 x 8 cells, beside choosing C alone for LinearSVC: Amazon."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import LinearSVC

from benchmarks import problems
from benchmarks.measure import peak_memory_of
from benchmarks.options import Options
from benchmarks.problems import Problem
from benchmarks.report import Report, Row, geometric_mean
from marginout import DropoutSVC, DropoutSVCCV

CS = np.logspace(-3, 0.5, 8)
RATES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
#: The same with a plain SVM among them.
WITH_ZERO = (0.0, *RATES[1:])
FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)
CV, ZERO = "DropoutSVCCV", "DropoutSVCCV, rate 0 too"
PLAIN, GRID = "GridSearchCV(LinearSVC)", "GridSearchCV(DropoutSVC)"


def _searches(threads: int, rows: int | None) -> dict[str, Any]:
    Cs, rates = (CS, RATES) if rows is None else (CS[::4], RATES[::4])
    plain = LinearSVC(loss="hinge", random_state=0)
    common: dict[str, Any] = {"cv": FOLDS, "n_jobs": threads}
    return {
        PLAIN: GridSearchCV(plain, {"C": Cs}, **common),
        CV: DropoutSVCCV(Cs, rates, **common),
        ZERO: DropoutSVCCV(Cs, WITH_ZERO if rows is None else (0.0, 0.5), **common),
        GRID: GridSearchCV(DropoutSVC(), {"C": Cs, "noise": rates}, **common),
    }


def run(options: Options) -> Report:
    """All cores on both sides, each search with its refit; medians, and the mean score of the cell chosen."""
    report = Report()
    threads = options.threads[-1]
    for domain in options.few(problems.DOMAINS):
        rows = options.rows(300)
        problem = problems.amazon(domain).thin(rows)
        _race(report, problem, _searches(threads, rows), options, threads)
    for name in (CV, ZERO, GRID):
        ratios = [line.ratio_to_peer for line in report.rows if line.model == name]
        report.summary[f"{name} / {PLAIN}: time ratio"] = geometric_mean(ratios)
    _memory(report, options, threads)
    return report


def _race(report: Report, problem: Problem, searches: dict[str, Any], options: Options, threads: int) -> None:
    seconds: dict[str, list[float]] = {name: [] for name in searches}
    for _ in range(options.slow_repeats + 1):  # the first round starts the workers
        for name, search in searches.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                start = time.perf_counter()
                search.fit(problem.X, problem.y)
                seconds[name].append(time.perf_counter() - start)
    times = {name: median(taken[1:]) for name, taken in seconds.items()}
    for name, search in searches.items():
        line = Row(
            problem=problem.name,
            model=name,
            C=float(search.best_params_["C"]),
            rate=search.best_params_.get("noise"),
            threads=threads,
            repeats=options.slow_repeats,
            time_s=times[name],
            test_error=1 - float(search.score(problem.X_test, problem.y_test)),
        )
        if name != PLAIN:
            line.peer, line.ratio_to_peer = PLAIN, times[name] / times[PLAIN]
        report.rows.append(line)
    grid = searches[GRID].cv_results_["mean_test_score"]
    lost = grid.max() - grid[searches[CV].best_index_]
    report.summary[f"{problem.name}: {CV} / {GRID}, time"] = times[CV] / times[GRID]
    report.summary[f"{problem.name}: mean score that the cell chosen by {CV} loses"] = float(lost)
    difference = np.abs(searches[CV].scores_.mean(axis=0).ravel() - grid)
    report.summary[f"{problem.name}: mean difference of the scores from {GRID}'s"] = float(difference.mean())


def _memory(report: Report, options: Options, threads: int) -> None:
    size = (2000, 1000, 20) if options.quick else (100_000, 20_000, 100)
    load: Callable[[], Problem] = partial(problems.sparse, *size)
    Cs, rates = ([0.01], [0.5]) if options.quick else ([0.003, 0.01], [0.3, 0.6])
    search = DropoutSVCCV(Cs, rates, cv=5, n_jobs=threads)
    peak, data = peak_memory_of(load, search)
    report.rows.append(
        Row(
            problem=f"sparse {size}",
            model=CV,
            threads=threads,
            input_mb=data / 1e6,
            peak_mb=peak / 1e6,
            peak_over_input=peak / data,
        )
    )
    report.summary[f"sparse {size}, five folds: peak on top of the input / input"] = peak / data
