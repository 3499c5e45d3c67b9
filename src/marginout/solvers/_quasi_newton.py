"""L-BFGS: the memory of the last steps, and a line search for the weak Wolfe conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from scipy.linalg.lapack import dtrtrs

from marginout._core.interfaces import Array

#: Steps that the memory holds.
MEMORY = 20
#: Fraction of s·s that s·y must exceed: a step of less curvature is not remembered.
CURVED = 1e-10
#: Fraction of the decrease along the slope that a step must bring (Armijo), and fraction of the slope that
#: may be left at its end (Wolfe).
ARMIJO, WOLFE = 1e-4, 0.9


T = TypeVar("T")


def wolfe_step(
    evaluate: Callable[[float], tuple[float, T]],
    gradient: Callable[[T], Array],
    P: Array,
    value: float,
    slope: float,
    *,
    first: float = 1.0,
    trials: int,
    slack: float = 0.0,
    parabola: bool = False,
) -> tuple[float, float, T, Array] | None:
    """A step t along P that satisfies the weak Wolfe conditions, by bisection; F, the point and ∇F there.

        F(t) ≤ F(0) + ARMIJO·t·F'(0) + slack,     F'(t) ≥ WOLFE·F'(0)

    F need not be smooth. Where F or F' is not finite, the step is cut like one that goes up. After the last
    trial, the longest step that satisfies the first condition is taken; None if there is none.

    Parameters
    ----------
    evaluate : t to F and the point there
    gradient : a point to ∇F; called only where the first condition holds
    P : the direction
    value, slope : F(0) and F'(0) < 0
    first : the first t
    trials : most calls of `evaluate`
    slack : rise of F that counts as rounding
    parabola : whether the first cut is made at the minimum of the parabola through F(0), F'(0) and F(t),
        which saves a trial where F is smooth
    """
    low, high, t = 0.0, np.inf, first
    best: tuple[float, float, T, Array] | None = None
    for _ in range(trials):
        trial, point = evaluate(t)
        share = 0.5
        if not trial <= value + ARMIJO * t * slope + slack:
            high = t
            if parabola and low == 0:
                share = _parabola_share(trial - value - t * slope, t * slope)
        else:
            G = gradient(point)
            end = float(np.vdot(G, P))
            if end >= WOLFE * slope:
                return t, trial, point, G
            if np.isfinite(end):
                low, best = t, (t, trial, point, G)
            else:
                high = t
        t = 2 * low if np.isinf(high) else low + share * (high - low)
    return best


def _parabola_share(rise: float, promise: float) -> float:
    """The minimum of a parabola that rises by `rise` above its tangent, as a share of the step."""
    if not np.isfinite(rise) or rise <= 0:
        return 0.5
    return float(np.clip(-0.5 * promise / rise, 0.1, 0.5))


class Memory:
    """The inverse Hessian that the last steps s and changes y of the gradient suggest, times the gradient G.

    The compact form of Byrd, Nocedal & Schnabel (1994): with R the upper triangle of SᵀY, D its diagonal and
    δ = s·y / y·y of the last step,

        H = δI + (S  δY) [[R⁻ᵀ(D + δYᵀY)R⁻¹, −R⁻ᵀ], [−R⁻¹, 0]] (S  δY)ᵀ,

    so that S and Y are read twice, each time as matrices. The two-loop recursion goes through
    them one vector after another.
    """

    def __init__(self, G: Array) -> None:
        self._steps, self._changes = np.empty((2, MEMORY, G.size))
        self._order: list[int] = []  # places in these two, the oldest first
        self._SY, self._YY = np.zeros((2, MEMORY, MEMORY))  # s_i·y_j and y_i·y_j, the oldest first
        self._slopes = np.zeros((2, 0))  # s_i·G and y_i·G at the last G, the oldest first
        self._G = G

    def __len__(self) -> int:
        return len(self._order)

    def learn(self, s: Array, G: Array) -> Array:
        """H·G at the end of the step s, where the gradient is G; a step of curvature > 0 is remembered."""
        y, keep = G - self._G, False
        if np.vdot(s, y) > CURVED * np.vdot(s, s):
            keep, ends = True, [np.vdot(s, self._G), np.vdot(y, self._G)]
            self._slopes = np.column_stack([self._slopes, ends])
            self._replace_oldest(s, y)
        order, used, g = self._order, len(self._order), G.ravel()
        slopes = np.stack([(self._steps[:used] @ g)[order], (self._changes[:used] @ g)[order]])
        if keep:
            inner = slopes - self._slopes  # of all s and y with the new y
            self._SY[:used, used - 1], self._YY[:used, used - 1] = inner
            self._YY[used - 1, :used] = inner[1]
        self._slopes, self._G = slopes, G
        return self._product(g, *slopes).reshape(G.shape) if used else G

    def _replace_oldest(self, s: Array, y: Array) -> None:
        at = len(self._order)
        if at == MEMORY:
            at = self._order.pop(0)
            self._slopes = self._slopes[:, 1:]
            for products in (self._SY, self._YY):
                products[:-1, :-1] = products[1:, 1:].copy()
        self._order.append(at)
        self._steps[at], self._changes[at] = s.ravel(), y.ravel()

    def _product(self, g: Array, s_slopes: Array, y_slopes: Array) -> Array:
        used = len(self._order)
        SY, YY = self._SY[:used, :used], self._YY[:used, :used]
        scale = SY[-1, -1] / YY[-1, -1]
        inner, _ = dtrtrs(SY, s_slopes)  # it reads the upper triangle alone
        middle = np.diagonal(SY) * inner + scale * (YY @ inner - y_slopes)
        shares = np.empty((2, used))
        shares[:, self._order] = dtrtrs(SY, middle, trans=1)[0], -scale * inner
        product = shares[0] @ self._steps[:used]
        product += shares[1] @ self._changes[:used]
        product += scale * g
        return np.asarray(product)
