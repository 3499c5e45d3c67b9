"""The function that is minimised, for a batch of K problems that share X.

    F_k(w, b) = ½‖w‖² + C Σ_n s_nk φ(m_n, v_n; y_nk)        m = M w + b,  v = V (w∘w)

Ridge, offset and weights are handled here and nowhere else. The offset is neither
corrupted nor regularised; it is optimised away wherever a point is settled, so that

    F_k(w) − min F_k  ≤  ½‖∇_w F_k‖²                        F is 1-strongly convex in w

is a certificate. Along w + t·p the mean is linear and the variance quadratic in t: after
one pass for M p, V (w∘p) and V (p∘p), any number of trial steps costs O(n) and no pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marginout._design import Design, Preconditioner
from marginout._kernels import _plane
from marginout.losses import Loss, Plane

Array = NDArray[np.float64]

#: Added to the deviation of every score, as a fraction of the loss's own scale: where there
#: is no variance the kink of the loss is rounded off by this much, and no further.
ROUNDING = 1e-10
#: Mean square of a feature below which it is not divided by: the square of what comes out would overflow.
FAINT = 1e-250


def dots(A: Array, B: Array) -> Array:
    """A_k·B_k for every column, (K,)."""
    out = np.zeros(A.shape[1])
    _plane.dots(np.ascontiguousarray(A), np.ascontiguousarray(B), out)
    return out


class Slope(NamedTuple):
    """F along (t, δ) ↦ (w + t·p, b + δ): value, gradient and Hessian entries, each (K,)."""

    value: Array
    dt: Array
    db: Array
    dtt: Array
    dtb: Array
    dbb: Array


@dataclass
class Point:
    """Weights, offsets, and at each example the score's moments and the loss's slopes in them.

    `offset_left` estimates by how much a better offset would lower F; inf where nobody looked.
    """

    W: Array
    b: Array
    m: Array
    v: Array
    value: Array
    dm: Array
    dv: Array
    offset_left: Array

    def select(self, columns: NDArray[np.intp]) -> Point:
        """The same point for some of the problems."""
        parts = (np.ascontiguousarray(a[..., columns]) for a in vars(self).values())
        return Point(*parts)


class Objective:
    """F of the module's docstring.

    Parameters
    ----------
    design : Design
    loss : Loss
    Y : (n, K) targets
    weights : (n, 1) or (n, K), C times the weight of each example
    fit_intercept : bool
    rounding : float, by which fraction of the loss's scale its kinks are rounded off
    """

    def __init__(
        self,
        design: Design,
        loss: Loss,
        Y: Array,
        weights: Array,
        fit_intercept: bool,
        rounding: float = ROUNDING,
    ) -> None:
        self.design = design
        self.loss = loss
        self.Y = Y
        self.weights = weights
        self.fit_intercept = fit_intercept
        self.K = Y.shape[1]
        self.rounding = rounding
        self.floor = (rounding * loss.scale) ** 2
        rows = max(1, loss.chunk // self.K)
        self.chunks = [slice(i, i + rows) for i in range(0, len(Y), rows)]

    def select(self, columns: NDArray[np.intp], design: Design | None = None) -> Objective:
        """The same objective for some of the problems, or on another design."""
        weights = (
            self.weights if self.weights.shape[1] == 1 else np.ascontiguousarray(self.weights[:, columns])
        )
        Y = np.ascontiguousarray(self.Y[:, columns])
        return Objective(design or self.design, self.loss, Y, weights, self.fit_intercept, self.rounding)

    def rounded(self, rounding: float) -> Objective:
        """The same objective with the loss's kinks rounded off by a fraction of its scale."""
        return Objective(self.design, self.loss, self.Y, self.weights, self.fit_intercept, rounding)

    def point(self, W: Array, b: Array) -> Point:
        """The point (W, b): one pass over X, or none at W = 0."""
        if W.any():
            m, v = self.design.moments(W)
        else:
            m, v = np.zeros_like(self.Y), np.zeros_like(self.Y)
        m += b
        v += self.floor
        return self.evaluate(W, b, m, v)

    def first_line(self) -> tuple[Line, Array, Array]:
        """A line from w = 0, b = 0, and a fair step (t, δ) on it: three passes over X.

        At w = 0 the best offset of an unbalanced problem sits in the loss's kink, where
        nothing can be learnt about slopes or curvature. A least-squares problem shows the
        direction instead, and how far to go.
        """
        s, target = self.weights / self.weights.sum(axis=0), self.loss.least_squares(self.Y)
        centre = (s * target).sum(axis=0) if self.fit_intercept else np.zeros(self.K)
        residual = s * (target - centre)
        start = self.point(np.zeros((self.design.d, self.K)), np.zeros(self.K))
        squares, variance = self.design.diagonal(s)
        scale = squares + variance
        G = self.design.pullback(start.W, residual, np.zeros_like(residual))
        line = self.line(start, G / np.where(scale > FAINT, scale, 1.0))
        t, middle = line.least_squares(s, residual)
        return line, t, centre - t * middle

    def gradient(self, point: Point, mean: Array | None = None) -> Array:
        """∇_w F, (d, K): one pass over X.

        Of features with a large `mean`, along (w, b − w·mean): an offset that is not quite the best matters
        little then.
        """
        G = self.design.pullback(point.W, self.weights * point.dm, self.weights * point.dv)
        G += point.W
        if mean is not None:
            G -= mean * self.offset_gradient(point)
        return G

    def majorizer(self, point: Point) -> Array:
        """C·s·γ of the majoriser of F at a point, (n, K)."""
        return self._majorizer(point.m, point.v)

    def _majorizer(self, m: Array, v: Array) -> Array:
        (gamma,) = self.design.scores(1, self.K)
        for rows in self.chunks:
            gamma[rows] = self.loss.majorizer(m[rows], v[rows], self.Y[rows])
        gamma *= self.weights
        return gamma

    def second_derivative(self, point: Point) -> Array:
        """C·s·∂²φ/∂m² at a point, (n, K)."""
        return self.bends(point.m, point.v)

    def bends(self, m: Array, v: Array) -> Array:
        """C·s·∂²φ/∂m² of scores with these moments, (n, K)."""
        jets = (self.loss.jet(m[rows], v[rows], self.Y[rows]) for rows in self.chunks)
        return np.asarray(self.weights * np.maximum(np.concatenate([jet.dmm for jet in jets]), 0.0))

    def curvature(self, point: Point) -> Array:
        """The diagonal of the majoriser's matrix, (d, K): one pass over X, or two."""
        return self.design.spread(self.lasting(point.m, point.v))[0]

    def preconditioner(self, point: Point) -> Preconditioner:
        """What is like the majoriser's matrix, but quickly solved: about one pass over X."""
        return self.design.preconditioner(self.lasting(point.m, point.v), self.fit_intercept)

    def lasting(self, m: Array, v: Array) -> Array:
        """The majoriser's curvatures; those that hold only for steps below the loss's grain cut off."""
        gamma = self._majorizer(m, v)
        return np.minimum(gamma, self.weights / self.loss.grain, out=gamma)

    def line(self, point: Point, P: Array | None, q: Array | float = 0.0) -> Line:
        """F along (P, q) from a point: one pass over X, now; none later. None: the offset alone."""
        return Line(self, point, P, q)

    def offset_gradient(self, point: Point) -> Array:
        """∂F/∂b, (K,); zero without an offset."""
        if not self.fit_intercept:
            return np.zeros(self.K)
        return self._weighted_sum(point.dm, slice(None))

    def evaluate(self, W: Array, b: Array, m: Array, v: Array) -> Point:
        """The point (W, b) whose scores have these moments: no pass."""
        value = 0.5 * dots(W, W)
        dm, dv = np.empty_like(m), np.empty_like(m)
        for rows in self.chunks:
            jet = self.loss.jet(m[rows], v[rows], self.Y[rows])
            value += self._weighted_sum(jet.value, rows)
            dm[rows], dv[rows] = jet.dm, jet.dv
        return Point(W, b, m, v, value, dm, dv, np.full(self.K, np.inf if self.fit_intercept else 0.0))

    def slopes(self, m: Array, v: Array) -> tuple[Array, Array]:
        """∂φ/∂m and ∂φ/∂v of every example, each (n, K)."""
        dm, dv = self.design.scores(2, self.K)
        for rows in self.chunks:
            self.loss.fill_slopes(m[rows], v[rows], self.Y[rows], dm[rows], dv[rows])
        return dm, dv

    def sum_chunks(self, count: int, add: Callable[[slice, Array], None]) -> Array:
        """What `add(rows, sums)` adds to (count, K) sums over all rows, on all cores."""
        threads = min(self.design.threads(self.Y.size), len(self.chunks))

        def share(first: int) -> Array:
            sums = np.zeros((count, self.K))
            for rows in self.chunks[first::threads]:
                add(rows, sums)
            return sums

        if threads == 1:
            return share(0)
        with ThreadPoolExecutor(threads) as pool:
            return np.asarray(sum(pool.map(share, range(threads))))

    def _weighted_sum(self, values: Array, rows: slice) -> Array:
        """Σ_n s_nk · values_nk over some rows, (K,)."""
        weights = self.weights[rows]
        if weights.shape[1] == 1:
            return np.asarray(weights[:, 0] @ values)
        return np.asarray(np.einsum("nk,nk->k", weights, values))


