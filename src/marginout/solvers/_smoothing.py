"""Smoothing of kinked losses, and the continuation from smooth to sharp.

A kink is rounded off by δ, a fraction of the loss's scale: a variance of δ² is added to every score, and the
loss rises by at most δ times its scale. A smooth problem is quickly solved; its solution is where the next,
sharper one starts.
"""

from __future__ import annotations

import numpy as np

from marginout._core.interfaces import Array


def roundings(coarsest: float, finest: float, per_decade: int) -> Array:
    """δ from coarse to fine, in equal ratios, both ends included: about `per_decade` to a factor of ten."""
    return np.geomspace(coarsest, finest, round(np.log10(coarsest / finest) * per_decade) + 1)
