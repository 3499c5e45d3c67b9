"""Designs: X together with the moments of its corruption, for every way to store X and to corrupt it."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marginout._core.design.groups import GroupCsrDesign, GroupDenseDesign, GroupDesign, Grouping, GroupSums
from marginout._core.design.storage import (
    BLOCK_ENTRIES,
    SERIAL_WORK,
    CsrDesign,
    DenseDesign,
    Design,
    csr_arrays,
    linear_scores,
    one_blas_thread,
    worker_threads,
)
from marginout.noise import Noise

__all__ = [
    "BLOCK_ENTRIES",
    "CsrDesign",
    "DenseDesign",
    "Design",
    "GroupCsrDesign",
    "GroupDenseDesign",
    "GroupDesign",
    "GroupSums",
    "Grouping",
    "csr_arrays",
    "design_of",
    "linear_scores",
    "make_design",
    "one_blas_thread",
    "worker_threads",
]

#: A dense X with at most this share of non-zeros is stored as CSR.
MOSTLY_ZEROS = 0.25
#: By whether features are corrupted in groups, and whether X is CSR.
DESIGNS: dict[tuple[bool, bool], type[Design]] = {
    (False, False): DenseDesign,
    (False, True): CsrDesign,
    (True, False): GroupDenseDesign,
    (True, True): GroupCsrDesign,
}


def make_design(X: Any, noise: Noise) -> Design:
    """The design for validated X: CSR, or dense in any memory order.

    A large dense X that is mostly zeros, such as images of strokes, is packed into CSR first:
    a fit then passes over the non-zeros alone, which take at most half of X's bytes.
    """
    if not sp.issparse(X) and X.size > SERIAL_WORK and np.count_nonzero(X) <= MOSTLY_ZEROS * X.size:
        X = _packed(X)
    return design_of(X, noise)


def design_of(X: Any, noise: Noise) -> Design:
    """The design for X as it is stored."""
    together = noise.moments(X.shape[1]).groups is not None
    return DESIGNS[together, bool(sp.issparse(X))](X, noise)


def _packed(X: NDArray[Any]) -> Any:
    """A dense X as CSR, block by block: SciPy's own way takes several times the memory."""
    rows = np.count_nonzero(X, axis=1)
    indptr = np.concatenate([[0], np.cumsum(rows)])
    index = np.int32 if indptr[-1] <= np.iinfo(np.int32).max else np.int64
    data, indices = np.empty(indptr[-1], X.dtype), np.empty(indptr[-1], index)
    size = max(1, BLOCK_ENTRIES // X.shape[1])
    for i in range(0, len(X), size):
        block = X[i : i + size]
        here = slice(indptr[i], indptr[min(i + size, len(X))])
        where = np.nonzero(block)
        data[here], indices[here] = block[where], where[1]
    return sp.csr_array((data, indices, indptr.astype(index)), shape=X.shape)
