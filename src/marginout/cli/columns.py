"""Decide what each column is to the model: a number, category, text or date, not used, or the target."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginout.cli.cells import (
    DATE_CATEGORIES,
    DATE_NUMBERS,
    TRUTH,
    Written,
    as_numbers,
    code_width,
    has_thousands,
    is_code,
    is_date,
    is_number,
    missing,
    numbers_written,
    present,
    strings,
    unclear_date,
)
from marginout.cli.data import conditions
from marginout.cli.errors import DataError, UsageError
from marginout.cli.output import Progress

#: Mean number of words in a cell from which a column of strings is text.
WORDS = 3.0
#: A column of strings is no category if its different values are more than this share of the rows, and
#: more than this number.
DISTINCT, FEW = 0.2, 50
#: Rows from which a column that counts up from 0 or 1 is taken to count the rows, and is no feature.
FEWEST = 20
#: Different values up to which a target of whole numbers has classes; with more it is a quantity.
CLASSES = 20
#: Names of columns whose whole numbers identify the rows, if nearly all of them differ.
NAMES_ROWS = re.compile(
    r"^(unnamed: \d+|level_\d+|no|nr|number|row|rownames)$|(^|[\W_])(id|idx|index|key)$|(?-i:[a-z]I[dD])$",
    re.IGNORECASE,
)
KINDS = "numeric", "categorical", "text"


@dataclass
class Columns:
    """The kind of each column of a table, and how its strings are read."""

    target: str
    numeric: list[str] = field(default_factory=list)
    categorical: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    dates: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)  # columns that are not used, and the reason
    marks: dict[str, str] = field(default_factory=dict)  # decimal marks of strings that are numbers
    units: dict[str, str] = field(default_factory=dict)  # currencies of such strings
    thousands: list[str] = field(default_factory=list)  # columns with the other mark between thousands
    widths: dict[str, int] = field(default_factory=dict)  # lengths of codes with leading zeros

    @property
    def used(self) -> list[str]:
        """All columns that are features."""
        return self.numeric + self.categorical + self.text + self.dates

    @property
    def numbers(self) -> list[str]:
        """Columns of numbers as the converter gives them."""
        return self.numeric + [f"{name}: {part}" for name in self.dates for part in DATE_NUMBERS]

    @property
    def categories(self) -> list[str]:
        """Columns of categories as the converter gives them."""
        return self.categorical + [f"{name}: {part}" for name in self.dates for part in DATE_CATEGORIES]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def describe(self) -> str:
        """List the columns of each kind, at most eight."""
        parts = [
            f"{kind} {', '.join(names[:8])}{' …' if len(names) > 8 else ''}"
            for kind, names in (
                ("numbers", self.numeric),
                ("categories", self.categorical),
                ("text", self.text),
                ("dates", self.dates),
            )
            if names
        ]
        return "; ".join(parts)

    def unused(self, most: int = 12) -> str:
        """List the columns that are not used, with the reason."""
        parts = [f"{name} ({why})" for name, why in self.left_out.items()]
        more = len(parts) - most
        return ", ".join(parts[:most]) + (f", … and {more} more (--json names all)" if more > 0 else "")


def named(given: Iterable[str], known: Iterable[str] | None = None) -> list[str]:
    """Split repeated or comma-separated arguments into column names; a known name may hold commas."""
    known = set(known or ())
    return [name for text in given for name in ([text] if text in known else text.split(","))]


def plan(frame: Any, arguments: Namespace, progress: Progress) -> Columns:
    """Decide what each column is: by the arguments, or else by its values."""
    target = arguments.target
    if target is None:
        raise UsageError("a table needs --target, the column to predict")
    names = list(frame.columns)
    given = {kind: named(getattr(arguments, kind), names) for kind in (*KINDS, "drop", "only")}
    _check_names(names, target, given)
    columns = Columns(target)
    written = numbers_written(frame, names, arguments.decimal)
    chosen = {name: kind for kind in KINDS for name in given[kind]}
    for name in names:
        if name == target:
            continue
        kind = (
            chosen.get(name)
            or _exclusion(name, arguments, given)
            or _kind(frame[name], name, written.get(name))
        )
        if kind in (*KINDS, "dates"):
            getattr(columns, kind).append(name)
        else:
            columns.left_out[name] = kind
    if not columns.used:
        reasons = columns.unused(5) or "there are no other columns"
        raise DataError(f"no column is left to learn from: {reasons}: name some, as in --text COL")
    known = {name: written[name] for name in (*columns.numeric, target) if name in written}
    few = target in known and len(set(strings(frame[target]))) <= CLASSES
    if few and known[target].unit and arguments.task != "regression":
        del known[target]  # labels such as 10 % come back as they are written
    columns.marks = {name: found.mark for name, found in known.items() if found.mark}
    columns.units = {name: found.unit for name, found in known.items() if found.unit not in ("", "%")}
    columns.thousands = [
        name for name, mark in columns.marks.items() if has_thousands(strings(frame[name]), mark)
    ]
    widths = {name: code_width(strings(frame[name])) for name in columns.categorical}
    columns.widths = {name: width for name, width in widths.items() if width}
    for name in columns.numeric:
        if name not in chosen and _all_differ(as_numbers(frame[name], name, columns.marks.get(name))):
            progress.note(
                f"{name} is another whole number in every row: if it only names rows, --drop {name!r}"
            )
    return columns


def _exclusion(name: str, arguments: Namespace, given: dict[str, list[str]]) -> str:
    """The reason why the arguments leave a column out; empty where they do not."""
    if name in given["drop"]:
        return "dropped"
    if given["only"] and name not in given["only"]:
        return "not in --only"
    return "the same in all rows by --where" if name in conditions(arguments.where) else ""


def _check_names(names: list[str], target: str, given: dict[str, list[str]]) -> None:
    seen: set[str] = set()
    wanted = [("--target", target)] + [(f"--{kind}", name) for kind, found in given.items() for name in found]
    for option, name in wanted:
        if name not in names:
            shown = ", ".join(names[:12]) + (" …" if len(names) > 12 else "")
            raise DataError(f"{option} {name}: there is no such column; the columns are {shown[:300]}")
        if name in seen and option != "--only":
            raise UsageError(f"{option} {name}: the column is named twice, as target or in two kinds")
        seen.add(name)


def _kind(column: Any, name: str, written: Written | None) -> str:
    """numeric, categorical, text or dates; or the reason why the column is not used."""
    cells = present(column)
    if not cells:
        return "empty"
    if is_date(cells):
        return "dates"
    if unclear_date(cells):
        return f"day and month of {cells[0]!r} cannot be told apart: write 2024-04-03"
    odd = next((cell for cell in cells if not (isinstance(cell, str) or is_number(cell))), None)
    if odd is not None:
        return f"holds {type(odd).__name__}"
    if written is None:
        return _identifier(as_numbers(column, name, None), name) or "numeric"
    if written.unclear:
        return written.why
    if written.mark and not is_code(cell for cell in cells if isinstance(cell, str)):
        return _identifier(as_numbers(column, name, written.mark), name) or "numeric"
    return _kind_of_words([str(cell) for cell in cells], written)


def _kind_of_words(cells: list[str], written: Written) -> str:
    n, distinct = len(cells), len(set(cells))
    length = np.mean([len(cell.split()) for cell in cells[:1000]])
    if length >= WORDS and distinct > min(FEW, DISTINCT * n):
        return "text"
    if distinct <= max(FEW, DISTINCT * n):
        return "categorical"
    why = f"{distinct} different words in {n} rows, more than {DISTINCT:.0%}"
    digits = sum(bool(re.match(r"\W*\d", cell)) for cell in cells)
    if 2 * digits < n:
        return why
    return f"{why}; no numbers, as " + (
        written.why or f"{next(cell for cell in cells if is_code([cell]))[:40]!r} begins with a zero"
    )


def _all_differ(values: Any) -> bool:
    """Whether values are many whole numbers, all different, none missing."""
    return (
        len(values) > FEW
        and bool(np.all(values == np.floor(values)))
        and len(np.unique(values)) == len(values)
    )


def _identifier(values: Any, name: str) -> str:
    """The reason why a column of numbers only identifies the rows; empty where it does not."""
    rows, values = len(values), values[~np.isnan(values)]
    n, distinct = len(values), len(np.unique(values))
    if n < 2 or np.any(values != np.floor(values)):
        return ""
    if rows == n >= FEWEST and values[0] in (0, 1) and np.all(np.diff(values) == 1):
        return f"counts the rows: --numeric {name!r} uses it"
    if NAMES_ROWS.search(name) and (distinct == n or distinct > max(FEW, DISTINCT * n)):
        return f"whole numbers that name the rows, {distinct} of them in {n} rows: --numeric {name!r} uses it"
    return ""


# --------------------------------------------------------------------------- the target


def find_task(values: Any, given: str | None) -> str:
    """Classification for words, and for few different whole numbers; regression for other numbers."""
    if given:
        return given
    values = np.asarray(values)
    if values.dtype.kind not in "fiu":
        return "classification"
    distinct = np.unique(values)
    whole = bool(np.all(distinct == np.floor(distinct)))
    return "classification" if whole and len(distinct) <= CLASSES else "regression"


def target_cells(column: Any, mark: str | None) -> Any:
    """The target of a table: numbers, if its strings are such with this decimal mark, or labels as written.

    Labels with leading zeros, such as 007, are no numbers; True and TRUE are the same label.
    """
    words = strings(column)
    if not words:
        return column
    if all(word.lower() in TRUTH for word in words):
        return column.mask(missing(column)).map(str.capitalize, na_action="ignore")
    if mark is None or is_code(words):
        return column.mask(missing(column))
    return type(column)(as_numbers(column, str(column.name), mark), index=column.index)


def _clean(values: Any, name: str) -> NDArray[Any]:
    """Targets as numbers or as strings; a missing one is an error."""
    gaps = _gaps(values)
    if gaps.any():
        first = int(np.argmax(gaps)) + 1
        raise DataError(
            f"the target {name!r} is missing or not finite in {gaps.sum()} of {len(gaps)} rows, "
            f"first in row {first}: add --drop-unlabelled to leave these rows out"
        )
    values = np.asarray(values)
    if values.dtype.kind in "iuf":
        return np.asarray(values)
    if values.dtype.kind in "mM":
        values = values.astype(f"{values.dtype.kind}8[us]")  # nanoseconds would become integers
    cells = [float(cell) if isinstance(cell, Decimal) else cell for cell in values.tolist()]
    if all(isinstance(cell, (int, float)) and not isinstance(cell, bool) for cell in cells):
        return np.array(cells, dtype=np.float64)
    odd = next((cell for cell in cells if not isinstance(cell, (str, bool, int, float))), None)
    if odd is not None:
        raise DataError(
            f"the target {name!r} holds {type(odd).__name__}: name a column of words or numbers as --target"
        )
    return np.array([str(cell) for cell in cells], dtype=object)


def _gaps(values: Any) -> NDArray[np.bool_]:
    """Mask of the values that are missing or not finite."""
    if hasattr(values, "isna"):
        gaps = np.array(values.isna())
        values = values.to_numpy()
    else:
        gaps = np.zeros(len(values), dtype=bool)
        values = np.asarray(values)
    if values.dtype.kind == "f":
        gaps |= ~np.isfinite(values)
    elif values.dtype == object:
        gaps |= np.array([isinstance(v, float) and not np.isfinite(v) for v in values], dtype=bool)
    return np.asarray(gaps)


def unlabelled(values: Any) -> NDArray[np.bool_]:
    """Mask of the targets that are missing or infinite, in a column as it was read or in an array."""
    if not hasattr(values, "isna"):
        return _gaps(values)
    import pandas

    numbers = pandas.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.asarray(missing(values) | np.isinf(numbers))


def training_target(values: Any, name: str, task: str | None) -> tuple[NDArray[Any], str]:
    """Targets to fit to, and the task; refuses targets from which nothing can be learnt."""
    y = _clean(values, name)
    task = find_task(y, task)
    if task == "regression":
        if y.dtype.kind not in "fiu":
            raise DataError(
                f"the target {name!r} holds {y[0]!r}, but regression needs numbers: name another --target, "
                "or leave --task out"
            )
        return y.astype(np.float64), task
    if y.dtype.kind == "f":
        y = y.astype(np.int64) if np.all(y == np.floor(y)) and np.abs(y).max() < 2**53 else y.astype(str)
    kinds = len(np.unique(y))
    if kinds < 2:
        raise DataError(
            f"the target {name!r} has one value, {y.tolist()[0]!r}, but two classes are needed: "
            "name another --target"
        )
    if kinds > max(CLASSES, len(y) // 2):
        cure = "name another --target" + (", or set --task regression" if y.dtype.kind in "iu" else "")
        raise DataError(f"the target {name!r} has {kinds} different values in {len(y)} rows: {cure}")
    return y.astype(object) if y.dtype.kind == "U" else y, task


def check_folds(y: NDArray[Any], task: str, folds: int) -> None:
    """Refuse more folds than the largest class has rows, or than a regression has rows."""
    most = int(np.unique(y, return_counts=True)[1].max()) if task == "classification" else len(y)
    if most < folds:
        what = "the largest class has" if task == "classification" else "there are"
        raise DataError(f"--folds {folds} is too many, because {what} {most} rows: lower --folds")


def largest_share(y: NDArray[Any]) -> float:
    """The share of the most frequent class = the accuracy of always naming it."""
    return float(np.unique(y, return_counts=True)[1].max() / len(y))


def scoring_target(values: Any, name: str, classes: Any) -> NDArray[Any]:
    """True targets in the type of the model's classes, or as floats where there are none."""
    y = _clean(values, name)
    if classes is None:
        if y.dtype.kind not in "fiu":
            raise DataError(
                f"the target {name!r} holds {y[0]!r}, but the model predicts numbers: name another --target"
            )
        return y.astype(np.float64)
    if classes.dtype.kind in "fiu":
        if y.dtype.kind not in "fiu":
            raise DataError(
                f"the target {name!r} holds {y[0]!r}, but the model's classes are numbers: "
                "name another --target"
            )
        return y
    if y.dtype.kind == "f" and np.all(y == np.floor(y)):
        y = y.astype(np.int64)
    return y.astype(str).astype(object)
