"""Margin learners with the noise marginalised out."""

from importlib.metadata import version

from marginout import losses, noise, robustness
from marginout.estimators.explicit import ExplicitCorruptionClassifier, ExplicitCorruptionRegressor
from marginout.estimators.fdrop import FeatureDeletionSVC
from marginout.estimators.latent import LatentDropoutLogisticRegression, LatentDropoutSVC, LatentDropoutSVR
from marginout.estimators.logistic import DropoutLogisticRegression
from marginout.estimators.mcf import MCFClassifier, MCFRegressor
from marginout.estimators.svm import DropoutSVC, DropoutSVR
from marginout.plotting import DeletionCurveDisplay, HiddenUnitsDisplay

__version__ = version("marginout")
__all__ = [
    "DeletionCurveDisplay",
    "DropoutLogisticRegression",
    "DropoutSVC",
    "DropoutSVR",
    "ExplicitCorruptionClassifier",
    "ExplicitCorruptionRegressor",
    "FeatureDeletionSVC",
    "HiddenUnitsDisplay",
    "LatentDropoutLogisticRegression",
    "LatentDropoutSVC",
    "LatentDropoutSVR",
    "MCFClassifier",
    "MCFRegressor",
    "losses",
    "noise",
    "robustness",
]
