r"""The same objective for examples that lie in blocks, somewhere.

    F(w, b) = ½‖w‖² + Σ_blocks Σ_n∈block C s_n φ(m_n, v_n; y_n)

A block is an :class:`Objective` whose ridge nobody asks for. It answers tasks: functions of the
block, of what it said before (its states: tuples of arrays with one row per example, which stay where
the block is), and of a few vectors. An executor runs them and adds up the answers; only w, its
derivatives and sums over examples travel.

Tasks are pure: a state is a function of the block and the vectors that it was made with, so an
executor that loses one can make it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from marginout._design import GroupDesign, Grouping
from marginout._design._groups import HEAVIEST
from marginout._design._precondition import Diagonal, Preconditioner, centred, centred_or_not
from marginout._objective import FAINT, ROUNDING, Array, Objective, RidgeLine, Track, dots
from marginout.losses import Loss

#: Something of every block, in the executor's own terms: the blocks themselves, or a state of each.
Handles = Sequence[Any]
#: What a block remembers: arrays with one row per example, (n, K) each.
State = tuple[Array, ...]
#: A function of a block, its states and other arguments: an array to be added up, or a state.
Task = Callable[..., Any]


class Executor(Protocol):
    """Runs tasks where the blocks are."""

    def map(self, task: Task, handles: Sequence[Handles], *args: Any) -> Handles:
        """task(*(h[i] for h in handles), *args) for every block i; the results stay there."""

    def sum(self, task: Task, handles: Sequence[Handles], *args: Any) -> Array:
        """The sum over all blocks of the same."""


@dataclass(frozen=True)
class Whole:
    """What solvers ask of the design of all blocks together."""

    n: int
    d: int
    nnz: int
    noiseless: bool
    #: Of noise in groups: which they are, and the coefficient of each.
    grouping: Grouping | None = None
    group_kappa: Array | None = None
    #: All problems go to the blocks together: what they share is the way there.
    batch: int = 2**31
    #: Whether features lie far from zero, in any block.
    far_off: bool = False
    #: Nothing that needs the rows of X in one place can be had.
    diagonal_variance: bool = False

    def threads(self, work: int) -> int:
        """The blocks have the threads."""
        return 1

    def serial(self) -> Whole:
        return self

    def far(self) -> bool:
        return self.far_off


@dataclass(frozen=True)
class View:
    """Which of a block's problems are meant, and by how much their loss is rounded off."""

    columns: NDArray[np.intp] | None
    rounding: float

    def of(self, block: Objective) -> Objective:
        if self.columns is not None:
            block = block.select(self.columns)
        return block if block.rounding == self.rounding else block.rounded(self.rounding)


@dataclass
class SumPoint:
    """Weights and offsets; the scores' moments m and v stay with the blocks."""

    W: Array
    b: Array
    value: Array
    offset_left: Array
    state: Handles
    executor: Executor

    def select(self, columns: NDArray[np.intp]) -> SumPoint:
        """The same point for some of the problems."""
        W, b, value, left = (
            np.ascontiguousarray(a[..., columns]) for a in (self.W, self.b, self.value, self.offset_left)
        )
        state = self.executor.map(_columns, [self.state], columns)
        return SumPoint(W, b, value, left, state, self.executor)


