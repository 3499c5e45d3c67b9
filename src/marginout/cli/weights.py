"""What a model leans on: its largest weights, and what each feature's death costs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginout.cli.modelfile import Model

Array = NDArray[np.float64]


def describe_model(model: Any) -> str:
    """Name and the parameters that matter, as chosen by a search or as given."""
    C, noise = (getattr(model, f"{name}_", getattr(model, name, None)) for name in ("C", "noise"))
    parts = [type(model).__name__, f"C = {C:.3g}", f"noise {noise!r}"]
    if getattr(model, "expectation", "bound") != "bound":
        parts.append(f"expectation {model.expectation}")
    if getattr(model, "class_weight", None) is not None:
        parts.append(f"class_weight {model.class_weight}")
    if hasattr(model, "n_hidden"):
        parts.append(f"{model.n_hidden} hidden units")
    return ", ".join(parts)


def weights(model: Any) -> Array:
    """One row of weights per output; through a hidden layer, the products summed over its units."""
    coef = np.atleast_2d(model.coef_)
    return coef @ model.hidden_coef_ if hasattr(model, "hidden_coef_") else coef


def heaviest(model: Model, count: int) -> list[dict[str, Any]]:
    """The features of the largest weights, and the output each of these is for."""
    W, names = weights(model.estimator), model.names()
    largest = np.abs(W).max(axis=0)
    found = []
    for j in np.argsort(-largest, kind="stable")[:count]:
        k = int(np.abs(W[:, j]).argmax())
        found.append({"name": names[j], "weight": float(W[k, j]), "output": output_name(model, k, W[k, j])})
    return found


def output_name(model: Model, k: int, weight: float) -> str:
    """The class that row k of the weights speaks for, or the target."""
    if model.classes is None:
        return str(model.about["target"])
    return str(model.classes[int(weight > 0)] if len(model.classes) == 2 else model.classes[k])
