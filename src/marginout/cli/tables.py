"""Tables come in through pandas: CSV, TSV, JSON lines, Parquet."""

from __future__ import annotations

import csv
import io
import json
import warnings
from contextlib import suppress
from typing import IO, Any

from marginout.cli.archives import matches
from marginout.cli.data import Table
from marginout.cli.errors import DataError, UsageError, need


def read(
    stream: IO[bytes],
    format: str,
    encoding: str,
    delimiter: str | None,
    where: dict[str, str],
) -> Table:
    """A data frame; see :func:`marginout.cli.data.read`."""
    try:
        import pandas
    except ImportError:
        raise need("pandas", f"reading {format}") from None
    if format == "parquet":
        frame = _parquet(pandas, stream)
    elif format == "jsonl":
        frame = _json_lines(pandas, stream)
    else:
        frame = _separated(pandas, stream, encoding, delimiter or ("\t" if format == "tsv" else ","))
    frame.columns = [str(name) for name in frame.columns]
    if len(set(frame.columns)) < len(frame.columns):
        raise DataError("two columns have the same name: rename one")
    if not len(frame):
        raise DataError("there is no row in it")
    return Table(_filtered(frame, where))


def _separated(pandas: Any, stream: IO[bytes], encoding: str, delimiter: str) -> Any:
    """All cells as strings: what they are is seen later, by the rules of all formats."""
    if len(delimiter) != 1:
        raise UsageError(f"--delimiter {delimiter!r} must be one character")
    try:
        _check_header(stream, encoding, delimiter)
        with warnings.catch_warnings():
            # Rows longer than the header would lose their ends.
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            return pandas.read_csv(
                stream,
                sep=delimiter,
                encoding=encoding,
                dtype=str,
                na_filter=False,
                index_col=False,
                low_memory=False,
            )
    except LookupError as error:
        raise UsageError(f"--encoding {encoding!r} is unknown: name one that Python knows") from error
    except UnicodeDecodeError:
        raise
    except pandas.errors.EmptyDataError as error:
        raise DataError("it is empty") from error
    except pandas.errors.ParserWarning as error:
        raise DataError("its rows have more fields than its header has names: name all columns") from error
    except (pandas.errors.ParserError, ValueError, OverflowError) as error:
        raise DataError(f"it is no table with {delimiter!r} between columns: {_short(error)}") from error


def _check_header(stream: Any, encoding: str, delimiter: str) -> None:
    """Refuse two columns of one name, which pandas would rename: a copy of the target would be a feature."""
    head = stream.peek(1 << 16).decode(encoding, "replace").lstrip("\ufeff\r\n")
    with suppress(csv.Error):  # pandas will say what is wrong
        names = next(csv.reader(head.splitlines(keepends=True), delimiter=delimiter), [])
        twice = next((name for name in names if name and names.count(name) > 1), None)
        if twice is not None:
            raise DataError(f"two columns have the name {twice[:40]!r}: rename one")


def _json_lines(pandas: Any, stream: IO[bytes]) -> Any:
    records = []
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except (ValueError, RecursionError) as error:  # wrong JSON, or no UTF-8
            raise DataError(f"line {number} is not JSON: {_short(error)}") from error
        if not isinstance(record, dict):
            raise DataError(f"line {number} is not an object {{...}} but {_short(line.decode()[:40])!r}")
        records.append(record)
    return pandas.DataFrame.from_records(records)


def _parquet(pandas: Any, stream: IO[bytes]) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise need("pyarrow", "reading parquet") from None
    try:
        return pyarrow.parquet.read_table(io.BytesIO(stream.read())).to_pandas()
    except (pyarrow.ArrowException, ValueError, OSError, TypeError) as error:
        raise DataError(f"it is no Parquet file: {_short(error)}") from error


def _filtered(frame: Any, where: dict[str, str]) -> Any:
    kept = [True] * len(frame)
    for name, value in where.items():
        if name not in frame.columns:
            raise DataError(f"--where {name}={value}: there is no column {name!r}")
        kept = [old and matches(cell, value) for old, cell in zip(kept, frame[name].tolist(), strict=True)]
    if not any(kept):
        raise DataError(f"--where leaves none of the {len(frame)} rows")
    return frame if all(kept) else frame[kept].reset_index(drop=True)


def _short(error: Any) -> str:
    return " ".join(str(error).split())[:200]
