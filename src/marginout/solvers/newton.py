"""Newton's method for few features, and for small problems without noise.

With noise the Hessians of all problems are formed together, see `_core.design.hessians`:

    H = D + C[Mᵀdiag(mm)M + Mᵀdiag(mv)B + Bᵀdiag(mv)M + Bᵀdiag(vv)B + 2V(dv)],    B rows ∂v_n/∂w

with D the penalty's curvature, bordered by the offset. Their number hardly depends on the data, and no
conditioning is to be feared: F is strongly convex.

Examples in memory whose features are corrupted independently are left to compiled code, `_kernels/_newton.h`,
one problem after the other. Kinked losses without noise are solved by an interior-point method there: a dual
variable for every example, and one such matrix for each of ten to twenty steps.

The multinomial loss has one Hessian of all K·d weights, K times as many as there are features. Compiled
code, `_kernels/_joint.h`, solves for a step by conjugate gradients. A product with the Hessian is two passes
over X, and preconditioned by the blocks of the classes one to three of them are enough.

What compiled code does not know is solved here. Plain SVM, SVR and LR, without noise, are solved to high
accuracy, one after the other. Smooth losses are
taken as they are. A kink is rounded off by δ (a variance of δ² in every score), the smooth problem is solved,
and δ is lowered, each solution starting the next. Dual coordinate descent needs no factorisation, but
converges slowly on features of very different size; this does not mind them.

Of examples in blocks, any number of them, the Hessians of d² numbers are added up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from marginout._core.interfaces import Array, Monitor, Objective, Point, Result
from marginout._core.objective import dots, settled
from marginout._core.shard import ROUNDING as UNSMOOTHED
from marginout._core.threads import one_blas_thread
from marginout._kernels import _newton
from marginout.solvers import dual
from marginout.solvers._linesearch import (
    CERTIFIED,
    LONGEST,
    ROUNDING,
    certify,
    minimize_line,
    settle_offset,
    starting_point,
)
from marginout.solvers._progress import Progress, go_on, total_history
from marginout.solvers._smoothing import roundings
from marginout.solvers._systems import Cholesky, Woodbury, bordered_steps

#: Roundings of the kink, as fractions of the loss's scale; those below FINE only where `tol` asks.
ROUNDINGS = roundings(1.0, 1e-9, per_decade=2)
FINE = 1e-6
#: A stage ends when a step would lower F by less than this fraction of it; fine ones go further.
STAGE, LAST = 1e-6, 1e-22
#: After so many steps a stage ends as well: the next may do better. A smooth loss has no next, and goes
#: on while F falls.
STEPS = 30
#: Multiplications that all the factorisations of a fit may take.
AFFORDABLE = 2e9
#: Most features of examples in blocks. Conjugate gradients take a few dozen passes for a smooth loss, and a
#: Hessian of many features costs more. For a kinked one L-BFGS takes a thousand, which at 1000 dense
#: features last as long as Newton's sixty Hessians, and may never get close: the limit is their 8 MB.
NARROW, NARROW_KINKED = 256, 1024
#: Roundings of a kink for the first step from w = 0, where all examples should have curvature, and from other
#: weights; the factor by which they are lowered.
COLD, WARM, SHARPEN = 1.0, 0.03, 0.03
#: How much the suboptimality may exceed half the gain of a step; before any step has been taken.
SAFETY, EARLY = 2.5, 5.0
#: What the offset may keep of its suboptimality after a step: the next one moves it, too.
ANY = 1.0
#: Steps that are taken for a better certificate, while it is above this fraction of F.
POLISH, LITTLE = 3, 0.01
#: The smallest ‖dW‖² of a step: of a smaller one the curvature underflows.
SMALLEST = 1e-200
#: A batch is packed anew once this fraction of it has converged.
PACK = 0.5
#: Numbers of the matrices that are formed together: 32 MB. And most problems of a batch.
ROOM, WIDTH = 2**22, 64
#: Most features with noise.
MOST = 1024
#: A step that would lower F by this fraction of the tolerance is the last, whatever the gradient says.
TINY = 1e-6
EPS = np.finfo(float).eps
#: Most features for which `auto` takes Newton's method.
FEW = 320
#: Nanoseconds on one core (EPYC): of a Hessian, by entry of X and feature, dense, or by entry and entry of
#: its row, CSR; of a factorisation, by d³. Hessians of a fit. On digits (1,797 × 61) a step takes 0.37 ms.
HESSIAN_DENSE, HESSIAN_SPARSE, FACTOR, HESSIANS = 0.055, 0.5, 0.15, 10
#: The share of non-zeros from which on CSR takes longer than dense rows would.
DENSE = 0.3
#: Most weights of a joint problem: there, ncg is as fast on well-conditioned data (10 classes
#: × 200 features, 30 × 100). On tables they take two to ten times as long. CSR is unpacked: the share of
#: non-zeros from which on, or number of features up to which, that pays.
JOINT, DENSE_JOINT, NARROW_JOINT = 2048, 0.1, 48
#: Rows to which the examples of a class are filled up there, and how many times as many entries of R classes'
#: matrices as entries of X may come of it: with hundreds of small classes ncg takes less.
PANEL, MANY = 64, 16
#: Nanoseconds that conjugate gradients take by entry of X, and in any case: 60 iterations of two passes.
#: Ten are enough for well-conditioned data, but on w8a (49,749 × 300) they are 165.
PASSES, LITTLE_WORK = 100.0, 3e6
#: What these are multiplied by for losses with a kink.
MORE = 2.0
#: Kinked losses without noise are solved to this fraction of F where that is cheap: of an error ε in F, up
#: to √ε is left in the weights.
EXACT = 1e-12
#: Largest and smallest sizes of features of compiled code, which has no care for overflow.
LARGE, SMALL = 1e50, 1e-50
#: Rounding errors of a Hessian, compared with the 1 of the penalty, that steps are good with.
HIDDEN = 1e-5
#: Most iterations of the compiled kernel: a problem that takes more will not be solved.
LIMIT = 1000


def suits(objective: Objective) -> bool:
    """Whether there is no noise, and a few dozen factorisations are cheap."""
    traits = objective.traits
    if not traits.noiseless or objective.coupled:
        return False
    if objective.rows is None:
        return narrow(objective) and not objective.loss.kinked
    if cheap(objective):
        return True
    return affordable(objective) and (objective.penalty.self_conjugate or not objective.loss.kinked)


def affordable(objective: Objective) -> bool:
    """Whether a few dozen factorisations are cheap, for problems of one output with all examples here."""
    small, large = sorted((objective.traits.n, objective.traits.d))
    cost = objective.P * 60.0 * small * small * large
    return cost <= AFFORDABLE and objective.rows is not None and not objective.coupled


def cheap(objective: Objective) -> bool:
    """Whether `auto` takes Newton's method: its Hessians cost about as much as some dozen passes over X."""
    traits = objective.traits
    if traits.d > FEW or not compiled(objective):
        return False
    row = traits.nnz / max(traits.n, 1)
    if objective.coupled:
        R = objective.loss.outputs
        padded = traits.n + PANEL * R
        if traits.d * R > JOINT or padded * R > MANY * traits.n * traits.d:
            return False
        return traits.d <= max(NARROW_JOINT, row / DENSE_JOINT)
    hessian = HESSIAN_DENSE * traits.d if row >= DENSE * traits.d else HESSIAN_SPARSE * row
    passes = PASSES * (MORE if objective.loss.kinked else 1.0)
    return HESSIANS * (hessian * traits.nnz + FACTOR * traits.d**3) <= passes * traits.nnz + LITTLE_WORK


