"""Proximal Newton on a working set, for penalties with an ℓ1 term: weights that are exactly zero.

An iteration takes the weights that are not zero, and of the others those whose slope exceeds the penalty's,
the steepest first. The second-order model of F in these,

    g·s + ½ sᵀH s + ρ‖w + s‖₁,     H = D + Mᵀdiag(mm)M + Mᵀdiag(mv)B + Bᵀdiag(mv)M + Bᵀdiag(vv)B + 2V(dv)

with B the slope of the variances (see `newton`), is minimised by coordinate descent over their columns of X;
then F falls along s. All other weights cost one pass over X in an iteration, for their slopes.

A kink is smoothed by a variance that is lowered as soon as the steps promise less than it costs. Where F rose
at the full step, the next model leans on the majoriser, as line searches do.
"""

from __future__ import annotations

import numpy as np

from marginout._core.interfaces import Array, Columns, Monitor, Objective, Point, Result
from marginout._kernels import _proximal
from marginout.solvers._linesearch import CERTIFIED, KEEP, LEAN, certify, settle_offset
from marginout.solvers._progress import Progress

#: Weights that may enter at once, and how many times those that are there.
ENTER, GROW = 100, 2
#: The fraction of the first violation at which coordinate descent ends; the same where the model of the last
#: step promised little of F, and where no noise smooths a kink; most sweeps.
SHARE, FINE, NEAR, SWEEPS = 0.1, 0.03, 0.01, 300
#: Roundings of a kink, as fractions of the loss's scale, for the first step from w = 0 and from other
#: weights; the factor by which they are lowered.
COLD, WARM, SHARPEN = 1.0, 0.03, 0.1
#: A rounding ends when a step promises less than this fraction of F.
STAGE = 1e-3
#: The part of the slope along a step by which F must fall, and the most halvings.
FALL, HALVINGS = 1e-4, 40
#: What the offset may keep of its suboptimality at a step, as a fraction of F.
OFFSET = 1e-8
#: Steps converge fast when the model promises less than this fraction of what the one before did. The rest is
#: then about the error of the model at the step, times a factor that text showed; else, what the slope says.
FAST, ERROR = 0.1, 2.0
#: Where no noise smooths a kink, steps get shorter from one rounding to the next: a rounding ends late, when
#: this part of what it costs is left. What is left, over what the last step promised.
PART, CAUTION = 0.1, 100.0
#: F is known to this fraction of itself.
ROUNDING = 1e-14
#: Curvature of a weight, as a fraction of what it has without its part in the offset, that rounding leaves.
FLAT = 1e-10
TINY = 1e-100


def suits(objective: Objective) -> bool:
    """Whether the penalty has a kink at zero."""
    return objective.penalty.l1 > 0


def check(name: str, objective: Objective) -> None:
    """Refuse what this solver cannot do, and other solvers."""
    problem = ""
    if name != "auto":
        problem = f"solver={name!r} needs a smooth penalty: set solver='auto', or l1_ratio=0"
    elif objective.rows is None:
        problem = "l1_ratio > 0 needs all examples in one place: fit to X and y in memory, or set l1_ratio=0"
    elif objective.coupled:
        problem = "l1_ratio > 0 solves one problem per class: set multi_class='ovr', or l1_ratio=0"
    elif objective.rows.design.dependent:
        problem = (
            "l1_ratio > 0 needs noise that is independent for each feature, but here features are corrupted "
            "together: take noise without groups (and missing='deleted'), or set l1_ratio=0"
        )
    if problem:
        raise ValueError(f"{problem}.")


def solve(
    objective: Objective, W: Array, b: Array, *, tol: float, max_iter: int, monitor: Monitor | None = None
) -> Result:
    """Minimise all problems, one after the other, from (W, b)."""
    progress = Progress(objective, tol, max_iter, monitor)
    return progress.solve(objective, W, b, _descend, 1, apart=True)


def _descend(objective: Objective, W: Array, b: Array, progress: Progress) -> None:
    rounding = (WARM if W.any() else COLD) if objective.loss.kinked else objective.rounding
    smooth = objective.rounded(max(rounding, objective.rounding))
    point = settle_offset(smooth, smooth.point(W, b), OFFSET)
    expected, lean, iteration, last = np.inf, 0.0, 0, 0.0
    sharp = objective.traits.noiseless and objective.loss.kinked
    part, stage, caution = (PART, 0.0, CAUTION) if sharp else (1.0, STAGE, 1.0)
    while True:
        G, _ = smooth.gradient(point)
        gap = np.minimum(smooth.certificate(point, G), point.value)
        left = np.minimum(gap, expected)
        excess = _excess(smooth, point)
        if not progress.record(iteration, point, left + excess):
            break
        if smooth.rounding > objective.rounding and left <= np.maximum(part * excess, stage * point.value):
            smooth = objective.rounded(max(SHARPEN * smooth.rounding, objective.rounding))
            point = settle_offset(smooth, smooth.point(point.W, point.b), OFFSET)
            expected = np.inf
            continue
        chosen, all_in = _working_set(point.W[:, 0], np.abs(G[:, 0]), smooth.penalty.l1)
        before = point.value[0]
        share = FINE if sharp or 0.0 < last <= NEAR * before else SHARE
        point, fall, model, length = _step(smooth, point, chosen, lean, share)
        if all_in and length == 1.0 and lean == 0.0:
            error = abs(model - (before - point.value[0]))
            fast = not sharp and model < FAST * last
            expected, last = ERROR * error + FAST * fall if fast else caution * fall, model
        else:
            expected, last = np.inf, 0.0
        lean = LEAN if length < 1.0 else KEEP * lean if lean > 0.05 * LEAN else 0.0
        iteration += 1
        if length == 0.0:  # F does not fall any further in this arithmetic
            if fall <= ROUNDING * point.value[0]:
                progress.exhaust()
            break
    progress.keep(*_certify(objective, smooth, point))


