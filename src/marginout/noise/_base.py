"""Define the interface of the noise models, :class:`Noise`, and the :class:`Moments` that training needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Largest count: all whole numbers up to here are doubles.
LARGEST_COUNT = 2**53


class Moments(NamedTuple):
    """E x̃ = scale·x and Var x̃ = coefficient·(scale·x)**power, one entry per feature.

    The mean may also have a constant, see :meth:`Noise.shift`. Features are corrupted independently where
    `groups` is None. Otherwise `groups` holds the number of every feature's group, the power is 2, and the
    features of a group have one common factor: with M = X·diag(scale), the variance of a score is
    Σ_g coefficient_g (w_g·m_g)².

    Attributes
    ----------
    scale : array of shape (n_features,)
        What x is multiplied by in the mean.
    coefficient : array of shape (n_features,)
        What the power of scale·x is multiplied by in the variance.
    power : {0, 1, 2}
        0 for additive noise, 1 for counts, 2 for multiplicative noise.
    groups : array of int of shape (n_features,), or None
        The number of every feature's group, if features are corrupted together.
    """

    scale: Array
    coefficient: Array
    power: int
    groups: NDArray[np.intp] | None = None


class Noise(ABC):
    """Base class of the noise models.

    A subclass is a frozen dataclass. Its fields are the parameters, each a number or one number per
    feature. It defines the methods below.
    """

    #: Whether the model is defined for non-negative data only.
    positive_only = False
    #: Whether the model is defined for features of 0 and 1 only.
    binary_only = False
    #: Whether the model is defined for counts only: 0, 1, 2, …
    counts_only = False
    #: Whether its corrupted copies hold NaN: it has no moments then.
    writes_nan = False
    #: Whether log_mgf(t, x) is affine in x; its sums over features are then matrix products.
    affine_mgf = False
    #: Whether x̃ = 0 with the rate, and otherwise factor·x, that `survivors` tells, each feature by itself.
    deletes = False

    def mean(self, X: Any) -> Array:
        """E x̃, entry by entry, of a dense array of shape (..., n_features)."""
        X = np.asarray(X, dtype=np.float64)
        return np.asarray(self.moments(X.shape[-1]).scale * X + self.shift(X.shape[-1]))

    def var(self, X: Any) -> Array:
        """Var x̃, entry by entry, of a dense array of shape (..., n_features)."""
        X = np.asarray(X, dtype=np.float64)
        scale, coefficient, power, _ = self.moments(X.shape[-1])
        return np.asarray(coefficient * (scale * X) ** power)

    @abstractmethod
    def log_mgf(self, t: Any, x: Any) -> Array:
        """log E exp(t·x̃), entry by entry; +inf where the expectation diverges."""

    def tilted_mean(self, t: Any, x: Any) -> Array:
        """d/dt :meth:`log_mgf` = E x̃·exp(t·x̃) / E exp(t·x̃), the mean of x̃ weighted by exp(t·x̃)."""
        raise NotImplementedError(f"{type(self).__name__} does not define the derivative of its log-MGF.")

    def survivors(self, n_features: int) -> tuple[Array, Array]:
        """Rate and factor of the survivors of every feature, for noises that delete features."""
        raise ValueError(
            f"noise={self!r} has no log-MGF that MCFClassifier's logistic and exponential losses can use: "
            "choose loss='quadratic', or another noise."
        )

    def shift(self, n_features: int) -> Array:
        """E x̃ at x = 0, one number per feature."""
        return np.zeros(n_features)

    @staticmethod
    def not_counts(values: Any) -> Any:
        """The values that are not among 0, 1, 2, … 2⁵³."""
        with np.errstate(invalid="ignore"):
            return values[~((values >= 0) & (values <= LARGEST_COUNT) & (values == np.rint(values)))]

    def bind(self, names: Iterable[Any] | None) -> Noise:
        """Replace names in the parameters by numbers of features; the noise itself where there are none."""
        return self

    def shares(self, n_features: int) -> Array:
        """The share of an example that is lost with each feature; the shares sum to 1, or are all 0.

        Where a share s of an example is missing, its survivors are multiplied by 1/(1 − s): scores keep
        their size, as under the unbiased noise of the training. Features that never die under the noise have
        no share, unless no feature ever dies. All shares are 0 where survivors keep their values.
        """
        shares = self._shares(n_features)
        return np.asarray(shares / (shares.sum() or 1.0))

    def _shares(self, n_features: int) -> Array:
        """Shares, up to a common factor."""
        return np.ones(n_features)

    def corrupt(self, X: Any, rng: Any = None) -> Any:
        """Draw a corrupted copy of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (..., n_features)
            Data. Sparse data stay sparse (as CSR), unless the noise is additive: then no entry stays zero.
        rng : numpy.random.Generator, int or None, default=None
            A generator, or its seed.

        Returns
        -------
        X : array or CSR matrix
            Of the same shape, with float values.
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
        self.check_lengths(X.shape[-1])
        if not sp.issparse(X):
            return self._corrupted(X, generator).astype(X.dtype, copy=False)
        X.sum_duplicates()
        X.data = self._corrupted(X, generator).astype(X.dtype, copy=False)
        return X

    def _corrupted(self, X: Any, rng: np.random.Generator) -> Any:
        """Corrupt the entries of a dense array, or the stored entries of CSR."""
        return self._sample(X.data, X.indices, rng) if sp.issparse(X) else self._sample(X, slice(None), rng)

    def _sample(self, x: Any, columns: Any, rng: np.random.Generator) -> Any:
        """Corrupt entries x, whose last axis belongs to the given columns."""
        raise NotImplementedError(f"{type(self).__name__} does not define how to draw from it.")

    @abstractmethod
    def _form(self) -> tuple[Any, Any, int]:
        """Scale, coefficient and power, each one number or one per feature."""

    def moments(self, n_features: int) -> Moments:
        """The :class:`Moments` of this noise on data with `n_features` features."""
        self.check_lengths(n_features)
        scale, coefficient, power = self._form()
        ones = np.ones(n_features)
        return Moments(ones * scale, ones * coefficient, power)

    def check_lengths(self, n_features: int) -> None:
        """Raise an error if a parameter has another length than the features."""
        for field in fields(self):  # type: ignore[arg-type]
            value = np.asarray(getattr(self, field.name))
            if value.ndim == 1 and len(value) != n_features:
                raise ValueError(
                    f"{type(self).__name__}({field.name}=...) has {len(value)} values but X has "
                    f"{n_features} features: give one number, or one per feature."
                )

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


def set_parameter(noise: Noise, name: str, high: float, wanted: str, each: str = "feature") -> None:
    """Replace a field by a float or a read-only vector in [0, high), or raise an error."""
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
            f"or one such number per {each}."
        )
    array.flags.writeable = False
    object.__setattr__(noise, name, float(array) if array.ndim == 0 else array)


def at(parameter: Any, columns: Any) -> Any:
    """The values of a parameter at some columns; the parameter itself if it is one number."""
    return parameter if np.ndim(parameter) == 0 else parameter[columns]
