"""Linear systems of Newton-like steps: a diagonal plus a weighted Gram matrix, bordered by the offset.

With weights a ≥ 0 of the examples and a diagonal D > 0, the system of one problem is

    A dw + u db = −g              A = diag(D) + Mᵀdiag(a)M + Var,     u = Mᵀa
    u·dw + Σa db = −g_b           Var = diag(Vᵀa) if features are corrupted independently

The second line gives db = −g_b/Σa − μ·dw with the mean μ = u/Σa. This centres M in the first line:

    A_c dw = −g + μ g_b           A_c = A − Σa·μμᵀ

Three forms solve it:

    cholesky    form A_c, d×d                                                       few features
    woodbury    form I + √a M_c Λ⁻¹ M_cᵀ √a, n×n, Λ = diag(D) + Var, M_c = M − 1μᵀ  few examples, Λ diagonal
    cg          conjugate gradients, Jacobi-preconditioned                          neither
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from marginout._core.interfaces import Array, Design
from marginout._core.objective import dots

#: Relative to a unit diagonal: what is added, one after the other, until a factorisation succeeds.
JITTERS = 0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6

#: R ↦ A_c⁻¹R.
Inverse = Callable[[Array], Array]


@dataclass(frozen=True)
class Effort:
    """Limits of the work for one system.

    Attributes
    ----------
    largest : rows of the largest matrix that is formed and factorised
    passes : iterations of conjugate gradients, about, that the choice of the form counts with
    tol : fraction of its first value at which the preconditioned residual ends conjugate gradients
    max_iter : most iterations of conjugate gradients
    centred : whether the Jacobi preconditioner is the diagonal of A_c, or that of A
    """

    largest: int
    passes: int
    tol: float
    max_iter: int
    centred: bool


class System(ABC):
    """The matrices A_c of K problems.

    Parameters
    ----------
    design : Design
    D : a number, (d,) or (d, K)
        The diagonal.
    a : (n, K), or (n, 1) for one matrix that all problems share
    offset : bool
        Whether there is an offset; otherwise A_c = A.
    """

    #: μ, (d, K) or (d, 1), where there is an offset.
    mean: Array | None = None
    #: Whether the last solution was cut short by the largest number of iterations.
    cut_short = False

    def __init__(self, design: Design, D: Array | float, a: Array, offset: bool) -> None:
        self.design, self.a = design, a
        D = np.asarray(D, dtype=np.float64)
        self.D = np.broadcast_to(D[:, None] if D.ndim == 1 else D, (design.d, a.shape[1]))
        self.total = a.sum(axis=0)
        if offset:
            self.mean = design.centre(a)[0] / np.where(self.total > 0, self.total, 1.0)

    @abstractmethod
    def solve(self, R: Array) -> Array:
        """A_c⁻¹R, (d, K)."""

    def step(self, G: Array, slope: Array) -> tuple[Array, Array]:
        """The steps dw, (d, K), and db, (K,), for the gradients G in w and `slope` in b."""
        return eliminate(self.solve, G, slope, self.mean, self.total)

    def _variance(self) -> Array:
        """Vᵀa, (d, K): one pass over X, or none without noise."""
        return np.zeros(self.D.shape) if self.design.noiseless else self.design.diagonal(self.a)[1]


def eliminate(
    solve: Inverse, G: Array, slope: Array, mean: Array | None, total: Array
) -> tuple[Array, Array]:
    """The steps dw and db of the bordered system, given A_c⁻¹; see :meth:`System.step`."""
    if mean is None:
        return solve(-G), np.zeros(G.shape[1])
    dW = solve(mean * slope - G)
    db = -slope / np.where(total > 0, total, 1.0) - np.einsum("dk,dk->k", mean, dW)
    return dW, np.where(total > 0, db, 0.0)


class _Factorized(System):
    """A matrix for each problem; there is one at a time, and a shared one is kept."""

    _shared: Inverse | None = None

    def solve(self, R: Array) -> Array:
        if self.a.shape[1] == 1:
            self._shared = self._shared or self._inverse(0)
            return self._shared(R)
        return np.column_stack([self._inverse(k)(R[:, k : k + 1]) for k in range(R.shape[1])])

    @abstractmethod
    def _inverse(self, k: int) -> Inverse:
        """R ↦ A_c⁻¹R of one problem."""


class Cholesky(_Factorized):
    """A_c is formed, d×d."""

    def _inverse(self, k: int) -> Inverse:
        A = self.design.gram(self.a[:, k])
        mean = None if self.mean is None else self.mean[:, k]
        return gram_inverse(A, self.D[:, k], mean, self.total[k])


def gram_inverse(A: Array, D: Array | float, mean: Array | None, total: float) -> Inverse:
    """R ↦ (A + diag(D) − total·μμᵀ)⁻¹R for a Gram matrix A, which is overwritten."""
    if mean is not None:
        A -= np.outer(mean, total * mean)
    np.einsum("dd->d", A)[...] += D
    return _scaled_inverse(A, D)


def bordered_steps(
    H: Array, cross: Array, corner: Array, G: Array, g: Array, offset: bool
) -> tuple[Array, Array]:
    """The steps dw, (d, K), and db, (K,), of K problems whose matrices have the blocks H, cross and corner.

    H, (K, d, d), is overwritten.
    """
    mean = None
    if offset:
        mean = cross / np.where(corner > 0, corner, 1.0)
        H -= corner[:, None, None] * mean.T[:, :, None] * mean.T[:, None, :]
    return eliminate(lambda R: _solve_each(H, R), G, g, mean, corner)


def _solve_each(A: Array, R: Array) -> Array:
    """A_k⁻¹r_k for every column, (d, K)."""
    scale = 1.0 / np.sqrt(np.maximum(np.einsum("kdd->kd", A), 1.0))
    A = A * scale[:, :, None] * scale[:, None, :]
    R = scale * R.T
    try:
        np.linalg.cholesky(A)
        S = np.linalg.solve(A, R[:, :, None])[:, :, 0]
    except np.linalg.LinAlgError:
        S = np.array([cho_solve(_factorize(a), r, check_finite=False) for a, r in zip(A, R, strict=True)])
    return np.asarray((scale * S).T)


def _scaled_inverse(A: Array, least: Array | float) -> Inverse:
    """R ↦ A⁻¹R of a positive definite matrix, which is overwritten; its diagonal is at least `least`."""
    # Scaled to a unit diagonal, features of any size can be factorised together.
    scale = 1.0 / np.sqrt(np.maximum(np.einsum("dd->d", A), least))
    A *= scale[:, None] * scale
    factor, column = _factorize(A), scale[:, None]
    return lambda R: np.asarray(column * cho_solve(factor, column * R, check_finite=False))


def _factorize(A: Array) -> tuple[Array, bool]:
    """Cholesky's factor of a matrix of unit diagonal that rounding may have made indefinite."""
    diagonal = np.diagonal(A).copy()
    for jitter in JITTERS:
        np.einsum("dd->d", A)[...] = diagonal + jitter
        with suppress(LinAlgError):
            factor: tuple[Array, bool] = cho_factor(A, lower=True, check_finite=False)
            return factor
    return np.eye(len(A)), True  # a step along the scaled gradient; the search along it does the rest


