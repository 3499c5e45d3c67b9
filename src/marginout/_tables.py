"""Tables of features as users hold them: arrays, CSR matrices, data frames, texts; groups of columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


def is_frame(X: Any) -> bool:
    return hasattr(X, "columns") and hasattr(X, "to_numpy")


def are_texts(X: Any) -> bool:
    """Whether X is a sequence of strings."""
    if sp.issparse(X) or is_frame(X):
        return False
    X = np.asarray(X, dtype=object) if isinstance(X, (list, tuple)) else np.asarray(X)
    return bool(X.ndim == 1 and X.size and all(isinstance(text, str) for text in X[:100]))


def numbers_in(X: Any) -> Any:
    """The numbers in X: CSR, or a dense array."""
    if sp.issparse(X):
        X = X.tocsr()
        if not X.has_canonical_format:  # an entry stored in parts would die in parts
            X = X.copy()
            X.sum_duplicates()
        return X
    values = np.asarray(X.to_numpy() if is_frame(X) else X)
    if values.ndim != 2:
        raise ValueError(f"X has {values.ndim} dimensions, but must have two: (n_samples, n_features).")
    if values.dtype.kind not in "fiub":
        try:
            if hasattr(X, "iloc"):  # pandas has missing values of its own
                values = X.to_numpy(dtype=np.float64, na_value=np.nan)
            else:
                values = values.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"X holds values of type {values.dtype}, which cannot be deleted: give numbers, or name the "
                "step of the pipeline that receives numbers, as in step='classifier'."
            ) from None
    return values


def like(X: Any, values: Any) -> Any:
    """Values in X's kind of container."""
    if not is_frame(X):
        return values
    values = values.toarray() if sp.issparse(values) else values
    if hasattr(X, "iloc"):
        return type(X)(values, index=X.index, columns=X.columns)
    return type(X)(values, schema=list(X.columns))


def group_numbers(groups: Any, X: Any) -> NDArray[np.intp]:
    """The number of every feature's group."""
    d = X.shape[1]
    names = {name: i for i, name in enumerate(X.columns)} if is_frame(X) else {}
    if isinstance(groups, (list, tuple)):
        groups = [list(group) if isinstance(group, (set, frozenset)) else group for group in groups]
    listed = isinstance(groups, list) and any(np.ndim(group) == 1 for group in groups)
    if not listed:
        labels = np.asarray(groups)
        if labels.shape != (d,):
            raise ValueError(
                f"groups has shape {labels.shape} but X has {d} features: give the group of every feature, "
                "or a list of the features of every group."
            )
        missing = np.flatnonzero([label is None or label != label for label in labels])
        if len(missing):
            raise ValueError(
                f"groups do not cover all features: that of feature {missing[0]} is {labels[missing[0]]!r}."
            )
        return np.unique(labels, return_inverse=True)[1]
    numbers = np.full(d, -1, dtype=np.intp)
    for number, group in enumerate(groups):
        for feature in group if np.ndim(group) else [group]:
            at = names.get(feature, feature)
            if not isinstance(at, (int, np.integer)) or isinstance(at, bool) or not 0 <= at < d:
                raise ValueError(f"groups[{number}] names feature {feature!r}, which X does not have.")
            if numbers[at] >= 0:
                raise ValueError(
                    f"groups overlap: feature {feature!r} is in groups {numbers[at]} and {number}. Put every "
                    "feature into exactly one."
                )
            numbers[at] = number
    if np.any(numbers < 0):
        missing = np.flatnonzero(numbers < 0)
        raise ValueError(
            f"groups do not cover all features: {len(missing)} are in none, such as feature {missing[0]}. "
            "Put every feature into exactly one; a feature may be a group of its own."
        )
    return numbers
