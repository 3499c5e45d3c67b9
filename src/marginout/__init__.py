"""Margin learners with the noise marginalised out."""

from importlib.metadata import version

from marginout import losses, noise, robustness
from marginout._path import Path, path
from marginout.estimators.cv import (
    DropoutLogisticRegressionCV,
    DropoutSVCCV,
    DropoutSVRCV,
    GridEdgeWarning,
)
from marginout.estimators.explicit import ExplicitCorruptionClassifier, ExplicitCorruptionRegressor
from marginout.estimators.fdrop import FeatureDeletionSVC
from marginout.estimators.latent import LatentDropoutLogisticRegression, LatentDropoutSVC, LatentDropoutSVR
from marginout.estimators.logistic import DropoutLogisticRegression
from marginout.estimators.mcf import MCFClassifier, MCFRegressor
from marginout.estimators.svm import DropoutSVC, DropoutSVR
from marginout.plotting import (
    DeletionCurveDisplay,
    HiddenUnitsDisplay,
    PathDisplay,
    ValidationMapDisplay,
)

__version__ = version("marginout")
__all__ = [
    "DeletionCurveDisplay",
    "DropoutLogisticRegression",
    "DropoutLogisticRegressionCV",
    "DropoutSVC",
    "DropoutSVCCV",
    "DropoutSVR",
    "DropoutSVRCV",
    "ExplicitCorruptionClassifier",
    "ExplicitCorruptionRegressor",
    "FeatureDeletionSVC",
    "GridEdgeWarning",
    "HiddenUnitsDisplay",
    "LatentDropoutLogisticRegression",
    "LatentDropoutSVC",
    "LatentDropoutSVR",
    "MCFClassifier",
    "MCFRegressor",
    "Path",
    "PathDisplay",
    "ValidationMapDisplay",
    "losses",
    "noise",
    "path",
    "robustness",
]
