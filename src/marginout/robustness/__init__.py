"""Measure what is left of a fitted model as its features die: for any scikit-learn estimator.

The model is never fitted again, and X is never changed: copies of X are scored in which features are
set to zero.
"""

from marginout.robustness.corruption import corrupt
from marginout.robustness.curve import DeletionCurve, deletion_curve
from marginout.robustness.impact import GroupImpact, group_impact

__all__ = ["DeletionCurve", "GroupImpact", "corrupt", "deletion_curve", "group_impact"]
