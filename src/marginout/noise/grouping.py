"""Parse groups of features: labels of the features, or lists of the features of every group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Groups(NamedTuple):
    """The number of every feature's group, and the label of every group."""

    numbers: NDArray[np.intp]
    labels: list[Any]


def freeze_groups(groups: Any) -> Any:
    """Make groups immutable: a read-only array of labels, or a tuple or dict of tuples of features.

    Labels name the group of every feature; the other forms name the features of every group.
    """
    if isinstance(groups, Mapping):
        frozen: Any = {label: _features(group) for label, group in groups.items()}
    elif isinstance(groups, (list, tuple)) and any(_is_listed(group) for group in groups):
        frozen = tuple(_features(group) for group in groups)
    else:
        frozen = _labels(groups)
    if not len(frozen):
        raise ValueError(
            f"groups={groups!r} must be one label per feature, or a list or dict of lists of features. "
            "Labels must be of one type that can be sorted, such as int or str."
        )
    for label, features in _named(frozen):
        if not features:
            raise ValueError(f"groups[{label!r}] is empty: a group needs at least one feature.")
    return frozen


def count_groups(frozen: Any) -> int:
    """The number of groups."""
    return len(np.unique(frozen) if isinstance(frozen, np.ndarray) else frozen)


def resolve_groups(groups: Any, n_features: int, names: Iterable[Any] | None = None) -> Groups:
    """Find the group of every feature of X, and check that each feature is in exactly one.

    Parameters
    ----------
    groups : array-like of shape (n_features,), list of lists of features, or dict of lists of features
        The label of every feature's group; or the features of every group: numbers, names, or prefixes
        of names (a text that is no feature's whole name stands for all features that begin with it).
    n_features : int
    names : iterable of the features' names, if they have any
    """
    groups = freeze_groups(groups)
    if isinstance(groups, np.ndarray):
        return _by_label(groups, n_features)
    known = [] if names is None else list(names)
    places = {name: i for i, name in enumerate(known)}
    numbers = np.full(n_features, -1, dtype=np.intp)
    labels = []
    for number, (label, features) in enumerate(_named(groups)):
        labels.append(label)
        for feature in features:
            for at in _find(feature, label, places, n_features):
                if numbers[at] >= 0:
                    raise ValueError(
                        f"groups overlap: feature {feature!r} is in groups {labels[numbers[at]]!r} and "
                        f"{label!r}. Put every feature into exactly one."
                    )
                numbers[at] = number
    if np.any(numbers < 0):
        missing = np.flatnonzero(numbers < 0)
        raise ValueError(
            f"groups do not cover all features: {len(missing)} are in none, such as feature {missing[0]}. "
            "Put every feature into exactly one; a feature may be a group of its own."
        )
    return Groups(numbers, labels)


def _is_listed(group: Any) -> bool:
    return isinstance(group, (list, tuple, set, frozenset)) or np.ndim(group) == 1


def _features(group: Any) -> tuple[Any, ...]:
    """The features that a group names: one, or several in any container."""
    if isinstance(group, str) or not isinstance(group, Iterable):
        return (group,)
    features = sorted(group, key=str) if isinstance(group, (set, frozenset)) else group
    return tuple(feature.item() if isinstance(feature, np.generic) else feature for feature in features)


def _named(groups: Any) -> list[tuple[Any, tuple[Any, ...]]]:
    """(label, features) of every group; the label of a group in a list is its number."""
    if isinstance(groups, np.ndarray):
        return []
    return list(groups.items() if isinstance(groups, dict) else enumerate(groups))


def _labels(groups: Any) -> Any:
    """The label of every feature, a read-only array; empty if this is no list, or cannot be sorted."""
    if isinstance(groups, str) or not isinstance(groups, Iterable) or getattr(groups, "ndim", 1) != 1:
        return ()
    for feature, label in enumerate(groups):  # before NumPy makes a text of None
        if label is None or type(label).__name__ == "NAType" or (isinstance(label, float) and label != label):
            raise ValueError(f"groups do not cover all features: that of feature {feature} is {label!r}.")
    try:
        labels = np.array(groups)
        np.unique(labels)
    except (TypeError, ValueError):
        return ()
    labels.flags.writeable = False
    return labels if labels.ndim == 1 else ()


def _by_label(labels: NDArray[Any], n_features: int) -> Groups:
    if labels.shape != (n_features,):
        raise ValueError(
            f"groups has shape {labels.shape} but X has {n_features} features: give the group of every "
            "feature, or a list of the features of every group."
        )
    distinct, numbers = np.unique(labels, return_inverse=True)
    return Groups(numbers, distinct.tolist())


def _find(feature: Any, label: Any, places: dict[Any, int], n_features: int) -> Sequence[int]:
    """The features that a number, a name or a prefix stands for; names are texts, as in scikit-learn."""
    if isinstance(feature, str):
        if feature in places:
            return [places[feature]]
        if begin := [at for name, at in places.items() if str(name).startswith(feature)]:
            return begin
    elif isinstance(feature, int) and not isinstance(feature, bool) and 0 <= feature < n_features:
        return [feature]
    cure = ""
    if isinstance(feature, str) and not places:
        cure = " X has no names: give a data frame, numbers, or noise.feature_groups(names, groups)."
    raise ValueError(f"groups[{label!r}] names feature {feature!r}, which X does not have.{cure}")
