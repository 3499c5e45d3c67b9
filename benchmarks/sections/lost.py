"""Test errors when columns of tables, or pixels of digits, are NaN at prediction time.

Models are fitted to complete data, except those on copies with losses. Nothing is chosen: every model has the
parameters that it is shown with, or its defaults.

Tables: nine tables of TabFSBench (Cheng et al., ICML 2025), whose test rows lose 0 to 100 % of their columns.
The split is that of its authors: train_test_split, a fifth to test, seed 42. Sets of columns are drawn, and
these columns are NaN in all test rows. All models have the same numbers: scaled columns, one-hot categories,
and days, hours, months and weekdays of dates; what belongs to a column is lost with it.

Digits: every pixel of every test image is NaN with the same probability, independently.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import LabelEncoder, OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks import problems
from benchmarks.options import Options
from benchmarks.report import Report, Row
from marginout import (
    DropoutLogisticRegression,
    DropoutSVR,
    ExplicitCorruptionClassifier,
    ExplicitCorruptionRegressor,
    GaussianImputer,
)
from marginout.noise import GroupDropout, GroupMissing, Missing

SHARES = 0.0, 0.2, 0.4, 0.6, 0.8, 1.0
PIXELS = 0.0, 0.2, 0.5, 0.8
#: Sets of columns, or masks, that are drawn for each share, the same for all models.
DRAWS = 5
#: Copies, and rate of lost columns, of the trees that are trained for the loss.
COPIES, RATE = 5, 0.5
ITERATIVE = "LogisticRegression, IterativeImputer"
#: A category is a feature of its own if it has this share of the rows.
FREQUENT = 0.01
#: Training rows up to which KNNImputer is tried: its time grows with their square.
NEAR = 5000

Models = dict[str, Any]


def run_columns(options: Options) -> Report:
    """Errors and R² of every model on every table of TabFSBench and share, on one thread."""
    report = Report()
    for name in options.few(problems.TABFS, 2):
        frame = problems.tabfs(name)
        frame = frame if not options.quick else frame.iloc[:: max(1, len(frame) // 200)]
        with threadpool_limits(limits=1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            _table(report, name, frame, options)
    return report


def run_pixels(options: Options) -> Report:
    """Errors of every model on scikit-learn's digits and USPS by share of pixels, on one thread."""
    report = Report()
    loads = (lambda: problems.bundled("digits"), problems.usps)
    for load in options.few(loads):
        problem = load().thin(options.rows(150))
        with threadpool_limits(limits=1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            _pixels(report, problem, options)
    return report


def _pixels(report: Report, problem: problems.Problem, options: Options) -> None:
    n, d = problem.X.shape
    models = classifiers(np.arange(d), n)
    if d < 100:  # with more pixels it takes minutes
        imputer = IterativeImputer(random_state=0)
        models[ITERATIVE] = make_pipeline(imputer, LogisticRegression(max_iter=1000))
    for model, make in options.few(list(models.items()), 3):
        begin = time.process_time()
        # From complete data an IterativeImputer learns only means.
        X = Missing(RATE).corrupt(problem.X, 0) if model == ITERATIVE else problem.X
        fitted = make.fit(X, problem.y)
        for share in options.few(PIXELS, 2):
            draws = DRAWS if share else 1
            copies = (Missing(share).corrupt(problem.X_test, seed) for seed in range(draws))
            scores = [score(fitted, X, problem.y_test, classify=True) for X in copies]
            line = Row(problem.name, model, rate=share, repeats=draws, n=n, d=d)
            line.test_error = 1 - float(np.mean(scores))
            report.rows.append(line)
        print(f"{problem.name}, {model}: {time.process_time() - begin:.1f} s", flush=True)


def _table(report: Report, name: str, frame: Any, options: Options) -> None:
    target = frame.columns[-1]
    classify = frame[target].dtype.kind not in "fi" or frame[target].nunique() < 10
    y = LabelEncoder().fit_transform(frame[target]) if classify else frame[target].to_numpy(np.float64)
    X, columns = numbers(frame.drop(columns=target), len(frame))
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, random_state=42)
    scale = StandardScaler().fit(X)
    X, X_test = scale.transform(X), scale.transform(X_test)
    count = int(columns.max()) + 1
    models = (classifiers if classify else regressors)(columns, len(X))
    for model, make in options.few(list(models.items()), 4):
        begin = time.process_time()
        fitted = make.fit(X, y)
        for share in options.few(SHARES, 3):
            scores = [
                score(fitted, np.where(np.isin(columns, lost), np.nan, X_test), y_test, classify)
                for lost in drawn(count, share)
            ]
            line = Row(name, model, rate=share, repeats=len(scores), n=len(X), d=X.shape[1])
            if classify:
                line.test_error = 1 - float(np.mean(scores))
            else:
                line.r2 = float(np.mean(scores))
            report.rows.append(line)
        print(f"{name}, {model}: {time.process_time() - begin:.1f} s", flush=True)


