from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Csr = NDArray[Any]
Tuple = tuple[Any, ...]

def csr_learn(
    data: Csr, indices: Csr, indptr: Csr, Y: Array, weights: Array, state: Tuple, moments: Tuple
) -> None: ...
def dense_learn(X: NDArray[Any], Y: Array, weights: Array, state: Tuple, moments: Tuple) -> None: ...
