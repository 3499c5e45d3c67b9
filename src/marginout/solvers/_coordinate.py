"""The offset in dual coordinate descent, for kinked losses.

An offset makes Σβ = 0 a constraint of the dual. A duality gap needs the best offset for w, and a feasible β.
"""

from __future__ import annotations

import numpy as np

from marginout._core.interfaces import Array

#: State of the generator that shuffles the examples at the start.
SEED = 88172645463325252
#: Slopes below this fraction of their sum count as zero.
FLAT = 1e-12


def flattest(kinks: Array, rises: Array, first: float) -> float:
    """The minimiser of a convex, piecewise linear function of one variable.

    Its slope is `first` < 0 at −∞, and `rises` by a positive number at each of the kinks. Where the function
    is constant between two kinks, the middle is taken.
    """
    order = np.argsort(kinks, kind="stable")
    slope = first + np.cumsum(rises[order])
    flat, last = FLAT * rises.sum(), len(order) - 1
    low = min(int(np.searchsorted(slope, -flat)), last)
    high = min(int(np.searchsorted(slope, flat, side="right")), last)
    ends = kinks[order[[low, max(low, high)]]]
    return float(0.5 * (ends[0] + ends[1]) if high > low else ends[0])


def balance(up: float, down: float) -> tuple[float, float]:
    """Factors of the positive and the negative β, whose sums are `up` and −`down`, that make Σβ = 0."""
    lighter = min(up, down)
    return lighter / up if up > 0 else 0.0, lighter / down if down > 0 else 0.0
