"""
Which noise?
============

Train for what will happen at prediction time. Here one linear SVM for each of four noises is trained on
scikit-learn's digits and tested under all of them: rows are the noise in training, columns the noise at
test time.
"""

# %%
# Four corruptions
# ----------------
# :class:`~marginout.noise.Deletion` leaves the survivors unchanged, as a dead pixel leaves its
# neighbours. :class:`~marginout.noise.Dropout` rescales them, so that a score keeps its mean.
# :class:`~marginout.noise.Gaussian` adds the same noise to every pixel, :class:`~marginout.noise.Poisson`
# more noise to bright pixels, as in photon counts.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from marginout import DropoutSVC
from marginout.noise import Deletion, Dropout, Gaussian, Poisson
from marginout.robustness import corrupt

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(
    X / 4, y, test_size=0.5, random_state=0, stratify=y
)  # up to 4 photons

noises = {
    "none": Dropout(0.0),
    "Dropout(0.5)": Dropout(0.5),
    "Deletion(0.5)": Deletion(0.5),
    "Gaussian(4)": Gaussian(4.0),
    "Poisson": Poisson(),
}
fig, axes = plt.subplots(1, len(noises), figsize=(8, 2), layout="constrained")
for ax, (name, noise) in zip(axes, noises.items(), strict=True):
    ax.imshow(corrupt(X_test[:1], noise, random_state=0).reshape(8, 8), cmap="gray", vmin=-4, vmax=8)
    ax.set(xticks=[], yticks=[], title=name)
plt.show()

# %%
# Errors
# ------
C = 0.03
settings = {"expectation": "gaussian", "class_weight": "balanced", "max_iter": 10_000}
models = {
    name: DropoutSVC(C, noise=noise, loss="hinge", **settings).fit(X, y) for name, noise in noises.items()
}
errors = np.array(
    [
        [
            np.mean(
                [1 - model.score(corrupt(X_test, noise, random_state=seed), y_test) for seed in range(20)]
            )
            for noise in noises.values()
        ]
        for model in models.values()
    ]
)
fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
shown = errors / errors.min(axis=0)
ax.imshow(shown, cmap="viridis_r", vmin=1, vmax=2)
for (row, column), error in np.ndenumerate(errors):
    dark = shown[row, column] > 1.5
    ax.text(column, row, f"{100 * error:.1f}", ha="center", va="center", color="white" if dark else "black")
ax.set_xticks(range(len(noises)), noises, rotation=20)
ax.set_yticks(range(len(noises)), noises)
ax.set(xlabel="tested under", ylabel="trained for", title="test error (%); bright is best in its column")
plt.show()

# %%
# The best model in each column:
for name, column in zip(noises, errors.T, strict=True):
    best = list(noises)[int(column.argmin())]
    print(f"tested with {name:14s} best trained for {best:14s} {column.min():.3f}, plain SVM {column[0]:.3f}")

# %%
# Training for a heavy noise costs accuracy on whole images and gains several times as much under that
# noise. Dropout and deletion can replace each other here; additive noise is different, because it also
# changes the empty pixels at the border.
