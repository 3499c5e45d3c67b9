"""Tables of features as users hold them: arrays, CSR matrices, data frames, texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from marginout._kernels import _passes


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


def canonical(X: Any) -> Any:
    """CSR X as compiled code may read it: indices lie within X and ascend in every row, nothing lies behind.

    One pass over the indices, for the flags that SciPy keeps (`has_canonical_format`) may be of an earlier
    state, and `data` and `indices` may be longer than ``indptr[-1]``. X itself is not changed; where
    something must be, a matrix that shares the rest is returned.
    """
    given: tuple[Any, ...] = X.data, X.indices, X.indptr
    if given[1].dtype != given[2].dtype or given[1].dtype not in (np.int32, np.int64):
        given = X.data, *(part.astype(np.int64, casting="same_kind") for part in given[1:])
    data, indices, indptr = map(np.ascontiguousarray, given)
    inside, ascending = _passes.csr_form(indices, indptr, X.shape[1], min(len(indices), len(data)))
    if not inside or len(indptr) != X.shape[0] + 1:
        raise ValueError(
            "X is no valid CSR matrix: its indices or indptr lead out of its arrays. "
            "X.check_format(full_check=True) says where."
        )
    used = slice(0, int(indptr[-1]))
    same = data is X.data and indices is X.indices and indptr is X.indptr
    if same and ascending and used.stop == len(indices) == len(data):
        return X
    Y = type(X)(X.shape, dtype=X.dtype)
    # Set one by one: SciPy's constructor would make 32-bit indices of 64-bit ones.
    Y.data, Y.indices, Y.indptr = data[used], indices[used], indptr
    if not ascending:
        Y = Y.copy()
        Y.sum_duplicates()
    return Y


def tidy(X: Any) -> Any:
    """X as scikit-learn can check it: pandas' nulls among objects as NaN, sparse data as canonical CSR."""
    if sp.issparse(X):
        return canonical(X.tocsr()) if X.ndim == 2 else X
    if hasattr(X, "iloc"):
        objects = getattr(X, "ndim", 0) == 2 and any(kind == "object" for kind in X.dtypes)
        return X.where(X.notna(), np.nan) if objects else X
    try:
        values = np.asarray(X) if isinstance(X, (list, tuple)) else X
    except ValueError:  # rows of several lengths, which scikit-learn refuses
        return X
    if not isinstance(values, np.ndarray) or values.dtype != object:
        return X
    nulls = np.asarray(_are_nulls(values), dtype=bool)
    return np.where(nulls, np.nan, values) if nulls.any() else X


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


def like(X: Any, values: Any) -> Any:
    """Values in X's kind of container."""
    if not is_frame(X):
        return values
    values = values.toarray() if sp.issparse(values) else values
    if hasattr(X, "iloc"):
        return type(X)(values, index=X.index, columns=X.columns)
    return type(X)(values, schema=list(X.columns))
