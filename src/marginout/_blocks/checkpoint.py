"""Where a fit stands, on disk: weights, offsets, iteration and objective.

F is convex: from any start the same optimum is reached. So a checkpoint needs no more than to fit
in its shape and its classes, and one of another C or noise is as good a start as any. (An offset that is
not fitted starts, and ends, at zero.)
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from marginout._core.interfaces import Array
from marginout.solvers import Solution


def check_folder(path: Path) -> None:
    """Refuse a path that nothing can be written to."""
    if not path.parent.is_dir():
        raise ValueError(f"checkpoint={str(path)!r}: the folder {str(path.parent)!r} does not exist.")


class Writer:
    """A solver's monitor that writes every few iterations, in one piece or not at all."""

    def __init__(self, path: Path, every: int, classes: NDArray[Any] | None) -> None:
        self._path, self._every = path, every
        self._classes = np.zeros(0) if classes is None else classes

    def __call__(self, iteration: int, value: float, left: float, solution: Solution) -> bool:
        if iteration % self._every == 0:
            W, b = solution()
            fresh = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            classes = self._classes.astype(str)
            try:
                with open(fresh, "wb") as file:
                    np.savez(file, W=W, b=b, iteration=iteration, objective=value, classes=classes)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(fresh, self._path)
            except BaseException:  # a full disk, Ctrl-C
                fresh.unlink(missing_ok=True)
                raise
        return False


def read(path: Path, shape: tuple[int, int], classes: NDArray[Any] | None) -> tuple[Array, Array] | None:
    """The weights and offsets of a checkpoint; None if there is none."""
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as saved:
            W, b, known = saved["W"], saved["b"], saved["classes"]
            if W.ndim != 2 or b.shape != W.shape[1:] or not (np.isfinite(W).all() and np.isfinite(b).all()):
                raise ValueError("W and b must be finite, (d, K) and (K,).")
    except (BadZipFile, EOFError, KeyError, OSError, TypeError, ValueError) as error:
        raise ValueError(f"checkpoint={str(path)!r} is no checkpoint: name another file.") from error
    wanted = np.zeros(0).astype(str) if classes is None else classes.astype(str)
    if W.shape != shape or not np.array_equal(known, wanted):
        raise ValueError(
            f"checkpoint={str(path)!r} is of a fit with {W.shape[0]} features and {W.shape[1]} problems, "
            f"this one has {shape[0]} and {shape[1]}, or other classes: name another file, or remove it."
        )
    return W, b
