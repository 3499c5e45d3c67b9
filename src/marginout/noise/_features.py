"""Noise that corrupts every feature independently: deletion, additive noise, counts, bits."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logit

from marginout.noise._base import Array, Noise, at, set_parameter

#: Entries of the block of rows for which :class:`BitSwap` draws flips at a time.
FLIP_BLOCK = 4_000_000


def _binary_tilt(probability: Any, t: Any) -> Array:
    """p·eᵗ/(1 − p + p·eᵗ), the probability of the event weighted by eᵗ; exact at p = 0 and 1."""
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

    deletes = True
    rate: Any = 0.5

    def __post_init__(self) -> None:
        set_parameter(self, "rate", 1.0, "a number in [0, 1)")

    def log_mgf(self, t: Any, x: Any) -> Array:
        return _log_mgf_deletion(self.rate, np.multiply(t, x) / (1 - self.rate))

    def tilted_mean(self, t: Any, x: Any) -> Array:
        value = np.divide(x, 1 - self.rate)
        return np.asarray(value * _binary_tilt(1 - np.asarray(self.rate), t * value))

    def survivors(self, n_features: int) -> tuple[Array, Array]:
        self.moments(n_features)  # for its check of the parameters' lengths
        rate = np.ones(n_features) * self.rate
        return rate, 1 / (1 - rate)

    def _shares(self, n_features: int) -> Array:
        mortal = np.ones(n_features) * self.rate > 0
        return np.asarray(mortal if mortal.any() else ~mortal, dtype=np.float64)

    def _sample(self, x: Any, columns: Any, rng: np.random.Generator) -> Any:
        rate = at(self.rate, columns)
        # Not a product: 0·NaN would not be deleted.
        return np.where(rng.random(x.shape) >= rate, x, 0.0) / (1 - rate)

    def _form(self) -> tuple[Any, Any, int]:
        return 1.0, self.rate / (1 - self.rate), 2


@dataclass(frozen=True, eq=False)
class Deletion(Noise):
    r"""The raw event: x̃ = 0 with probability `rate`, x otherwise.

    .. math:: E\,\tilde x = (1-q)\,x, \qquad \mathrm{Var}\,\tilde x = q(1-q)\,x^2.

    It trains for data whose features are missing at prediction time and are left at zero: the offset is
    then trained with the smaller scores that it will meet in use.

    Parameters
    ----------
    rate : float or array of shape (n_features,), in [0, 1)
        Probability that a feature is deleted. 0 protects a feature.
    """

    deletes = True
    rate: Any = 0.5

    def __post_init__(self) -> None:
        set_parameter(self, "rate", 1.0, "a number in [0, 1)")

    def log_mgf(self, t: Any, x: Any) -> Array:
        return _log_mgf_deletion(self.rate, np.multiply(t, x))

    def tilted_mean(self, t: Any, x: Any) -> Array:
        return np.asarray(x * _binary_tilt(1 - np.asarray(self.rate), np.multiply(t, x)))

    def survivors(self, n_features: int) -> tuple[Array, Array]:
        self.moments(n_features)  # for its check of the parameters' lengths
        return np.ones(n_features) * self.rate, np.ones(n_features)

    def _shares(self, n_features: int) -> Array:
        return np.zeros(n_features)

    def _sample(self, x: Any, columns: Any, rng: np.random.Generator) -> Any:
        return np.where(rng.random(x.shape) >= at(self.rate, columns), x, 0.0)

    def _form(self) -> tuple[Any, Any, int]:
        return 1 - self.rate, self.rate / (1 - self.rate), 2


@dataclass(frozen=True, eq=False)
class Gaussian(Noise):
    r"""Additive normal noise on every entry, zeros included: x̃ = x + N(0, variance).

    .. math:: E\,\tilde x = x, \qquad \mathrm{Var}\,\tilde x = \sigma^2.

    Parameters
    ----------
    variance : float or array of shape (n_features,), >= 0
        The variance σ² of the noise.
    """

    affine_mgf = True
    variance: Any = 1.0

    def __post_init__(self) -> None:
        set_parameter(self, "variance", np.inf, "a finite number >= 0")

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
        The scale b of the noise.
    """

    affine_mgf = True
    scale: Any = 1.0

    def __post_init__(self) -> None:
        set_parameter(self, "scale", np.inf, "a finite number >= 0")

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
class Thinning(Noise):
    r"""Counts of which each token dies with probability `rate`: x̃ = Bin(x, 1 − rate)/(1 − rate).

    .. math:: E\,\tilde x = x, \qquad \mathrm{Var}\,\tilde x = \frac{q}{1-q}\,x, \qquad
              E\,e^{t \tilde x} = \bigl(q + (1-q)\,e^{t/(1-q)}\bigr)^x.

    Each of the x tokens is deleted independently of the others, and what is left is scaled up.
    Features are 0, 1, 2, … Under :class:`Dropout` all tokens of a type die together. For x of 0 and 1 the two
    are the same.

    Parameters
    ----------
    rate : float or array of shape (n_features,), in [0, 1)
        Probability that a token is deleted. 0 protects a feature.

    References
    ----------
    S. Wager, W. Fithian, S. Wang, P. Liang, *Altitude Training: Strong Bounds for Single-Layer Dropout*,
    NeurIPS 2014.
    """

    rate: Any = 0.5

    affine_mgf = True
    positive_only = True
    counts_only = True

    def __post_init__(self) -> None:
        set_parameter(self, "rate", 1.0, "a number in [0, 1)")

    def log_mgf(self, t: Any, x: Any) -> Array:
        return np.asarray(x * _log_mgf_deletion(self.rate, np.divide(t, 1 - self.rate)))

    def tilted_mean(self, t: Any, x: Any) -> Array:
        kept = 1 - np.asarray(self.rate)
        return np.asarray(np.divide(x, kept) * _binary_tilt(kept, np.divide(t, kept)))

    def _shares(self, n_features: int) -> Array:
        return np.zeros(n_features)  # counts that are missing read 0, and the others stay counts

    def _sample(self, x: Any, columns: Any, rng: np.random.Generator) -> Any:
        other = self.not_counts(x)
        if other.size:
            raise ValueError(
                f"Thinning noise needs counts, 0, 1, 2, …, but X holds {other[0]:g}: choose another noise, "
                "or give X before it is scaled."
            )
        kept = 1 - at(self.rate, columns)
        return rng.binomial(x.astype(np.int64), kept) / kept

    def _form(self) -> tuple[Any, Any, int]:
        return 1.0, self.rate / (1 - self.rate), 1


