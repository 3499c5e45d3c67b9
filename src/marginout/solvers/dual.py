"""Dual coordinate descent for problems without noise: a plain SVM or SVR with a free offset.

Without noise the hinge and the ε-insensitive loss have kinks that no smooth method
likes, but their dual is a box-constrained quadratic problem (see `_kernels/_dual.pyx`).
That of the squared hinge has ½Σ soft·β² in addition, and bounds at zero only: `soft_dual` takes it.
An offset makes Σβ = 0 a constraint of the dual. The duality gap, with the best offset for w and β made
feasible, is the certificate.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from marginout._core.interfaces import Array, Design, Monitor, Objective, Point, Result
from marginout._core.objective import settled
from marginout.losses import Box
from marginout.solvers._progress import Progress

#: Sweeps before the first look at the duality gap, and the largest factor from one look to the next.
FIRST_LOOK, NEXT_LOOK = 6, 4.0
#: Examples that were left out are looked at again after so many times the sweeps before.
AGAIN = 1.3
#: A look is due when the largest violation, to which the gap is about proportional, promises this
#: fraction of the tolerance: a look costs as much as some sweeps.
DUE = 0.7
#: Weight ρ of ½ρ(Σβ)² in the augmented Lagrangian, as a fraction of the examples' mean squared norm.
RHO = 0.01
TINY = 1e-300
#: State of the generator that shuffles the examples at the start.
SEED = 88172645463325252
#: Slopes below this fraction of their sum count as zero.
FLAT = 1e-12


def suits(objective: Objective) -> bool:
    """Whether the problem has this dual, and kinks."""
    return objective.loss.kinked and knows(objective)


def knows(objective: Objective) -> bool:
    """Whether the problem has this dual: no noise, a loss with a box, and ½‖w‖²."""
    plain = objective.traits.noiseless and objective.loss.boxed and not objective.coupled
    return plain and objective.penalty.self_conjugate


def solve(
    objective: Objective,
    W: Array,
    b: Array,
    *,
    tol: float,
    max_iter: int,
    monitor: Monitor | None = None,
    beta: Array | None = None,
) -> Result:
    """Minimise all K problems, a thread to a problem; a warm start sets the offsets only.

    `beta`, (n, K), holds dual variables to start from as well, and those of the solution in the end.
    """
    design, K = objective.examples.design, objective.K
    progress = Progress(objective, tol, max_iter, monitor)
    norms = design.row_norms()
    descents = [
        _Descent(design, norms, box, b[k], objective.fit_intercept) for k, box in enumerate(_boxes(objective))
    ]
    if beta is not None:
        duals = design.pullback(np.zeros((design.d, K)), beta, np.zeros_like(beta))
        for k, descent in enumerate(descents):
            descent.begin(beta[:, k], duals[:, k])
    everyone, kept, look = descents, beta, FIRST_LOOK
    threads = min(K, design.threads(design.nnz * K))
    with ThreadPoolExecutor(threads) as pool:
        each = pool.map if threads > 1 else map  # to hand over to a single thread takes time
        while True:
            list(each(_Descent.sweep, descents, [min(look, max_iter)] * len(descents)))
            look = max(1, *(descent.sweeps for descent in descents))
            W = np.column_stack([descent.w for descent in descents])
            point, gap = certify(objective, W, np.column_stack([descent.beta for descent in descents]))
            if not progress.record(look, point, gap):
                progress.keep(point, gap)
                if kept is not None:
                    kept[...] = np.column_stack([descent.beta for descent in everyone])
                return progress.result()
            for descent, share in zip(descents, DUE * tol * point.value / np.maximum(gap, TINY), strict=True):
                descent.enough = share * descent.worst
            parted = progress.part(0.0)
            if parted is not None:
                done, going = parted
                progress.keep(objective.restrict(point, done), gap[done], done)
                progress.active = progress.active[going]
                objective = objective.select(going)
                descents = [descents[k] for k in going]
            look = int(np.ceil(look * NEXT_LOOK))


def certify(objective: Objective, W: Array, beta: Array) -> tuple[Point, Array]:
    """The point W with its best offsets, and the duality gap to β made feasible: two passes."""
    rows, K = objective.examples, objective.K
    design, boxes = rows.design, _boxes(objective)
    scores = design.apply(W)
    b = np.zeros(K)
    if objective.fit_intercept:
        b = np.array([_best_offset(box, scores[:, k]) for k, box in enumerate(boxes)])
        beta = np.column_stack([_balanced(beta[:, k]) for k in range(K)])
    point = settled(objective.evaluate(W, b, [(scores + b, np.full_like(scores, rows.floor))]))
    W = design.pullback(np.zeros((design.d, K)), beta, np.zeros_like(beta))
    linear = [box.target @ beta[:, k] - box.epsilon * np.abs(beta[:, k]).sum() for k, box in enumerate(boxes)]
    bent = np.array([0.5 * box.soft @ beta[:, k] ** 2 for k, box in enumerate(boxes)])
    # The conjugate of ½‖w‖² is ½‖Mᵀβ‖².
    return point, np.maximum(point.value - np.array(linear) + bent + objective.penalty.value(W), 0.0)


def _boxes(objective: Objective) -> list[Box]:
    rows = objective.examples
    weights = np.broadcast_to(rows.weights, rows.Y.shape)
    losses = [objective.loss.select(np.array([k])) for k in range(objective.K)]
    return [loss.box(rows.Y[:, k], weights[:, k]) for k, loss in enumerate(losses)]


def _balanced(beta: Array) -> Array:
    """β with its heavier side scaled down until Σβ = 0."""
    up, down = np.maximum(beta, 0.0), np.maximum(-beta, 0.0)
    above, below = balance(float(up.sum()), float(down.sum()))
    return np.asarray(above * up - below * down)


def _best_offset(box: Box, scores: Array) -> float:
    """The minimiser over b of the loss, which is convex and piecewise linear in b, or quadratic."""
    kink = box.target - scores
    up, down = np.flatnonzero(box.high), np.flatnonzero(box.low)
    if box.soft.any():
        return smoothest(kink[up], 1.0 / box.soft[up], kink[down], 1.0 / box.soft[down])
    kinks = np.concatenate([kink[up] - box.epsilon, kink[down] + box.epsilon])
    return flattest(kinks, np.concatenate([box.high[up], -box.low[down]]), -float(box.high.sum()))


class _Descent:
    """The state of one problem: β, w = Σβx, and which examples still move."""

    def __init__(self, design: Design, norms: Array, box: Box, centre: float, fit_intercept: bool) -> None:
        self.box, self.w = box, np.zeros(design.d)
        self._sweep = design.sweep
        self._norms = np.maximum(norms, np.finfo(float).tiny)
        self._rho = RHO * float(norms.mean()) if fit_intercept else 0.0
        self.beta = np.zeros(design.n)
        self._offset = np.array([0.0, centre if fit_intercept else 0.0])
        self._order = np.flatnonzero(box.high > box.low)
        self.sweeps, self.worst, self.enough = 0, np.inf, 0.0
        self._seed = np.array([SEED], dtype=np.uint64)

    def begin(self, beta: Array, w: Array) -> None:
        """Start from β inside of the box and its w; the offset stays where it was."""
        self.beta[:], self.w[:] = beta, w
        self._offset[0] = beta.sum()
        self._offset[1] -= self._rho * self._offset[0]

    def sweep(self, most: int) -> None:
        """Go over the examples, leaving out those that sit firmly at a bound.

        Until there were `most` sweeps in all, or the largest violation is small `enough`.
        """
        active, least, again = 0, self.sweeps + FIRST_LOOK, 0
        while self.sweeps < most:
            if active == 0 or self.sweeps >= again:
                active, again = len(self._order), math.ceil(AGAIN * self.sweeps) + 1
            limit = self.worst if self.worst > 0 else np.inf
            active, self.worst = self._sweep(
                self._norms, self.box.target, self.box.epsilon, self.box.low, self.box.high,
                self.box.soft, self._rho, self.beta, self.w, self._offset, self._order,
                active, limit, self._seed,
            )  # fmt: skip
            self._offset[1] += self._rho * self._offset[0]  # the multiplier's step
            self.sweeps += 1
            if self.worst < self.enough and self.sweeps >= least:
                break


def flattest(kinks: Array, rises: Array, first: float) -> float:
    """The minimiser of a convex, piecewise linear function of one variable.

    Its slope is `first` < 0 at −∞, and `rises` by a positive number at each of the kinks. Where the function
    is constant between two kinks, the middle is taken.
    """
    order = np.argsort(kinks, kind="stable")
    slope = first + np.cumsum(rises[order])
    flat, last = FLAT * rises.sum(), len(order) - 1
    low = min(int(np.searchsorted(slope, -flat)), last)
    high = min(int(np.searchsorted(slope, flat, side="right")), last)
    ends = kinks[order[[low, max(low, high)]]]
    return float(0.5 * (ends[0] + ends[1]) if high > low else ends[0])


def smoothest(up: Array, rises: Array, down: Array, falls: Array) -> float:
    """The minimiser of ½Σ rises·max(0, up − b)² + ½Σ falls·max(0, b − down)² over b.

    Its slope is piecewise linear and never falls.
    """
    kinks = np.concatenate([up, down])
    order = np.argsort(kinks, kind="stable")
    kinks, middle = kinks[order], float(np.median(kinks))
    kinks = kinks - middle  # for the sake of rounding
    below = np.concatenate([np.zeros_like(rises), falls])[order]
    above = np.concatenate([rises, np.zeros_like(falls)])[order]
    # Of the piece that begins at a kink: the curvature a, and the slope a·b − c.
    a = np.cumsum(below) + rises.sum() - np.cumsum(above)
    c = np.cumsum(below * kinks) + (above * kinks).sum() - np.cumsum(above * kinks)
    piece = max(int(np.searchsorted(a * kinks - c, 0.0)) - 1, 0)
    end = kinks[min(piece + 1, len(kinks) - 1)]
    return middle + float(np.clip(c[piece] / max(a[piece], TINY), kinks[piece], end))


def balance(up: float, down: float) -> tuple[float, float]:
    """Factors of the positive and the negative β, whose sums are `up` and −`down`, that make Σβ = 0."""
    lighter = min(up, down)
    return lighter / up if up > 0 else 0.0, lighter / down if down > 0 else 0.0
