"""Import matplotlib when it is needed, and make axes."""

from __future__ import annotations

from typing import Any


def pyplot() -> Any:
    """The module matplotlib.pyplot, or an error that says how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("Displays need matplotlib: pip install 'marginout[plot]'.") from None
    return plt


def axes(ax: Any) -> Any:
    """The given axes, or new ones."""
    return pyplot().subplots(layout="constrained")[1] if ax is None else ax
