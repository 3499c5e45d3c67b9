"""Load CIFAR-10 and its visual words, which are computed once and cached outside the repository."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from reproduction.data import Problem, file
from reproduction.visual_words import Vocabulary

CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
FILES = {"12,000 images": "cifar10_12k.npz", "60,000 images": "cifar10.npz"}
CURE = "Make it with `python -m reproduction prepare FOLDER`; see reproduction/README.md."


@dataclass(frozen=True)
class Images:
    """uint8 images (n, 32, 32, 3) and their classes."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any

    def thin(self, rows: int | None) -> Images:
        return (
            self
            if rows is None
            else Images(self.X[:rows], self.y[:rows], self.X_test[:rows], self.y_test[:rows])
        )


def load(which: str, rows: int | None = None) -> Images:
    with np.load(source(which)) as z:
        return Images(z["X_train"], z["y_train"], z["X_test"], z["y_test"]).thin(rows)


@lru_cache(1)
def visual_words(which: str, rows: int | None, n_words: int, n_patches: int, seed: int) -> Problem:
    """Counts of visual words, 4·n_words features, float32 CSR; from the cache if it has them."""
    marks = (source(which).stat().st_size, rows, n_words, n_patches, seed)
    name = hashlib.sha256(repr(marks).encode()).hexdigest()[:16]
    path = cache() / f"visual-words-{name}.npz"
    if not path.is_file():
        _compute(load(which, rows), n_words, n_patches, seed, path)
    with np.load(path) as z:
        parts = [
            sp.csr_matrix(
                (z[f"data{i}"].astype(np.float32), z[f"indices{i}"], z[f"indptr{i}"]), shape=z[f"shape{i}"]
            )
            for i in (0, 1)
        ]
        return Problem(parts[0], z["y"], parts[1], z["y_test"])


def _compute(images: Images, n_words: int, n_patches: int, seed: int, path: Path) -> None:
    vocabulary = Vocabulary.learn(images.X, n_words, n_patches, seed)
    arrays = {"y": images.y, "y_test": images.y_test}
    for i, X in enumerate((images.X, images.X_test)):
        counts = vocabulary.counts(X)
        # uint8 is enough: a quadrant has 169 patches.
        arrays |= {f"data{i}": counts.data.astype(np.uint8), f"indices{i}": counts.indices}
        arrays |= {f"indptr{i}": counts.indptr, f"shape{i}": np.array(counts.shape)}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.partial.npz")
    np.savez_compressed(partial, **arrays)
    partial.replace(path)


def source(which: str) -> Path:
    """Path of the image file: in the cache, where `prepare` writes it, or in the data folder."""
    prepared = cache() / FILES[which]
    return prepared if prepared.is_file() else file(FILES[which], CURE if which == "60,000 images" else "")


def cache() -> Path:
    """The cache folder: MARGINOUT_CACHE, or the user's."""
    home = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    return Path(os.environ.get("MARGINOUT_CACHE", Path(home) / "marginout"))
