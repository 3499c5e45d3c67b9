"""Take the numbers out of arrays, CSR matrices and data frames, and put others in their place."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marginout._core.validation import tidy


def is_frame(X: Any) -> bool:
    """Whether X is a data frame, of pandas or polars."""
    return hasattr(X, "columns") and hasattr(X, "to_numpy")


def names_of(X: Any) -> Any:
    """The names of a data frame's columns; None for other containers."""
    return X.columns if is_frame(X) else None


def are_texts(X: Any) -> bool:
    """Whether X is a sequence of strings."""
    if sp.issparse(X) or is_frame(X):
        return False
    X = np.asarray(X, dtype=object) if isinstance(X, (list, tuple)) else np.asarray(X)
    return bool(X.ndim == 1 and X.size and all(isinstance(text, str) for text in X[:100]))


def numbers_in(X: Any) -> Any:
    """The numbers in X: CSR, or a dense array."""
    X = tidy(X)
    if sp.issparse(X):
        return X
    values = np.asarray(X.to_numpy() if is_frame(X) else X)
    if values.ndim != 2:
        raise ValueError(f"X has {values.ndim} dimensions, but must have two: (n_samples, n_features).")
    if values.dtype.kind not in "fiub":
        try:
            if hasattr(X, "iloc"):  # pandas has missing values of its own
                values = X.to_numpy(dtype=np.float64, na_value=np.nan)
            else:
                values = values.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"X holds values of type {values.dtype}, which cannot be deleted: give numbers, or name the "
                "step of the pipeline that receives numbers, as in step='classifier'."
            ) from None
    return values


def rows_of(X: Any, rows: Any) -> Any:
    """Rows of a dense container, by their numbers."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X[rows] if is_frame(X) else numbers_in(X)[rows]


def holes_in(X: Any) -> NDArray[np.bool_]:
    """Mask of the values that are missing: NaN, and in a pandas frame whatever pandas calls missing."""
    if hasattr(X, "iloc") and X.ndim == 2:  # it may hold categories and texts
        return np.asarray(X.isna())
    return np.asarray(np.isnan(numbers_in(X).astype(np.float64, copy=False)))


def with_holes(X: Any, holes: NDArray[np.bool_]) -> Any:
    """A copy of X in which values are missing."""
    if hasattr(X, "iloc"):
        return X.mask(holes)
    values = numbers_in(X)
    return like(X, np.where(holes, np.nan, values.astype(np.result_type(values.dtype, np.float32))))


def data_frame(columns: dict[str, Any]) -> Any:
    """A pandas data frame, for methods called `to_frame`."""
    try:
        import pandas
    except ImportError:
        raise ImportError("to_frame needs pandas: pip install pandas.") from None
    return pandas.DataFrame(columns)


def like(X: Any, values: Any) -> Any:
    """Values in a container of X's kind."""
    if not is_frame(X):
        return values
    values = values.toarray() if sp.issparse(values) else values
    if hasattr(X, "iloc"):
        return type(X)(values, index=X.index, columns=X.columns)
    return type(X)(values, schema=list(X.columns))
