"""The fit path of the linear models for examples in blocks.

Every block is looked at once by itself (:func:`prepare`), what they found is put together on
the driver (:func:`plan_fit`), each becomes an objective of its own (:func:`block_objective`), and
:func:`minimize` runs the model's solver on their sum.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.multiclass import check_classification_targets

from marginout import _checkpoint
from marginout._design import Grouping, design_of, make_design
from marginout._objective import Array, Objective
from marginout._sum import Executor, Handles, SumObjective, Whole
from marginout._validation import check_count, check_features, check_flag, check_real, check_sample_weight
from marginout.estimators._base import DropoutClassifier, check_targets
from marginout.estimators._search import Search
from marginout.estimators.logistic import DropoutLogisticRegression
from marginout.estimators.svm import DropoutSVC, DropoutSVR
from marginout.losses import Loss
from marginout.noise import Noise

#: The models whose objective is a sum over blocks that a solver here minimises.
LINEAR = DropoutSVC, DropoutLogisticRegression, DropoutSVR
#: From a user's call of a fit to blocks to :func:`minimize`, for warnings to point at.
FRAMES = 2


class Block(NamedTuple):
    """Checked examples: X as its design stores it, labels or targets, weights."""

    X: Any
    y: NDArray[Any]
    weights: Array


class Summary(NamedTuple):
    """What the driver must know of a block, or of several."""

    n: int
    nnz: int
    weight: float
    d: int
    names: tuple[str, ...] | None
    #: The weight of every class, or, of a regression, none; and the type that labels have.
    classes: dict[Any, float]
    dtype: np.dtype[Any]
    #: Least and largest target, and the sum of the blocks' medians times their sizes.
    targets: tuple[float, float, float]
    nbytes: int
    #: Whether features lie far from zero.
    far: bool


class Plan(NamedTuple):
    """What a block must know of all."""

    noise: Noise
    loss: Loss
    fit_intercept: bool
    C: float
    centre: float
    classes: NDArray[Any] | None
    #: The weight of an example of a class in each problem, (n_classes, 1) or (n_classes, K).
    table: Array | None


def check_fit(model: Any, checkpoint: str | os.PathLike[str] | None, every: int) -> None:
    """Refuse what cannot be done, before any block is read."""
    if not isinstance(model, LINEAR) or isinstance(model, Search):
        raise TypeError(
            f"{type(model).__name__} cannot be fitted to blocks: choose DropoutSVC, "
            "DropoutLogisticRegression or DropoutSVR."
        )
    if model.solver not in ("auto", "ncg", "lbfgs"):
        raise ValueError(
            f"solver={model.solver!r} needs all examples in one place: for blocks it must be 'auto', 'ncg' "
            "or 'lbfgs'."
        )
    check_real("C", model.C, above=0)
    check_real("tol", model.tol, above=0)
    check_count("max_iter", model.max_iter, 1)
    check_count("every", every, 1)
    if checkpoint is not None:
        _checkpoint.check_folder(Path(checkpoint))


def prepare(
    model: Any, number: int, X: Any, y: Any, sample_weight: Any = None
) -> tuple[Block | None, Summary | None]:
    """A block of examples, checked by the model's own rules, and its summary; nothing of an empty one."""
    if getattr(X, "shape", (1,))[0] == 0:
        return None, None
    own = clone(model)
    try:
        X, y = own._validated(X, y, y_numeric=not isinstance(model, DropoutClassifier))
        weights = block_weights(sample_weight, X)
        noise = own._noise()
        design = make_design(check_features(own._without_missing(X, noise), noise), noise)
        X = design.X
        if isinstance(model, DropoutClassifier):
            check_classification_targets(y)
            labels, inverse = np.unique(y, return_inverse=True)
            totals = np.bincount(inverse, weights, len(labels)).tolist()
            classes, targets = dict(zip(labels.tolist(), totals, strict=True)), (0.0, 0.0, 0.0)
        else:
            y = check_targets(y)
            classes, targets = {}, (float(y.min()), float(y.max()), float(np.median(y)) * len(y))
    except (TypeError, ValueError) as error:
        raise type(error)(f"block {number}: {error}") from error
    nnz, names = X.nnz if sp.issparse(X) else X.size, getattr(own, "feature_names_in_", None)
    names = None if names is None else tuple(names)
    weight = float(weights.sum())
    summary = Summary(
        len(y), nnz, weight, X.shape[1], names, classes, y.dtype, targets, size_of(X), design.far()
    )
    return Block(X, y, weights), summary


def size_of(X: Any) -> int:
    """Bytes of a dense or CSR X."""
    parts = [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]
    return sum(part.nbytes for part in parts)


def block_weights(sample_weight: Any, X: Any) -> Array:
    """One weight per example; all may be zero here: it is for all blocks together to have some."""
    given = np.asarray(sample_weight)
    if given.dtype.kind in "fiub" and given.shape == (X.shape[0],) and not given.any():
        return np.zeros(len(given))
    return check_sample_weight(sample_weight, X)


