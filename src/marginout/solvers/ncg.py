"""Nonlinear conjugate gradients on F, with an exact search over the step and the offset.

Polak–Ribière directions, preconditioned by the diagonal (or blocks) of the curvature. An
iteration costs two passes over X, one to look along the direction and one to pull the
derivatives back; the search in between costs O(n) a trial. The batch shrinks as its
problems converge.

Several problems that `single_precision` knows go most of the way in single precision, eight at once;
the last steps, the stop and the certificate are double precision's in any case.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from marginout._core.interfaces import Array, Columns, Monitor, Objective, Result
from marginout._core.objective import dots
from marginout.solvers import newton, single_precision
from marginout.solvers._linesearch import certify, minimize_line, starting_point
from marginout.solvers._progress import Progress

#: Iterations after which the preconditioner is renewed: it ages slowly, and costs a third pass.
RENEW = 6
#: Iterations after which means and variances, updated on the way, are computed from X again.
REFRESH = 30
#: What the offset may keep of its suboptimality, as a fraction of the tolerance.
OFFSET = 1e-3
#: Fewer batches than this are halved, or some core would have nothing to do at the end.
FEW = 4
#: Problems, and multiplications of a pass, from which on a sprint in single precision pays.
SEVERAL, WORTH = 3, 200_000
#: What the offset of a sprint's start may keep of its suboptimality, as a fraction of F.
ROUGH = 1e-2
#: A sprint that ends with scores below this fraction of the loss's scale has given the problem up.
LOST = 1e-3
#: A batch is packed anew once this fraction of it has converged.
PACK = 0.5


def solve(
    objective: Objective, W: Array, b: Array, *, tol: float, max_iter: int, monitor: Monitor | None = None
) -> Result:
    """Minimise all K problems from (W, b).

    The suboptimality left is estimated by ½ gᵀD⁻¹g, with D the preconditioner. Problems where F stands still
    and the estimate is above the tolerance are given to Newton's method, if that is affordable.
    """
    progress = Progress(objective, tol, max_iter, monitor)
    result = _solve(objective, W, b, progress)
    stuck = result.converged & (np.minimum(result.left, result.gap) > tol * result.value)
    if stuck.any() and not progress.stopped() and result.n_iter < max_iter:
        few = np.flatnonzero(stuck)
        if newton.affordable(objective.select(few)):
            _go_on(objective, result, few, tol, max_iter - result.n_iter)
    return result


def _solve(objective: Objective, W: Array, b: Array, progress: Progress) -> Result:
    P, size = objective.P, objective.batch
    if (
        P >= SEVERAL
        and objective.traits.nnz * P > WORTH
        and not W.any()
        and single_precision.suits(objective)
    ):
        batches = -(-P // single_precision.LANES)
        return progress.solve(objective, W, b, _sprint, -(-P // batches), apart=True)
    if size is None:
        return progress.solve(objective, W, b, _descend, P)
    return progress.solve(objective, W, b, _descend, size // 2 if FEW * size > P else size, apart=True)


def _go_on(objective: Objective, result: Result, few: Columns, tol: float, max_iter: int) -> None:
    """Solve some of the problems, of one output each, by Newton's method, from where they are.

    Examples without entries all have their kink at the same offset, and those with one entry at the same
    weight. Where F is least in several such kinks, a direction leads out of one of them, and a step is short.

    Sets: what is lower of the result.
    """
    start = np.ascontiguousarray(result.W[:, few]), result.b[few]
    end = newton.solve(objective.select(few), *start, tol=tol, max_iter=max_iter)
    before = result.value[few]
    better = end.value < before
    last, own = result.history[-1], few[better]
    result.history += [min(last, last - float(before.sum()) + value) for value in end.history[:-1]]
    result.history.append(last + float((end.value - before)[better].sum()))
    result.W[:, own], result.b[own] = end.W[:, better], end.b[better]
    result.value[own], result.gap[own] = end.value[better], end.gap[better]
    result.n_iter += end.n_iter


def _sprint(objective: Objective, W: Array, b: Array, progress: Progress) -> None:
    """Most of the way in single precision; `n_iter` counts the rest."""
    start = starting_point(objective, W, b, ROUGH)
    tol, most = progress.tol, progress.max_iter
    end = single_precision.sprint(
        objective, start.W, start.b, tol=tol, max_iter=most, stopped=progress.stopped
    )
    # A class that is given up ends at w = 0, the tip of a cone, where single precision loses its way.
    lost = end.reach < LOST * objective.loss.scale
    progress.head_start = int(end.iterations.min())
    _descend(objective, np.where(lost, start.W, end.W), np.where(lost, start.b, end.b), progress)


def _descend(objective: Objective, W: Array, b: Array, progress: Progress) -> None:
    precision = min(OFFSET * progress.tol, 1e-7)
    point = starting_point(objective, W, b, precision)
    P = G_before = gs_before = np.empty(0)
    D = objective.preconditioner(point)
    for iteration in range(progress.max_iter + 1):
        if iteration and iteration % RENEW == 0:
            D = objective.preconditioner(point)
        G, g = objective.gradient(point)
        if D.mean is not None:  # along (w, b − w·mean): an offset that is not quite the best matters little
            G -= D.mean * g
        S = D.solve(G)
        gs = objective.dots(G, S)
        if not progress.record(iteration, point, progress.estimate(point, gs)):
            break
        parted = progress.part(PACK)
        if parted is not None:
            done, left = parted
            progress.keep(*certify(objective.select(done), objective.restrict(point, done)), done)
            progress.active = progress.active[left]
            columns = objective.columns(left)
            objective, point = objective.select(left), objective.restrict(point, left)
            G, S, P, G_before = (np.ascontiguousarray(a[:, columns]) for a in (G, S, P, G_before))
            D = D.select(columns)
            gs, gs_before = gs[left], gs_before[left]
        if iteration == 0:
            P = -S
        else:
            change = gs - objective.dots(G_before, S)
            P *= objective.spread(np.maximum(change, 0.0) / np.where(gs_before > 0, gs_before, 1.0))
            P -= S
        uphill = objective.spread(objective.dots(G, P) >= 0)
        if uphill.any():
            P[:, uphill] = -S[:, uphill]
        G_before, gs_before = G, gs
        q = 0.0 if D.mean is None else -dots(D.mean, P)
        point = minimize_line(objective.line(point, P, q), precision)
        if (iteration + 1) % REFRESH == 0:
            point = replace(objective.point(point.W, point.b), offset_left=point.offset_left)
    progress.keep(*certify(objective, point))
