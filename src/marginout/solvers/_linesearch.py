"""The best step along a direction, together with the best offset: Newton in two variables.

F is convex in (t, δ), and a trial costs O(n) because the line already holds what X has
to say. A step that goes up is cut where the tangents at its two ends meet: at the kink,
if it jumped over one. After a cut, steps lean on the majoriser: F is nearly a cone then,
along whose rays it has no curvature, and Newton's step would be far too long.
"""

from __future__ import annotations

import numpy as np

from marginout._objective import Array, Line, Objective, Point, Slope

#: A step is good once the slope along the direction has fallen to this fraction of its start.
SLOPE = 0.25
TRIALS = 40
#: F is known to this fraction of itself: a smaller rise is none.
ROUNDING = 1e-14
#: How much a step leans on the majoriser after a cut, and how much of that the next one keeps.
LEAN, KEEP = 1.0, 0.2
#: Longest step of the offset, in units of the loss's scale.
LONGEST = 10.0
#: A Hessian whose offset direction is flatter than this, relatively, is not inverted.
FLAT = 1e-12
#: What the offset may keep of its suboptimality, as a fraction of F: nothing that would spoil the
#: certificate, which holds for the best offset.
OFFSET = 1e-10


def minimize_line(line: Line, precision: float = OFFSET) -> Point:
    """The point of least F on the plane of a line.

    `precision` is the suboptimality, as a fraction of F, that the offset may keep.
    """
    zero = np.zeros(line.objective.K)
    base = line.expand(zero, zero)
    return _search(line, base, *_newton_step(base, line.objective), precision)


def starting_point(objective: Objective, W: Array, b: Array, precision: float = OFFSET) -> Point:
    """The point (W, b), or a fair first one where W = 0, with the offset that suits it."""
    if W.any():
        return settle_offset(objective, objective.point(W, b), precision)
    line, t, delta = objective.first_line()
    zero = np.zeros_like(t)
    return _search(line, line.expand(zero, zero), t, delta, precision)


def settle_offset(objective: Objective, point: Point, precision: float) -> Point:
    """The same weights with the offset that suits them best: Newton in one variable, no pass."""
    if not objective.fit_intercept:
        return point
    return minimize_line(objective.line(point, None), precision)


def _search(line: Line, base: Slope, step_t: Array, step_d: Array, precision: float) -> Point:
    """The best point found from what is known at (0, 0) and a first step."""
    objective = line.objective
    t = delta = lean = np.zeros_like(step_t)
    left = _offset_left(base, objective)
    steepest = SLOPE * np.abs(base.dt)
    for _ in range(TRIALS):
        trial = line.expand(t + step_t, delta + step_d)
        up = trial.value > base.value + ROUNDING * np.abs(base.value)
        shorter = _cut(base, trial, step_t, step_d) if up.any() else step_t
        t, delta = np.where(up, t, t + step_t), np.where(up, delta, delta + step_d)
        base = Slope(*(np.where(up, old, new) for old, new in zip(base, trial, strict=True)))
        left = _offset_left(base, objective)
        if not up.any() and np.all((np.abs(base.dt) <= steepest) & (left <= precision * base.value)):
            break
        lean = np.where(up, LEAN, np.where(lean > 0.05 * LEAN, KEEP * lean, 0.0))
        curved = base
        if lean.any() and not up.all():
            tt, tb, bb = line.majorize(t, delta)
            curved = base._replace(
                dtt=base.dtt + lean * tt, dtb=base.dtb + lean * tb, dbb=base.dbb + lean * bb
            )
        newton_t, newton_d = _newton_step(curved, objective)
        step_t, step_d = np.where(up, shorter * step_t, newton_t), np.where(up, shorter * step_d, newton_d)
    return line.move(t, delta, base.value, left)


def _cut(base: Slope, trial: Slope, step_t: Array, step_d: Array) -> Array:
    """The fraction of a step at which the tangents at its two ends meet."""
    before = base.dt * step_t + base.db * step_d
    after = trial.dt * step_t + trial.db * step_d
    meet = (trial.value - after - base.value) / np.where(after > before, before - after, -1.0)
    return np.clip(meet, 0.01, 0.9)


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
