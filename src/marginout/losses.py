r"""Expected losses as scalar functions of the mean m and the variance v of a noisy score.

Every loss here is built from one quantity, an expected absolute value. With ζ of mean z
and variance v,

.. math:: \max(0,\zeta) = \tfrac12(\zeta + |\zeta|) \quad\Rightarrow\quad
          E\max(0,\zeta) = \tfrac12\bigl(z + E|\zeta|\bigr),

and E|ζ| is either bounded, E|ζ| ≤ √(z² + v), which is the variational bound of the paper
in closed form (``expectation="bound"``), or taken for a normal ζ (``"gaussian"``).
The hinge and the ε-insensitive loss are one and two such terms; the logistic loss under
normal noise is a mixture of them, because the logistic distribution is a scale mixture
of normals. All functions broadcast, stay finite for v → 0 and for scores of ±1e6, and
cost O(n).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marginout._kernels import _normal, _plane

Array = NDArray[np.float64]

__all__ = [
    "EpsilonInsensitive",
    "Hinge",
    "Jet",
    "Logistic",
    "LogisticGaussian",
    "Loss",
    "Quadratic",
    "logistic",
]

#: Smallest radius √(z²+v) or deviation √v that is divided by: its cube is still a normal number.
TINY = 1e-100

#: A compiled loop has no temporaries: it may take more at a time.
COMPILED_CHUNK = 2**17

#: Largest curvature of ½(E|ζ|)² for a normal ζ, over all directions of (mean, deviations):
#: max over r of the top eigenvalue of h·∇²h + ∇h∇hᵀ, h = E|r + N(0,1)|, reached at |r| = 1.615.
GAUSSIAN_CURVATURE = 1.4678957898220109


class Jet(NamedTuple):
    """Value and derivatives of a loss φ(m, v; y) at some points, up to the second order."""

    value: Array
    dm: Array
    dv: Array
    dmm: Array
    dmv: Array
    dvv: Array


class Plane(NamedTuple):
    """Scores on the plane (w + t·p, b + δ): mean m + t·a + δ, variance v + 2t·c + t²·e ≥ floor."""

    m: Array
    v: Array
    a: Array
    c: Array
    e: Array
    t: Array
    delta: Array
    floor: float

    def moments(self) -> tuple[Array, Array]:
        """Mean and variance at (t, δ)."""
        mean, variance = np.empty_like(self.m), np.empty_like(self.m)
        self.fill_moments(mean, variance)
        return mean, variance

    def fill_moments(self, mean: Array, variance: Array) -> None:
        """The same, into arrays that are there."""
        _plane.moments(*self, mean, variance)


class Box(NamedTuple):
    """The dual of a kinked loss without noise: min ½‖Σβx‖² − target·β + ε|β|₁ over a box."""

    target: Array
    epsilon: float
    low: Array
    high: Array


class Loss(ABC):
    """A scalar loss φ(m, v; y), convex in the weights that (m, v) come from."""

    #: Whether φ is piecewise linear in m at v = 0, that is, not smooth without noise.
    kinked = False
    #: The length by which scores are measured: a fraction of it is negligible.
    scale = 1.0
    #: A step in the score that is worth planning for: curvature is judged at this length.
    grain = 0.1
    #: Outputs of one problem: more than one couples them.
    outputs = 1
    #: Examples times problems that are worked on at a time, so that temporaries stay in cache.
    chunk = 16_384

    @abstractmethod
    def jet(self, m: Array, v: Array, y: Array) -> Jet:
        """φ and its five derivatives."""

    @abstractmethod
    def majorizer(self, m: Array, v: Array, y: Array) -> Array:
        """A curvature γ that bounds φ from above.

        For all weights, with everything else at (m, v),

        φ(w') ≤ φ(w) + ∇φ·(w' − w) + ½γ[(m' − m)² + Σ_d V_d (w'_d − w_d)²].
        """

    def least_squares(self, y: Array) -> Array:
        """Targets of a least-squares problem whose solution is a fair start."""
        return y

    def box(self, y: Array, weights: Array) -> Box:
        """The dual at v = 0; kinked losses have one."""
        raise TypeError(f"{type(self).__name__} is smooth without noise and needs no dual")

    def add_expansion(self, plane: Plane, y: Array, weights: Array, sums: Array) -> None:
        """Add Σ weight·φ and its first and second derivatives in (t, δ) to six (K,) sums.

        From `jet` here; a loss that can do it in one loop may.
        """
        jet = self.jet(*plane.moments(), y)
        _plane.expansion(weights, *jet, plane.a, plane.c, plane.e, plane.t, sums)

    def add_majorizer(self, plane: Plane, y: Array, weights: Array, sums: Array) -> None:
        """Add the majoriser's second derivatives tt, tδ, δδ to three (K,) sums; as `add_expansion`."""
        gamma = self.majorizer(*plane.moments(), y)
        _plane.majorizer(weights, gamma, plane.a, plane.e, sums)

    def fill_slopes(self, m: Array, v: Array, y: Array, dm: Array, dv: Array) -> None:
        """dm, dv = ∂φ/∂m, ∂φ/∂v. From `jet` here; a loss that can do with less work may."""
        jet = self.jet(m, v, y)
        dm[...], dv[...] = jet.dm, jet.dv

    def value(self, m: Array, v: Array, y: Array) -> Array:
        """φ alone."""
        return self.jet(m, v, y).value


