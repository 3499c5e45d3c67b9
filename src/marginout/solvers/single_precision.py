"""Nonlinear conjugate gradients in single precision, eight problems at once.

`ncg` for the cases that matter most: the bound on the hinge loss or a loss of a normal score, dropout at one
rate per problem, rows of CSR, a start away from w = 0, and a tolerance that single precision can serve. All
of it is one call of a compiled loop. A search over C and noise runs it hundreds of times; a fit of several
classes goes most of its way by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marginout._core.interfaces import Array, Objective
from marginout._core.objective import dots
from marginout._kernels import _single_precision
from marginout.losses import coarse_mixture
from marginout.solvers._linesearch import LONGEST, TRIALS

#: Problems that are solved at once.
LANES = _single_precision.LANES
#: The losses that it computes.
KNOWN = ("hinge", "bound"), ("hinge", "gaussian"), ("squared", "gaussian"), ("logistic", "gaussian")
#: The finest tolerance that is trusted to single precision.
FINEST = 1e-4
#: Magnitudes whose squares single precision can hold, summed.
LARGEST = 1e12
#: Iterations after which a problem is given up.
MOST = 200
#: Iterations after which the curvature, and the scores, are computed anew. Steps only update the scores, and
#: in single precision errors grow fast.
RENEWAL, DRIFT = 6, 12
#: A line search ends at this fraction of the slope that it started with: finer ones do not pay.
DECLINE = 0.25
#: Factor by which ½∇F·D⁻¹∇F may underestimate what is left of F; it judges a sprint without a certificate.
CAREFUL = 4.0


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
    rows, traits = objective.rows, objective.traits
    if rows is None or not _single_precision.AVAILABLE or not objective.penalty.self_conjugate:
        return False
    kernel = objective.loss.kernel
    if kernel is None or not any(kernel.computes(*loss) for loss in KNOWN):
        return False
    if traits.noiseless or traits.far:  # its preconditioner does not centre
        return False
    packed = rows.design.uniform_rows()
    if packed is None:
        return False
    data, _, _, kappa = packed
    sizes = [data.max(), -data.min(), kappa.max(), rows.weights.max() * kernel.unit]
    return bool(max(sizes) < LARGEST)


def sprint(
    objective: Objective, W: Array, b: Array, *, tol: float, max_iter: int, stopped: Callable[[], bool]
) -> Sprint:
    """Minimise up to eight problems from (W, b), none of them 0, to a tolerance of FINEST or more.

    `stopped` is asked once a second whether to end early; what it raises ends the sprint too.
    """
    rows, kernel, K = objective.examples, objective.loss.kernel, objective.K
    packed = rows.design.uniform_rows()
    assert kernel is not None  # `suits` has asked
    assert packed is not None
    *csr, each = packed

    def lanes(values: Array) -> NDArray[np.float32]:
        out = np.zeros((len(values), LANES), dtype=np.float32)
        out[:, :K] = values
        return out

    kappa = np.zeros(LANES, dtype=np.float32)
    kappa[:K] = each
    loss = objective.loss
    rules = TRIALS, RENEWAL, DRIFT, DECLINE, LONGEST * loss.scale, CAREFUL, loss.grain, kernel.share
    formula = kernel._replace(mixture=None if kernel.mixture is None else coarse_mixture())
    ends, offsets = lanes(W), np.zeros(LANES)
    offsets[:K] = b
    value, left, iterations = _single_precision.solve(
        *csr, lanes(rows.Y), lanes(rows.weights), kappa, ends, offsets,
        formula, objective.fit_intercept, max(tol, FINEST), min(max_iter, MOST), rules, stopped,
    )  # fmt: skip
    sound = (np.isfinite(value) & np.isfinite(ends).all(axis=0))[:K]
    W = np.where(sound, ends[:, :K], W)
    return Sprint(
        W,
        np.where(sound, offsets[:K], b),
        np.sqrt(dots(W, W) * (float(csr[0] @ csr[0]) / objective.traits.n)),
        value[:K],
        left[:K],
        sound & (left <= max(tol, FINEST) * value)[:K],
        iterations[:K],
    )
