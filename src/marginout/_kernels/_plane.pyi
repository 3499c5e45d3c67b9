import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

def hinge_bound(
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
def hinge_bound_majorizer(
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
def logistic_bound(
    weights: Array,
    y: Array,
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
def logistic_bound_slopes(y: Array, m: Array, v: Array, dm: Array, dv: Array) -> None: ...
def hinge_bound_slopes(
    y: Array, margin: float, tiny: float, m: Array, v: Array, dm: Array, dv: Array
) -> None: ...
def moments(
    m: Array,
    v: Array,
    a: Array,
    c: Array,
    e: Array,
    t: Array,
    delta: Array,
    floor: float,
    mean: Array,
    variance: Array,
) -> None: ...
def expansion(
    weights: Array,
    value: Array,
    dm: Array,
    dv: Array,
    dmm: Array,
    dmv: Array,
    dvv: Array,
    a: Array,
    c: Array,
    e: Array,
    t: Array,
    sums: Array,
) -> None: ...
def dots(A: Array, B: Array, out: Array) -> None: ...
def majorizer(weights: Array, gamma: Array, a: Array, e: Array, sums: Array) -> None: ...
