"""The Hessian of the losses in the weights, for designs that store X: the verb `hessian`.

    H_k = Mᵀdiag(mm)M + Mᵀdiag(mv)B + Bᵀdiag(mv)M + Bᵀdiag(vv)B + 2V(dv)        B rows ∂v_n/∂w

Without groups B = 2κ·Mᵖ∘w with the noise's power p. Three ways, by storage, size and number of outputs:

    products   x_i x_j, x_i x_jᵖ and x_iᵖ x_jᵖ of a block of rows, once; a matrix product with the second
               derivatives of all outputs                                        few features, many outputs
    blocks     MᵀL + BᵀR of a dense block of rows, for each output               dense X
    rows       the pairs of entries of every row, for each output                sparse X
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp

from marginout._core import interfaces
from marginout._core.interfaces import Array
from marginout._kernels import _passes

#: Most features, and fewest outputs, for which products of features are formed once for all outputs.
FEW_FEATURES, SEVERAL_OUTPUTS = 32, 4
#: Numbers in a block of rows, of X or of products: 1 MB.
ENTRIES = 2**17
#: Share of non-zeros from which on BLAS on dense blocks is faster than sums over pairs of entries.
DENSE = 0.3


class Hessians(interfaces.Design, ABC):
    """The verb `hessian` of a design with X, scale, coefficient, power and factors."""

    X: Any
    scale: Array
    coefficient: Array
    power: int
    factors: Array | float
    _kappa: Array
    _shrinks: bool
    _csr: tuple[Any, Any, Any]

    def hessian(self, W: Array, mm: Array, mv: Array, vv: Array, dv: Array) -> Array:
        """Second derivatives in w, (K, d, d); see the module."""
        mv, vv = self.factors * mv, self.factors * self.factors * vv
        H = self._products(self._scaled(W), mm, mv, vv)
        if self._shrinks:
            H *= self.scale[:, None] * self.scale
        if self.power == 0 and not self.noiseless:
            self._add_constant(H, W, mv, vv)
        if not self.noiseless:
            self._add_spread(H, dv)
        return H

    @abstractmethod
    def _scaled(self, W: Array) -> Array: ...

    def _add_constant(self, H: Array, W: Array, mv: Array, vv: Array) -> None:
        """Add the terms with the part 2c∘w of B that is the same in every row: additive noise."""
        b = (2 * self.coefficient[:, None] * W).T
        mixed = b[:, :, None] * self.centre(mv)[0].T[:, None, :]
        H += mixed + mixed.transpose(0, 2, 1)
        H += vv.sum(axis=0)[:, None, None] * b[:, :, None] * b[:, None, :]

    def _add_spread(self, H: Array, dv: Array) -> None:
        """Add 2V(dv)."""
        np.einsum("kdd->kd", H)[...] += 2 * self.diagonal(dv)[1].T

    def _products(self, W: Array, mm: Array, mv: Array, vv: Array) -> Array:
        """The first four terms with X for M, of noise that is not additive."""
        sparse = sp.issparse(self.X) and self.nnz < DENSE * self.n * self.d
        if sparse and self.nnz**2 < DENSE * self.n**2 * self.d**2:
            return self._from_rows(W, mm, mv, vv)
        if self.grouping is None and self.d <= FEW_FEATURES and W.shape[1] >= SEVERAL_OUTPUTS:
            return self._from_products(W, mm, mv, vv)
        return self._from_blocks(W, mm, mv, vv)

    def _dense(self, rows: slice) -> Array:
        block = self.X[rows]
        return np.asarray(block.toarray() if sp.issparse(block) else block, dtype=np.float64)

    def _row_blocks(self, width: int) -> list[slice]:
        rows = max(16, ENTRIES // width)
        return [slice(i, i + rows) for i in range(0, self.n, rows)]

    def _from_products(self, W: Array, mm: Array, mv: Array, vv: Array) -> Array:
        d, K = W.shape
        noisy = bool(self._kappa.any())
        sums = np.zeros((3 if noisy else 1, d * d, K))
        for rows in self._row_blocks(d * d):
            x = np.ascontiguousarray(self._dense(rows).T)
            p = self._powered_copy(x)
            room = np.empty((d, d, x.shape[1]))
            for total, one, other, a in zip(sums, (x, x, p), (x, p, p), (mm, mv, vv), strict=False):
                np.multiply(one[:, None], other, out=room)
                total += room.reshape(d * d, -1) @ a[rows]
        H, *more = (np.ascontiguousarray(total.T).reshape(K, d, d) for total in sums)
        if noisy:
            U = (2 * self._kappa[:, None] * W).T
            mixed = more[0] * U[:, None, :]
            H += mixed + mixed.transpose(0, 2, 1) + more[1] * U[:, :, None] * U[:, None, :]
        return H

    def _from_blocks(self, W: Array, mm: Array, mv: Array, vv: Array) -> Array:
        d, K = W.shape
        H = np.zeros((K, d, d))
        noisy = bool(self._kappa.any())
        for rows in self._row_blocks(d):
            x = self._dense(rows)
            for k in range(K):
                a, c, e = mm[rows, k, None], mv[rows, k, None], vv[rows, k, None]
                if noisy:
                    B = self._slopes(x, W[:, k])
                    H[k] += x.T @ (a * x + c * B)
                    H[k] += B.T @ (c * x + e * B)
                else:
                    H[k] += x.T @ (a * x)
        return H

    def _from_rows(self, W: Array, mm: Array, mv: Array, vv: Array) -> Array:
        d, K = W.shape
        H = np.empty((K, d, d))
        x, indices, indptr = self._csr
        x = x.astype(np.float64, copy=False)
        pairs = int(self.nnz * (self.nnz / self.n))
        parts = np.empty((self.threads(pairs), d, d))
        for k in range(K):
            parts[:] = 0
            a, c, e = (np.ascontiguousarray(a[:, k]) for a in (mm, mv, vv))
            _passes.csr_hessian(x, self._row_slopes(W[:, k]), indices, indptr, a, c, e, parts, len(parts))
            half = parts.sum(axis=0)
            H[k] = half + half.T
        return H

    def _powered_copy(self, x: Array) -> Array:
        return x * x if self.power == 2 else x

    def _slopes(self, x: Array, w: Array) -> Array:
        """B of a dense block of rows."""
        return self._powered_copy(x) * (2 * self._kappa * w)

    def _row_slopes(self, w: Array) -> Array:
        """The entries of B where those of X in CSR are."""
        x, indices, _ = self._csr
        return np.asarray(self._powered_copy(x) * (2 * self._kappa * w)[indices], dtype=np.float64)
