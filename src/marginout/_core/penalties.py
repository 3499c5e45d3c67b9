"""Penalties on the weights, the first term of F.

Nothing else in the library knows which penalty is in use. A new one is a class here that satisfies
:class:`marginout._core.interfaces.Penalty`.
"""

from __future__ import annotations

import numpy as np

from marginout._core.interfaces import Array
from marginout._core.objective import dots


class Ridge:
    """½‖w‖² for each output: strongly convex with modulus 1, and its own conjugate."""

    self_conjugate = True
    l1 = 0.0

    def value(self, W: Array) -> Array:
        return 0.5 * dots(W, W)

    def gradient(self, W: Array) -> Array:
        return W

    def curvature(self, W: Array) -> Array:
        return np.broadcast_to(1.0, W.shape)

    def line(self, W: Array, P: Array | None) -> RidgeLine:
        return RidgeLine(W, P)

    def certificate(self, W: Array, G: Array, value: Array) -> Array:
        """½‖∇F‖², as F is strongly convex with modulus 1."""
        return 0.5 * dots(G, G)


class RidgeLine:
    """½‖w + t·p‖² = ½‖w‖² + t·w·p + ½t²‖p‖²."""

    def __init__(self, W: Array, P: Array | None) -> None:
        zero = np.zeros(W.shape[1])
        self._ww = dots(W, W)
        self._wp, self._pp = (zero, zero) if P is None else (dots(W, P), dots(P, P))

    def expand(self, t: Array) -> tuple[Array, Array, Array]:
        slope = self._wp + t * self._pp
        return 0.5 * (self._ww + t * (self._wp + slope)), slope, self._pp


class ElasticNet:
    """½(1 − ρ)‖w‖² + ρ‖w‖₁ for each output: weights that are exactly zero.

    The gradient and the curvature are those of the first term; ρ is `l1`.
    """

    self_conjugate = False

    def __init__(self, ratio: float) -> None:
        self.l1 = ratio

    def value(self, W: Array) -> Array:
        return np.asarray(0.5 * (1 - self.l1) * dots(W, W) + self.l1 * np.abs(W).sum(axis=0))

    def gradient(self, W: Array) -> Array:
        return (1 - self.l1) * W

    def curvature(self, W: Array) -> Array:
        return np.broadcast_to(1 - self.l1, W.shape)

    def line(self, W: Array, P: Array | None) -> ElasticLine:
        return ElasticLine(self, W, P)

    def certificate(self, W: Array, G: Array, value: Array) -> Array:
        """Fenchel's gap between F and a lower bound of it that the slope g of the losses at w gives.

        The losses at u are at least those at w plus g·(u − w), so that min F is at least this at the best u.
        As losses are not negative, ρ‖u‖₁ ≤ F(w) at the minimum of F: two bounds, of which the better counts.
        """
        g = G - self.gradient(W)
        over = np.maximum(np.abs(g) - self.l1, 0.0)
        reach = over.max(axis=0) * value / self.l1
        if self.l1 < 1:
            reach = np.minimum(reach, 0.5 * dots(over, over) / (1 - self.l1))
        return np.asarray(np.maximum(self.value(W) + dots(g, W) + reach, 0.0))


class ElasticLine:
    """The same along w + t·p, of the weights that do not stay at zero."""

    def __init__(self, penalty: ElasticNet, W: Array, P: Array | None) -> None:
        P = np.zeros((1, W.shape[1])) if P is None else P
        used = W.any(axis=1) | P.any(axis=1)
        self._penalty, self._W, self._P = penalty, W[used], np.broadcast_to(P, W.shape)[used]

    def expand(self, t: Array) -> tuple[Array, Array, Array]:
        W, P, l1 = self._W + t * self._P, self._P, self._penalty.l1
        slope = dots(self._penalty.gradient(W), P) + l1 * dots(np.sign(W), P)
        return self._penalty.value(W), slope, (1 - l1) * dots(P, P)
