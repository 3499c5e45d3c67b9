"""
Choosing the rate
=================

:class:`~marginout.DropoutSVCCV` fits a grid of C and noise by cross-validation, all cells in batches that
start from one another. :class:`~marginout.ValidationMapDisplay` shows the grid. This page explains how to
read it, on one data set where noise seems to help and one where it does not.
"""

# %%
# Two searches
# ------------
# Digits 3 and 8, each with half of its pixels deleted; and iris without setosa, where two of four clean
# features decide the class.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, load_iris
from sklearn.preprocessing import scale

from marginout import DropoutSVCCV, GridEdgeWarning, PathDisplay, ValidationMapDisplay
from marginout.noise import Deletion

images, digit = load_digits(return_X_y=True)
pair = (digit == 3) | (digit == 8)
damaged = Deletion(0.5).corrupt(images[pair] / 16, 0)  # what the camera delivers, in training as in use
flowers, species = load_iris(return_X_y=True)
problems = {
    "damaged 3 and 8": (damaged, digit[pair]),
    "iris": (scale(flowers[species > 0]), species[species > 0]),
}
rates = [0.0, *np.arange(1, 10) / 10, 0.95]
searches = {}
for name, (X, y) in problems.items():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", GridEdgeWarning)
        searches[name] = search = DropoutSVCCV(
            np.logspace(-2, 3, 6), rates, cv=5, loss="hinge", expectation="bound"
        ).fit(X, y)
    plain = search.scores_.mean(axis=0)[:, 0].max()
    print(f"{name}: accuracy {search.best_score_:.3f} at C = {search.C_:g}, rate {search.noise_}; ", end="")
    print(f"without noise {plain:.3f} at its best C")
    for warning in caught:
        print("   ", warning.message)

# %%
# The maps
# --------
# Follow the ridge of good cells. Where it bends towards heavier noise as C grows, the noise regularises.
# Where it stays at rate 0, corruption does not help, and the plain model is as good as any. Differences
# as small as the standard error over the folds are not meaningful: ``select="one_se"`` takes the heaviest
# noise within one standard error of the best.
fig, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
for ax, (name, search) in zip(axes, searches.items(), strict=True):
    display = ValidationMapDisplay.from_estimator(search, ax=ax)
    ax.set_title(f"{name}\n{ax.get_title()}", fontsize="medium")
plt.show()

# %%
# The standard errors of both best cells, for comparison with the maps:
for name, search in searches.items():
    cell = np.unravel_index(search.best_index_, search.scores_.shape[1:])
    folds = search.scores_[(slice(None), *cell)]
    print(f"{name}: {folds.mean():.3f} ± {folds.std(ddof=1) / np.sqrt(len(folds)):.3f}")

# %%
# What the rate does to the weights
# ---------------------------------
# :class:`~marginout.PathDisplay` shows the largest weights as functions of the rate, at one C. Unbiased
# dropout is a ridge that is stronger for a feature of large variance. Most weights shrink, first those of
# pixels that others can replace. A few that replace others grow before they shrink.
X, y = problems["damaged 3 and 8"]
display = PathDisplay.from_estimator(searches["damaged 3 and 8"].best_estimator_, X, y, top=10)
display.ax_.set_title("damaged 3 and 8: the ten largest weights along the rate")
plt.show()