def check(objective: Objective) -> None:
    """Refuse what this solver cannot do."""
    if objective.traits.d > MOST:
        raise ValueError(
            f"solver='newton' forms a matrix of {objective.traits.d} × {objective.traits.d} for every class, "
            f"and X may have at most {MOST} features: use solver='auto'."
        )
    if objective.coupled and not compiled(objective):
        raise ValueError(
            "solver='newton' solves joint losses only where multi_class='multinomial', X is in memory, with "
            "entries that are neither all zero nor near overflow, the noise corrupts each feature by itself, "
            "and fit_intercept=True if features are far from zero: use solver='auto'."
        )


def narrow(objective: Objective) -> bool:
    """Whether Hessians of examples in blocks are small enough to be made, and sent, some dozen times."""
    return objective.traits.d <= (NARROW_KINKED if objective.loss.kinked else NARROW)


def solve(
    objective: Objective, W: Array, b: Array, *, tol: float, max_iter: int, monitor: Monitor | None = None
) -> Result:
    """Minimise all problems, one after the other, from (W, b); in blocks the loss must be smooth.

    BLAS keeps to one thread: with more, some of its releases round a factorisation differently from one
    call to the next, and on a busy machine its threads wait for one another.
    """
    if compiled(objective):
        result = _solve_compiled(objective, W, b, tol, max_iter, monitor)
        late = np.flatnonzero(~result.converged)
        if objective.traits.noiseless and late.size and result.n_iter < max_iter and not objective.coupled:
            # Features of very different size, and values at the edge of overflow.
            return go_on(_solve_here, objective, result, late, (W, b), tol, max_iter, monitor)
        return result
    return _solve_here(objective, W, b, tol=tol, max_iter=max_iter, monitor=monitor)


