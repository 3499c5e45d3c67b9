"""Weights of classifiers stored as a CSR matrix, on demand."""

from __future__ import annotations

from typing import Self

import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from marginout._core.fit import weights_of
from marginout._core.interfaces import Array


class SparseWeights:
    """`sparsify` and `densify`, as scikit-learn's linear classifiers have them."""

    coef_: Array

    def sparsify(self) -> Self:
        """Store `coef_` as a CSR matrix: less memory and faster predictions where most weights are zero.

        Returns
        -------
        self : object
            The same model.
        """
        check_is_fitted(self)
        self.coef_ = sp.csr_matrix(self.coef_)
        return self

    def densify(self) -> Self:
        """Store `coef_` as an array, as it is after a fit.

        Returns
        -------
        self : object
            The same model.
        """
        check_is_fitted(self)
        self.coef_ = weights_of(self)
        return self
