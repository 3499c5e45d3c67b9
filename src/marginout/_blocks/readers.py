"""Read svmlight, npz and Parquet files block by block: for `marginout.blocks` and for the command.

A line of svmlight is `label index:value index:value ...`, indices from 0 or 1 upwards; `# comments` and
`qid:` are skipped. NumPy parses 4 MB of text at a time; the rows are gathered without a second copy. Values
are the float64 numbers that scikit-learn's reader gives. Nothing in an npz file is unpickled.
"""

from __future__ import annotations

import bz2
import gzip
import os
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from marginout._core.validation import check_count, check_flag

#: Bytes of text in a block, by default: about 64 MB as CSR.
BLOCK_BYTES = 2**26
#: Rows of a table in a block, by default.
BLOCK_ROWS = 100_000
#: Bytes of text that are parsed at a time: the parser needs about ten times as many.
PIECE = 4 << 20
#: Bytes of the longest line: a longer one shows that the file is not svmlight.
LONGEST = 1 << 28
#: Factor by which a full array grows; the system moves pages, not bytes.
GROWTH = 1.3
#: Largest index that the parsed rows can hold.
LARGEST_INDEX = 2**31 - 1
#: Arrays of an npz file that make a CSR matrix.
CSR = "data", "indices", "indptr", "shape"
#: Functions that open a text file, by the end of its name.
OPEN: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}

_SPACE = np.zeros(256, dtype=bool)
_SPACE[list(b" \t\r\n\v\f")] = True
_NEWLINE, _COLON = b"\n:"

AnyPath = str | os.PathLike[str]
Paths = AnyPath | Iterable[AnyPath]


class FormatError(ValueError):
    """A file that is not in its format. The message does not name the file."""


@contextmanager
def _naming(path: AnyPath) -> Iterator[None]:
    """Put the name of the file before the message of a FormatError."""
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{os.fspath(path)!r}: {error}") from error


def _each(paths: Paths) -> Iterable[AnyPath]:
    return [paths] if isinstance(paths, (str, os.PathLike)) else paths


# --------------------------------------------------------------------------- svmlight


class Rows(NamedTuple):
    """Rows of an svmlight file: the label and the number of entries of each, and the entries of all."""

    labels: NDArray[np.float64]
    lengths: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float64]


def read_svmlight(
    path: AnyPath, n_features: int, *, zero_based: bool = False, block_bytes: int = BLOCK_BYTES
) -> Iterator[tuple[Any, Any]]:
    """Read blocks (X, y) of a file in svmlight's or LIBSVM's format.

    Parameters
    ----------
    path : path
        The file. It is compressed if it ends in .gz or .bz2.
    n_features : int
        Number of features.
    zero_based : bool, default=False
        Whether the first feature has the number 0 in the file, not 1.
    block_bytes : int, default=2**26
        Bytes of text in a block, which then goes on to the end of its last line.

    Yields
    ------
    X : CSR matrix of shape (n_rows, n_features)
        Examples.
    y : array of shape (n_rows,)
        Labels or targets.
    """
    n_features = check_count("n_features", n_features, 1)
    block_bytes = check_count("block_bytes", block_bytes, 1)
    base, line = 0 if check_flag("zero_based", zero_based) else 1, 1
    with OPEN.get(Path(path).suffix, open)(path, "rb") as file:
        while text := file.read(block_bytes) + file.readline():
            with _naming(path):
                rows = gather(svmlight_rows(BytesIO(text), line=line, finite=False))
                _check_indices(rows, n_features, base)
            line += text.count(b"\n")
            if len(rows.labels):
                yield as_csr(rows, n_features, base), rows.labels


def _check_indices(rows: Rows, n_features: int, base: int) -> None:
    """Refuse a feature before the first one or after the last one."""
    if not len(rows.indices):
        return
    if rows.indices.min() < base:
        raise FormatError("a feature has the number 0: set zero_based=True")
    if rows.indices.max() >= n_features + base:
        raise FormatError(
            f"it has the feature number {rows.indices.max()}, counted from {base}, but "
            f"n_features={n_features}: raise it"
        )


def svmlight_rows(
    stream: IO[bytes], *, line: int = 1, largest: int = LARGEST_INDEX, finite: bool = True
) -> Iterator[Rows]:
    """Parse the rows of a stream, a few MB of text at a time.

    `line` is the number of the first line. An index above `largest` is refused, and so is a value that
    is not `finite`, where this is asked for.
    """
    rest = b""
    while chunk := stream.read(PIECE):
        head, newline, tail = chunk.rpartition(b"\n")
        if not newline:
            rest += chunk
            if len(rest) > LONGEST:
                raise FormatError(f"line {line} is longer than {LONGEST} bytes: this is not an svmlight file")
            continue
        text, rest = rest + head + newline, tail
        yield _parse(text, line, largest, finite)
        line += text.count(b"\n")
    if rest.strip():
        yield _parse(rest + b"\n", line, largest, finite)


