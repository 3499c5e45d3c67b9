"""Test errors when whole measurements are missing at prediction time: `python -m benchmarks.missing_groups`.

scikit-learn's breast cancer data have ten measurements of a cell nucleus, each as its mean, its standard
error and its worst value: three columns that are lost together. Models are fitted to complete data. Models
that must see missing values in training are fitted to copies that lost as many measurements. Every test
example then loses 1, 2, 3 or 5 of its ten measurements, drawn at random, as NaN. Parameters are chosen on
the training data alone, by five folds whose held-out examples lose as many measurements. The results are
the errors of a repeated five-fold cross-validation, one line per fold.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
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

from benchmarks.report import RESULTS, write_lines
from marginout import DropoutLogisticRegressionCV, DropoutSVCCV, GridEdgeWarning
from marginout.noise import GroupDeletion, GroupDropout

LOST = 1, 2, 3, 5
MASKS = 5
COPIES = 10
#: Columns 0 to 9 are the means of the ten measurements, 10 to 19 the errors, 20 to 29 the worst values.
MEASUREMENT = np.arange(30) % 10
CS = [0.001, 0.01, 0.1, 1.0, 10.0]
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


def copies(X: Any, y: Any, count: int) -> tuple[Any, Any]:
    """COPIES copies of the training data that have lost `count` measurements."""
    return np.vstack([lose(X, count, seed) for seed in range(COPIES)]), np.tile(y, COPIES)


def candidates(count: int) -> dict[str, Any]:
    """Models that are fitted to complete data, with parameters chosen for a loss of `count` measurements."""
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    noises = [kind(MEASUREMENT, rate) for kind in (GroupDropout, GroupDeletion) for rate in RATES]
    ours = {"cv": folds, "scoring": after_loss(count), "missing": "deleted"}

    def imputed(imputer: Any, model: Any) -> Any:
        pipeline = Pipeline([("scale", StandardScaler()), ("impute", imputer), ("model", model)])
        return GridSearchCV(pipeline, {"model__C": CS}, scoring=after_loss(count), cv=folds)

    logistic = LogisticRegression(max_iter=1000)
    return {
        "LinearSVC, mean imputation": imputed(SimpleImputer(), LinearSVC()),
        "LogisticRegression, mean imputation": imputed(SimpleImputer(), logistic),
        "LogisticRegression, KNNImputer": imputed(KNNImputer(), logistic),
        "LogisticRegression, KNNImputer, nothing chosen": make_pipeline(
            StandardScaler(), KNNImputer(), LogisticRegression()
        ),
        "DropoutSVCCV, no noise": make_pipeline(StandardScaler(), DropoutSVCCV(CS, [0.0], **ours)),
        "DropoutSVCCV, group noise": make_pipeline(StandardScaler(), DropoutSVCCV(CS, noises, **ours)),
        "DropoutLogisticRegressionCV, group noise": make_pipeline(
            StandardScaler(), DropoutLogisticRegressionCV(CS, noises, **ours)
        ),
    }


def fitted(X: Any, y: Any, count: int, whole: dict[str, Any]) -> dict[str, Any]:
    """Fit all models for a loss of `count` measurements; those in `whole` do not depend on the loss."""
    damaged, labels = copies(X, y, count)
    # On complete data an IterativeImputer learns only means, so it is given a copy with missing values.
    iterative = make_pipeline(StandardScaler(), IterativeImputer(random_state=0), LogisticRegression())
    return {
        **whole,
        "HistGradientBoosting, ten copies with losses": HistGradientBoostingClassifier(random_state=0).fit(
            damaged, labels
        ),
        "LogisticRegression, IterativeImputer, nothing chosen": iterative.fit(lose(X, count, 0), y),
        **{name: model.fit(X, y) for name, model in candidates(count).items()},
    }


def run(splits: Any, lost: Sequence[int] = LOST) -> list[dict[str, Any]]:
    """Errors of every model and loss, one line per fold."""
    X, y = load_breast_cancer(return_X_y=True)
    lines = []
    for fold, (train, test) in enumerate(splits.split(X, y)):
        with threadpool_limits(1):  # more threads do not help on data this small
            trees = HistGradientBoostingClassifier(random_state=0).fit(X[train], y[train])
            for count in lost:
                models = fitted(X[train], y[train], count, {"HistGradientBoosting, complete data": trees})
                damaged = [lose(X[test], count, 1000 * fold + mask) for mask in range(MASKS)]
                for name, model in models.items():
                    mean = float(np.mean([error(model, each, y[test]) for each in damaged]))
                    lines.append({"model": name, "lost": count, "fold": fold, "test_error": round(mean, 6)})
    return lines


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=2, help="of the five folds")
    parser.add_argument("--quick", action="store_true", help="one split, one loss: does it run?")
    parser.add_argument("--csv", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", GridEdgeWarning)
    start = time.perf_counter()
    if options.quick:
        lines = run(StratifiedShuffleSplit(n_splits=1, train_size=100, test_size=100, random_state=0), [5])
    else:
        lines = run(RepeatedStratifiedKFold(n_splits=5, n_repeats=options.repeats, random_state=0))
    write_lines(lines, "missing_groups", options.csv)
    for model, count in dict.fromkeys((line["model"], line["lost"]) for line in lines):
        errors = [line["test_error"] for line in lines if (line["model"], line["lost"]) == (model, count)]
        print(f"{model:56}{count} lost {100 * np.mean(errors):6.2f} %")
    print(f"{MASKS} masks for every fold; {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
