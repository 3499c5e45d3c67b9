r"""What corruption does to features: their means, their variances, their moment generating functions.

A noise model replaces every entry x of the data by a random x̃. Training needs only

.. math:: E\,\tilde x = s\,x, \qquad \mathrm{Var}\,\tilde x = \kappa\,(s\,x)^p,

with one scale s and one coefficient κ per feature and a power p of 0 (additive noise),
1 (Poisson) or 2 (multiplicative noise), and which features, if any, are corrupted together
rather than independently. That, :class:`Moments`, is all that the rest of the library knows
about a noise model. A **rate** is always the probability that a feature is deleted, never the
probability that it is kept.
"""

from marginout.noise._base import Moments, Noise
from marginout.noise._features import BitSwap, Deletion, Dropout, Gaussian, Laplace, Poisson, resolve
from marginout.noise._groups import GroupDeletion, GroupDropout, feature_groups
from marginout.noise._missing import from_missing

__all__ = [
    "BitSwap",
    "Deletion",
    "Dropout",
    "Gaussian",
    "GroupDeletion",
    "GroupDropout",
    "Laplace",
    "Moments",
    "Noise",
    "Poisson",
    "feature_groups",
    "from_missing",
    "resolve",
]