def merge(summaries: Iterable[Summary | None]) -> Summary:
    """The summary of all blocks, empty ones apart, which must have the same features."""
    known = [(number, summary) for number, summary in enumerate(summaries) if summary is not None]
    if not known:
        raise ValueError("There is no example in any block: give at least one.")
    (start, first), *others = known
    total = first
    for number, other in others:
        if other.d != first.d:
            raise ValueError(
                f"block {number} has {other.d} features but block {start} has {first.d}: "
                "all blocks must have the same."
            )
        if other.names != first.names:
            raise ValueError(
                f"block {number} has features of other names, or in another order, than block {start}."
            )
        classes = dict(total.classes)
        for label, weight in other.classes.items():
            classes[label] = classes.get(label, 0.0) + weight
        (low, high, middle), (other_low, other_high, other_middle) = total.targets, other.targets
        total = total._replace(
            n=total.n + other.n,
            nnz=total.nnz + other.nnz,
            weight=total.weight + other.weight,
            nbytes=total.nbytes + other.nbytes,
            far=total.far or other.far,
            classes=classes,
            dtype=np.result_type(total.dtype, other.dtype),
            targets=(min(low, other_low), max(high, other_high), middle + other_middle),
        )
    if total.weight == 0:
        raise ValueError("sample_weight is zero for every example: at least one must be positive.")
    return total


def plan_fit(model: Any, total: Summary) -> Plan:
    """What the blocks need to become objectives.

    Sets: n_features_in_, feature_names_in_ if there are names.
    """
    model.n_features_in_ = total.d
    if total.names is not None:
        model.feature_names_in_ = np.array(total.names, dtype=object)
    elif hasattr(model, "feature_names_in_"):
        del model.feature_names_in_
    noise = model._noise()
    C = check_real("C", model.C, above=0)
    fit_intercept = check_flag("fit_intercept", model.fit_intercept)
    if not isinstance(model, DropoutClassifier):
        low, high, middle = total.targets
        model._centre = centre = middle / total.n if fit_intercept else 0.0
        return Plan(noise, model._loss(np.array([[low], [high]])), fit_intercept, C, centre, None, None)
    classes = _sorted(total.classes, total.dtype)
    counts = np.array([total.classes[label] for label in classes.tolist()])
    if np.count_nonzero(counts) < 2:
        raise ValueError(
            f"y has examples of positive weight in {np.count_nonzero(counts)} of its {len(classes)} classes: "
            "a classifier needs at least two."
        )
    # One example per class, as heavy as all of them, tells the weight of any.
    labels = np.arange(len(classes))
    weights = model._class_weights(classes, labels, _signs(labels, len(classes)), counts)
    table = weights / np.where(counts > 0, counts, 1.0)[:, None]
    return Plan(noise, model._loss(np.zeros((1, 1))), fit_intercept, C, 0.0, classes, table)


def _sorted(labels: Iterable[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    try:
        return np.array(sorted(labels), dtype)
    except TypeError as error:
        raise TypeError(
            f"y has labels of several types in different blocks ({error}): make them of one."
        ) from error


def _signs(labels: NDArray[np.intp], count: int) -> Array:
    columns = [1] if count == 2 else range(count)
    return np.column_stack([np.where(labels == k, 1.0, -1.0) for k in columns])


def targets(y: NDArray[Any], weights: Array, plan: Plan) -> tuple[Array, Array]:
    """The targets Y, (n, K), of a block, and C times the weight of each example, (n, 1) or (n, K)."""
    if plan.classes is None or plan.table is None:
        return (y - plan.centre)[:, None], plan.C * weights[:, None]
    labels = np.searchsorted(plan.classes, y)
    return _signs(labels, len(plan.classes)), plan.C * weights[:, None] * plan.table[labels]


def block_objective(block: Block, plan: Plan) -> Objective:
    """The objective of one block, for a caller that has threads of its own and keeps it."""
    design = design_of(block.X, plan.noise).serial().reusing()
    return Objective(design, plan.loss, *targets(block.y, block.weights, plan), plan.fit_intercept)


def _whole(total: Summary, noise: Noise) -> Whole:
    """What solvers ask of the design of all blocks."""
    _, coefficient, _, groups = noise.moments(total.d)
    noiseless = not coefficient.any()
    if groups is None:
        return Whole(total.n, total.d, total.nnz, noiseless, far_off=total.far)
    kappa = np.zeros(int(groups.max()) + 1)
    kappa[groups] = coefficient
    return Whole(total.n, total.d, total.nnz, noiseless, Grouping(groups), kappa, far_off=total.far)


def minimize(
    model: Any,
    executor: Executor,
    blocks: Handles,
    total: Summary,
    plan: Plan,
    checkpoint: str | os.PathLike[str] | None = None,
    every: int = 1,
) -> None:
    """Fit the model to the objectives of the blocks.

    Sets: all fitted attributes, at the end; those of a checkpoint's start before.
    """
    K = 1 if plan.classes is None or len(plan.classes) == 2 else len(plan.classes)
    whole = _whole(total, plan.noise)
    objective = SumObjective(executor, blocks, whole, plan.loss, K, plan.fit_intercept)
    known = {} if plan.classes is None else {"classes_": plan.classes}
    start = plan.classes is None or np.array_equal(getattr(model, "classes_", ()), plan.classes)
    data, shape = {"X": None, "y": None}, (total.d, K)
    if checkpoint is None:
        model._run(objective, shape, data, known, start, frames=FRAMES)
        return
    path = Path(checkpoint)
    monitor = _checkpoint.Writer(path, every, plan.classes)
    begin = _checkpoint.read(path, shape, plan.classes)
    if begin is not None and not plan.fit_intercept:
        begin = begin[0], np.zeros(K)
    model._run(objective, shape, data, known, start, monitor, begin, frames=FRAMES)
    path.unlink(missing_ok=True)
