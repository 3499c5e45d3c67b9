"""svmlight files of any size: read in blocks, parsed by NumPy, gathered without a second copy.

A line is `label index:value index:value ...`, indices from 0 or 1 upwards; `# comments` and `qid:`
are skipped. Values are parsed as float64, which is what scikit-learn's reader gives.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marginout.cli.data import MOST_FEATURES, Matrix
from marginout.cli.errors import DataError
from marginout.cli.output import Progress

#: Bytes of a block: the parser needs about ten times as many while it works on one.
BLOCK = 4 << 20
#: Longest line, in bytes: beyond, the file is something else.
LONGEST = 1 << 28
#: An array that is full grows by this factor; the system moves pages, not bytes.
GROWTH = 1.3

_SPACE = np.zeros(256, dtype=bool)
_SPACE[list(b" \t\r\n\v\f")] = True
_NEWLINE, _COLON = b"\n:"


class Rows(NamedTuple):
    """Some rows: labels, entries of each row, and all entries."""

    labels: NDArray[np.float64]
    lengths: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float64]


def read(
    stream: IO[bytes], progress: Progress, n_features: int | None, base: int | None, rows: int, seed: int
) -> Matrix:
    """A whole file, or `rows` of its rows drawn at random."""
    parts = blocks(stream)
    gathered = _gathered(_sampled(parts, rows, seed) if rows else parts)
    if not len(gathered.labels):
        raise DataError("there is no row in it")
    if base is None:
        base = 0 if len(gathered.indices) and gathered.indices.min() == 0 else 1
    return Matrix(assemble(gathered, n_features, base, progress), gathered.labels, None, base)


def blocks(stream: IO[bytes]) -> Iterator[Rows]:
    """The rows of a file, block by block."""
    rest, line = b"", 1
    while chunk := stream.read(BLOCK):
        head, newline, tail = chunk.rpartition(b"\n")
        if not newline:
            rest += chunk
            if len(rest) > LONGEST:
                raise DataError(f"line {line} is longer than {LONGEST} bytes: this is no svmlight file")
            continue
        block, rest = rest + head + newline, tail
        yield parse(block, line)
        line += block.count(b"\n")
    if rest.strip():
        yield parse(rest + b"\n", line)


def parse(block: bytes, line: int) -> Rows:
    """The rows of whole lines, of which the first has number `line`."""
    if b"#" in block:
        block = re.sub(rb"#[^\n]*", b"", block)
    if b"qid:" in block:
        block = re.sub(rb"(?<=\s)qid:\d+", b"", block)
    text = np.frombuffer(block, dtype=np.uint8)
    space = _SPACE[text]
    starts = np.flatnonzero(~space & np.concatenate([[True], space[:-1]]))
    if not len(starts):
        return Rows(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0))
    at_line = np.searchsorted(np.flatnonzero(text == _NEWLINE), starts)
    first = np.concatenate([[True], at_line[1:] != at_line[:-1]])
    owner = np.searchsorted(starts, np.flatnonzero(text == _COLON), side="right") - 1
    # Every token has one colon, except the first of a line, which has none.
    shaped = np.array_equal(owner, np.flatnonzero(~first))
    numbers = _numbers(block.replace(b":", b" ")) if shaped else None
    if numbers is None or len(numbers) != len(starts) + len(owner):
        raise _culprit(block, line)
    place = np.cumsum(np.where(first, 1, 2)) - np.where(first, 1, 2)
    labels, where = numbers[place[first]], place[~first]
    indices, values = numbers[where], numbers[where + 1]
    if not np.isfinite(numbers).all() or np.any((indices != np.floor(indices)) | (indices < 0)):
        raise _culprit(block, line)
    if len(indices) and indices.max() > MOST_FEATURES:
        raise DataError(
            f"near line {line}: the index {indices.max():.0f} is larger than {MOST_FEATURES}: number the "
            "features anew, or hash them"
        )
    edges = np.flatnonzero(first)
    lengths = np.diff(np.append(edges, len(starts))) - 1
    return Rows(labels, lengths, indices.astype(np.int32), values)


def _numbers(text: bytes) -> NDArray[np.float64] | None:
    """The numbers in a text; None if it holds anything else."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return np.fromstring(text, sep=" ")
        except (DeprecationWarning, ValueError):
            return None


