"""Newton's method for small problems without noise: plain SVM, SVR and LR, to high accuracy.

Smooth losses are taken as they are. A kink is rounded off by δ (a variance of δ² in every
score), the smooth problem is solved, and δ is lowered, each solution starting the next.
Dual coordinate descent needs no factorisation, but converges slowly on features of very
different size; this does not mind them.

For examples in blocks (:func:`solve_blocks`) any number of them will do: their Hessians, of d² numbers, are
added up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from marginout._design import one_blas_thread
from marginout._objective import Array, Objective, dots
from marginout.solvers import dual
from marginout.solvers._linesearch import ROUNDING, certify, minimize_line, starting_point
from marginout.solvers._result import Monitor, Progress, Result
from marginout.solvers.irls import cheapest_factor, ridge_solver, with_offset

#: Roundings of the kink, as fractions of the loss's scale; those below FINE only where `tol` asks.
ROUNDINGS = 10.0 ** np.arange(0.0, -9.1, -0.5)
FINE = 1e-6
#: A stage ends when a step would lower F by less than this fraction of it; fine ones go further.
STAGE, LAST = 1e-6, 1e-22
#: After so many steps a stage ends as well: the next may do better. A smooth loss has no next, and goes
#: on while F falls.
STEPS = 30
#: Multiplications that all the factorisations of a fit may take.
AFFORDABLE = 2e9
#: Most features of examples in blocks. Conjugate gradients take a few dozen passes for a smooth loss, and a
#: Hessian of many features costs more. For a kinked one L-BFGS takes a thousand, which at 1000 dense
#: features last as long as Newton's sixty Hessians, and may never get close: the limit is their 8 MB.
NARROW, NARROW_KINKED = 256, 1024
#: A step that would lower F by this fraction of the tolerance is the last, whatever the gradient says.
TINY = 1e-6
EPS = np.finfo(float).eps


def suits(objective: Objective) -> bool:
    """Whether a few dozen factorisations are cheap."""
    small, large = sorted((objective.design.n, objective.design.d))
    return bool(objective.K * 60.0 * small * small * large <= AFFORDABLE)


def solve(
    objective: Objective, W: Array, b: Array, *, tol: float, max_iter: int, monitor: Monitor | None = None
) -> Result:
    """Minimise all K problems, one after the other, from (W, b).

    BLAS keeps to one thread: with more, some of its releases round a factorisation differently from one
    call to the next, and on a busy machine its threads wait for one another.
    """
    progress = Progress(objective, tol, max_iter, monitor)
    with one_blas_thread():
        return progress.solve(objective, W, b, _descend, size=1)


def _descend(objective: Objective, W: Array, b: Array, progress: Progress) -> None:
    factor_step = cheapest_factor(objective)
    nothing = np.zeros_like(W)
    steps = 0
    for rounding in ROUNDINGS if objective.loss.kinked else [objective.rounding]:
        smooth = objective.rounded(rounding)
        point = smooth.point(W, b)
        for step in range(progress.max_iter - steps):
            steps += 1
            before = point.value[0]
            G, a = smooth.gradient(point), smooth.second_derivative(point)
            dW, db = factor_step(smooth, point, G, a, nothing, nothing)
            gain = -(dots(G, dW) + smooth.offset_gradient(point) * db)
            point = minimize_line(smooth.line(point, dW, db), LAST)
            if gain[0] <= (LAST if rounding < FINE else STAGE) * point.value[0]:
                break
            falls = before - point.value[0] > ROUNDING * before
            if step + 1 >= STEPS and (objective.loss.kinked or not falls):
                break
        W, b = point.W, point.b
        if objective.loss.kinked:
            point, gap = dual.certify(objective, W, -smooth.weights * point.dm)
        else:
            point, gap = certify(smooth, point)
        left = gap if objective.loss.kinked else np.minimum(gap, gain)
        if steps >= progress.max_iter or (rounding < FINE and left[0] <= progress.tol * point.value[0]):
            break
    else:
        # Finer roundings are lost in the arithmetic's own; so is a gain too small to be seen in F or in the
        # losses. There is no more to gain than F.
        unseen = ROUNDING * point.value[0] + EPS * objective.loss.scale * objective.weights.sum()
        if min(gain[0], point.value[0]) <= unseen:
            progress.exhaust()
    progress.record(steps, point, left)
    progress.keep(point, gap)


def suits_blocks(objective: Any) -> bool:
    """Whether Hessians are small enough to be made, and sent, some dozen times."""
    return bool(objective.design.d <= (NARROW_KINKED if objective.loss.kinked else NARROW))


def solve_blocks(
    objective: Any, W: Array, b: Array, *, tol: float, max_iter: int, monitor: Monitor | None = None
) -> Result:
    """Minimise all K problems of examples in blocks, one after the other, from (W, b); the loss is smooth."""
    progress = Progress(objective, tol, max_iter, monitor)
    return progress.solve(objective, W, b, _descend_blocks, size=1)


def _descend_blocks(objective: Any, W: Array, b: Array, progress: Progress) -> None:
    point = starting_point(objective, W, b)
    for iteration in range(1, progress.max_iter + 1):
        H, g = objective.hessian(point)
        solve, G = ridge_solver(np.ascontiguousarray(H[:-1, :-1])), np.ascontiguousarray(g[:-1])
        if objective.fit_intercept:
            dw, db = with_offset(solve, G[:, 0], H[:-1, -1], H[-1, -1], g[-1, 0])
        else:
            dw, db = -solve(G[:, 0]), 0.0
        dW, gain = dw[:, None], -(G[:, 0] @ dw + g[-1] * db)
        # The certificate itself: once Newton's steps are short, it costs one or two more of them.
        left = np.minimum(0.5 * dots(G, G), gain / TINY)
        more = progress.record(iteration, point, left)
        before, point = point, minimize_line(objective.line(point, dW, db), LAST)
        if not more:
            break
    # The last step is there, and of an error ε in F, √ε is left in the weights. At a kink it may lead astray.
    ends = [certify(objective, end) for end in (before, point)]
    progress.keep(*min(ends, key=lambda end: float(end[1][0])))
