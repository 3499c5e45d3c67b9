from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Csr = NDArray[Any]

def csr_learn(
    data: Csr,
    indices: Csr,
    indptr: Csr,
    Y: Array,
    weights: Array,
    stream_arguments: tuple[Any, ...],
    noise_arguments: tuple[Any, ...],
    groups: int,
) -> None: ...
def dense_learn(
    X: NDArray[Any],
    Y: Array,
    weights: Array,
    stream_arguments: tuple[Any, ...],
    noise_arguments: tuple[Any, ...],
    groups: int,
) -> None: ...
