"""Read tables as pandas data frames: CSV, TSV, Excel, JSON, Parquet, Feather."""

from __future__ import annotations

import csv
import io
import json
import warnings
from contextlib import suppress
from typing import IO, Any

from marginout._blocks.readers import parquet_frames
from marginout.cli.data import Table, rows_where
from marginout.cli.errors import DataError, UsageError, need

#: Bytes at the beginning of a file from which its delimiter and its columns are found.
HEAD = 1 << 16


def read(
    stream: IO[bytes],
    format: str,
    encoding: str,
    delimiter: str | None,
    where: dict[str, str],
) -> Table:
    """Read a data frame; see :func:`marginout.cli.data.read`."""
    try:
        import pandas
    except ImportError:
        raise need("pandas", f"reading {format}") from None
    if format in ("parquet", "feather"):
        frame = _columnar(stream, format)
    elif format == "xlsx":
        frame = _excel(pandas, stream)
    elif format == "json":
        frame = _json(pandas, stream)
    elif format == "jsonl":
        frame = _json_lines(pandas, stream)
    else:
        delimiter = _delimiter(stream, encoding, delimiter, "\t" if format == "tsv" else ",")
        frame = _separated(pandas, stream, encoding, delimiter)
    frame.columns = [str(name) for name in frame.columns]
    if len(set(frame.columns)) < len(frame.columns):
        raise DataError("two columns have the same name: rename one")
    if not len(frame):
        raise DataError("there is no row in it")
    kept = rows_where(where, frame, len(frame), "there is no such column; the columns are")
    return Table(frame) if kept.all() else Table(frame).take(kept)


def _delimiter(stream: Any, encoding: str, given: str | None, usual: str) -> str:
    """The delimiter: as given, the usual one of the format, or another one that the first rows show."""
    if given is not None and len(given) != 1:
        raise UsageError(f"--delimiter {given!r} must be one character")
    first = given or usual
    counts = {mark: _fields(stream, encoding, mark) for mark in (first, ";", "\t", ",", "|")}
    best = max(counts, key=lambda mark: counts[mark])
    if counts[first] > 1 or counts[best] < 2:
        return first
    if given is not None:
        raise DataError(
            f"its first rows have {counts[best]} fields with the delimiter {best!r}, not with {given!r}: "
            f"use --delimiter {best!r}"
        )
    return best


def _fields(stream: Any, encoding: str, delimiter: str) -> int:
    """The number of fields in each of the first rows; 0 where they differ."""
    head = _head(stream, encoding)
    try:
        rows = [row for row in csv.reader(head.splitlines(keepends=True), delimiter=delimiter) if row][:6]
    except csv.Error:
        return 0
    if len(rows) > 1 and len(head) >= HEAD // 4:  # the last may be cut off
        rows.pop()
    return len(rows[0]) if len({len(row) for row in rows}) == 1 else 0


def _head(stream: Any, encoding: str) -> str:
    """The beginning of a text; the stream stays where it is."""
    try:
        text: str = stream.peek(HEAD)[:HEAD].decode(encoding, "replace")
    except LookupError as error:
        raise UsageError(f"--encoding {encoding!r} is unknown: name one that Python knows") from error
    return text.lstrip("\ufeff\r\n")


def _separated(pandas: Any, stream: IO[bytes], encoding: str, delimiter: str) -> Any:
    """Read all cells as strings: their kind is decided later, by the same rules for all formats."""
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
    except UnicodeDecodeError:
        raise
    except pandas.errors.EmptyDataError as error:
        raise DataError("it is empty: name a file with rows") from error
    except pandas.errors.ParserWarning as error:
        raise DataError("its rows have more fields than its header has names: name all columns") from error
    except (pandas.errors.ParserError, ValueError, OverflowError) as error:
        raise DataError(f"it is no table with {delimiter!r} between columns: {_short(error)}") from error


def _check_header(stream: Any, encoding: str, delimiter: str) -> None:
    """Refuse two columns of one name, which pandas would rename: a copy of the target would be a feature."""
    head = _head(stream, encoding)
    with suppress(csv.Error):  # pandas will name the fault
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


def _json(pandas: Any, stream: IO[bytes]) -> Any:
    """Read an array of objects, an object of columns, or lines of objects."""
    content = stream.read()
    try:
        found = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        if content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
            return _json_lines(pandas, io.BytesIO(content))
        raise DataError(f"it is not JSON: {_short(error)}") from error
    with suppress(ValueError, TypeError, AttributeError):
        if isinstance(found, list) and all(isinstance(record, dict) for record in found):
            return pandas.DataFrame.from_records(found)
        if isinstance(found, dict) and set(found) >= {"columns", "data"}:
            return pandas.DataFrame(found["data"], columns=found["columns"])
        if isinstance(found, dict) and all(isinstance(cells, (list, dict)) for cells in found.values()):
            return pandas.DataFrame(found)
    raise DataError(
        "it is JSON, but no array of objects [{...}, ...]: write one, as pandas.to_json(orient='records')"
    )


def _columnar(stream: IO[bytes], format: str) -> Any:
    try:
        import pyarrow
        import pyarrow.feather
    except ImportError:
        raise need("pyarrow", f"reading {format}") from None
    content = io.BytesIO(stream.read())
    try:
        if format == "feather":
            return pyarrow.feather.read_table(content).to_pandas()
        (frame,) = parquet_frames(content)
        return frame
    except (pyarrow.ArrowException, ValueError, OSError, TypeError) as error:
        raise DataError(f"it is no {format.capitalize()} file: {_short(error)}") from error


def _excel(pandas: Any, stream: IO[bytes]) -> Any:
    """Read the first sheet. Its first row holds the names; a formula is the value that was saved with it."""
    try:
        import openpyxl
    except ImportError:
        raise need("openpyxl", "reading xlsx") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles
            book = openpyxl.load_workbook(io.BytesIO(stream.read()), read_only=True, data_only=True)
            sheets = book.worksheets
            rows = [row for row in sheets[0].iter_rows(values_only=True) if any(c is not None for c in row)]
    except Exception as error:  # a zip of XML can be broken in many ways
        raise DataError(f"it is no Excel file (xlsx): {_short(error) or type(error).__name__}") from error
    if len(sheets) > 1:
        warnings.warn(f"of {len(sheets)} sheets the first, {sheets[0].title!r}, is read", stacklevel=2)
    if not rows:
        raise DataError("its first sheet is empty")
    width = max(len(row) for row in rows)
    cells = [[*row, *[None] * (width - len(row))] for row in rows]
    kept = [j for j in range(width) if any(row[j] is not None for row in cells)]
    names = [f"Unnamed: {j}" if cells[0][j] is None else str(cells[0][j]) for j in kept]
    return pandas.DataFrame([[row[j] for j in kept] for row in cells[1:]], columns=names, dtype=object)


def _short(error: Any) -> str:
    return " ".join(str(error).split())[:200]
