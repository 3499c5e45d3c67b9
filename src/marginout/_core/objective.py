"""F = penalty + Σ shards, for a batch of P problems with K outputs that share X.

    F_p(w, b) = penalty(w) + Σ_n C·s_n φ(m_n, v_n; y_n)        m = M w + b,  v = V (w∘w)

A :class:`Shard` holds examples and answers for their losses. An :class:`Objective` adds up the shards
through an executor, and adds the penalty. In memory there is one shard, and its methods are called directly.
The offset is neither corrupted nor penalised. It is optimised away wherever a point is settled, so that the
penalty's certificate holds for w alone.

Along w + t·p the mean is linear and the variance quadratic in t: after one pass for M p, V (w∘p) and
V (p∘p), any number of trial steps costs O(n) and no pass.

The methods of a shard are pure: a state is a function of the shard and of the vectors that it was made with.
An executor that loses a state can make it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from marginout._core.design.groups import HEAVIEST, Grouping
from marginout._core.design.preconditioners import Diagonal, centred, with_mean
from marginout._core.interfaces import (
    Array,
    Columns,
    Design,
    Executor,
    Handles,
    Penalty,
    Preconditioner,
    Slope,
    State,
)
from marginout._kernels import _plane
from marginout.losses import Loss, Plane

T = TypeVar("T", bound=np.generic)

#: Fraction of the loss's scale that is added to the deviation of every score. Where there is no variance, the
#: kink of the loss is smoothed by this much and no more.
ROUNDING = 1e-10
#: Mean square of a feature below which it is not divided by: the square of the quotient would overflow.
FAINT = 1e-250


def dots(A: Array, B: Array) -> Array:
    """A_k·B_k for every column, (K,)."""
    out = np.zeros(A.shape[1])
    _plane.dots(np.ascontiguousarray(A), np.ascontiguousarray(B), out)
    return out


@dataclass(frozen=True)
class View:
    """Which outputs of a shard are meant (None: all), and the fraction by which kinks are smoothed."""

    columns: Columns | None
    rounding: float


class Shard:
    """Σ_n C·s_n φ(m_n, v_n; y_n) over some examples.

    Parameters
    ----------
    design : Design
    loss : Loss
    Y : (n, K) targets
    weights : (n, 1) or (n, K), C times the weight of each example
    rounding : float, by which fraction of the loss's scale its kinks are smoothed
    """

    def __init__(
        self, design: Design, loss: Loss, Y: Array, weights: Array, rounding: float = ROUNDING
    ) -> None:
        self.design, self.loss, self.Y, self.weights = design, loss, Y, weights
        self.rounding, self.K = rounding, Y.shape[1]
        self.floor = (rounding * loss.scale) ** 2
        rows = max(1, loss.chunk // self.K)
        self._chunks = [slice(i, i + rows) for i in range(0, len(Y), rows)]

    def view(self, view: View) -> Shard:
        """The same shard for some of the outputs, or with other smoothing."""
        columns = view.columns
        if columns is None:
            if view.rounding == self.rounding:
                return self
            return Shard(self.design, self.loss, self.Y, self.weights, view.rounding)
        weights = self.weights
        if weights.shape[1] > 1:
            weights = np.ascontiguousarray(weights[:, columns])
        Y = np.ascontiguousarray(self.Y[:, columns])
        return Shard(self.design.select(columns), self.loss, Y, weights, view.rounding)

    def serial(self) -> Shard:
        """The same shard for a caller that has threads of its own."""
        other = copy(self)
        other.design = self.design.serial()
        return other

    # States: what stays with the shard.

    def moments(self, W: Array, b: Array) -> State:
        """m and v at (W, b): one pass over X, or none at W = 0."""
        m, v = self.design.moments(W) if W.any() else (np.zeros_like(self.Y), np.zeros_like(self.Y))
        m += b
        v += self.floor
        return m, v

    def along(self, q: Array | float, *directions: Array) -> State:
        """M p + q, V (w∘p) and V (p∘p) of W and P: one pass over X. Nothing for the offset alone."""
        if not directions:
            return ()
        a, c, e = self.design.line(*directions)
        return (a + q if np.any(q) else a), c, e

    def lifted(self, state: State) -> State:
        """m and v with the variance that smooths the kinks added."""
        m, v = state
        return m, v + self.floor

    def moved(self, state: State, along: State, t: Array, delta: Array) -> State:
        """m and v at a step (t, δ)."""
        mean, variance = self.design.scores(2, self.K)
        self._plane(state, along, t, delta, slice(None)).fill_moments(mean, variance)
        return mean, variance

    # Sums over the examples.

    def value(self, state: State) -> Array:
        """Σ s·φ, (K,)."""
        zero = np.zeros(self.K)
        return np.asarray(self.expand(state, (), zero, zero)[0])

    def targets(self) -> tuple[Array, Array]:
        """Σ s and Σ s·target, (K,) each."""
        target = self.loss.least_squares(self.Y)
        return np.broadcast_to(self.weights, target.shape).sum(axis=0), self._weighted_sum(target)

    def least_squares(self, total: Array, centre: Array) -> tuple[Array, Array]:
        """Diagonal and right-hand side of a least-squares problem with weights s/total, (d, K) each."""
        s, residual = self._residual(total, centre)
        squares, variance = self.design.diagonal(s)
        zero = np.zeros((self.design.d, self.K))
        return squares + variance, self.design.pullback(zero, residual, np.zeros_like(residual))

    def fit_line(self, along: State, total: Array, centre: Array) -> tuple[Array, Array]:
        """Σ residual·a and Σ s·a along a line, (K,) each."""
        s, residual = self._residual(total, centre)
        return np.einsum("nk,nk->k", residual, along[0]), (s * along[0]).sum(axis=0)

    def spread(self, along: State, total: Array, middle: Array) -> Array:
        """Σ s·((a − middle)² + e) along a line, (K,)."""
        a, _, e = along
        return np.asarray((self.weights / total * ((a - middle) ** 2 + e)).sum(axis=0))

    def gradient(self, state: State, W: Array) -> tuple[Array, Array]:
        """The gradient in w, (d, K), and in b, (K,): one pass over X."""
        dm, dv = self.slopes(state)
        return self.design.pullback(W, dm, dv), dm.sum(axis=0)

    def diagonal(self, state: State) -> tuple[Array, Array]:
        """The diagonal of the majoriser's matrix, of the means and of the noise, (d, K) each."""
        return self.design.diagonal(self.clipped_curvature(state))

    def centre(self, state: State) -> tuple[Array, Array]:
        """Mᵀa, (d, K), and Σa, (K,), for the majoriser's curvatures a."""
        return self.design.centre(self.clipped_curvature(state))

    def grams(self, state: State, step: int) -> tuple[Array, ...]:
        """The same diagonal, (d, K), and the blocks of groups of features by a sample of rows."""
        a = self.clipped_curvature(state)
        squares, variance = self.design.diagonal(a)
        return squares + variance, *self.design.group_grams(a, step)

    def hessian(self, state: State) -> tuple[Array, Array]:
        """Of one output without noise, in (w, b): (d + 1, d + 1). And the gradient, (d + 1, 1)."""
        d = self.design.d
        a, dm = self.second_derivatives(state), self.slopes(state)[0]
        both = np.hstack([a, dm])
        H, g = np.empty((d + 1, d + 1)), np.empty((d + 1, 1))
        H[:d, :d] = self.design.gram(a[:, 0])
        H[:d, d:], g[:d] = np.split(self.design.pullback(np.zeros((d, 2)), both, np.zeros_like(both)), 2, 1)
        H[d, :d] = H[:d, d]
        H[d, d], g[d] = both.sum(axis=0)
        return H, g

    def expand(self, state: State, along: State, t: Array, delta: Array) -> Array:
        """Σ s·φ and its derivatives in (t, δ) at a trial step, (5 + R, K); see `Loss.add_expansion`."""

        def add(rows: slice, sums: Array) -> None:
            plane = self._plane(state, along, t, delta, rows)
            self.loss.add_expansion(plane, self.Y[rows], self.weights[rows], sums)

        return self._sum_chunks(5 + self.loss.outputs, add)

    def majorize(self, state: State, along: State, t: Array, delta: Array) -> Array:
        """The majoriser's second derivatives in (t, δ) at a trial step, (2 + R, K)."""

        def add(rows: slice, sums: Array) -> None:
            plane = self._plane(state, along, t, delta, rows)
            self.loss.add_majorizer(plane, self.Y[rows], self.weights[rows], sums)

        return self._sum_chunks(2 + self.loss.outputs, add)

    # Of every example.

    def slopes(self, state: State) -> tuple[Array, Array]:
        """C·s·∂φ/∂m and C·s·∂φ/∂v, each (n, K)."""
        m, v = state
        dm, dv = self.design.scores(2, self.K)
        for rows in self._chunks:
            self.loss.fill_slopes(m[rows], v[rows], self.Y[rows], dm[rows], dv[rows])
        dm *= self.weights
        dv *= self.weights
        return dm, dv

    def majorizer(self, state: State) -> Array:
        """C·s·γ of the majoriser, (n, K)."""
        m, v = state
        (gamma,) = self.design.scores(1, self.K)
        for rows in self._chunks:
            gamma[rows] = self.loss.majorizer(m[rows], v[rows], self.Y[rows])
        gamma *= self.weights
        return gamma

    def clipped_curvature(self, state: State) -> Array:
        """The majoriser's curvatures, at most those that hold for steps as long as the loss's grain."""
        gamma = self.majorizer(state)
        return np.minimum(gamma, self.weights / self.loss.grain, out=gamma)

    def second_derivatives(self, state: State) -> Array:
        """C·s·∂²φ/∂m², (n, K)."""
        m, v = state
        jets = (self.loss.jet(m[rows], v[rows], self.Y[rows]) for rows in self._chunks)
        return np.asarray(self.weights * np.maximum(np.concatenate([jet.dmm for jet in jets]), 0.0))

    def _plane(self, state: State, along: State, t: Array, delta: Array, rows: slice) -> Plane:
        m, v = state[0][rows], state[1][rows]
        if along:
            a, c, e = (x[rows] for x in along)
        else:
            a = c = e = np.zeros_like(m)
        return Plane(m, v, a, c, e, t, delta, self.floor)

    def _residual(self, total: Array, centre: Array) -> tuple[Array, Array]:
        s = np.ascontiguousarray(np.broadcast_to(self.weights / total, self.Y.shape))
        return s, s * (self.loss.least_squares(self.Y) - centre)

    def _sum_chunks(self, count: int, add: Callable[[slice, Array], None]) -> Array:
        """The sums, (count, K), to which `add(rows, sums)` adds for all rows, on all cores."""
        threads = min(self.design.threads(self.Y.size), len(self._chunks))

        def share(first: int) -> Array:
            sums = np.zeros((count, self.K))
            for rows in self._chunks[first::threads]:
                add(rows, sums)
            return sums

        if threads == 1:
            return share(0)
        with ThreadPoolExecutor(threads) as pool:
            return np.asarray(sum(pool.map(share, range(threads))))

    def _weighted_sum(self, values: Array) -> Array:
        """Σ_n s_nk · values_nk, (K,)."""
        if self.weights.shape[1] == 1:
            return np.asarray(self.weights[:, 0] @ values)
        return np.asarray(np.einsum("nk,nk->k", self.weights, values))


