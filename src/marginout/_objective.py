"""The function that is minimised, for a batch of K problems that share X.

    F_k(w, b) = ½‖w‖² + C Σ_n s_nk φ(m_n, v_n; y_nk)        m = M w + b,  v = V (w∘w)

Ridge, offset and weights are handled here and nowhere else. The offset is neither
corrupted nor regularised; it is optimised away wherever a point is settled, so that

    F_k(w) − min F_k  ≤  ½‖∇_w F_k‖²                        F is 1-strongly convex in w

is a certificate. Along w + t·p the mean is linear and the variance quadratic in t: after
one pass for M p, V (w∘p) and V (p∘p), any number of trial steps costs O(n) and no pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marginout._design import Design
from marginout._kernels import _plane
from marginout.losses import Loss

Array = NDArray[np.float64]

#: Added to the deviation of every score, as a fraction of the loss's own scale: where there
#: is no variance the kink of the loss is rounded off by this much, and no further.
ROUNDING = 1e-10
#: Elements of an (n, K) array that are worked on at a time, so that temporaries stay in cache.
CHUNK = 16_384


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
        rows = max(1, CHUNK // self.K)
        self.chunks = [slice(i, i + rows) for i in range(0, len(Y), rows)]

    def select(self, columns: NDArray[np.intp]) -> Objective:
        """The same objective for some of the problems."""
        weights = (
            self.weights if self.weights.shape[1] == 1 else np.ascontiguousarray(self.weights[:, columns])
        )
        Y = np.ascontiguousarray(self.Y[:, columns])
        return Objective(self.design, self.loss, Y, weights, self.fit_intercept, self.rounding)

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

    def gradient(self, point: Point) -> Array:
        """∇_w F, (d, K): one pass over X."""
        G = self.design.pullback(point.W, self.weights * point.dm, self.weights * point.dv)
        G += point.W
        return G

    def majorizer(self, point: Point) -> Array:
        """C·s·γ of the majoriser of F at a point, (n, K)."""
        gamma = np.empty_like(point.m)
        for rows in self.chunks:
            gamma[rows] = self.loss.majorizer(point.m[rows], point.v[rows], self.Y[rows])
        gamma *= self.weights
        return gamma

    def second_derivative(self, point: Point) -> Array:
        """C·s·∂²φ/∂m² at a point, (n, K)."""
        jets = (self.loss.jet(point.m[rows], point.v[rows], self.Y[rows]) for rows in self.chunks)
        return np.asarray(self.weights * np.concatenate([jet.dmm for jet in jets]))

    def curvature(self, point: Point) -> Array:
        """The diagonal of the majoriser's matrix, (d, K): one pass over X."""
        squares, variance = self.design.diagonal(self.majorizer(point))
        return np.asarray(1.0 + squares + variance)

    def line(self, point: Point, P: Array | None) -> Line:
        """F along P from a point: one pass over X, now; none later. None: the offset alone."""
        return Line(self, point, P)

    def offset_gradient(self, point: Point) -> Array:
        """∂F/∂b, (K,); zero without an offset."""
        if not self.fit_intercept:
            return np.zeros(self.K)
        return self._weighted_sum(point.dm, slice(None))

    def evaluate(self, W: Array, b: Array, m: Array, v: Array) -> Point:
        """The point (W, b) whose scores have these moments: no pass."""
        value = 0.5 * np.einsum("dk,dk->k", W, W)
        dm, dv = np.empty_like(m), np.empty_like(m)
        for rows in self.chunks:
            jet = self.loss.jet(m[rows], v[rows], self.Y[rows])
            value += self._weighted_sum(jet.value, rows)
            dm[rows], dv[rows] = jet.dm, jet.dv
        return Point(W, b, m, v, value, dm, dv, np.full(self.K, np.inf))

    def _weighted_sum(self, values: Array, rows: slice) -> Array:
        """Σ_n s_nk · values_nk over some rows, (K,)."""
        weights = self.weights[rows]
        if weights.shape[1] == 1:
            return np.asarray(weights[:, 0] @ values)
        return np.asarray(np.einsum("nk,nk->k", weights, values))


class Line:
    """F on the plane (w + t·p, b + δ), for K problems with a step (t, δ) each."""

    def __init__(self, objective: Objective, point: Point, P: Array | None) -> None:
        self.objective, self.start, self._P = objective, point, P
        self._ww = np.einsum("dk,dk->k", point.W, point.W)
        if P is None:
            self._a = self._c = self._e = np.zeros_like(point.m)
            self._wp = self._pp = np.zeros(objective.K)
        else:
            self._a, self._c, self._e = objective.design.line(point.W, P)
            self._wp = np.einsum("dk,dk->k", point.W, P)
            self._pp = np.einsum("dk,dk->k", P, P)
        self._dm, self._dv = np.empty_like(point.m), np.empty_like(point.m)

    def expand(self, t: Array, delta: Array) -> Slope:
        """Value, gradient and Hessian in (t, δ) at a trial step: O(n), no pass."""
        objective = self.objective
        sums = np.zeros((6, objective.K))
        for rows in objective.chunks:
            m, v = self._moments(t, delta, rows)
            jet = objective.loss.jet(m, v, objective.Y[rows])
            self._dm[rows], self._dv[rows] = jet.dm, jet.dv
            a, c, e = self._a[rows], self._c[rows], self._e[rows]
            _plane.expansion(objective.weights[rows], *jet, a, c, e, t, sums)
        sums[0] += 0.5 * (self._ww + t * (2 * self._wp + t * self._pp))
        sums[1] += self._wp + t * self._pp
        sums[3] += self._pp
        return Slope(*sums)

    def majorize(self, t: Array, delta: Array) -> tuple[Array, Array, Array]:
        """The Hessian entries of the majoriser in (t, δ) at a trial step: O(n), no pass."""
        objective = self.objective
        sums = np.zeros((3, objective.K))
        for rows in objective.chunks:
            m, v = self._moments(t, delta, rows)
            gamma = objective.loss.majorizer(m, v, objective.Y[rows])
            _plane.majorizer(objective.weights[rows], gamma, self._a[rows], self._e[rows], sums)
        return self._pp + sums[0], sums[1], sums[2]

    def move(self, t: Array, delta: Array, value: Array, offset_left: Array) -> Point:
        """The point at the step that was expanded last."""
        m, v = self._moments(t, delta, slice(None))
        W = self.start.W if self._P is None else self.start.W + t * self._P
        return Point(W, self.start.b + delta, m, v, value, self._dm, self._dv, offset_left)

    def _moments(self, t: Array, delta: Array, rows: slice) -> tuple[Array, Array]:
        start, a, c, e = self.start, self._a[rows], self._c[rows], self._e[rows]
        m, v = np.empty_like(a), np.empty_like(a)
        _plane.moments(start.m[rows], start.v[rows], a, c, e, t, delta, self.objective.floor, m, v)
        return m, v
