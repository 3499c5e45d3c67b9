"""The best step along a direction, together with the best offset: Newton in two variables.

F is convex in (t, δ), and a trial costs O(n) because the line already holds what X has
to say. The first step is the majoriser's, which cannot go up; Newton steps follow, and
one that goes up is replaced by the majoriser's step from the same place.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marginout._objective import Array, Line, Objective, Point

#: A step is good once the slope along the direction has fallen to this fraction of its start.
SLOPE = 0.1
TRIALS = 10
#: F is known to this fraction of itself: a smaller rise is none.
ROUNDING = 1e-14
#: A Hessian whose offset direction is flatter than this, relatively, is not inverted.
FLAT = 1e-12


def minimize_line(line: Line, dt: Array, db: Array, precision: float) -> Point:
    """Minimise F over (t, δ) from the slopes (dt, db) at (0, 0).

    `precision` is the suboptimality, as a fraction of F, that the offset may keep.
    """
    t = delta = np.zeros_like(dt)
    value, steepest = line.start.value, np.abs(dt)
    hessian = line.majorize(t, delta)
    for trial in range(TRIALS):
        step_t, step_d, flat = _newton_step(dt, db, *hessian, line.objective.fit_intercept)
        slope = line.expand(t + step_t, delta + step_d)
        worse = (slope.value > value + ROUNDING * np.abs(value)) | flat
        if trial and worse.any():
            safe_t, safe_d, _ = _newton_step(dt, db, *line.majorize(t, delta), line.objective.fit_intercept)
            step_t, step_d = np.where(worse, safe_t, step_t), np.where(worse, safe_d, step_d)
            slope = line.expand(t + step_t, delta + step_d)
        t, delta = t + step_t, delta + step_d
        value, dt, db = slope.value, slope.dt, slope.db
        offset_left = 0.5 * db * db / np.maximum(slope.dbb, FLAT) if line.objective.fit_intercept else 0.0
        if np.all((np.abs(dt) <= SLOPE * steepest) & (offset_left <= precision * value)):
            break
        hessian = slope.dtt, slope.dtb, slope.dbb
    return line.move(t, delta, value)


def _newton_step(
    dt: Array, db: Array, dtt: Array, dtb: Array, dbb: Array, fit_intercept: bool
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """−H⁻¹g for each problem, without the offset where H is flat in it; and where it is."""
    # P = 0 leaves no curvature in t, and no slope either.
    dtt = np.where(dtt > 0, dtt, 1.0)
    if not fit_intercept:
        return -dt / dtt, np.zeros_like(dt), np.zeros(len(dt), dtype=bool)
    schur = dbb - dtb * (dtb / dtt)
    flat = ~((schur > FLAT * dbb) & (schur > 1e-100))
    step_d = np.where(flat, 0.0, -(db - dtb * (dt / dtt)) / np.where(flat, 1.0, schur))
    return -(dt + dtb * step_d) / dtt, step_d, flat


def settle_offset(objective: Objective, point: Point, precision: float) -> Point:
    """The same weights with the offset that suits them best: Newton in one variable, no pass."""
    if not objective.fit_intercept:
        return point
    line = objective.line(point, None)
    return minimize_line(line, np.zeros(objective.K), objective.offset_gradient(point), precision)