def _parse(text: bytes, line: int, largest: int, finite: bool) -> Rows:
    """The rows of whole lines; the first line has the number `line`."""
    if b"#" in text:
        text = re.sub(rb"#[^\n]*", b"", text)
    if b"qid:" in text:
        text = re.sub(rb"(?<=\s)qid:\d+", b"", text)
    letters = np.frombuffer(text, dtype=np.uint8)
    space = _SPACE[letters]
    starts = np.flatnonzero(~space & np.concatenate([[True], space[:-1]]))
    if not len(starts):
        return Rows(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0))
    at_line = np.searchsorted(np.flatnonzero(letters == _NEWLINE), starts)
    first = np.concatenate([[True], at_line[1:] != at_line[:-1]])
    owner = np.searchsorted(starts, np.flatnonzero(letters == _COLON), side="right") - 1
    # Every token has one colon, except the first of a line, which has none.
    shaped = np.array_equal(owner, np.flatnonzero(~first))
    numbers = _numbers(text.replace(b":", b" ")) if shaped else None
    if numbers is None or len(numbers) != len(starts) + len(owner):
        raise _culprit(text, line, finite)
    place = np.cumsum(np.where(first, 1, 2)) - np.where(first, 1, 2)
    labels, where = numbers[place[first]], place[~first]
    indices, values = numbers[where], numbers[where + 1]
    whole = np.all((indices == np.floor(indices)) & (indices >= 0) & np.isfinite(indices))
    if not whole or (finite and not np.isfinite(numbers).all()):
        raise _culprit(text, line, finite)
    if len(indices) and indices.max() > largest:
        raise FormatError(
            f"near line {line}: the index {indices.max():.0f} is larger than {largest}: renumber "
            "the features, or hash them"
        )
    lengths = np.diff(np.append(np.flatnonzero(first), len(starts))) - 1
    return Rows(labels, lengths, indices.astype(np.int32), values)


