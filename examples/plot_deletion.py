"""The figure of the README: the test error of digit classifiers as pixels are deleted.

C, and whether there is an offset, are chosen for every model by cross-validation on the training images,
with half of the held-out pixels deleted. Thin lines are plain models whose C is chosen for whole images.

Needs matplotlib (``pip install '.[plot]'``). Writes the figure to the file named on the
command line, ``deletion.svg`` by default.
"""

from __future__ import annotations

import sys
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from marginout.cli.demo import WHOLE, digits, models, tuned
from marginout.robustness import deletion_curve

STYLES = {
    "LinearSVC": ("#8c8c8c", "--"),
    "LogisticRegression": ("#5b6c7d", ":"),
    "DropoutSVC": ("#c8452d", "-"),
    "DropoutLogisticRegression": ("#1f6f8b", "-"),
}


def main(path: str) -> None:
    rates = np.linspace(0.0, 0.8, 9)
    fig, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    X, X_test, y, y_test = digits()

    def draw(name: str, model: Any, label: str, width: float) -> None:
        curve = deletion_curve(model, X_test, y_test, rates, 20, random_state=0)
        color, line = STYLES[name]
        ax.plot(100 * rates, 100 * (1 - curve.mean), line, color=color, label=label, linewidth=width)

    for name, model in models().items():
        if name in WHOLE:
            draw(name, tuned(model, X, y, 0.0), WHOLE[name], 1)
        draw(name, tuned(model, X, y), name, 2)
    ax.set(xlabel="pixels deleted from the test images (%)", ylabel="test error (%)", ylim=(0, None))
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    plt.rcParams["svg.hashsalt"] = "marginout"
    fig.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "deletion.svg")
