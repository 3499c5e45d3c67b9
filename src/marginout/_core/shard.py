"""Σ_n C·s_n φ(m_n, v_n; y_n) over some examples: the part of F that a block of examples has.

Along w + t·p the mean is linear and the variance quadratic in t: after one pass for M p, V (w∘p) and
V (p∘p), any number of trial steps costs O(n) and no pass.

The methods are pure: a state is a function of the shard and of the vectors that it was made with. An executor
that loses a state can make it again.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass

import numpy as np

from marginout._core.interfaces import Array, Columns, Design, State
from marginout.losses import Loss, Plane, weighted_sum

#: Fraction of the loss's scale that is added to the deviation of every score. Where there is no variance, the
#: kink of the loss is smoothed by this much and no more.
ROUNDING = 1e-10


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

    @classmethod
    def of(cls, design: Design, loss: Loss, Y: Array, weights: Array) -> Shard:
        """The shard of examples in any order."""
        design, Y, weights = loss.arrange(design, Y, weights)
        return cls(design, loss, Y, weights)

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
        loss = self.loss.select(columns)
        return Shard(self.design.select(columns), loss, Y, weights, view.rounding)

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

        def add(rows: slice, sums: Array) -> None:
            plane = self._plane(state, (), zero, zero, rows)
            self.loss.add_value(plane, self.Y[rows], self.weights[rows], sums)

        return np.asarray(self._sum_chunks(1, add)[0])

    def targets(self) -> tuple[Array, Array]:
        """Σ s and Σ s·target, (K,) each."""
        target = self.loss.least_squares(self.Y)
        return np.broadcast_to(self.weights, target.shape).sum(axis=0), weighted_sum(self.weights, target)

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
        """The diagonals of Mᵀdiag(a)M and Var for the curvatures a, (d, K) each."""
        return self.design.diagonal(self.curvature(state))

    def centre(self, state: State) -> tuple[Array, Array]:
        """Mᵀa, (d, K), and Σa, (K,), for the curvatures a."""
        return self.design.centre(self.curvature(state))

    def grams(self, state: State, step: int) -> tuple[Array, ...]:
        """The same diagonal, (d, K), and the blocks of groups of features by a sample of rows."""
        a = self.curvature(state)
        squares, variance = self.design.diagonal(a)
        return squares + variance, *self.design.group_grams(a, step)

    def hessian(self, state: State, W: Array) -> tuple[Array, ...]:
        """The Hessian in w, (K, d, d), in w and b, (d, K), and in b, (K,), of losses with one output.

        And the gradient in w and in b, and Σ C·s·∂φ/∂v, (K,).
        """
        dm, dv, mm, mv, vv = self.derivatives(state)
        H = self.design.hessian(W, mm, mv, vv, dv)
        cross, G = self.design.pullback(W, mm, mv), self.design.pullback(W, dm, dv)
        return H, cross, mm.sum(axis=0), G, dm.sum(axis=0), dv.sum(axis=0)

    def variance_slope(self, state: State) -> Array:
        """Σ C·s·∂φ/∂v, (K,)."""
        return np.asarray(self.slopes(state)[1].sum(axis=0))

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
        return self._weighted(self.loss.majorizer, state)

    def curvature(self, state: State) -> Array:
        """C·s times the curvature that a preconditioner takes, (n, K)."""
        return self._weighted(self.loss.curvature, state)

    def _weighted(self, part: Callable[[Array, Array, Array], Array], state: State) -> Array:
        m, v = state
        (out,) = self.design.scores(1, self.K)
        for rows in self._chunks:
            out[rows] = part(m[rows], v[rows], self.Y[rows])
        out *= self.weights
        return out

    def second_derivatives(self, state: State) -> Array:
        """C·s·∂²φ/∂m², (n, K)."""
        m, v = state
        jets = (self.loss.jet(m[rows], v[rows], self.Y[rows]) for rows in self._chunks)
        return np.asarray(self.weights * np.maximum(np.concatenate([jet.dmm for jet in jets]), 0.0))

    def derivatives(self, state: State) -> list[Array]:
        """C·s times the first two derivatives of φ, and mm, mv and vv, each (n, K)."""
        m, v = state
        out = np.empty((5, *m.shape))
        for rows in self._chunks:
            out[:, rows] = self.loss.jet(m[rows], v[rows], self.Y[rows])[1:]
        out *= self.weights
        return list(out)

    def _plane(self, state: State, along: State, t: Array, delta: Array, rows: slice) -> Plane:
        m, v = state[0][rows], state[1][rows]
        if along:
            a, c, e = along[0][rows], along[1][rows], along[2][rows]
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
