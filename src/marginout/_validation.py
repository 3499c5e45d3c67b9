"""Checks of what users pass in. Every message names the parameter, the value and the cure."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, check_consistent_length

from marginout.noise import Noise

Array = NDArray[np.float64]

#: Largest magnitude of a feature or target: its square, summed, must stay a number.
LARGEST = 1e100


def check_real(name: str, value: Any, *, above: float | None = None, least: float | None = None) -> float:
    """A finite real number above or at least some bound."""
    wanted = f"> {above:g}" if above is not None else f">= {least:g}"
    fits = (
        isinstance(value, Real)
        and not isinstance(value, (bool, np.bool_))
        and np.isfinite(float(value))
        and (above is None or float(value) > above)
        and (least is None or float(value) >= least)
    )
    if not fits:
        raise ValueError(f"{name}={value!r} must be a finite number {wanted}.")
    return float(value)


def check_count(name: str, value: Any, least: int) -> int:
    """A whole number of at least some size."""
    if not isinstance(value, Integral) or int(value) < least:
        raise ValueError(f"{name}={value!r} must be a whole number >= {least}.")
    return int(value)


def check_option(name: str, value: Any, options: Iterable[str]) -> str:
    """One of a few words."""
    options = list(options)
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"{name}={value!r} must be one of {', '.join(map(repr, options))}.")
    return value


def check_features(X: Any, noise: Noise) -> Any:
    """X of a size and sign that the noise model and the arithmetic can bear, CSR in canonical form."""
    if sp.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    values = X.data if sp.issparse(X) else X
    if not values.size:
        return X
    low, high = float(values.min()), float(values.max())
    if noise.positive_only and low < 0:
        raise ValueError(
            f"Negative values in data passed to X: {low:g}. {noise!r} noise needs X >= 0; "
            "choose another noise, or features that are counts."
        )
    check_size("X", low, high)
    return X


def check_size(name: str, low: float, high: float) -> None:
    """Refuse magnitudes whose squares would overflow."""
    largest = max(-low, high)
    if largest > LARGEST:
        raise ValueError(
            f"{name} holds values as large as {largest:.1e}, more than {LARGEST:.0e}: their squares "
            "overflow. Divide by a constant, for instance with sklearn.preprocessing.MaxAbsScaler."
        )


def check_sample_weight(sample_weight: Any, X: Any) -> Array:
    """One finite weight >= 0 per example, not all of them zero; ones for None."""
    if sample_weight is None:
        return np.ones(X.shape[0])
    if isinstance(sample_weight, Real):
        sample_weight = np.full(X.shape[0], sample_weight)
    weights = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, order="C", input_name="sample_weight"
    )
    if weights.ndim != 1:
        raise ValueError(f"sample_weight has shape {weights.shape}; it must have one number per example.")
    check_consistent_length(X, weights)
    if weights.min() < 0:
        raise ValueError(f"sample_weight holds {weights.min():g}: negative weights are not supported.")
    if not weights.any():
        raise ValueError("sample_weight is zero for every example: at least one must be positive.")
    return np.asarray(weights)