@dataclass(frozen=True, eq=False)
class BitSwap(Noise):
    r"""Flipped bits, for features of 0 and 1: x̃ = 1 − x with probability `rate`, x otherwise.

    .. math:: E\,\tilde x = q + (1-2q)\,x, \qquad \mathrm{Var}\,\tilde x = q(1-q).

    The constant part of the mean is the same for every example. An offset takes it up, so
    models trained on the two moments need one (``fit_intercept=True``).

    Parameters
    ----------
    rate : float or array of shape (n_features,), in [0, 1)
        Probability that a feature is flipped. At 1/2 the feature holds no information.
    """

    rate: Any = 0.1

    affine_mgf = True
    positive_only = True
    binary_only = True

    def __post_init__(self) -> None:
        set_parameter(self, "rate", 1.0, "a number in [0, 1)")

    def log_mgf(self, t: Any, x: Any) -> Array:
        off = 1 - self._on(x)
        return _log_mgf_deletion(off, np.asarray(t, dtype=np.float64))

    def tilted_mean(self, t: Any, x: Any) -> Array:
        return _binary_tilt(self._on(x), np.asarray(t, dtype=np.float64))

    def shift(self, n_features: int) -> Array:
        self.moments(n_features)  # for its check of the parameters' lengths
        return np.asarray(np.ones(n_features) * self.rate)

    def corrupt(self, X: Any, rng: Any = None) -> Any:
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

    def _shares(self, n_features: int) -> Array:
        return np.zeros(n_features)  # a bit that is missing reads 0, and the others stay bits

    def _flip(self, X: Any, rng: np.random.Generator) -> Any:
        X = type(X)(self._sample(X.toarray(), slice(None), rng))
        X.eliminate_zeros()
        return X

    def _sample(self, x: Any, columns: Any, rng: np.random.Generator) -> Any:
        if not np.isin(x, (0, 1)).all():
            raise ValueError(
                f"BitSwap noise needs features of 0 and 1, but X holds {x[~np.isin(x, (0, 1))][0]:g}."
            )
        return np.where(rng.random(x.shape) < at(self.rate, columns), 1 - x, x)

    def _on(self, x: Any) -> Array:
        """P(x̃ = 1)."""
        return np.asarray(self.rate + (1 - 2 * np.asarray(self.rate)) * np.asarray(x, dtype=np.float64))

    def _form(self) -> tuple[Any, Any, int]:
        rate = np.asarray(self.rate)
        return 1 - 2 * rate, rate * (1 - rate), 0


def resolve(noise: Any) -> Noise:
    """The noise model of an estimator's parameter `noise`.

    Parameters
    ----------
    noise : float, noise model or None
        A dropout rate, or a model. None is no noise, a rate of 0.

    Returns
    -------
    noise : Noise
        The model itself, or :class:`Dropout` of the rate.
    """
    if isinstance(noise, Noise):
        return noise
    if noise is None:
        return Dropout(0.0)
    if np.ndim(noise) == 1:
        raise ValueError(
            f"noise={noise!r} is a sequence: give marginout.noise.Dropout(rates) for one dropout rate per "
            "feature. A grid to choose from is the parameter noises of the CV models."
        )
    if isinstance(noise, Real) and not isinstance(noise, bool) and 0 <= float(noise) < 1:
        return Dropout(float(noise))
    raise ValueError(
        f"noise={noise!r} must be a dropout rate in [0, 1) or a noise model, "
        "such as marginout.noise.Gaussian(0.1)."
    )