def _numbers(text: bytes) -> NDArray[np.float64] | None:
    """The numbers in a text; None if it holds anything else."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return np.fromstring(text, sep=" ")
        except (DeprecationWarning, ValueError):
            return None


def _culprit(text: bytes, line: int, finite: bool) -> FormatError:
    """The error that names the first malformed line of a text."""
    for number, content in enumerate(text.split(b"\n"), line):
        for place, token in enumerate(content.split()):
            try:
                index, colon, value = token.partition(b":")
                known = float(value if colon else index)
                fine = (np.isfinite(known) or not finite) and bool(colon) == (place > 0)
                fine = fine and b"_" not in token and (not colon or (index.isdigit() and int(index) >= 0))
            except ValueError:
                fine = False
            if not fine:
                shown = token[:40].decode("utf-8", "replace")
                wanted = "index:value, both finite numbers" if place else "a number, the label"
                return FormatError(f"line {number}: {shown!r} is not {wanted}: this is not svmlight")
    return FormatError(f"near line {line}: this is not svmlight")


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


def gather(parts: Iterable[Rows]) -> Rows:
    """Join rows, with one copy of each entry."""
    columns = [_Growing(dtype) for dtype in (np.float64, np.int64, np.int32, np.float64)]
    for rows in parts:
        for column, part in zip(columns, rows, strict=True):
            column.append(np.asarray(part))
    return Rows(*(column.finish() for column in columns))


def as_csr(rows: Rows, n_features: int, base: int) -> Any:
    """CSR matrix of rows whose first feature has the number `base`. Changes `rows.indices`."""
    indices = rows.indices
    indices -= base
    kind = np.int32 if len(indices) < 2**31 else np.int64
    indptr = np.concatenate([[0], np.cumsum(rows.lengths)]).astype(kind)
    shape = len(rows.lengths), n_features
    X = sp.csr_matrix((rows.values, indices.astype(kind, copy=False), indptr), shape=shape, copy=False)
    X.sum_duplicates()  # in place; nothing to do where indices ascend
    return X


# --------------------------------------------------------------------------- npz


def read_npz(paths: Paths) -> Iterator[tuple[Any, ...]]:
    """Read blocks (X, y) or (X, y, sample_weight) of .npz files, one block per file.

    A file holds `y`, perhaps `sample_weight`, and either `X` or the parts of a CSR matrix that
    `scipy.sparse.save_npz` writes: `data`, `indices`, `indptr`, `shape`.

    Parameters
    ----------
    paths : path, or iterable of paths
        The files.

    Yields
    ------
    X : array or CSR matrix of shape (n_rows, n_features)
        Examples.
    y : array of shape (n_rows,)
        Labels or targets.
    sample_weight : array of shape (n_rows,)
        Weights, where the file has them.
    """
    for path in _each(paths):
        # Opened here: NumPy does not close a file that turns out to be broken.
        with open(path, "rb") as file, _naming(path), open_npz(file) as arrays:
            if "y" not in arrays:
                raise FormatError(f"it holds {_listed(arrays)}, but no y: add the targets as y")
            names = ["y", "sample_weight"] if "sample_weight" in arrays else ["y"]
            block = (npz_features(arrays), *(arrays[name] for name in names))
        yield block


@contextmanager
def open_npz(file: IO[bytes]) -> Iterator[Mapping[str, Any]]:
    """Open an npz file as a mapping that reads an array when it is asked for."""
    try:
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, NpzFile):
            raise FormatError("it is a single array, not an npz: save X and y with numpy.savez")
        with archive:
            yield archive
    except FormatError:
        raise
    except (ValueError, TypeError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, SyntaxError) as error:
        raise FormatError(f"it is no npz of plain arrays ({error}): save it with numpy.savez") from error
    except (NotImplementedError, OverflowError, RuntimeError) as error:
        raise FormatError(f"this npz is broken ({error}): get it again") from error


def npz_features(arrays: Mapping[str, Any]) -> Any:
    """The features of an npz file: its `X`, images as rows, or its CSR matrix."""
    if "X" in arrays:
        X = _as_floats(arrays["X"])
        return X.reshape(len(X), -1) if X.ndim > 2 else X
    if not set(CSR) <= set(arrays):
        raise FormatError(f"it holds {_listed(arrays)}, but features are read from X or {', '.join(CSR)}")
    if "format" in arrays and arrays["format"].item() not in (b"csr", "csr"):
        raise FormatError("it holds a matrix in another format than CSR: use X.tocsr()")
    data, indices, indptr, shape = (arrays[name] for name in CSR)
    try:
        X = sp.csr_matrix((_as_floats(data), indices, indptr), shape=tuple(int(n) for n in shape.ravel()))
        X.check_format(full_check=True)
    except FormatError:
        raise
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise FormatError(f"data, indices, indptr and shape make no CSR matrix: {error}") from error
    return X


def _listed(arrays: Mapping[str, Any]) -> str:
    return ", ".join(arrays) or "nothing"


def _as_floats(values: Any) -> Any:
    if values.dtype.kind not in "fiub":
        raise FormatError(f"the features are of type {values.dtype}: they must be numbers")
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


# --------------------------------------------------------------------------- Parquet


def read_parquet(
    paths: Paths,
    target: str,
    *,
    sample_weight: str | None = None,
    block_rows: int = BLOCK_ROWS,
) -> Iterator[tuple[Any, ...]]:
    """Read blocks (X, y) or (X, y, sample_weight) of Parquet files; needs pyarrow and pandas.

    Parameters
    ----------
    paths : path, or iterable of paths
        The files.
    target : str
        The column of labels or targets.
    sample_weight : str, default=None
        The column of weights. All other columns are features.
    block_rows : int, default=100_000
        Largest number of rows in a block.

    Yields
    ------
    X : data frame of shape (n_rows, n_features)
        Examples.
    y : array of shape (n_rows,)
        Labels or targets.
    sample_weight : array of shape (n_rows,)
        Weights, where there is a column of them.
    """
    block_rows = check_count("block_rows", block_rows, 1)
    special = [target] if sample_weight is None else [target, sample_weight]
    for path in _each(paths):
        for frame in parquet_frames(os.fspath(path), block_rows):
            yield (frame.drop(columns=special), *(frame[name].to_numpy() for name in special))


def parquet_frames(file: str | IO[bytes], block_rows: int | None = None) -> Iterator[Any]:
    """Read pandas data frames of at most `block_rows` rows; one of all rows where this is None."""
    try:
        import pandas  # noqa: F401
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ImportError("read_parquet needs pyarrow and pandas: pip install pyarrow pandas") from error
    with ParquetFile(file) as table:
        parts = [table.read()] if block_rows is None else table.iter_batches(batch_size=block_rows)
        for part in parts:
            yield part.to_pandas()