class _Abs(NamedTuple):
    """E|ζ| as |z| + excess, with its derivatives in z and v."""

    excess: Array
    dz: Array
    dv: Array
    dzz: Array
    dzv: Array
    dvv: Array


def _abs_bound(z: Array, v: Array) -> _Abs:
    """√(z² + v) ≥ E|ζ|."""
    r = np.maximum(np.sqrt(z * z + v), TINY)
    i = 1.0 / r
    i3 = i * i * i
    return _Abs(v / (r + np.abs(z)), z * i, 0.5 * i, v * i3, -0.5 * z * i3, -0.25 * i3)


def _abs_gaussian(z: Array, v: Array) -> _Abs:
    """E|ζ| for ζ ~ N(z, v)."""
    z, v = np.broadcast_arrays(np.asarray(z, dtype=float), np.asarray(v, dtype=float))
    parts = np.empty((6, z.size))
    _normal.abs_gaussian(TINY, z.ravel(), v.ravel(), parts)
    return _Abs(*parts.reshape(6, *z.shape))


def _curvature_bound(z: Array, v: Array) -> Array:
    """The smallest γ with √(z'² + v') below its tangent plus ½γ‖change‖²: 1/√(z² + v)."""
    r = np.asarray(z * z + v)
    np.maximum(np.sqrt(r, out=r), TINY, out=r)
    return np.divide(1.0, r, out=r)


def _curvature_gaussian(z: Array, v: Array) -> Array:
    """A γ for E|ζ|: h ≤ ½(h²/h₀ + h₀), and ½h² has a curvature of at most 1.468."""
    return GAUSSIAN_CURVATURE / np.maximum(np.abs(z) + _abs_gaussian(z, v).excess, TINY)


_ABS: dict[str, tuple[Callable[[Array, Array], _Abs], Callable[[Array, Array], Array]]] = {
    "bound": (_abs_bound, _curvature_bound),
    "gaussian": (_abs_gaussian, _curvature_gaussian),
}


class Hinge(Loss):
    r"""Expected hinge loss with margin ℓ, of z = ℓ − y·m.

    .. math:: \varphi = \tfrac12\bigl(z + \sqrt{z^2+v}\bigr) \quad\text{or}\quad
              \varphi = z\,\Phi(z/\sqrt v) + \sqrt v\,\phi(z/\sqrt v)

    for ``expectation="bound"`` or ``"gaussian"``; max(0, z) at v = 0.
    """

    kinked = True

    def __init__(self, margin: float = 1.0, expectation: str = "bound") -> None:
        self.margin = self.scale = float(margin)
        self.grain = 0.1 * self.margin
        self.bound = expectation == "bound"
        if self.bound:
            self.chunk = COMPILED_CHUNK
        self._abs, self._curvature = _ABS[expectation]

    def jet(self, m: Array, v: Array, y: Array) -> Jet:
        z = self.margin - y * m
        a = self._abs(z, v)
        return Jet(
            np.maximum(z, 0.0) + 0.5 * a.excess,
            -0.5 * y * (1.0 + a.dz),
            0.5 * a.dv,
            0.5 * a.dzz,
            -0.5 * y * a.dzv,
            0.5 * a.dvv,
        )

    def majorizer(self, m: Array, v: Array, y: Array) -> Array:
        return 0.5 * self._curvature(self.margin - y * m, v)

    def add_expansion(self, plane: Plane, y: Array, weights: Array, sums: Array) -> None:
        if self.bound:
            _plane.hinge_bound(weights, y, self.margin, TINY, *plane, sums)
        else:
            _normal.hinge_gaussian(weights, y, self.margin, TINY, *plane, sums)

    def add_majorizer(self, plane: Plane, y: Array, weights: Array, sums: Array) -> None:
        if self.bound:
            _plane.hinge_bound_majorizer(weights, y, self.margin, TINY, *plane, sums)
        else:
            super().add_majorizer(plane, y, weights, sums)

    def fill_slopes(self, m: Array, v: Array, y: Array, dm: Array, dv: Array) -> None:
        if self.bound:
            _plane.hinge_bound_slopes(y, self.margin, TINY, m, v, dm, dv)
        else:
            super().fill_slopes(m, v, y, dm, dv)

    def least_squares(self, y: Array) -> Array:
        return self.margin * y

    def box(self, y: Array, weights: Array) -> Box:
        positive = y > 0
        return Box(self.margin * y, 0.0, np.where(positive, 0.0, -weights), np.where(positive, weights, 0.0))


