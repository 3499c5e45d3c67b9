"""Fits to examples that come in blocks: more of them than memory holds, and still the exact optimum.

    marginout.blocks.fit(DropoutSVC(), marginout.blocks.read_svmlight("train.svm", n_features=10_000))

Blocks are checked one by one and written to a scratch folder in the form that training reads:
two passes an iteration, straight from the files, with no parsing. Memory holds one block, and
vectors of n_features × n_classes; the folder holds the data, and about ten numbers
per example and class.
"""

from __future__ import annotations

import bz2
import gzip
import os
from collections.abc import Iterable, Iterator
from functools import partial
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from joblib import Parallel
from sklearn.datasets import load_svmlight_file

from marginout._blocks.executors import OnDisk, Recipe, Stored, Threads
from marginout._blocks.fit import block_shard, check_fit, minimize_blocks, prepare_block
from marginout._core.design import design_of
from marginout._core.fit import Block, Plan, make_plan, merge, set_features
from marginout._core.objective import Shard
from marginout._core.validation import check_count, check_option

__all__ = ["fit", "read_npz", "read_parquet", "read_svmlight"]

#: Bytes of a text file that make a block, unless told otherwise: some 64 MB of CSR.
BLOCK_BYTES = 2**26
#: Rows of a table that make a block.
BLOCK_ROWS = 100_000
#: What opens a text file, by the end of its name.
OPEN: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}


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
    blocks : iterable of (X, y) or (X, y, sample_weight)
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
    estimator : the same, fitted

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
    with TemporaryDirectory(prefix="marginout-", dir=scratch) as folder, estimator._untouched_on_failure():
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
    return Shard(design_of(X, plan.noise), plan.loss, Y, weights)


def read_svmlight(
    path: str | os.PathLike[str], n_features: int, *, zero_based: bool = False, block_bytes: int = BLOCK_BYTES
) -> Iterator[tuple[Any, Any]]:
    """Blocks (X, y) of a file in svmlight's or LIBSVM's format.

    Parameters
    ----------
    path : path
        Compressed if it ends in .gz or .bz2.
    n_features : int
    zero_based : bool, default=False
        Whether the first feature is number 0 in the file, not 1.
    block_bytes : int, default=2**26
        Bytes of text that make a block, up to the end of a line.
    """
    block_bytes = check_count("block_bytes", block_bytes, 1)
    with OPEN.get(Path(path).suffix, open)(path, "rb") as file:
        while text := file.read(block_bytes) + file.readline():
            X, y = load_svmlight_file(BytesIO(text), n_features=n_features, zero_based=zero_based)
            if len(y):
                yield X, y


Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def _each(paths: Paths) -> Iterable[str | os.PathLike[str]]:
    return [paths] if isinstance(paths, (str, os.PathLike)) else paths


def read_npz(paths: Paths) -> Iterator[tuple[Any, ...]]:
    """Blocks (X, y) or (X, y, sample_weight) of .npz files (a path, or several), one each.

    A file holds `y`, perhaps `sample_weight`, and either `X` or the parts of a CSR matrix that
    `scipy.sparse.save_npz` writes: `data`, `indices`, `indptr`, `shape`.
    """
    for path in _each(paths):
        with np.load(path, allow_pickle=False) as file:
            if "X" in file:
                X = file["X"]
            elif "format" in file and file["format"].item() not in (b"csr", "csr"):
                raise ValueError(
                    f"{os.fspath(path)!r} holds a matrix in another format than CSR: use X.tocsr()."
                )
            elif {"data", "indices", "indptr", "shape"} <= set(file):
                X = sp.csr_array((file["data"], file["indices"], file["indptr"]), shape=tuple(file["shape"]))
            else:
                raise ValueError(f"{os.fspath(path)!r} holds neither X nor data, indices, indptr and shape.")
            yield (X, file["y"], file["sample_weight"]) if "sample_weight" in file else (X, file["y"])


def read_parquet(
    paths: Paths,
    target: str,
    *,
    sample_weight: str | None = None,
    block_rows: int = BLOCK_ROWS,
) -> Iterator[tuple[Any, ...]]:
    """Blocks (X, y) or (X, y, sample_weight) of Parquet files; needs pyarrow and pandas.

    Parameters
    ----------
    paths : path, or iterable of paths
    target : str
        The column of labels or targets.
    sample_weight : str, default=None
        The column of weights. All other columns are features.
    block_rows : int, default=100_000
        Most rows of a block.
    """
    try:
        import pandas  # noqa: F401
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ImportError("read_parquet needs pyarrow and pandas: pip install pyarrow pandas") from error
    special = [target] if sample_weight is None else [target, sample_weight]
    for path in _each(paths):
        with ParquetFile(os.fspath(path)) as file:
            for batch in file.iter_batches(batch_size=check_count("block_rows", block_rows, 1)):
                table = batch.to_pandas()
                yield (table.drop(columns=special), *(table[name].to_numpy() for name in special))
