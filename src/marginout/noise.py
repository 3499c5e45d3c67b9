r"""What corruption does to a feature: its mean, its variance, its moment generating function.

A noise model replaces every entry x of the data by an independent random x̃. Training
needs only

.. math:: E\,\tilde x = s\,x, \qquad \mathrm{Var}\,\tilde x = \kappa\,(s\,x)^p,

with one scale s and one coefficient κ per feature and a power p of 0 (additive noise),
1 (Poisson) or 2 (multiplicative noise). That triple, :class:`Moments`, is all that the
rest of the library knows about a noise model. A **rate** is always the probability that
a feature is deleted, never the probability that it is kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit, logit

Array = NDArray[np.float64]

__all__ = ["BitSwap", "Deletion", "Dropout", "Gaussian", "Laplace", "Moments", "Noise", "Poisson", "resolve"]

#: Entries of the block of rows that :class:`BitSwap` draws flips for at a time.
FLIP_BLOCK = 4_000_000


class Moments(NamedTuple):
    """E x̃ = scale·x (+ a constant, see :meth:`Noise.shift`) and Var x̃ = coefficient·(scale·x)**power,
    one entry per feature.
    """

    scale: Array
    coefficient: Array
    power: int


class Noise(ABC):
    """Base class of the noise models: independent corruption of every feature.

    A subclass is a frozen dataclass whose fields are the parameters, each a number or
    one number per feature, and answers the questions below.
    """

    #: Whether the model is defined for non-negative data only.
    positive_only = False
    #: Whether the model is defined for features of 0 and 1 only.
    binary_only = False
    #: Whether log_mgf(t, x) is affine in x: its sums over features are matrix products then.
    affine_mgf = False

    def mean(self, X: Any) -> Array:
        """E x̃, entry by entry, of a dense array of shape (..., n_features)."""
        X = np.asarray(X, dtype=np.float64)
        return np.asarray(self.moments(X.shape[-1]).scale * X + self.shift(X.shape[-1]))

    def var(self, X: Any) -> Array:
        """Var x̃, entry by entry, of a dense array of shape (..., n_features)."""
        X = np.asarray(X, dtype=np.float64)
        scale, coefficient, power = self.moments(X.shape[-1])
        return np.asarray(coefficient * (scale * X) ** power)

    @abstractmethod
    def log_mgf(self, t: Any, x: Any) -> Array:
        """log E exp(t·x̃), entry by entry; +inf where the expectation diverges."""

    def tilted_mean(self, t: Any, x: Any) -> Array:
        """The derivative of :meth:`log_mgf` in t: the mean of x̃ once its law is weighted by exp(t·x̃)."""
        raise NotImplementedError(
            f"{type(self).__name__} does not say what the derivative of its log-MGF is."
        )

    def survivors(self, n_features: int) -> tuple[Array, Array]:
        """Deletion rate and survivors' factor of every feature, for noises that delete."""
        raise ValueError(
            f"noise={self!r} has no log-MGF that MCFClassifier's logistic and exponential losses can use: "
            "choose loss='quadratic', or another noise."
        )

    def shift(self, n_features: int) -> Array:
        """The part of E x̃ that does not depend on x, one number per feature."""
        return np.zeros(n_features)

    def corrupt(self, X: Any, rng: Any = None) -> Any:
        """A corrupted copy of X; `rng` is a NumPy generator, a seed or None.

        Sparse data stay sparse (as CSR) unless the noise is additive, which leaves no zero.
        """
        generator = np.random.default_rng(rng)
        if not sp.issparse(X):
            X = np.asarray(X)
        elif self._form()[2] == 0:
            X = X.toarray()
        else:
            X = X.tocsr(copy=True)
        if X.dtype.kind != "f":
            X = X.astype(np.float64)
        self.moments(X.shape[-1])  # for its check of the parameters' lengths
        if not sp.issparse(X):
            return self._sample(X, slice(None), generator).astype(X.dtype, copy=False)
        X.sum_duplicates()
        X.data = self._sample(X.data, X.indices, generator).astype(X.dtype, copy=False)
        return X

    @abstractmethod
    def _sample(self, x: Any, columns: Any, rng: np.random.Generator) -> Any:
        """Corrupted entries x, whose last axis stands for the given columns."""

    @abstractmethod
    def _form(self) -> tuple[Any, Any, int]:
        """Scale, coefficient and power, before they are spread over the features."""

    def moments(self, n_features: int) -> Moments:
        """The :class:`Moments` of this noise on data with `n_features` features."""
        for field in fields(self):  # type: ignore[arg-type]
            value = np.asarray(getattr(self, field.name))
            if value.ndim == 1 and len(value) != n_features:
                raise ValueError(
                    f"{type(self).__name__}({field.name}=...) has {len(value)} values but X has "
                    f"{n_features} features: give one number, or one per feature."
                )
        scale, coefficient, power = self._form()
        ones = np.ones(n_features)
        return Moments(ones * scale, ones * coefficient, power)

    def __reduce__(self) -> Any:
        # Copies go through the constructor: frozen, checked and read-only like the original.
        return type(self), tuple(getattr(self, f.name) for f in fields(self))  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            np.array_equal(getattr(self, f.name), getattr(other, f.name))
            for f in fields(self)  # type: ignore[arg-type]
        )

    def __hash__(self) -> int:
        values = (np.asarray(getattr(self, f.name)) for f in fields(self))  # type: ignore[arg-type]
        return hash((type(self).__name__, *(v.tobytes() for v in values)))


