"""Iteratively reweighted least squares: the paper's algorithm, a majorise–minimise method for F.

At every point the loss lies below a quadratic of curvature γ in the scores. The M-step
minimises that quadratic, whose matrix is a diagonal plus a weighted Gram matrix,

    A = I + diag(Vᵀa) + Mᵀdiag(a)M,     a = C·s·γ,

bordered by the offset. A search along the step, which costs no pass, makes it as long as
it should be and settles the offset: F cannot go up. Three forms of one step:

    cholesky    form A, d×d                                   few features
    woodbury    form I + √a M Λ⁻¹ Mᵀ √a, n×n, Λ = A − Mᵀdiag(a)M     few examples, and Λ is diagonal
    cg          conjugate gradients, Jacobi-preconditioned    neither
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from marginout._objective import Array, Objective, Point, dots
from marginout.solvers._linesearch import certify, minimize_line, starting_point
from marginout.solvers._result import Monitor, Progress, Result

PACK = 0.25
#: Largest γ, times the loss's scale: an example in the very kink would else hold on to it for good.
#: It is lowered, tenfold and down to the second number, while a step lowers F by next to nothing.
HEAVIEST, LIGHTEST = 1e8, 1.0
NOTHING = 1e-6
#: Rounding of the loss for the first point.
ROUGH = 0.1
#: Largest matrix that is formed and factorised, and how many CG iterations it must be worth.
LARGEST_FACTOR = 4096
CG_PASSES = 15
#: CG stops once the residual, preconditioned, has fallen to this fraction.
CG_TOL = 0.1
CG_MAX_ITER = 50

#: (objective, point, gradient, a, Vᵀa, (M∘M)ᵀa) to the steps in W and b.
MStep = Callable[[Objective, Point, Array, Array, Array, Array], tuple[Array, Array]]


def solve(
    objective: Objective,
    W: Array,
    b: Array,
    *,
    tol: float,
    max_iter: int,
    monitor: Monitor | None = None,
    m_step: str = "auto",
) -> Result:
    """Minimise all K problems from (W, b)."""
    progress = Progress(objective, tol, max_iter, monitor)
    point = starting_point(objective, W, b, rounding=ROUGH)
    step = M_STEPS[_cheapest(objective) if m_step == "auto" else m_step]
    heaviest = np.full(objective.K, HEAVIEST)
    for iteration in range(max_iter + 1):
        D, G = objective.preconditioner(point), objective.gradient(point)
        centred = G if D.mean is None else G - D.mean * objective.offset_gradient(point)
        left = progress.estimate(point, dots(centred, D.solve(centred)))
        if not progress.record(iteration, point, left):
            break
        parted = progress.part(PACK)
        if parted is not None:
            done, going = parted
            progress.keep(*certify(objective.select(done), point.select(done)), done)
            progress.active = progress.active[going]
            objective, point = objective.select(going), point.select(going)
            G, heaviest = np.ascontiguousarray(G[:, going]), heaviest[going]
        a = np.minimum(objective.majorizer(point), heaviest * objective.weights / objective.loss.scale)
        squares, variance = objective.design.diagonal(a)
        dW, db = step(objective, point, G, a, variance, squares)
        before = point.value
        point = minimize_line(objective.line(point, dW, 0.0 if D.mean is None else db))
        stuck = before - point.value < NOTHING * progress.tol * before
        heaviest = np.where(stuck, np.maximum(0.1 * heaviest, LIGHTEST), heaviest)
    progress.keep(*certify(objective, point))
    return progress.result()


def _cheapest(objective: Objective) -> str:
    """The form of the M-step with the fewest multiplications."""
    n, d, nnz = objective.design.n, objective.design.d, objective.design.nnz
    costs = {"cg": 2.0 * CG_PASSES * nnz}
    if d <= LARGEST_FACTOR:
        costs["cholesky"] = nnz * d / 2 + d**3 / 6
    if n <= LARGEST_FACTOR and objective.design.diagonal_variance:
        costs["woodbury"] = nnz * n / 2 + n**3 / 6
    return min(costs, key=lambda name: costs[name])


def cheapest_factor(objective: Objective) -> MStep:
    """The M-step that factorises the smaller of the two matrices."""
    return _cholesky if objective.design.d <= objective.design.n else _woodbury


def _bordered(
    objective: Objective, G: Array, a: Array, point: Point, solve_k: Callable[[int, Array], Array]
) -> tuple[Array, Array]:
    """Solve A dw + u db = −g, u·dw + Σa db = −g_b for each problem, given A⁻¹; u = Mᵀa."""
    dW, db = np.empty_like(G), np.zeros(objective.K)
    zero = np.zeros_like(a)
    U = objective.design.pullback(np.zeros_like(G), a, zero) if objective.fit_intercept else None
    slope = objective.offset_gradient(point)
    for k in range(objective.K):
        if U is None:
            dW[:, k] = -solve_k(k, G[:, k])
        else:
            solve = partial(solve_k, k)
            dW[:, k], db[k] = with_offset(solve, G[:, k], U[:, k], a[:, k].sum(), slope[k])
    return dW, db


def with_offset(
    solve: Callable[[Array], Array], g: Array, u: Array, total: float, slope: float
) -> tuple[Array, float]:
    """dw and db of one problem of :func:`_bordered`; total = Σa, slope = g_b."""
    both = solve(np.column_stack([g, u]))
    schur = total - u @ both[:, 1]
    db = float((u @ both[:, 0] - slope) / schur) if schur > 0 else 0.0
    return -both[:, 0] - db * both[:, 1], db


def _factorize(A: Array) -> tuple[Array, bool]:
    """Cholesky's factor of a matrix of unit diagonal that rounding may have made indefinite."""
    for jitter in (1e-14, 1e-10, 1e-6):
        np.einsum("dd->d", A)[...] = 1.0 + jitter
        with suppress(LinAlgError):
            factor: tuple[Array, bool] = cho_factor(A, lower=True, check_finite=False)
            return factor
    return np.eye(len(A)), True  # a step along the scaled gradient; the search along it does the rest


