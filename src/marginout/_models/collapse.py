"""The warning that a fitted model has collapsed: its features do not matter."""

from __future__ import annotations

from textwrap import shorten
from typing import Any

import numpy as np
import scipy.sparse as sp

from marginout._core.fit import Plan
from marginout._core.interfaces import Array
from marginout._core.validation import warn_user

#: Scores are the same if they differ by less than this share of the margin, or of y's interquartile range.
NEGLIGIBLE = 0.01
#: By less than this they differ by rounding errors only, whatever classes they stand for.
ROUNDING = 1e-12
#: Rows whose scores are looked at before those of all.
GLANCE = 100


class CollapsedModelWarning(UserWarning):
    """A fitted model predicts the same for all training data, whatever their features.

    Its scores differ by less than 1 % of the margin, or, of a regression, of y's interquartile range. That is
    the optimum of too much noise, too small a C, classes of very unequal size, or features that say nothing
    about y; it comes without noise, too. Not meant are X or y that do not vary: nothing can be learnt from
    them. Fits on blocks and on Dask do not ask.
    """


def warn_if_collapsed(model: Any, X: Any, Y: Array, weights: Array, plan: Plan) -> None:
    """Say that the features do not matter to a fitted model, though X and Y vary, and what helps.

    Where classes are of unequal size, or noise is heavy, w = 0 can be the optimum of a loss with a kink.
    """
    used = np.asarray(weights.any(axis=1))
    scale = _width(Y[used]) if plan.targets.classes is None else plan.loss.scale if plan.loss else 1.0
    some = slice(None, None, 1 + X.shape[0] // GLANCE)
    for part, rows in ((X[some], some), (X, slice(None))):
        scores = model._raw_scores(part)[used[rows]]
        spread = float(np.ptp(scores, axis=0).max()) if len(scores) else 0.0
        if spread >= NEGLIGIBLE * scale or (spread >= ROUNDING * scale and model._tells_apart(scores)):
            return
    if not (_varies(X if used.all() else X[used]) and _varies(Y[used])):
        return
    what = f"scores of the training data differ by {spread:.1e} only"
    if hasattr(model, "classes_"):
        what += ", by rounding errors" if model._tells_apart(scores) else ", and all are taken for one class"
    cures = [f"lower n_deletions={model.n_deletions}"] if hasattr(model, "n_deletions") else []
    if plan.noise.moments(X.shape[1]).coefficient.any():
        cures.append(f"lower noise={shorten(repr(model.noise), 60, placeholder=' …')}")
    if getattr(model, "class_weight", model) is None:
        cures.append("set class_weight='balanced'")
    if hasattr(model, "epsilon"):
        cures.append(f"lower epsilon={model.epsilon!r}")
    if model.l1_ratio:
        cures.append(f"lower l1_ratio={model.l1_ratio!r}")
    cures += ["scale the features", f"or raise C={model.C!r} if it is small"]
    warn_user(
        f"The model has collapsed: its {what}. To make the features count, {', '.join(cures)}.",
        CollapsedModelWarning,
    )


def _width(Y: Array) -> float:
    """The interquartile range of targets, which a few outliers do not change; where it is 0, the range."""
    if not Y.size:
        return 0.0
    low, high = np.quantile(Y, [0.25, 0.75])
    return float(high - low or np.ptp(Y))


def _varies(X: Any) -> bool:
    """Whether the rows of X differ."""
    least, most = X.min(axis=0), X.max(axis=0)
    return bool((least != most).nnz) if sp.issparse(X) else bool(np.any(least != most))
