"""The closed form of the quadratic loss: one linear system, shared by all K problems.

    (I + diag(Vᵀa) + Mᵀdiag(a)M) W + Mᵀa bᵀ = Mᵀdiag(a) Y,     a = C·s,

bordered by the offset, which is eliminated: M is centred by its a-weighted mean. A
Newton step from any point solves it, by the cheapest of three forms,

    cholesky    form the matrix, d×d                          few features
    woodbury    form I + √a M Λ⁻¹ Mᵀ √a, n×n, Λ = I + diag(Vᵀa)     few examples, independent noise
    cg          conjugate gradients, Jacobi-preconditioned    neither, or until it takes too many iterations

and a second step removes what rounding, or an early end of the third, has left.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from marginout._objective import Array, Objective, Point
from marginout.solvers._result import Monitor, Result, Solution

#: Largest matrix that is formed and factorised, and how many CG iterations it must be worth.
LARGEST_FACTOR = 6000
CG_PASSES = 60
#: CG stops once the residual, preconditioned, has fallen to this fraction.
CG_TOL = 1e-4
CG_MAX_ITER = 500
#: Where the arithmetic ends, this much, relative to F, may be left without a word.
ROUNDING = 1e-7

Inverse = Callable[[Array], Array]


def solve(
    objective: Objective,
    W: Array,
    b: Array,
    *,
    tol: float,
    max_iter: int,
    monitor: Monitor | None = None,
    form: str = "auto",
) -> Result:
    """Minimise all K problems of a quadratic loss with common weights, from (W, b)."""
    a = np.ascontiguousarray(objective.weights[:, 0])
    form = _cheapest(objective) if form == "auto" else form
    inverse = FORMS[form](objective, a)
    point, history = _centred(objective, W, b, a), []
    last = point
    left = np.full(objective.K, np.inf)
    for iteration in range(max_iter + 1):
        G = objective.gradient(point)
        dW = -inverse(G)
        if isinstance(inverse, _Cg) and inverse.tired and objective.design.d <= LARGEST_FACTOR:
            form = "cholesky"
            inverse = FORMS[form](objective, a)
            dW = -inverse(G)
        # The loss is quadratic: half the slope along the Newton step is the suboptimality itself.
        before, left = left, 0.5 * np.abs(np.einsum("dk,dk->k", G, dW)) + point.offset_left
        stop = False
        if iteration:
            history.append(float(point.value.sum()))
            stop = bool(monitor and monitor(iteration, history[-1], float(left.sum()), _solution(point)))
        # A step that gains nothing has met the end of the arithmetic.
        stalled = left >= 0.5 * before
        converged = (left <= tol * point.value) | (stalled & (left <= ROUNDING * point.value)) | stop
        if iteration and (iteration == max_iter or (converged | stalled).all()):
            if form != "woodbury" or iteration == max_iter or converged.all():
                break
            # Its matrix has lost the small differences that a large C is about: a form that keeps them.
            form = "cholesky" if objective.design.d <= LARGEST_FACTOR else "cg"
            inverse = FORMS[form](objective, a)
            point = point if point.value.sum() <= last.value.sum() else last
            left = np.full(objective.K, np.inf)
            G = objective.gradient(point)
            dW = -inverse(G)
        last = point
        point = _centred(objective, point.W + dW, point.b, a)
    with np.errstate(over="ignore"):  # F is 1-strongly convex
        gap = np.minimum(0.5 * np.einsum("dk,dk->k", G, G) + point.offset_left, 2 * left)
    return Result(point.W, point.b, point.value, gap, converged, max(iteration, 1), history)


def _solution(point: Point) -> Solution:
    return lambda: (point.W.copy(), point.b.copy())


def _centred(objective: Objective, W: Array, b: Array, a: Array) -> Point:
    """The point W with the offset that suits it."""
    point = objective.point(W, b)
    if objective.fit_intercept:
        delta = -objective.offset_gradient(point) / a.sum()
        point = objective.evaluate(W, point.b + delta, point.m + delta, point.v)
        slope = objective.offset_gradient(point) / np.sqrt(a.sum())
        point.offset_left[:] = 0.5 * slope * slope
    return point


def _cheapest(objective: Objective) -> str:
    """The form with the fewest multiplications; factors serve all problems, CG runs for each."""
    n, d, nnz = objective.design.n, objective.design.d, objective.design.nnz
    costs = {"cg": 2.0 * CG_PASSES * nnz * objective.K}
    if d <= LARGEST_FACTOR:
        costs["cholesky"] = nnz * d / 2 + d**3 / 6
    if n <= LARGEST_FACTOR and objective.design.diagonal_variance:
        costs["woodbury"] = nnz * n / 2 + n**3 / 6
    return min(costs, key=lambda name: costs[name])


def _mean(objective: Objective, a: Array) -> Array:
    """Mᵀa, or nothing without an offset: what centring takes away."""
    design = objective.design
    if not objective.fit_intercept:
        return np.zeros(design.d)
    zero = np.zeros((design.n, 1))
    return design.pullback(np.zeros((design.d, 1)), a[:, None], zero)[:, 0]


def _factorize(A: Array) -> tuple[Array, bool]:
    """Cholesky's factor of a matrix that rounding may have made indefinite; its diagonal is 1."""
    for jitter in (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6):
        try:
            B = A.copy()
            np.einsum("dd->d", B)[...] += jitter
            factor: tuple[Array, bool] = cho_factor(B, lower=True, overwrite_a=True, check_finite=False)
            return factor
        except LinAlgError:
            continue
    return np.eye(len(A)), True


