"""Fits to examples that come in blocks: more of them than memory holds, and still the exact optimum.

    marginout.blocks.fit(DropoutSVC(), marginout.blocks.read_svmlight("train.svm", n_features=10_000))

Blocks are checked one by one and written to a scratch folder in the form that training reads:
two passes an iteration, straight from the files, with no parsing. Memory holds one block, and
vectors of n_features × n_classes; the folder holds the data, and about ten numbers
per example and class.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from joblib import Parallel

from marginout._blocks.executors import OnDisk, Recipe, Stored, Threads
from marginout._blocks.fit import block_shard, check_fit, minimize_blocks, prepare_block
from marginout._blocks.readers import read_npz, read_parquet, read_svmlight
from marginout._core.design.storage import design_of
from marginout._core.fit import Block, Plan, make_plan, merge, set_features, untouched_on_failure
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
        for number, given in enumerate(blocks):
            if not isinstance(given, (tuple, list)) or len(given) not in (2, 3):
                raise ValueError(f"block {number} must be (X, y) or (X, y, sample_weight).")
            block, summary = prepare_block(estimator, number, *given)
            summaries.append(summary)
            if block is not None:
                kept.append(_store(disk, block) if on_disk else block)
            del block, given
        if not summaries:
            raise ValueError("blocks is empty: give at least one (X, y).")
        total = merge(summaries)
        set_features(estimator, total)
        plan = make_plan(estimator, total)
        if on_disk:
            recipes = [_encoded(disk, block, plan) for block in kept]
            minimize_blocks(estimator, disk, recipes, total, plan, checkpoint, every)
        else:
            with Parallel(n_jobs=n_jobs, require="sharedmem") as parallel:
                shards = [block_shard(block, plan) for block in kept]
                minimize_blocks(estimator, Threads(parallel), shards, total, plan, checkpoint, every)
    return estimator


class StoredBlock(NamedTuple):
    """A checked block whose arrays are in files."""

    X: Stored
    shape: tuple[int, int]
    #: Labels or targets, and weights.
    y: Stored


def _store(disk: OnDisk, block: Block) -> StoredBlock:
    X, y = block.design.X, block.y
    parts = [X]
    if sp.issparse(X):
        X = sp.csr_array((X.data, X.indices, X.indptr), shape=X.shape)  # with the indices that it will have
        parts = [X.data, X.indices, X.indptr]
    y = np.array(y.tolist()) if y.dtype == object else y  # strings, which a file can hold as such only
    return StoredBlock(disk.store(*parts), X.shape, disk.store(y, block.weights))


def _encoded(disk: OnDisk, block: StoredBlock, plan: Plan) -> Recipe:
    """A stored block with its targets worked out, once, as a recipe for its shard."""
    y, weights = block.y.load()
    encoded = disk.store(*plan.encode(y, weights))
    return Recipe(partial(_shard, plan, block.shape), block.X, encoded)


def _shard(plan: Plan, shape: tuple[int, int], *arrays: Any) -> Shard:
    *parts, Y, weights = arrays
    X = parts[0] if len(parts) == 1 else sp.csr_array(tuple(parts), shape=shape)
    assert plan.loss is not None
    return Shard.of(design_of(X, plan.noise), plan.loss, Y, weights)
