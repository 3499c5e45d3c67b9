"""
A stream in which sensors begin to fail
=======================================

`partial_fit` uses every example once, in order. Here handwritten digits arrive one after the other, and
each is predicted before it is learnt: progressive validation, which needs no test set. From the middle of
the stream on, a third of the pixels are dead in every image, different ones in each.
"""

# %%
# The stream
# ----------
# One stream is one pass over scikit-learn's digits in a random order: no image comes twice.
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

from marginout import DropoutSVC
from marginout.noise import Deletion

IMAGES, DIGITS = load_digits(return_X_y=True)
PART, HALF = 50, 900


def progressive(make, seed):
    """Errors on the parts of one stream, each predicted before it is learnt."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(DIGITS))
    X, y = IMAGES[order] / 16, DIGITS[order]
    X[HALF:] *= rng.random(X[HALF:].shape) > 1 / 3
    model = make().partial_fit(X[:PART], y[:PART], classes=np.arange(10))  # all classes are named at once
    errors = []
    for i in range(PART, len(y), PART):
        part = slice(i, i + PART)
        errors.append(np.mean(model.predict(X[part]) != y[part]))
        model.partial_fit(X[part], y[part])
    return errors


# %%
# Parameters
# ----------
# For every kind of model the parameters with the fewest errors on three streams in other orders are
# chosen. Ours has no learning rate to choose, and the size of a call does not change the result.
candidates = {
    "DropoutSVC, deletion": [
        partial(DropoutSVC, C, noise=Deletion(rate), loss="hinge", expectation="bound")
        for C in (1, 10, 100)
        for rate in (0.1, 0.2, 1 / 3)
    ],
    "DropoutSVC, no noise": [
        partial(DropoutSVC, C, noise=0.0, loss="hinge", expectation="bound") for C in (0.1, 1, 10)
    ],
    "SGDClassifier": [
        partial(SGDClassifier, alpha=alpha, average=average, random_state=0)
        for alpha in (1e-7, 1e-6, 1e-5, 1e-4, 1e-3)
        for average in (True, False)
    ],
}
chosen = {
    name: min(makes, key=lambda make: np.mean([progressive(make, seed) for seed in (100, 101, 102)]))
    for name, makes in candidates.items()
}
for name, make in chosen.items():
    print(f"{name}: {make()}")

# %%
# Predict, then learn
# -------------------
# Means over ten streams, in per cent, before and after the pixels begin to fail; in brackets the
# difference from the model without noise and its standard error.
curves = {
    name: 100 * np.array([progressive(make, seed) for seed in range(10)]) for name, make in chosen.items()
}
change = HALF // PART - 1
phases = {"whole images": slice(change // 2, change), "pixels dead": slice(change, None)}
for name, errors in curves.items():
    cells = []
    for phase, parts in phases.items():
        own, plain = (errors[:, parts].mean(axis=1), curves["DropoutSVC, no noise"][:, parts].mean(axis=1))
        spread = np.std(own - plain, ddof=1) / np.sqrt(len(own))
        cells.append(f"{phase} {own.mean():5.1f} ({np.mean(own - plain):+.1f} ± {spread:.1f})")
    print(f"{name:26s}", "   ".join(cells))

figure, axes = plt.subplots(figsize=(7, 3.5))
for name, errors in curves.items():
    axes.plot(PART * np.arange(1, errors.shape[1] + 1), errors.mean(axis=0), label=name)
axes.axvline(HALF, color="0.7", linestyle="--")
axes.set(xlabel="examples learnt", ylabel="error before learning, %", ylim=(0, None))
axes.legend()
figure.tight_layout()
plt.show()

# %%
# A model that integrates such losses out from the start errs a little more while images are whole, and
# less once pixels fail: the table above says by how much.
