"""SciPy's L-BFGS on F, one problem at a time, with the offset optimised away at every point.

The variables are scaled by the root of the majoriser's diagonal. Slower than `ncg`
(it cannot use the cheap line search), it is a second, independent road to the optimum.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from marginout._objective import Array, Objective, Point
from marginout.solvers._linesearch import minimize_line, settle_offset
from marginout.solvers._result import Monitor, Progress, Result, estimate, half_square

MEMORY = 20


def solve(
    objective: Objective, W: Array, b: Array, *, tol: float, max_iter: int, monitor: Monitor | None = None
) -> Result:
    """Minimise all K problems from (W, b)."""
    progress = Progress(objective.design.d, objective.K, tol, max_iter, monitor)
    for k in range(objective.K):
        progress.active = np.array([k])
        _solve_one(objective.select(progress.active), W[:, [k]], b[[k]], progress, 0.1 * tol, max_iter)
    return progress.result()


def _solve_one(
    objective: Objective, W: Array, b: Array, progress: Progress, precision: float, max_iter: int
) -> None:
    point = objective.point(W, b)
    G = objective.gradient(point)
    scale = np.sqrt(objective.curvature(point))
    # One steepest-descent step first: at w = 0 without noise the offset has a kink to sit in.
    line = objective.line(point, -G / scale**2)
    slope = -np.einsum("dk,dk->k", G / scale, G / scale)
    point = minimize_line(line, slope, objective.offset_gradient(point), precision)
    state = {"point": point, "G": objective.gradient(point), "n": 1}
    scale = np.sqrt(objective.curvature(point))

    def record(n: int) -> bool:
        G = state["G"]
        left = estimate(G, G / scale**2)
        return progress.record(n, state["point"], half_square(G), left)

    def fun(u: Array) -> tuple[float, Array]:
        trial = objective.point((u / scale[:, 0])[:, None], state["point"].b)
        trial = settle_offset(objective, trial, precision)
        G = objective.gradient(trial)
        trials[u.tobytes()] = (trial, G)
        return float(trial.value[0]), (G / scale)[:, 0]

    def callback(u: Array) -> None:
        state["n"] += 1
        state["point"], state["G"] = trials[u.tobytes()]
        trials.clear()
        if not record(state["n"]):
            raise StopIteration

    trials: dict[bytes, tuple[Point, Array]] = {}
    if record(1):
        options = {"maxiter": max_iter, "maxfun": 20 * max_iter, "maxcor": MEMORY, "gtol": 0.0, "ftol": 0.0}
        u = (point.W * scale)[:, 0]
        minimize(fun, u, jac=True, method="L-BFGS-B", callback=callback, options=options)
        progress.keep(state["point"])
