"""Half of the pixels, or three quarters, vanish after training: `python -m benchmarks.mnist_deletion`.

The first 10,000 training digits and all test digits of MNIST, from the folder in MARGINOUT_DATA. For
each deletion rate, every model's parameters are chosen on the last 2,000 of the training digits with as
many pixels deleted; the model is then fitted to all 10,000 and tested, as it is, on the test digits.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from benchmarks import problems
from benchmarks.report import RESULTS, Report, Row, write
from marginout import DropoutSVC, FeatureDeletionSVC, MCFClassifier
from marginout.noise import Deletion
from marginout.robustness import deletion_curve

RATES = 0.5, 0.75
TRAIN, HELD_OUT, MASKS = 10_000, 2_000, 5


def candidates() -> dict[str, list[Any]]:
    """The models and the parameters they choose from."""
    noises = [Deletion(rate) for rate in RATES]
    ours = {"expectation": "gaussian", "class_weight": "balanced"}
    return {
        "LinearSVC": [LinearSVC(C=C, dual=False) for C in (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 1.0)],
        "FeatureDeletionSVC": [FeatureDeletionSVC(C=0.1, n_deletions=K, tol=1e-2) for K in (1, 5)],
        "DropoutSVC": [DropoutSVC(C=C, noise=noise, **ours) for C in (0.01, 0.1) for noise in noises],
        "MCFClassifier, quadratic": [
            MCFClassifier("quadratic", C=C, noise=noise) for C in (0.1, 100.0) for noise in noises
        ],
        "MCFClassifier, logistic": [MCFClassifier(C=C, noise=noise) for C in (0.3, 3.0) for noise in noises],
    }


def run() -> Iterator[tuple[str, float, float, float, Any]]:
    """(model, rate, test error, its standard deviation over masks, chosen parameters)."""
    mnist = problems.mnist()
    X, y = mnist.X[:TRAIN], mnist.y[:TRAIN]
    split = TRAIN - HELD_OUT
    for name, models in candidates().items():
        fitted = [clone(model).fit(X[:split], y[:split]) for model in models]
        for rate in RATES:
            held_out = [
                deletion_curve(model, X[split:], y[split:], [rate], MASKS, random_state=0).mean[0]
                for model in fitted
            ]
            best = models[max(range(len(models)), key=held_out.__getitem__)]
            final = clone(best).fit(X, y)
            curve = deletion_curve(final, mnist.X_test, mnist.y_test, [rate], MASKS, random_state=1)
            yield name, rate, 1 - curve.mean[0], curve.std[0], best


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    start = time.perf_counter()
    plain: dict[float, float] = {}
    report = Report()
    print(f"{'model':26}{'deleted':>8}{'error':>8}{'± mask':>8}{'less':>7}   chosen")
    for name, rate, error, spread, best in run():
        base = plain.setdefault(rate, error)
        report.rows.append(Row("mnist", name, best.C, rate, test_error=error, test_error_sd=spread))
        print(f"{name:26}{rate:8.0%}{error:8.4f}{spread:8.4f}{1 - error / base:7.0%}   {best!r}", flush=True)
    print(f"{time.perf_counter() - start:.0f} s")
    write(report, "mnist_deletion", RESULTS)


if __name__ == "__main__":
    main()
