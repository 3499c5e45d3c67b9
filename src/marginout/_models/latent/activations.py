r"""Hidden units: the first two moments of σ(z) for a normal pre-activation z ~ N(A, S).

Two propagations describe a unit by its mean g, a slope η, and a residual variance r that it shares
with no other unit. For hidden units whose pre-activations have covariance Σ,

.. math:: E\,\sigma(z_k) = g_k, \qquad
          \mathrm{Cov}(\sigma(z_k), \sigma(z_l)) = \eta_k\eta_l\,\Sigma_{kl} + [k = l]\; r_k .

``taylor`` (the paper) expands σ at A: g = σ(A), η = σ'(A), r = 0. A saturated unit has η = 0, as if noise
could not reach it. ``gaussian`` takes g = E σ(z) and η = E σ'(z), the first coefficients of σ in Hermite
polynomials, and r = Var σ(z) − η²S, the rest of its variance: means and variances of the units are exact
for normal z, covariances are exact to the first order in Σ_kl.

Every derivative follows from f_j = E σ^{(j)}(z), because ∂f_j/∂A = f_{j+1} and, by the heat
equation, ∂f_j/∂S = ½ f_{j+2}.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from marginout.losses import LEAST_RADIUS, _kolmogorov_rule

Array = NDArray[np.float64]

#: Number of normal distributions whose mixture approximates the logistic distribution: σ to 1e-8.
NODES = 10


class Rest(NamedTuple):
    """r with its derivatives in A and S, and the derivatives in S of g and η."""

    r: Array
    r_a: Array
    r_s: Array
    g_s: Array
    eta_s: Array


class Unit(NamedTuple):
    """g, η and ∂η/∂A of the module's docstring; `rest` is None under Taylor's expansion."""

    g: Array
    eta: Array
    eta_a: Array
    rest: Rest | None = None


class _Normal(NamedTuple):
    """f_0 … f_3 and the variance of σ(z) with its two derivatives."""

    f0: Array
    f1: Array
    f2: Array
    f3: Array
    var: Array
    var_a: Array
    var_s: Array


class Activation(ABC):
    """An activation function σ, applied entry by entry."""

    @abstractmethod
    def __call__(self, A: Array) -> Array:
        """σ(A)."""

    @abstractmethod
    def _derivatives(self, A: Array) -> tuple[Array, Array, Array]:
        """σ, σ' and σ'' at A."""

    @abstractmethod
    def _normal(self, A: Array, S: Array) -> _Normal:
        """Moments of σ(z) for z ~ N(A, S)."""

    def fill(self, A: NDArray[Any], G: NDArray[Any]) -> None:
        """G = σ(A)."""
        G[...] = self(A)

    def pull(self, A: NDArray[Any], G: NDArray[Any], dG: NDArray[Any], spare: NDArray[Any]) -> None:
        """dG ← dG∘σ'(A), where G = σ(A); A and G are not needed afterwards, nor is what is in `spare`."""
        dG *= self._derivatives(A)[1]

    def deviation(self) -> float:
        """The deviation of σ(z) for z ~ N(0, 1)."""
        return float(np.sqrt(self._normal(np.zeros(1), np.ones(1)).var[0]))

    def taylor(self, A: Array) -> Unit:
        """The unit linearised at the mean A of its pre-activation."""
        return Unit(*self._derivatives(A))

    def gaussian(self, A: Array, S: Array) -> Unit:
        """The unit's moments for a normal pre-activation of mean A and variance S."""
        n = self._normal(A, S)
        r = n.var - n.f1 * n.f1 * S
        some = r > 0  # where r is zero, rounding may leave -1e-8
        rest = Rest(
            np.where(some, r, 0.0),
            np.where(some, n.var_a - 2 * n.f1 * n.f2 * S, 0.0),
            np.where(some, n.var_s - n.f1 * (n.f1 + n.f3 * S), 0.0),
            0.5 * n.f2,
            0.5 * n.f3,
        )
        return Unit(n.f0, n.f1, n.f2, rest)


