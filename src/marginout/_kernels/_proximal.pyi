from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[Any]

def prepare(
    data: Array,
    indices: Indices,
    spans: Indices,
    kappa: Array,
    power: int,
    w: Array,
    dm: Array,
    dv: Array,
    bends: Array,
    state: Array,
    columns: Array,
) -> None: ...
def descend(
    data: Array,
    indices: Indices,
    spans: Indices,
    kappa: Array,
    power: int,
    w: Array,
    columns: Array,
    l1: float,
    corner: float,
    beta: float,
    share: float,
    sweeps: int,
    state: Array,
    step: Array,
) -> tuple[float, int]: ...
def along(
    data: Array,
    indices: Indices,
    spans: Indices,
    kappa: Array,
    power: int,
    w: Array,
    step: Array,
    cross: Array,
    square: Array,
) -> None: ...
