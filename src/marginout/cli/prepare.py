"""From columns to numbers: which column is what, and the pipeline that a model is saved with."""

from __future__ import annotations

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

from marginout.cli.convert import ColumnConverter
from marginout.cli.errors import DataError, UsageError

#: A column of strings with so many words a cell is text.
WORDS = 3.0
#: One with a different value in more than this share of its rows, and more than so many, is no category.
DISTINCT, FEW = 0.2, 50
#: Rows from which a word must occur twice to be a feature.
ENOUGH = 100


@dataclass
class Columns:
    """What each column of a table is to the model."""

    target: str
    numeric: list[str] = field(default_factory=list)
    categorical: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)  # and why

    @property
    def used(self) -> list[str]:
        return self.numeric + self.categorical + self.text

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def describe(self) -> str:
        parts = [
            f"{kind} {', '.join(names[:8])}{' …' if len(names) > 8 else ''}"
            for kind, names in (
                ("numbers", self.numeric),
                ("categories", self.categorical),
                ("text", self.text),
            )
            if names
        ]
        return "; ".join(parts)


def named(given: Iterable[str], known: Iterable[str] | None = None) -> list[str]:
    """Column names from repeated or comma-separated arguments; a known name may hold commas."""
    known = set(known or ())
    return [name for text in given for name in ([text] if text in known else text.split(","))]


def plan(frame: Any, arguments: Namespace) -> Columns:
    """Decide what each column is: as the arguments name them, or, if they name none, by their values."""
    target = arguments.target
    if target is None:
        raise UsageError("a table needs --target, the column to predict")
    names = list(frame.columns)
    columns = Columns(target)
    given = {
        kind: named(getattr(arguments, kind), names) for kind in ("numeric", "categorical", "text", "drop")
    }
    _check_names(names, target, given)
    if given["numeric"] or given["categorical"] or given["text"]:
        columns.numeric, columns.categorical = given["numeric"], given["categorical"]
        columns.text = given["text"]
        others = [name for name in names if name not in (target, *columns.used)]
        columns.left_out = dict.fromkeys(others, "not named")
    else:
        for name in names:
            if name == target:
                continue
            kind = "dropped" if name in given["drop"] else _kind(frame[name])
            if kind in ("numeric", "categorical", "text"):
                getattr(columns, kind).append(name)
            else:
                columns.left_out[name] = kind
    if not columns.used:
        raise DataError(f"no column is left to learn from ({_reasons(columns)}): name some, as in --text COL")
    return columns


def _check_names(names: list[str], target: str, given: dict[str, list[str]]) -> None:
    seen: set[str] = set()
    wanted = [("--target", target)] + [(f"--{kind}", name) for kind, found in given.items() for name in found]
    for option, name in wanted:
        if name not in names:
            shown = ", ".join(names[:12]) + (" …" if len(names) > 12 else "")
            raise DataError(f"{option} {name}: there is no such column; the columns are {shown[:300]}")
        if name in seen:
            raise UsageError(f"{option} {name}: the column is named twice, as target or in two kinds")
        seen.add(name)


def _kind(column: Any) -> str:
    """numeric, categorical, text, or why the column is left out."""
    from pandas.api import types

    if column.isna().all():
        return "empty"
    if types.is_bool_dtype(column) or types.is_numeric_dtype(column):
        return "complex" if types.is_complex_dtype(column) else "numeric"
    cells = column.dropna()
    if all(isinstance(cell, (bool, int, float)) for cell in cells):  # numbers beside None
        return "numeric"
    if not all(isinstance(cell, (str, bool, int, float)) for cell in cells):
        return f"holds {type(next(c for c in cells if not isinstance(c, str))).__name__}"
    cells = cells.astype(str)
    words = cells.head(1000).str.split().str.len().mean()
    distinct = cells.nunique()
    if words >= WORDS and distinct > min(FEW, DISTINCT * len(cells)):
        return "text"
    if distinct <= max(FEW, DISTINCT * len(cells)):
        return "categorical"
    return "another value in nearly every row"


def _reasons(columns: Columns) -> str:
    parts = [f"{name}: {why}" for name, why in list(columns.left_out.items())[:5]]
    return "; ".join(parts) or "there are no other columns"


def pipeline(columns: Columns, model: Any, rows: int) -> Pipeline:
    """Conversion, preparation and model in one: scaled numbers, one-hot categories, tf-idf of texts."""
    parts: list[tuple[str, Any, Any]] = []
    if columns.numeric:
        impute = SimpleImputer(strategy="median", keep_empty_features=True)
        parts.append(
            ("numeric", Pipeline([("impute", impute), ("scale", StandardScaler())]), columns.numeric)
        )
    if columns.categorical:
        parts.append(("categorical", OneHotEncoder(handle_unknown="ignore"), columns.categorical))
    for number, name in enumerate(columns.text):
        words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2 if rows >= ENOUGH else 1)
        parts.append((f"text{number}", words, name))
    convert = ColumnConverter(columns.numeric, columns.categorical, columns.text)
    return Pipeline([("convert", convert), ("prepare", ColumnTransformer(parts)), ("model", model)])


def matrix_pipeline(model: Any, scale: bool) -> Pipeline:
    """A model for numbers as they are, or divided by the largest of their column."""
    return Pipeline([("prepare", MaxAbsScaler())] * scale + [("model", model)])


def feature_names(fitted: Pipeline, columns: Columns | None, known: list[str] | None, base: int) -> list[str]:
    """A readable name for every feature that the model sees."""
    if columns is None:
        return known or [f"feature {i + base}" for i in range(int(fitted[-1].n_features_in_))]
    prepare = fitted.named_steps["prepare"]
    names = list(columns.numeric)
    if columns.categorical:
        encoder = prepare.named_transformers_["categorical"]
        for name, values in zip(columns.categorical, encoder.categories_, strict=True):
            names += [f"{name} = {value or '(missing)'}" for value in values]
    for number, name in enumerate(columns.text):
        words = prepare.named_transformers_[f"text{number}"].get_feature_names_out()
        names += [f"{name}: {word}" if len(columns.used) > 1 else str(word) for word in words]
    return names


def category_groups(steps: Any, columns: Columns | None, n_features: int) -> Any:
    """The group of every feature that dies with it, or None: the values of a category die together.

    `steps` is a pipeline with the fitted preparation of `columns`.
    """
    if columns is None or not columns.categorical:
        return None
    encoder = steps.named_steps["prepare"].named_transformers_["categorical"]
    before, sizes = len(columns.numeric), [len(values) for values in encoder.categories_]
    after = n_features - before - sum(sizes)
    lengths = [1] * before + sizes + [1] * after
    return np.repeat(np.arange(len(lengths)), lengths)
