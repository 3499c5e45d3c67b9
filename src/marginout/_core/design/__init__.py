"""Designs: X together with the moments of its corruption, for every way to store X and to corrupt it."""

from __future__ import annotations

from marginout._core.design.conditional import ConditionalDesign, conditional_design
from marginout._core.design.groups import GroupCsrDesign, GroupDenseDesign, GroupDesign, Grouping, GroupSums
from marginout._core.design.storage import (
    BLOCK_ENTRIES,
    CsrDesign,
    DenseDesign,
    Design,
    csr_arrays,
    design_of,
    linear_scores,
    make_design,
)
from marginout._core.threads import one_blas_thread, worker_threads

__all__ = [
    "BLOCK_ENTRIES",
    "ConditionalDesign",
    "CsrDesign",
    "DenseDesign",
    "Design",
    "GroupCsrDesign",
    "GroupDenseDesign",
    "GroupDesign",
    "GroupSums",
    "Grouping",
    "conditional_design",
    "csr_arrays",
    "design_of",
    "linear_scores",
    "make_design",
    "one_blas_thread",
    "worker_threads",
]