class SumObjective:
    """F of the module's docstring; :class:`Objective` for the solvers `ncg` and `lbfgs`.

    Parameters
    ----------
    executor : Executor
    blocks : handles of one Objective per block
    design : Whole
    loss : Loss
    K : int, the number of problems
    fit_intercept : bool
    """

    def __init__(
        self, executor: Executor, blocks: Handles, design: Whole, loss: Loss, K: int, fit_intercept: bool
    ) -> None:
        self.executor, self.blocks, self.design, self.loss = executor, blocks, design, loss
        self.K, self.fit_intercept = K, fit_intercept
        self.view = View(None, ROUNDING)

    @property
    def rounding(self) -> float:
        return self.view.rounding

    def select(self, columns: NDArray[np.intp], design: Whole | None = None) -> SumObjective:
        """The same objective for some of the problems."""
        if len(columns) == self.K:  # in their order: nobody asks for another
            return self
        known = self.view.columns
        return self._viewed(replace(self.view, columns=columns if known is None else known[columns]))

    def rounded(self, rounding: float) -> SumObjective:
        """The same objective with the loss's kinks rounded off by a fraction of its scale."""
        return self._viewed(replace(self.view, rounding=rounding))

    def _viewed(self, view: View) -> SumObjective:
        other = copy(self)
        other.view, other.K = view, self.K if view.columns is None else len(view.columns)
        return other

    def sum(self, task: Task, states: Sequence[Handles], *args: Any) -> Array:
        """Σ task(block, *states, view, *args) over the blocks."""
        return self.executor.sum(task, [self.blocks, *states], self.view, *args)

    def map(self, task: Task, states: Sequence[Handles], *args: Any) -> Handles:
        """The state task(block, *states, view, *args) of every block."""
        return self.executor.map(task, [self.blocks, *states], self.view, *args)

    def total_weight(self) -> Array:
        """C Σ s, (K,)."""
        return np.asarray(self.sum(_targets, [])[0])

    def point(self, W: Array, b: Array) -> SumPoint:
        """The point (W, b): one pass over X."""
        state = self.map(_moments, [], W, b)
        value = 0.5 * dots(W, W) + self.sum(_value, [state])
        return SumPoint(W, b, value, self._unsettled(), state, self.executor)

    def first_line(self) -> tuple[SumLine, Array, Array]:
        """A line from w = 0 and a fair step on it; see :meth:`Objective.first_line`."""
        total, mean = self.sum(_targets, [])
        centre = mean / total if self.fit_intercept else np.zeros(self.K)
        squares, G = self.sum(_least_squares, [], total, centre)
        zero = np.zeros((self.design.d, self.K))
        line = self.line(self.point(zero, np.zeros(self.K)), G / np.where(squares > FAINT, squares, 1.0))
        residual, middle, spread = self.sum(_fit_line, [line.along], total, centre)
        if self.fit_intercept:
            spread = spread - middle * middle
        else:
            middle = np.zeros(self.K)
        t = residual / np.where(spread > 0, spread, 1.0)
        return line, t, centre - t * middle

    def gradient(self, point: SumPoint, mean: Array | None = None) -> Array:
        """∇_w F, (d, K), or along (w, b − w·mean): one pass over X."""
        sums = self.sum(_gradient, [point.state], point.W)
        G = sums[:-1] + point.W
        return np.asarray(G if mean is None else G - mean * sums[-1])

    def curvature(self, point: SumPoint) -> Array:
        """The diagonal of the majoriser's matrix, (d, K): one pass over X, or two."""
        return self._spread(point)[0]

    def _spread(self, point: SumPoint) -> tuple[Array, tuple[Array, Array] | None]:
        squares, variance = self.sum(_curvature, [point.state])
        centre = self._centre(point)
        if centre is not None:
            grouping = self.design.grouping
            if grouping is None:
                squares = centred(squares, *centre)
            else:
                squares, variance = grouping.centred(squares, variance, *centre)
        return 1.0 + squares + variance, centre

    def _centre(self, point: SumPoint) -> tuple[Array, Array] | None:
        """The features' mean, as the majoriser weighs them, and the weights' sum, where that is needed."""
        if not self.design.far():
            return None
        sums = self.sum(_centre, [point.state])
        return sums[:-1] / np.where(sums[-1] > 0, sums[-1], 1.0), sums[-1]

    def hessian(self, point: SumPoint) -> tuple[Array, Array]:
        """Of one problem without noise, in (w, b): its loss's Hessian, (d + 1, d + 1), and ∇F, (d + 1, 1).

        One pass over X, and d² numbers.
        """
        sums = self.sum(_hessian, [point.state])
        H, g = sums[:, :-1], sums[:, -1:]
        g[:-1] += point.W
        return H, g

    def preconditioner(self, point: SumPoint) -> Preconditioner:
        """The diagonal, or the blocks of features that are corrupted together: about one pass over X."""
        grouping, kappa, d = self.design.grouping, self.design.group_kappa, self.design.d
        step = 0 if grouping is None else grouping.step(self.design.n, self.design.nnz, self.design.far())
        if grouping is None or kappa is None or not step or grouping.sizes @ grouping.sizes > HEAVIEST:
            D, centre = self._spread(point)
            return Diagonal(D) if centre is None else centred_or_not(Diagonal(D), centre, self.fit_intercept)
        centre = self._centre(point)
        sums = self.sum(_grams, [point.state], step)
        shapes = [(len(own), own.shape[1], own.shape[1], self.K) for _, own in grouping.alike]
        flat = np.split(sums[d:], np.cumsum([prod(shape[:-1]) for shape in shapes])[:-1])
        grams = [
            np.ascontiguousarray(part.reshape(shape).transpose(0, 3, 1, 2))
            for part, shape in zip(flat, shapes, strict=True)
        ]
        variances = np.broadcast_to(kappa[:, None], (len(kappa), self.K))
        return grouping.preconditioner(sums[:d], grams, variances, centre, self.fit_intercept)

    def line(self, point: SumPoint, P: Array | None, q: Array | float = 0.0) -> SumLine:
        """F along (P, q) from a point: one pass over X, now; none later. None: the offset alone."""
        return SumLine(self, point, P, q)

    def _unsettled(self) -> Array:
        return np.full(self.K, np.inf if self.fit_intercept else 0.0)


