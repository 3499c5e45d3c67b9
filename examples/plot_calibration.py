"""
A pipeline with calibrated probabilities
========================================

A support vector machine gives scores, not probabilities. Noise also shrinks the scores of a logistic
regression, so its probabilities are less certain. If you need probabilities, wrap the model in
scikit-learn's :class:`~sklearn.calibration.CalibratedClassifierCV`. Every estimator of the library works
there, inside a pipeline or around one.
"""

# %%
# Scale, fit, calibrate
# ---------------------
# Digits, odd against even: a problem that a linear model solves only roughly.
import matplotlib.pyplot as plt
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score, brier_score_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marginout import DropoutLogisticRegression, DropoutSVC

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y % 2, test_size=0.5, random_state=0, stratify=y)

svc, logistic = (
    DropoutSVC(C=0.1, noise=0.5, loss="hinge", expectation="bound"),
    DropoutLogisticRegression(C=0.1, noise=0.5),
)
models = {
    "logistic, rate 0.5": make_pipeline(StandardScaler(), logistic),
    "logistic, calibrated": CalibratedClassifierCV(make_pipeline(StandardScaler(), logistic), cv=5),
    "SVC, calibrated": CalibratedClassifierCV(make_pipeline(StandardScaler(), svc), cv=5),
}

# %%
# Do the probabilities match the frequencies?
# -------------------------------------------
# The Brier score is the mean squared error of a probability: lower is better, and a constant 0.5 gives
# 0.25.
fig, ax = plt.subplots(figsize=(5.6, 4), layout="constrained")
for name, model in models.items():
    probabilities = model.fit(X, y).predict_proba(X_test)[:, 1]
    brier, accuracy = brier_score_loss(y_test, probabilities), accuracy_score(y_test, probabilities > 0.5)
    print(f"{name:22s} Brier score {brier:.4f}, accuracy {accuracy:.3f}")
    CalibrationDisplay.from_predictions(y_test, probabilities, n_bins=8, name=name, ax=ax)
ax.set(xlabel="predicted probability of an odd digit", ylabel="share of odd digits")
plt.show()

# %%
# The uncalibrated curve is steeper than the diagonal: the probabilities are less certain than necessary,
# because the model was trained for half of the pixels. If half of them *will* be missing in use, these
# probabilities are right, and calibration on whole images would be wrong.
#
# One fitted object holds scaler, model and calibration. It can be stored, searched and deployed as one.
print(models["SVC, calibrated"])
