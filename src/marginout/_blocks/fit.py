"""Fits to examples in blocks: what blocks need besides the one fit path."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from marginout._blocks import checkpoint as checkpoints
from marginout._core.fit import Block, Plan, Summary, make_shard, minimize, prepare, sum_of_shards
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
    if model.missing == "conditional":
        raise ValueError(
            "missing='conditional' cannot be fitted to blocks, as the law of the features needs all rows at "
            "once: fit a GaussianImputer to some rows, transform every block, and choose missing='error'."
        )
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
    try:
        return prepare(clone(model), X, y, lambda X: block_weights(sample_weight, X))
    except (TypeError, ValueError) as error:
        raise type(error)(f"block {number}: {error}") from error


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
