r"""Entries that are missing: NaN means that a feature is dead in this example.

A dead feature adds nothing to a score. Where the noise of the training is unbiased, it scaled up
what survived, and so do we: with a share s_d of every feature (:meth:`marginout.noise.Noise.shares`),

.. math:: x_d \to \frac{x_d}{1 - \sum_{\text{dead}} s}, \qquad \text{dead } x_d \to 0,

for the features that have a share. In groups, every group has the same share, divided among its
features: half of the groups missing doubles the rest. Under raw deletion all shares are 0. The
offset is never touched: where everything is dead, it is the score.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marginout.noise import Noise

#: What `missing` may be, and what it may be in linear models.
OPTIONS = "error", "deleted"
LINEAR_OPTIONS = *OPTIONS, "conditional"


def has_missing(X: Any) -> bool:
    """Whether validated X, dense or CSR, holds NaN."""
    values = X.data if sp.issparse(X) else X
    with np.errstate(over="ignore", invalid="ignore"):  # a sum takes no memory
        return bool(np.isnan(values.sum())) and bool(np.isnan(values).any())


def delete_missing(X: Any, noise: Noise) -> Any:
    """Validated X, dense or CSR, with its NaN deleted: X itself where there are none."""
    if not has_missing(X):
        return X
    shares = noise.shares(X.shape[1])
    if not sp.issparse(X):
        dead = np.isnan(X)
        kept = np.where(dead, X.dtype.type(0), X)
        kept[:, shares > 0] *= _factors(dead @ shares, X.dtype)[:, None]
        return kept
    dead = np.isnan(X.data)
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    lost = np.bincount(rows[dead], shares[X.indices[dead]], X.shape[0])
    kept = np.where(dead, X.dtype.type(0), X.data)
    kept *= np.where(shares[X.indices] > 0, _factors(lost, X.dtype)[rows], X.dtype.type(1))
    return type(X)((kept, X.indices, X.indptr), shape=X.shape)


def _factors(lost: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """1/(1 − lost), and 1 where all is lost."""
    left = 1.0 - lost
    return np.where(left > 1e-9, 1.0 / np.where(left > 1e-9, left, 1.0), 1.0).astype(dtype)
