"""Read matrices of numbers, svmlight and npz: all rows or a sample of them, with the features of a model."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from marginout._blocks.readers import Rows, as_csr, gather, npz_features, open_npz, svmlight_rows
from marginout.cli.data import Matrix, rows_where
from marginout.cli.errors import DataError
from marginout.cli.output import Progress

#: Features that a matrix may have: a larger index is a mistake, and the weights would not fit into memory.
MOST_FEATURES = 50_000_000
#: Arrays of an npz file that may be the target, the first one that is there, where none is named.
TARGETS = "y", "target", "label", "rating"


# --------------------------------------------------------------------------- svmlight


def read_svmlight(
    stream: IO[bytes], progress: Progress, n_features: int | None, base: int | None, rows: int, seed: int
) -> Matrix:
    """Read a whole file, or `rows` of its rows drawn at random."""
    parts = svmlight_parts(stream)
    found = gather(_sampled(parts, rows, seed) if rows else parts)
    if not len(found.labels):
        raise DataError("there is no row in it")
    if base is None:
        base = 0 if len(found.indices) and found.indices.min() == 0 else 1
    return Matrix(assemble(found, n_features, base, progress), found.labels, None, base)


def svmlight_parts(stream: IO[bytes]) -> Iterator[Rows]:
    """Read the rows of a file part by part."""
    return svmlight_rows(stream, largest=MOST_FEATURES)


def assemble(rows: Rows, n_features: int | None, base: int, progress: Progress) -> Any:
    """Make a CSR matrix of rows, with the model's number of features where there is a model."""
    if len(rows.indices) and rows.indices.min() < base:
        raise DataError("an index is 0, but the model's data count from 1: number the features alike")
    if n_features is not None and len(rows.indices) and rows.indices.max() >= n_features + base:
        progress.note("features that the model has never seen are left out")
        rows = _known(rows, n_features + base)
    return as_csr(rows, n_features or int(rows.indices.max(initial=base)) + 1 - base, base)


def _known(rows: Rows, end: int) -> Rows:
    """Rows without the entries of index `end` and above."""
    known = rows.indices < end
    owner = np.repeat(np.arange(len(rows.lengths)), rows.lengths)
    lengths = np.bincount(owner[known], minlength=len(rows.lengths))
    return Rows(rows.labels, lengths, rows.indices[known], rows.values[known])


def _sampled(parts: Iterable[Rows], rows: int, seed: int) -> Iterator[Rows]:
    """Draw `rows` of the rows, every subset of this size equally likely; at most 2·rows are in memory.

    Each row draws a number. The rows with the smallest numbers stay, in the file's order.
    """
    rng = np.random.default_rng(seed)
    pool: list[Rows] = []
    draws: list[NDArray[np.float64]] = []
    count, bar = 0, 1.0
    for part in parts:
        draw = rng.random(len(part.labels))
        kept = draw < bar
        pool.append(_take(part, kept))
        draws.append(draw[kept])
        count += int(kept.sum())
        if count > 2 * rows:
            pool, draws, bar = _thin(pool, draws, rows)
            count = rows
    if count > rows:
        pool, draws, bar = _thin(pool, draws, rows)
    yield from pool


def _thin(
    pool: list[Rows], draws: list[NDArray[np.float64]], rows: int
) -> tuple[list[Rows], list[NDArray[np.float64]], float]:
    draw = np.concatenate(draws)
    bar = float(np.partition(draw, rows)[rows])
    return [_take(gather(pool), draw < bar)], [draw[draw < bar]], bar


def _take(rows: Rows, kept: NDArray[np.bool_]) -> Rows:
    entries = np.repeat(kept, rows.lengths)
    return Rows(rows.labels[kept], rows.lengths[kept], rows.indices[entries], rows.values[entries])


# --------------------------------------------------------------------------- npz


def read_npz(stream: IO[bytes], target: str | None, where: dict[str, str], n_features: int | None) -> Matrix:
    """Read the features, and the target if there is one."""
    with open_npz(io.BytesIO(stream.read())) as archive:
        arrays = {name: archive[name] for name in archive if name != "feature_names"}
        names = _names(archive)
    X = npz_features(arrays)
    if X.ndim != 2 or not X.shape[0] or not X.shape[1]:
        raise DataError(f"the features have shape {X.shape}: there must be rows and columns")
    if X.shape[1] > MOST_FEATURES:
        raise DataError(f"it has {X.shape[1]} features, more than {MOST_FEATURES}: hash them")
    y = _target(arrays, target, X.shape[0])
    if n_features is not None and X.shape[1] != n_features:
        raise DataError(
            f"it has {X.shape[1]} features, but the model was trained on {n_features}: give these"
        )
    found = Matrix(X, y, names if names and len(names) == X.shape[1] else None)
    columns = {name: array for name, array in arrays.items() if array.shape == (len(found),)}
    kept = rows_where(
        where, columns, len(found), "there is no such array of one value per row; those there are:"
    )
    return found if kept.all() else found.take(kept)


def _names(archive: Mapping[str, Any]) -> list[str] | None:
    if "feature_names" not in archive:
        return None
    return [
        name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
        for name in archive["feature_names"].ravel()
    ]


def _target(arrays: dict[str, Any], target: str | None, n: int) -> Any:
    name = target or next((name for name in TARGETS if name in arrays), None)
    if name is None:
        return None
    if name not in arrays:
        raise DataError(f"there is no array {name!r} in it: --target must be one of {', '.join(arrays)}")
    if arrays[name].shape != (n,):
        raise DataError(f"the target {name!r} has shape {arrays[name].shape}, but there are {n} rows")
    y = arrays[name]
    return np.char.decode(y, "utf-8", "replace") if y.dtype.kind == "S" else y
