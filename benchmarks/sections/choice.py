"""Test errors with C and rate chosen by the same folds of the training data, for all word features."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks import problems
from benchmarks.measure import convergence
from benchmarks.options import Options
from benchmarks.peers import PAPER
from benchmarks.problems import WORDS, Problem
from benchmarks.report import Report, Row
from marginout import DropoutLogisticRegressionCV, DropoutSVCCV

#: Exponents of √10 in the first grids of C. A grid is extended by two values where its edge is chosen.
LONG_ROWS, UNIT_ROWS = range(-5, 1), range(-2, 4)
RATES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
#: With many classes a cell takes seconds: fewer rates, two kinds of word features, only the SVM of our
#: models, and no LogisticRegression on Reuters, where its folds took more than five minutes.
FEW_RATES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
FEW_WORDS = ("counts", "tf-idf, unit rows")
HINGE, SQUARED, LOGISTIC = "LinearSVC hinge", "LinearSVC squared hinge", "LogisticRegression"
SVC, LR = "DropoutSVCCV", "DropoutLogisticRegressionCV"
#: One problem for all classes: on some of the training documents, by few folds and rates, on tf-idf.
PAIRWISE = "DropoutSVCCV, pairwise"
DOCUMENTS, JOINT_FOLDS, JOINT_RATES = 2_800, 3, (0.05, 0.1, 0.3, 0.5, 0.7)
#: Mean of the Amazon domains, and the same without test reviews that are in the training data.
AMAZON, NO_TWINS = "amazon", "amazon without twins"
DRAWS = 10_000

Wrong = dict[str, Any]


def run(options: Options) -> Report:
    """Amazon: five folds, one thread; errors on the test data, with paired intervals over test documents."""
    report = Report()
    domains = [problems.amazon(name).thin(options.rows(300)) for name in options.few(problems.DOMAINS, 2)]
    twins = [known_rows(problem) for problem in domains]
    for problem, known in zip(domains, twins, strict=True):
        report.summary[f"{problem.name}: test reviews that are in the training data"] = int(known.sum())
        report.summary[f"{problem.name}: their share"] = float(known.mean())
    for words in options.few(WORDS):
        wrong = [_errors(report, problem.words_as(words), RATES, options) for problem in domains]
        _compare(report, AMAZON, words, wrong)
        apart = [
            {name: each[~known] for name, each in errors.items()}
            for errors, known in zip(wrong, twins, strict=True)
        ]
        _compare(report, NO_TWINS, words, apart)
    return report


def run_classes(options: Options) -> Report:
    """The same for Reuters and 20 newsgroups."""
    report = Report()
    loads = (
        (problems.reuters, (HINGE, SQUARED, SVC)),
        (problems.newsgroups, (HINGE, SQUARED, LOGISTIC, SVC)),
    )
    for load, names in options.few(loads):
        for words in options.few(FEW_WORDS):
            problem = load().thin(options.rows(300)).words_as(words)
            _errors(report, problem, FEW_RATES, options, names)
    return report


def run_joint(options: Options) -> Report:
    """Some documents of 20 newsgroups: one problem for all classes, and one for each."""
    report = Report()
    few = problems.newsgroups().thin(options.rows(300) or DOCUMENTS).words_as(FEW_WORDS[1])
    names = (HINGE, SQUARED, LOGISTIC, SVC, PAIRWISE)
    _errors(report, few, JOINT_RATES, options, names, JOINT_FOLDS)
    return report


def known_rows(problem: Problem) -> Any:
    """Mask of the test rows that are equal to a training row."""

    def keys(X: Any) -> list[bytes]:
        X = X.sorted_indices()
        spans = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        return [X.indices[a:b].tobytes() + X.data[a:b].tobytes() for a, b in spans]

    seen = set(keys(problem.X))
    return np.array([key in seen for key in keys(problem.X_test)])


def _errors(
    report: Report,
    problem: Problem,
    rates: Sequence[float],
    options: Options,
    names: Sequence[str] = (HINGE, SQUARED, LOGISTIC, SVC, LR),
    n_folds: int = 5,
) -> Wrong:
    """Test documents that each model predicts wrongly; adds a row per model, and one per pair."""
    exponents = UNIT_ROWS if str(problem.words).endswith("unit rows") else LONG_ROWS
    if options.quick:
        rates, exponents = rates[::4], exponents[::2]
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=0)
    ours = {"noises": rates, "cv": folds, "n_jobs": 1}
    searches: dict[str, Callable[[Any], Any]] = {
        HINGE: partial(_grid, LinearSVC(loss="hinge", random_state=0), folds),
        SQUARED: partial(_grid, LinearSVC(random_state=0), folds),
        LOGISTIC: partial(_grid, LogisticRegression(max_iter=1000), folds),
        SVC: partial(DropoutSVCCV, **ours, **PAPER),
        LR: partial(DropoutLogisticRegressionCV, **ours),
        PAIRWISE: partial(DropoutSVCCV, multi_class="pairwise", **ours, **PAPER),
    }
    wrong: Wrong = {}
    for name in names:
        begin = time.process_time()
        with threadpool_limits(limits=1), convergence() as late:
            found = _widened(searches[name], exponents, problem)
        wrong[name] = found.predict(problem.X_test) != problem.y_test
        report.rows.append(
            Row(
                problem=problem.name,
                model=name,
                C=float(found.best_params_["C"]),
                rate=found.best_params_.get("noise"),
                threads=1,
                repeats=1,
                cpu_s=time.process_time() - begin,
                test_error=float(wrong[name].mean()),
                converged=not late,
                words=problem.words,
            )
        )
        print(f"{problem.name}, {problem.words}, {name}: {wrong[name].mean():.4f}", flush=True)
    _compare(report, problem.name, str(problem.words), [wrong])
    return wrong


def _grid(model: Any, folds: Any, Cs: Any) -> Any:
    return GridSearchCV(model, {"C": Cs}, cv=folds)


def _widened(make: Callable[[Any], Any], exponents: Sequence[int], problem: Problem) -> Any:
    """Search over a grid of C that is extended where its edge is chosen."""
    low, step, high = exponents[0], exponents[1] - exponents[0], exponents[-1]
    while True:
        grid = np.arange(low, high + 1, step)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The best C=")  # handled below
            warnings.filterwarnings("ignore", "The least populated class")
            search = make(10.0 ** (grid / 2)).fit(problem.X, problem.y)
        means = search.cv_results_["mean_test_score"].reshape(len(grid), -1)
        at, noise = np.unravel_index(search.best_index_, means.shape)
        if at == 0 and means[0, noise] > means[1, noise]:
            low -= 2 * step
        elif at == len(grid) - 1:
            high += 2 * step
        else:
            return search


def _compare(report: Report, name: str, words: str, wrong: Sequence[Wrong]) -> None:
    """Add rows that compare our models with the peers: mean error over data sets, and its reduction.

    One problem for each class is a peer of one for all.
    """
    for ours in [name for name in (SVC, LR, PAIRWISE) if name in wrong[0]]:
        others = (SVC, LR, PAIRWISE) if ours != PAIRWISE else (LR, PAIRWISE)
        for peer in [name for name in wrong[0] if name not in others]:
            pairs = [(errors[ours], errors[peer]) for errors in wrong]
            reduction, low, high = reduced(pairs)
            line = Row(name, ours, peer=peer, reduction=reduction, low=low, high=high, words=words)
            line.test_error = float(np.mean([own.mean() for own, _ in pairs]))
            if len(pairs) == 1:
                line.p_value = mcnemar(*pairs[0])
            report.rows.append(line)


def reduced(pairs: Sequence[tuple[Any, Any]]) -> tuple[float, float, float]:
    """1 − mean error / mean error of the peer over data sets, and its 95 % interval.

    The interval is that of the paired bootstrap over test documents, in each data set separately. To draw
    documents is to draw the counts of the four outcomes: both right, ours wrong, the peer's wrong, both.
    """
    rng = np.random.default_rng(0)
    exact, drawn = np.zeros(2), np.zeros((DRAWS, 2))
    for own, other in pairs:
        counts = np.bincount(own + 2 * other, minlength=4)
        draws = rng.multinomial(len(own), counts / len(own), DRAWS)
        for total, sums in ((exact, counts[None]), (drawn, draws)):
            total += (
                np.stack([sums[:, 1] + sums[:, 3], sums[:, 2] + sums[:, 3]], axis=1) / len(own)
            ).reshape(total.shape)
    low, high = np.quantile(1 - drawn[:, 0] / drawn[:, 1], [0.025, 0.975])
    return float(1 - exact[0] / exact[1]), float(low), float(high)


def mcnemar(own: Any, other: Any) -> float:
    """Exact p of McNemar's test, from the documents that only one of two models predicts wrongly."""
    only, differ = int(np.sum(own & ~other)), int(np.sum(own != other))
    return float(binomtest(only, differ).pvalue) if differ else 1.0
