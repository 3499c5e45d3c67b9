from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

def csr_pass(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    rate: Array,
    factor: Array,
    classes: NDArray[np.int64],
    a: Array,
    joint: bool,
    W: Array,
    S: Array,
    R: Array,
    G: Array,
    backward: bool,
    threads: int,
) -> None: ...
def dense_pass(
    X: NDArray[Any],
    rate: Array,
    factor: Array,
    classes: NDArray[np.int64],
    a: Array,
    joint: bool,
    W: Array,
    S: Array,
    R: Array,
    G: Array,
    backward: bool,
    threads: int,
) -> None: ...
def kinds_table(column: NDArray[np.int64], value: Array, W: Array, E: Array, spread: Array) -> None: ...
def kinds_pass(
    numbers: NDArray[Any],
    indptr: NDArray[Any],
    column: NDArray[np.int64],
    value: Array,
    rate: Array,
    reach: Array,
    E: Array,
    classes: NDArray[np.int64],
    S: Array,
    R: Array,
    G: Array,
    most: float,
    backward: bool,
    threads: int,
) -> None: ...
