"""Dual coordinate descent for problems without noise: a plain SVM or SVR with a free offset.

Without noise the hinge and the ε-insensitive loss have kinks that no smooth method
likes, but their dual is a box-constrained quadratic problem (see `_kernels/_dual.pyx`).
The duality gap, with the offset optimal for w and β made feasible, is the certificate.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginout._design import Design, worker_threads
from marginout._kernels import _dual
from marginout._objective import Array, Objective
from marginout.losses import Box
from marginout.solvers._result import Monitor, Progress, Result

#: Sweeps before the first look at the duality gap, and the factor from one look to the next.
FIRST_LOOK, NEXT_LOOK = 6, 1.3
#: The penalty of Σβ, as a fraction of the examples' mean squared norm.
PENALTY = 1.0
SEED = 88172645463325252


def solve(
    objective: Objective, W: Array, b: Array, *, tol: float, max_iter: int, monitor: Monitor | None = None
) -> Result:
    """Minimise all K problems, a thread to a problem; a warm start sets the offsets only."""
    design, K = objective.design, objective.K
    progress = Progress(design.d, K, tol, max_iter, monitor)
    ones = np.ones((design.n, 1))
    weights = np.broadcast_to(objective.weights, objective.Y.shape)
    norms = design.row_norms()
    boxes = [objective.loss.box(objective.Y[:, k], weights[:, k]) for k in range(K)]
    descents = [_Descent(design, norms, box, b[k], objective.fit_intercept) for k, box in enumerate(boxes)]
    sweeps, look = 0, FIRST_LOOK
    with ThreadPoolExecutor(worker_threads(design.nnz * K)) as pool:
        while True:
            count = min(look, max_iter) - sweeps
            list(pool.map(lambda descent: descent.sweep(count), descents))
            sweeps += count
            W = np.column_stack([descent.w for descent in descents])
            scores = design.apply(W)
            b = np.array([d.best_offset(scores[:, k]) for k, d in enumerate(descents)])
            point = objective.evaluate(W, b, scores + b, np.zeros_like(scores))
            gap = np.maximum(point.value - _dual_values(design, descents), 0.0)
            if not progress.record(sweeps, point, gap, gap):
                return progress.result()
            going = progress.unfinished(point, 0.0)
            if going is not None:
                objective = objective.select(going)
                descents = [descents[k] for k in going]
            look = int(np.ceil(look * NEXT_LOOK))


def _dual_values(design: Design, descents: list[_Descent]) -> Array:
    """The dual objective at the feasible β nearest at hand, for all problems in one pass."""
    B = np.column_stack([descent.feasible() for descent in descents])
    W = design.pullback(np.zeros((design.d, B.shape[1])), B, np.zeros_like(B))
    linear = [d.box.target @ B[:, k] - d.box.epsilon * np.abs(B[:, k]).sum() for k, d in enumerate(descents)]
    return np.array(linear) - 0.5 * np.einsum("dk,dk->k", W, W)


class _Descent:
    """The state of one problem: β, w = Σβx, and which examples still move."""

    def __init__(self, design: Design, norms: Array, box: Box, centre: float, fit_intercept: bool) -> None:
        self.box, self.w = box, np.zeros(design.d)
        self._rows: tuple[Any, ...] = design.rows
        self._sweep = _dual.csr_sweep if len(design.rows) == 3 else _dual.dense_sweep
        self._norms = np.maximum(norms, np.finfo(float).tiny)
        self._rho = PENALTY * float(norms.mean()) if fit_intercept else 0.0
        self._fit_intercept = fit_intercept
        self._beta = np.zeros(design.n)
        self._offset = np.array([0.0, centre if fit_intercept else 0.0])
        self._order = np.flatnonzero(box.high > box.low)
        self._limit = np.inf
        self._seed = np.array([SEED], dtype=np.uint64)

    def sweep(self, count: int) -> None:
        """Go over the examples, leaving out those that sit firmly at a bound."""
        active = len(self._order)
        for _ in range(count):
            if active == 0:
                break
            active, worst = self._sweep(
                *self._rows, self._norms, self.box.target, self.box.epsilon, self.box.low, self.box.high,
                self._rho, self._beta, self.w, self._offset, self._order, active, self._limit, self._seed,
            )  # fmt: skip
            self._limit = worst if worst > 0 else np.inf
            self._offset[1] += self._rho * self._offset[0]  # the multiplier's step

    def feasible(self) -> Array:
        """β with its heavier side scaled down until Σβ = 0."""
        if not self._fit_intercept:
            return self._beta
        up, down = np.maximum(self._beta, 0.0), np.maximum(-self._beta, 0.0)
        total_up, total_down = up.sum(), down.sum()
        if min(total_up, total_down) == 0.0:
            return np.zeros_like(up)
        if total_up > total_down:
            return np.asarray(up * (total_down / total_up) - down)
        return np.asarray(up - down * (total_up / total_down))

    def best_offset(self, scores: Array) -> float:
        """The minimiser over b of the loss, which is convex and piecewise linear in b."""
        if not self._fit_intercept:
            return 0.0
        kink = self.box.target - scores
        kinks = np.concatenate([kink - self.box.epsilon, kink + self.box.epsilon])
        rises = np.concatenate([self.box.high, -self.box.low])
        order = np.argsort(kinks, kind="stable")
        slope = np.cumsum(rises[order]) - self.box.high.sum()
        flat = 1e-12 * rises.sum()
        at = int(np.searchsorted(slope, -flat))
        if at + 1 < len(order) and slope[at] <= flat:  # any b up to the next kink will do
            return float(0.5 * (kinks[order[at]] + kinks[order[at + 1]]))
        return float(kinks[order[min(at, len(order) - 1)]])
