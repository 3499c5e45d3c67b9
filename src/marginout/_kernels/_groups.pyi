from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Csr = NDArray[Any]
Groups = NDArray[np.int32]

def csr_line(
    data: Csr,
    indices: Csr,
    indptr: Csr,
    groups: Groups,
    kappa: Array,
    WP: Array,
    xp: Array,
    vwp: Array,
    vpp: Array,
    room: Array,
    threads: int,
) -> None: ...
def csr_pullback(
    data: Csr,
    indices: Csr,
    indptr: Csr,
    groups: Groups,
    U: Array,
    dm: Array,
    dv: Array,
    G: Array,
    room: Array,
    threads: int,
) -> None: ...
def csr_sums(
    data: Csr,
    indices: Csr,
    indptr: Csr,
    begin: int,
    end: int,
    groups: Groups,
    W: Array,
    S: Array,
) -> None: ...
def csr_sums_back(
    data: Csr,
    indices: Csr,
    indptr: Csr,
    begin: int,
    end: int,
    groups: Groups,
    D: Array,
    G: Array,
) -> None: ...
def csr_blocks(
    data: Csr,
    indices: Csr,
    indptr: Csr,
    groups: Groups,
    corner: NDArray[np.int64],
    rank: Groups,
    sizes: Groups,
    a: Array,
    B: Array,
    first: NDArray[np.int64],
    following: NDArray[np.int64],
    step: int,
    threads: int,
) -> None: ...
