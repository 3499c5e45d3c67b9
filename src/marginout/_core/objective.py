"""F = penalty + Σ shards, for a batch of P problems with K outputs that share X.

    F_p(w, b) = penalty(w) + Σ_n C·s_n φ(m_n, v_n; y_n)        m = M w + b,  v = V (w∘w)

A :class:`Shard` holds examples and answers for their losses. An :class:`Objective` adds up the shards
through an executor, and adds the penalty. In memory there is one shard, and its methods are called directly.
The offset is neither corrupted nor penalised. It is optimised away wherever a point is settled, so that the
penalty's certificate holds for w alone.

The preconditioner approximates D + Mᵀdiag(a)M + Var, with D the penalty's curvature and a the loss's.
Features far from zero have a mean μ = Mᵀa/Σa that is much larger than their deviations:

    D + Mᵀdiag(a)M + Var = A + Σa·μμᵀ,     A = D + (M − 1μᵀ)ᵀdiag(a)(M − 1μᵀ) + Var

With an offset, A is what is left in w. Without one, A is approximated and the rank-one term is added. The
diagonal of the sum itself says next to nothing about either: with a mean of thirty deviations and hardly any
noise, fits stopped 6 % above the minimum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginout._core.design.groups import HEAVIEST
from marginout._core.design.storage import centred
from marginout._core.interfaces import (
    Array,
    Columns,
    Executor,
    Handles,
    Number,
    Penalty,
    Point,
    Preconditioner,
    Slope,
    State,
    Traits,
)
from marginout._core.shard import ROUNDING, Shard, View
from marginout._kernels import _vectors
from marginout.losses import Loss

#: Mean square of a feature below which it is not divided by: the square of the quotient would overflow.
FAINT = 1e-250


def dots(A: Array, B: Array) -> Array:
    """A_k·B_k for every column, (K,)."""
    out = np.zeros(A.shape[1])
    _vectors.dots(np.ascontiguousarray(A), np.ascontiguousarray(B), out)
    return out


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


class Objective:
    """F of the module's docstring.

    Parameters
    ----------
    penalty : Penalty
    executor : Executor, or None of one shard in this process
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
        executor: Executor | None,
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
        return cls(penalty, None, [shard], traits, shard.loss, shard.K, fit_intercept, shard)

    def _set_size(self, K: int) -> None:
        self.K, self.P = K, K // self.loss.outputs
        self.coupled = self.loss.outputs > 1

    @property
    def rounding(self) -> float:
        """The fraction of the loss's scale by which kinks are smoothed."""
        return self._view.rounding

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

    def spread(self, values: NDArray[Number]) -> NDArray[Number]:
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
        if self.executor is None:
            state: Handles = [_columns(point.state[0], columns)]
        else:
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
        other.loss = self.loss if columns is None else self.loss.select(columns)
        other._set_size(self.K if columns is None else len(columns))
        return other

    def sum(self, task: Callable[..., Any], states: Sequence[Handles], *args: Any) -> Any:
        """Σ task(shard, *states, *args) over the shards."""
        if self.executor is None:
            return task(self.rows, *[state[0] for state in states], *args)
        return self.executor.sum(Viewed(task, self._view), [self._shards, *states], *args)

    def map(self, task: Callable[..., Any], states: Sequence[Handles], *args: Any) -> Handles:
        """The state task(shard, *states, *args) of every shard."""
        if self.executor is None:
            return [task(self.rows, *[state[0] for state in states], *args)]
        return self.executor.map(Viewed(task, self._view), [self._shards, *states], *args)

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
        return self.total(self.penalty.certificate(point.W, G, self.spread(point.value)))

    def line(
        self, point: Point, P: Array | None, q: Array | float = 0.0, along: Handles | None = None
    ) -> Line:
        """F along (P, q) from a point: one pass over X, now; none later. None: the offset alone."""
        if along is None:
            along = self.map(Shard.along, [], q, *([] if P is None else [point.W, P]))
        return Line(self, point, P, q, along)

    def hessian(self, point: Point) -> tuple[Array, ...]:
        """The losses' Hessian in w and b, in blocks, (K, d, d), (d, K), (K,); ∇F in w and in b; Σ ∂φ/∂v."""
        H, cross, corner, G, g, dv = self.sum(Shard.hessian, [point.state], point.W)
        G = G + self.penalty.gradient(point.W)
        return H, cross, corner, G, g if self.fit_intercept else np.zeros(self.K), dv

    def variance_slope(self, point: Point) -> Array:
        """Σ C·s·∂φ/∂v, (K,): no pass."""
        return np.asarray(self.sum(Shard.variance_slope, [point.state]))

    def curvature(self, point: Point) -> Array:
        """The diagonal of D + Mᵀdiag(a)M + Var, (d, K), without the features' mean where that is large."""
        return self._diagonal(point, self._centre(point))

    def preconditioner(self, point: Point) -> Preconditioner:
        """An approximation of D + Mᵀdiag(a)M + Var that is quickly solved: about one pass over X."""
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
        if centre is not None:
            base = with_mean(base, centre, self.fit_intercept)
        if not self.loss.relative:
            return base
        return Relative(base, self.penalty.curvature(point.W), self.loss.outputs)

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
        """The features' mean μ = Mᵀa/Σa for the curvatures a, and Σa, where features lie far from zero."""
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


