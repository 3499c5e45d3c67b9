"""Read cells: missing, a number, a date or a word, by the same rules for every format."""

from __future__ import annotations

import datetime
import decimal
import numbers
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginout._core.interfaces import Array

# fmt: off
#: Strings that stand for a missing cell in every format: those of pandas.read_csv, and ? as in many archives.
NOTHING = frozenset((
    "", "?", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>",
    "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
))
# fmt: on
#: Numbers that stand for truth values.
TRUTH = {"true": 1.0, "false": 0.0}
#: Decimal marks; the other one may stand between thousands.
MARKS = ".", ","
_SPACES = "'’ \u00a0\u202f"
_UNIT = "[€$£¥₹₩₽₺₪]|EUR|USD|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|CAD|AUD"
_CODE = re.compile(r"[+-]?0\d")
_TIME = r"(?:[T ](?P<hour>\d{1,2}):(?P<rest>\d\d(?::\d\d(?:[.]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?))?"
_DATES = (
    re.compile(r"(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})" + _TIME),
    re.compile(r"(?P<day>\d{1,2})[.](?P<month>\d{1,2})[.](?P<year>\d{4})" + _TIME),
)
_UNCLEAR = re.compile(r"\d{1,2}[-/]\d{1,2}[-/](\d{4}|\d\d)\b.*")


def _number(mark: str) -> re.Pattern[str]:
    """Pattern of a number with `mark` before its decimals, groups of three digits, a sign, a unit."""
    other = MARKS[mark == "."]
    grouped = rf"[1-9]\d{{0,2}}(?:(?P<group>[{other}{_SPACES}])\d{{3}})(?:(?P=group)\d{{3}})*"
    digits = rf"(?:(?:{grouped}|\d+)(?:[{mark}]\d*)?|[{mark}]\d+)(?:[eE][+-]?\d+)?|inf|infinity"
    return re.compile(
        rf"(?P<sign>[+−-]?)\s?(?P<before>{_UNIT})?\s?(?P<minus>[−-]?)(?P<digits>{digits})\s?(?P<after>%|{_UNIT})?",
        re.IGNORECASE,
    )


_NUMBER = {mark: _number(mark) for mark in MARKS}


def split(column: Any) -> tuple[NDArray[np.bool_], list[Any]]:
    """Mask of the missing cells of a pandas column, and a list of the others, strings without outer spaces.

    Missing are None, NaN, NaT, pd.NA, and the words of NOTHING.
    """
    gaps = np.array(column.isna(), dtype=bool)
    cells = column.tolist()
    if _holds_objects(column):
        cells = [cell.strip() if isinstance(cell, str) else cell for cell in cells]
        gaps |= np.array([isinstance(cell, str) and cell in NOTHING for cell in cells], dtype=bool)
    return gaps, [cell for cell, gap in zip(cells, gaps.tolist(), strict=True) if not gap]


def missing(column: Any) -> NDArray[np.bool_]:
    """Mask of the missing cells."""
    return split(column)[0]


def present(column: Any) -> list[Any]:
    """The cells that are not missing."""
    return split(column)[1]


def strings(column: Any) -> list[str]:
    """The cells that are strings, without outer spaces; missing ones are left out."""
    return [c for c in present(column) if isinstance(c, str)] if _holds_objects(column) else []


def _holds_objects(column: Any) -> bool:
    return column.dtype.kind not in "iufb"


def is_number(cell: Any) -> bool:
    return isinstance(cell, (numbers.Real, decimal.Decimal, np.bool_))


# --------------------------------------------------------------------------- numbers


@dataclass(frozen=True)
class Written:
    """Decimal mark and unit of a column of strings that are numbers; or the reason why there is no mark."""

    mark: str | None
    unit: str = ""
    why: str = ""
    unclear: bool = False  # numbers that can be read in two ways


