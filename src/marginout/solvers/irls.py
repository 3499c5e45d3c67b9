"""Iteratively reweighted least squares: the paper's algorithm, a majorise–minimise method for F.

At every point the loss lies below a quadratic of curvature γ in the scores. The M-step
minimises that quadratic, whose matrix is a diagonal plus a weighted Gram matrix,

    A = I + diag(Vᵀa) + Mᵀdiag(a)M,     a = C·s·γ,

bordered by the offset. A search along the step, which costs no pass, makes it as long as
it should be and settles the offset: F cannot go up. `_systems` has three forms of one step.
"""

from __future__ import annotations

import numpy as np

from marginout._core.interfaces import Array, Monitor, Objective, Result
from marginout.solvers._linesearch import certify, minimize_line, starting_point
from marginout.solvers._progress import Progress
from marginout.solvers._systems import Effort, cheapest, make_system

PACK = 0.25
#: Largest γ, times the loss's scale: an example in the very kink would else hold on to it for good.
#: It is lowered, tenfold and down to the second number, while a step lowers F by next to nothing.
HEAVIEST, LIGHTEST = 1e8, 1.0
NOTHING = 1e-6
#: Rounding of the loss for the first point.
ROUGH = 0.1
#: A step need not be exact, as the next follows another quadratic: conjugate gradients end early.
EFFORT = Effort(largest=4096, passes=15, tol=0.1, max_iter=50, centred=False)


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
    K, design = objective.K, objective.examples.design
    form = cheapest(design, K, K, EFFORT) if m_step == "auto" else m_step
    heaviest = np.full(objective.K, HEAVIEST)
    for iteration in range(max_iter + 1):
        D, (G, g) = objective.preconditioner(point), objective.gradient(point)
        centred = G if D.mean is None else G - D.mean * g
        left = progress.estimate(point, objective.dots(centred, D.solve(centred)))
        if not progress.record(iteration, point, left):
            break
        parted = progress.part(PACK)
        if parted is not None:
            done, going = parted
            progress.keep(*certify(objective.select(done), objective.restrict(point, done)), done)
            progress.active = progress.active[going]
            columns = objective.columns(going)
            objective, point = objective.select(going), objective.restrict(point, going)
            G, g, heaviest = np.ascontiguousarray(G[:, columns]), g[columns], heaviest[columns]
        rows = objective.examples
        a = np.minimum(rows.majorizer(point.state[0]), heaviest * rows.weights / objective.loss.scale)
        diagonal = objective.penalty.curvature(point.W)
        dW, db = make_system(form, rows.design, diagonal, a, objective.fit_intercept, EFFORT).step(G, g)
        before = point.value
        point = minimize_line(objective.line(point, dW, 0.0 if D.mean is None else db))
        stuck = objective.spread(before - point.value < NOTHING * progress.tol * before)
        heaviest = np.where(stuck, np.maximum(0.1 * heaviest, LIGHTEST), heaviest)
    progress.keep(*certify(objective, point))
    return progress.result()
