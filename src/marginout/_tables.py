"""Tables of features as users hold them: arrays, CSR matrices, data frames, texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp


def is_frame(X: Any) -> bool:
    return hasattr(X, "columns") and hasattr(X, "to_numpy")


def names_of(X: Any) -> Any:
    """The names of a data frame's columns; None for other tables."""
    return X.columns if is_frame(X) else None


def are_texts(X: Any) -> bool:
    """Whether X is a sequence of strings."""
    if sp.issparse(X) or is_frame(X):
        return False
    X = np.asarray(X, dtype=object) if isinstance(X, (list, tuple)) else np.asarray(X)
    return bool(X.ndim == 1 and X.size and all(isinstance(text, str) for text in X[:100]))


#: Of every object, whether it is one of pandas' own nulls, which NumPy cannot read as numbers.
_are_nulls = np.frompyfunc(lambda value: type(value).__name__ in ("NAType", "NaTType"), 1, 1)


def tidy(X: Any) -> Any:
    """X as scikit-learn can check it: pandas' nulls among objects as NaN, CSR that ends with its last entry.

    SciPy lets `data` and `indices` be longer than ``indptr[-1]``: what lies behind may be anything.
    """
    if sp.issparse(X):
        if X.format == "csr" and max(len(X.data), len(X.indices)) > X.nnz:
            return type(X)((X.data[: X.nnz], X.indices[: X.nnz], X.indptr), shape=X.shape)
        return X
    if hasattr(X, "iloc"):
        objects = getattr(X, "ndim", 0) == 2 and any(kind == "object" for kind in X.dtypes)
        return X.where(X.notna(), np.nan) if objects else X
    values = np.asarray(X, dtype=object) if isinstance(X, (list, tuple)) else X
    if not isinstance(values, np.ndarray) or values.dtype != object:
        return X
    nulls = np.asarray(_are_nulls(values), dtype=bool)
    return np.where(nulls, np.nan, values) if nulls.any() else X


def numbers_in(X: Any) -> Any:
    """The numbers in X: CSR, or a dense array."""
    X = tidy(X)
    if sp.issparse(X):
        X = X.tocsr()
        if not X.has_canonical_format:  # an entry stored in parts would die in parts
            X = X.copy()
            X.sum_duplicates()
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


def like(X: Any, values: Any) -> Any:
    """Values in X's kind of container."""
    if not is_frame(X):
        return values
    values = values.toarray() if sp.issparse(values) else values
    if hasattr(X, "iloc"):
        return type(X)(values, index=X.index, columns=X.columns)
    return type(X)(values, schema=list(X.columns))
