"""Bring X into a form that scikit-learn can check and that compiled code can read."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from marginout._kernels import _passes

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