class Sigmoid(Activation):
    r"""1/(1 + e^{−z}).

    The logistic distribution is a scale mixture of normals, σ(z) = E_K Φ(z/2K) with K of
    Kolmogorov's distribution; so is E σ(z), with every variance raised by S. And
    E σ² = E σ − E σ', because σ' = σ − σ².
    """

    def __call__(self, A: Array) -> Array:
        return np.asarray(expit(A))

    def _derivatives(self, A: Array) -> tuple[Array, Array, Array]:
        g = expit(A)
        eta = g * (1 - g)
        return g, eta, eta * (1 - 2 * g)

    def fill(self, A: NDArray[Any], G: NDArray[Any]) -> None:
        np.multiply(A, 0.5, out=G)  # ½ + ½ tanh(z/2): NumPy's tanh is vectorised, and never overflows
        np.tanh(G, out=G)
        G *= 0.5
        G += 0.5

    def pull(self, A: NDArray[Any], G: NDArray[Any], dG: NDArray[Any], spare: NDArray[Any]) -> None:
        np.subtract(1, G, out=spare)
        spare *= G
        dG *= spare

    def _normal(self, A: Array, S: Array) -> _Normal:
        f0, f1, f2, f3 = (np.zeros_like(A) for _ in range(4))
        for node, weight in zip(*_mixture(), strict=True):
            i = 1 / np.sqrt(S + node)
            r = A * i
            f0 += weight * ndtr(r)
            density = np.exp(-0.5 * r * r) * i
            density *= weight / np.sqrt(2 * np.pi)
            f1 += density
            density *= i
            f2 -= density * r
            f3 += density * i * (r * r - 1)
        var = f0 - f1 - f0 * f0
        return _Normal(f0, f1, f2, f3, var, f1 - f2 - 2 * f0 * f1, 0.5 * (f2 - f3) - f0 * f2)


@lru_cache(maxsize=1)
def _mixture() -> tuple[Array, Array]:
    return _kolmogorov_rule(NODES)


class Tanh(Activation):
    """tanh z = 2σ(2z) − 1, with σ the sigmoid."""

    def __call__(self, A: Array) -> Array:
        return np.tanh(A)

    def _derivatives(self, A: Array) -> tuple[Array, Array, Array]:
        g = np.tanh(A)
        eta = 1 - g * g
        return g, eta, -2 * g * eta

    def fill(self, A: NDArray[Any], G: NDArray[Any]) -> None:
        np.tanh(A, out=G)

    def pull(self, A: NDArray[Any], G: NDArray[Any], dG: NDArray[Any], spare: NDArray[Any]) -> None:
        np.multiply(G, G, out=spare)
        np.subtract(1, spare, out=spare)
        dG *= spare

    def _normal(self, A: Array, S: Array) -> _Normal:
        n = Sigmoid()._normal(2 * A, 4 * S)
        f0, f1, f2, f3 = 2 * n.f0 - 1, 4 * n.f1, 8 * n.f2, 16 * n.f3
        return _Normal(f0, f1, f2, f3, 4 * n.var, 8 * n.var_a, 16 * n.var_s)


class Relu(Activation):
    """max(0, z). Taylor's expansion takes its second derivative, a spike at 0, for zero."""

    def __call__(self, A: Array) -> Array:
        return np.maximum(A, 0)

    def _derivatives(self, A: Array) -> tuple[Array, Array, Array]:
        return np.maximum(A, 0.0), (A > 0).astype(np.float64), np.zeros_like(A)

    def fill(self, A: NDArray[Any], G: NDArray[Any]) -> None:
        np.maximum(A, 0, out=G)

    def pull(self, A: NDArray[Any], G: NDArray[Any], dG: NDArray[Any], spare: NDArray[Any]) -> None:
        dG *= G > 0

    def _normal(self, A: Array, S: Array) -> _Normal:
        i = 1 / np.maximum(np.sqrt(S), LEAST_RADIUS)
        r = np.clip(A * i, -50.0, 50.0)  # the density vanishes, exactly, long before
        f1 = ndtr(r)
        f2 = np.exp(-0.5 * r * r) * (i / np.sqrt(2 * np.pi))
        f0 = np.maximum(A * f1 + S * f2, 0.0)
        var = A * f0 + S * f1 - f0 * f0
        return _Normal(f0, f1, f2, -r * i * f2, var, 2 * f0 * (1 - f1), f1 - f0 * f2)


class Identity(Activation):
    """z itself: the model is linear, and both propagations are exact."""

    def __call__(self, A: Array) -> Array:
        return A

    def _derivatives(self, A: Array) -> tuple[Array, Array, Array]:
        return A, np.ones_like(A), np.zeros_like(A)

    def pull(self, A: NDArray[Any], G: NDArray[Any], dG: NDArray[Any], spare: NDArray[Any]) -> None:
        pass

    def _normal(self, A: Array, S: Array) -> _Normal:
        one, zero = np.ones_like(A), np.zeros_like(A)
        return _Normal(A, one, zero, zero, S, zero, one)


#: Values of the parameter `activation`.
ACTIVATIONS: dict[str, Activation] = {
    "sigmoid": Sigmoid(),
    "tanh": Tanh(),
    "relu": Relu(),
    "identity": Identity(),
}
