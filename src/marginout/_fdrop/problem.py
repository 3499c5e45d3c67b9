"""The SVM for the worst deletion of K features, as its solver takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class DeletionProblem:
    """½‖w‖² + Σ c_n max(0, 1 − y_n(w·x_n + b) + s_K), for K-column Y and CSR X without stored zeros."""

    X: Any
    Y: Array
    weights: Array
    n_deletions: int
    fit_intercept: bool

    @property
    def rows(self) -> tuple[Any, Any, Any]:
        """X as the kernels take it."""
        indptr = self.X.indptr.astype(self.X.indices.dtype, copy=False)
        empty = np.zeros(1, self.X.dtype), np.zeros(1, indptr.dtype)
        data, indices = (self.X.data, self.X.indices) if self.X.nnz else empty
        return np.ascontiguousarray(data), np.ascontiguousarray(indices), np.ascontiguousarray(indptr)