class SumLine(RidgeLine):
    """F on the plane (w + t·p, b + t·q + δ); what the moments do along it stays with the blocks."""

    objective: SumObjective

    def __init__(self, objective: SumObjective, point: SumPoint, P: Array | None, q: Array | float) -> None:
        super().__init__(objective, point, P, q)
        self.along = objective.map(_along, [], q, *([] if P is None else [point.W, P]))
        self.state = point.state

    def rounded(self, rounding: float) -> Self:
        """The same line for a loss whose kinks are rounded off."""
        line = copy(self)
        line.objective = self.objective.rounded(rounding)
        line.state = line.objective.map(_lifted, [self.state])
        return line

    def move(self, t: Array, delta: Array, value: Array, offset_left: Array) -> SumPoint:
        """The point at a step, with F there and the offset's estimated suboptimality."""
        state = self.objective.map(_moved, self._states, t, delta)
        b = self.offset(t, delta)
        return SumPoint(self.weights(t), b, value, offset_left, state, self.objective.executor)

    @property
    def _states(self) -> list[Handles]:
        return [self.state, self.along]

    def _expand(self, t: Array, delta: Array) -> Array:
        return self.objective.sum(_expand, self._states, t, delta)

    def _majorize(self, t: Array, delta: Array) -> Array:
        return self.objective.sum(_majorize, self._states, t, delta)


# The tasks. What they add up has the shape (K,), (d, K), or several of these.


def _columns(state: State, columns: NDArray[np.intp]) -> State:
    return tuple(np.ascontiguousarray(part[:, columns]) for part in state)


def _moments(block: Objective, view: View, W: Array, b: Array) -> State:
    """m and v."""
    block = view.of(block)
    m, v = block.design.moments(W) if W.any() else (np.zeros_like(block.Y), np.zeros_like(block.Y))
    m += b
    v += block.floor
    return m, v


def _value(block: Objective, state: State, view: View) -> Array:
    zero = np.zeros(state[0].shape[1])
    return np.asarray(_expand(block, state, (), view, zero, zero)[0])


def _targets(block: Objective, view: View) -> Array:
    """Σ s and Σ s·target, (2, K)."""
    block = view.of(block)
    target = block.loss.least_squares(block.Y)
    weights = np.broadcast_to(block.weights, target.shape)
    return np.stack([weights.sum(axis=0), np.einsum("nk,nk->k", weights, target)])


def _shares(block: Objective, total: Array, centre: Array) -> tuple[Array, Array]:
    s = np.ascontiguousarray(np.broadcast_to(block.weights / total, block.Y.shape))
    return s, s * (block.loss.least_squares(block.Y) - centre)


