"""The squared hinge without noise on sparse text, where smooth methods take hundreds of passes.

Dual coordinate descent takes a few dozen sweeps where C is moderate or the classes can be separated. Where
neither is so, conjugate gradients go on from its weights. Tables with more examples than features are left to
them at once: on 30,000 examples of 1,200 indicators they take 3 iterations.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from marginout._core.interfaces import Array, Monitor, Objective, Result
from marginout.solvers import dual, ncg
from marginout.solvers._progress import go_on

#: The largest share of non-zeros of sparse text.
SPARSE = 0.05
#: The least trace of the loss's Hessian, 2Σs‖x‖². On tf-idf (unit rows) conjugate gradients take 3 iterations
#: at 220, 5 at 400, 15 at 4,000 and 21 at 23,000; this takes about as long as 5 of them.
HARD = 1000.0
#: Sweeps after which conjugate gradients take over: as long as about a hundred of their iterations.
SWEEPS = 384


def cheap(objective: Objective) -> bool:
    """Whether `auto` takes it for a smooth loss, too: the squared hinge without noise, on sparse text."""
    traits = objective.traits
    if objective.loss.kinked or traits.far or not dual.knows(objective):
        return False
    if traits.n >= traits.d or traits.nnz > SPARSE * traits.n * traits.d:
        return False
    rows = objective.examples
    weights = rows.weights.mean(axis=1)
    return bool(2 * weights @ rows.design.row_norms() >= HARD)


def solve(
    objective: Objective, W: Array, b: Array, *, tol: float, max_iter: int, monitor: Monitor | None = None
) -> Result:
    """Minimise all problems; a warm start sets the offsets only."""
    result = dual.solve(objective, W, b, tol=tol, max_iter=min(max_iter, SWEEPS), monitor=monitor)
    late = np.flatnonzero(~result.converged)
    if late.size and result.n_iter < max_iter:
        least = result.value - result.gap  # F is nowhere lower
        result = go_on(ncg.solve, objective, result, late, (result.W, result.b), tol, max_iter, monitor)
        return replace(result, gap=np.minimum(result.gap, np.maximum(result.value - least, 0.0)))
    return result
