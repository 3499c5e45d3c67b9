"""Objectives of MCF's exponential and logistic losses, which need the MGF of a noisy score.

With the cumulant L_n(t) = Σ_d log E exp(t_d x̃_nd) of `cumulants`, an example of class c has

    binary          t = a_c w                  exp(S) or log(1 + exp(S)),   S = L(t) + a_c b
    joint, K > 2    t_k = w_k − w_c            log Σ_k exp(S_k),            S_k = L(t_k) + b_k − b_c

L is convex in t, and so are increasing convex functions of it. As in every objective of the library, the
offset of F = penalty(W) + Σ_n s_n·loss_n (C is part of s) is optimised away at every point, so that the
penalty's certificate holds. All values stay in the log domain; F is +inf where the noise has no
MGF, or beyond the range of numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logsumexp

from marginout._core.design.storage import Design
from marginout._core.interfaces import Array, Penalty
from marginout._models.mcf.cumulants import Coding, make_cumulants
from marginout.noise import Noise

#: Most Newton steps for the offset, and the decrement, relative to F, at which they end.
OFFSET_STEPS, OFFSET = 50, 1e-13
#: Logarithm of the odds that an offset gives a class without examples.
NEVER = 36.0


class Losses(NamedTuple):
    """The weighted sum of the losses at scores S and an offset, and its derivatives."""

    value: float
    R: Array  # (n, K), ∂/∂S_k
    H: Array  # (n, K), ∂²/∂S_k²
    slope: Array  # (K,), in the offset
    bend: Array  # (K, K), in the offset


@dataclass
class Point:
    """Weights, their best offset and its suboptimality, about; F there, R = ∂F/∂L and H = ∂²F/∂L²."""

    W: Array
    b: Array
    value: float
    R: Array
    H: Array
    offset_left: float


class MgfObjective:
    """F of the module's docstring, for one binary or one joint problem.

    Parameters
    ----------
    penalty : Penalty
    design : Design
        X with the moments of its noise.
    noise : Noise
        The same noise, for its MGF.
    coding : Coding
    weights : (n,), C times the weight of each example
    loss : "logistic" or "exponential"; the second for binary problems only
    fit_intercept : bool
    """

    def __init__(
        self,
        penalty: Penalty,
        design: Design,
        noise: Noise,
        coding: Coding,
        weights: Array,
        loss: str,
        fit_intercept: bool,
    ) -> None:
        self.penalty = penalty
        self.cumulants = make_cumulants(design, noise, coding)
        self.coding, self.weights, self.fit_intercept = coding, weights, fit_intercept
        self.exponential = loss == "exponential"
        self._design = design
        self._codes = coding.a[coding.classes]
        self.d, self.K = self._design.d, coding.a.shape[1]

    def point(self, W: Array, b: Array) -> Point:
        """W with its best offset, searched from b: one pass over X, or none at W = 0."""
        S = self.cumulants.forward(W) if W.any() else np.zeros((len(self.weights), self.K))
        if not np.isfinite(S).all():
            return Point(W, b, np.inf, S, S, 0.0)
        left = 0.0
        if self.fit_intercept:
            b, left = (self._balance(S), 0.0) if self.exponential else self._settle(S, b)
        losses = self.losses(S, b)
        value = float(self.penalty.value(W).sum()) + losses.value
        return Point(W, b, value, losses.R, losses.H, left)

    def gradient(self, point: Point) -> Array:
        """∇_W F, (d, K): one pass over X."""
        return np.asarray(self.cumulants.backward(point.W, point.R) + self.penalty.gradient(point.W))

    def curvature(self, point: Point) -> Array:
        """About the diagonal of the Hessian, (d, K), by the noise's moments: two passes over X.

        With L ≈ t·μ + ½t²·V it is that of the penalty + Σ_n a²(H μ² + R V): both the loss and L are curved.
        """
        R, square = point.R, self._codes**2
        if self.coding.joint:  # w_c stands in the contrasts of all the other classes
            R = R.copy()
            R[np.arange(len(R)), self.coding.classes] = R.sum(axis=1)
        squares, _ = self._design.diagonal(np.ascontiguousarray(square * point.H))
        _, variance = self._design.diagonal(np.ascontiguousarray(square * R))
        return np.asarray(self.penalty.curvature(point.W) + squares + variance)

    def losses(self, S: Array, b: Array) -> Losses:
        """The weighted sum of the losses at S = L and an offset: no pass over X."""
        s = self.weights[:, None]
        if self.coding.joint:
            return self._softmax(S + b - b[self.coding.classes, None], s)
        Z = S + self._codes * b
        if self.exponential:
            with np.errstate(over="ignore", invalid="ignore"):
                R = np.where(s > 0, s * np.exp(Z), 0.0)
            H, value = R, float(R.sum())
        else:
            P = expit(Z)
            R, H = s * P, s * P * expit(-Z)
            value = float(self.weights @ np.logaddexp(0.0, Z[:, 0]))
        a = self._codes
        return Losses(value, R, H, (a * R).sum(axis=0), np.array([[(a * a * H).sum()]]))

    def _softmax(self, Z: Array, s: Array) -> Losses:
        largest = Z.max(axis=1, keepdims=True)
        P = np.exp(Z - largest)
        total = P.sum(axis=1, keepdims=True)
        P /= total
        value = float(self.weights @ (np.log(total) + largest)[:, 0])
        own = np.arange(len(Z)), self.coding.classes
        R = s * P
        bend = np.diag(R.sum(axis=0)) - P.T @ R
        H = R * (1 - P)
        R[own] = 0.0  # the contrast of a class with itself is constant
        slope = R.sum(axis=0) - np.bincount(self.coding.classes, R.sum(axis=1), self.K)
        return Losses(value, R, H, slope, bend)

    def _settle(self, S: Array, b: Array) -> tuple[Array, float]:
        """The best offset, by Newton's method with steps cut until F falls, and its suboptimality, about."""
        at, longest = self.losses(S, b), 10.0 + 2.0 * float(np.abs(S).max(initial=0.0))
        for _ in range(OFFSET_STEPS):
            # A constant added to the offsets of all classes changes nothing: without a little more on the
            # diagonal, the matrix of a joint problem is singular.
            more = 1e-12 * np.trace(at.bend) + np.finfo(float).tiny
            step = -np.linalg.solve(at.bend + more * np.eye(self.K), at.slope)
            step = np.clip(step - step.mean() if self.coding.joint else step, -longest, longest)
            left = -0.5 * float(at.slope @ step)
            if left <= OFFSET * at.value:
                return b + step, max(left, 0.0)  # the last step squares the error
            trial = self.losses(S, b + step)
            while trial.value > at.value and np.abs(step).max() > 1e-12:
                step *= 0.5
                trial = self.losses(S, b + step)
            if trial.value >= at.value:
                break
            b, at = b + step, trial
        return b, max(left, 0.0)

    def _balance(self, S: Array) -> Array:
        """The best offset of the exponential loss, the minimiser of A·exp(a₁b) + B·exp(a₀b), a₁ < 0 < a₀."""
        with np.errstate(divide="ignore"):
            logs = S[:, 0] + np.log(self.weights)
        sides = [logs[self.coding.classes == c] for c in (0, 1)]
        log_b, log_a = (logsumexp(side) if side.size else -np.inf for side in sides)
        high, low = self.coding.a[0, 0], -self.coding.a[1, 0]
        odds = np.clip(log_a - log_b, -NEVER, NEVER) if min(log_a, log_b) == -np.inf else log_a - log_b
        return np.array([(np.log(low / high) + odds) / (low + high)])
