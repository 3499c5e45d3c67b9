from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

def csr_batch(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    rows: NDArray[np.int64],
    threshold: Ints,
    factor: Floats,
    seed: int,
    values: Floats,
    columns: Ints,
    starts: Ints,
) -> None: ...
def dense_batch(
    X: NDArray[Any],
    rows: NDArray[np.int64],
    threshold: Ints,
    factor: Floats,
    seed: int,
    out: Floats,
    threads: int,
) -> None: ...
def transpose(
    values: Floats, columns: Ints, starts: Ints, turned: Floats, rows: Ints, ends: Ints
) -> None: ...
def product(values: Floats, columns: Ints, starts: Ints, M: Floats, out: Floats, threads: int) -> None: ...
def adam(
    w: Floats,
    g: Floats,
    m: Floats,
    v: Floats,
    rate: float,
    beta: float,
    beta2: float,
    epsilon: float,
    decay: float,
    threads: int,
) -> None: ...
