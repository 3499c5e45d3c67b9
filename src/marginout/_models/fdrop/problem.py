"""The SVM for the worst deletion of K features, as its solver takes it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from marginout._core.design.storage import csr_arrays
from marginout._core.interfaces import Array

#: Smallest entry of X whose square is far enough from zero to be divided by.
TINY = 1e-140


@dataclass(frozen=True)
class DeletionProblem:
    """½‖w‖² + Σ c_n max(0, 1 − y_n(w·x_n + b) + s_K(y_n w∘x_n)) for every column of Y.

    X is CSR without stored zeros, s_K the sum of the K largest positive entries; weights are (n, 1), or as Y.
    """

    X: Any
    Y: Array
    weights: Array
    n_deletions: int
    fit_intercept: bool

    @classmethod
    def of(cls, X: Any, *rest: Any) -> DeletionProblem:
        """The problem for X in any storage, and the other attributes."""
        X = X if sp.issparse(X) else sp.csr_array(X)
        # Entries whose squares underflow are removed, like stored zeros.
        nothing = np.abs(X.data) <= TINY  # in single precision TINY is 0
        if nothing.any():
            X = X.copy()
            X.data[nothing] = 0.0
            X.eliminate_zeros()
        return cls(X, *rest)

    @cached_property
    def rows(self) -> tuple[Any, Any, Any]:
        """X as the kernels take it."""
        return csr_arrays(self.X)
