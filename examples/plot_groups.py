"""Which measurement to make twice: breast cancer, ten measurements of three columns each.

A plain SVM and one that is trained for the loss of whole measurements lose one to six of them at
prediction time; and what losing each costs the second. Needs matplotlib (``pip install '.[plot]'``).
Writes the figure to the file named on the command line, ``groups.svg`` by default.
"""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marginout import DropoutSVC, GroupImpactDisplay
from marginout.noise import GroupDeletion
from marginout.robustness import group_impact

MASKS = 20


def models(measurement: np.ndarray) -> dict[str, DropoutSVC]:
    """The same SVM, without noise and with measurements that vanish."""
    noise = GroupDeletion(measurement, 0.3)
    return {
        "plain SVM": DropoutSVC(C=0.1, noise=0.0, missing="deleted"),
        "trained for lost measurements": DropoutSVC(C=0.1, noise=noise, missing="deleted"),
    }


def lose(X: np.ndarray, groups: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """X in which `count` measurements of every row are NaN."""
    order = rng.random((len(X), groups.max() + 1)).argsort(axis=1)
    return np.where((order < count)[:, groups], np.nan, X)


def main(path: str) -> None:
    data = load_breast_cancer()
    names = [name.removeprefix("mean ") for name in data.feature_names[:10]]
    groups = np.arange(30) % 10
    train, test, y_train, y_test = train_test_split(data.data, data.target, test_size=0.5, random_state=0)
    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    lost = range(7)
    for name, model in models(groups).items():
        fitted = make_pipeline(StandardScaler(), model).fit(train, y_train)
        rng = np.random.default_rng(0)
        errors = [
            1 - np.mean([fitted.score(lose(test, groups, count, rng), y_test) for _ in range(MASKS)])
            for count in lost
        ]
        left.plot(lost, 100 * np.array(errors), label=name, linewidth=2)
        print(name, *(f"{error:.3f}" for error in errors))
    left.set(xlabel="measurements missing, of ten", ylabel="test error (%)", ylim=(0, None))
    left.legend(frameon=False)
    impact = group_impact(fitted, test, y_test, np.array(names)[groups], fill=np.nan)
    print(impact)
    GroupImpactDisplay.from_impact(impact, ax=right)
    fig.savefig(path)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "groups.svg")
