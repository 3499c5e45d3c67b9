from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Csr = NDArray[Any]

def csr_inputs(
    data: Csr,
    indices: Csr,
    indptr: Csr,
    begin: int,
    end: int,
    kappa: Array,
    square: bool,
    variance: bool,
    alpha: Array,
    A: Array,
    S: Array,
) -> None: ...
def csr_spread(
    data: Csr,
    indices: Csr,
    indptr: Csr,
    begin: int,
    end: int,
    kappa: Array,
    square: bool,
    alpha: Array,
    U: Array,
    Q: Array,
    v: Array,
    T: Array,
) -> None: ...
def csr_pull(
    data: Csr,
    indices: Csr,
    indptr: Csr,
    begin: int,
    end: int,
    kappa: Array,
    square: bool,
    spread: bool,
    variance: bool,
    alpha: Array,
    dA: Array,
    dS: Array,
    Q: Array,
    E: Array,
    G: Array,
) -> None: ...
def csr_covariance(
    data: Csr,
    indices: Csr,
    indptr: Csr,
    begin: int,
    end: int,
    kappa: Array,
    square: bool,
    alpha: Array,
    S: Array,
) -> None: ...
