from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LEAST_RADIUS: float
GAUSSIAN_CURVATURE: float
CODES: dict[tuple[str, str], int]

def moments(arrays: tuple[Any, ...], mean: Array, variance: Array) -> None: ...
def add_expansion(
    kernel: tuple[Any, ...], arrays: tuple[Any, ...], y: Array, weights: Array, sums: Array
) -> None: ...
def jets(kernel: tuple[Any, ...], m: Array, v: Array, y: Array, out: Array) -> None: ...
def slopes(kernel: tuple[Any, ...], m: Array, v: Array, y: Array, dm: Array, dv: Array) -> None: ...
