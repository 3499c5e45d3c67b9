"""
A stream in which sensors begin to fail
=======================================

`partial_fit` looks at every example once, in order. Here handwritten digits come one after the other, and
every one of them is predicted before it is learnt: progressive validation, which needs no test set.
From the middle of the stream on, a third of the pixels are dead in every image, others in each.

A plain SVM, learnt online, makes fewer errors as long as all is well, and meets the change unprepared. A
model that has integrated such losses out from the start pays a little before, and loses less then.
"""

# %%
# The stream
# ----------
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

from marginout import DropoutSVC
from marginout.noise import Deletion

rng = np.random.default_rng(0)
X, y = load_digits(return_X_y=True)
order = np.concatenate([rng.permutation(len(y)) for _ in range(6)])
X, y = X[order] / 16, y[order]
half = len(y) // 2
X[half:] *= rng.random(X[half:].shape) > 1 / 3

# %%
# Predict, then learn
# -------------------
# All classes are named in the first call. There is no learning rate, and the size of a call does not
# change what is learnt: 50 examples are taken at a time so that the curve has few points.
models = {
    "DropoutSVC, deletion": DropoutSVC(noise=Deletion(1 / 3), expectation="gaussian"),
    "DropoutSVC, no noise": DropoutSVC(noise=0.0),
    "SGDClassifier": SGDClassifier(random_state=0),
}
errors: dict[str, list[float]] = {name: [] for name in models}
for i in range(0, len(y), 50):
    part = slice(i, i + 50)
    for name, model in models.items():
        if i:
            errors[name].append(np.mean(model.predict(X[part]) != y[part]))
        model.partial_fit(X[part], y[part], classes=np.arange(10))

# %%
# Errors, averaged over the last 500 examples.
figure, axes = plt.subplots(figsize=(7, 3.5))
for name, values in errors.items():
    axes.plot(
        50 * np.arange(10, len(values) + 1), 100 * np.convolve(values, np.full(10, 0.1), "valid"), label=name
    )
axes.axvline(half, color="0.7", linestyle="--")
axes.set(xlabel="examples seen", ylabel="error before learning, %", ylim=(0, None))
axes.legend()
figure.tight_layout()
plt.show()
