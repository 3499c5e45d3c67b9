"""Rows of X as the inputs of a hidden layer, for every way to store and to corrupt them.

α carries the scales of the mean M = X·diag(scale). For such weights the variance of an entry is
V = κ·x^power with κ = coefficient·scale^(power − 2).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from marginout._core.design.groups import GroupSums
from marginout._core.design.storage import Design
from marginout._kernels import _latent

Array = NDArray[np.float64]

#: Largest entry of X, and smallest largest one, whose squares single precision bears.
SINGLE_RANGE = 1e10


class LayerInputs:
    """All rows of a design.

    Noise is `multiplicative` (every entry of X has its own variance V), `additive` (all rows have the same
    covariance), or absent.
    """

    def __init__(self, design: Design) -> None:
        self.design, self.square = design, design.power == 2
        self.dtype: type[np.floating[Any]] = np.float64  # of products with dense rows
        self.multiplicative = design.power > 0 and not design.noiseless
        self.additive = design.power == 0 and not design.noiseless
        self.kappa = np.zeros(design.d)
        if self.multiplicative:
            self.kappa = design.coefficient * design.scale ** (design.power - 2.0)
        self.sums = None if design.groups is None else GroupSums(design.X, design.groups)
        self._block = BLOCKS[design.storage] if design.groups is None else GroupBlock

    def single(self) -> Self | None:
        """The same with products in single precision, or None where that would change results."""
        X = self.design.X
        if self._block is not DenseBlock or self.design.far():
            return None
        if not 1 / SINGLE_RANGE < max(X.max(), -X.min()) < SINGLE_RANGE:
            return None
        other = copy(self)
        other.dtype = np.float32
        return other

    def scaled(self, alpha: Array) -> Array:
        """diag(scale)·α; the map is its own adjoint."""
        return np.ascontiguousarray(self.design.scale[:, None] * alpha)

    def additive_covariance(self, alpha: Array) -> Array | None:
        """Σ = αᵀ diag(coefficient) α of additive noise, (K, K), for all rows; None for other noise."""
        return alpha.T @ (self.design.coefficient[:, None] * alpha) if self.additive else None

    def additive_gradient(self, alpha: Array, R: Array) -> Array:
        """The gradient of Σ R∘Σ_additive in α, for a symmetric R, (K, K)."""
        return np.asarray(2 * self.design.coefficient[:, None] * (alpha @ R))

    def entries(self, K: int, P: int) -> int:
        """Numbers that a row takes, about, for K units and P outputs."""
        return self._block.entries(self, K, P)

    def block(self, rows: slice, alpha: Array) -> Block:
        """Some of the rows, for weights α that are scaled, and of this dtype, already."""
        return self._block(self, rows, alpha)


class Block(ABC):
    """Some rows of X, and the products of the hidden layer with them."""

    def __init__(self, inputs: LayerInputs, rows: slice, alpha: Array) -> None:
        self.size, self.alpha = rows.stop - rows.start, alpha

    @staticmethod
    @abstractmethod
    def entries(inputs: LayerInputs, K: int, P: int) -> int:
        """Numbers that a row takes, about, for K units and P outputs."""

    @abstractmethod
    def inputs(self, variance: bool) -> tuple[Array, Array]:
        """X α and, if `variance`, V (α∘α), each (size, K)."""

    @abstractmethod
    def spread(self, U: Array) -> tuple[Array, Array]:
        """v = Σ_d V_d h_d² (size, P) and T = αᵀ(V∘h) (size, P, K) for h = α u, U (size, P, K)."""

    @abstractmethod
    def pull(self, dA: Array, dS: Array | None, E: Array | None, G: Array) -> None:
        """G += XᵀdA + (V∘h)ᵀE + α∘(VᵀdS), after :meth:`spread` where E is given."""

    @abstractmethod
    def covariance(self) -> Array:
        """Σ = αᵀ diag(V) α of every row, (size, K, K)."""


class DenseBlock(Block):
    """Rows multiplied by BLAS, in double precision or in single; results are double."""

    @staticmethod
    def entries(inputs: LayerInputs, K: int, P: int) -> int:
        return max(int(inputs.design.d), K) * P

    def __init__(self, inputs: LayerInputs, rows: slice, alpha: Array) -> None:
        super().__init__(inputs, rows, alpha)
        self._dtype = inputs.dtype
        self._X = np.asarray(inputs.design.X[rows], dtype=inputs.dtype)
        if inputs.multiplicative:
            self._V = (self._X * self._X if inputs.square else self._X) * self._cast(inputs.kappa)

    def _cast(self, A: Array) -> Any:
        return A.astype(self._dtype, copy=False)

    def inputs(self, variance: bool) -> tuple[Array, Array]:
        A = double(self._X @ self.alpha)
        return A, double(self._V @ (self.alpha * self.alpha)) if variance else np.zeros_like(A)

    def spread(self, U: Array) -> tuple[Array, Array]:
        size, P, K = U.shape
        H = (self._cast(U).reshape(-1, K) @ self.alpha.T).reshape(size, P, -1)
        self._Q = H * self._V[:, None]
        v = np.einsum("npd,npd->np", H, self._Q)
        return double(v), double(self._Q.reshape(size * P, -1) @ self.alpha).reshape(size, P, K)

    def pull(self, dA: Array, dS: Array | None, E: Array | None, G: Array) -> None:
        G += self._X.T @ self._cast(dA)
        if E is not None:
            _, P, K = E.shape
            G += self._Q.reshape(self.size * P, -1).T @ self._cast(E).reshape(-1, K)
        if dS is not None:
            G += self.alpha * (self._V.T @ self._cast(dS))

    def covariance(self) -> Array:
        return double((self._V[:, None] * self.alpha.T) @ self.alpha)


def double(A: NDArray[Any]) -> Array:
    """The same in double precision."""
    return A.astype(np.float64, copy=False)


class CsrBlock(Block):
    """Rows of non-zeros, passed over by the compiled kernels."""

    @staticmethod
    def entries(inputs: LayerInputs, K: int, P: int) -> int:
        return max(int(inputs.design.nnz) // int(inputs.design.n) + 1, K) * P

    def __init__(self, inputs: LayerInputs, rows: slice, alpha: Array) -> None:
        super().__init__(inputs, rows, alpha)
        data, indices, indptr = inputs.design.rows
        self._rows = data, indices, indptr, rows.start, rows.stop, inputs.kappa, inputs.square
        self._nnz = int(indptr[rows.stop] - indptr[rows.start])
        self._none = np.zeros((1, 1)), np.zeros((1, 1, 1))

    def inputs(self, variance: bool) -> tuple[Array, Array]:
        A, S = (np.zeros((self.size, self.alpha.shape[1])) for _ in range(2))
        _latent.csr_inputs(*self._rows, variance, self.alpha, A, S)
        return A, S

    def spread(self, U: Array) -> tuple[Array, Array]:
        v, T = np.zeros(U.shape[:2]), np.zeros(U.shape)
        self._Q = np.empty((max(self._nnz, 1), U.shape[1]))
        _latent.csr_spread(*self._rows, self.alpha, np.ascontiguousarray(U), self._Q, v, T)
        return v, T

    def pull(self, dA: Array, dS: Array | None, E: Array | None, G: Array) -> None:
        matrix, cube = self._none
        Q, E_ = (self._Q, np.ascontiguousarray(E)) if E is not None else (matrix, cube)
        dS_ = dA if dS is None else np.ascontiguousarray(dS)
        wanted = E is not None, dS is not None
        _latent.csr_pull(*self._rows, *wanted, self.alpha, np.ascontiguousarray(dA), dS_, Q, E_, G)

    def covariance(self) -> Array:
        K = self.alpha.shape[1]
        S = np.zeros((self.size, K, K))
        _latent.csr_covariance(*self._rows, self.alpha, S)
        return S


class GroupBlock(Block):
    """Rows whose features are corrupted in groups, by Z = α_g·x_g of every group.

    v = Σ_g κ_g (z_g·u)², T = Σ_g κ_g (z_g·u) z_g, and a unit's own variance is Σ_g κ_g z_g².
    """

    @staticmethod
    def entries(inputs: LayerInputs, K: int, P: int) -> int:
        assert inputs.sums is not None
        return inputs.sums.count * (K + P)

    def __init__(self, inputs: LayerInputs, rows: slice, alpha: Array) -> None:
        super().__init__(inputs, rows, alpha)
        assert inputs.sums is not None
        self._sums, self._rows = inputs.sums, rows
        self._kappa = np.zeros((inputs.sums.count, 1))
        self._kappa[inputs.sums.groups, 0] = inputs.kappa
        self._Z = inputs.sums.forward(rows, alpha)

    def inputs(self, variance: bool) -> tuple[Array, Array]:
        A = self._Z.sum(axis=1)
        return A, (self._kappa * self._Z**2).sum(axis=1) if variance else np.zeros_like(A)

    def spread(self, U: Array) -> tuple[Array, Array]:
        s = self._Z @ U.transpose(0, 2, 1)
        self._Q = self._kappa * s
        return np.einsum("ngp,ngp->np", self._Q, s), self._Q.transpose(0, 2, 1) @ self._Z

    def pull(self, dA: Array, dS: Array | None, E: Array | None, G: Array) -> None:
        D = np.repeat(dA[:, None], self._sums.count, axis=1)
        if E is not None:
            D += self._Q @ E
        if dS is not None:
            D += self._kappa * self._Z * dS[:, None]
        self._sums.backward(self._rows, D, G)

    def covariance(self) -> Array:
        return np.asarray((self._kappa * self._Z).transpose(0, 2, 1) @ self._Z)


#: Blocks of independently corrupted features, by the storage of X.
BLOCKS: dict[str, type[Block]] = {"csr": CsrBlock, "dense": DenseBlock}
