"""SciPy's L-BFGS on F, one problem at a time, with the offset optimised away at every point.

The variables are scaled by the root of the majoriser's diagonal. Slower than `ncg`, as it
cannot use the cheap line search, it is a second, independent road to the optimum.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from marginout._core.interfaces import Array, Monitor, Objective, Point, Result
from marginout.solvers._linesearch import certify, settle_offset, starting_point
from marginout.solvers._progress import Progress

MEMORY = 20


def solve(
    objective: Objective, W: Array, b: Array, *, tol: float, max_iter: int, monitor: Monitor | None = None
) -> Result:
    """Minimise all K problems from (W, b)."""
    progress = Progress(objective, tol, max_iter, monitor)
    return progress.solve(objective, W, b, lambda *start: _Run(*start).minimize(), size=1)


class _Run:
    """One problem: the point that L-BFGS stands at, and those that it tries."""

    def __init__(self, objective: Objective, W: Array, b: Array, progress: Progress) -> None:
        self._objective, self._progress = objective, progress
        # L-BFGS wants F itself, not F to a tolerance, and far from zero the gradient to the last bit.
        self._precision = 0.0 if objective.traits.far else 1e-6 * progress.tol
        self._point = starting_point(objective, W, b, self._precision)
        self._G, _ = objective.gradient(self._point)
        self._scale = np.sqrt(objective.curvature(self._point))
        self._tried: dict[bytes, tuple[Point, Array]] = {}
        self._iteration = 1

    def minimize(self) -> None:
        if self._record():
            self._descend()
        self._progress.keep(*certify(self._objective, self._point))

    def _descend(self) -> None:
        most = self._progress.max_iter
        options = {"maxiter": most, "maxfun": 20 * most, "maxcor": MEMORY, "gtol": 0.0, "ftol": 0.0}
        u = (self._point.W * self._scale).ravel()
        result = minimize(self._try, u, jac=True, method="L-BFGS-B", callback=self._accept, options=options)
        # ftol is 0: no lower F was found. With features far from zero rounding may hide a lower one.
        if result.success and not self._objective.traits.far:
            self._progress.exhaust()

    def _try(self, u: Array) -> tuple[float, Array]:
        point = self._objective.point(u.reshape(self._scale.shape) / self._scale, self._point.b)
        point = settle_offset(self._objective, point, self._precision)
        G, _ = self._objective.gradient(point)
        self._tried[u.tobytes()] = point, G
        return float(point.value[0]), (G / self._scale).ravel()

    def _accept(self, u: Array) -> None:
        self._iteration += 1
        self._point, self._G = self._tried[u.tobytes()]
        self._tried.clear()
        if not self._record():
            raise StopIteration

    def _record(self) -> bool:
        decrement = self._objective.dots(self._G, self._objective.preconditioner(self._point).solve(self._G))
        left = self._progress.estimate(self._point, decrement)
        return self._progress.record(self._iteration, self._point, left)