def _culprit(block: bytes, line: int) -> DataError:
    """The error that names the first malformed line of a block."""
    for number, content in enumerate(block.split(b"\n"), line):
        for place, token in enumerate(content.split()):
            try:
                index, colon, value = token.partition(b":")
                fine = np.isfinite(float(value if colon else index)) and bool(colon) == (place > 0)
                fine = fine and b"_" not in token and (not colon or (index.isdigit() and int(index) >= 0))
            except ValueError:
                fine = False
            if not fine:
                shown = token[:40].decode("utf-8", "replace")
                wanted = "index:value, both finite numbers" if place else "a number, the label"
                return DataError(f"line {number}: {shown!r} is not {wanted}: this is no svmlight")
    return DataError(f"near line {line}: this is no svmlight")


class _Growing:
    """An array that grows at its end, in place."""

    def __init__(self, dtype: Any) -> None:
        self.array, self.size = np.empty(1 << 16, dtype=dtype), 0

    def append(self, part: NDArray[Any]) -> None:
        end = self.size + len(part)
        if end > len(self.array):
            self.array.resize(max(end, int(GROWTH * len(self.array))), refcheck=False)
        self.array[self.size : end] = part
        self.size = end

    def finish(self) -> NDArray[Any]:
        self.array.resize(self.size, refcheck=False)
        return self.array


def _gathered(parts: Iterator[Rows]) -> Rows:
    columns = [_Growing(dtype) for dtype in (np.float64, np.int64, np.int32, np.float64)]
    for rows in parts:
        for column, part in zip(columns, rows, strict=True):
            column.append(np.asarray(part))
    return Rows(*(column.finish() for column in columns))


def _sampled(parts: Iterator[Rows], rows: int, seed: int) -> Iterator[Rows]:
    """Some of the rows, every set of so many equally likely, never more than twice as many in memory.

    Each row draws a number; those with the smallest stay, in the file's order.
    """
    rng = np.random.default_rng(seed)
    pool: list[Rows] = []
    fates: list[NDArray[np.float64]] = []
    count, bar = 0, 1.0
    for part in parts:
        fate = rng.random(len(part.labels))
        kept = fate < bar
        pool.append(_take(part, kept))
        fates.append(fate[kept])
        count += int(kept.sum())
        if count > 2 * rows:
            pool, fates, bar = _thin(pool, fates, rows)
            count = rows
    if count > rows:
        pool, fates, bar = _thin(pool, fates, rows)
    yield from pool


def _thin(
    pool: list[Rows], fates: list[NDArray[np.float64]], rows: int
) -> tuple[list[Rows], list[NDArray[np.float64]], float]:
    fate = np.concatenate(fates)
    bar = float(np.partition(fate, rows)[rows])
    whole = _gathered(iter(pool))
    return [_take(whole, fate < bar)], [fate[fate < bar]], bar


def _take(rows: Rows, kept: NDArray[np.bool_]) -> Rows:
    entries = np.repeat(kept, rows.lengths)
    return Rows(rows.labels[kept], rows.lengths[kept], rows.indices[entries], rows.values[entries])


def assemble(rows: Rows, n_features: int | None, base: int, progress: Progress) -> Any:
    """CSR of these rows, with the model's number of features where there is a model."""
    indices, values, lengths = rows.indices, rows.values, rows.lengths
    indices -= base
    if len(indices) and indices.min() < 0:
        raise DataError("an index is 0, but the model's data count from 1: number the features alike")
    if n_features is not None and len(indices) and indices.max() >= n_features:
        known = indices < n_features
        progress.note("features that the model has never seen are left out")
        owner = np.repeat(np.arange(len(lengths)), lengths)
        lengths = np.bincount(owner[known], minlength=len(lengths))
        indices, values = indices[known], values[known]
    d = n_features or (int(indices.max()) + 1 if len(indices) else 1)
    kind = np.int32 if len(indices) < 2**31 else np.int64
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(kind)
    X = sp.csr_matrix((values, indices.astype(kind, copy=False), indptr), shape=(len(lengths), d), copy=False)
    X.sum_duplicates()  # in place; nothing to do where indices ascend
    return X
