"""Rank the features of a saved model: by their weights, and by what the score loses without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from marginout._core.interfaces import Array
from marginout.cli.modelfile import Model
from marginout.robustness import group_impact


def weights(model: Any) -> Array:
    """One row of weights per output; through a hidden layer, the products summed over its units."""
    coef = np.atleast_2d(model.coef_)
    return np.asarray(coef @ model.hidden_coef_ if "n_hidden" in model.get_params(deep=False) else coef)


def heaviest(model: Model, count: int) -> list[dict[str, Any]]:
    """The features of the largest weights, each with the output that the weight is for."""
    W, names = weights(model.estimator), model.names()
    order = np.argsort(-np.abs(W).max(axis=0), kind="stable")[:count]
    return [{"name": names[j], **_largest(model, W[:, j])} for j in order]


def _largest(model: Model, column: Array) -> dict[str, Any]:
    """The largest of a feature's weights, and the class or target that it is for."""
    k = int(np.abs(column).argmax())
    weight = float(column[k])
    if model.classes is None:
        return {"weight": weight, "output": str(model.about["target"])}
    output = model.classes[int(weight > 0)] if len(model.classes) == 2 else model.classes[k]
    return {"weight": weight, "output": str(output)}


def most_relied_on(model: Model, X: Any, y: Any, groups: Any, count: int) -> list[dict[str, Any]]:
    """The features with the largest part in the scores, and the fall of the model's score without each.

    The part of a feature is its largest weight times its root mean square in X, the input of the
    pipeline's last step. Features of one group die together.
    """
    W, names = weights(model.estimator), model.names()
    parts = np.abs(W).max(axis=0) * _root_mean_squares(X)
    order = np.argsort(-parts, kind="stable")[:count]
    order = order[parts[order] > 0]
    if not len(order):
        return []
    numbers = np.arange(X.shape[1]) if groups is None else np.asarray(groups)
    # All other features are one group more, whose cost nobody needs: one more score, instead of thousands.
    labels = np.where(np.isin(numbers, numbers[order]), numbers, -1)
    impact = group_impact(model.estimator, X, y, labels, max_pairs=0)
    costs = dict(zip(impact.labels, impact.costs.tolist(), strict=True))
    return [{"name": names[j], **_largest(model, W[:, j]), "cost": costs[numbers[j]]} for j in order]


def _root_mean_squares(X: Any) -> Array:
    """The root mean square of each column; a missing entry counts as 0."""
    squares = X.multiply(X).tocsr() if sp.issparse(X) else np.square(X)
    entries = squares.data if sp.issparse(squares) else squares
    entries[np.isnan(entries)] = 0
    return np.asarray(np.sqrt(np.asarray(squares.mean(axis=0)).ravel()))
