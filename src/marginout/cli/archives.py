"""npz files: CSR as `data, indices, indptr, shape`, or a dense `X`, beside one array per name.

Nothing in them is unpickled.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from marginout.cli.data import MOST_FEATURES, Matrix
from marginout.cli.errors import DataError

CSR = "data", "indices", "indptr", "shape"
#: The arrays that are looked for, in this order, where no target is named.
TARGETS = "y", "target", "label", "rating"


def read(stream: IO[bytes], target: str | None, where: dict[str, str], n_features: int | None) -> Matrix:
    """Features, and the target if there is one."""
    try:
        with np.load(io.BytesIO(stream.read()), allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise DataError("it is a single array, not an npz: save X and y with numpy.savez")
            arrays = {name: archive[name] for name in archive.files if name != "feature_names"}
            names = _names(archive)
    except (ValueError, TypeError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, SyntaxError) as error:
        raise DataError(f"it is no npz of plain arrays ({error}): save it with numpy.savez") from error
    except (NotImplementedError, OverflowError, RuntimeError) as error:
        raise DataError(f"this npz is broken ({error}): get it again") from error
    X = _features(arrays)
    if X.ndim != 2 or not X.shape[0] or not X.shape[1]:
        raise DataError(f"the features have shape {X.shape}: there must be rows and columns")
    if X.shape[1] > MOST_FEATURES:
        raise DataError(f"it has {X.shape[1]} features, more than {MOST_FEATURES}: hash them")
    y = _target(arrays, target, X.shape[0])
    X, y = _filter(X, y, arrays, where)
    if n_features is not None and X.shape[1] != n_features:
        raise DataError(
            f"it has {X.shape[1]} features, but the model was trained on {n_features}: give these"
        )
    return Matrix(X, y, names if names and len(names) == X.shape[1] else None)


def _names(archive: Any) -> list[str] | None:
    if "feature_names" not in archive.files:
        return None
    found = archive["feature_names"]
    return [
        name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in found.ravel()
    ]


def _features(arrays: dict[str, Any]) -> Any:
    if all(name in arrays for name in CSR):
        data, indices, indptr, shape = (arrays[name] for name in CSR)
        try:
            X = sp.csr_matrix((_numbers(data), indices, indptr), shape=tuple(int(n) for n in shape.ravel()))
            X.check_format(full_check=True)
        except (ValueError, TypeError, IndexError, OverflowError) as error:
            raise DataError(f"data, indices, indptr and shape make no CSR matrix: {error}") from error
        return X
    if "X" in arrays:
        X = _numbers(arrays["X"])
        return X.reshape(len(X), -1) if X.ndim > 2 else X
    raise DataError(
        f"it holds {', '.join(arrays) or 'nothing'}, but features are read from X or {', '.join(CSR)}"
    )


def _numbers(values: Any) -> Any:
    if values.dtype.kind not in "fiub":
        raise DataError(f"the features are of type {values.dtype}: they must be numbers")
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def _target(arrays: dict[str, Any], target: str | None, n: int) -> Any:
    name = target or next((name for name in TARGETS if name in arrays), None)
    if name is None:
        return None
    if name not in arrays:
        raise DataError(f"there is no array {name!r} in it: --target must be one of {', '.join(arrays)}")
    if arrays[name].shape != (n,):
        raise DataError(f"the target {name!r} has shape {arrays[name].shape}, but there are {n} rows")
    y = arrays[name]
    return np.char.decode(y, "utf-8", "replace") if y.dtype.kind == "S" else y


def _filter(X: Any, y: Any, arrays: dict[str, Any], where: dict[str, str]) -> tuple[Any, Any]:
    """The rows that --where asks for."""
    kept = np.ones(X.shape[0], dtype=bool)
    for name, value in where.items():
        if name not in arrays or arrays[name].shape != kept.shape:
            known = ", ".join(key for key, array in arrays.items() if array.shape == kept.shape) or "none"
            raise DataError(
                f"--where {name}={value}: there is no array {name!r} of one value per row; "
                f"those there are: {known}"
            )
        kept &= np.array([matches(cell, value) for cell in arrays[name].tolist()], dtype=bool)
    if not kept.any():
        raise DataError(f"--where leaves none of the {len(kept)} rows: name values that the arrays hold")
    return (X, y) if kept.all() else (X[kept], None if y is None else y[kept])


def matches(cell: Any, value: str) -> bool:
    """Whether a cell is what --where names: as text, whatever its case, or as a number."""
    text = cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)
    if text == value or text.lower() == value.lower():
        return True
    try:
        return float(text) == float(value)
    except ValueError:
        return False
