"""Images as counts of visual words (Coates, Lee & Ng 2011): the CIFAR-10 features of the paper and of MCF.

Random patches are normalised in contrast, whitened (ZCA) and clustered by k-means. Every patch of an
image, stride 1, is assigned to the nearest prototype. Assignments are counted in the four quadrants of the
image. This gives 4 × n_words counts, of which at most 26² = 676 are not zero for a 32 × 32 image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

PATCH = 7
#: Squared grey levels, added to the variance of a patch; and added to the eigenvalues (Coates et al.).
CONTRAST, WHITENING = 10.0, 0.1
#: Images assigned at a time: 16 × 676 patches by 2,048 prototypes are 89 MB in float32.
BLOCK = 16


@dataclass(frozen=True)
class Vocabulary:
    """Whitening and prototypes, both learnt from the training images."""

    mean: Any
    whiten: Any
    words: Any

    @classmethod
    def learn(cls, images: Any, n_words: int, n_patches: int, seed: int) -> Vocabulary:
        """Learn from random patches of uint8 images (n, 32, 32, 3)."""
        from sklearn.cluster import MiniBatchKMeans

        rng = np.random.default_rng(seed)
        size = images.shape[1] - PATCH + 1
        which = rng.integers(len(images), size=n_patches)
        tops, lefts = rng.integers(size, size=(2, n_patches))
        windows = np.lib.stride_tricks.sliding_window_view(images, (PATCH, PATCH), axis=(1, 2))
        patches = normalised(windows[which, tops, lefts].reshape(n_patches, -1))
        mean = patches.mean(axis=0)
        values, vectors = np.linalg.eigh(np.cov(patches - mean, rowvar=False))
        whiten = ((vectors / np.sqrt(values + WHITENING)) @ vectors.T).astype(np.float32)
        kmeans = MiniBatchKMeans(n_words, batch_size=4096, n_init=1, max_iter=20, random_state=seed)
        return cls(mean, whiten, kmeans.fit((patches - mean) @ whiten).cluster_centers_.astype(np.float32))

    def counts(self, images: Any) -> Any:
        """Counts of visual words of all images, CSR float32."""
        blocks = [self._block(images[start : start + BLOCK]) for start in range(0, len(images), BLOCK)]
        return sp.vstack(blocks, format="csr")

    def _block(self, images: Any) -> Any:
        n, size, n_words = len(images), images.shape[1] - PATCH + 1, len(self.words)
        windows = np.lib.stride_tricks.sliding_window_view(images, (PATCH, PATCH), axis=(1, 2))
        patches = (normalised(windows.reshape(n * size * size, -1)) - self.mean) @ self.whiten
        # The nearest prototype c minimises ‖p − c‖² − ‖p‖², as ‖p‖² is the same for all prototypes.
        nearest = (patches @ self.words.T - 0.5 * (self.words**2).sum(axis=1)).argmax(axis=1)
        half = (np.arange(size) >= size // 2).astype(np.intp)
        quadrant = np.tile((2 * half[:, None] + half[None, :]).ravel(), n)
        rows = np.repeat(np.arange(n), size * size)
        ones = np.ones(len(rows), dtype=np.float32)
        return sp.coo_matrix((ones, (rows, quadrant * n_words + nearest)), shape=(n, 4 * n_words)).tocsr()


def normalised(patches: Any) -> Any:
    """(patch − its mean) / its standard deviation: removes brightness and contrast."""
    patches = patches.astype(np.float32)
    patches -= patches.mean(axis=1, keepdims=True)
    patches /= np.sqrt(patches.var(axis=1, keepdims=True) + np.float32(CONTRAST))
    return patches
