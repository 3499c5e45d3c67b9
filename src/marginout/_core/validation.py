"""Checks of what users pass in. Every message names the parameter, the value and the cure."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from contextlib import suppress
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from marginout._kernels import _passes

if TYPE_CHECKING:
    from marginout.noise import Noise

Array = NDArray[np.float64]

#: Largest magnitude of a feature or target: its square, summed, must stay a number.
LARGEST = 1e100
#: Packages, with a dot, whose lines no warning points at.
INSIDE = "marginout.", "sklearn.", "joblib."
#: Largest sum of example weights.
HEAVIEST = 1e250


def set_parameters(given: dict[str, Any]) -> None:
    """Keep the parameters of an estimator as they are given: `set_parameters(locals())` in its `__init__`."""
    vars(given["self"]).update((name, value) for name, value in given.items() if name != "self")


def check_real(name: str, value: Any, *, above: float | None = None, least: float | None = None) -> float:
    """A finite real number above or at least some bound."""
    number = float("nan")
    if isinstance(value, Real) and not isinstance(value, (bool, np.bool_)):
        with suppress(OverflowError):
            number = float(value)
    low = number > above if above is not None else number >= (least or 0.0)
    if not (low and number <= LARGEST):
        wanted = f"> {above:g}" if above is not None else f">= {least:g}"
        raise ValueError(f"{name}={value!r} must be a number {wanted} and at most {LARGEST:.0e}.")
    return number


def check_count(name: str, value: Any, least: int) -> int:
    """A whole number of at least some size."""
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < least:
        raise ValueError(f"{name}={value!r} must be a whole number >= {least}.")
    return int(value)


def check_flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name}={value!r} must be True or False.")
    return bool(value)


def check_option(name: str, value: Any, options: Iterable[str]) -> str:
    """One of a few words."""
    options = list(options)
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"{name}={value!r} must be one of {', '.join(map(repr, options))}.")
    return value


def check_features(X: Any, noise: Noise) -> Any:
    """Canonical X, of a size and sign that the noise model and the arithmetic can bear."""
    values = X.data if sp.issparse(X) else X
    if not values.size:
        return X
    low, high = float(values.min()), float(values.max())
    if noise.binary_only and not np.isin(values, (0, 1)).all():
        other = values[~np.isin(values, (0, 1))].flat[0]
        raise ValueError(
            f"X holds {other:g}, but {noise!r} noise needs features of 0 and 1; choose another noise, or "
            "make the features binary, for instance with sklearn.preprocessing.Binarizer."
        )
    if noise.positive_only and low < 0:
        raise ValueError(
            f"Negative values in data passed to X: {low:g}. {noise!r} noise needs X >= 0; "
            "choose another noise, or features that are counts."
        )
    if noise.counts_only and (strange := noise.not_counts(values)).size:
        raise ValueError(
            f"X holds {strange[0]:g}, but {noise!r} noise needs counts, 0, 1, 2, …: choose another noise, "
            "or give X before it is scaled, such as the output of CountVectorizer."
        )
    check_size("X", low, high)
    return X


def check_shift(noise: Noise, d: int, fit_intercept: bool) -> Array:
    """The constant part of the noisy features' mean, (d,), which is 0 where there is no offset."""
    shift = noise.shift(d)
    if shift.any() and not fit_intercept:
        raise ValueError(
            f"{noise!r} moves the mean of every example by a constant, which only an offset can take "
            "up: fit_intercept=False must be True."
        )
    return shift


def check_solution(parameters: dict[str, Any], **values: Any) -> None:
    """Refuse a solution in which something is not finite: nothing of it may be kept.

    `parameters` are those of the fit that may be to blame: lower values help.
    """
    for name, value in values.items():
        if not np.isfinite(value).all():
            given = " and ".join(f"{parameter}={size!r}" for parameter, size in parameters.items())
            raise ValueError(
                f"The fit has no finite solution in double precision: {name} is NaN or infinite, for {given}"
                ". Scale the features (and targets), for instance with sklearn.preprocessing.MaxAbsScaler, "
                f"or lower {' or '.join(parameters)}."
            )


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line of the first caller outside of this library and of scikit-learn."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and f"{frame.f_globals.get('__name__')}.".startswith(INSIDE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


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
    try:
        given = np.asarray(sample_weight)
        if given.dtype.kind == "c":
            raise ValueError("Complex data not supported")
        weights = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must hold one number per example: {error}.") from None
    if weights.shape != (X.shape[0],):
        raise ValueError(
            f"sample_weight has shape {weights.shape} but X has {X.shape[0]} examples: "
            "give one number for each."
        )
    if not np.isfinite(weights).all():
        what = "NaN" if np.isnan(weights).any() else "infinity"
        raise ValueError(f"Input sample_weight contains {what}.")
    if weights.min() < 0:
        raise ValueError(f"sample_weight holds {weights.min():g}: negative weights are not supported.")
    if weights.max() > HEAVIEST / len(weights):
        raise ValueError(f"sample_weight holds {weights.max():g}: the sum overflows. Divide by a constant.")
    if not weights.any():
        raise ValueError("sample_weight is zero for every example: at least one must be positive.")
    return np.asarray(weights)


