"""The closed form of the quadratic loss: one linear system, shared by all K problems.

    (I + diag(Vᵀa) + Mᵀdiag(a)M) W + Mᵀa bᵀ = Mᵀdiag(a) Y,     a = C·s

A Newton step from any point solves it, in the cheapest form of `_systems`. A second step removes
what rounding, or an early end of conjugate gradients, has left. Where conjugate gradients take too
many iterations, the matrix is factorised after all.
"""

from __future__ import annotations

import numpy as np

from marginout._core.interfaces import Array, Monitor, Objective, Point, Result, Solution
from marginout.solvers._systems import Effort, System, cheapest, make_system

#: One factorisation serves all problems, and conjugate gradients must come close to the solution.
EFFORT = Effort(largest=6000, passes=60, tol=1e-4, max_iter=500, centred=True)
#: Suboptimality, relative to F, that counts as converged where rounding allows no further step.
ROUNDING = 1e-7
#: Relative rounding error of a score.
EPSILON = float(np.finfo(float).eps)


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
    form = cheapest(objective.examples.design, 1, objective.K, EFFORT) if form == "auto" else form
    system = _system(objective, form)
    point, history = _centred(objective, W, b), []
    rows = objective.examples
    squares = float(rows.design.diagonal(np.ascontiguousarray(rows.weights))[0].sum())
    last = point
    left = np.full(objective.K, np.inf)
    for iteration in range(max_iter + 1):
        G, _ = objective.gradient(point)
        dW = system.solve(-G)
        if system.cut_short and objective.traits.d <= EFFORT.largest:
            form = "cholesky"
            system = _system(objective, form)
            dW = system.solve(-G)
        # The loss is quadratic: half the slope along the Newton step is the suboptimality itself.
        hidden = _hidden(squares, point.W)
        before, left = left, 0.5 * np.abs(np.einsum("dk,dk->k", G, dW)) + point.offset_left + hidden
        stop = False
        if iteration:
            history.append(float(point.value.sum()))
            stop = bool(monitor and monitor(iteration, history[-1], float(left.sum()), _solution(point)))
        # Where a step does not halve the suboptimality, rounding errors allow no better one.
        stalled = left >= 0.5 * before
        converged = (left <= tol * point.value) | (stalled & (left <= ROUNDING * point.value)) | stop
        if iteration and (iteration == max_iter or (converged | stalled).all()):
            if form != "woodbury" or iteration == max_iter or converged.all():
                break
            # Rounding has removed small differences, which matter for a large C: another form has them.
            form = "cholesky" if objective.traits.d <= EFFORT.largest else "cg"
            system = _system(objective, form)
            point = point if point.value.sum() <= last.value.sum() else last
            left = np.full(objective.K, np.inf)
            G, _ = objective.gradient(point)
            dW = system.solve(-G)
        last = point
        point = _centred(objective, point.W + dW, point.b)
    with np.errstate(over="ignore"):
        gap = np.minimum(objective.certificate(point, G) + point.offset_left, 2 * left)
    return Result(point.W, point.b, point.value, gap + hidden, converged, max(iteration, 1), history)


def _hidden(squares: float, W: Array) -> Array:
    """½‖δG‖², (K,): the suboptimality that rounding hides, with squares = Σ a_n‖x_n‖².

    A score has an error of about ε‖x_n‖‖w‖, and the gradient one of Σ a_n‖x_n‖ times that. It matters for
    C beyond 1e8 only, where F is the small difference of large numbers.
    """
    with np.errstate(over="ignore"):
        return np.asarray(0.5 * np.einsum("dk,dk->k", *2 * [EPSILON * squares * W]))


def _solution(point: Point) -> Solution:
    return lambda: (point.W.copy(), point.b.copy())


def _system(objective: Objective, form: str) -> System:
    rows, zero = objective.examples, np.zeros((objective.traits.d, 1))
    a, D = np.ascontiguousarray(rows.weights), objective.penalty.curvature(zero)
    return make_system(form, rows.design, D, a, objective.fit_intercept, EFFORT)


def _centred(objective: Objective, W: Array, b: Array) -> Point:
    """The point W with its best offset."""
    point = objective.point(W, b)
    if objective.fit_intercept:
        rows = objective.examples
        total = rows.weights.sum()
        ((m, v),) = point.state
        delta = -rows.slopes((m, v))[0].sum(axis=0) / total
        state = m + delta, v
        point = objective.evaluate(W, point.b + delta, [state])
        slope = rows.slopes(state)[0].sum(axis=0) / np.sqrt(total)
        point.offset_left[:] = 0.5 * slope * slope
    return point
