"""The models with the settings of the paper as defaults: rate 0.5, the bound on the hinge loss, one-vs-rest.

Tests whose oracle is the paper's objective import the models from here. The defaults of the library have
tests of their own, in tests/models/test_defaults.py.
"""

from __future__ import annotations

import inspect
from typing import Any

import marginout


def _with(kind: Any, **defaults: Any) -> Any:
    """The same class, with other defaults of its parameters."""

    def initialise(self: Any, *given: Any, **named: Any) -> None:
        kind.__init__(self, *given, **{**defaults, **named})

    signature = inspect.signature(kind.__init__)
    parameters = [p.replace(default=defaults.get(p.name, p.default)) for p in signature.parameters.values()]
    initialise.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return type(kind.__name__, (kind,), {"__init__": initialise, "__module__": __name__})


HINGE = {"loss": "hinge", "expectation": "bound"}

DropoutSVC = _with(marginout.DropoutSVC, noise=0.5, **HINGE)
DropoutSVR = _with(marginout.DropoutSVR, noise=0.5)
DropoutLogisticRegression = _with(marginout.DropoutLogisticRegression, noise=0.5, multi_class="ovr")
DropoutQuantileRegressor = _with(marginout.DropoutQuantileRegressor, noise=0.5)
DropoutSVCCV = _with(marginout.DropoutSVCCV, **HINGE)
DropoutLogisticRegressionCV = _with(marginout.DropoutLogisticRegressionCV, multi_class="ovr")
LatentDropoutSVC = _with(marginout.LatentDropoutSVC, noise=0.5)
LatentDropoutSVR = _with(marginout.LatentDropoutSVR, noise=0.5)
LatentDropoutLogisticRegression = _with(marginout.LatentDropoutLogisticRegression, noise=0.5)
