"""Whole measurements are missing at prediction time: `python -m benchmarks.missing_groups`.

scikit-learn's breast cancer data have ten measurements of a cell nucleus, each as its mean, its standard
error and its worst value: three columns that are lost together. Models are fitted to complete data. Every
test example then loses 1, 2, 3 or 5 of its ten measurements, drawn at random, as NaN. All parameters are
chosen on the training data alone, by five folds whose held-out examples lose as many measurements; the
errors are means over a repeated five-fold cross-validation.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from marginout import DropoutLogisticRegressionCV, DropoutSVCCV, GridEdgeWarning
from marginout.noise import GroupDeletion, GroupDropout

LOST = 1, 2, 3, 5
MASKS = 5
#: Columns 0 to 9 are the means of the ten measurements, 10 to 19 the errors, 20 to 29 the worst values.
MEASUREMENT = np.arange(30) % 10
CS = [0.001, 0.01, 0.1, 1.0, 10.0]
RATES = 0.1, 0.3, 0.5, 0.7


def lose(X: Any, count: int, seed: int) -> Any:
    """X in which every row loses `count` measurements."""
    order = np.random.default_rng(seed).random((len(X), 10)).argsort(axis=1)
    return np.where((order < count)[:, MEASUREMENT], np.nan, X)


def after_loss(count: int) -> Callable[..., float]:
    """A scorer: accuracy on data that lose `count` measurements."""

    def score(model: Any, X: Any, y: Any) -> float:
        return float(np.mean([model.score(lose(X, count, seed), y) for seed in range(MASKS)]))

    return score


def candidates(count: int) -> dict[str, Any]:
    """Models that choose their parameters for a loss of `count` measurements."""
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    noises = [kind(MEASUREMENT, rate) for kind in (GroupDropout, GroupDeletion) for rate in RATES]
    ours = {"cv": folds, "scoring": after_loss(count), "missing": "deleted"}

    def imputed(model: Any, name: str) -> Any:
        pipeline = make_pipeline(SimpleImputer(), StandardScaler(), model)
        return GridSearchCV(pipeline, {f"{name}__C": CS}, scoring=after_loss(count), cv=folds)

    return {
        "LinearSVC, mean imputation": imputed(LinearSVC(), "linearsvc"),
        "LogisticRegression, mean imputation": imputed(
            LogisticRegression(max_iter=1000), "logisticregression"
        ),
        "DropoutSVCCV, no noise": make_pipeline(StandardScaler(), DropoutSVCCV(CS, [0.0], **ours)),
        "DropoutSVCCV, group noise": make_pipeline(StandardScaler(), DropoutSVCCV(CS, noises, **ours)),
        "DropoutLogisticRegressionCV, group noise": make_pipeline(
            StandardScaler(), DropoutLogisticRegressionCV(CS, noises, **ours)
        ),
    }


def run(repeats: int) -> dict[tuple[str, int], list[float]]:
    """Errors of every model and loss, one per fold."""
    X, y = load_breast_cancer(return_X_y=True)
    errors: dict[tuple[str, int], list[float]] = {}
    splits = RepeatedStratifiedKFold(n_splits=5, n_repeats=repeats, random_state=0)
    for fold, (train, test) in enumerate(splits.split(X, y)):
        with threadpool_limits(1):  # more threads only wait for each other on data this small
            trees = HistGradientBoostingClassifier(random_state=0).fit(X[train], y[train])
        for count in LOST:
            models = {name: model.fit(X[train], y[train]) for name, model in candidates(count).items()}
            for name, fitted in {"HistGradientBoosting": trees, **models}.items():
                scores = [fitted.score(lose(X[test], count, 1000 * fold + i), y[test]) for i in range(MASKS)]
                errors.setdefault((name, count), []).append(1 - float(np.mean(scores)))
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=2)
    repeats = parser.parse_args().repeats
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", GridEdgeWarning)
    start = time.perf_counter()
    errors = run(repeats)
    print("| test error, % | " + " | ".join(f"{count} of 10 lost" for count in LOST) + " |")
    print("|---|" + "---:|" * len(LOST))
    for name in dict.fromkeys(name for name, _ in errors):
        cells = [f"{100 * np.mean(errors[name, count]):.2f}" for count in LOST]
        print(f"| {name} | " + " | ".join(cells) + " |")
    print(f"{repeats} x 5 folds, {MASKS} masks each; {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
