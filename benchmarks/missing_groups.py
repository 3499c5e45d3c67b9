"""Test errors when whole measurements are missing at prediction time: `python -m benchmarks.missing_groups`.

scikit-learn's breast cancer data have ten measurements of a cell nucleus, each as its mean, its standard
error and its worst value: three columns that are lost together. Models are fitted to complete data. Models
that must see missing values in training are fitted to copies that lost as many measurements; the reduced
models are one model per pattern of what is lost, each fitted to the columns that are left (Saar-Tsechansky
and Provost, JMLR 8, 2007). Every test example then loses 1, 2, 3 or 5 of its ten measurements, drawn at
random, as NaN. Parameters are chosen on the training data alone, by five folds whose held-out examples lose
as many measurements. The results are the errors of a repeated five-fold cross-validation, one line per fold.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    RepeatedStratifiedKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks.peers import PAPER
from benchmarks.report import RESULTS, write_lines
from marginout import DropoutLogisticRegressionCV, DropoutSVCCV, GaussianImputer, GridEdgeWarning
from marginout.noise import GroupDeletion, GroupDropout

LOST = 1, 2, 3, 5
MASKS = 5
COPIES = 10
#: Columns 0 to 9 are the means of the ten measurements, 10 to 19 the errors, 20 to 29 the worst values.
MEASUREMENT = np.arange(30) % 10
CS = [0.001, 0.01, 0.1, 1.0, 10.0, 100.0]
RATES = 0.1, 0.3, 0.5, 0.7


def lose(X: Any, count: int, seed: int) -> Any:
    """X in which every row loses `count` measurements."""
    order = np.random.default_rng(seed).random((len(X), 10)).argsort(axis=1)
    return np.where((order < count)[:, MEASUREMENT], np.nan, X)


def error(model: Any, X: Any, y: Any) -> float:
    """Share of wrong predictions on X.

    `model.score` is not used: a search scores with its own scorer, and the one of this module would remove
    measurements a second time.
    """
    return float(np.mean(model.predict(X) != y))


def after_loss(count: int) -> Callable[..., float]:
    """Scorer for the folds of a search: accuracy after complete examples lose `count` measurements."""

    def score(model: Any, X: Any, y: Any) -> float:
        return 1 - float(np.mean([error(model, lose(X, count, seed), y) for seed in range(MASKS)]))

    return score


class Imputed(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Scaling, an imputer, and a linear model whose C is chosen for a loss of `count` measurements.

    As GridSearchCV over the pipeline, but what does not depend on C is done once. `damaged`: the imputer and
    the model are fitted to a copy that has lost as many, not to complete data.
    """

    def __init__(self, imputer: Any, model: Any, count: int, folds: Any, damaged: bool = False) -> None:
        self.imputer, self.model, self.count, self.folds = imputer, model, count, folds
        self.damaged = damaged

    def fit(self, X: Any, y: Any) -> Imputed:
        whole, X = X, lose(X, self.count, 0) if self.damaged else X
        right = np.zeros(len(CS))
        for train, test in self.folds.split(X, y):
            steps = self._steps()
            Z = steps.fit_transform(X[train])
            held = [steps.transform(lose(whole[test], self.count, seed)) for seed in range(MASKS)]
            for i, C in enumerate(CS):
                model = clone(self.model).set_params(C=C).fit(Z, y[train])
                right[i] += sum(1 - error(model, each, y[test]) for each in held)
        self.C_ = CS[int(right.argmax())]
        self.steps_ = self._steps()
        self.model_ = clone(self.model).set_params(C=self.C_).fit(self.steps_.fit_transform(X), y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X: Any) -> Any:
        return self.model_.predict(self.steps_.transform(X))

    def _steps(self) -> Any:
        return make_pipeline(StandardScaler(), clone(self.imputer))


