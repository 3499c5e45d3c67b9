"""Read files: find their format, decompress them, and call the reader of the format."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys
import zipfile
import zlib
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import IO, Any, Self

import numpy as np

from marginout._blocks.readers import FormatError
from marginout.cli.arguments import FORMATS
from marginout.cli.errors import DataError, UsageError
from marginout.cli.output import Progress, listed

SUFFIXES = {suffix: format for format, suffixes in FORMATS.items() for suffix in suffixes}
GZIP, XZ, BZIP2, ZIP = b"\x1f\x8b", b"\xfd7zXZ\x00", b"BZh", b"PK\x03\x04"
PACKED = ".gz", ".xz", ".bz2", ".zip"
#: Formats that are zip files themselves.
ZIPPED = "npz", "xlsx"
#: Commands and readers for files that are not read.
_OFFICE = "libreoffice --headless --convert-to xlsx"
_PANDAS_READERS = {"dta": "stata", "sav": "spss", "sas7bdat": "sas", "xpt": "sas", "h5": "hdf", "hdf5": "hdf"}
_PANDAS_READERS |= {name: name for name in ("orc", "xml", "fwf")}
_PANDAS = "python -c \"import pandas; pandas.read_{0}('{1}').to_parquet('data.parquet')\""
#: Commands that convert a file of another format, by its suffix.
CONVERTERS = {
    **dict.fromkeys((".xls", ".xlsb", ".ods", ".numbers", ".dbf"), _OFFICE + " {1}"),
    **{f".{suffix}": _PANDAS.replace("{0}", reader) for suffix, reader in _PANDAS_READERS.items()},
    **dict.fromkeys((".rds", ".rda", ".rdata"), "in R, write.csv(data, 'data.csv', row.names = FALSE)"),
    **dict.fromkeys((".tar", ".tgz"), "tar -xf {1}"),
    ".7z": "7z x {1}",
    ".rar": "unrar x {1}",
    ".zst": "zstd -d {1}",
    ".npy": "numpy.savez('data.npz', X=numpy.load('{1}'), y=y)",
}


@dataclass
class Matrix:
    """Numbers as they are: svmlight and npz."""

    X: Any
    y: Any
    names: list[str] | None = None  # of the features
    base: int = 0  # the number that svmlight gives to the first feature

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def take(self, rows: Any) -> Self:
        """The rows of some numbers, or of a mask."""
        return replace(self, X=self.X[rows], y=None if self.y is None else self.y[rows])

    def target(self, name: str | None) -> Any:
        """The target, whatever its name; None where there is none."""
        return self.y


@dataclass
class Table:
    """Columns with names, in a pandas data frame: all formats but svmlight and npz."""

    frame: Any

    def __len__(self) -> int:
        return len(self.frame)

    def take(self, rows: Any) -> Self:
        """The rows of some numbers, or of a mask."""
        return replace(self, frame=self.frame.iloc[rows].reset_index(drop=True))

    def target(self, name: str | None) -> Any:
        """The column of this name; None where there is none."""
        return self.frame.get(name)


def find_format(path: str, given: str | None) -> str:
    """The format of a file: as given, or by its name without .gz, .xz, .bz2, .zip, or by that in a zip."""
    if given:
        return given
    if path == "-":
        raise UsageError("standard input has no name that shows its format: add --format, as in --format csv")
    suffix = _suffix(path)
    if suffix not in SUFFIXES and path.lower().endswith(".zip"):
        with opened(path, Progress(True)) as stream:
            suffix = _suffix(getattr(stream, "name", ""))
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    if suffix in CONVERTERS:
        raise UsageError(
            f"{suffix} files are not read: convert it: {CONVERTERS[suffix].replace('{1}', path)}"
        )
    names = ", ".join(FORMATS)
    raise UsageError(f"the format of {path!r} is not in its name: if it is one of {names}, add --format")


def _suffix(path: str) -> str:
    """The suffix of a name, in lower case, without the suffixes of compression."""
    stem = path.lower()
    for packed in PACKED:
        stem = stem.removesuffix(packed)
    return os.path.splitext(stem)[1]


def is_matrix(format: str) -> bool:
    """Whether a format holds a matrix of numbers; all others hold tables."""
    return format in ("svmlight", "npz")


@contextmanager
def opened(path: str, progress: Progress, format: str | None = None) -> Iterator[IO[bytes]]:
    """Open a file or standard input, decompressed; an error while it is read is a DataError."""
    name = "standard input" if path == "-" else path
    try:
        with _raw(path, progress) as raw:
            yield _decompressed(raw, format in ZIPPED and not path.lower().endswith(".zip"))
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(
            f"{name}: the compressed file is broken or cut off ({error}): get it again"
        ) from error
    except FileNotFoundError as error:
        raise DataError(f"{name}: there is no such file: check its name") from error
    except IsADirectoryError as error:
        raise DataError(f"{name}: is a folder: name a file in it") from error
    except UnicodeDecodeError as error:
        what = f"it is not {error.encoding} ({error.reason} at byte {error.start})"
        raise DataError(f"{name}: {what}: name its --encoding, as in latin-1") from error
    except OSError as error:
        raise DataError(f"{name}: cannot be read: {error.strerror or error}") from error
    except (DataError, FormatError) as error:
        raise DataError(f"{name}: {error}") from error


class _Watched(io.RawIOBase):
    """A file that reports how much of it has been read."""

    def __init__(self, file: IO[bytes], size: int, progress: Progress) -> None:
        self._file, self._size, self._progress, self._done = file, size, progress, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self._file.read(len(buffer))
        buffer[: len(chunk)] = chunk
        self._done += len(chunk)
        if self._size:
            self._progress.part(self._done / self._size)
        return len(chunk)


@contextmanager
def _raw(path: str, progress: Progress) -> Iterator[io.BufferedReader]:
    if path == "-":
        stdin: Any = getattr(sys.stdin, "buffer", sys.stdin)
        yield io.BufferedReader(_Watched(stdin, 0, progress), 1 << 20)
        return
    with open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        yield io.BufferedReader(_Watched(file, size, progress), 1 << 20)


def _decompressed(raw: io.BufferedReader, zipped: bool) -> IO[bytes]:
    """Decompress by the first bytes, whatever the name; a `zipped` format is a zip file itself."""
    head = raw.peek(10)[:10]
    if head.startswith(GZIP):
        return io.BufferedReader(gzip.GzipFile(fileobj=raw), 1 << 20)
    if head.startswith(XZ):
        return io.BufferedReader(lzma.LZMAFile(raw), 1 << 20)
    if head.startswith(BZIP2) and head[4:] == b"1AY&SY":
        return io.BufferedReader(bz2.BZ2File(raw), 1 << 20)
    if head.startswith(ZIP) and not zipped:
        return _only_member(zipfile.ZipFile(io.BytesIO(raw.read())))
    return raw


def _only_member(archive: zipfile.ZipFile) -> IO[bytes]:
    """The one file in a zip, apart from those that macOS adds."""
    names = [
        name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX")
    ]
    if len(names) != 1:
        raise DataError(f"the zip holds {len(names)} files: unpack it, and name one of them")
    try:
        member = archive.open(names[0])
    except (NotImplementedError, RuntimeError) as error:  # another compression, or a password
        raise DataError(
            f"the zip cannot be unpacked ({error}): unpack it, and name the file in it"
        ) from error
    raw: Any = member
    return io.BufferedReader(raw, 1 << 20)


def conditions(texts: Sequence[str]) -> dict[str, str]:
    """The values that --where asks for, by the name of the column."""
    found = {}
    for text in texts:
        column, equals, value = text.partition("=")
        if not (column and equals):
            raise UsageError(f"--where {text!r} must be COL=VALUE, as in --where split=train")
        found[column] = value
    return found


def rows_where(where: dict[str, str], columns: Any, n: int, missing: str) -> Any:
    """Mask of the n rows in which the columns, by their names, hold the values that --where asks for.

    `missing` is the message about a column that is not there, before the names of those that are.
    """
    kept = np.ones(n, dtype=bool)
    for name, value in where.items():
        if name not in columns:
            known = listed(map(str, columns)) or "none"
            raise DataError(f"--where {name}={value}: {missing} {known[:300]}")
        kept &= np.array([_matches(cell, value) for cell in columns[name].tolist()], dtype=bool)
    if not kept.any():
        raise DataError(f"--where leaves none of the {n} rows: name values that the columns hold")
    return kept


def _matches(cell: Any, value: str) -> bool:
    """Whether a cell is the value that --where names: as text, whatever its case, or as a number."""
    text = cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)
    if text == value or text.lower() == value.lower():
        return True
    try:
        return float(text) == float(value)
    except ValueError:
        return False


def read(
    arguments: Namespace,
    progress: Progress,
    *,
    train: bool = False,
    target: str | None = None,
    n_features: int | None = None,
    base: int | None = None,
    rows: int = 0,
) -> Table | Matrix:
    """DATA, or the data of --train, as a table or a matrix.

    `target` is the column, or array of an npz, to predict. `n_features` and `base` are those of a model for
    matrices. `rows`, if not 0, is the largest number of rows to keep, drawn at random.
    """
    path = arguments.train if train else arguments.data
    format = find_format(path, None if train else arguments.format)
    where = conditions(arguments.train_where if train else arguments.where)
    progress.step("reading")
    with opened(path, progress, format) as stream:
        if format == "svmlight":
            from marginout.cli.matrices import read_svmlight

            if where:
                raise UsageError(
                    "--where needs columns with names, which svmlight does not have: leave it out"
                )
            return read_svmlight(stream, progress, n_features, base, rows, arguments.seed if rows else 0)
        if format == "npz":
            from marginout.cli.matrices import read_npz

            found: Table | Matrix = read_npz(stream, target, where, n_features)
        else:
            from marginout.cli import tables

            found = tables.read(stream, format, arguments.encoding, arguments.delimiter, where)
        if not 0 < rows < len(found):
            return found
        rng = np.random.default_rng(arguments.seed)
        return found.take(np.sort(rng.choice(len(found), rows, replace=False)))
