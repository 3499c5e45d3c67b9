"""Newton's method for small problems without noise: plain SVM, SVR and LR, to high accuracy.

Smooth losses are taken as they are. A kink is rounded off by δ (a variance of δ² in every
score), the smooth problem is solved, and δ is lowered, each solution starting the next.
Dual coordinate descent needs no factorisation, but converges slowly on features of very
different size; this does not mind them.

Of examples in blocks, any number of them, the Hessians of d² numbers are added up.
"""

from __future__ import annotations

import numpy as np

from marginout._core.design import one_blas_thread
from marginout._core.interfaces import Array, Monitor, Objective, Result
from marginout._core.objective import dots
from marginout.solvers import dual
from marginout.solvers._linesearch import ROUNDING, certify, minimize_line, starting_point
from marginout.solvers._progress import Progress
from marginout.solvers._smoothing import roundings
from marginout.solvers._systems import Cholesky, Woodbury, bordered_step

#: Roundings of the kink, as fractions of the loss's scale; those below FINE only where `tol` asks.
ROUNDINGS = roundings(1.0, 1e-9, per_decade=2)
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
    traits = objective.traits
    if not traits.noiseless or objective.coupled:
        return False
    if objective.rows is None:
        return narrow(objective) and not objective.loss.kinked
    small, large = sorted((traits.n, traits.d))
    affordable = objective.P * 60.0 * small * small * large <= AFFORDABLE
    return affordable and (objective.penalty.self_conjugate or not objective.loss.kinked)


def narrow(objective: Objective) -> bool:
    """Whether Hessians of examples in blocks are small enough to be made, and sent, some dozen times."""
    return objective.traits.d <= (NARROW_KINKED if objective.loss.kinked else NARROW)


def solve(
    objective: Objective, W: Array, b: Array, *, tol: float, max_iter: int, monitor: Monitor | None = None
) -> Result:
    """Minimise all problems, one after the other, from (W, b); in blocks the loss must be smooth.

    BLAS keeps to one thread: with more, some of its releases round a factorisation differently from one
    call to the next, and on a busy machine its threads wait for one another.
    """
    progress = Progress(objective, tol, max_iter, monitor)
    with one_blas_thread():
        descend = _descend_blocks if objective.rows is None else _descend
        return progress.solve(objective, W, b, descend, size=1)


def _descend(objective: Objective, W: Array, b: Array, progress: Progress) -> None:
    smaller = Cholesky if objective.traits.d <= objective.traits.n else Woodbury
    steps = 0
    for rounding in ROUNDINGS if objective.loss.kinked else [objective.rounding]:
        smooth = objective.rounded(rounding)
        point = smooth.point(W, b)
        for step in range(progress.max_iter - steps):
            steps += 1
            before = point.value[0]
            (G, g), a = smooth.gradient(point), smooth.examples.second_derivatives(point.state[0])
            D = smooth.penalty.curvature(point.W)
            dW, db = smaller(smooth.examples.design, D, a, smooth.fit_intercept).step(G, g)
            gain = -(dots(G, dW) + g * db)
            point = minimize_line(smooth.line(point, dW, db), LAST)
            if gain[0] <= (LAST if rounding < FINE else STAGE) * point.value[0]:
                break
            falls = before - point.value[0] > ROUNDING * before
            if step + 1 >= STEPS and (objective.loss.kinked or not falls):
                break
        W, b = point.W, point.b
        if objective.loss.kinked:
            point, gap = dual.certify(objective, W, -smooth.examples.slopes(point.state[0])[0])
        else:
            point, gap = certify(smooth, point)
        left = gap if objective.loss.kinked else np.minimum(gap, gain)
        if steps >= progress.max_iter or (rounding < FINE and left[0] <= progress.tol * point.value[0]):
            break
    else:
        # Finer roundings are lost in the arithmetic's own; so is a gain too small to be seen in F or in the
        # losses. There is no more to gain than F.
        unseen = ROUNDING * point.value[0] + EPS * objective.loss.scale * objective.examples.weights.sum()
        if min(gain[0], point.value[0]) <= unseen:
            progress.exhaust()
    progress.record(steps, point, left)
    progress.keep(point, gap)


def _descend_blocks(objective: Objective, W: Array, b: Array, progress: Progress) -> None:
    """Minimise one problem whose examples are in blocks; the loss is smooth."""
    point = starting_point(objective, W, b)
    for iteration in range(1, progress.max_iter + 1):
        H, g = objective.hessian(point)
        G = np.ascontiguousarray(g[:-1])
        D = objective.penalty.curvature(point.W)[:, 0]
        dW, db = bordered_step(H, D, g, objective.fit_intercept)
        gain = -(dots(G, dW) + g[-1] * db)
        # The certificate itself: once Newton's steps are short, it costs one or two more of them.
        left = np.minimum(objective.certificate(point, G), gain / TINY)
        more = progress.record(iteration, point, left)
        before, point = point, minimize_line(objective.line(point, dW, db), LAST)
        if not more:
            break
    # The last step is there, and of an error ε in F, √ε is left in the weights. At a kink it may lead astray.
    ends = [certify(objective, end) for end in (before, point)]
    progress.keep(*min(ends, key=lambda end: float(end[1][0])))
