"""Measure what is left of a model as its features die: for any scikit-learn estimator.

`deletion_curve` and `group_impact` score a fitted model, which is never fitted again. `expected_score` fits
clones on folds of the training data. X is never changed: copies are scored in which features are deleted.
"""

from marginout.robustness.corruption import corrupt
from marginout.robustness.curve import DeletionCurve, deletion_curve
from marginout.robustness.expected import ExpectedScore, expected_score
from marginout.robustness.impact import GroupImpact, group_impact

__all__ = [
    "DeletionCurve",
    "ExpectedScore",
    "GroupImpact",
    "corrupt",
    "deletion_curve",
    "expected_score",
    "group_impact",
]
