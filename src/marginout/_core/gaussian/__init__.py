"""The normal law of the features: what the values that are known say of those that are missing."""

from __future__ import annotations

from marginout._core.gaussian.classes import ClassLaws, learn, learn_from, pieces
from marginout._core.gaussian.estimate import Estimate, Rows, estimate
from marginout._core.gaussian.law import Law
from marginout._core.gaussian.patterns import Patterns
from marginout._core.gaussian.variance import HiddenVariance, score_covariances, score_variances

__all__ = [
    "ClassLaws",
    "Estimate",
    "HiddenVariance",
    "Law",
    "Patterns",
    "Rows",
    "estimate",
    "learn",
    "learn_from",
    "pieces",
    "score_covariances",
    "score_variances",
]
