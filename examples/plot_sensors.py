"""
Sensors that fail
=================

A model is trained while all sensors work and used when some do not. scikit-learn's breast cancer data
stand for a plant with ten instruments, each with three readings (a mean, its standard error and the worst
value). If an instrument fails, its three readings are replaced by their average, which is zero once the
readings are standardised.
"""

# %%
# Train once
# ----------
# C is chosen by cross-validation on whole data, for the plain SVM and for the other model, which is
# trained for readings that are missing with probability 0.5. :class:`~marginout.noise.Deletion` is raw
# deletion: survivors keep their values, as they do here.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from marginout import DeletionCurveDisplay, DropoutSVC
from marginout.noise import Deletion
from marginout.robustness import deletion_curve

data = load_breast_cancer()
X, X_test, y, y_test = train_test_split(data.data, data.target, test_size=0.5, random_state=0)
instruments = np.arange(30) % 10  # columns 0, 10 and 20 are the three readings of instrument 0
print([str(name) for name in data.feature_names[instruments == 0]])

grid = {"C": np.logspace(-4, 1, 6)}
models = {
    "LinearSVC": LinearSVC(loss="hinge", max_iter=1_000_000),
    "DropoutSVC, trained for loss": DropoutSVC(noise=Deletion(0.5), loss="hinge", expectation="bound"),
}
fitted = {
    name: make_pipeline(StandardScaler(), GridSearchCV(model, grid)).fit(X, y)
    for name, model in models.items()
}
for name, pipeline in fitted.items():
    print(
        f"{name}: C = {pipeline[-1].best_params_['C']:g}, test accuracy {pipeline.score(X_test, y_test):.3f}"
    )

# %%
# Lose instruments
# ----------------
# The same models without refitting, scored as instruments fail at random. ``step=1`` deletes in the
# output of the scaler, so a dead reading has its average value. On the right the worst case, by single
# readings: for each patient those that damage its score most.
settings = {"rates": np.linspace(0, 0.9, 10), "step": 1, "random_state": 0}
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True, layout="constrained")
DeletionCurveDisplay.from_estimators(
    fitted, X_test, y_test, kind="groups", groups=instruments, n_repeats=20, ax=left, **settings
)
left.set(xlabel="instruments dead (%)", ylabel="accuracy")
worst = {
    name: deletion_curve(
        make_pipeline(pipeline[0], pipeline[-1].best_estimator_),
        X_test,
        y_test,
        rates=[0, 0.1, 0.2, 0.3],
        kind="worst",
    )
    for name, pipeline in fitted.items()
}
DeletionCurveDisplay.from_curve(worst, ax=right)
right.set(xlabel="readings dead (%), worst case", ylabel="")
plt.show()

# %%
# While at most a third of the instruments is dead, the plain model is as good or better: training for a
# loss that does not happen has a cost. Beyond that, and most of all in the worst case, the other model is
# better. The weights explain this. A plain SVM also uses *differences* between readings that nearly
# agree, with weights against a reading's own correlation with the outcome; such a pair misleads once one
# of the two is missing. Training for loss does not rely on them.
signs = np.sign(np.corrcoef(X.T, y)[-1, :-1])
for name, pipeline in fitted.items():
    weights = pipeline[-1].best_estimator_.coef_[0]
    against = np.abs(weights[weights * signs < 0]).sum() / np.abs(weights).sum()
    print(f"{name}: {against:.0%} of the weights' sum is against the reading's own correlation")
