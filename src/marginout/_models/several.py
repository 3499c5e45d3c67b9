"""Several labels of an example: a problem for each, all in one batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import type_of_target

from marginout._core.targets import Indicators, LabelsApart
from marginout._core.validation import warn_user


def checked_labels(y: Any) -> Any:
    """A validated matrix y as an array, if it says with 0 or 1 whether an example has a label."""
    if type_of_target(y) != "multilabel-indicator":
        raise ValueError(
            f"y has {y.shape[1]} columns, which must hold 0 or 1, whether an example has a label: for "
            "several questions with more answers, wrap the model in "
            "sklearn.multioutput.MultiOutputClassifier."
        )
    return y.toarray() if sp.issparse(y) else np.asarray(y)


def labels_apart(seen: Indicators, class_weight: Any, multi_class: str, kind: str) -> LabelsApart:
    """A problem for each label; `kind` is what `multi_class` stands for here."""
    if kind != "ovr":  # "auto" is, where features outnumber examples
        raise ValueError(
            f"multi_class={multi_class!r} joins classes of which an example has one, but y is a "
            "matrix of several labels: set multi_class='ovr'."
        )
    targets = LabelsApart(seen, class_weight)
    if len(targets.constant):
        warn_user(
            f"The labels {targets.constant.tolist()[:5]} are the same for all examples of positive "
            "weight: they are predicted so, whatever X is.",
            UserWarning,
        )
    return targets
