"""Displays as in scikit-learn. matplotlib is imported when the first one is drawn."""

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
