"""From labels or numbers y to targets Y of the problems, and from (W, b) back to fitted attributes.

    classes    Y_nk = ±1: whether example n is of class k (one-vs-rest; one problem for two classes)
    labels     Y_nk = ±1: whether example n has label k, of several
    numbers    Y_nk = y_nk − centre_k, which the offset makes up for: y = 1e9 ± 1 is y = ±1

Blocks of examples are looked at one by one (:class:`Labels`, :class:`Numbers`), and what was seen is merged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight

from marginout._core.interfaces import Array
from marginout._core.validation import check_option, check_real, check_size

#: Share of the weight that makes two sides of a label: less is a rounding error of sums.
FAINTEST = 1e-14
#: Score of a label that all examples have: its probability is 1, to the last digit.
CERTAIN = 40.0


@dataclass(frozen=True)
class Labels:
    """The classes of some examples, each with the sum of its examples' weights, and the labels' type."""

    totals: dict[Any, float]
    dtype: np.dtype[Any]
    several = False

    @classmethod
    def of(cls, y: NDArray[Any], weights: Array) -> Labels:
        labels, inverse = np.unique(y, return_inverse=True)
        totals = np.bincount(inverse, weights, len(labels)).tolist()
        return cls(dict(zip(labels.tolist(), totals, strict=True)), y.dtype)

    def merge(self, other: Labels) -> Labels:
        totals = dict(self.totals)
        for label, weight in other.totals.items():
            totals[label] = totals.get(label, 0.0) + weight
        return Labels(totals, np.result_type(self.dtype, other.dtype))

    def classes(self) -> tuple[NDArray[Any], Array]:
        """The classes in ascending order, and the weight of each."""
        try:
            classes = np.array(sorted(self.totals), self.dtype)
        except TypeError as error:
            raise TypeError(
                f"y has labels of several types in different blocks ({error}): make them of one."
            ) from error
        counts = np.array([self.totals[label] for label in classes.tolist()])
        if np.count_nonzero(counts) < 2:
            raise ValueError(
                "y has examples of positive weight in one class only "
                f"({classes[counts > 0].tolist()[0]!r}): a classifier needs at least two classes."
            )
        return classes, counts


@dataclass(frozen=True)
class Indicators:
    """The weight of the examples that do not have each of L labels, and of those that do, (2, L)."""

    totals: Array
    several = True

    @classmethod
    def of(cls, y: NDArray[Any], weights: Array) -> Indicators:
        have = weights @ (y > 0)
        return cls(np.array([weights.sum() - have, have]))

    def merge(self, other: Indicators) -> Indicators:
        if self.totals.shape != other.totals.shape:
            raise ValueError(
                f"y has {self.totals.shape[1]} labels in one block and {other.totals.shape[1]} in another: "
                "all blocks must have the same."
            )
        return Indicators(self.totals + other.totals)


@dataclass(frozen=True)
class Numbers:
    """Least and largest of n targets, and the sum over blocks of median times size, (T,) each.

    `single`: y was (n,), and not (n, T).
    """

    low: Array
    high: Array
    middle: Array
    n: int
    single: bool
    several = False

    @classmethod
    def of(cls, y: Array) -> Numbers:
        Y = y.reshape(len(y), -1)
        return cls(Y.min(axis=0), Y.max(axis=0), np.median(Y, axis=0) * len(y), len(y), y.ndim == 1)

    def merge(self, other: Numbers) -> Numbers:
        if len(self.low) != len(other.low):
            raise ValueError(
                f"y has {len(self.low)} targets in one block and {len(other.low)} in another: "
                "all blocks must have the same."
            )
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return Numbers(low, high, self.middle + other.middle, self.n + other.n, self.single)


class OneVsRest:
    """Classes as targets.

    Parameters
    ----------
    classes : (n_classes,) in ascending order
    table : (n_classes, 1) or (n_classes, K)
        The weight of an example of a class in each problem.
    """

    #: What `multi_class` calls it.
    kind = "ovr"

    def __init__(self, classes: NDArray[Any], table: Array) -> None:
        self.classes, self.table = classes, table
        self.K = 1 if len(classes) == 2 else len(classes)

    @property
    def width(self) -> Array:
        """Targets that span the range of all, (2, 1)."""
        return np.array([[-1.0], [1.0]])

    def encode(self, y: NDArray[Any], weights: Array) -> tuple[Array, Array]:
        """Targets, (n, K), and weights, (n, 1) or (n, K)."""
        labels = np.searchsorted(self.classes, y)
        return signs(labels, len(self.classes)), weights[:, None] * self.table[labels]

    def intercept(self, b: Array) -> Array:
        """The intercept that an offset of the problems stands for."""
        return b

    def attributes(self, W: Array, b: Array) -> dict[str, Any]:
        """The solution as fitted attributes."""
        return {"classes_": self.classes, "coef_": np.ascontiguousarray(W.T), "intercept_": b}

    def suits(self, model: Any) -> bool:
        """Whether the last solution of a model is one of these problems."""
        return hasattr(model, "coef_") and np.array_equal(model.classes_, self.classes)

    def offset(self, intercept: Array) -> Array:
        """The offset of the problems that an intercept stands for."""
        return intercept


class Together(OneVsRest):
    """The same of one problem whose outputs are the classes: a constant in all offsets changes nothing."""

    def __init__(self, classes: NDArray[Any], table: Array, kind: str) -> None:
        super().__init__(classes, table)
        self.kind = kind

    def intercept(self, b: Array) -> Array:
        each = b.reshape(-1, self.K)
        return np.asarray((each - each.mean(axis=1, keepdims=True)).ravel())

    def attributes(self, W: Array, b: Array) -> dict[str, Any]:
        return super().attributes(W, self.intercept(b))


class LabelsApart(OneVsRest):
    """Several labels of an example as targets: whether it has each. One that all or none have is left out.

    Parameters
    ----------
    seen : Indicators
    class_weight : as of the estimators; the classes of each label are 0 and 1
    """

    def __init__(self, seen: Indicators, class_weight: Any) -> None:
        totals = seen.totals
        vary = (totals > FAINTEST * totals.sum(axis=0)).all(axis=0)
        self._live, self.constant = np.flatnonzero(vary), np.flatnonzero(~vary)
        if not len(self._live):
            raise ValueError(
                "All examples of positive weight have the same labels in y: give some that differ."
            )
        self._fixed = np.where(totals[1] > totals[0], CERTAIN, -CERTAIN)
        if isinstance(class_weight, str):
            check_option("class_weight", class_weight, ["balanced"])
            sides = totals[:, self._live]
            table = sides.sum(axis=0) / (2 * sides)
        else:
            table = class_weights(class_weight, np.array([0, 1]))[:, None]
        super().__init__(np.arange(totals.shape[1]), table)
        self.K = len(self._live)

    def encode(self, y: NDArray[Any], weights: Array) -> tuple[Array, Array]:
        have = np.ascontiguousarray(y[:, self._live] > 0)
        if len(np.unique(self.table)) == 1:
            return np.where(have, 1.0, -1.0), self.table[0, 0] * weights[:, None]
        return np.where(have, 1.0, -1.0), weights[:, None] * np.where(have, self.table[1], self.table[0])

    def attributes(self, W: Array, b: Array) -> dict[str, Any]:
        coef, intercept = np.zeros((len(self.classes), len(W))), self._fixed.copy()
        coef[self._live], intercept[self._live] = W.T, b
        return {"classes_": self.classes, "coef_": coef, "intercept_": intercept, "_indicator": True}

    def suits(self, model: Any) -> bool:
        return bool(model._indicator) and not len(self.constant) and super().suits(model)


class Centred:
    """Numbers as targets, counted from a centre: T targets, or one with several outputs.

    Parameters
    ----------
    seen : Numbers
    centre : (T,) or number
    outputs : the number of outputs that one target has; None: one, and no axis for it in `coef_`
    """

    classes = None
    kind = "ovr"

    def __init__(self, seen: Numbers, centre: Array | float, outputs: int | None = None) -> None:
        self.single = seen.single and outputs is None
        self.K = len(seen.low) if outputs is None else outputs
        self.centre = np.broadcast_to(centre, (self.K,))
        self.width = np.broadcast_to([seen.low, seen.high], (2, self.K)) - self.centre

    def encode(self, y: NDArray[Any], weights: Array) -> tuple[Array, Array]:
        """Targets, (n, K), and weights, (n, 1)."""
        return y.reshape(len(y), -1) - self.centre, weights[:, None]

    def intercept(self, b: Array) -> Array:
        """The intercept that an offset of the problems stands for."""
        return np.asarray(b + self.centre)

    def attributes(self, W: Array, b: Array) -> dict[str, Any]:
        """The solution as fitted attributes."""
        coef = W[:, 0].copy() if self.single else np.ascontiguousarray(W.T)
        return {"coef_": coef, "intercept_": self.intercept(b)}

    def suits(self, model: Any) -> bool:
        """Whether a model has a last solution."""
        return hasattr(model, "coef_") and (np.ndim(model.coef_) == 1) == self.single

    def offset(self, intercept: Array) -> Array:
        """The offset of the problems that an intercept stands for."""
        return np.asarray(intercept - self.centre)


Seen = Labels | Indicators | Numbers
Targets = OneVsRest | Centred


def signs(labels: NDArray[np.intp], count: int) -> Array:
    """±1: whether an example is of a class, (n, K), for labels 0 … count − 1."""
    columns = np.array([1]) if count == 2 else np.arange(count)
    return np.where(labels[:, None] == columns, 1.0, -1.0)


def class_table(class_weight: Any, classes: NDArray[Any], counts: Array, together: bool = False) -> Array:
    """The weight of an example of each class: (n_classes, 1), or (n_classes, K) if every problem is balanced.

    `counts` are the sums of the examples' weights of each class. `together`: all classes are one problem.
    """
    if isinstance(class_weight, str):
        check_option("class_weight", class_weight, ["balanced"])
        if together:
            share = counts.sum() / np.count_nonzero(counts)
            return np.asarray(share / np.where(counts > 0, counts, share))[:, None]
        Y, total = signs(np.arange(len(classes)), len(classes)), counts.sum()
        sides = np.array([counts @ (Y < 0), counts @ (Y > 0)])
        each = total / (2 * np.where(sides > 0, sides, total))  # an empty side weighs nothing anyway
        return np.asarray(np.where(Y > 0, each[1], each[0]))
    each = class_weights(class_weight, classes)
    if np.count_nonzero(counts * each) < 2:
        raise ValueError(
            f"class_weight={class_weight!r} leaves examples of positive weight in one class only: "
            "a classifier needs at least two classes."
        )
    return each[:, None]


def class_weights(class_weight: Any, classes: NDArray[Any]) -> Array:
    """The weight of every class that a dict gives, (n_classes,); None weighs all alike."""
    if class_weight is None:
        return np.ones(len(classes))
    if not isinstance(class_weight, dict):
        raise ValueError(f"class_weight={class_weight!r} must be a dict, 'balanced' or None.")
    for weight in class_weight.values():
        try:
            check_real("weight", weight, least=0)
        except ValueError as error:
            raise ValueError(f"class_weight={class_weight!r}: {error}") from None
    return np.asarray(compute_class_weight(class_weight, classes=classes, y=classes), dtype=np.float64)


def check_targets(y: Any) -> Array:
    """Targets of a regression as float64, finite and not too large."""
    targets: Array = np.array(y, dtype=np.float64)
    if not np.isfinite(targets).all():
        raise ValueError("Input y contains NaN or infinity.")
    check_size("y", float(targets.min()), float(targets.max()))
    return targets
