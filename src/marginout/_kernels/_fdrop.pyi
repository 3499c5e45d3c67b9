from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Csr = NDArray[Any]

def sweep(
    data: Csr,
    indices: Csr,
    indptr: Csr,
    K: int,
    y: Array,
    c: Array,
    rho: float,
    a: Array,
    p: Array,
    tau: Array,
    w: Array,
    offset: Array,
    order: NDArray[np.int64],
    active: int,
    widest: int,
    limit: float,
    seed: NDArray[np.uint64],
) -> tuple[int, float]: ...
def slacks(
    data: Csr, indices: Csr, indptr: Csr, K: int, y: Array, w: Array, widest: int, out: Array
) -> None: ...
def assemble(data: Csr, indices: Csr, indptr: Csr, weights: Array, p: Array, w: Array) -> None: ...
