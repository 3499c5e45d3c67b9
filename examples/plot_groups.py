"""
Which measurement to make twice
===============================

Features are often missing in groups, and they arrive as NaN, not as zeros. scikit-learn's breast cancer
data have ten measurements of three columns each: a mean, its standard error and the worst value. Here
whole measurements are missing at prediction time.
"""

# %%
# Train for missing groups
# ------------------------
# :class:`~marginout.noise.GroupDeletion` deletes the three columns of a measurement together. With
# ``missing="deleted"`` a model treats NaN as dead features;
# :class:`~sklearn.preprocessing.StandardScaler` keeps NaN. The plain SVM has no noise, so its survivors
# are rescaled to compensate for the dead features.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marginout import DropoutSVC, GroupImpactDisplay
from marginout.noise import GroupDeletion
from marginout.robustness import group_impact

data = load_breast_cancer()
X, X_test, y, y_test = train_test_split(data.data, data.target, test_size=0.5, random_state=0)
names = np.array([name.removeprefix("mean ") for name in data.feature_names[:10]])
measurement = np.arange(30) % 10  # columns 0, 10 and 20 are the radius

noises = {"plain SVM": 0.0, "trained for lost measurements": GroupDeletion(measurement, 0.3)}
models = {
    name: make_pipeline(
        StandardScaler(), DropoutSVC(C=0.1, noise=noise, missing="deleted", loss="hinge", expectation="bound")
    ).fit(X, y)
    for name, noise in noises.items()
}

# %%
# Lose measurements
# -----------------
# Every test example loses some of its ten measurements, drawn at random; twenty draws.


def lose(X, count, rng):
    """X in which `count` measurements of every row are NaN."""
    order = rng.random((len(X), 10)).argsort(axis=1)
    return np.where((order < count)[:, measurement], np.nan, X)


fig, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for name, model in models.items():
    rng = np.random.default_rng(0)
    scores = [
        [model.score(lose(X_test, count, rng), y_test) for _ in range(20)]
        for count in range(7)
    ]  # fmt: skip
    errors = 100 * (1 - np.mean(scores, axis=1))
    ax.plot(errors, label=name, linewidth=2)
    print(f"{name}: {', '.join(f'{error:.1f} %' for error in errors)}")
ax.set(xlabel="measurements missing, of ten", ylabel="test error (%)", ylim=(0, None))
_ = ax.legend(frameon=False)

# %%
# Which one matters?
# ------------------
# :func:`~marginout.robustness.group_impact` removes each measurement, and each pair, without refitting
# the model.
impact = group_impact(model, X_test, y_test, names[measurement], fill=np.nan)
print(impact)
GroupImpactDisplay.from_impact(impact)
plt.show()
