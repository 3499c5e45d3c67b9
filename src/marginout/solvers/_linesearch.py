"""The best step along a direction, together with the best offset: Newton in two variables.

F is convex in (t, δ), and a trial costs O(n) because the line already holds what X has
to say. A step that goes up is cut where the tangents at its two ends meet: at the kink,
if it jumped over one. After a cut, steps lean on the majoriser: F is nearly a cone then,
along whose rays it has no curvature, and Newton's step would be far too long.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginout._core.interfaces import Array, Line, Objective, Point, Slope

#: A step is good once the slope along the direction has fallen to this fraction of its start.
SLOPE = 0.03
TRIALS = 40
#: What the offset of the first point may keep of its suboptimality, as a fraction of F.
START = 1e-6
#: F is known to this fraction of itself: a smaller rise is none.
ROUNDING = 1e-14
#: How much a step leans on the majoriser after a cut, and how much of that the next one keeps.
LEAN, KEEP = 1.0, 0.2
#: Longest step of the offset, in units of the loss's scale.
LONGEST = 10.0
#: A step so small, in the same units, is taken untried.
SMALL = 1e-3
#: A Hessian whose offset direction is flatter than this, relatively, is not inverted.
FLAT = 1e-12
#: What the offset may keep of its suboptimality, as a fraction of F: nothing that would spoil the
#: certificate, which holds for the best offset.
OFFSET = 1e-10
#: The same for a certificate, and how many trials it may take: enough to halve to the last bit, as the
#: gradient of features far from zero needs.
CERTIFIED, BISECTIONS = 1e-12, 200
#: Steps towards one side before they are made longer.
PATIENCE = 8
#: Fraction of Newton's step in several offsets below which F is as low as rounding allows.
SHORTEST = 1e-9


def minimize_line(line: Line, precision: float = OFFSET) -> Point:
    """The point of least F on the plane of a line.

    `precision` is the suboptimality, as a fraction of F, that the offset may keep.
    """
    objective = line.objective
    base = line.expand(np.zeros(objective.P), np.zeros(objective.K))
    t, delta, base = _search(line, base, *_newton_step(base, objective), precision)
    # Slopes are taken at the point in any case: one more step of the offset, untried, makes them
    # better for nothing. F is lower there by about `left`, and not counted as such.
    polish = _offset_step(base)
    small = objective.fit_intercept & (np.abs(polish) < SMALL * objective.loss.scale)
    left = _offset_left(base, objective)
    return line.move(t, np.where(small, delta + polish, delta), base.value, left)


def starting_point(
    objective: Objective, W: Array, b: Array, precision: float = OFFSET, rounding: float = 0.0
) -> Point:
    """The point (W, b), or a fair first one where W = 0, with the offset that suits it.

    The best point of a line through w = 0 may be just that, the tip of a cone. A method that
    finds it hard to leave asks for a loss rounded off by a fraction of its scale, for the
    search of the first point alone: that has no tip.
    """
    if W.any():
        return settle_offset(objective, objective.point(W, b), precision)
    line, t, delta = objective.first_line()
    rough = line.rounded(rounding) if rounding else line
    precision = max(precision, START)
    base = rough.expand(np.zeros(objective.P), np.zeros(objective.K))
    t, delta, _ = _search(rough, base, t, delta, precision)
    slope = line.expand(t, delta)
    point = line.move(t, delta, slope.value, _offset_left(slope, objective))
    return settle_offset(objective, point, precision)


def settle_offset(objective: Objective, point: Point, precision: float) -> Point:
    """The same weights with the offset that suits them best, to `precision`: no pass.

    Newton's method between two offsets where F falls and rises, halved where it does not
    help. F is convex: what is left is at most the slope times the distance between them.
    """
    if not objective.fit_intercept:
        return point
    line = objective.line(point, None)
    if objective.coupled:
        return _settle_offsets(line, point, precision)
    zero = delta = np.zeros(objective.K)
    low, high = np.full_like(delta, -np.inf), np.full_like(delta, np.inf)
    longest = LONGEST * objective.loss.scale
    slope = line.expand(zero, delta)
    for trial in range(BISECTIONS):
        low, high = np.where(slope.db <= 0, delta, low), np.where(slope.db >= 0, delta, high)
        with np.errstate(invalid="ignore", over="ignore"):
            left = np.where(slope.db == 0, 0.0, np.abs(slope.db) * (high - low))
            if np.all((left <= precision * slope.value) | (high - low <= 4e-16 * np.abs(point.b + delta))):
                break
            step = np.clip(-slope.db / np.maximum(slope.dbb, 1e-100), -longest, longest)
        longest *= 2
        between = np.isfinite(high - low)
        # A little beyond: it had better end on the other side. A slope that is rounding error alone asks for
        # steps too short to change it: farther and farther then.
        after = delta + np.where(between, 1.01, max(1.01, 2.0 ** (trial - PATIENCE))) * step
        inside = (after > low) & (after < high) & ((trial % 3 < 2) | ~between)
        # A Newton step from one side may creep: every third step halves the bracket.
        middle = np.where(between, 0.5 * (low + high), after)
        delta = np.where(left <= precision * slope.value, delta, np.where(inside, after, middle))
        slope = line.expand(zero, delta)
    return line.move(zero, delta, slope.value, left)


def _settle_offsets(line: Line, point: Point, precision: float) -> Point:
    """The same for problems with several offsets: Newton's method, with steps halved where F rises."""
    objective = line.objective
    zero, delta = np.zeros(objective.P), np.zeros(objective.K)
    slope = line.expand(zero, delta)
    length = np.ones(objective.P)
    for _ in range(BISECTIONS):
        left = _offset_left(slope, objective)
        done = left <= np.maximum(precision, ROUNDING) * slope.value
        if done.all():
            break
        longest = LONGEST * objective.loss.scale
        step = np.clip(_offset_step(slope), -longest, longest)
        after = delta + objective.spread(np.where(done, 0.0, length)) * step
        trial = line.expand(zero, after)
        up = trial.value > slope.value + ROUNDING * np.abs(slope.value)
        length = np.where(up, 0.5 * length, np.minimum(1.0, 2.0 * length))
        if length.min() < SHORTEST:
            break
        keep = objective.spread(up)
        delta = np.where(keep, delta, after)
        slope = line.expand(zero, delta) if up.any() else trial
    return line.move(zero, delta, slope.value, left)


