from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

def csr_sweep(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    norms: Array,
    target: Array,
    epsilon: float,
    low: Array,
    high: Array,
    rho: float,
    beta: Array,
    w: Array,
    offset: Array,
    order: NDArray[np.int64],
    active: int,
    limit: float,
    seed: NDArray[np.uint64],
) -> tuple[int, float]: ...
def dense_sweep(
    X: NDArray[Any],
    norms: Array,
    target: Array,
    epsilon: float,
    low: Array,
    high: Array,
    rho: float,
    beta: Array,
    w: Array,
    offset: Array,
    order: NDArray[np.int64],
    active: int,
    limit: float,
    seed: NDArray[np.uint64],
) -> tuple[int, float]: ...