class EpsilonInsensitive(Loss):
    r"""Expected ε-insensitive loss of Δ = y − m.

    .. math:: \max(0, |\Delta|-\varepsilon) = \tfrac12|\Delta-\varepsilon| +
              \tfrac12|\Delta+\varepsilon| - \varepsilon,

    with each absolute value replaced by its bound or by its normal expectation.
    """

    kinked = True

    def __init__(self, epsilon: float = 0.1, expectation: str = "bound", scale: float = 1.0) -> None:
        self.epsilon = float(epsilon)
        self.bound = expectation == "bound"
        self.scale = float(scale)
        self.grain = max(self.epsilon, 0.01 * self.scale)
        self._abs, self._curvature = _ABS[expectation]

    def jet(self, m: Array, v: Array, y: Array) -> Jet:
        delta = y - m
        low, high = delta - self.epsilon, delta + self.epsilon
        a, b = self._abs(low, v), self._abs(high, v)
        return Jet(
            np.maximum(np.abs(delta) - self.epsilon, 0.0) + 0.5 * (a.excess + b.excess),
            -0.5 * (a.dz + b.dz),
            0.5 * (a.dv + b.dv),
            0.5 * (a.dzz + b.dzz),
            -0.5 * (a.dzv + b.dzv),
            0.5 * (a.dvv + b.dvv),
        )

    def majorizer(self, m: Array, v: Array, y: Array) -> Array:
        delta = y - m
        return 0.5 * (self._curvature(delta - self.epsilon, v) + self._curvature(delta + self.epsilon, v))

    def box(self, y: Array, weights: Array) -> Box:
        return Box(np.array(y), self.epsilon, -weights, np.array(weights))


class Logistic(Loss):
    r"""Bound on the expected logistic loss (Jaakkola & Jordan), with ω = √(m² + v).

    .. math:: \varphi = \log 2\cosh(\omega/2) - \tfrac12 y\,m

    log(1 + exp(−y·m)) at v = 0.
    """

    chunk = COMPILED_CHUNK

    def jet(self, m: Array, v: Array, y: Array) -> Jet:
        omega = np.sqrt(m * m + v)
        gamma, slope = _tanh_quotients(omega)
        size = np.abs(m)
        # log 2cosh(ω/2) − ½y·m, with ω − |m| and |m| − y·m taken apart: neither cancels.
        excess = v / np.maximum(omega + size, TINY)
        return Jet(
            0.5 * excess + 0.5 * (size - y * m) + np.log1p(np.exp(-omega)),
            gamma * m - 0.5 * y,
            0.5 * gamma,
            gamma + slope * m * m,
            0.5 * slope * m,
            0.25 * slope,
        )

    def majorizer(self, m: Array, v: Array, y: Array) -> Array:
        return _tanh_quotients(np.sqrt(m * m + v))[0]

    def add_expansion(self, plane: Plane, y: Array, weights: Array, sums: Array) -> None:
        _plane.logistic_bound(weights, y, TINY, *plane, sums)

    def fill_slopes(self, m: Array, v: Array, y: Array, dm: Array, dv: Array) -> None:
        _plane.logistic_bound_slopes(y, m, v, dm, dv)

    def least_squares(self, y: Array) -> Array:
        return 2 * y


