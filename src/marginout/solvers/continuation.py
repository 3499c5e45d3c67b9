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
from marginout.solvers import lbfgs, ncg, newton
from marginout.solvers._smoothing import roundings

#: Fractions of the loss's scale by which its kinks are smoothed, one after the other.
ROUNDINGS = roundings(1e-1, 1e-9, per_decade=2)
#: The part of the tolerance that the rounding may take.
PART = 0.5
#: Stages before the last are solved no better than the rounding deserves, as a fraction of its excess.
STAGE = 0.1
#: Iterations of a joint loss without smoothing, and the part of F at which a certificate says too little.
PATIENCE, VAGUE = 200, 0.05
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
    smoothed = ncg.solve if objective.coupled and not objective.traits.noiseless else lbfgs.solve
    inner = newton.solve if narrow else smoothed
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
        if objective.coupled:
            excess = np.minimum(excess, _raised(smooth, W, b))
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


def solve_joint(
    objective: Objective, W: Array, b: Array, *, tol: float, max_iter: int, monitor: Monitor | None = None
) -> Result:
    """Minimise a joint loss under noise by conjugate gradients, and with smoothing where they get nowhere.

    Classes that are given up have the same weights: F has the tip of a cone there, and no gradient shows it.
    """
    stopped = False

    def watch(*seen: Any) -> bool:
        nonlocal stopped
        stopped = monitor is not None and bool(monitor(*seen))
        return stopped

    told = monitor and watch
    first = ncg.solve(objective, W, b, tol=tol, max_iter=min(max_iter, PATIENCE), monitor=told)
    done = first.converged.all() and np.all(first.gap <= VAGUE * first.value)
    if done or stopped or first.n_iter >= max_iter:
        return first
    most = max_iter - first.n_iter
    result = solve(objective, first.W, first.b, tol=tol, max_iter=most, monitor=told)
    if float(result.value.sum()) > float(first.value.sum()) * (1 + tol):
        return first
    low = first.history[-1]
    history = first.history + [min(low, value) for value in result.history[:-1]]
    history.append(min(low, float(result.value.sum())))
    return replace(result, n_iter=first.n_iter + result.n_iter, history=history)


def _raised(smooth: Objective, W: Array, b: Array) -> Array:
    """By how much smoothing may raise the minimum of F, as `newton` judges it near the minimum, (P,)."""
    slope = smooth.total(smooth.variance_slope(smooth.point(W, b)))
    return np.asarray(2 * (smooth.rounding * smooth.loss.scale) ** 2 * slope)
