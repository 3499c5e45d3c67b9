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

    def value(self, W: Array) -> Array:
        return 0.5 * dots(W, W)

    def gradient(self, W: Array) -> Array:
        return W

    def curvature(self, W: Array) -> Array:
        return np.broadcast_to(1.0, W.shape)

    def line(self, W: Array, P: Array | None) -> RidgeLine:
        return RidgeLine(W, P)

    def certificate(self, W: Array, G: Array) -> Array:
        """½‖∇F‖², as F is strongly convex with modulus 1."""
        return 0.5 * dots(G, G)


class RidgeLine:
    """½‖w + t·p‖² = ½‖w‖² + t·w·p + ½t²‖p‖²."""

    def __init__(self, W: Array, P: Array | None) -> None:
        zero = np.zeros(W.shape[1])
        self._ww = dots(W, W)
        self._wp, self._pp = (zero, zero) if P is None else (dots(W, P), dots(P, P))

    def expand(self, t: Array) -> tuple[Array, Array, Array]:
        value = 0.5 * (self._ww + t * (2 * self._wp + t * self._pp))
        return value, self._wp + t * self._pp, self._pp