class Damaged(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A model that is fitted to copies of the training data that have lost `count` measurements."""

    def __init__(self, model: Any, count: int, copies: int = 1) -> None:
        self.model, self.count, self.copies = model, count, copies

    def fit(self, X: Any, y: Any) -> Damaged:
        damaged = np.vstack([lose(X, self.count, seed) for seed in range(self.copies)])
        self.model_ = clone(self.model).fit(damaged, np.tile(y, self.copies))
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X: Any) -> Any:
        return self.model_.predict(X)


class Reduced(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """One model per pattern of what is missing, fitted to the columns that are left when it is asked for."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: Any, y: Any) -> Reduced:
        self.X_, self.y_, self.classes_ = X, y, np.unique(y)
        self.models_: dict[bytes, Any] = {}
        return self

    def predict(self, X: Any) -> Any:
        patterns, rows = np.unique(np.isnan(X), axis=0, return_inverse=True)
        said = np.empty(len(X), dtype=self.classes_.dtype)
        for number, lost in enumerate(patterns):
            key, at = lost.tobytes(), rows.ravel() == number  # NumPy 2.0 gives a column
            if key not in self.models_:
                self.models_[key] = clone(self.model).fit(self.X_[:, ~lost], self.y_)
            said[at] = self.models_[key].predict(X[at][:, ~lost])
        return said


def candidates(count: int) -> dict[str, Any]:
    """Models by their names, with parameters chosen for a loss of `count` measurements."""
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    noises = [kind(MEASUREMENT, rate) for kind in (GroupDropout, GroupDeletion) for rate in RATES]
    search = {"cv": folds, "scoring": after_loss(count)}
    deleted, conditional = ({**search, "missing": missing} for missing in ("deleted", "conditional"))

    def behind(imputer: Any, model: Any) -> Any:
        return Pipeline([("scale", StandardScaler()), ("impute", imputer), ("model", model)])

    def imputed(imputer: Any, model: Any, damaged: bool = False) -> Any:
        return Imputed(imputer, model, count, folds, damaged)

    def ours(model: Any, noises: list[Any], options: dict[str, Any]) -> Any:
        return make_pipeline(StandardScaler(), model(CS, noises, **options))

    logistic = LogisticRegression(max_iter=1000)
    trees = HistGradientBoostingClassifier(random_state=0)
    # On complete data an IterativeImputer learns only means, so it is given a copy with missing values.
    iterative = IterativeImputer(random_state=0)
    reduced = Reduced(LogisticRegression(solver="newton-cholesky"))
    return {
        "HistGradientBoosting, complete data": trees,
        "HistGradientBoosting, ten copies with losses": Damaged(trees, count, COPIES),
        "HistGradientBoosting, GaussianImputer": make_pipeline(GaussianImputer(), trees),
        "LinearSVC, mean imputation": imputed(SimpleImputer(), LinearSVC()),
        "LogisticRegression, mean imputation": imputed(SimpleImputer(), logistic),
        "LogisticRegression, IterativeImputer": imputed(iterative, logistic, damaged=True),
        "LogisticRegression, IterativeImputer, nothing chosen": Damaged(
            behind(iterative, LogisticRegression()), count
        ),
        "LogisticRegression, KNNImputer": imputed(KNNImputer(), logistic),
        "LogisticRegression, KNNImputer, nothing chosen": make_pipeline(
            StandardScaler(), KNNImputer(), LogisticRegression()
        ),
        "LogisticRegression, one model per pattern": make_pipeline(
            StandardScaler(), GridSearchCV(reduced, {"model__C": CS}, **search)
        ),
        "LogisticRegression, GaussianImputer": imputed(GaussianImputer(), logistic),
        "LogisticRegression, GaussianImputer, nothing chosen": behind(
            GaussianImputer(), LogisticRegression()
        ),
        "DropoutSVCCV, deleted, no noise": ours(DropoutSVCCV, [0.0], {**PAPER, **deleted}),
        "DropoutSVCCV, deleted, group noise": ours(DropoutSVCCV, noises, {**PAPER, **deleted}),
        "DropoutLogisticRegressionCV, deleted, group noise": ours(
            DropoutLogisticRegressionCV, noises, deleted
        ),
        "DropoutSVCCV, conditional": ours(DropoutSVCCV, [0.0, *noises], {**PAPER, **conditional}),
        "DropoutLogisticRegressionCV, conditional": ours(
            DropoutLogisticRegressionCV, [0.0, *noises], conditional
        ),
    }


def run(splits: Any, lost: Sequence[int] = LOST, only: str = "") -> list[dict[str, Any]]:
    """Errors of every model with this text in its name, and every loss, one line per fold."""
    X, y = load_breast_cancer(return_X_y=True)
    lines = []
    for fold, (train, test) in enumerate(splits.split(X, y)):
        with threadpool_limits(1):  # more threads do not help on data this small
            for count in lost:
                damaged = [lose(X[test], count, 1000 * fold + mask) for mask in range(MASKS)]
                for name, model in candidates(count).items():
                    if only not in name:
                        continue
                    fitted = model.fit(X[train], y[train])
                    mean = float(np.mean([error(fitted, each, y[test]) for each in damaged]))
                    lines.append({"model": name, "lost": count, "fold": fold, "test_error": round(mean, 6)})
    return lines


def stored(folder: Path) -> list[dict[str, Any]]:
    """The lines of an earlier run."""
    with (folder / "missing_groups.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def merged(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The old lines, those of a model, loss and fold that was run again in their new form."""

    def key(line: dict[str, Any]) -> tuple[str, int, int]:
        return line["model"], int(line["lost"]), int(line["fold"])

    again = {key(line): line for line in new}
    return [again.pop(key(line), line) for line in old] + list(again.values())


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=2, help="of the five folds")
    parser.add_argument("--quick", action="store_true", help="one split, one loss: does it run?")
    parser.add_argument("--only", default="", help="models with this in their name; others as stored")
    parser.add_argument("--csv", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", GridEdgeWarning)
    start = time.perf_counter()
    if options.quick:
        lines = run(StratifiedShuffleSplit(n_splits=1, train_size=100, test_size=100, random_state=0), [1])
    else:
        splits = RepeatedStratifiedKFold(n_splits=5, n_repeats=options.repeats, random_state=0)
        lines = run(splits, only=options.only)
    if options.only:
        lines = merged(stored(options.csv), lines)
    write_lines(lines, "missing_groups", options.csv)
    for model, count in dict.fromkeys((line["model"], line["lost"]) for line in lines):
        own = [line for line in lines if (line["model"], line["lost"]) == (model, count)]
        errors = [float(line["test_error"]) for line in own]
        print(f"{model:56}{count} lost {100 * np.mean(errors):6.2f} %")
    print(f"{MASKS} masks for every fold; {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
