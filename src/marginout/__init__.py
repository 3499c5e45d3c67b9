"""Margin learners with the noise marginalised out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what the names stand for, for type checkers
    from marginout import blocks as blocks
    from marginout import losses as losses
    from marginout import noise as noise
    from marginout import robustness as robustness
    from marginout._models.collapse import CollapsedModelWarning as CollapsedModelWarning
    from marginout._search.path import Path as Path
    from marginout._search.path import path as path
    from marginout.cli import load as load
    from marginout.cli.convert import MissingColumnsWarning as MissingColumnsWarning
    from marginout.estimators.cv import DropoutLogisticRegressionCV as DropoutLogisticRegressionCV
    from marginout.estimators.cv import DropoutSVCCV as DropoutSVCCV
    from marginout.estimators.cv import DropoutSVRCV as DropoutSVRCV
    from marginout.estimators.cv import GridEdgeWarning as GridEdgeWarning
    from marginout.estimators.explicit import ExplicitCorruptionClassifier as ExplicitCorruptionClassifier
    from marginout.estimators.explicit import ExplicitCorruptionRegressor as ExplicitCorruptionRegressor
    from marginout.estimators.fdrop import FeatureDeletionSVC as FeatureDeletionSVC
    from marginout.estimators.imputer import GaussianImputer as GaussianImputer
    from marginout.estimators.latent import LatentDropoutLogisticRegression as LatentDropoutLogisticRegression
    from marginout.estimators.latent import LatentDropoutSVC as LatentDropoutSVC
    from marginout.estimators.latent import LatentDropoutSVR as LatentDropoutSVR
    from marginout.estimators.logistic import DropoutLogisticRegression as DropoutLogisticRegression
    from marginout.estimators.mcf import MCFClassifier as MCFClassifier
    from marginout.estimators.mcf import MCFRegressor as MCFRegressor
    from marginout.estimators.naive_bayes import NaiveBayesScaler as NaiveBayesScaler
    from marginout.estimators.quantile import DropoutQuantileRegressor as DropoutQuantileRegressor
    from marginout.estimators.quantile import DropoutQuantileRegressorCV as DropoutQuantileRegressorCV
    from marginout.estimators.svm import DropoutSVC as DropoutSVC
    from marginout.estimators.svm import DropoutSVR as DropoutSVR
    from marginout.plotting import DeletionCurveDisplay as DeletionCurveDisplay
    from marginout.plotting import GroupImpactDisplay as GroupImpactDisplay
    from marginout.plotting import HiddenUnitsDisplay as HiddenUnitsDisplay
    from marginout.plotting import PathDisplay as PathDisplay
    from marginout.plotting import ValidationMapDisplay as ValidationMapDisplay

    __version__: str

#: Where the public names live. They are imported when first asked for: scikit-learn takes a second to
#: import, and the command must answer `--help` at once.
_HOMES = {
    "_models.collapse": ["CollapsedModelWarning"],
    "_search.path": ["Path", "path"],
    "cli": ["load"],
    "cli.convert": ["MissingColumnsWarning"],
    "estimators.cv": ["DropoutLogisticRegressionCV", "DropoutSVCCV", "DropoutSVRCV", "GridEdgeWarning"],
    "estimators.explicit": ["ExplicitCorruptionClassifier", "ExplicitCorruptionRegressor"],
    "estimators.fdrop": ["FeatureDeletionSVC"],
    "estimators.imputer": ["GaussianImputer"],
    "estimators.latent": ["LatentDropoutLogisticRegression", "LatentDropoutSVC", "LatentDropoutSVR"],
    "estimators.logistic": ["DropoutLogisticRegression"],
    "estimators.mcf": ["MCFClassifier", "MCFRegressor"],
    "estimators.naive_bayes": ["NaiveBayesScaler"],
    "estimators.quantile": ["DropoutQuantileRegressor", "DropoutQuantileRegressorCV"],
    "estimators.svm": ["DropoutSVC", "DropoutSVR"],
    "plotting": [
        "DeletionCurveDisplay",
        "GroupImpactDisplay",
        "HiddenUnitsDisplay",
        "PathDisplay",
        "ValidationMapDisplay",
    ],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = {"blocks", "estimators", "losses", "noise", "plotting", "robustness", "solvers"}
__all__ = sorted([*_HOME, "blocks", "losses", "noise", "robustness"])


def __getattr__(name: str) -> Any:
    value: Any
    if name in _HOME:
        value = getattr(import_module(f"marginout.{_HOME[name]}"), name)
    elif name in _MODULES:
        value = import_module(f"marginout.{name}")
    elif name == "__version__":
        from importlib.metadata import version

        value = version("marginout")
    else:
        raise AttributeError(f"module 'marginout' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES, "__version__"})