def numbers(frame: Any, n: int) -> tuple[Any, Any]:
    """The columns of a table as numbers, and the number of the column that each feature comes from."""
    parts, sources = [], []
    for number, name in enumerate(frame.columns):
        column = frame[name]
        if column.dtype.kind not in "fi":
            if column.nunique() == n:  # in these tables, a date
                when = pandas.to_datetime(column)
                values = [
                    when.dt.day_of_year + 366 * when.dt.year,
                    when.dt.hour,
                    when.dt.month,
                    when.dt.day_of_week,
                ]
                part = np.column_stack(values).astype(float)
            else:
                encoder = OneHotEncoder(min_frequency=FREQUENT, sparse_output=False)
                part = encoder.fit_transform(column.to_numpy(object)[:, None])
        else:
            part = column.to_numpy(np.float64)[:, None]
        parts.append(part)
        sources += [number] * part.shape[1]
    return np.hstack(parts), np.array(sources)


def drawn(count: int, share: float) -> list[Any]:
    """Sets of columns, the nearest whole number to a share of them; one set where all sets are the same."""
    size, rng = round(count * share), np.random.default_rng(42)
    draws = DRAWS if 0 < size < count else 1
    return [rng.permutation(count)[:size] for _ in range(draws)]


def score(model: Any, X: Any, y: Any, classify: bool) -> float:
    """Accuracy or R² on X as given."""
    said = np.asarray(model.predict(X))
    if classify:
        return float(np.mean(said == y))
    return float(1 - np.sum((said - y) ** 2) / np.sum((y - y.mean()) ** 2))


def classifiers(columns: Any, n: int) -> Models:
    """Models by name, for features that are lost by columns."""
    trees = boosted("Classifier", HistGradientBoostingClassifier(random_state=0))
    ours = {"noise": "auto", "missing": "conditional"}
    return {
        **_linear("LogisticRegression", lambda: LogisticRegression(max_iter=1000), n),
        "DropoutLogisticRegression, conditional": DropoutLogisticRegression(**ours),
        "DropoutLogisticRegression, deleted": DropoutLogisticRegression(
            noise=GroupDropout(columns, RATE), missing="deleted"
        ),
        **_around(trees, ExplicitCorruptionClassifier, columns),
    }


def regressors(columns: Any, n: int) -> Models:
    """The same for numbers; those of the SVR are scaled."""

    def scaled(noise: Any, missing: str) -> Any:
        model = DropoutSVR(noise=noise, missing=missing)
        return TransformedTargetRegressor(model, transformer=StandardScaler(), check_inverse=False)

    trees = boosted("Regressor", HistGradientBoostingRegressor(random_state=0))
    return {
        **_linear("Ridge", Ridge, n),
        "DropoutSVR, conditional": scaled("auto", "conditional"),
        "DropoutSVR, deleted": scaled(GroupDropout(columns, RATE), "deleted"),
        **_around(trees, ExplicitCorruptionRegressor, columns),
    }


def _linear(name: str, make: Callable[[], Any], n: int) -> Models:
    imputers = {"mean": SimpleImputer(), "KNNImputer": KNNImputer(), "GaussianImputer": GaussianImputer()}
    if n > NEAR:
        del imputers["KNNImputer"]
    return {f"{name}, {way}": make_pipeline(imputer, make()) for way, imputer in imputers.items()}


def boosted(kind: str, histogram: Any) -> Models:
    """Boosted trees with their defaults: those of scikit-learn, and of packages that are installed."""
    found = {"HistGradientBoosting": histogram}
    for name, module, letters, more in (
        ("XGBoost", "xgboost", "XGB", {}),
        ("LightGBM", "lightgbm", "LGBM", {"verbose": -1, "deterministic": True, "force_row_wise": True}),
    ):
        if find_spec(module) is None:
            print(f"{name} skipped: pip install '.[bench]'", flush=True)
            continue
        make = getattr(import_module(module), f"{letters}{kind}")
        found[name] = make(random_state=0, n_jobs=1, **more)
    return found


def _around(trees: Models, corrupted: Any, columns: Any) -> Models:
    """Trees with NaN as it comes, behind the imputer, and trained on copies that lose columns."""
    found: Models = {}
    for name, model in trees.items():
        found[f"{name}, NaN"] = model
        found[f"{name}, GaussianImputer"] = make_pipeline(GaussianImputer(), model)
        noise = GroupMissing(columns, RATE)
        found[f"{name}, copies with losses"] = corrupted(model, noise=noise, n_copies=COPIES, random_state=0)
    return found