def _columns(state: State, columns: Columns) -> State:
    return tuple(np.ascontiguousarray(part[:, columns]) for part in state)


@dataclass(frozen=True)
class Viewed:
    """A task for some of a shard's outputs."""

    task: Callable[..., Any]
    view: View

    def __call__(self, shard: Shard, *args: Any) -> Any:
        return self.task(shard.view(self.view), *args)

    @property
    def __name__(self) -> str:
        return self.task.__name__


class InProcess:
    """The executor of one shard in this process: a direct call."""

    def map(self, task: Callable[..., Any], handles: Sequence[Handles], *args: Any) -> Handles:
        return [task(*(handle[0] for handle in handles), *args)]

    def sum(self, task: Callable[..., Any], handles: Sequence[Handles], *args: Any) -> Any:
        return task(*(handle[0] for handle in handles), *args)


class Traits(NamedTuple):
    """What solvers ask of all examples together."""

    n: int
    d: int
    nnz: int
    noiseless: bool
    #: Whether features lie far from zero.
    far: bool
    #: Groups of features that are corrupted together.
    grouping: Grouping | None


@dataclass
class Point:
    """Weights and offsets, with F there; `state` holds the moments m and v of every shard.

    `offset_left` estimates by how much a better offset would lower F; inf where nobody looked.
    """

    W: Array
    b: Array
    value: Array
    offset_left: Array
    state: Handles


