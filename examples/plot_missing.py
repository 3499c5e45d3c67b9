"""
Features that are missing, and known to be
==========================================

Values are often missing once a model is in use, and it is known which: they are NaN. This page compares what
can be done about it, on digits whose pixels are NaN at prediction time only.
"""

# %%
# What to put in the place of NaN
# -------------------------------
# All models are trained on complete images.
#
# - The mean of a pixel is what most pipelines take.
# - Boosted trees take NaN as it is, but these have never seen one.
# - :class:`~marginout.GaussianImputer` takes the conditional mean, given the pixels that are known. It works
#   in front of any model.
#
# :func:`~marginout.robustness.deletion_curve` with ``fill=np.nan`` scores all of them, as they are.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from marginout import DeletionCurveDisplay, GaussianImputer
from marginout.noise import Missing
from marginout.robustness import deletion_curve, expected_score

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X / 16, y, test_size=0.5, random_state=0)
trees, logistic = HistGradientBoostingClassifier(max_iter=30), LogisticRegression(max_iter=1000)
models = {
    "trees, NaN": trees,
    "trees, GaussianImputer": make_pipeline(GaussianImputer(), trees),
    "logistic, mean": make_pipeline(SimpleImputer(), logistic),
    "logistic, GaussianImputer": make_pipeline(GaussianImputer(), logistic),
}
rates = [0, 0.2, 0.4, 0.6, 0.8]
curves = {}
for name, model in models.items():
    model.fit(X, y)
    curves[name] = deletion_curve(model, X_test, y_test, rates, 2, fill=np.nan, random_state=0)
    print(f"{name}: error {(100 * (1 - curves[name].mean)).round(1)} %")
_ = DeletionCurveDisplay.from_curve(curves)

# %%
# What is put in
# --------------
# Half of the pixels of these digits are NaN (blue). Below them are the conditional means.
holes = Missing(0.5).corrupt(X_test, 0)
filled = GaussianImputer().fit(X).transform(holes[:6])
fig, axes = plt.subplots(2, 6, figsize=(6.4, 2.4), layout="constrained")
colours = plt.get_cmap("gray_r").with_extremes(bad="tab:blue")
for column, images in enumerate(zip(holes, filled, strict=False)):
    for ax, image in zip(axes[:, column], images, strict=True):
        ax.imshow(image.reshape(8, 8), cmap=colours, vmin=0, vmax=1)
        ax.set_axis_off()

# %%
# How far to trust a prediction
# -----------------------------
# :func:`~marginout.robustness.expected_score` measures, on folds of the training data, which accuracy to
# expect where a share of a row is missing. New rows miss what they miss: `rows` tells the share and the
# accuracy to expect for each.
expected = expected_score(model, X, y, rates, 1, cv=3, random_state=0)
print(expected)
share, score = expected.rows(holes)
print(f"{score.mean():.3f} expected on these rows, {model.score(holes, y_test):.3f} found")
plt.show()
