"""The target: its task, and its values as the model knows them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginout.cli.cells import TRUTH, as_numbers, is_code, missing, strings
from marginout.cli.errors import DataError

#: Whole numbers of no more than so many kinds are classes; more are quantities.
CLASSES = 20


def find_task(values: Any, given: str | None) -> str:
    """Classification for words, and for whole numbers of few kinds; regression for other numbers."""
    if given:
        return given
    values = np.asarray(values)
    if values.dtype.kind not in "fiu":
        return "classification"
    distinct = np.unique(values)
    whole = bool(np.all(distinct == np.floor(distinct)))
    return "classification" if whole and len(distinct) <= CLASSES else "regression"


def from_cells(column: Any, mark: str | None) -> Any:
    """A column of a table: numbers if its strings are numbers with this decimal mark, or labels as written.

    Labels with leading zeros, such as 007, are no numbers; True and TRUE are the same.
    """
    words = strings(column)
    if not words:
        return column
    if all(word.lower() in TRUTH for word in words):
        return column.mask(missing(column)).map(str.capitalize, na_action="ignore")
    if mark is None or is_code(words):
        return column.mask(missing(column))
    return type(column)(as_numbers(column, str(column.name), mark), index=column.index)


def clean(values: Any, name: str) -> NDArray[Any]:
    """Target values as numbers or as strings; none may be missing."""
    gaps = _gaps(values)
    if gaps.any():
        first = int(np.argmax(gaps)) + 1
        raise DataError(
            f"the target {name!r} is missing or not finite in {gaps.sum()} of {len(gaps)} rows, "
            f"first in row {first}: add --drop-unlabelled to leave these rows out"
        )
    values = np.asarray(values)
    if values.dtype.kind in "iuf":
        return np.asarray(values)
    if values.dtype.kind in "mM":
        values = values.astype(f"{values.dtype.kind}8[us]")  # nanoseconds would become integers
    cells = [float(cell) if isinstance(cell, Decimal) else cell for cell in values.tolist()]
    if all(isinstance(cell, (int, float)) and not isinstance(cell, bool) for cell in cells):
        return np.array(cells, dtype=np.float64)
    odd = next((cell for cell in cells if not isinstance(cell, (str, bool, int, float))), None)
    if odd is not None:
        raise DataError(
            f"the target {name!r} holds {type(odd).__name__}: name a column of words or numbers as --target"
        )
    return np.array([str(cell) for cell in cells], dtype=object)


def _gaps(values: Any) -> NDArray[np.bool_]:
    """Which values are missing, or are no finite numbers."""
    if hasattr(values, "isna"):
        gaps = np.array(values.isna())
        values = values.to_numpy()
    else:
        gaps = np.zeros(len(values), dtype=bool)
        values = np.asarray(values)
    if values.dtype.kind == "f":
        gaps |= ~np.isfinite(values)
    elif values.dtype == object:
        gaps |= np.array([isinstance(v, float) and not np.isfinite(v) for v in values], dtype=bool)
    return np.asarray(gaps)


def unlabelled(values: Any) -> NDArray[np.bool_]:
    """Which targets are missing or infinite, in a column as it was read or in an array."""
    if not hasattr(values, "isna"):
        return _gaps(values)
    import pandas

    numbers = pandas.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.asarray(missing(values) | np.isinf(numbers))


def for_training(values: Any, name: str, task: str | None) -> tuple[NDArray[Any], str]:
    """What to fit to, and the task; refuses targets that nothing can be learnt from."""
    y = clean(values, name)
    task = find_task(y, task)
    if task == "regression":
        if y.dtype.kind not in "fiu":
            raise DataError(
                f"the target {name!r} holds {y[0]!r}, but regression needs numbers: name another --target, "
                "or leave --task out"
            )
        return y.astype(np.float64), task
    if y.dtype.kind == "f":
        y = y.astype(np.int64) if np.all(y == np.floor(y)) and np.abs(y).max() < 2**53 else y.astype(str)
    kinds = len(np.unique(y))
    if kinds < 2:
        raise DataError(
            f"the target {name!r} has one value, {y.tolist()[0]!r}, but two classes are needed: "
            "name another --target"
        )
    if kinds > max(CLASSES, len(y) // 2):
        cure = "name another --target" + (", or set --task regression" if y.dtype.kind in "iu" else "")
        raise DataError(f"the target {name!r} has {kinds} different values in {len(y)} rows: {cure}")
    return y.astype(object) if y.dtype.kind == "U" else y, task


def check_folds(y: NDArray[Any], task: str, folds: int) -> None:
    """Refuse more folds than the largest class, or the data, have rows."""
    most = int(np.unique(y, return_counts=True)[1].max()) if task == "classification" else len(y)
    if most < folds:
        what = "the largest class has" if task == "classification" else "there are"
        raise DataError(f"--folds {folds} is too many, for {what} {most} rows: lower --folds")


def largest_share(y: NDArray[Any]) -> float:
    """The share of the most frequent class: the accuracy of always naming it."""
    return float(np.unique(y, return_counts=True)[1].max() / len(y))


def for_scoring(values: Any, name: str, classes: Any) -> NDArray[Any]:
    """True targets in the type of the model's classes, or as floats where there are none."""
    y = clean(values, name)
    if classes is None:
        if y.dtype.kind not in "fiu":
            raise DataError(
                f"the target {name!r} holds {y[0]!r}, but the model predicts numbers: name another --target"
            )
        return y.astype(np.float64)
    if classes.dtype.kind in "fiu":
        if y.dtype.kind not in "fiu":
            raise DataError(
                f"the target {name!r} holds {y[0]!r}, but the model's classes are numbers: "
                "name another --target"
            )
        return y
    if y.dtype.kind == "f" and np.all(y == np.floor(y)):
        y = y.astype(np.int64)
    return y.astype(str).astype(object)
