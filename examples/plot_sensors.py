"""
Sensors that die
================

A model is trained while all sensors work and used when some do not. scikit-learn's breast cancer data
play the plant: ten instruments, each of which delivers three readings (a mean, its standard error and
the worst value). An instrument that dies takes its three readings with it, and the model is told
"average", a zero once the readings are standardised.
"""

# %%
# Train once
# ----------
# The plain SVM has its C chosen by cross-validation on whole data; so has the other, which is trained for
# readings that are missing with probability 0.5. :class:`~marginout.noise.Deletion` is the raw event:
# survivors keep their value, as they do here.
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
    "DropoutSVC, trained for loss": DropoutSVC(noise=Deletion(0.5)),
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
# The same fixed models, scored as instruments die at random. ``step=1`` deletes what the scaler
# delivers, so that a dead reading is an average one. On the right the worst case, reading by reading:
# for each patient those that hurt its score most.
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
# While at most a third of the instruments is dead the plain model is as good or better: training for a
# loss that does not happen costs something. Beyond that, and most of all in the worst case, the other
# one holds. Weights explain it. A plain SVM also uses *differences* between readings that nearly agree,
# with weights against a reading's own correlation with the outcome; such a pair misleads once one of
# the two is gone. Training for loss does not build on them.
signs = np.sign(np.corrcoef(X.T, y)[-1, :-1])
for name, pipeline in fitted.items():
    weights = pipeline[-1].best_estimator_.coef_[0]
    against = np.abs(weights[weights * signs < 0]).sum() / np.abs(weights).sum()
    print(f"{name}: {against:.0%} of the weights' sum stands against the reading's own correlation")