def numbers_written(
    frame: Any,
    names: Iterable[str],
    decimal: str | None = None,
    known: Mapping[str, str] | None = None,
    thousands: Iterable[str] = (),
) -> dict[str, Written]:
    """Find how the columns `names` that hold strings write numbers; `decimal` is the mark, if given.

    A column that can be read in one way has the mark of this way. One that can be read in two ways, such as
    "1,234", has the mark of the other columns if they agree, else its `known` mark; dots alone are decimal
    points. With a known mark, the other mark separates thousands only in the columns of `thousands`.
    """
    cells = {name: found for name in names if (found := strings(frame[name]))}
    allowed = (decimal,) if decimal else MARKS
    readable = {name: _readable(found, allowed) for name, found in cells.items()}
    told = {mark for marks, _ in readable.values() if len(marks) == 1 for mark in marks}
    common = told.pop() if len(told) == 1 else None
    written = {}
    for name, (marks, unit) in readable.items():
        if not marks:
            written[name] = Written(None, why=_obstacle(cells[name], allowed))
            continue
        mark = marks[0] if len(marks) == 1 else common or (known or {}).get(name)
        if len(marks) > 1 and not common and name not in thousands and has_thousands(cells[name], mark):
            mark = None
        comma = next((cell for cell in cells[name] if "," in cell), None)
        if mark is None and comma is not None:
            why = f"{comma[:40]!r} has decimals or thousands behind its comma: add --decimal , or --decimal ."
            written[name] = Written(None, unit, why, unclear=True)
        else:
            written[name] = Written(mark or ".", unit)
    return written


def has_thousands(cells: Iterable[str], mark: str | None) -> bool:
    """Whether some cell holds the other mark than the decimal `mark`."""
    return mark is not None and any(MARKS[mark == "."] in cell for cell in cells)


def _readable(cells: list[str], allowed: Iterable[str]) -> tuple[list[str], str]:
    """The decimal marks with which all cells are numbers of one unit, and this unit.

    >>> [_readable(cells, MARKS) for cells in (["3.5", "12"], ["1.234,50 €"], ["1,234"], ["3 kg"])]
    [(['.'], ''), ([','], '€'), (['.', ','], ''), ([], '')]
    """
    if all(cell.lower() in TRUTH for cell in cells):
        return list(allowed), ""
    if _plain(cells) is not None:
        dotted = [cell for cell in cells if "." in cell]
        return [mark for mark in allowed if mark == "." or all(map(_NUMBER[mark].fullmatch, dotted))], ""
    marks, units = [], set()
    for mark in allowed:
        found = _units(cells, mark)
        if found is not None:
            marks.append(mark)
            units.update(found)
    return (marks, units.pop()) if len(units) == 1 else ([], "")


def _units(cells: list[str], mark: str) -> set[str] | None:
    """The units of numbers with this decimal mark, or None if some cell is no number."""
    units = set()
    for cell in cells:
        match = _NUMBER[mark].fullmatch(cell)
        if not match or (match["before"] and match["after"]) or (match["sign"] and match["minus"]):
            return None
        units.add((match["before"] or match["after"] or "").upper())
    return units


def _obstacle(cells: list[str], allowed: Iterable[str]) -> str:
    """The reason why a column of strings is no column of numbers."""
    units: dict[str, str] = {}
    for cell in cells:
        found = next(filter(None, (_units([cell], mark) for mark in allowed)), None)
        if found is None:
            return f"{cell[:40]!r} is no number"
        units.setdefault(found.pop(), cell)
    if len(units) > 1:
        return "units differ: " + " and ".join(repr(cell[:40]) for cell in list(units.values())[:2])
    return "some cells have decimal points, some decimal commas"


def _plain(cells: list[str]) -> Array | None:
    """Float64 of numbers in the notation of Python; None if some cell is none."""
    try:
        values = np.array(cells, dtype=object).astype(np.float64)
    except (ValueError, OverflowError):
        return None
    return None if any("_" in cell for cell in cells) else values


def as_numbers(column: Any, name: str, mark: str | None) -> Array:
    """Convert a column to float64: a missing cell is NaN, 45% is 0.45, a currency is left out."""
    if not _holds_objects(column):
        values: Array = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        gaps, cells = split(column)
        values = np.full(len(column), np.nan)
        plain = _plain(cells) if mark == "." and all(isinstance(cell, str) for cell in cells) else None
        values[~gaps] = [_as_number(cell, name, mark) for cell in cells] if plain is None else plain
    if np.isinf(values).any():
        raise ValueError(
            f"the column {name!r} holds infinity: replace it by a number, or leave the cell empty"
        )
    return values


def _as_number(cell: Any, name: str, mark: str | None) -> float:
    if is_number(cell):
        return float(cell)
    if isinstance(cell, str):
        if cell.lower() in TRUTH:
            return TRUTH[cell.lower()]
        match = _NUMBER[mark or "."].fullmatch(cell)
        if match:
            digits = re.sub(rf"[{MARKS[(mark or '.') == '.']}{_SPACES}]", "", match["digits"])
            value = float(digits.replace(",", "."))
            value = -value if (match["sign"] + match["minus"]) in ("-", "−") else value
            return value / 100 if match["after"] == "%" else value
    raise ValueError(f"the column {name!r} holds {str(cell)[:40]!r} where a number is needed")


