"""Nonlinear conjugate gradients in single precision, eight problems at once.

`ncg` for the case that matters most: the bound on the hinge loss, dropout at one rate per
problem, rows of CSR, a start away from w = 0, and a tolerance that single precision can
serve. All of it is one call of a compiled loop. A search over C and
noise runs it hundreds of times; a fit of several classes goes most of its way by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marginout._kernels import _lanes
from marginout._objective import Array, Objective, dots
from marginout.losses import Hinge

#: Problems that are solved at once.
LANES = _lanes.LANES
#: The finest tolerance that is trusted to single precision.
FINEST = 1e-4
#: Magnitudes whose squares single precision can hold, summed.
LARGEST = 1e12
#: Iterations after which a problem is given up.
MOST = 200


class Sprint(NamedTuple):
    """Where a sprint ended, for each of K problems; where it started if it failed.

    `reach` is ‖w‖ times the root mean square of ‖x‖: few scores are larger.
    """

    W: Array
    b: Array
    reach: Array
    value: Array
    left: Array
    converged: NDArray[np.bool_]
    iterations: NDArray[np.intp]


def suits(objective: Objective) -> bool:
    """Whether this solver knows the problems."""
    design: Any = objective.design
    design = getattr(design, "base", design)
    if not _lanes.AVAILABLE or not (isinstance(objective.loss, Hinge) and objective.loss.bound):
        return False
    if not design.diagonal_variance or design.noiseless or design.power != 2:
        return False
    if objective.design.far():  # its preconditioner does not centre
        return False
    if len(design.rows) != 3 or np.any(design.scale != 1.0):
        return False
    data, indices, _ = design.rows
    kappa = design.coefficient
    sizes = [data.max(), -data.min(), kappa.max(), objective.weights.max() * objective.loss.margin]
    return bool(indices.dtype == np.int32 and np.all(kappa == kappa[0]) and max(sizes) < LARGEST)


def sprint(
    objective: Objective, W: Array, b: Array, *, tol: float, max_iter: int, stopped: Callable[[], bool]
) -> Sprint:
    """Minimise up to eight problems from (W, b), none of them 0, to a tolerance of FINEST or more.

    `stopped` is asked once a second whether to end early; what it raises ends the sprint too.
    """
    design, loss, K = objective.design, objective.loss, objective.K
    assert isinstance(loss, Hinge)
    base: Any = getattr(design, "base", design)

    def lanes(values: Array) -> NDArray[np.float32]:
        out = np.zeros((len(values), LANES), dtype=np.float32)
        out[:, :K] = values
        return out

    kappa = np.zeros(LANES, dtype=np.float32)
    kappa[:K] = base.coefficient[0] * getattr(design, "factors", np.ones(K))
    ends, offsets = lanes(W), np.zeros(LANES)
    offsets[:K] = b
    value, left, iterations = _lanes.solve(
        *base.rows, lanes(objective.Y), lanes(objective.weights), kappa, ends, offsets,
        loss.margin, objective.fit_intercept, max(tol, FINEST), min(max_iter, MOST), stopped,
    )  # fmt: skip
    sound = (np.isfinite(value) & np.isfinite(ends).all(axis=0))[:K]
    data = base.rows[0]
    W = np.where(sound, ends[:, :K], W)
    return Sprint(
        W,
        np.where(sound, offsets[:K], b),
        np.sqrt(dots(W, W) * (float(data @ data) / design.n)),
        value[:K],
        left[:K],
        sound & (left <= max(tol, FINEST) * value)[:K],
        iterations[:K],
    )
