"""Find what is scored: the part of a pipeline that is given the features, its input, and the scorer."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from marginout.robustness.containers import are_texts, is_frame, numbers_in


def check_scorer(estimator: Any, scoring: Any, *, fitted: bool = True) -> Any:
    """The scorer of an estimator, which must be fitted or not: a function of (estimator, X, y)."""
    if fitted:
        check_is_fitted(estimator)
    if scoring is not None and not isinstance(scoring, str) and not callable(scoring):
        raise ValueError(f"scoring={scoring!r} must be one scorer: its name, a callable or None.")
    return check_scoring(estimator, scoring)


def enter(estimator: Any, X: Any, step: str | int | None, *, last: bool = False) -> tuple[Any, Any]:
    """The part of a pipeline that is given the features, and what it is given for X.

    `step` is its first step. None is the first step that is given numbers, or the `last` one.
    """
    if not isinstance(estimator, Pipeline):
        if step is not None:
            raise ValueError(f"step={step!r} needs a pipeline, but the estimator is {estimator!r}.")
        return estimator, _readable(X)
    end = len(estimator.steps) - 1
    at = _number([name for name, _ in estimator.steps], step, end if last else 0)
    if last and at != end:
        raise ValueError(f"step={step!r} must be None or the last step for kind='worst', which is linear.")
    Z = _transformed(estimator[:at], X)
    while step is None and at < end and are_texts(Z):
        at, Z = at + 1, _transformed(estimator[at : at + 1], Z)
    model = estimator.steps[-1][1] if at == end else estimator[at:]
    return model, _readable(Z)


def _number(names: list[str], step: str | int | None, default: int) -> int:
    """The number of the step that `step` names or counts, from the end if it is negative."""
    if step is None:
        return default
    if isinstance(step, str) and step in names:
        return names.index(step)
    if isinstance(step, (int, np.integer)) and -len(names) <= step < len(names):
        return int(step) % len(names)
    raise ValueError(f"step={step!r} must be the name or the number of a step: {', '.join(names)}.")


def _transformed(steps: Pipeline, X: Any) -> Any:
    """What the steps, perhaps none, make of X: of a copy, because they may work in place."""
    return steps.transform(deepcopy(X)) if steps.steps else X


def _readable(X: Any) -> Any:
    """Texts and data frames as they are, anything else as numbers."""
    return X if are_texts(X) or is_frame(X) else numbers_in(X)


def _last(estimator: Any) -> Any:
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def estimator_name(estimator: Any) -> str:
    """The class of an estimator, or of the last step of a pipeline."""
    return type(_last(estimator)).__name__


def score_name(estimator: Any, scoring: Any) -> str:
    """The name of a score, as a table and an axis give it; a model may have one for its own `score`."""
    name = scoring if isinstance(scoring, str) else getattr(scoring, "__name__", None)
    usual = "accuracy" if is_classifier(estimator) else "R²"
    own: str = getattr(_last(estimator), "_score_name", usual)
    return name or ("score" if scoring else own)
