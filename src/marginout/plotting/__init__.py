"""Displays in scikit-learn's manner. matplotlib is imported when one is drawn, not before."""

from marginout.plotting._deletion import DeletionCurveDisplay
from marginout.plotting._hidden import HiddenUnitsDisplay
from marginout.plotting._impact import GroupImpactDisplay
from marginout.plotting._search import PathDisplay, ValidationMapDisplay

__all__ = [
    "DeletionCurveDisplay",
    "GroupImpactDisplay",
    "HiddenUnitsDisplay",
    "PathDisplay",
    "ValidationMapDisplay",
]