def _cholesky(
    objective: Objective, point: Point, G: Array, a: Array, variance: Array, squares: Array
) -> tuple[Array, Array]:
    solvers = [ridge_solver(objective.design.gram(each)) for each in a.T]
    return _bordered(objective, G, a, point, lambda k, r: solvers[k](r))


def ridge_solver(A: Array) -> Callable[[Array], Array]:
    """r ↦ (I + A)⁻¹r for a Gram matrix A, which is spent."""
    diagonal = np.einsum("dd->d", A)
    diagonal += 1.0
    # Scaled to a unit diagonal, features of any size can be factorised together.
    scale = 1.0 / np.sqrt(diagonal)
    A *= scale[:, None] * scale
    factor = _factorize(A)

    def solve(r: Array) -> Array:
        return np.asarray((cho_solve(factor, (r.T * scale).T, check_finite=False).T * scale).T)

    return solve


def _woodbury(
    objective: Objective, point: Point, G: Array, a: Array, variance: Array, squares: Array
) -> tuple[Array, Array]:
    design = objective.design
    roots, inverse = np.sqrt(a), 1.0 / (1.0 + variance)

    def solve_k(k: int, r: Array) -> Array:
        root, diagonal = roots[:, k], inverse[:, k]
        if k not in factors:
            B = root[:, None] * design.kernel(diagonal) * root
            np.einsum("nn->n", B)[...] += 1.0
            factors.clear()  # one n×n matrix at a time
            factors[k] = cho_factor(B, lower=True, overwrite_a=True, check_finite=False)
        first = (r.T * diagonal).T
        columns = np.ascontiguousarray(first.reshape(design.d, -1))
        inner = cho_solve(factors[k], root[:, None] * design.apply(columns), check_finite=False)
        back = design.pullback(np.zeros_like(columns), root[:, None] * inner, np.zeros_like(inner))
        return np.asarray((columns - diagonal[:, None] * back).reshape(r.shape))

    factors: dict[int, tuple[Array, bool]] = {}
    return _bordered(objective, G, a, point, solve_k)


def _cg(
    objective: Objective, point: Point, G: Array, a: Array, variance: Array, squares: Array
) -> tuple[Array, Array]:
    """All problems at once, with the offset eliminated: Mᵀa(M·) becomes a weighted covariance."""
    design = objective.design
    total = a.sum(axis=0)
    share = a / np.where(total > 0, total, 1.0) if objective.fit_intercept else np.zeros_like(a)
    slope = objective.offset_gradient(point)
    half = 0.5 * a
    D = 1.0 + squares + variance

    def apply(P: Array) -> Array:
        scores = design.apply(P)
        scores -= np.einsum("nk,nk->k", share, scores)
        return design.pullback(P, a * scores, half) + P

    # With db = −(g_b + a·M dw)/Σa the right-hand side is −g + Mᵀa·g_b/Σa.
    R = -G + design.pullback(np.zeros_like(G), share * slope, np.zeros_like(a))
    dW, Z = np.zeros_like(G), R / D
    P, rz = Z.copy(), dots(R, Z)
    goal = CG_TOL**2 * rz
    for _ in range(CG_MAX_ITER):
        if np.all(rz <= goal):
            break
        Q = apply(P)
        curvature = dots(P, Q)
        t = np.where(curvature > 0, rz / np.where(curvature > 0, curvature, 1.0), 0.0)
        dW += t * P
        R -= t * Q
        Z = R / D
        after = dots(R, Z)
        P = Z + (after / np.where(rz > 0, rz, 1.0)) * P
        rz = after
    db = np.zeros(objective.K)
    if objective.fit_intercept:
        db = -slope / np.where(total > 0, total, 1.0) - np.einsum("nk,nk->k", share, design.apply(dW))
    return dW, db


M_STEPS: dict[str, MStep] = {"cholesky": _cholesky, "woodbury": _woodbury, "cg": _cg}
