"""Noise that a model can see: NaN where a feature, or a group of features, is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from marginout.noise._base import Array, Moments, Noise, at, set_parameter
from marginout.noise._features import Deletion
from marginout.noise._groups import GroupNoise


class Holes(Noise):
    """What both noises share: NaN has no mean and no variance."""

    writes_nan = True

    def corrupt(self, X: Any, rng: Any = None) -> Any:
        if sp.issparse(X):
            raise TypeError(
                f"{self!r} writes NaN, but X is sparse: give X.toarray() if it fits into memory, or choose "
                "Deletion or GroupDeletion."
            )
        return super().corrupt(X, rng)

    def moments(self, n_features: int) -> Moments:
        raise self._refusal()

    def log_mgf(self, t: Any, x: Any) -> Array:
        raise self._refusal()

    def survivors(self, n_features: int) -> tuple[Array, Array]:
        raise self._refusal()

    def _form(self) -> tuple[Any, Any, int]:
        raise self._refusal()

    def _refusal(self) -> ValueError:
        return ValueError(
            f"noise={self!r} writes NaN, which has no mean: it is for ExplicitCorruptionClassifier, "
            "ExplicitCorruptionRegressor and corrupt. Choose Dropout or GroupDropout, or for data that hold "
            "NaN missing='conditional'."
        )


@dataclass(frozen=True, eq=False)
class Missing(Holes):
    r"""Known loss of features: x̃ = NaN with probability `rate`, x otherwise.

    For :class:`~marginout.ExplicitCorruptionClassifier` and its regressor around any estimator that takes
    NaN, or a pipeline that begins with an imputer.

    Parameters
    ----------
    rate : float or array of shape (n_features,), in [0, 1)
        Probability that a feature is missing. 0 protects a feature.

    Examples
    --------
    >>> import numpy as np
    >>> from marginout.noise import Missing
    >>> Missing(0.5).corrupt(np.ones((2, 3)), rng=0)
    array([[ 1., nan, nan],
           [nan,  1.,  1.]])
    """

    rate: Any = 0.5

    def __post_init__(self) -> None:
        set_parameter(self, "rate", 1.0, "a number in [0, 1)")

    def _sample(self, x: Any, columns: Any, rng: np.random.Generator) -> Any:
        return np.where(rng.random(x.shape) >= at(self.rate, columns), x, np.nan)


@dataclass(frozen=True, eq=False)
class GroupMissing(Holes, GroupNoise):
    r"""Known loss of whole groups: x̃_g = NaN with probability q_g, x_g otherwise.

    Parameters
    ----------
    groups : array-like of shape (n_features,), list of lists of features, or dict of lists of features
        As in :class:`GroupDropout`.
    rate : float or array of shape (n_groups,), in [0, 1)
        As in :class:`GroupDropout`.

    Examples
    --------
    >>> import numpy as np
    >>> from marginout.noise import GroupMissing
    >>> GroupMissing([[0, 1], [2]], rate=0.5).corrupt(np.ones((2, 3)), rng=1)
    array([[ 1.,  1.,  1.],
           [nan, nan,  1.]])
    """

    single: ClassVar[type[Deletion]] = Deletion

    def _corrupted(self, X: Any, rng: np.random.Generator) -> Any:
        alive = rng.random((X.shape[0], self.numbers(X.shape[1]).max() + 1)) >= self.rate
        return np.where(alive[:, self.numbers(X.shape[1])], X, np.nan)
