"""Half of the pixels die after training: what is left of a digit classifier?

Trains LinearSVC, LogisticRegression and marginout's models on scikit-learn's digits, then
deletes pixels of the test images at random, and prints the error as more of them die.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.svm import LinearSVC

from marginout import DropoutLogisticRegression, DropoutSVC
from marginout.noise import Deletion

RATES = 0.0, 0.1, 0.25, 0.5, 0.75
MASKS = 20


def main() -> None:
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X / 16, y, test_size=0.5, random_state=0, stratify=y)
    noise = Deletion(0.5)
    models = {
        "LinearSVC": LinearSVC(loss="hinge", C=0.3, max_iter=100_000),
        "LogisticRegression": LogisticRegression(C=1.0, max_iter=10_000),
        "DropoutSVC": DropoutSVC(C=0.3, noise=noise, expectation="gaussian", class_weight="balanced"),
        "DropoutLogisticRegression": DropoutLogisticRegression(
            C=1.0, noise=noise, expectation="gaussian", class_weight="balanced"
        ),
    }
    print(f"Digits: {len(y_train)} training images, {len(y_test)} test images, {X.shape[1]} pixels each.")
    print("Test error in % when pixels of the test images are deleted at random")
    print(f"(mean of {MASKS} masks; the models never see the masks, and are not fitted again):\n")
    print(f"{'pixels deleted':<28}" + "".join(f"{rate:>8.0%}" for rate in RATES))
    errors = {}
    for name, model in models.items():
        model.fit(X_train, y_train)
        rng = np.random.default_rng(0)
        errors[name] = [
            np.mean(
                [np.mean(model.predict(Deletion(q).corrupt(X_test, rng)) != y_test) for _ in range(MASKS)]
            )
            for q in RATES
        ]
        print(f"{name:<28}" + "".join(f"{100 * error:>8.1f}" for error in errors[name]))
    plain = min(errors["LinearSVC"][3], errors["LogisticRegression"][3])
    ours = min(errors["DropoutSVC"][3], errors["DropoutLogisticRegression"][3])
    print(
        f"\nWith half of the pixels gone, the best plain model errs on {plain:.0%} of the digits and the best "
        f"dropout model on {ours:.0%}:\nit was trained as if on infinitely many copies with deleted pixels, "
        "at the price of one plain fit."
    )


if __name__ == "__main__":
    main()
