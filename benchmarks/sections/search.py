"""Choice of C and rate by five folds on 8 x 8 cells, compared with C alone for LinearSVC: Amazon."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks import problems
from benchmarks.measure import peak_memory_of
from benchmarks.options import Options
from benchmarks.peers import PAPER
from benchmarks.problems import Problem
from benchmarks.report import Report, Row, geometric_mean
from marginout import DropoutSVC, DropoutSVCCV, GridEdgeWarning

CS = np.logspace(-3, 0.5, 8)
RATES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
#: The same with rate 0, a plain SVM.
WITH_ZERO = (0.0, *RATES[1:])
FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)
CV, ZERO, WIDE = "DropoutSVCCV", "DropoutSVCCV, rate 0 too", "DropoutSVCCV, eleven rates"
PLAIN, GRID = "GridSearchCV(LinearSVC)", "GridSearchCV(DropoutSVC)"
#: Word features of the timed searches.
COUNTED = ("counts", "tf-idf, unit rows")


def _searches(threads: int, quick: bool, unit_rows: bool) -> dict[str, Any]:
    Cs, rates, zero = (CS[::4], RATES[::4], (0.0, 0.5)) if quick else (CS, RATES, WITH_ZERO)
    Cs = 10 * Cs if unit_rows else Cs
    plain = LinearSVC(loss="hinge", random_state=0)
    common: dict[str, Any] = {"cv": FOLDS, "n_jobs": threads}
    searches = {
        PLAIN: GridSearchCV(plain, {"C": Cs}, **common),
        CV: DropoutSVCCV(Cs, rates, **PAPER, **common),
        ZERO: DropoutSVCCV(Cs, zero, **PAPER, **common),
        WIDE: DropoutSVCCV(Cs, (0.0, *np.arange(1, 10) / 10, 0.95), **PAPER, **common),
    }
    if threads > 1 and not unit_rows:
        searches[GRID] = GridSearchCV(DropoutSVC(**PAPER), {"C": Cs, "noise": rates}, **common)
    return searches


def run(options: Options) -> Report:
    """Medians of CPU time on one thread, and of wall time on all cores; a search includes its refit."""
    report = Report()
    for words in options.few(COUNTED):
        for domain in options.few(problems.DOMAINS):
            problem = problems.amazon(domain).thin(options.rows(300)).words_as(words)
            for threads in options.threads:
                searches = _searches(threads, options.quick, words.endswith("unit rows"))
                with threadpool_limits(limits=threads):
                    _race(report, problem, searches, options, threads)
    for words in dict.fromkeys(line.words for line in report.rows):
        for name in (CV, ZERO, WIDE, GRID):
            for threads in options.threads:
                own = [r for r in report.rows if (r.model, r.words, r.threads) == (name, words, threads)]
                if own:
                    ratio = geometric_mean(line.ratio_to_peer for line in own)
                    report.summary[f"{name} / {PLAIN}, {words}, {threads} threads: time ratio"] = ratio
            alone = [r.cpu_ratio_to_peer for r in report.rows if (r.model, r.words) == (name, words)]
            if any(alone):
                ratio = geometric_mean(alone)
                report.summary[f"{name} / {PLAIN}, {words}, 1 threads: CPU time ratio"] = ratio
    _memory(report, options, options.threads[-1])
    return report


def _race(report: Report, problem: Problem, searches: dict[str, Any], options: Options, threads: int) -> None:
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in searches}
    for _ in range(options.slow_repeats + 1):  # the first round starts the workers
        for name, search in searches.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", GridEdgeWarning)  # the grid is fixed for all
                start, cpu = time.perf_counter(), time.process_time()
                search.fit(problem.X, problem.y)
                seconds[name].append((time.perf_counter() - start, time.process_time() - cpu))
    times = {name: np.median(taken[1:], axis=0) for name, taken in seconds.items()}
    for name, search in searches.items():
        line = Row(
            problem=problem.name,
            model=name,
            C=float(search.best_params_["C"]),
            rate=search.best_params_.get("noise"),
            threads=threads,
            repeats=options.slow_repeats,
            time_s=float(times[name][0]),
            test_error=1 - float(search.score(problem.X_test, problem.y_test)),
            words=problem.words,
        )
        if threads == 1:  # CPU time of worker processes is not counted in this one
            line.cpu_s = float(times[name][1])
        if name != PLAIN:
            line.peer, line.ratio_to_peer = PLAIN, float(times[name][0] / times[PLAIN][0])
            line.cpu_ratio_to_peer = float(times[name][1] / times[PLAIN][1]) if threads == 1 else None
        report.rows.append(line)
    if GRID in searches:
        _agreement(report, problem, searches)


def _agreement(report: Report, problem: Problem, searches: dict[str, Any]) -> None:
    """Differences between the scores of the search and those of a separate fit per cell."""
    grid = searches[GRID].cv_results_["mean_test_score"]
    lost = grid.max() - grid[searches[CV].best_index_]
    report.summary[f"{problem.name}: mean score that the cell chosen by {CV} loses"] = float(lost)
    difference = np.abs(searches[CV].scores_.mean(axis=0).ravel() - grid)
    report.summary[f"{problem.name}: mean difference of the scores from {GRID}'s"] = float(difference.mean())


def _memory(report: Report, options: Options, threads: int) -> None:
    size = (2000, 1000, 20) if options.quick else (100_000, 20_000, 100)
    load: Callable[[], Problem] = partial(problems.sparse, *size)
    Cs, rates = ([0.01], [0.5]) if options.quick else ([0.003, 0.01], [0.3, 0.6])
    search = DropoutSVCCV(Cs, rates, cv=5, n_jobs=threads, **PAPER)
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