def certify(objective: Objective, point: Point) -> tuple[Point, Array]:
    """The point with its best offset, and by how much F can be above its minimum: one pass.

    The certificate holds once the offset is optimised away; and F is never negative.
    """
    point = settle_offset(objective, point, 0.0 if objective.traits.far else CERTIFIED)
    G, _ = objective.gradient(point)
    return point, np.minimum(objective.certificate(point, G) + point.offset_left, point.value)


def _search(
    line: Line, base: Slope, step_t: Array, step_d: Array, precision: float
) -> tuple[Array, Array, Slope]:
    """The best (t, δ) found from what is known at (0, 0) and a first step, and what is known there."""
    objective = line.objective
    t = lean = np.zeros(objective.P)
    delta = np.zeros(objective.K)
    steepest = SLOPE * np.abs(base.dt)
    for _ in range(TRIALS):
        trial = line.expand(t + step_t, delta + step_d)
        up = trial.value > base.value + ROUNDING * np.abs(base.value)
        some_up = bool(up.any())
        if some_up:
            shorter = _cut(base, trial, step_t, step_d, objective)
            up_d = objective.spread(up)
            t, delta = np.where(up, t, t + step_t), np.where(up_d, delta, delta + step_d)
            base = _either(up, base, trial, objective)
            cut_t, cut_d = shorter * step_t, objective.spread(shorter) * step_d
        else:
            t, delta, base = t + step_t, delta + step_d, trial
            left = _offset_left(base, objective)
            if np.all((np.abs(base.dt) <= steepest) & (left <= precision * base.value)):
                break
        curved = base
        if some_up or lean.any():
            lean = np.where(up, LEAN, np.where(lean > 0.05 * LEAN, KEEP * lean, 0.0))
            if lean.any() and not up.all():
                tt, tb, bb = line.majorize(t, delta)
                curved = base._replace(
                    dtt=base.dtt + lean * tt,
                    dtb=base.dtb + objective.spread(lean) * tb,
                    dbb=base.dbb + _per_problem(lean, bb) * bb,
                )
        step_t, step_d = _newton_step(curved, objective)
        if some_up:
            step_t, step_d = np.where(up, cut_t, step_t), np.where(up_d, cut_d, step_d)
    return t, delta, base