class Objective:
    """F of the module's docstring.

    Parameters
    ----------
    penalty : Penalty
    executor : Executor
    shards : handles of the shards
    traits : Traits
    loss : Loss
    K : int, the number of outputs
    fit_intercept : bool
    rows : Shard or None
        The shard, if there is one, in this process: the only door to its examples.
    """

    def __init__(
        self,
        penalty: Penalty,
        executor: Executor,
        shards: Handles,
        traits: Traits,
        loss: Loss,
        K: int,
        fit_intercept: bool,
        rows: Shard | None = None,
    ) -> None:
        self.penalty, self.executor, self.traits, self.loss = penalty, executor, traits, loss
        self.fit_intercept, self.rows, self._shards = fit_intercept, rows, shards
        self._view = View(None, ROUNDING if rows is None else rows.rounding)
        self._set_size(K)

    @classmethod
    def of(cls, penalty: Penalty, shard: Shard, fit_intercept: bool) -> Objective:
        """F of examples that are all in one shard of this process."""
        design = shard.design
        traits = Traits(design.n, design.d, design.nnz, design.noiseless, design.far(), design.grouping)
        return cls(penalty, InProcess(), [shard], traits, shard.loss, shard.K, fit_intercept, shard)

    def _set_size(self, K: int) -> None:
        self.K, self.P = K, K // self.loss.outputs

    @property
    def rounding(self) -> float:
        """The fraction of the loss's scale by which kinks are smoothed."""
        return self._view.rounding

    @property
    def coupled(self) -> bool:
        """Whether a problem has several outputs."""
        return self.loss.outputs > 1

    @property
    def examples(self) -> Shard:
        """The shard of an objective whose examples are all in this process."""
        if self.rows is None:
            raise TypeError("This needs all examples in one place, but they are in blocks.")
        return self.rows

    @property
    def batch(self) -> int | None:
        """How many problems are best solved together; None: all of them."""
        return None if self.rows is None else self.rows.design.batch

    @property
    def threads(self) -> int:
        """How many threads a pass over X for all outputs is worth."""
        return 1 if self.rows is None else self.rows.design.threads(self.traits.nnz * self.K)

    def serial(self) -> Objective:
        """The same objective for a caller that has threads of its own."""
        if self.rows is None:
            return self
        return Objective.of(self.penalty, self.rows.serial(), self.fit_intercept)

    # Outputs and problems. Where every problem has one output, both are the same.

    def total(self, values: Array) -> Array:
        """Σ over a problem's outputs, (K,) to (P,)."""
        return values.reshape(self.P, -1).sum(axis=1) if self.coupled else values

    def spread(self, values: NDArray[T]) -> NDArray[T]:
        """A problem's value for each of its outputs, (P,) to (K,)."""
        return np.repeat(values, self.loss.outputs) if self.coupled else values

    def columns(self, problems: Columns) -> Columns:
        """The outputs of some problems."""
        R = self.loss.outputs
        return (R * problems[:, None] + np.arange(R)).ravel() if self.coupled else problems

    def dots(self, A: Array, B: Array) -> Array:
        """A·B for every problem, (P,)."""
        return self.total(dots(A, B))

    def select(self, problems: Columns) -> Objective:
        """The same objective for some of the problems."""
        if len(problems) == self.P:  # in their order: nobody asks for another
            return self
        return self._viewed(columns=self.columns(problems))

    def rounded(self, rounding: float) -> Objective:
        """The same objective with the loss's kinks smoothed by a fraction of its scale."""
        return self if rounding == self.rounding else self._viewed(rounding=rounding)

    def restrict(self, point: Point, problems: Columns) -> Point:
        """A point for some of the problems."""
        columns = self.columns(problems)
        W, b = np.ascontiguousarray(point.W[:, columns]), point.b[columns]
        state = self.executor.map(_columns, [point.state], columns)
        return Point(W, b, point.value[problems], point.offset_left[problems], state)

    def _viewed(self, columns: Columns | None = None, rounding: float | None = None) -> Objective:
        rounding = self.rounding if rounding is None else rounding
        if self.rows is not None:
            return Objective.of(self.penalty, self.rows.view(View(columns, rounding)), self.fit_intercept)
        known = self._view.columns
        if columns is None or known is None:
            known = known if columns is None else columns
        else:
            known = known[columns]
        other = copy(self)
        other._view = View(known, rounding)
        other._set_size(self.K if columns is None else len(columns))
        return other

    def sum(self, task: Callable[..., Any], states: Sequence[Handles], *args: Any) -> Any:
        """Σ task(shard, *states, *args) over the shards."""
        return self.executor.sum(self._task(task), [self._shards, *states], *args)

    def map(self, task: Callable[..., Any], states: Sequence[Handles], *args: Any) -> Handles:
        """The state task(shard, *states, *args) of every shard."""
        return self.executor.map(self._task(task), [self._shards, *states], *args)

    def _task(self, task: Callable[..., Any]) -> Callable[..., Any]:
        return task if self.rows is not None else Viewed(task, self._view)

    # F and its derivatives.

    def point(self, W: Array, b: Array) -> Point:
        """The point (W, b): one pass over X, or none at W = 0."""
        state = self.map(Shard.moments, [], W, b)
        return self.evaluate(W, b, state)

    def evaluate(self, W: Array, b: Array, state: Handles) -> Point:
        """The point (W, b) whose scores have these moments: no pass."""
        value = self.total(self.penalty.value(W) + self.sum(Shard.value, [state]))
        return Point(W, b, value, np.full(self.P, np.inf if self.fit_intercept else 0.0), state)

    def total_weight(self) -> Array:
        """C Σ s, (K,)."""
        return np.asarray(self.sum(Shard.targets, [])[0])

    def first_line(self) -> tuple[Line, Array, Array]:
        """A line from w = 0, b = 0, and a fair step (t, δ) on it: three passes over X.

        At w = 0 the best offset of an unbalanced problem sits in the loss's kink, where nothing can be learnt
        about slopes or curvature. A least-squares problem shows the direction instead, and how far to go.
        """
        total, mean = self.sum(Shard.targets, [])
        zero = np.zeros(self.K)
        centre = mean / total if self.fit_intercept else zero
        squares, G = self.sum(Shard.least_squares, [], total, centre)
        start = self.point(np.zeros((self.traits.d, self.K)), zero)
        line = self.line(start, G / np.where(squares > FAINT, squares, 1.0))
        residual, middle = self.sum(Shard.fit_line, [line.along], total, centre)
        middle = middle if self.fit_intercept else zero
        spread = self.total(self.sum(Shard.spread, [line.along], total, middle))
        t = self.total(residual) / np.where(spread > 0, spread, 1.0)
        return line, t, centre - self.spread(t) * middle

    def gradient(self, point: Point) -> tuple[Array, Array]:
        """∇_w F, (d, K), and ∂F/∂b, (K,), zero without an offset: one pass over X."""
        G, g = self.sum(Shard.gradient, [point.state], point.W)
        G += self.penalty.gradient(point.W)
        return G, g if self.fit_intercept else np.zeros(self.K)

    def certificate(self, point: Point, G: Array) -> Array:
        """A bound on F − min F where the offset is the best one and F has the gradient G, (P,)."""
        return self.total(self.penalty.certificate(point.W, G))

    def line(self, point: Point, P: Array | None, q: Array | float = 0.0) -> Line:
        """F along (P, q) from a point: one pass over X, now; none later. None: the offset alone."""
        along = self.map(Shard.along, [], q, *([] if P is None else [point.W, P]))
        return Line(self, point, P, q, along)

    def hessian(self, point: Point) -> tuple[Array, Array]:
        """Of one problem without noise, in (w, b): the losses' Hessian, (d + 1, d + 1); ∇F, (d + 1, 1)."""
        H, g = self.sum(Shard.hessian, [point.state])
        g[:-1] += self.penalty.gradient(point.W)
        return H, g

    def curvature(self, point: Point) -> Array:
        """The diagonal of the majoriser's matrix, (d, K), without the features' mean where that is large."""
        return self._diagonal(point, self._centre(point))

    def preconditioner(self, point: Point) -> Preconditioner:
        """An approximation of the majoriser's matrix that is quickly solved: about one pass over X."""
        centre = self._centre(point)
        step = self._group_step()
        base: Preconditioner
        if step:
            assert self.traits.grouping is not None
            heavy, *grams = self.sum(Shard.grams, [point.state], step)
            D = self.penalty.curvature(point.W)
            base = self.traits.grouping.preconditioner(D, heavy, grams, centre)
        else:
            base = Diagonal(self._diagonal(point, centre))
        return base if centre is None else with_mean(base, centre, self.fit_intercept)

    def _group_step(self) -> int:
        """Every how many-th row shows how the features of a group go together; 0: blocks are not used."""
        grouping, traits = self.traits.grouping, self.traits
        if grouping is None or (self.rows is None and grouping.entries > HEAVIEST):
            return 0
        return grouping.step(traits.n, traits.nnz, traits.far)

    def _diagonal(self, point: Point, centre: tuple[Array, Array] | None) -> Array:
        squares, variance = self.sum(Shard.diagonal, [point.state])
        if centre is not None:
            if self.traits.grouping is None:
                squares = centred(squares, *centre)
            else:
                squares, variance = self.traits.grouping.centred(squares, variance, *centre)
        return np.asarray(self.penalty.curvature(point.W) + squares + variance)

    def _centre(self, point: Point) -> tuple[Array, Array] | None:
        """The features' mean μ = Mᵀa/Σa for the majoriser's a, and Σa, where features lie far from zero."""
        if not self.traits.far:
            return None
        mean, total = self.sum(Shard.centre, [point.state])
        return mean / np.where(total > 0, total, 1.0), total


