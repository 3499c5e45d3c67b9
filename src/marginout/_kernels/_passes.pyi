from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Csr = NDArray[Any]

def max_threads() -> int: ...
def csr_form(indices: Csr, indptr: Csr, d: int, size: int) -> tuple[bool, bool]: ...
def csr_line(
    data: Csr,
    indices: Csr,
    indptr: Csr,
    kappa: Array,
    uniform: bool,
    square: bool,
    W: Array,
    P: Array,
    xp: Array,
    vwp: Array,
    vpp: Array,
    threads: int,
) -> None: ...
def csr_pullback(
    data: Csr,
    indices: Csr,
    indptr: Csr,
    square: bool,
    U: Array,
    dm: Array,
    dv: Array,
    G: Array,
    threads: int,
) -> None: ...
def csr_squares(data: Csr, indices: Csr, indptr: Csr, a: Array, G: Array, threads: int) -> None: ...
def csr_hessian(
    x: Array,
    b: Array,
    indices: Csr,
    indptr: Csr,
    mm: Array,
    mv: Array,
    vv: Array,
    H: Array,
    threads: int,
) -> None: ...