class Woodbury(_Factorized):
    """I + √a M_c Λ⁻¹ M_cᵀ √a is formed, n×n, by Woodbury's identity."""

    def __init__(self, design: Design, D: Array | float, a: Array, offset: bool) -> None:
        super().__init__(design, D, a, offset)
        self._diagonal = 1.0 / (self.D + self._variance())  # of Λ⁻¹

    def _inverse(self, k: int) -> Inverse:
        design, diagonal, root = self.design, self._diagonal[:, [k]], np.sqrt(self.a[:, [k]])
        share = self.a[:, k] / self.total[k] if self.mean is not None and self.total[k] > 0 else None
        B = design.kernel(diagonal[:, 0])
        if share is not None:
            middle = B @ share
            B += share @ middle - middle[:, None] - middle
        B *= root * root.T
        np.einsum("nn->n", B)[...] += 1.0
        inverse = _scaled_inverse(B, 1.0)

        def solve(R: Array) -> Array:
            first = diagonal * R
            scores = design.apply(first)
            if share is not None:
                scores -= share @ scores
            inner = root * inverse(root * scores)
            if share is not None:
                inner -= share[:, None] * inner.sum(axis=0)
            back = design.pullback(np.zeros_like(first), inner, np.zeros_like(inner))
            return np.asarray(first - diagonal * back)

        return solve


class ConjugateGradients(System):
    """All problems at once, without a matrix."""

    def __init__(self, design: Design, D: Array | float, a: Array, offset: bool, effort: Effort) -> None:
        super().__init__(design, D, a, offset)
        squares, variance = design.diagonal(a)
        if self.mean is not None and effort.centred:
            squares = np.maximum(squares - self.total * self.mean * self.mean, 0.0)
        self._jacobi = self.D + variance + squares
        self._share = None if self.mean is None else a / np.where(self.total > 0, self.total, 1.0)
        self._effort = effort

    def solve(self, R: Array) -> Array:
        half = np.ascontiguousarray(np.broadcast_to(0.5 * self.a, (self.design.n, R.shape[1])))
        X, R, Z = np.zeros_like(R), R.copy(), R / self._jacobi
        P, rz = Z, dots(R, Z)
        goal = self._effort.tol**2 * rz
        for _ in range(self._effort.max_iter):
            if np.all(rz <= goal):
                break
            Q = self._apply(P, half)
            bend = dots(P, Q)
            t = np.where(bend > 0, rz / np.where(bend > 0, bend, 1.0), 0.0)
            X += t * P
            R -= t * Q
            Z = R / self._jacobi
            after = dots(R, Z)
            P = Z + (after / np.where(rz > 0, rz, 1.0)) * P
            rz = after
        self.cut_short = bool(np.any(rz > goal))
        return X

    def _apply(self, P: Array, half: Array) -> Array:
        """A_c P: two passes over X."""
        scores = self.design.apply(P)
        if self._share is not None:
            scores -= np.einsum("nk,nk->k", self._share, scores)
        return np.asarray(self.design.pullback(P, self.a * scores, half) + self.D * P)


#: The forms that factorise a matrix.
FACTORS: dict[str, type[System]] = {"cholesky": Cholesky, "woodbury": Woodbury}
#: All forms.
FORMS = *FACTORS, "cg"


def make_system(
    form: str, design: Design, D: Array | float, a: Array, offset: bool, effort: Effort
) -> System:
    """The system in one of FORMS; see :class:`System`."""
    if form == "cg":
        return ConjugateGradients(design, D, a, offset, effort)
    return FACTORS[form](design, D, a, offset)


def cheapest(design: Design, matrices: int, columns: int, effort: Effort) -> str:
    """The form with the fewest multiplications.

    A factorisation is made for each matrix; conjugate gradients run for each column.
    """
    n, d, nnz = design.n, design.d, design.nnz
    costs = {"cg": 2.0 * effort.passes * nnz * columns}
    if d <= effort.largest:
        costs["cholesky"] = matrices * (nnz * d / 2 + d**3 / 6)
    if n <= effort.largest and not design.dependent:
        costs["woodbury"] = matrices * (nnz * n / 2 + n**3 / 6)
    return min(costs, key=lambda name: costs[name])
