"""
A pipeline with calibrated probabilities
========================================

A support vector machine gives scores, not probabilities, and noise shrinks the scores of a logistic
regression as well: it is trained to be unsure. Where probabilities matter, wrap the model in
scikit-learn's :class:`~sklearn.calibration.CalibratedClassifierCV`. Like every estimator of the library
it works there, inside a pipeline or around one.
"""

# %%
# Scale, fit, calibrate
# ---------------------
# Digits, the odd against the even ones: a problem that a linear model solves only roughly.
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

svc, logistic = DropoutSVC(C=0.1, noise=0.5), DropoutLogisticRegression(C=0.1, noise=0.5)
models = {
    "logistic, rate 0.5": make_pipeline(StandardScaler(), logistic),
    "logistic, calibrated": CalibratedClassifierCV(make_pipeline(StandardScaler(), logistic), cv=5),
    "SVC, calibrated": CalibratedClassifierCV(make_pipeline(StandardScaler(), svc), cv=5),
}

# %%
# Are they right as often as they say?
# ------------------------------------
# A Brier score is the mean squared error of a probability: lower is better, and for a coin's 0.5 it is
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
# The uncalibrated curve is steeper than the diagonal: the model is unsure where it need not be, because
# training prepared it for half of the pixels. If half of them *will* be missing in use, that is the
# right answer, and calibration on whole images would be the mistake.
#
# One fitted object holds scaler, model and calibration, and can be stored, searched and deployed as
# one.
print(models["SVC, calibrated"])