def _solve_here(
    objective: Objective, W: Array, b: Array, *, tol: float, max_iter: int, monitor: Monitor | None = None
) -> Result:
    """The same without compiled code."""
    progress = Progress(objective, tol, max_iter, monitor)
    with one_blas_thread():
        if objective.traits.noiseless:
            descend = _descend_blocks if objective.rows is None else _descend
            return progress.solve(objective, W, b, descend, size=1)
        return progress.solve(objective, W, b, _descend_together, batch(objective))


def batch(objective: Objective) -> int:
    """How many problems are solved at once."""
    return max(1, min(objective.P, WIDTH, ROOM // objective.traits.d**2))


def compiled(objective: Objective) -> bool:
    """Whether the compiled kernel knows the problems: examples here, independent noise, and ½‖w‖²."""
    rows, loss = objective.rows, objective.loss
    known = loss.multinomial if objective.coupled else loss.kernel is not None
    if rows is None or objective.traits.d > MOST or not known:
        return False
    table = rows.design.table() if objective.penalty.self_conjugate else None
    if table is None:
        return False
    X, scale, *_, power, _ = table
    entries = X.data if sp.issparse(X) else X
    most = max(float(entries.max()), -float(entries.min())) if entries.size else 1.0
    least, most = most * float(np.abs(scale).min()), most * float(np.abs(scale).max())
    if not (least > SMALL and most < LARGE):
        return False
    if objective.coupled:  # there, the offset takes the features' mean away
        return objective.fit_intercept or not objective.traits.far
    if objective.traits.noiseless:
        return not objective.traits.far or (objective.fit_intercept and not sp.issparse(X))
    # Additive noise hides how far from zero features are. The Hessian's rounding must not hide their
    # deviations, nor the penalty's 1.
    weight = float(rows.weights.sum(axis=0).max())
    hidden = objective.loss.kinked or EPS * weight * most**2 > HIDDEN
    return bool(power and not (objective.traits.far and hidden))


def _solve_compiled(
    objective: Objective, W: Array, b: Array, tol: float, max_iter: int, monitor: Monitor | None
) -> Result:
    """One problem after the other, in compiled code."""
    rows, loss, traits, P = objective.examples, objective.loss, objective.traits, objective.P
    table = rows.design.table()
    assert table is not None
    X, *moments, factors = table
    if sp.issparse(X):
        data, scale = np.ascontiguousarray(X.data, dtype=np.float64), moments[0]
        data = data if np.all(scale == 1.0) else data * scale[X.indices]
        indices, indptr = X.indices.astype(np.int32, copy=False), X.indptr.astype(np.int64, copy=False)
        parts = data[:, None], indices, indptr
    else:
        parts = X, None, None
    factors = np.array(np.broadcast_to(factors, objective.K), dtype=float)
    W, b = np.array(W, order="C"), np.array(b)
    histories: list[list[float]] = []
    known = np.zeros((2, P))
    if monitor is not None and P > 1:
        known[:] = objective.point(W, b).value  # F is at most so far above its minimum
    shown = 0

    def solution() -> tuple[Array, Array]:
        return W.copy(), b.copy()

    def watch(p: int, iteration: int, value: float, left: float) -> bool:
        """Every iteration is shown once, of the problem that takes it first; the last when all are solved."""
        nonlocal shown
        known[:, p] = value, left
        seen = P > 1 and (iteration < 0 or iteration <= shown)
        if not seen:
            shown = abs(iteration)
        assert monitor is not None
        total, distance = map(float, known.sum(axis=1))
        return bool(monitor(0 if seen else shown, total, distance, solution))

    limit, watcher = min(max_iter, LIMIT), None if monitor is None else watch
    if objective.coupled:
        assert rows.design.classes is not None
        own = rows.weights if rows.weights.shape[1] == 1 else rows.weights[:, :: loss.outputs].copy()
        results = _newton.solve_joint(
            *parts, moments, *rows.design.classes, own, factors, W, b,
            objective.fit_intercept, (tol, SAFETY, EARLY, LITTLE, POLISH), limit, watcher, histories,
        )  # fmt: skip
    else:
        boxes = (
            _boxes(rows) if loss.kinked and traits.noiseless and objective.rounding <= UNSMOOTHED else None
        )
        far, little = traits.far and traits.noiseless, tol if traits.noiseless else LITTLE
        tight = min(tol, EXACT) if affordable(objective) else tol
        results = _newton.solve(
            *parts, moments, loss.kernel, rows.Y, rows.weights, factors, W, b, boxes,
            (loss.kinked, objective.fit_intercept, far, loss.scale, objective.rounding),
            (tol, COLD, WARM, SHARPEN, SAFETY, EARLY, STAGE, little, POLISH, tight),
            limit, watcher, histories,
        )  # fmt: skip
    (value, gap, left, _), (converged, iterations, stopped) = results
    begun = len(histories)
    if begun < P:  # stopped before: what has not begun stays where it was
        value[begun:] = gap[begun:] = left[begun:] = known[0, begun:]
        histories += [[end] for end in value[begun:].tolist()]
    n_iter = int(max(1, iterations.max()))
    if monitor is not None and P > 1 and not stopped.any():
        stopped[-1] = monitor(n_iter, float(value.sum()), float(left.sum()), solution)
    done = converged.astype(bool) | stopped.any()
    return Result(W, b, value, gap, done, n_iter, total_history(histories, value), left)


def _boxes(rows: Any) -> tuple[Array, float, Array, Array]:
    """Targets, ε and the bounds of the dual variables of all problems."""
    boxes = [
        rows.loss.select(np.array([k])).box(rows.Y[:, k], rows.weights[:, min(k, rows.weights.shape[1] - 1)])
        for k in range(rows.K)
    ]
    target = np.column_stack([box.target for box in boxes])
    low, high = np.column_stack([box.low for box in boxes]), np.column_stack([box.high for box in boxes])
    return target, boxes[0].epsilon, low, high


def _descend(objective: Objective, W: Array, b: Array, progress: Progress) -> None:
    smaller = Cholesky if objective.traits.d <= objective.traits.n else Woodbury
    steps = 0
    for rounding in ROUNDINGS if objective.loss.kinked else [objective.rounding]:
        smooth = objective.rounded(rounding)
        point = smooth.point(W, b)
        for step in range(progress.max_iter - steps):
            steps += 1
            before = point.value[0]
            (G, g), a = smooth.gradient(point), smooth.examples.second_derivatives(point.state[0])
            D = smooth.penalty.curvature(point.W)
            dW, db = smaller(smooth.examples.design, D, a, smooth.fit_intercept).step(G, g)
            gain = -(dots(G, dW) + g * db)
            point = minimize_line(smooth.line(point, dW, db), LAST)
            if gain[0] <= (LAST if rounding < FINE else STAGE) * point.value[0]:
                break
            falls = before - point.value[0] > ROUNDING * before
            if step + 1 >= STEPS and (objective.loss.kinked or not falls):
                break
        W, b = point.W, point.b
        if objective.loss.kinked:
            point, gap = dual.certify(objective, W, -smooth.examples.slopes(point.state[0])[0])
        else:
            point, gap = certify(smooth, point)
        left = gap if objective.loss.kinked else np.minimum(gap, gain)
        if steps >= progress.max_iter or (rounding < FINE and left[0] <= progress.tol * point.value[0]):
            break
    else:
        # Finer roundings are lost in the arithmetic's own; so is a gain too small to be seen in F or in the
        # losses. There is no more to gain than F.
        unseen = ROUNDING * point.value[0] + EPS * objective.loss.scale * objective.examples.weights.sum()
        if min(gain[0], point.value[0]) <= unseen:
            progress.exhaust()
    progress.record(steps, point, left)
    progress.keep(point, gap)


def _descend_blocks(objective: Objective, W: Array, b: Array, progress: Progress) -> None:
    """Minimise one problem without noise whose examples are in blocks; the loss is smooth."""
    point = starting_point(objective, W, b)
    for iteration in range(1, progress.max_iter + 1):
        H, cross, corner, G, g, _ = objective.hessian(point)
        np.einsum("kdd->kd", H)[...] += objective.penalty.curvature(point.W).T
        dW, db = bordered_steps(H, cross, corner, G, g, objective.fit_intercept)
        gain = -(dots(G, dW) + g * db)
        # The certificate itself: once Newton's steps are short, it costs one or two more of them.
        left = np.minimum(objective.certificate(point, G), gain / TINY)
        more = progress.record(iteration, point, left)
        before, point = point, minimize_line(objective.line(point, dW, db), LAST)
        if not more:
            break
    # The last step is there, and of an error ε in F, √ε is left in the weights. At a kink it may lead astray.
    ends = [certify(objective, end) for end in (before, point)]
    progress.keep(*min(ends, key=lambda end: float(end[1][0])))


def _descend_together(objective: Objective, W: Array, b: Array, progress: Progress) -> None:
    """Minimise some problems at once; each has a matrix of its own.

    A kink is smoothed by a variance that is lowered as soon as the steps promise less than it costs. So
    weights that belong at 0, one of them or all, get there: √v is a cone, whose tip no gradient shows. What
    is recorded on the way is the smoothed F, an upper bound of F that falls with every step.
    """
    smooth = objective.rounded(_first_rounding(objective, W, b, progress.tol))
    point = smooth.point(W, b)
    promised, before = np.zeros(objective.P), point.value
    for iteration in range(progress.max_iter + 1):
        dW, db, gain, excess = _step(smooth, point)
        # Half of the gain is what a step promises; there is more where the last one brought more.
        brought = np.where(
            promised > 0, (before - point.value) / np.where(promised > 0, promised, 1.0), EARLY
        )
        left = 0.5 * np.maximum(SAFETY, brought) * gain
        more = progress.record(iteration, settled(point), left + excess)
        promised, before = 0.5 * gain, point.value
        if progress.stopped():
            break  # the point that was shown is the result
        # The step is there, whether it is needed or not: of an error ε in F, √ε is left in the weights.
        point = minimize_line(smooth.line(point, dW, db), ANY)
        if not more:
            break
        parted = progress.part(PACK)
        if parted is not None:
            done, going = parted
            ends = smooth.select(done), smooth.restrict(point, done)
            progress.keep(*_certify(objective.select(done), *ends, POLISH), done)
            progress.active = progress.active[going]
            point = smooth.restrict(point, going)
            objective, smooth = objective.select(going), smooth.select(going)
            left, excess, promised, before = left[going], excess[going], promised[going], before[going]
        if smooth.rounding > objective.rounding and np.all(left <= np.maximum(excess, STAGE * point.value)):
            smooth = objective.rounded(max(SHARPEN * smooth.rounding, objective.rounding))
            point = smooth.point(point.W, point.b)
            promised = np.zeros(objective.P)
    limited = progress.stopped() or iteration == progress.max_iter
    progress.keep(*_certify(objective, smooth, point, 0 if limited else POLISH))


def _first_rounding(objective: Objective, W: Array, b: Array, tol: float) -> float:
    """The rounding of a kink to begin with: fine enough for the end if (W, b) may be the solution."""
    if not objective.loss.kinked or objective.rounding > UNSMOOTHED:  # of a continuation
        return objective.rounding
    if not W.any():
        return COLD
    rounding = WARM
    while rounding > UNSMOOTHED:
        smooth = objective.rounded(rounding)
        point = smooth.point(W, b)
        if np.all(_excess(smooth, smooth.variance_slope(point)) <= 0.5 * tol * point.value):
            _, _, gain, excess = _step(smooth, point)
            return rounding if np.all(SAFETY * gain + excess <= tol * point.value) else WARM
        rounding *= SHARPEN
    return WARM


def _step(smooth: Objective, point: Point) -> tuple[Array, Array, Array, Array]:
    """Newton's steps in w and b, −∇F·step, and by how much smoothing may raise the minimum."""
    H, cross, corner, G, g, dv = smooth.hessian(point)
    np.einsum("kdd->kd", H)[...] += smooth.penalty.curvature(point.W).T
    dW, db = bordered_steps(H, cross, corner, G, g, smooth.fit_intercept)
    # Where hardly an example curves, the offset's step has no bound: then the weights go alone, and the
    # line moves the offset.
    far = np.abs(db) > LONGEST * smooth.loss.scale
    if far.any():
        alone, _ = bordered_steps(H, cross, corner, G, g, False)
        dW, db = np.where(far, alone, dW), np.where(far, 0.0, db)
    dW = np.where(dots(dW, dW) > SMALLEST, dW, 0.0)
    return dW, db, -(dots(G, dW) + g * db), _excess(smooth, dv)


def _excess(smooth: Objective, dv: Array) -> Array:
    """By how much smoothing may raise the minimum of F, given Σ C·s·∂φ/∂v at a point near it, (K,).

    A kinked loss is a supremum of linear functions of the mean and the vector of deviations, which has one
    more entry δ here. Without it the one that holds at this point falls by 2δ²·∂φ/∂v.
    """
    if not smooth.loss.kinked:
        return np.zeros_like(dv)
    return np.asarray(2 * (smooth.rounding * smooth.loss.scale) ** 2 * dv)


def _certify(objective: Objective, smooth: Objective, point: Point, steps: int) -> tuple[Point, Array]:
    """The point with its best offset, and by how much F can be above its minimum there.

    For no steps it stays as it is. At most so many steps more are taken where the certificate says little:
    the gradient is large where F is much curved, such as near w = 0.
    """
    low, gap = certify(smooth, point)
    for _ in range(steps):
        if np.all(gap <= LITTLE * low.value):
            break
        dW, db, *_ = _step(smooth, low)
        after, left = certify(smooth, minimize_line(smooth.line(low, dW, db), ANY))
        if np.all(left >= gap):
            break
        low, gap = after, left
    if smooth.rounding <= objective.rounding:
        return low, gap
    least = low.value - gap - _excess(smooth, smooth.variance_slope(low))
    if steps:
        end = settle_offset(objective, objective.point(low.W, low.b), CERTIFIED)
    else:
        end = objective.point(point.W, point.b)
    return end, np.clip(end.value - least, 0.0, end.value)
