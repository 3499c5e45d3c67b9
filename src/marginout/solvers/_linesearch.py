"""The best step along a direction, together with the best offset: Newton in two variables.

F is convex in (t, δ), and a trial costs O(n) because the line already holds what X has
to say. The first step is the majoriser's, which cannot go up; Newton steps follow. A
step that goes up is cut where the tangents at its two ends meet: at the kink, if it
jumped over one.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from marginout._design import worker_threads
from marginout._objective import Array, Line, Objective, Point, Slope

#: A step is good once the slope along the direction has fallen to this fraction of its start.
SLOPE = 0.1
TRIALS = 40
#: Problems searched together.
BLOCK = 8
#: F is known to this fraction of itself: a smaller rise is none.
ROUNDING = 1e-14
#: Longest step of the offset, in units of the loss's scale.
LONGEST = 10.0
#: A Hessian whose offset direction is flatter than this, relatively, is not inverted.
FLAT = 1e-12
#: What the offset may keep of its suboptimality, as a fraction of F: nothing that would spoil the
#: certificate, which holds for the best offset.
OFFSET = 1e-10


def minimize_line(line: Line, dt: Array, db: Array, precision: float = OFFSET) -> Point:
    """Minimise F over (t, δ) from the slopes (dt, db) at (0, 0).

    `precision` is the suboptimality, as a fraction of F, that the offset may keep.
    """
    zero = np.zeros_like(dt)
    base = Slope(line.value, dt, db, *line.majorize(zero, zero))
    return _minimize(line, base, *_newton_step(base, line.objective), precision)


def starting_point(objective: Objective, W: Array, b: Array, precision: float = OFFSET) -> Point:
    """The point (W, b), or a fair first one where W = 0, with the offset that suits it."""
    if W.any():
        return settle_offset(objective, objective.point(W, b), precision)
    line, t, delta = objective.first_line()
    zero = np.zeros_like(t)
    return _minimize(line, line.expand(zero, zero), t, delta, precision)


def _minimize(line: Line, base: Slope, step_t: Array, step_d: Array, precision: float) -> Point:
    """Minimise from what is known at (0, 0) and a first step.

    Many problems are searched in blocks, on all cores, so that none waits for many others.
    """
    if line.objective.K <= BLOCK:
        return line.move(*_search(line, base, step_t, step_d, precision))

    def search(block: slice, part: Objective) -> tuple[Array, ...]:
        here = Slope(*(x[block] for x in base))
        return _search(line.part(block, part), here, step_t[block], step_d[block], precision)

    blocks = line.objective.blocks(BLOCK)
    with ThreadPoolExecutor(worker_threads(line.objective.Y.size * TRIALS)) as pool:
        steps = list(pool.map(search, *zip(*blocks, strict=True)))
    return line.move(*map(np.concatenate, zip(*steps, strict=True)))


def _search(
    line: Line, base: Slope, step_t: Array, step_d: Array, precision: float
) -> tuple[Array, Array, Array, Array]:
    """The step (t, δ), F there, and what a better offset would still bring."""
    objective = line.objective
    t = delta = np.zeros_like(step_t)
    left = np.full_like(t, np.inf)
    steepest = SLOPE * np.abs(base.dt)
    for _ in range(TRIALS):
        trial = line.expand(t + step_t, delta + step_d)
        up = trial.value > base.value + ROUNDING * np.abs(base.value)
        if not up.any():
            t, delta, base = t + step_t, delta + step_d, trial
            left = _offset_left(base, objective)
            if np.all((np.abs(base.dt) <= steepest) & (left <= precision * base.value)):
                break
            step_t, step_d = _newton_step(base, objective)
            continue
        before = base.dt * step_t + base.db * step_d
        after = trial.dt * step_t + trial.db * step_d
        shorter = (trial.value - after - base.value) / np.where(after > before, before - after, -1.0)
        shorter = np.clip(shorter, 0.01, 0.9)
        t, delta = np.where(up, t, t + step_t), np.where(up, delta, delta + step_d)
        base = Slope(*(np.where(up, old, new) for old, new in zip(base, trial, strict=True)))
        left = _offset_left(base, objective)
        newton_t, newton_d = _newton_step(base, objective)
        step_t, step_d = np.where(up, shorter * step_t, newton_t), np.where(up, shorter * step_d, newton_d)
    return t, delta, base.value, left


def settle_offset(objective: Objective, point: Point, precision: float) -> Point:
    """The same weights with the offset that suits them best: Newton in one variable, no pass."""
    if not objective.fit_intercept:
        return point
    line = objective.line(point, None)
    return minimize_line(line, np.zeros(objective.K), objective.offset_gradient(point), precision)


def _offset_left(slope: Slope, objective: Objective) -> Array:
    """By how much, about, a better offset would lower F: half the step times the slope."""
    if not objective.fit_intercept:
        return np.zeros_like(slope.db)
    longest = LONGEST * objective.loss.scale
    return 0.5 * np.abs(slope.db) * np.minimum(np.abs(slope.db) / np.maximum(slope.dbb, 1e-100), longest)


def _newton_step(slope: Slope, objective: Objective) -> tuple[Array, Array]:
    """−H⁻¹g for each problem, with a step of the offset that is not too long."""
    # P = 0 leaves no curvature in t, and no slope either.
    dtt = np.where(slope.dtt > 0, slope.dtt, 1.0)
    if not objective.fit_intercept:
        return -slope.dt / dtt, np.zeros_like(slope.dt)
    longest = LONGEST * objective.loss.scale
    schur = slope.dbb - slope.dtb * (slope.dtb / dtt)
    flat = schur <= FLAT * slope.dbb
    reduced = slope.db - slope.dtb * (slope.dt / dtt)
    with np.errstate(over="ignore"):
        wanted = np.where(flat, 0.0, -reduced / np.maximum(np.where(flat, 1.0, schur), 1e-100))
    step_d = np.clip(wanted, -longest, longest)
    return -(slope.dt + slope.dtb * step_d) / dtt, step_d