class Line:
    """F on the plane (w + t·p, b + t·q + δ), for P problems with a step t each and K offsets' steps δ.

    Where features have a large mean, q is what keeps the scores where they are while w moves: δ need not.
    """

    def __init__(
        self, objective: Objective, point: Point, P: Array | None, q: Array | float, along: Handles
    ) -> None:
        self.objective, self.along = objective, along
        self._point, self._P, self._q, self._state = point, P, q, point.state
        self._penalty = objective.penalty.line(point.W, P)

    def rounded(self, rounding: float) -> Line:
        """The same line for a loss whose kinks are smoothed."""
        line = copy(self)
        line.objective = self.objective.rounded(rounding)
        line._state = line.objective.map(Shard.lifted, [self._state])
        return line

    def expand(self, t: Array, delta: Array) -> Slope:
        """F, its gradient and Hessian in (t, δ) at a trial step: O(n), no pass."""
        objective, each = self.objective, self.objective.spread(t)
        sums = objective.sum(Shard.expand, [self._state, self.along], each, delta)
        value, dt, dtt = self._penalty.expand(each)
        sums[0] += value
        sums[1] += dt
        sums[3] += dtt
        if not objective.coupled:
            return Slope(*sums)
        value, dt, dtt = (objective.total(sums[i]) for i in (0, 1, 3))
        return Slope(value, dt, sums[2], dtt, sums[4], self._blocks(sums[5:]))

    def majorize(self, t: Array, delta: Array) -> tuple[Array, Array, Array]:
        """The majoriser's second derivatives tt, tδ, δδ at a trial step: O(n), no pass."""
        objective, each = self.objective, self.objective.spread(t)
        tt, tb, *bb = objective.sum(Shard.majorize, [self._state, self.along], each, delta)
        tt = objective.total(self._penalty.expand(each)[2] + tt)
        return tt, tb, self._blocks(np.array(bb)) if objective.coupled else bb[0]

    def move(self, t: Array, delta: Array, value: Array, offset_left: Array) -> Point:
        """The point at a step, with F there and the offset's estimated suboptimality."""
        each, start = self.objective.spread(t), self._point
        state = self.objective.map(Shard.moved, [self._state, self.along], each, delta)
        W = start.W if self._P is None else start.W + each * self._P
        return Point(W, start.b + each * self._q + delta, value, offset_left, state)

    def _blocks(self, rows: Array) -> Array:
        """Second derivatives in the offsets of a problem, (R, K) to (P, R, R)."""
        R = len(rows)
        return rows.reshape(R, -1, R).transpose(1, 0, 2)


def settled(point: Point) -> Point:
    """The same point with an offset that is known to be the best."""
    return replace(point, offset_left=np.zeros_like(point.offset_left))