class Track:
    """The losses on the plane (w + t·p, b + t·q + δ), summed over an objective's examples; without the ridge.

    `moments` are m and v at the start, and M p + q, V (w∘p), V (p∘p), each (n, K).
    """

    def __init__(self, objective: Objective, moments: tuple[Array, ...]) -> None:
        self._objective, self._moments = objective, moments

    def expand(self, t: Array, delta: Array) -> Array:
        """Value, gradient and Hessian entries in (t, δ) at a trial step, (6, K): O(n), no pass."""
        objective = self._objective

        def add(rows: slice, sums: Array) -> None:
            plane = self._plane(t, delta, rows)
            objective.loss.add_expansion(plane, objective.Y[rows], objective.weights[rows], sums)

        return objective.sum_chunks(6, add)

    def majorize(self, t: Array, delta: Array) -> Array:
        """The Hessian entries of the majoriser in (t, δ) at a trial step, (3, K): O(n), no pass."""
        objective = self._objective

        def add(rows: slice, sums: Array) -> None:
            plane = self._plane(t, delta, rows)
            objective.loss.add_majorizer(plane, objective.Y[rows], objective.weights[rows], sums)

        return objective.sum_chunks(3, add)

    def moments(self, t: Array, delta: Array) -> tuple[Array, Array]:
        """Mean and variance of the scores at a step, each (n, K)."""
        mean, variance = self._objective.design.scores(2, self._objective.K)
        self._plane(t, delta, slice(None)).fill_moments(mean, variance)
        return mean, variance

    def _plane(self, t: Array, delta: Array, rows: slice) -> Plane:
        m, v, a, c, e = (x[rows] for x in self._moments)
        return Plane(m, v, a, c, e, t, delta, self._objective.floor)


