"""Make numbers of the columns of a table: the steps of a saved pipeline before the model.

`ColumnConverter`, the first step, reads the cells. Numbers are then scaled, categories one-hot encoded, texts
weighted by tf-idf. Model files name the classes of this module: they cannot move.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler

from marginout._core.validation import set_parameters
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
from marginout.cli.columns import Columns

#: Rows from which a word must occur twice to be a feature.
ENOUGH = 100
#: A word, such as don't, or a mark of punctuation. Accuracy by three folds is 0.2 points higher than with
#: scikit-learn's words of two letters: the mean of eight sets of reviews and newsgroups, from -0.6 to 1.0.
TOKEN = r"\w+(?:['’]\w+)*|[^\w\s]"


class MissingColumnsWarning(UserWarning):
    """Data lack columns that a model was trained on."""


class ColumnConverter(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Convert columns of numbers to float64, categories and texts to strings, dates to their parts.

    Takes a data frame as it was read: other columns, another order and another index do no harm. A missing
    cell (None, NaN, NaT, pd.NA, or a word such as NA, see `cells.NOTHING`) is NaN in a number and ""
    elsewhere. The category 3.0 is "3", because pandas stores integers beside missing cells as floats.
    `cells.numbers_written` says which strings are numbers. A date becomes days since 1970, year and hour
    (numbers), month and weekday (categories).

    Parameters
    ----------
    numeric, categorical, text, dates : list of str
        Columns of each kind.
    decimal : {".", ","} or None
        Decimal mark of numbers that are strings. None: the mark that the columns of a frame show
        together, or else that of `marks`.
    marks, units : dict
        Decimal mark, and currency, of columns that were strings in training.
    thousands : list of str
        Columns of `marks` that had the other mark between thousands.
    widths : dict
        Length of the codes of categories such as 01234, which pandas reads as the number 1234.
    strict : bool
        Whether a missing column is an error. Otherwise all its cells are missing, with a warning.

    Attributes
    ----------
    costs_ : dict
        Fall of the model's score on training data without each column alone, where it was measured.
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
        set_parameters(locals())

    def fit(self, X: Any, y: Any = None) -> ColumnConverter:
        """Store the names of the columns; nothing is learnt from their cells."""
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
        """Add columns that are missing, with all cells missing, and warn."""
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
            said += f". On training data the score fell by {', '.join(costs)}, each alone"
        warnings.warn(f"{said}.", MissingColumnsWarning, stacklevel=3)
        return frame.reindex(columns=[*frame.columns, *lost])

    def decimal_marks(self, frame: Any, *more: str) -> dict[str, str | None]:
        """The decimal mark of every column whose numbers are strings, and of `more` columns."""
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
        """Refuse strings that are no numbers, or numbers in another unit than in training."""
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
    """Encode categories one-hot, with NaN for every category of an empty cell: they die together.

    An unknown category is all zeros, as in ``OneHotEncoder(handle_unknown="ignore")``.
    """

    def fit(self, X: Any, y: Any = None) -> CategoryEncoder:
        """Store the categories of every column, without the empty one.

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


# --------------------------------------------------------------------------- pipelines


def table_pipeline(columns: Columns, model: Any, rows: int, missing: str = "imputed") -> Pipeline:
    """Build conversion, scaling, encoding and model for a table of `rows` rows.

    Missing numbers are imputed, and a missing category is a category of its own. If missing cells count
    as "deleted" or are "conditional", both are NaN; conditional ones need dense features.
    """
    nan = missing != "imputed"
    parts: list[tuple[str, Any, Any]] = []
    if columns.numbers:
        impute = SimpleImputer(strategy="median", keep_empty_features=True)
        steps: list[tuple[str, Any]] = [("scale", StandardScaler())]
        parts.append(("numeric", Pipeline(steps if nan else [("impute", impute), *steps]), columns.numbers))
    if columns.categories:
        encoder = CategoryEncoder() if nan else OneHotEncoder(handle_unknown="ignore")
        parts.append(("categorical", encoder, columns.categories))
    for number, name in enumerate(columns.text):
        least = 2 if rows >= ENOUGH else 1
        words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=least, token_pattern=TOKEN)
        parts.append((f"text{number}", words, name))
    kinds = columns.numeric, columns.categorical, columns.text, columns.dates
    written = columns.marks, columns.units, columns.thousands, columns.widths
    convert = ColumnConverter(*kinds, None, *written)
    dense = {"sparse_threshold": 0.0} if missing == "conditional" else {}
    return Pipeline([("convert", convert), ("prepare", ColumnTransformer(parts, **dense)), ("model", model)])


def matrix_pipeline(model: Any, scale: bool) -> Pipeline:
    """Build the pipeline of a matrix: the model; `scale` divides each column by its largest value first."""
    return Pipeline([("prepare", MaxAbsScaler())] * scale + [("model", model)])


def feature_names(fitted: Pipeline, columns: Columns | None, known: list[str] | None, base: int) -> list[str]:
    """A readable name for every feature that the model is given."""
    if columns is None:
        return known or [f"feature {i + base}" for i in range(int(fitted[-1].n_features_in_))]
    return [name for name, _ in _features(fitted, columns)]


def feature_columns(fitted: Pipeline, columns: Columns) -> list[str]:
    """The column that every feature of the model comes from."""
    return [source for _, source in _features(fitted, columns)]


def _features(fitted: Any, columns: Columns) -> list[tuple[str, str]]:
    """Name and column of every feature, in the order of :func:`table_pipeline`."""
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
    """Count the rows with a category that the fitted pipeline does not know, and list their columns."""
    some = [name for name in columns.categorical if name in frame.columns]
    if not some:
        return 0, []
    encoder = fitted.named_steps["prepare"].named_transformers_["categorical"]
    known = dict(zip(columns.categories, encoder.categories_, strict=True))
    cells = ColumnConverter([], some, [], [], widths=columns.widths).fit(frame).transform(frame)
    new = {name: (~cells[name].isin(known[name]) & (cells[name] != "")).to_numpy() for name in some}
    return int(np.any(list(new.values()), axis=0).sum()), [name for name in some if new[name].any()]


def category_groups(steps: Any, columns: Columns | None) -> Any:
    """The group of every feature: the values of a category, and the parts of a date, die together.

    None where every feature dies alone. `steps` is a pipeline with the fitted preparation of `columns`.
    Words of a text die one by one.
    """
    if columns is None or not columns.categories:
        return None
    sources = feature_columns(steps, columns)
    labels = [f"{j}" if source in columns.text else f"column {source}" for j, source in enumerate(sources)]
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels])
