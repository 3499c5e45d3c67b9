"""Tables and texts of the panel: our defaults and searches, compared with those of plain models."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import t as student
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC, LinearSVR
from threadpoolctl import threadpool_limits

from benchmarks import panel
from benchmarks.measure import convergence
from benchmarks.options import Options
from benchmarks.panel import DEVELOPMENT, HELD_OUT, Split
from benchmarks.problems import DataMissingError
from benchmarks.report import Report, Row
from marginout import (
    DropoutLogisticRegression,
    DropoutLogisticRegressionCV,
    DropoutSVC,
    DropoutSVCCV,
    DropoutSVR,
    DropoutSVRCV,
)

Make = Callable[[], Any]

CS = 10.0 ** np.linspace(-4, 4, 10)
LINEAR, LOGISTIC, SVR, RIDGE = "LinearSVC", "LogisticRegression", "LinearSVR", "RidgeCV"
SVC, LR = "DropoutSVC", "DropoutLogisticRegression"
GRID_HINGE, GRID_SQUARED = "GridSearchCV(LinearSVC hinge)", "GridSearchCV(LinearSVC)"
HALF = ", rate 0.5"

#: A model, how it is made, and the peers that it is compared with.
Models = Mapping[str, tuple[Make, Sequence[str]]]

CLASSIFIERS: Models = {
    LINEAR: (partial(LinearSVC, random_state=0), ()),
    LOGISTIC: (partial(LogisticRegression, max_iter=1000), ()),
    SVC: (DropoutSVC, (LINEAR,)),
    LR: (DropoutLogisticRegression, (LOGISTIC,)),
}
REGRESSORS: Models = {
    SVR: (partial(LinearSVR, random_state=0), ()),
    RIDGE: (RidgeCV, ()),
    "DropoutSVR": (DropoutSVR, (SVR, RIDGE)),
}
#: What the noise of earlier versions gains on texts.
ON_TEXTS: Models = {
    **CLASSIFIERS,
    SVC + HALF: (partial(DropoutSVC, noise=0.5), (LINEAR,)),
    SVC + " hinge, bound" + HALF: (
        partial(DropoutSVC, noise=0.5, loss="hinge", expectation="bound"),
        (LINEAR,),
    ),
    LR + HALF: (partial(DropoutLogisticRegression, noise=0.5), (LOGISTIC,)),
}
CLASSIFIER_SEARCHES: Models = {
    GRID_HINGE: (lambda: _grid(LinearSVC(loss="hinge", random_state=0)), ()),
    GRID_SQUARED: (lambda: _grid(LinearSVC(random_state=0)), ()),
    "LogisticRegressionCV": (lambda: _logistic_search(), ()),
    "DropoutSVCCV": (DropoutSVCCV, (GRID_HINGE, GRID_SQUARED)),
    "DropoutLogisticRegressionCV": (DropoutLogisticRegressionCV, ("LogisticRegressionCV",)),
}
REGRESSOR_SEARCHES: Models = {
    "GridSearchCV(LinearSVR)": (lambda: _grid(LinearSVR(random_state=0)), ()),
    "RidgeCV, 10 alphas": (partial(RidgeCV, alphas=CS), ()),
    "DropoutSVRCV": (DropoutSVRCV, ("GridSearchCV(LinearSVR)", "RidgeCV, 10 alphas")),
}


def _grid(model: Any) -> Any:
    return GridSearchCV(model, {"C": CS})


def _logistic_search() -> Any:
    return LogisticRegressionCV(Cs=10, max_iter=1000)


@dataclass
class Result:
    """What a model does on the test rows of all folds: what each costs, right or wrong classes, seconds."""

    #: 1 for an error and 0 otherwise; of a regression, squared errors over the variance of y.
    costs: Any
    truth: Any
    seconds: float
    late: bool
    rates: list[float] = field(default_factory=list)

    def balanced(self) -> float:
        """The mean over the classes of the share of their rows that is wrong."""
        return float(np.mean([self.costs[self.truth == label].mean() for label in np.unique(self.truth)]))


def run(options: Options) -> Report:
    """The held-out half, defaults against defaults."""
    return _panel(HELD_OUT, CLASSIFIERS, REGRESSORS, ON_TEXTS, options)


def run_development(options: Options) -> Report:
    """The development half, on which the defaults were chosen."""
    return _panel(DEVELOPMENT, CLASSIFIERS, REGRESSORS, ON_TEXTS, options)


def run_search(options: Options) -> Report:
    """The held-out half, searches with default grids against the peers' searches."""
    return _panel(HELD_OUT, CLASSIFIER_SEARCHES, REGRESSOR_SEARCHES, {}, options)


