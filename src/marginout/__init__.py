"""Margin learners with the noise marginalised out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marginout import blocks, losses, noise, robustness
    from marginout._models.linear import CollapsedModelWarning
    from marginout._search.path import Path, path
    from marginout.cli import load
    from marginout.cli.convert import MissingColumnsWarning
    from marginout.estimators.cv import (
        DropoutLogisticRegressionCV,
        DropoutSVCCV,
        DropoutSVRCV,
        GridEdgeWarning,
    )
    from marginout.estimators.explicit import ExplicitCorruptionClassifier, ExplicitCorruptionRegressor
    from marginout.estimators.fdrop import FeatureDeletionSVC
    from marginout.estimators.imputer import GaussianImputer
    from marginout.estimators.latent import (
        LatentDropoutLogisticRegression,
        LatentDropoutSVC,
        LatentDropoutSVR,
    )
    from marginout.estimators.logistic import DropoutLogisticRegression
    from marginout.estimators.mcf import MCFClassifier, MCFRegressor
    from marginout.estimators.naive_bayes import NaiveBayesScaler
    from marginout.estimators.quantile import DropoutQuantileRegressor, DropoutQuantileRegressorCV
    from marginout.estimators.svm import DropoutSVC, DropoutSVR
    from marginout.plotting import (
        DeletionCurveDisplay,
        GroupImpactDisplay,
        HiddenUnitsDisplay,
        PathDisplay,
        ValidationMapDisplay,
    )

    __version__: str

__all__ = [
    "CollapsedModelWarning",
    "DeletionCurveDisplay",
    "DropoutLogisticRegression",
    "DropoutLogisticRegressionCV",
    "DropoutQuantileRegressor",
    "DropoutQuantileRegressorCV",
    "DropoutSVC",
    "DropoutSVCCV",
    "DropoutSVR",
    "DropoutSVRCV",
    "ExplicitCorruptionClassifier",
    "ExplicitCorruptionRegressor",
    "FeatureDeletionSVC",
    "GaussianImputer",
    "GridEdgeWarning",
    "GroupImpactDisplay",
    "HiddenUnitsDisplay",
    "LatentDropoutLogisticRegression",
    "LatentDropoutSVC",
    "LatentDropoutSVR",
    "MCFClassifier",
    "MCFRegressor",
    "MissingColumnsWarning",
    "NaiveBayesScaler",
    "Path",
    "PathDisplay",
    "ValidationMapDisplay",
    "blocks",
    "load",
    "losses",
    "noise",
    "path",
    "robustness",
]

#: Where the public names live. They are imported when first asked for: scikit-learn takes a second to
#: import, and the command must answer `--help` at once.
_HOMES = {
    "_models.linear": ["CollapsedModelWarning"],
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
    return sorted({*globals(), *__all__, *_MODULES, "__version__"})