def _least_squares(block: Objective, view: View, total: Array, centre: Array) -> Array:
    """The diagonal and the right-hand side of a least-squares problem, (2, d, K)."""
    block = view.of(block)
    s, residual = _shares(block, total, centre)
    squares, variance = block.design.diagonal(s)
    zero = np.zeros((block.design.d, block.K))
    return np.stack([squares + variance, block.design.pullback(zero, residual, np.zeros_like(residual))])


def _fit_line(block: Objective, along: State, view: View, total: Array, centre: Array) -> Array:
    """Σ residual·a, Σ s·a and Σ s·(a² + e), (3, K)."""
    s, residual = _shares(view.of(block), total, centre)
    a, _, e = along
    return np.stack([(residual * a).sum(axis=0), (s * a).sum(axis=0), (s * (a * a + e)).sum(axis=0)])


def _gradient(block: Objective, state: State, view: View, W: Array) -> Array:
    """In w, and below it in b, (d + 1, K)."""
    block = view.of(block)
    dm, dv = block.slopes(*state)
    dm *= block.weights
    dv *= block.weights
    return np.vstack([block.design.pullback(W, dm, dv), dm.sum(axis=0)])


def _curvature(block: Objective, state: State, view: View) -> Array:
    """Of the means and of the noise, (2, d, K)."""
    block = view.of(block)
    return np.stack(block.design.diagonal(block.lasting(*state)))


def _centre(block: Objective, state: State, view: View) -> Array:
    """The features' weighted sum, and below it the sum of the weights, (d + 1, K)."""
    block = view.of(block)
    a = block.lasting(*state)
    mean, total = block.design.centre(a)
    return np.vstack([mean * total, total])


def _grams(block: Objective, state: State, view: View, step: int) -> Array:
    """The diagonal, and below it the entries of every group's block by a sample of rows, (d + Σ size², K)."""
    block = view.of(block)
    design, a = block.design, block.lasting(*state)
    assert isinstance(design, GroupDesign)
    return np.concatenate(
        [design.diagonal(a)[0]]
        + [gram.transpose(0, 2, 3, 1).reshape(-1, a.shape[1]) for gram in design.group_grams(a, step)]
    )


def _hessian(block: Objective, state: State, view: View) -> Array:
    """(M, 1)ᵀdiag(a)(M, 1) and (M, 1)ᵀ∂φ/∂m, side by side, (d + 1, d + 2)."""
    block = view.of(block)
    d = block.design.d
    a, dm = block.bends(*state), block.weights * block.slopes(*state)[0]
    both = np.hstack([a, dm])
    sums = np.empty((d + 1, d + 2))
    sums[:d, :d] = block.design.gram(a[:, 0])
    sums[:d, d:] = block.design.pullback(np.zeros((d, 2)), both, np.zeros_like(both))
    sums[d, :d] = sums[:d, d]
    sums[d, d:] = both.sum(axis=0)
    return sums


def _along(block: Objective, view: View, q: Array | float, *directions: Array) -> State:
    """M p + q, V (w∘p) and V (p∘p) of W and P; nothing for the offset alone."""
    if not directions:
        return ()
    a, c, e = block.design.line(*directions)
    return (a + q if np.any(q) else a), c, e


def _lifted(block: Objective, state: State, view: View) -> State:
    m, v = state
    return m, v + view.of(block).floor


def _track(block: Objective, state: State, along: State, view: View) -> Track:
    return Track(view.of(block), (*state, *(along or (np.zeros_like(state[0]),) * 3)))


def _moved(block: Objective, state: State, along: State, view: View, t: Array, delta: Array) -> State:
    return _track(block, state, along, view).moments(t, delta)


def _expand(block: Objective, state: State, along: State, view: View, t: Array, delta: Array) -> Array:
    return _track(block, state, along, view).expand(t, delta)


def _majorize(block: Objective, state: State, along: State, view: View, t: Array, delta: Array) -> Array:
    return _track(block, state, along, view).majorize(t, delta)