def is_code(cells: Iterable[str]) -> bool:
    """Whether some cell begins with a zero that a number would lose: 007, the postcode 01234."""
    return any(_CODE.match(cell) for cell in cells)


def code_width(cells: Iterable[str]) -> int:
    """The length of codes such as 01234, which pandas may read as 1234; 0 where the length varies.

    >>> [code_width(cells) for cells in (["01234", "90210", "n.n."], ["90210"], ["007", "42"])]
    [5, 0, 0]
    """
    digits = [cell for cell in cells if cell.isdecimal()]
    lengths = {len(cell) for cell in digits}
    return lengths.pop() if is_code(digits) and len(lengths) == 1 else 0


# --------------------------------------------------------------------------- words


def as_strings(column: Any, width: int = 0) -> NDArray[Any]:
    """Convert cells to text, a missing one to "".

    3.0 and 3,0 become 3: pandas stores integers beside missing cells as floats. Digits get leading zeros
    up to `width`: pandas reads the code 01234 as 1234.
    """
    cells = np.empty(len(column), dtype=object)
    for i, (gap, cell) in enumerate(zip(missing(column), column.tolist(), strict=True)):
        text = "" if gap else _as_string(cell)
        cells[i] = text.zfill(width) if text.isdecimal() else text
    return cells


def _as_string(cell: Any) -> str:
    text = str(cell)
    if text.lower() in TRUTH:
        return text.capitalize()
    if isinstance(cell, datetime.datetime):
        return text.removesuffix(" 00:00:00")
    return re.sub(r"^(-?\d+)(\.0+|,0)$", r"\1", text)


# --------------------------------------------------------------------------- dates

#: Parts of a date: numbers, and categories.
DATE_NUMBERS = "days", "year", "hour"
DATE_CATEGORIES = "month", "weekday"
_EPOCH = "1970-01-01"


def is_date(cells: list[Any]) -> bool:
    """Whether all cells are dates, or strings such as 2024-04-03, 2024/4/3 10:30 and 03.04.2024."""
    texts = [_iso(cell) for cell in cells]
    return all(texts) and not bool(_timestamps(texts).isna().any())


def unclear_date(cells: list[Any]) -> bool:
    """Whether all cells are like 03/04/2024, where day and month cannot be told apart."""
    return all(isinstance(cell, str) and _UNCLEAR.fullmatch(cell) for cell in cells)


def _iso(cell: Any) -> str:
    """A date in ISO 8601; empty if the cell is no date."""
    if not isinstance(cell, str):  # datetime and pandas.Timestamp are dates, too
        return cell.isoformat() if isinstance(cell, datetime.date) else ""
    match = next(filter(None, (pattern.fullmatch(cell) for pattern in _DATES)), None)
    if not match:
        return ""
    date = f"{match['year']}-{match['month']:0>2}-{match['day']:0>2}"
    return f"{date}T{match['hour']:0>2}:{match['rest']}" if match["hour"] else date


def _timestamps(texts: list[str]) -> Any:
    """Times in UTC, also those without a zone; NaT where there is no such day."""
    import pandas

    return pandas.Series(pandas.to_datetime(texts, format="ISO8601", utc=True, errors="coerce"))


def as_dates(column: Any, name: str) -> dict[str, NDArray[Any]]:
    """Split a column of dates: days since 1970, year, hour as numbers, month and weekday as words."""
    import pandas

    gaps, cells = split(column)
    wrong = next((cell for cell in cells if not is_date([cell])), None) if not is_date(cells) else None
    if wrong is not None:
        raise ValueError(
            f"the column {name!r} holds {str(wrong)[:40]!r} where a date is needed: write it as 2024-04-03"
        )
    times = _timestamps([_iso(cell) for cell in cells])
    days = (times - pandas.Timestamp(_EPOCH, tz="UTC")) / pandas.Timedelta(days=1)
    found: dict[str, Any] = {
        "days": days,
        "year": times.dt.year,
        "hour": times.dt.hour,
        "month": times.dt.month,
        "weekday": times.dt.day_name(),
    }
    parts: dict[str, NDArray[Any]] = {}
    for part in DATE_NUMBERS:
        parts[part] = np.full(len(column), np.nan)
        parts[part][~gaps] = found[part].to_numpy(dtype=np.float64)
    for part in DATE_CATEGORIES:
        parts[part] = np.full(len(column), "", dtype=object)
        parts[part][~gaps] = [str(value) for value in found[part]]
    return parts
