"""Fits to examples in blocks: what blocks need besides the one fit path."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from marginout._blocks import checkpoint as checkpoints
from marginout._core.fit import (
    Block,
    Checked,
    Plan,
    Summary,
    check,
    check_alike,
    check_weight,
    describe,
    make_shard,
    minimize,
    names_of,
    prepare,
    sum_of_shards,
)
from marginout._core.gaussian import ClassLaws, Law, Rows, learn_from
from marginout._core.interfaces import Array, Executor, Handles
from marginout._core.shard import Shard
from marginout._core.validation import check_count, check_real, check_sample_weight
from marginout.solvers import choose


def check_fit(model: Any, checkpoint: str | os.PathLike[str] | None, every: int) -> None:
    """Refuse what cannot be done, before any block is read."""
    if not getattr(model, "_fits_blocks", False):
        raise TypeError(
            f"{type(model).__name__} cannot be fitted to blocks: choose DropoutSVC, "
            "DropoutLogisticRegression, DropoutSVR or DropoutQuantileRegressor."
        )
    model._checked_solver(in_one_place=False)
    check_real("C", model.C, above=0)
    check_real("tol", model.tol, above=0)
    check_count("max_iter", model.max_iter, 1)
    check_count("every", every, 1)
    if checkpoint is not None:
        checkpoints.check_folder(Path(checkpoint))


def prepare_block(
    model: Any, number: int, X: Any, y: Any, sample_weight: Any = None
) -> tuple[Block | None, Summary | None]:
    """A block of examples, checked by the model's own rules, and its summary; nothing of an empty one."""
    if getattr(X, "shape", (1,))[0] == 0:
        return None, None
    with naming(number):
        return prepare(clone(model), X, y, lambda X: block_weights(sample_weight, X))


@contextmanager
def naming(number: int) -> Iterator[None]:
    """Errors name the block."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"block {number}: {error}") from error


class Glance(NamedTuple):
    """What is known of a checked block before the laws of what is missing are."""

    d: int
    names: tuple[str, ...] | None
    #: How many rows have a positive weight, and their classes, if an example has one.
    used: int
    classes: NDArray[Any] | None


class Waiting(NamedTuple):
    """A checked block that waits for these laws."""

    checked: Checked
    glance: Glance


def check_block(model: Any, number: int, X: Any, y: Any, sample_weight: Any = None) -> Waiting | None:
    """A block by the model's rules; nothing of an empty one."""
    if getattr(X, "shape", (1,))[0] == 0:
        return None
    model = clone(model)
    with naming(number):
        checked = check(model, X, y, lambda X: block_weights(sample_weight, X))
    rows, used = block_rows(model, checked, 0), int(np.count_nonzero(checked.weights))
    classes = None if rows.y is None else np.unique(rows.y)
    return Waiting(checked, Glance(checked.X.shape[1], names_of(model), used, classes))


def block_rows(model: Any, checked: Checked, start: int) -> Rows:
    """The rows of positive weight, `start` of which come before."""
    X, y, weights = checked
    kinds, kept = model._kinds(y), weights > 0
    if kept.all():
        return Rows(X, kinds, start)
    return Rows(X[kept], None if kinds is None else kinds[kept], start)


def starts_of(glances: Sequence[Glance | None]) -> list[int]:
    """How many rows of positive weight come before each block, empty ones apart, which must be alike."""
    known = [(number, glance) for number, glance in enumerate(glances) if glance is not None]
    if not known:
        raise ValueError("There is no example in any block: give at least one.")
    for number, glance in known[1:]:
        check_alike(*known[0], number, glance)
    ends = np.cumsum([glance.used for _, glance in known])
    check_weight(float(ends[-1]))
    return [0, *(int(end) for end in ends[:-1])]


def learn_laws(executor: Executor, rows: Handles, glances: Sequence[Glance | None]) -> Law | ClassLaws:
    """The laws that `fit` would learn of all rows at once."""
    each = [glance.classes for glance in glances if glance is not None and glance.classes is not None]
    classes = np.unique(np.concatenate(each)) if each else None
    return learn_from(lambda task, *args: executor.sum(task, [rows], *args), classes)


def describe_block(model: Any, law: Law | ClassLaws, number: int, waiting: Waiting) -> tuple[Block, Summary]:
    """What `prepare_block` makes of a block, now that the laws are known."""
    model = clone(model)
    model._law = law
    if waiting.glance.names is not None:
        model.feature_names_in_ = np.array(waiting.glance.names, dtype=object)
    with naming(number):
        return describe(model, waiting.checked)


def block_weights(sample_weight: Any, X: Any) -> Array:
    """One weight per example; all may be zero here: it is for all blocks together to have some."""
    given = np.asarray(sample_weight)
    if given.dtype.kind in "fiub" and given.shape == (X.shape[0],) and not given.any():
        return np.zeros(len(given))
    return check_sample_weight(sample_weight, X)


def block_shard(block: Block, plan: Plan) -> Shard:
    """A block's part of F, for a caller that has threads of its own and keeps it."""
    return make_shard(block._replace(design=block.under(plan.noise).design.serial().reusing()), plan)


def minimize_blocks(
    model: Any,
    executor: Executor,
    shards: Handles,
    total: Summary,
    plan: Plan,
    checkpoint: str | os.PathLike[str] | None = None,
    every: int = 1,
) -> None:
    """Fit the model to the shards of the blocks.

    Sets: all fitted attributes, at the end.
    """
    objective = sum_of_shards(model, executor, shards, total, plan)
    solve = partial(choose(model.solver, objective), objective)
    data: dict[str, Any] = {"X": None, "y": None}
    if checkpoint is None:
        minimize(model, solve, plan, total.d, data)
        return
    path = Path(checkpoint)
    monitor = checkpoints.Writer(path, every, plan.targets.classes)
    begin = checkpoints.read(path, (total.d, plan.targets.K), plan.targets.classes)
    if begin is not None and not plan.fit_intercept:
        begin = begin[0], np.zeros(plan.targets.K)
    minimize(model, solve, plan, total.d, data, monitor, begin)
    path.unlink(missing_ok=True)
