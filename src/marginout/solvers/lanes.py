"""Nonlinear conjugate gradients in single precision, eight problems at once: for searches.

`ncg` for the case that a search over C and noise runs hundreds of times: the bound on the
hinge loss, dropout at one rate per problem, rows of CSR, a start away from w = 0, and a tolerance
that single precision can serve. All of it is one call of a compiled loop, several times
faster. A problem that it cannot bring to the tolerance is left to `ncg`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from marginout._kernels import _lanes
from marginout._objective import Array, Objective
from marginout.losses import Hinge
from marginout.solvers import ncg
from marginout.solvers._result import Monitor, Result

#: The finest tolerance that is trusted to single precision.
FINEST = 3e-4
#: Magnitudes whose squares single precision can hold, summed.
LARGEST = 1e12
#: Iterations after which a problem is given to `ncg`.
MOST = 200


def suits(objective: Objective, tol: float) -> bool:
    """Whether this solver knows the problems."""
    design: Any = objective.design
    design = getattr(design, "base", design)
    if (
        not _lanes.AVAILABLE
        or tol < FINEST
        or not (isinstance(objective.loss, Hinge) and objective.loss.bound)
    ):
        return False
    if design.noiseless or design.power != 2 or len(design.rows) != 3 or np.any(design.scale != 1.0):
        return False
    data, indices, _ = design.rows
    kappa = design.coefficient
    sizes = [np.abs(data).max(), kappa.max(), objective.weights.max() * objective.loss.margin]
    return bool(indices.dtype == np.int32 and np.all(kappa == kappa[0]) and max(sizes) < LARGEST)


def solve(
    objective: Objective, W: Array, b: Array, *, tol: float, max_iter: int, monitor: Monitor | None = None
) -> Result:
    """Minimise all K problems from (W, b); the monitor hears of every eight."""
    K = objective.K
    result = Result(W.copy(), b.copy(), np.zeros(K), np.full(K, np.inf), np.zeros(K, dtype=bool), 1, [])
    for first in range(0, K, _lanes.LANES):
        if monitor is not None and monitor(first, 0.0, 0.0, lambda: (result.W, result.b)):
            break
        own = slice(first, min(first + _lanes.LANES, K))
        _solve_lanes(objective, own, result, tol, min(max_iter, MOST))
    late = np.flatnonzero(~result.converged)
    if late.size:
        few = ncg.solve(
            objective.select(late), W[:, late], b[late], tol=tol, max_iter=max_iter, monitor=monitor
        )
        result.W[:, late], result.b[late], result.value[late] = few.W, few.b, few.value
        result.gap[late], result.converged[late] = few.gap, few.converged
    return result


def _solve_lanes(objective: Objective, own: slice, result: Result, tol: float, max_iter: int) -> None:
    """Sets: the columns `own` of the result."""
    design, loss = objective.design, objective.loss
    assert isinstance(loss, Hinge)
    base: Any = getattr(design, "base", design)
    count = own.stop - own.start

    def lanes(values: Array) -> Any:
        out = np.zeros((len(values), _lanes.LANES), dtype=np.float32)
        out[:, :count] = values
        return out

    kappa = np.zeros(_lanes.LANES, dtype=np.float32)
    kappa[:count] = base.coefficient[0] * getattr(design, "factors", np.ones(objective.K))[own]
    weights = objective.weights[:, own] if objective.weights.shape[1] > 1 else objective.weights
    W, b = lanes(result.W[:, own]), np.zeros(_lanes.LANES)
    b[:count] = result.b[own]
    value, left, iterations = _lanes.solve(
        *base.rows, lanes(objective.Y[:, own]), lanes(weights), kappa, W, b,
        loss.margin, objective.fit_intercept, tol, max_iter,
    )  # fmt: skip
    done = (left <= tol * value) & np.isfinite(value) & np.isfinite(W).all(axis=0)
    result.value[own], result.gap[own] = value[:count], left[:count]
    result.converged[own] = done[:count]
    result.n_iter = max(result.n_iter, int(iterations[:count].max()))
    good = np.flatnonzero(done[:count])
    result.W[:, own.start + good], result.b[own.start + good] = W[:, good], b[good]