class Diagonal:
    """The diagonal, which independent noise makes heavy."""

    def __init__(self, D: Array, mean: Array | None = None) -> None:
        self._D = D
        self.mean = mean

    def solve(self, G: Array) -> Array:
        return np.asarray(G / self._D)

    def select(self, columns: Columns) -> Diagonal:
        return Diagonal(
            np.ascontiguousarray(self._D[:, columns]), None if self.mean is None else self.mean[:, columns]
        )


class RankOne:
    """A + Σa·μμᵀ for an A that is quickly solved, by Sherman and Morrison's formula; total = Σa, (K,)."""

    mean: Array | None = None

    def __init__(self, base: Preconditioner, centre: Array, total: Array) -> None:
        self._base, self._centre, self._total = base, centre, total
        self._solved = base.solve(centre)  # A⁻¹μ
        self._share = total / (1.0 + total * np.einsum("dk,dk->k", centre, self._solved))

    def solve(self, G: Array) -> Array:
        S = self._base.solve(G)
        return np.asarray(S - self._solved * (self._share * np.einsum("dk,dk->k", self._centre, S)))

    def select(self, columns: Columns) -> RankOne:
        return RankOne(self._base.select(columns), self._centre[:, columns], self._total[columns])


class Relative:
    """Π A⁻¹ Π + (I − Π)D⁻¹ for losses that see differences of outputs alone, Π = I − 11ᵀ/R over the outputs.

    What all outputs of a problem have in common is in the penalty alone, with the curvature D. A sees it in
    the loss as well, and would mix it into every step: up to four times as many iterations.
    """

    def __init__(self, base: Preconditioner, D: Array, outputs: int) -> None:
        self._base, self._D, self._outputs = base, D, outputs
        self.mean = base.mean

    def solve(self, G: Array) -> Array:
        common = self._common(G)
        S = self._base.solve(G - common)
        return np.asarray(S - self._common(S) + common / self._common(self._D))

    def select(self, columns: Columns) -> Relative:
        return Relative(self._base.select(columns), self._D[:, columns], self._outputs)

    def _common(self, A: Array) -> Array:
        """The mean over the outputs of each problem, in place of each of them."""
        return np.repeat(A.reshape(len(A), -1, self._outputs).mean(axis=2), self._outputs, axis=1)


def with_mean(base: Preconditioner, centre: tuple[Array, Array], offset: bool) -> Preconditioner:
    """A with an offset, which takes μ out of the features; A + Σa·μμᵀ without one."""
    if offset:
        base.mean = centre[0]
        return base
    return RankOne(base, *centre)
