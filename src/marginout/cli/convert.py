"""The first step of a saved pipeline: the columns of a data frame as the later steps take them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import OneHotEncoder

from marginout.cli.cells import (
    DATE_CATEGORIES,
    DATE_NUMBERS,
    MARKS,
    Written,
    as_dates,
    as_numbers,
    as_strings,
    numbers_written,
)


class MissingColumnsWarning(UserWarning):
    """Columns that a model was trained on are not in the data."""


class ColumnConverter(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Make float64 of columns of numbers, strings without gaps of categories and texts, parts of dates.

    Takes a data frame as it was read: other columns, another order and another index do no harm. A missing
    cell (None, NaN, NaT, pd.NA, or a word such as NA, see `cells.NOTHING`) is NaN in a number and ""
    elsewhere; the category 3.0 is "3", for pandas stores integers beside missing cells as floats. Strings are
    numbers as `cells.numbers_written` reads them. A date becomes days since 1970, year and hour (numbers),
    month and weekday (categories).

    Parameters
    ----------
    numeric, categorical, text, dates : list of str
        Columns of each kind.
    decimal : {".", ","} or None
        Decimal mark of numbers that are strings; by default as the columns of a frame show it together, and
        where they do not as in `marks`.
    marks, units : dict
        Decimal mark, and currency, of columns that were strings in training.
    thousands : list of str
        Those of them that had the other mark between thousands.
    widths : dict
        Length of the codes of categories such as 01234, which pandas reads as the number 1234.
    strict : bool
        Whether a missing column is an error; otherwise all its cells are missing, with a warning.

    Attributes
    ----------
    costs_ : dict
        What the model's score lost on training data without each column alone, where it has been measured.
    """

    def __init__(
        self,
        numeric: list[str],
        categorical: list[str],
        text: list[str],
        dates: list[str],
        decimal: str | None = None,
        marks: dict[str, str] | None = None,
        units: dict[str, str] | None = None,
        thousands: list[str] | None = None,
        widths: dict[str, int] | None = None,
        strict: bool = False,
    ) -> None:
        self.numeric = numeric
        self.categorical = categorical
        self.text = text
        self.dates = dates
        self.decimal = decimal
        self.marks = marks
        self.units = units
        self.thousands = thousands
        self.widths = widths
        self.strict = strict

    def fit(self, X: Any, y: Any = None) -> ColumnConverter:
        """Note the names of the columns; nothing is learnt from their cells."""
        columns = [*self.numeric, *self.categorical, *self.text, *self.dates]
        self.feature_names_in_ = np.array(columns, dtype=object)
        self.n_features_in_ = len(columns)
        self.costs_: dict[str, float] = {}
        return self

    def transform(self, X: Any) -> Any:
        """Return a pandas data frame: numbers, parts of dates, categories, texts."""
        import pandas

        frame = self._complete(_as_frame(X))
        marks = self.decimal_marks(frame)
        made = {name: as_numbers(frame[name], name, marks.get(name)) for name in self.numeric}
        widths = self.widths or {}
        made |= {name: as_strings(frame[name], widths.get(name, 0)) for name in self.categorical}
        made |= {name: as_strings(frame[name]) for name in self.text}
        for name in self.dates:
            made |= {f"{name}: {part}": values for part, values in as_dates(frame[name], name).items()}
        return pandas.DataFrame(made, index=frame.index)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns of `transform`."""
        parts = [f"{name}: {part}" for name in self.dates for part in (*DATE_NUMBERS, *DATE_CATEGORIES)]
        return np.array([*self.numeric, *self.categorical, *self.text, *parts], dtype=object)

    def _complete(self, frame: Any) -> Any:
        """Put in columns that are missing, all their cells missing, and say so."""
        lost = [name for name in self.feature_names_in_ if name not in frame.columns]
        if not lost:
            return frame
        named = ", ".join(map(str, lost))
        said = f"{len(lost)} of the {self.n_features_in_} columns that the model needs are missing: {named}"
        if self.strict:
            raise ValueError(f"{said}: add them, or leave --strict (strict=True) out")
        if len(lost) == self.n_features_in_:
            raise ValueError(f"{said}: give the data of the kind that the model was trained on")
        costs = [f"{self.costs_[name]:.3g} without {name}" for name in lost if name in self.costs_]
        if costs:
            said += f". On training data accuracy or R² fell by {', '.join(costs)}, each alone"
        warnings.warn(f"{said}.", MissingColumnsWarning, stacklevel=3)
        return frame.reindex(columns=[*frame.columns, *lost])

    def decimal_marks(self, frame: Any, *more: str) -> dict[str, str | None]:
        """The decimal mark of every column of numbers that are strings, and of `more` columns."""
        if self.decimal is not None and self.decimal not in MARKS:
            raise ValueError(f"decimal must be '.', ',' or None, got {self.decimal!r}")
        found = numbers_written(
            frame,
            [name for name in (*self.numeric, *more) if name in frame.columns],
            self.decimal,
            self.marks,
            self.thousands or (),
        )
        for name in self.numeric:
            if name in found:
                self._check(name, found[name])
        return {name: written.mark for name, written in found.items()}

    def _check(self, name: str, written: Written) -> None:
        """Refuse a column of strings that are no numbers, or numbers of another unit."""
        if written.unclear:
            cure = "(in Python: set_params(convert__decimal=','))"
            raise ValueError(f"the column {name!r}: {written.why} {cure}")
        if written.mark is None:
            raise ValueError(
                f"the column {name!r} must hold numbers, but {written.why}: write one, or leave it empty"
            )
        unit = (self.units or {}).get(name)
        if unit and written.unit not in ("", unit):
            raise ValueError(
                f"the column {name!r} is in {written.unit}, but in training it was in {unit}: convert it"
            )


class CategoryEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """One-hot categories, all of them NaN where the cell is empty: they die together.

    An unknown category is all zeros, as in ``OneHotEncoder(handle_unknown="ignore")``.
    """

    def fit(self, X: Any, y: Any = None) -> CategoryEncoder:
        """Note the categories of every column, the empty one apart.

        Sets: categories_, encoder_, n_features_in_, feature_names_in_.
        """
        self.feature_names_in_ = np.array(X.columns, dtype=object)
        self.n_features_in_ = len(X.columns)
        self.categories_ = [np.array(sorted(set(X[name]) - {""}) or [""], dtype=object) for name in X.columns]
        self.encoder_ = OneHotEncoder(categories=self.categories_, handle_unknown="ignore").fit(X)
        return self

    def transform(self, X: Any) -> Any:
        """Return CSR, with an explicit NaN for every category of an empty cell."""
        empty = X.to_numpy() == ""
        sizes = [len(values) for values in self.categories_]
        dead = np.repeat(empty, sizes, axis=1)
        holes = sp.csr_matrix((np.full(int(dead.sum()), np.nan), np.nonzero(dead)), shape=dead.shape)
        return sp.csr_matrix(self.encoder_.transform(X) + holes)


def _as_frame(X: Any) -> Any:
    """A pandas data frame of `X`, which may be one of polars or pyarrow; names of columns are strings."""
    if not hasattr(X, "columns") or not (hasattr(X, "iloc") or hasattr(X, "to_pandas")):
        raise TypeError(
            f"X must be a data frame with named columns, got {type(X).__name__}: use pandas.DataFrame"
        )
    frame = X if hasattr(X, "iloc") else X.to_pandas()
    frame = frame.set_axis([str(name) for name in frame.columns], axis="columns")
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise ValueError(f"two columns have the name {twice[0]!r}: rename one")
    return frame
