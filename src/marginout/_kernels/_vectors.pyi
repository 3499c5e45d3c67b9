import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

def dots(A: Array, B: Array, out: Array) -> None: ...
