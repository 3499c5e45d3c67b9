"""What a model leans on: its largest weights, and what each feature's death costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marginout.cli.modelfile import Model
from marginout.cli.prepare import Columns, feature_columns
from marginout.noise import GroupDeletion, GroupDropout

Array = NDArray[np.float64]

#: Rows of the training data that the cost of a missing column is measured on, at most and at least; so many
#: entries are looked at, about a second's work, and nothing is measured for more columns than this.
ROWS, FEWEST, ENTRIES, COLUMNS = 1000, 100, 100_000_000, 1000


def describe_noise(noise: Any) -> str:
    """A noise in one line; of groups, how many there are."""
    if isinstance(noise, (GroupDropout, GroupDeletion)):
        return f"{type(noise).__name__}(rate={noise.rate}), {len(np.unique(noise.groups))} groups"
    return repr(noise)


def describe_model(model: Any) -> str:
    """Name and the parameters that matter, as chosen by a search or as given."""
    C, noise = (getattr(model, f"{name}_", getattr(model, name, None)) for name in ("C", "noise"))
    parts = [type(model).__name__, f"C = {C:.3g}", f"noise {describe_noise(noise)}"]
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
    return np.asarray(coef @ model.hidden_coef_ if hasattr(model, "hidden_coef_") else coef)


def heaviest(model: Model, count: int) -> list[dict[str, Any]]:
    """The features of the largest weights, and the output each of these is for."""
    W, names = weights(model.estimator), model.names()
    order = np.argsort(-np.abs(W).max(axis=0), kind="stable")[:count]
    return [{"name": names[j], **_largest(model, W[:, j])} for j in order]


def _largest(model: Model, column: Array) -> dict[str, Any]:
    """The largest of a feature's weights, and the class or target that it speaks for."""
    k = int(np.abs(column).argmax())
    weight = float(column[k])
    if model.classes is None:
        return {"weight": weight, "output": str(model.about["target"])}
    output = model.classes[int(weight > 0)] if len(model.classes) == 2 else model.classes[k]
    return {"weight": weight, "output": str(output)}


def leaned_on(model: Model, X: Any, y: Any, groups: Any, count: int) -> list[dict[str, Any]]:
    """The features of the largest share in the scores, and what the model's score loses when each dies.

    The share of a feature is its largest weight times its root mean square in X, the input of the
    pipeline's last step. Features of one group die together.
    """
    W, names = weights(model.estimator), model.names()
    squares = X.multiply(X).tocsr() if sp.issparse(X) else np.square(X)
    if sp.issparse(squares):
        squares.data[np.isnan(squares.data)] = 0
    else:
        squares[np.isnan(squares)] = 0
    shares = np.abs(W).max(axis=0) * np.sqrt(np.asarray(squares.mean(axis=0)).ravel())
    order = np.argsort(-shares, kind="stable")[:count]
    order = order[shares[order] > 0]
    deaths = [np.array([j]) if groups is None else np.flatnonzero(groups == groups[j]) for j in order]
    costs = death_costs(model.estimator, X, y, deaths)
    rows = zip(order, costs, strict=True)
    return [{"name": names[j], **_largest(model, W[:, j]), "cost": cost} for j, cost in rows]


def column_costs(pipeline: Any, columns: Columns, frame: Any, y: Any) -> dict[str, float]:
    """What the model's score loses on rows of its training data when one column is missing in all of them."""
    import pandas

    if len(columns.used) > COLUMNS:
        return {}
    most = max(FEWEST, min(ROWS, ENTRIES // len(columns.used) ** 2))
    rows = np.arange(len(y))
    if len(rows) > most:
        rows = np.random.default_rng(0).choice(len(rows), most, replace=False)
    steps, model, y = pipeline[:-1], pipeline[-1], y[rows]
    Z = sp.csr_matrix(steps.transform(frame.iloc[rows]))
    empty = pandas.DataFrame({name: [None] for name in columns.used}, dtype=object)
    nothing = sp.csr_matrix(steps.transform(empty))
    sources = np.array(feature_columns(pipeline, columns), dtype=object)
    whole, costs = float(model.score(Z, y)), {}
    for name in columns.used:
        other = Z.copy()
        other.data[(sources == name)[other.indices]] = 0
        hole = nothing.copy()
        hole.data[(sources != name)[hole.indices]] = 0
        costs[name] = whole - float(model.score(other + sp.csr_matrix(np.ones((len(y), 1))) @ hole, y))
    return costs


def death_costs(model: Any, X: Any, y: Any, deaths: Sequence[NDArray[np.intp]]) -> list[float]:
    """What `model.score` loses when some columns of X are zero in all rows, for each choice of columns."""
    whole = model.score(X, y)
    lost = []
    for columns in deaths:
        Z = X.copy()
        if sp.issparse(Z):
            Z.data[np.isin(Z.indices, columns)] = 0
        else:
            Z[:, columns] = 0
        lost.append(float(whole - model.score(Z, y)))
    return lost
