"""The effect of the offset when pixels are deleted: the figure of docs/offset.md, from 5,000 MNIST digits.

Needs matplotlib (``pip install '.[plot]'``) and ``mnist.npz`` in the folder that MARGINOUT_DATA names. Writes
the figure to the file named on the command line, ``offset.svg`` by default, and the accuracies beside it as
``.csv``: the table of docs/offset.md.
"""

from __future__ import annotations

import csv
import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import LinearSVC

from marginout import DeletionCurveDisplay, MCFClassifier
from marginout.noise import Deletion, Dropout
from marginout.robustness import deletion_curve

RATES = np.linspace(0.0, 0.9, 10)
SHOWN = [0, 5, 7, 8, 9]


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The 5,000 + 5,000 digits of the MCF authors' demonstration."""
    with np.load(Path(os.environ["MARGINOUT_DATA"]) / "mnist.npz") as z:
        train, test = z["mcf_demo_train_idx"], z["mcf_demo_test_idx"]
        X, X_test = (images.reshape(-1, 784) / 255.0 for images in (z["X_train"][train], z["X_test"][test]))
        return X, z["y_train"][train], X_test, z["y_test"][test]


def main(path: str) -> None:
    X, y, X_test, y_test = digits()
    plain = LinearSVC(C=0.01, dual=False).fit(X, y)
    dropout = MCFClassifier(noise=Dropout(0.75)).fit(X, y)
    deletion = MCFClassifier(noise=Deletion(0.75)).fit(X, y)
    settings = {
        "LinearSVC, C = 0.01, as it is": (plain, False),
        "LinearSVC, survivors rescaled": (plain, True),
        "Dropout(0.75), as it is": (dropout, False),
        "Dropout(0.75), survivors rescaled": (dropout, True),
        "Deletion(0.75), as it is": (deletion, False),
    }
    curves = {
        name: deletion_curve(model, X_test, y_test, RATES, 5, rescale=rescale, random_state=0)
        for name, (model, rescale) in settings.items()
    }
    with Path(path).with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["pixels deleted", *(f"{RATES[i]:.0%}" for i in SHOWN)])
        table.writerows([name, *(f"{curve.mean[i]:.3f}" for i in SHOWN)] for name, curve in curves.items())
    _, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    display = DeletionCurveDisplay.from_curve(curves, ax=ax)
    ax.set(xlabel="pixels deleted from the test images (%)", ylim=(0, 1))
    ax.spines[["top", "right"]].set_visible(False)
    plt.rcParams["svg.hashsalt"] = "marginout"
    display.figure_.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "offset.svg")
