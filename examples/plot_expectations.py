r"""
Comparing expectations
======================

The expected hinge loss of a noisy score has no closed form. Two functions replace it: the paper's
*bound*, which is never below the true value, and the value for a *Gaussian* score of the same mean and
variance. Both depend on these two moments,

.. math:: \varphi_\text{bound} = \tfrac12\bigl(z + \sqrt{z^2 + v}\bigr), \qquad
          \varphi_\text{gaussian} = z\,\Phi(z/\sqrt v) + \sqrt v\,\phi(z/\sqrt v), \qquad z = \ell - y\,m,

with :math:`\Phi` and :math:`\phi` the normal distribution and its density. This page compares them with
the true value.
"""

# %%
# One example
# -----------
# With dropout at rate 0.8 of D equal features the score is a scaled binomial variable: its expected loss
# is a finite sum.
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import binom
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from marginout import DropoutSVC
from marginout.losses import Hinge
from marginout.noise import Dropout
from marginout.robustness import corrupt

means = np.linspace(-1, 4, 101)
fig, axes = plt.subplots(1, 3, figsize=(9, 3.2), sharey=True, layout="constrained")
for ax, D in zip(axes, (4, 16, 64), strict=True):
    k = np.arange(D + 1)
    scores = means[:, None] * 5 * k / D  # k survivors of D, each scaled by 1/(1 - 0.8)
    exact = binom.pmf(k, D, 0.2) @ np.maximum(0, 1 - scores).T
    y, v = np.ones_like(means), 4 * means**2 / D
    ax.plot(means, exact, "k", linewidth=3, alpha=0.3, label="exact")
    ax.plot(means, Hinge(1.0, "bound").jet(means, v, y).value, label="bound")
    ax.plot(means, Hinge(1.0, "gaussian").jet(means, v, y).value, "--", label="gaussian")
    ax.plot(means, np.maximum(0, 1 - means), ":", color="grey", label="without noise")
    ax.set(title=f"{D} features", xlabel="mean score")
axes[0].set_ylabel("expected hinge loss")
axes[0].legend()
plt.show()

# %%
# With four features the score is far from normal, and the Gaussian value lies on either side of the true
# value. With 64 features the two can hardly be distinguished. The bound is above the true value
# everywhere: at the margin by 0.1 standard deviations (it is 0.5 standard deviations, where a normal
# score has 0.4), and more for larger scores, whose noise grows with them. So it penalises large weights
# more than it should.
#
# The resulting models
# --------------------
# On digits, 64 pixels: the loss in the objective of each fit is compared with the mean hinge loss on 100
# sampled corruptions of the training images, for the fitted weights. Errors are those on the test images,
# whole and corrupted.
X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X / 16, y > 4, test_size=0.5, random_state=0, stratify=y)
sign = np.where(y, 1.0, -1.0)

print("rate  expectation  claimed loss  sampled loss  error  error, corrupted")
for rate in (0.2, 0.5, 0.8):
    for expectation in ("bound", "gaussian"):
        model = DropoutSVC(C=0.1, noise=rate, loss="hinge", expectation=expectation).fit(X, y)
        claimed = (model.objective_ - 0.5 * np.sum(model.coef_**2)) / (model.C * len(y))
        sampled = np.mean(
            [np.maximum(0, 1 - sign * model.decision_function(corrupt(X, rate, seed))) for seed in range(100)]
        )
        damaged = np.mean([1 - model.score(Dropout(rate).corrupt(X_test, s), y_test) for s in range(20)])
        error = 1 - model.score(X_test, y_test)
        print(
            f"{rate:4.1f}  {expectation:11s}  {claimed:12.4f}  {sampled:12.4f}  {error:5.3f}  {damaged:16.3f}"
        )

# %%
# The Gaussian objective agrees with sampling; the bound is above it. Because the bound overstates the
# loss of examples near the margin, it acts like somewhat heavier noise, and the errors of the two are
# close. Use "bound" for the paper's model and where a score depends on few features, "gaussian" where
# many contribute.