def _parameter(noise: Noise, name: str, high: float, wanted: str) -> None:
    """Replace a field by a float or a read-only vector inside [0, high), or explain."""
    value = getattr(noise, name)
    try:
        given = np.asarray(value)
        array = np.array(given if given.dtype.kind in "fiu" else np.nan, dtype=np.float64)
        array += 0.0  # -0 becomes 0
    except (TypeError, ValueError):
        array = np.array(np.nan)
    if array.ndim > 1 or array.size == 0 or not np.all((array >= 0) & (array < high)):
        raise ValueError(
            f"{type(noise).__name__}({name}={value!r}): {name} must be {wanted}, "
            "or one such number per feature."
        )
    array.flags.writeable = False
    object.__setattr__(noise, name, float(array) if array.ndim == 0 else array)


def _at(parameter: Any, columns: Any) -> Any:
    """A parameter at some columns: itself when it is one number."""
    return parameter if np.ndim(parameter) == 0 else parameter[columns]


def _binary_tilt(probability: Any, t: Any) -> Array:
    """p·eᵗ/(1 − p + p·eᵗ): how likely the event stays after tilting; exact at p = 0 and 1."""
    with np.errstate(divide="ignore"):
        return np.asarray(expit(t + logit(probability)))


def _log_mgf_deletion(rate: Any, z: Any) -> Array:
    """log(q + (1 − q)·exp(z)), without overflow and exact at q = 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.logaddexp(np.log(rate), np.log1p(-np.asarray(rate)) + z))


@dataclass(frozen=True, eq=False)
class Dropout(Noise):
    r"""Unbiased deletion: x̃ = 0 with probability `rate`, x/(1 − rate) otherwise.

    .. math:: E\,\tilde x = x, \qquad \mathrm{Var}\,\tilde x = \frac{q}{1-q}\,x^2.

    Parameters
    ----------
    rate : float or array of shape (n_features,), in [0, 1)
        Probability that a feature is deleted. 0 protects a feature.
    """

    rate: Any = 0.5

    def __post_init__(self) -> None:
        _parameter(self, "rate", 1.0, "a number in [0, 1)")

    def log_mgf(self, t: Any, x: Any) -> Array:
        return _log_mgf_deletion(self.rate, np.multiply(t, x) / (1 - self.rate))

    def tilted_mean(self, t: Any, x: Any) -> Array:
        value = np.divide(x, 1 - self.rate)
        return np.asarray(value * _binary_tilt(1 - np.asarray(self.rate), t * value))

    def survivors(self, n_features: int) -> tuple[Array, Array]:
        self.moments(n_features)  # for its check of the parameters' lengths
        rate = np.ones(n_features) * self.rate
        return rate, 1 / (1 - rate)

    def _sample(self, x: Any, columns: Any, rng: np.random.Generator) -> Any:
        rate = _at(self.rate, columns)
        # Not a product: 0·NaN would not be deleted.
        return np.where(rng.random(x.shape) >= rate, x, 0.0) / (1 - rate)

    def _form(self) -> tuple[Any, Any, int]:
        return 1.0, self.rate / (1 - self.rate), 2


@dataclass(frozen=True, eq=False)
class Deletion(Noise):
    r"""The raw event: x̃ = 0 with probability `rate`, x otherwise.

    .. math:: E\,\tilde x = (1-q)\,x, \qquad \mathrm{Var}\,\tilde x = q(1-q)\,x^2.

    It trains for data whose features are missing at prediction time and are left at zero:
    the offset then meets the shrunken scores that it will meet in use.

    Parameters
    ----------
    rate : float or array of shape (n_features,), in [0, 1)
        Probability that a feature is deleted. 0 protects a feature.
    """

    rate: Any = 0.5

    def __post_init__(self) -> None:
        _parameter(self, "rate", 1.0, "a number in [0, 1)")

    def log_mgf(self, t: Any, x: Any) -> Array:
        return _log_mgf_deletion(self.rate, np.multiply(t, x))

    def tilted_mean(self, t: Any, x: Any) -> Array:
        return np.asarray(x * _binary_tilt(1 - np.asarray(self.rate), np.multiply(t, x)))

    def survivors(self, n_features: int) -> tuple[Array, Array]:
        self.moments(n_features)  # for its check of the parameters' lengths
        return np.ones(n_features) * self.rate, np.ones(n_features)

    def _sample(self, x: Any, columns: Any, rng: np.random.Generator) -> Any:
        return np.where(rng.random(x.shape) >= _at(self.rate, columns), x, 0.0)

    def _form(self) -> tuple[Any, Any, int]:
        return 1 - self.rate, self.rate / (1 - self.rate), 2


@dataclass(frozen=True, eq=False)
class Gaussian(Noise):
    r"""Additive normal noise on every entry, zeros included: x̃ = x + N(0, variance).

    .. math:: E\,\tilde x = x, \qquad \mathrm{Var}\,\tilde x = \sigma^2.

    Parameters
    ----------
    variance : float or array of shape (n_features,), >= 0
    """

    affine_mgf = True
    variance: Any = 1.0

    def __post_init__(self) -> None:
        _parameter(self, "variance", np.inf, "a finite number >= 0")

    def log_mgf(self, t: Any, x: Any) -> Array:
        return np.asarray(np.multiply(t, x) + 0.5 * self.variance * np.square(t))

    def tilted_mean(self, t: Any, x: Any) -> Array:
        return np.asarray(x + np.multiply(self.variance, t))

    def _sample(self, x: Any, columns: Any, rng: np.random.Generator) -> Any:
        return x + np.sqrt(self.variance) * rng.standard_normal(x.shape)

    def _form(self) -> tuple[Any, Any, int]:
        return 1.0, self.variance, 0


@dataclass(frozen=True, eq=False)
class Laplace(Noise):
    r"""Additive double-exponential noise on every entry, zeros included.

    .. math:: E\,\tilde x = x, \qquad \mathrm{Var}\,\tilde x = 2 b^2.

    Parameters
    ----------
    scale : float or array of shape (n_features,), >= 0
    """

    affine_mgf = True
    scale: Any = 1.0

    def __post_init__(self) -> None:
        _parameter(self, "scale", np.inf, "a finite number >= 0")

    def log_mgf(self, t: Any, x: Any) -> Array:
        u = np.square(self.scale * np.asarray(t, dtype=np.float64))
        inside = np.log1p(-np.minimum(u, 0.5 * (1 + u)), where=u < 1, out=np.full(np.shape(u), -np.inf))
        return np.asarray(np.multiply(t, x) - inside)

    def tilted_mean(self, t: Any, x: Any) -> Array:
        scaled = np.multiply(self.scale, t)
        with np.errstate(divide="ignore", invalid="ignore"):
            pull = 2 * self.scale * scaled / (1 - np.square(scaled))
        return np.asarray(x + np.where(np.abs(scaled) < 1, pull, np.nan))

    def _sample(self, x: Any, columns: Any, rng: np.random.Generator) -> Any:
        return x + self.scale * rng.laplace(size=x.shape)

    def _form(self) -> tuple[Any, Any, int]:
        return 1.0, 2 * np.square(self.scale), 0


@dataclass(frozen=True, eq=False)
class Poisson(Noise):
    r"""Counting noise on non-negative data: x̃ is a Poisson count of mean x.

    .. math:: E\,\tilde x = x, \qquad \mathrm{Var}\,\tilde x = x.
    """

    affine_mgf = True
    positive_only = True

    def log_mgf(self, t: Any, x: Any) -> Array:
        t, x = np.broadcast_arrays(np.asarray(t, dtype=np.float64), np.asarray(x, dtype=np.float64))
        with np.errstate(over="ignore"):  # an absent feature stays absent, whatever t
            return np.asarray(np.multiply(np.expm1(t), x, where=x != 0, out=np.zeros(x.shape)))

    def tilted_mean(self, t: Any, x: Any) -> Array:
        t, x = np.broadcast_arrays(np.asarray(t, dtype=np.float64), np.asarray(x, dtype=np.float64))
        with np.errstate(over="ignore"):
            return np.asarray(np.multiply(np.exp(t), x, where=x != 0, out=np.zeros(x.shape)))

    def _sample(self, x: Any, columns: Any, rng: np.random.Generator) -> Any:
        if x.size and x.min() < 0:
            raise ValueError(f"Poisson noise needs X >= 0, but X holds {x.min():g}.")
        return rng.poisson(x)

    def _form(self) -> tuple[Any, Any, int]:
        return 1.0, 1.0, 1


@dataclass(frozen=True, eq=False)
class BitSwap(Noise):
    r"""Flipped bits, for features of 0 and 1: x̃ = 1 − x with probability `rate`, x otherwise.

    .. math:: E\,\tilde x = q + (1-2q)\,x, \qquad \mathrm{Var}\,\tilde x = q(1-q).

    The constant part of the mean is the same for every example. An offset takes it up, so
    models trained on the two moments need one (``fit_intercept=True``).

    Parameters
    ----------
    rate : float or array of shape (n_features,), in [0, 1)
        Probability that a feature is flipped. At 1/2 nothing is left of it.
    """

    rate: Any = 0.1

    affine_mgf = True
    positive_only = True
    binary_only = True

    def __post_init__(self) -> None:
        _parameter(self, "rate", 1.0, "a number in [0, 1)")

    def log_mgf(self, t: Any, x: Any) -> Array:
        off = 1 - self._on(x)
        return _log_mgf_deletion(off, np.asarray(t, dtype=np.float64))

    def tilted_mean(self, t: Any, x: Any) -> Array:
        return _binary_tilt(self._on(x), np.asarray(t, dtype=np.float64))

    def shift(self, n_features: int) -> Array:
        self.moments(n_features)  # for its check of the parameters' lengths
        return np.asarray(np.ones(n_features) * self.rate)

    def corrupt(self, X: Any, rng: Any = None) -> Any:
        """A corrupted copy of X; `rng` is a NumPy generator, a seed or None. Sparse data stay sparse."""
        if not sp.issparse(X):
            return super().corrupt(X, rng)
        generator = np.random.default_rng(rng)
        n, d = X.shape
        self.moments(d)  # for its check of the parameters' lengths
        rows = max(1, FLIP_BLOCK // max(d, 1))
        X = X.tocsr()
        # Block by block, because the flips of all rows at once would be a dense matrix.
        blocks = [self._flip(X[i : i + rows], generator) for i in range(0, n, rows)]
        dtype = X.dtype if X.dtype.kind == "f" else np.float64
        return sp.vstack(blocks, format="csr", dtype=dtype) if blocks else X.astype(dtype)

    def _flip(self, X: Any, rng: np.random.Generator) -> Any:
        X = type(X)(self._sample(X.toarray(), slice(None), rng))
        X.eliminate_zeros()
        return X

    def _sample(self, x: Any, columns: Any, rng: np.random.Generator) -> Any:
        if not np.isin(x, (0, 1)).all():
            raise ValueError(
                f"BitSwap noise needs features of 0 and 1, but X holds {x[~np.isin(x, (0, 1))][0]:g}."
            )
        return np.where(rng.random(x.shape) < _at(self.rate, columns), 1 - x, x)

    def _on(self, x: Any) -> Array:
        """P(x̃ = 1)."""
        return np.asarray(self.rate + (1 - 2 * np.asarray(self.rate)) * np.asarray(x, dtype=np.float64))

    def _form(self) -> tuple[Any, Any, int]:
        rate = np.asarray(self.rate)
        return 1 - 2 * rate, rate * (1 - rate), 0


def resolve(noise: Any) -> Noise:
    """The noise model meant by an estimator's `noise`: itself, or Dropout of a rate."""
    if isinstance(noise, Noise):
        return noise
    if isinstance(noise, Real) and not isinstance(noise, bool) and 0 <= float(noise) < 1:
        return Dropout(float(noise))
    raise ValueError(
        f"noise={noise!r} must be a dropout rate in [0, 1) or a noise model, "
        "such as marginout.noise.Gaussian(0.1)."
    )
