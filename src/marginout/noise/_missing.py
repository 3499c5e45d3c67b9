"""Estimate the noise of production data: the rates at which features are missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from marginout._core.validation import tidy
from marginout.noise._base import Array, Noise
from marginout.noise._features import Dropout
from marginout.noise._groups import GroupDropout
from marginout.noise.grouping import resolve_groups

#: Rows that are added to the sample, missing as often as the average feature is: they smooth every rate.
PRIOR = 2.0


def from_missing(X: Any, groups: Any = None) -> Noise:
    r"""Estimate the rates at which features, or groups of them, are missing in a sample.

    .. math:: q_g = \frac{k_g + 2\,\bar q}{n + 2}, \qquad \bar q = \frac{\sum_g k_g + 1/2}{nG + 1},

    where group g is missing in k_g of n rows. Every rate is moved to the mean rate q̄ of all G groups as if
    two more rows had shown it, and the mean rate to 1/2 as if one more entry had. A feature that was never
    missing in a small sample may be missing later, and a rate of 0 would protect it permanently.

    Parameters
    ----------
    X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
        Data as they come in production; NaN or null is missing, a zero is not.
    groups : None, or as in :class:`GroupDropout`, default=None
        With groups, a row counts towards k_g by the share of the group's features that are missing.

    Returns
    -------
    noise : Dropout, or GroupDropout
        For raw deletion, ``Deletion(noise.rate)`` or ``GroupDeletion(noise.groups, noise.rate)``.

    Examples
    --------
    >>> import numpy as np
    >>> from marginout.noise import from_missing
    >>> X = np.ones((98, 2))
    >>> X[:49, 1] = np.nan
    >>> from_missing(X).rate.round(3)
    array([0.005, 0.495])
    """
    n, counts = _missing_counts(X)
    if not n or not len(counts):
        raise ValueError(f"X has {n} rows and {len(counts)} features: give at least one of each.")
    names = getattr(X, "columns", None)
    if groups is not None:
        numbers, _ = resolve_groups(groups, len(counts), names)
        counts = np.bincount(numbers, counts) / np.bincount(numbers)
    mean = (counts.sum() + 0.5) / (n * len(counts) + 1.0)
    rate = (counts + PRIOR * mean) / (n + PRIOR)
    return Dropout(rate) if groups is None else GroupDropout(groups, rate).bind(names)


def _missing_counts(X: Any) -> tuple[int, Array]:
    """The number of rows, and the number of rows in which each feature is missing."""
    X = tidy(X)
    dead: Any
    if sp.issparse(X):
        X = X.tocsr(copy=True)
        X.sum_duplicates()
        dead = np.bincount(X.indices[np.isnan(X.data)], minlength=X.shape[1])
    elif hasattr(X, "isna"):  # pandas
        dead = X.isna().to_numpy().sum(axis=0)
    elif hasattr(X, "null_count"):  # polars: a null and a NaN are two things
        dead = [c.null_count() + (c.is_nan().sum() if c.dtype.is_float() else 0) for c in X.iter_columns()]
    else:
        X = np.asarray(X, dtype=np.float64)
        if X.ndim != 2:
            raise ValueError(f"X has {X.ndim} dimensions, but must have two: (n_samples, n_features).")
        dead = np.isnan(X).sum(axis=0)
    return X.shape[0], np.asarray(dead, dtype=np.float64)