class RidgeLine(ABC):
    """F on the plane (w + t·p, b + t·q + δ), for K problems with a step (t, δ) each: the ridge's part.

    Of features with a large mean, q is what keeps the scores where they are while w moves: δ need not.
    """

    def __init__(self, objective: Any, point: Any, P: Array | None, q: Array | float) -> None:
        self.objective, self._point, self._P, self._q = objective, point, P, q
        self._squares = np.zeros((3, objective.K))  # ‖w‖², w·p, ‖p‖²
        self._squares[0] = dots(point.W, point.W)
        if P is not None:
            self._squares[1] = dots(point.W, P)
            self._squares[2] = dots(P, P)

    @abstractmethod
    def _expand(self, t: Array, delta: Array) -> Array:
        """The losses' part of :meth:`expand`, (6, K); see :meth:`Track.expand`."""

    @abstractmethod
    def _majorize(self, t: Array, delta: Array) -> Array:
        """The losses' part of :meth:`majorize`, (3, K)."""

    def expand(self, t: Array, delta: Array) -> Slope:
        """Value, gradient and Hessian in (t, δ) at a trial step: O(n), no pass."""
        sums = self._expand(t, delta)
        ww, wp, pp = self._squares
        sums[0] += 0.5 * (ww + t * (2 * wp + t * pp))
        sums[1] += wp + t * pp
        sums[3] += pp
        return Slope(*sums)

    def majorize(self, t: Array, delta: Array) -> tuple[Array, Array, Array]:
        """The Hessian entries of the majoriser in (t, δ) at a trial step: O(n), no pass."""
        sums = self._majorize(t, delta)
        return self._squares[2] + sums[0], sums[1], sums[2]

    def weights(self, t: Array) -> Array:
        """W at a step."""
        return np.asarray(self._point.W if self._P is None else self._point.W + t * self._P)

    def offset(self, t: Array, delta: Array) -> Array:
        """b at a step."""
        return np.asarray(self._point.b + t * self._q + delta)


class Line(RidgeLine):
    """F on the plane (w + t·p, b + t·q + δ), whose examples are all here."""

    objective: Objective

    def __init__(self, objective: Objective, point: Point, P: Array | None, q: Array | float) -> None:
        super().__init__(objective, point, P, q)
        a, c, e = (np.zeros_like(point.m),) * 3 if P is None else objective.design.line(point.W, P)
        self._moments: tuple[Array, ...] = (point.m, point.v, a + q if np.any(q) else a, c, e)

    def rounded(self, rounding: float) -> Line:
        """The same line for a loss whose kinks are rounded off."""
        line = copy(self)
        line.objective = self.objective.rounded(rounding)
        m, v, *moments = self._moments
        line._moments = (m, v + line.objective.floor, *moments)
        return line

    def least_squares(self, s: Array, residual: Array) -> tuple[Array, Array]:
        """The t that fits residuals of weights s best, noise included; and the mean of M p."""
        _, _, a, _, e = self._moments
        middle = (s * a).sum(axis=0) if self.objective.fit_intercept else np.zeros(self.objective.K)
        spread = (s * ((a - middle) ** 2 + e)).sum(axis=0)
        return np.einsum("nk,nk->k", residual, a) / np.where(spread > 0, spread, 1.0), middle

    def move(self, t: Array, delta: Array, value: Array, offset_left: Array) -> Point:
        """The point at a step, with F there and the offset's estimated suboptimality."""
        m, v = self._track.moments(t, delta)
        dm, dv = self.objective.slopes(m, v)
        return Point(self.weights(t), self.offset(t, delta), m, v, value, dm, dv, offset_left)

    @property
    def _track(self) -> Track:
        return Track(self.objective, self._moments)

    def _expand(self, t: Array, delta: Array) -> Array:
        return self._track.expand(t, delta)

    def _majorize(self, t: Array, delta: Array) -> Array:
        return self._track.majorize(t, delta)
