"""The normal law of the features: what the values that are known say of those that are missing."""

from __future__ import annotations

from marginout._core.gaussian.estimate import Estimate, estimate
from marginout._core.gaussian.law import Law
from marginout._core.gaussian.patterns import Patterns
from marginout._core.gaussian.variance import HiddenVariance, score_variances

__all__ = ["Estimate", "HiddenVariance", "Law", "Patterns", "estimate", "score_variances"]