def make_generator(random_state: Any) -> np.random.Generator:
    """NumPy's generator for what scikit-learn calls a random_state, or for a generator."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    try:
        # Two draws from an old-style state seed the new one; a seed does so by itself.
        state = check_random_state(random_state)
    except ValueError:
        raise ValueError(
            f"random_state={random_state!r} must be None, a whole number from 0 to 2**32 - 1, or a NumPy "
            "RandomState or Generator."
        ) from None
    return np.random.default_rng(state.randint(2**31, size=2))


#: Of every object, whether it is one of pandas' own nulls, which NumPy cannot read as numbers.
_are_nulls = np.frompyfunc(lambda value: type(value).__name__ in ("NAType", "NaTType"), 1, 1)


def canonical(X: Any) -> Any:
    """CSR X as compiled code may read it: indices lie within X and ascend in every row, nothing lies behind.

    One pass over the indices, for the flags that SciPy keeps (`has_canonical_format`) may be of an earlier
    state, and `data` and `indices` may be longer than ``indptr[-1]``. X itself is not changed; where
    something must be, a matrix that shares the rest is returned.
    """
    given: tuple[Any, ...] = X.data, X.indices, X.indptr
    if given[1].dtype != given[2].dtype or given[1].dtype not in (np.int32, np.int64):
        given = X.data, *(part.astype(np.int64, casting="same_kind") for part in given[1:])
    data, indices, indptr = map(np.ascontiguousarray, given)
    inside, ascending = _passes.csr_form(indices, indptr, X.shape[1], min(len(indices), len(data)))
    if not inside or len(indptr) != X.shape[0] + 1:
        raise ValueError(
            "X is no valid CSR matrix: its indices or indptr lead out of its arrays. "
            "X.check_format(full_check=True) says where."
        )
    used = slice(0, int(indptr[-1]))
    same = data is X.data and indices is X.indices and indptr is X.indptr
    if same and ascending and used.stop == len(indices) == len(data):
        return X
    Y = type(X)(X.shape, dtype=X.dtype)
    # Set one by one: SciPy's constructor would make 32-bit indices of 64-bit ones.
    Y.data, Y.indices, Y.indptr = data[used], indices[used], indptr
    if not ascending:
        Y = Y.copy()
        Y.sum_duplicates()
    return Y


def csr_arrays(X: Any) -> tuple[Any, Any, Any]:
    """Data, column indices and row ends of CSR X, as the kernels take them: contiguous, of one index type.

    The kernels take the address of the first entry, so that an empty matrix is given one.
    """
    indptr = X.indptr.astype(X.indices.dtype, copy=False)
    data, indices = (X.data, X.indices) if X.nnz else (np.zeros(1, X.dtype), np.zeros(1, indptr.dtype))
    return np.ascontiguousarray(data), np.ascontiguousarray(indices), np.ascontiguousarray(indptr)


def tidy(X: Any) -> Any:
    """X as scikit-learn can check it: pandas' nulls among objects as NaN, sparse data as canonical CSR."""
    if sp.issparse(X):
        return canonical(X.tocsr()) if X.ndim == 2 else X
    if hasattr(X, "iloc"):
        objects = getattr(X, "ndim", 0) == 2 and any(kind == "object" for kind in X.dtypes)
        return X.where(X.notna(), np.nan) if objects else X
    try:
        values = np.asarray(X) if isinstance(X, (list, tuple)) else X
    except ValueError:  # rows of several lengths, which scikit-learn refuses
        return X
    if not isinstance(values, np.ndarray) or values.dtype != object:
        return X
    nulls = np.asarray(_are_nulls(values), dtype=bool)
    return np.where(nulls, np.nan, values) if nulls.any() else X
