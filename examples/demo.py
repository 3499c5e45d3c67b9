"""Half of the pixels die after training: what is left of a digit classifier?

Trains LinearSVC, LogisticRegression and marginout's models on scikit-learn's digits, then
deletes pixels of the test images at random, and prints the error as more of them die.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.svm import LinearSVC

from marginout import DropoutLogisticRegression, DropoutSVC
from marginout.noise import Deletion

RATES = 0.0, 0.1, 0.25, 0.5, 0.75
MASKS = 20


def models() -> dict[str, ClassifierMixin]:
    """Two plain models, and ours trained for the loss of half of the pixels."""
    noise = Deletion(0.5)
    ours = {"noise": noise, "expectation": "gaussian", "class_weight": "balanced"}
    return {
        "LinearSVC": LinearSVC(loss="hinge", C=0.3, max_iter=100_000),
        "LogisticRegression": LogisticRegression(C=1.0, max_iter=10_000),
        "DropoutSVC": DropoutSVC(C=0.3, **ours),
        "DropoutLogisticRegression": DropoutLogisticRegression(C=1.0, **ours),
    }


def deletion_errors(rates: Iterable[float]) -> dict[str, list[float]]:
    """Test errors of each model, fitted once, as pixels of the test images are deleted."""
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X / 16, y, test_size=0.5, random_state=0, stratify=y)
    errors = {}
    for name, model in models().items():
        model.fit(X_train, y_train)
        rng = np.random.default_rng(0)
        errors[name] = [
            float(np.mean([1 - model.score(Deletion(q).corrupt(X_test, rng), y_test) for _ in range(MASKS)]))
            for q in rates
        ]
    return errors


def main() -> None:
    print("scikit-learn's digits, half for training, half for testing. Test error in % as pixels")
    print(f"of the test images are deleted at random (mean of {MASKS} masks; no model is fitted again):\n")
    print(f"{'pixels deleted':<28}" + "".join(f"{rate:>8.0%}" for rate in RATES))
    errors = deletion_errors(RATES)
    for name, row in errors.items():
        print(f"{name:<28}" + "".join(f"{100 * error:>8.1f}" for error in row))
    half = {name: row[RATES.index(0.5)] for name, row in errors.items()}
    plain = min(half["LinearSVC"], half["LogisticRegression"])
    ours = min(half["DropoutSVC"], half["DropoutLogisticRegression"])
    print(f"\nWith half of the pixels gone the best plain model errs on {plain:.0%} of the digits, the best")
    print(f"dropout model on {ours:.0%}: it was trained as if on infinitely many copies with dead pixels, at")
    print(
        "the price of one fit. While all pixels live it errs more: the rate to train for is yours to choose."
    )


if __name__ == "__main__":
    main()
