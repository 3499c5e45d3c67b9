"""The first step of a saved pipeline: the columns of a data frame as the later steps take them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

# fmt: off
#: Strings that stand for a missing cell in every format: those of pandas.read_csv.
NOTHING = frozenset((
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A",
    "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
))
# fmt: on
#: Truth values as numbers.
TRUTH = {"true": 1.0, "false": 0.0}


class ColumnConverter(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Make float64 of columns of numbers, and strings without gaps of categories and texts.

    Takes a data frame as it was read: other columns, another order and another index do no harm. A missing
    cell (None, NaN, NaT, pd.NA, or a word such as NA, see NOTHING) is NaN in a number and "" elsewhere; the
    category 3.0 is "3", for pandas stores integers beside missing cells as floats.

    Parameters
    ----------
    numeric, categorical, text : list of str
        Columns of each kind.
    """

    def __init__(self, numeric: list[str], categorical: list[str], text: list[str]) -> None:
        self.numeric = numeric
        self.categorical = categorical
        self.text = text

    def fit(self, X: Any, y: Any = None) -> ColumnConverter:
        """Note the names of the columns; nothing is learnt from their cells."""
        self.feature_names_in_ = np.array([*self.numeric, *self.categorical, *self.text], dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        return self

    def transform(self, X: Any) -> Any:
        """Return a pandas data frame of the columns of all kinds, in this order."""
        import pandas

        frame = self._complete(_as_frame(X))
        made = {name: _as_numbers(frame[name], name) for name in self.numeric}
        made |= {name: _as_strings(frame[name]) for name in (*self.categorical, *self.text)}
        return pandas.DataFrame(made, index=frame.index)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns of `transform`."""
        return np.array(self.feature_names_in_)

    def _complete(self, frame: Any) -> Any:
        """Check that no column is missing."""
        lost = [name for name in self.feature_names_in_ if name not in frame.columns]
        if lost:
            shown = ", ".join(lost[:12]) + (" …" if len(lost) > 12 else "")
            raise ValueError(
                f"{len(lost)} of the {self.n_features_in_} columns that the model needs are missing: {shown}"
            )
        return frame


def _as_frame(X: Any) -> Any:
    """A pandas data frame of `X`, which may be one of polars or pyarrow."""
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        return X
    if hasattr(X, "to_pandas") and hasattr(X, "columns"):
        return X.to_pandas()
    raise TypeError(
        f"X must be a data frame with named columns, got {type(X).__name__}: make one with pandas.DataFrame"
    )


def missing(column: Any) -> NDArray[np.bool_]:
    """Which cells are missing."""
    gaps = np.array(column.isna(), dtype=bool)
    if column.dtype.kind == "O":  # strings among them
        gaps |= [isinstance(cell, str) and cell.strip() in NOTHING for cell in column.tolist()]
    return gaps


def _as_numbers(column: Any, name: str) -> NDArray[np.float64]:
    import pandas

    if column.dtype.kind == "O":
        column = column.map(lambda cell: TRUTH.get(cell.lower(), cell) if isinstance(cell, str) else cell)
    if pandas.api.types.is_bool_dtype(column):
        column = column.astype("boolean")
    gaps = missing(column)
    try:
        numbers = pandas.to_numeric(column, errors="coerce")
    except TypeError:
        numbers = pandas.Series(np.nan, index=column.index)
    wrong = np.asarray(numbers.isna(), dtype=bool) & ~gaps
    if wrong.any():
        cell = str(column[wrong].iloc[0])[:40]
        raise ValueError(f"the column {name!r} holds {cell!r} where a number is needed: write a number there")
    values: NDArray[np.float64] = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    if np.isinf(values).any():
        raise ValueError(
            f"the column {name!r} holds infinity: replace it by a number, or leave the cell empty"
        )
    return values


def _as_strings(column: Any) -> NDArray[Any]:
    """Cells as text in which 3.0 is 3; a missing one is empty."""
    cells = np.empty(len(column), dtype=object)
    for i, (gap, cell) in enumerate(zip(missing(column), column.tolist(), strict=True)):
        cells[i] = "" if gap else re.sub(r"^(-?\d+)\.0+$", r"\1", str(cell))
    return cells