def _working_set(w: Array, slopes: Array, l1: float) -> tuple[Columns, bool]:
    """The weights that are not zero, the steepest of those that should not be; whether these are all."""
    used = np.flatnonzero(w)
    outside = np.flatnonzero((slopes > l1) & (w == 0))
    most = max(ENTER, GROW * len(used))
    if len(outside) <= most:
        return np.sort(np.concatenate([used, outside])), True
    steepest = outside[np.argpartition(-slopes[outside], most)[:most]]
    return np.sort(np.concatenate([used, steepest])), False


def _step(
    smooth: Objective, point: Point, chosen: Columns, lean: float, share: float
) -> tuple[Point, float, float, float]:
    """The point after a step in the chosen weights, its fall by the slope and by the model, its length."""
    shard, state, penalty = smooth.examples, point.state[0], smooth.penalty
    dm, dv, mm, mv, vv = (each[:, 0] for each in shard.derivatives(state))
    bends = dv
    if lean:
        gamma = lean * shard.majorizer(state)[:, 0]
        mm, bends = mm + gamma, dv + 0.5 * gamma
    columns = shard.design.columns(chosen)
    w = np.ascontiguousarray(point.W[chosen, 0])
    examples, parts = np.zeros((len(dm), 6)), np.empty((4, len(chosen)))
    examples[:, 0], examples[:, 1], examples[:, 2] = mm, mv, vv
    _proximal.prepare(*columns, w, dm, dv, bends, examples, parts)
    parts[0] += penalty.gradient(point.W)[chosen, 0]
    parts[1:3] += penalty.curvature(point.W)[chosen, 0]
    corner, slope = max(float(mm.sum()), TINY), float(dm.sum())
    flat = not smooth.fit_intercept or corner <= FLAT * shard.weights.sum() / smooth.loss.scale**2
    if flat:
        corner, slope, parts[3] = 1.0, 0.0, 0.0
    parts[1] = np.maximum(parts[1] - parts[3] ** 2 / corner, np.maximum(FLAT * parts[1], TINY))
    step = np.zeros(len(chosen))
    beta, _ = _proximal.descend(
        *columns, w, parts, penalty.l1, corner, -slope / corner, share, SWEEPS, examples, step
    )
    cross, square = np.zeros(len(dm)), np.zeros(len(dm))
    _proximal.along(*columns, w, step, cross, square)
    P = np.zeros_like(point.W)
    P[chosen, 0] = step
    along = examples[:, [3]] + beta, cross[:, None], square[:, None]
    line = smooth.line(point, P, beta, [along])
    kinks = penalty.l1 * float(np.abs(w + step).sum() - np.abs(w).sum())
    fall = -float(parts[0] @ step + slope * beta + kinks)
    a, c = examples[:, 3] + beta, examples[:, 4]
    bend = float(mm @ (a * a) + 2 * (mv @ (a * c)) + vv @ (c * c) + parts[2] @ (step * step))
    model = max(fall - 0.5 * bend, 0.0)
    t, zero = 1.0, np.zeros(1)
    for _ in range(HALVINGS):
        value = line.expand(np.array([t]), zero).value
        if value[0] <= point.value[0] - FALL * t * fall:
            moved = line.move(np.array([t]), zero, value, zero)
            return settle_offset(smooth, moved, OFFSET), max(fall, 0.0), model, t
        t *= 0.5
    return point, fall, model, 0.0


def _excess(smooth: Objective, point: Point) -> Array:
    """By how much smoothing may raise the minimum of F, (1,); see `newton`."""
    if not smooth.loss.kinked:
        return np.zeros(1)
    return np.asarray(2 * (smooth.rounding * smooth.loss.scale) ** 2 * smooth.variance_slope(point))


def _certify(objective: Objective, smooth: Objective, point: Point) -> tuple[Point, Array]:
    """The point with its best offset, and by how much F can be above its minimum there."""
    low, gap = certify(smooth, point)
    if smooth.rounding <= objective.rounding:
        return low, gap
    least = low.value - gap - _excess(smooth, low)
    end = settle_offset(objective, objective.point(low.W, low.b), CERTIFIED)
    return end, np.clip(end.value - least, 0.0, end.value)
