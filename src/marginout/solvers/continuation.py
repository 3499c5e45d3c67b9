"""Kinked losses without noise, for objectives whose rows nobody has in one place: a plain SVM or SVR.

Dual coordinate descent wants X itself. Here the kinks are rounded off by δ (a variance of δ²
in every score), the smooth problem is solved by `newton`, or by `lbfgs` if features are many, and δ
is lowered until it matters no more, each solution starting the next. A rounded loss lies above the loss by
at most δ, so that

    F(w) − min F  ≤  F_δ(w) − min F_δ + δ C Σ s

is the certificate.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from marginout._core.interfaces import Array, Monitor, Objective, Result
from marginout.solvers import lbfgs, newton
from marginout.solvers._smoothing import roundings

#: Fractions of the loss's scale by which its kinks are smoothed, one after the other.
ROUNDINGS = roundings(1e-1, 1e-9, per_decade=2)
#: The part of the tolerance that the rounding may take.
PART = 0.5
#: Stages before the last are solved no better than the rounding deserves, as a fraction of its excess.
STAGE = 0.1
#: What estimates may err by, and a certificate need not: it may exceed the tolerance by as much.
CERTAIN = 10.0


def suits(objective: Objective) -> bool:
    """Whether the loss has kinks that no noise smooths."""
    return objective.traits.noiseless and objective.loss.kinked


def solve(
    objective: Objective, W: Array, b: Array, *, tol: float, max_iter: int, monitor: Monitor | None = None
) -> Result:
    """Minimise all K problems from (W, b)."""
    total = objective.total(objective.total_weight())
    narrow = newton.narrow(objective) and objective.rows is None and not objective.coupled
    inner = newton.solve if narrow else lbfgs.solve
    stopped = False

    def watch(*seen: Any) -> bool:
        nonlocal stopped
        stopped = monitor is not None and bool(monitor(*seen))
        return stopped

    history: list[float] = []
    iterations = 0
    for rounding in ROUNDINGS:
        excess = rounding * objective.loss.scale * total
        smooth = objective.rounded(rounding)
        stage = tol if not history else max((1 - PART) * tol, STAGE * float(np.min(excess)) / history[-1])
        result = inner(smooth, W, b, tol=stage, max_iter=max_iter - iterations, monitor=monitor and watch)
        W, b = result.W, result.b
        history += result.history
        iterations += result.n_iter
        if stopped or np.all(excess <= PART * tol * result.value) or iterations >= max_iter:
            break
    value, gap = objective.point(W, b).value, result.gap + excess
    converged = result.converged
    if not (narrow or stopped):
        # Close to a kink L-BFGS may stand still far from the minimum: that F does not fall proves nothing.
        converged &= (result.left <= stage * result.value) | (gap <= CERTAIN * tol * value)
    return replace(result, value=value, gap=gap, converged=converged, n_iter=iterations, history=history)
