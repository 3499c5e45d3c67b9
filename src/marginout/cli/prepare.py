"""From columns to numbers: which column is what, and the pipeline that a model is saved with."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler

from marginout.cli.cells import (
    DATE_CATEGORIES,
    DATE_NUMBERS,
    Written,
    as_numbers,
    code_width,
    has_thousands,
    is_code,
    is_date,
    is_number,
    numbers_written,
    present,
    strings,
    unclear_date,
)
from marginout.cli.convert import CategoryEncoder, ColumnConverter
from marginout.cli.data import conditions
from marginout.cli.errors import DataError, UsageError
from marginout.cli.output import Progress
from marginout.cli.targets import CLASSES

#: A column of strings with so many words a cell is text.
WORDS = 3.0
#: One with a different value in more than this share of its rows, and more than so many, is no category.
DISTINCT, FEW = 0.2, 50
#: A column that counts from 0 or 1 in so many rows counts the rows, and is no feature.
FEWEST = 20
#: Names of columns whose whole numbers, if nearly all differ, name the rows.
NAMES_ROWS = re.compile(
    r"^(unnamed: \d+|level_\d+|no|nr|number|row|rownames)$|(^|[\W_])(id|idx|index|key)$|(?-i:[a-z]I[dD])$",
    re.IGNORECASE,
)
KINDS = "numeric", "categorical", "text"
#: Rows from which a word must occur twice to be a feature.
ENOUGH = 100


@dataclass
class Columns:
    """What each column of a table is to the model."""

    target: str
    numeric: list[str] = field(default_factory=list)
    categorical: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    dates: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)  # and why
    marks: dict[str, str] = field(default_factory=dict)  # decimal marks of strings that are numbers
    units: dict[str, str] = field(default_factory=dict)  # and their currencies
    thousands: list[str] = field(default_factory=list)  # those with the other mark between thousands
    widths: dict[str, int] = field(default_factory=dict)  # of codes with zeros before them

    @property
    def used(self) -> list[str]:
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
        """The columns that are left out, and why."""
        parts = [f"{name} ({why})" for name, why in self.left_out.items()]
        more = len(parts) - most
        return ", ".join(parts[:most]) + (f", … and {more} more (--json names all)" if more > 0 else "")


def named(given: Iterable[str], known: Iterable[str] | None = None) -> list[str]:
    """Column names from repeated or comma-separated arguments; a known name may hold commas."""
    known = set(known or ())
    return [name for text in given for name in ([text] if text in known else text.split(","))]


def plan(frame: Any, arguments: Namespace, progress: Progress) -> Columns:
    """Decide what each column is: as the arguments name it, or else by its values."""
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
    """Why the arguments leave a column out, or nothing."""
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
    """numeric, categorical, text, dates, or why the column is left out."""
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
    """Whether they are whole numbers, many, of which no two are the same and none is missing."""
    return (
        len(values) > FEW
        and bool(np.all(values == np.floor(values)))
        and len(np.unique(values)) == len(values)
    )


def _identifier(values: Any, name: str) -> str:
    """Why a column of numbers only names the rows, or nothing."""
    rows, values = len(values), values[~np.isnan(values)]
    n, distinct = len(values), len(np.unique(values))
    if n < 2 or np.any(values != np.floor(values)):
        return ""
    if rows == n >= FEWEST and values[0] in (0, 1) and np.all(np.diff(values) == 1):
        return f"counts the rows: --numeric {name!r} uses it"
    if NAMES_ROWS.search(name) and (distinct == n or distinct > max(FEW, DISTINCT * n)):
        return f"whole numbers that name the rows, {distinct} of them in {n} rows: --numeric {name!r} uses it"
    return ""


def pipeline(columns: Columns, model: Any, rows: int, deleted: bool = False) -> Pipeline:
    """Conversion, preparation and model in one: scaled numbers, one-hot categories, tf-idf of texts.

    Missing numbers are imputed, missing categories a category; or both are NaN, if they count as `deleted`.
    """
    parts: list[tuple[str, Any, Any]] = []
    if columns.numbers:
        impute = SimpleImputer(strategy="median", keep_empty_features=True)
        steps: list[tuple[str, Any]] = [("scale", StandardScaler())]
        parts.append(
            ("numeric", Pipeline(steps if deleted else [("impute", impute), *steps]), columns.numbers)
        )
    if columns.categories:
        encoder = CategoryEncoder() if deleted else OneHotEncoder(handle_unknown="ignore")
        parts.append(("categorical", encoder, columns.categories))
    for number, name in enumerate(columns.text):
        words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2 if rows >= ENOUGH else 1)
        parts.append((f"text{number}", words, name))
    kinds = columns.numeric, columns.categorical, columns.text, columns.dates
    written = columns.marks, columns.units, columns.thousands, columns.widths
    convert = ColumnConverter(*kinds, None, *written)
    return Pipeline([("convert", convert), ("prepare", ColumnTransformer(parts)), ("model", model)])


def matrix_pipeline(model: Any, scale: bool) -> Pipeline:
    """A model for numbers as they are, or divided by the largest of their column."""
    return Pipeline([("prepare", MaxAbsScaler())] * scale + [("model", model)])


def feature_names(fitted: Pipeline, columns: Columns | None, known: list[str] | None, base: int) -> list[str]:
    """A readable name for every feature that the model sees."""
    if columns is None:
        return known or [f"feature {i + base}" for i in range(int(fitted[-1].n_features_in_))]
    return [name for name, _ in _features(fitted, columns)]


def feature_columns(fitted: Pipeline, columns: Columns) -> list[str]:
    """The column that every feature of the model comes from."""
    return [source for _, source in _features(fitted, columns)]


def _features(fitted: Any, columns: Columns) -> list[tuple[str, str]]:
    """Name and column of every feature, in the order of :func:`pipeline`."""
    prepare = fitted.named_steps["prepare"]
    sources = {name: name for name in columns.used}
    sources |= {
        f"{name}: {part}": name for name in columns.dates for part in (*DATE_NUMBERS, *DATE_CATEGORIES)
    }
    found = [(name, sources[name]) for name in columns.numbers]
    if columns.categories:
        encoder = prepare.named_transformers_["categorical"]
        for name, values in zip(columns.categories, encoder.categories_, strict=True):
            found += [(f"{name} = {value or '(missing)'}", sources[name]) for value in values]
    for number, name in enumerate(columns.text):
        words = prepare.named_transformers_[f"text{number}"].get_feature_names_out()
        found += [(f"{name}: {word}" if len(columns.used) > 1 else str(word), name) for word in words]
    return found


def unseen(fitted: Pipeline, columns: Columns, frame: Any) -> tuple[int, list[str]]:
    """How many rows have a category that the fitted pipeline does not know, and in which columns."""
    some = [name for name in columns.categorical if name in frame.columns]
    if not some:
        return 0, []
    encoder = fitted.named_steps["prepare"].named_transformers_["categorical"]
    known = dict(zip(columns.categories, encoder.categories_, strict=True))
    cells = ColumnConverter([], some, [], [], widths=columns.widths).fit(frame).transform(frame)
    new = {name: (~cells[name].isin(known[name]) & (cells[name] != "")).to_numpy() for name in some}
    return int(np.any(list(new.values()), axis=0).sum()), [name for name in some if new[name].any()]


def listed(names: Iterable[str], most: int = 12) -> str:
    """Names with commas between, no more than so many."""
    names = list(names)
    return ", ".join(names[:most]) + (f" … ({len(names)})" if len(names) > most else "")


def category_groups(steps: Any, columns: Columns | None) -> Any:
    """The group of every feature that dies with it, or None: values of a category, and parts of a date.

    `steps` is a pipeline with the fitted preparation of `columns`. Words of a text die one by one.
    """
    if columns is None or not columns.categories:
        return None
    sources = feature_columns(steps, columns)
    labels = [f"{j}" if source in columns.text else f"column {source}" for j, source in enumerate(sources)]
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels])
