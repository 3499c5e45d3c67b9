"""What the displays share."""

from __future__ import annotations

from typing import Any


def axes(ax: Any) -> Any:
    """The given axes, or new ones."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("Displays need matplotlib: pip install 'marginout[plot]'.") from None
    return plt.subplots(layout="constrained")[1]
