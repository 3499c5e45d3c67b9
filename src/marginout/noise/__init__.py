r"""Noise models: means, variances and moment generating functions of corrupted features.

A noise model replaces every entry x of the data by a random x̃. Training needs only

.. math:: E\,\tilde x = s\,x, \qquad \mathrm{Var}\,\tilde x = \kappa\,(s\,x)^p,

with one scale s and one coefficient κ per feature, a power p of 0 (additive noise), 1 (noise of counts) or
2 (multiplicative noise), and the groups of features, if any, that are corrupted together. These are
the :class:`Moments`; the rest of the library uses nothing else of a noise model. A **rate** is always
the probability that a feature is deleted, never the probability that it is kept.
"""

from marginout.noise._base import Moments, Noise
from marginout.noise._features import (
    BitSwap,
    Deletion,
    Dropout,
    Gaussian,
    Laplace,
    Poisson,
    Thinning,
    resolve,
)
from marginout.noise._groups import GroupDeletion, GroupDropout, feature_groups
from marginout.noise._holes import GroupMissing, Missing
from marginout.noise._missing import from_missing

__all__ = [
    "BitSwap",
    "Deletion",
    "Dropout",
    "Gaussian",
    "GroupDeletion",
    "GroupDropout",
    "GroupMissing",
    "Laplace",
    "Missing",
    "Moments",
    "Noise",
    "Poisson",
    "Thinning",
    "feature_groups",
    "from_missing",
    "resolve",
]
