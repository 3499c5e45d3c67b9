"""Draw a corrupted copy of X."""

from __future__ import annotations

from typing import Any

from marginout._core.validation import make_generator
from marginout.noise import Noise, resolve
from marginout.robustness.containers import like, names_of, numbers_in


def corrupt(X: Any, noise: Any = 0.5, random_state: Any = None) -> Any:
    """Draw a corrupted copy of X.

    Parameters
    ----------
    X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
        Numbers. Sparse data stay sparse unless the noise is additive; a data frame stays one.
    noise : float or noise model, default=0.5
        A dropout rate (the survivors are scaled by 1/(1 − rate)), or a model from
        :mod:`marginout.noise`, such as ``Deletion(0.5)``, which leaves survivors as they are.
    random_state : int, RandomState, Generator or None, default=None
        Draws the noise.

    Returns
    -------
    X : array, sparse matrix or data frame
        Of the same kind, with float values.

    Examples
    --------
    >>> import numpy as np
    >>> from marginout.noise import Deletion
    >>> from marginout.robustness import corrupt
    >>> corrupt(np.ones((1, 5)), Deletion(0.5), random_state=0).shape
    (1, 5)
    """
    model: Noise = resolve(noise).bind(names_of(X))
    values = numbers_in(X)
    if model.positive_only and values.size and values.min() < 0:
        raise ValueError(f"{model!r} noise needs X >= 0, but X holds {values.min():g}.")
    return like(X, model.corrupt(values, make_generator(random_state)))