def _tanh_quotients(omega: Array) -> tuple[Array, Array]:
    """γ = f'/ω and γ'/ω = (f'' − f'/ω)/ω² of f = log 2cosh(ω/2), by their series near 0."""
    w = np.maximum(omega, 0.03)
    tanh = np.tanh(0.5 * w)
    gamma = 0.5 * tanh / w
    slope = (0.25 * (1.0 - tanh * tanh) - gamma) / (w * w)
    u = omega * omega
    near = omega < 0.03  # the series' next terms are below 1e-13 there
    gamma = np.where(near, 0.25 - u / 48 + u * u / 480, gamma)
    slope = np.where(near, -1 / 24 + u / 120 - 17 * u * u / 13440, slope)
    return gamma, slope


class LogisticGaussian(Loss):
    r"""Expected logistic loss of a normal score, to about 1e-9 for every m and v.

    The logistic distribution is a normal one whose deviation is twice a Kolmogorov
    variable K (Andrews & Mallows 1974). Integrating its distribution function twice,

    .. math:: \log(1+e^{z}) = E_K\; E\max(0, z + 2K\,\xi), \quad \xi\sim N(0,1),

    so with normal noise of variance v the expected loss is a mixture over K of expected
    hinge losses of variance v + 4K², summed here by a Gauss rule of 12 nodes.
    """

    def jet(self, m: Array, v: Array, y: Array) -> Jet:
        nodes, weights = _kolmogorov_rule()
        z = -y * m
        total: list[Array] | None = None
        for node, weight in zip(nodes, weights, strict=True):
            a = _abs_gaussian(z, v + node)
            terms = [0.5 * weight * part for part in a]
            total = terms if total is None else [t + u for t, u in zip(total, terms, strict=True)]
        assert total is not None
        excess, dz, dv, dzz, dzv, dvv = total
        return Jet(np.maximum(z, 0.0) + excess, -y * (0.5 + dz), dv, dzz, -y * dzv, dvv)

    def majorizer(self, m: Array, v: Array, y: Array) -> Array:
        nodes, weights = _kolmogorov_rule()
        z = -y * m
        gamma = sum(
            0.5 * weight * _curvature_gaussian(z, v + node)
            for node, weight in zip(nodes, weights, strict=True)
        )
        return np.asarray(np.minimum(gamma, 0.25))  # log(1 + e^z) has a curvature of at most ¼

    def least_squares(self, y: Array) -> Array:
        return 2 * y


@lru_cache(maxsize=1)
def _kolmogorov_rule(size: int = 12) -> tuple[Array, Array]:
    """Nodes 4k² and weights of a Gauss rule in log k for the Kolmogorov distribution of k.

    Its density, by the series that converges fastest on either side of k = 0.8, is put
    on a fine grid; Stieltjes' recurrence and an eigenvalue problem give the rule.
    """
    u = np.linspace(-2.0, 1.5, 4001)
    k = np.exp(u)
    j = np.arange(1, 30)[:, None]
    odd = 2 * j - 1
    high = 8 * k * np.sum((-1.0) ** (j + 1) * j**2 * np.exp(-2 * (j * k) ** 2), axis=0)
    terms = np.exp(-((odd * np.pi / k) ** 2) / 8) * ((odd * np.pi) ** 2 / (4 * k**4) - 1 / k**2)
    mass = np.where(k < 0.8, np.sqrt(2 * np.pi) * terms.sum(axis=0), high) * k
    mass /= mass.sum()
    diagonal, off = np.empty(size), np.zeros(size)
    before, now = np.zeros_like(u), np.ones_like(u)
    for i in range(size):
        diagonal[i] = np.sum(mass * u * now * now)
        after = (u - diagonal[i]) * now - (off[i - 1] if i else 0.0) * before
        off[i] = np.sqrt(np.sum(mass * after * after))
        before, now = now, after / off[i]
    nodes, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off[:-1], 1) + np.diag(off[:-1], -1))
    return 4 * np.exp(2 * nodes), vectors[0] ** 2


class Quadratic(Loss):
    r"""Expected squared error, exact for every noise.

    .. math:: \varphi = \tfrac12\bigl[(y-m)^2 + v\bigr]
    """

    def jet(self, m: Array, v: Array, y: Array) -> Jet:
        one, zero = np.ones_like(m), np.zeros_like(m)
        return Jet(0.5 * ((y - m) ** 2 + v), m - y, 0.5 * one, one, zero, zero)

    def majorizer(self, m: Array, v: Array, y: Array) -> Array:
        return np.ones_like(m)


def logistic(expectation: str = "bound") -> Loss:
    """The logistic loss under an expectation: the paper's bound or the normal one."""
    return {"bound": Logistic, "gaussian": LogisticGaussian}[expectation]()
