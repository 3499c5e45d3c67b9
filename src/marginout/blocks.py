"""Fits to examples that come in blocks: more of them than memory holds, and still the exact optimum.

    marginout.blocks.fit(DropoutSVC(), marginout.blocks.read_svmlight("train.svm", n_features=10_000))

Blocks are checked one by one and written to a scratch folder in the form that training reads:
two passes an iteration, straight from the files, with no parsing. Memory holds one block, and
vectors of n_features × n_classes; the folder holds the data, and about ten numbers
per example and class.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from joblib import Parallel
from numpy.typing import NDArray

from marginout._blocks.executors import OnDisk, Recipe, Serial, Stored, Threads
from marginout._blocks.fit import (
    Glance,
    Waiting,
    block_rows,
    block_shard,
    check_block,
    check_fit,
    describe_block,
    learn_laws,
    minimize_blocks,
    prepare_block,
    starts_of,
)
from marginout._blocks.readers import read_npz, read_parquet, read_svmlight
from marginout._core.design.conditional import conditional_design
from marginout._core.design.storage import design_of
from marginout._core.fit import (
    Block,
    Checked,
    Plan,
    Summary,
    make_plan,
    merge,
    set_features,
    untouched_on_failure,
)
from marginout._core.gaussian import ClassLaws, Law, Rows
from marginout._core.shard import Shard
from marginout._core.validation import check_option

__all__ = ["fit", "read_npz", "read_parquet", "read_svmlight"]


def fit(
    estimator: Any,
    blocks: Iterable[Any],
    *,
    storage: str = "disk",
    scratch: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: int = 1,
) -> Any:
    """Fit a linear model to blocks of examples: the optimum that `estimator.fit` finds on all of them.

    Parameters
    ----------
    estimator : DropoutSVC, DropoutLogisticRegression or DropoutSVR
        Its solver must be "auto", "ncg" or "lbfgs".
    blocks : iterable of tuples (X, y) or (X, y, sample_weight)
        Gone through once: a generator will do. X is dense or sparse or a data frame, with the same
        features in every block; `read_svmlight`, `read_parquet` and `read_npz` make blocks of files.
    storage : {"disk", "memory"}, default="disk"
        Where blocks are kept during the fit. In memory, joblib works on several of them at a time.
    scratch : path, default=None
        The folder in which a temporary one is made for blocks on disk. None: the system's.
    n_jobs : int, default=None
        Threads for blocks in memory, as joblib counts them.
    checkpoint : path, default=None
        Write where the fit stands to this file, in one piece or not at all, and begin there
        if it exists. It is removed when the fit has ended.
    every : int, default=1
        Iterations between two checkpoints.

    Returns
    -------
    estimator : DropoutSVC, DropoutLogisticRegression or DropoutSVR
        The same, fitted.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from marginout import DropoutSVC, blocks
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> parts = ((scale(X)[rows], y[rows]) for rows in (slice(0, 300), slice(300, 569)))
    >>> blocks.fit(DropoutSVC(), parts).coef_.shape
    (1, 30)
    """
    check_fit(estimator, checkpoint, every)
    if scratch is not None and not Path(scratch).is_dir():
        raise ValueError(f"scratch={os.fspath(scratch)!r} is no folder: make it, or name another.")
    on_disk = check_option("storage", storage, ["disk", "memory"]) == "disk"
    with TemporaryDirectory(prefix="marginout-", dir=scratch) as folder, untouched_on_failure(estimator):
        disk = OnDisk(Path(folder))
        kept: list[Any] = []
        summaries = []
        conditional = estimator.missing == "conditional"
        for block, summary in (_conditional if conditional else _prepared)(estimator, blocks, disk, on_disk):
            summaries.append(summary)
            if block is not None:
                kept.append(_store(disk, block) if on_disk else block)
            del block
        if not summaries:
            raise ValueError("blocks is empty: give at least one (X, y).")
        total = merge(summaries)
        set_features(estimator, total)
        plan = make_plan(estimator, total)
        if on_disk:
            recipes = [_encoded(disk, block, plan, estimator._law) for block in kept]
            minimize_blocks(estimator, disk, recipes, total, plan, checkpoint, every)
        else:
            with Parallel(n_jobs=n_jobs, require="sharedmem") as parallel:
                shards = [block_shard(block, plan) for block in kept]
                minimize_blocks(estimator, Threads(parallel), shards, total, plan, checkpoint, every)
    return estimator


def _given(blocks: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """The blocks and their numbers."""
    for number, given in enumerate(blocks):
        if not isinstance(given, (tuple, list)) or len(given) not in (2, 3):
            raise ValueError(f"block {number} must be (X, y) or (X, y, sample_weight).")
        yield number, given


#: Blocks and their summaries; nothing of empty ones.
Prepared = Iterator[tuple[Block | None, Summary | None]]


def _prepared(model: Any, blocks: Iterable[Any], disk: OnDisk, on_disk: bool) -> Prepared:
    """Every block, checked."""
    model._law = None
    for number, given in _given(blocks):
        yield prepare_block(model, number, *given)


def _conditional(model: Any, blocks: Iterable[Any], disk: OnDisk, on_disk: bool) -> Prepared:
    """The same for missing="conditional": all blocks are kept until the laws of what is missing are known.

    Sets: _law.
    """
    waiting: list[tuple[int, Any]] = []
    glances: list[Glance | None] = []
    for number, given in _given(blocks):
        block = check_block(model, number, *given)
        glances.append(None if block is None else block.glance)
        if block is not None:
            waiting.append((number, _set_aside(disk, block) if on_disk else block))
    if not glances:
        return
    starts = starts_of(glances)
    executor, rows = (disk, _stored_rows) if on_disk else (Serial(), _rows)
    handles = [rows(model, block, start) for (_, block), start in zip(waiting, starts, strict=True)]
    model._law = learn_laws(executor, handles, glances)
    del handles
    for i, (number, block) in enumerate(waiting):
        waiting[i] = number, None
        yield describe_block(model, model._law, number, block.load() if on_disk else block)
        del block


def _rows(model: Any, block: Waiting, start: int) -> Rows:
    return block_rows(model, block.checked, start)


def _set_aside(disk: OnDisk, block: Waiting) -> Recipe:
    X, y, weights = block.checked
    return Recipe(partial(_waiting, block.glance), disk.store(X, _storable(y), weights))


def _waiting(glance: Glance, *arrays: Any) -> Waiting:
    return Waiting(Checked(*arrays), glance)


def _stored_rows(model: Any, block: Recipe, start: int) -> Recipe:
    return block.then(partial(_rows, model, start=start))


def _storable(y: NDArray[Any]) -> NDArray[Any]:
    """Labels as a file can hold them: strings as such."""
    return np.array(y.tolist()) if y.dtype == object else y


class StoredBlock(NamedTuple):
    """A checked block whose arrays are in files."""

    X: Stored
    shape: tuple[int, int]
    #: Labels or targets, and weights.
    y: Stored


def _store(disk: OnDisk, block: Block) -> StoredBlock:
    X, y = block.design.X, _storable(block.y)
    return StoredBlock(disk.store(*block.design.arrays()), X.shape, disk.store(y, block.weights))


def _encoded(disk: OnDisk, block: StoredBlock, plan: Plan, law: Law | ClassLaws | None) -> Recipe:
    """A stored block with its targets worked out, once, as a recipe for its shard."""
    y, weights = block.y.load()
    encoded = disk.store(*plan.encode(y, weights))
    return Recipe(partial(_shard, plan, block.shape, law), block.X, encoded)


def _shard(plan: Plan, shape: tuple[int, int], law: Any, *arrays: Any) -> Shard:
    *parts, Y, weights = arrays
    assert plan.loss is not None
    if len(parts) == 2:
        given, filled = parts
        design = conditional_design(given, plan.noise, law.one, filled).reusing()
    else:
        X = parts[0] if len(parts) == 1 else sp.csr_array(tuple(parts), shape=shape)
        design = design_of(X, plan.noise)
    return Shard.of(design, plan.loss, Y, weights)