def _either(first: NDArray[np.bool_], one: Slope, other: Slope, objective: Objective) -> Slope:
    """The one slope where `first` is true for a problem, and the other elsewhere."""
    each = objective.spread(first)
    masks = first, first, each, first, each, _per_problem(first, one.dbb)
    return Slope(*(np.where(mask, a, b) for mask, a, b in zip(masks, one, other, strict=True)))


def _per_problem(values: NDArray[Any], dbb: Array) -> NDArray[Any]:
    """A value for every problem, (P,), in the shape of dbb."""
    return values.reshape(-1, *[1] * (dbb.ndim - 1))


def _cut(base: Slope, trial: Slope, step_t: Array, step_d: Array, objective: Objective) -> Array:
    """The fraction of a step at which the tangents at its two ends meet."""
    before = base.dt * step_t + objective.total(base.db * step_d)
    after = trial.dt * step_t + objective.total(trial.db * step_d)
    meet = (trial.value - after - base.value) / np.where(after > before, before - after, -1.0)
    return np.clip(meet, 0.01, 0.9)


def _offset_step(slope: Slope) -> Array:
    """Newton's step of the offsets alone, (K,)."""
    if slope.dbb.ndim == 1:
        return -slope.db / np.maximum(slope.dbb, 1e-100)
    return -_solve(slope.dbb, slope.db.reshape(len(slope.dbb), -1)).ravel()


def _solve(H: Array, g: Array) -> Array:
    """H⁻¹g for every problem, (P, R), where H may be singular: joint losses do not see a common offset."""
    size = np.einsum("prr->p", H) / H.shape[1]
    H = H + (FLAT * size + 1e-100)[:, None, None] * np.eye(H.shape[1])
    return np.asarray(np.linalg.solve(H, g[..., None])[..., 0], dtype=np.float64)


def _offset_left(slope: Slope, objective: Objective) -> Array:
    """By how much, about, a better offset would lower F: half the step times the slope."""
    if not objective.fit_intercept:
        return np.zeros_like(slope.value)
    longest = LONGEST * objective.loss.scale
    if not objective.coupled:
        return 0.5 * np.abs(slope.db) * np.minimum(np.abs(slope.db) / np.maximum(slope.dbb, 1e-100), longest)
    return 0.5 * np.abs(objective.total(slope.db * np.clip(_offset_step(slope), -longest, longest)))


def _newton_step(slope: Slope, objective: Objective) -> tuple[Array, Array]:
    """−H⁻¹g for each problem, with a step of the offset that is not too long."""
    # P = 0 leaves no curvature in t, and no slope either.
    dtt = np.where(slope.dtt > 0, slope.dtt, 1.0)
    if not objective.fit_intercept:
        return -slope.dt / dtt, np.zeros_like(slope.db)
    longest = LONGEST * objective.loss.scale
    if objective.coupled:
        b, tb = (x.reshape(objective.P, -1) for x in (slope.db, slope.dtb))
        S = slope.dbb - tb[:, :, None] * (tb / dtt[:, None])[:, None]
        step = np.clip(-_solve(S, b - tb * (slope.dt / dtt)[:, None]), -longest, longest)
        return -(slope.dt + (tb * step).sum(axis=1)) / dtt, step.ravel()
    schur = slope.dbb - slope.dtb * (slope.dtb / dtt)
    # Where t can do what δ does, leave it to t; where nothing curves at all, take a long step.
    flat = (schur <= FLAT * slope.dbb) & (slope.dbb * longest > np.abs(slope.db))
    reduced = slope.db - slope.dtb * (slope.dt / dtt)
    with np.errstate(over="ignore"):
        wanted = np.where(flat, 0.0, -reduced / np.maximum(np.where(flat, 1.0, schur), 1e-100))
    step_d = np.clip(wanted, -longest, longest)
    return -(slope.dt + slope.dtb * step_d) / dtt, step_d
