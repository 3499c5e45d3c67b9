import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

def abs_gaussian(tiny: float, z: Array, v: Array, parts: Array) -> None: ...
def hinge_gaussian(
    weights: Array,
    y: Array,
    margin: float,
    tiny: float,
    m: Array,
    v: Array,
    a: Array,
    c: Array,
    e: Array,
    t: Array,
    delta: Array,
    floor: float,
    sums: Array,
) -> None: ...