def _cholesky(objective: Objective, a: Array) -> Inverse:
    A = objective.design.gram(a)
    u = _mean(objective, a)
    A -= np.outer(u, u / a.sum())
    np.einsum("dd->d", A)[...] += 1.0
    # Scaled to a unit diagonal, features of any size can be factorised together.
    scale = 1.0 / np.sqrt(np.maximum(np.einsum("dd->d", A), 1.0))
    A *= scale[:, None] * scale
    factor = _factorize(A)
    return lambda G: np.asarray(scale[:, None] * cho_solve(factor, scale[:, None] * G, check_finite=False))


def _woodbury(objective: Objective, a: Array) -> Inverse:
    design = objective.design
    variance = design.diagonal(a[:, None])[1][:, 0]
    inverse, root = 1.0 / (1.0 + variance), np.sqrt(a)
    B = design.kernel(inverse)
    if objective.fit_intercept:
        share = a / a.sum()
        mean = B @ share
        B += share @ mean - mean[:, None] - mean
    B *= root[:, None] * root
    np.einsum("nn->n", B)[...] += 1.0
    scale = 1.0 / np.sqrt(np.maximum(np.einsum("nn->n", B), 1.0))
    B *= scale[:, None] * scale
    factor, outer = _factorize(B), (scale * root)[:, None]

    def centre(scores: Array) -> Array:
        return scores - (a / a.sum()) @ scores if objective.fit_intercept else scores

    def apply(G: Array) -> Array:
        first = inverse[:, None] * G
        inner = outer * cho_solve(factor, outer * centre(design.apply(first)), check_finite=False)
        if objective.fit_intercept:
            inner -= (a / a.sum())[:, None] * inner.sum(axis=0)
        back = design.pullback(np.zeros_like(G), np.ascontiguousarray(inner), np.zeros_like(inner))
        return np.asarray(first - inverse[:, None] * back)

    return apply


class _Cg:
    """Conjugate gradients. `tired`: the last time they took more iterations than a factorisation is worth."""

    def __init__(self, objective: Objective, a: Array) -> None:
        squares, variance = (x[:, 0] for x in objective.design.diagonal(a[:, None]))
        u = _mean(objective, a)
        self._D = (1.0 + variance + np.maximum(squares - u * u / a.sum(), 0.0))[:, None]
        self._half = np.repeat(0.5 * a[:, None], objective.K, axis=1)
        self._objective, self._a, self.tired = objective, a, False

    def _matrix(self, P: Array) -> Array:
        design, a = self._objective.design, self._a
        scores = design.apply(P)
        if self._objective.fit_intercept:
            scores -= (a / a.sum()) @ scores
        return design.pullback(P, np.ascontiguousarray(a[:, None] * scores), self._half) + P

    def __call__(self, G: Array) -> Array:
        X, R, D = np.zeros_like(G), G.copy(), self._D
        Z = R / D
        P, rz = Z.copy(), np.einsum("dk,dk->k", R, Z)
        goal = CG_TOL**2 * rz
        for _ in range(CG_MAX_ITER):
            if np.all(rz <= goal):
                break
            Q = self._matrix(P)
            bend = np.einsum("dk,dk->k", P, Q)
            t = np.where(bend > 0, rz / np.where(bend > 0, bend, 1.0), 0.0)
            X += t * P
            R -= t * Q
            Z = R / D
            after = np.einsum("dk,dk->k", R, Z)
            P = Z + (after / np.where(rz > 0, rz, 1.0)) * P
            rz = after
        self.tired = bool(np.any(rz > goal))
        return X


FORMS: dict[str, Callable[[Objective, Array], Inverse]] = {
    "cholesky": _cholesky,
    "woodbury": _woodbury,
    "cg": _Cg,
}