def run_search_development(options: Options) -> Report:
    """The same for the development half."""
    return _panel(DEVELOPMENT, CLASSIFIER_SEARCHES, REGRESSOR_SEARCHES, {}, options)


def _panel(part: str, classifiers: Models, regressors: Models, on_texts: Models, options: Options) -> Report:
    """A row per data set and model, a row per comparison, and the means over the data sets."""
    report = Report()
    kinds = {
        "tables": (classifiers, [table for table in panel.of(panel.TABLES, part) if not table.regression]),
        "regressions": (regressors, [table for table in panel.of(panel.TABLES, part) if table.regression]),
        "texts": (on_texts, panel.of(panel.TEXTS, part)),
    }
    for kind, (models, sets) in kinds.items():
        if not models:
            continue
        found: list[dict[str, Result]] = []
        for data in options.few(sets):
            try:
                splits = data.splits()
            except DataMissingError as missing:
                print(f"{data.name} skipped: {missing}", flush=True)
                continue
            results = _race(models, splits[:2] if options.quick else splits)
            _report_set(report, data, models, results, splits[0], options)
            found.append(results)
        for name, (_, peers) in models.items():
            for peer in peers if found else ():
                report.rows.append(_mean(kind, name, peer, found))
    return report


def _race(models: Models, splits: Sequence[Split]) -> dict[str, Result]:
    """Fit and score all models on all folds, in turn."""
    results: dict[str, Result] = {}
    with threadpool_limits(limits=1):
        for turn, split in enumerate(splits):
            order = list(models)
            for name in order[turn % len(order) :] + order[: turn % len(order)]:
                begin = time.process_time()
                with convergence() as late, warnings.catch_warnings():
                    warnings.filterwarnings("ignore", "The (best|model|least populated)")
                    model = models[name][0]().fit(split.X, split.y)
                seconds = time.process_time() - begin
                predicted = model.predict(split.X_test)
                if split.y_test.dtype.kind == "f":
                    costs = (split.y_test - predicted) ** 2 / np.mean(np.square(split.y_test))
                else:
                    costs = (predicted != split.y_test).astype(float)
                own = Result(costs, split.y_test, seconds, bool(late))
                rate = getattr(model, "noise_", None)
                own.rates = [rate] if isinstance(rate, float) else []
                results[name] = _joined(results.get(name), own)
    return results


def _joined(first: Result | None, second: Result) -> Result:
    if first is None:
        return second
    return Result(
        np.concatenate([first.costs, second.costs]),
        np.concatenate([first.truth, second.truth]),
        first.seconds + second.seconds,
        first.late or second.late,
        first.rates + second.rates,
    )


def _report_set(
    report: Report, data: Any, models: Models, results: dict[str, Result], split: Split, options: Options
) -> None:
    """Rows of one data set."""
    for name, result in results.items():
        line = Row(data.name, name, threads=1, converged=not result.late)
        line.n, line.d = split.X.shape
        line.rate = float(np.mean(result.rates)) if result.rates else None
        line.cpu_s = result.seconds if options.timed else None
        if data.regression:
            line.r2 = 1.0 - float(result.costs.mean())
        else:
            line.test_error, line.balanced_error = float(result.costs.mean()), result.balanced()
        report.rows.append(line)
        for peer in models[name][1]:
            other = results[peer]
            points = 100.0 * (other.costs - result.costs)
            row = Row(data.name, name, peer=peer, difference=float(points.mean()))
            wide = 1.96 * float(points.std(ddof=1)) / np.sqrt(len(points))
            row.low, row.high = row.difference - wide, row.difference + wide
            if options.timed:
                row.cpu_ratio_to_peer = result.seconds / other.seconds
            report.rows.append(row)
        shown = line.r2 if data.regression else line.test_error
        print(f"{data.name}, {name}: {shown:.4f}", flush=True)


def _mean(kind: str, name: str, peer: str, found: Sequence[dict[str, Result]]) -> Row:
    """The mean difference over data sets, with an interval over data sets."""
    points = np.array([100.0 * float(np.mean(each[peer].costs - each[name].costs)) for each in found])
    row = Row(kind, name, peer=peer, repeats=len(points), difference=float(points.mean()))
    if len(points) > 1:
        wide = float(student.ppf(0.975, len(points) - 1) * points.std(ddof=1) / np.sqrt(len(points)))
        row.low, row.high = row.difference - wide, row.difference + wide
    row.worst = float(points.min())
    return row
