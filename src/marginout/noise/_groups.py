"""Noise that deletes whole groups of features: the columns of a sensor, the one-hot codes of a field."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marginout.noise._base import Array, Moments, Noise, set_parameter
from marginout.noise._features import Deletion, Dropout
from marginout.noise.grouping import count_groups, freeze_groups, resolve_groups


@dataclass(frozen=True, eq=False)
class GroupNoise(Noise):
    """Base of the noises that delete the features of a group together, and groups independently."""

    groups: Any
    rate: Any = 0.5

    #: The noise of a single feature.
    single: ClassVar[type[Dropout] | type[Deletion]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", freeze_groups(self.groups))
        set_parameter(self, "rate", 1.0, "a number in [0, 1)", each="group")
        count = count_groups(self.groups)
        if np.ndim(self.rate) == 1 and len(self.rate) != count:
            raise ValueError(
                f"{type(self).__name__}(rate=...) has {len(self.rate)} values but there are {count} groups: "
                "give one number, or one per group (those of labels in sorted order)."
            )

    def bind(self, names: Iterable[Any] | None) -> Noise:
        if isinstance(self.groups, np.ndarray) or names is None:
            return self
        names = list(names)
        return replace(self, groups=resolve_groups(self.groups, len(names), names).numbers)

    def numbers(self, n_features: int) -> NDArray[np.intp]:
        """The number of every feature's group."""
        known: NDArray[np.intp] | None = vars(self).get("_numbers")
        if known is None or len(known) != n_features:
            known = resolve_groups(self.groups, n_features).numbers
            object.__setattr__(self, "_numbers", known)  # labels take longer to resolve than a pass over X
        return known

    def check_lengths(self, n_features: int) -> None:
        self.numbers(n_features)

    def marginal(self, n_features: int) -> Dropout | Deletion:
        """The noise of every single feature."""
        return self.single(self._spread(self.rate, n_features))

    def moments(self, n_features: int) -> Moments:
        numbers = self.numbers(n_features)
        moments = self.marginal(n_features).moments(n_features)
        # Groups of one, and protected ones, are no groups: the variance is diagonal then.
        sizes = np.bincount(numbers)
        alone = np.all((sizes[numbers] == 1) | (moments.coefficient == 0))
        return moments if alone else moments._replace(groups=numbers)

    def log_mgf(self, t: Any, x: Any) -> Array:
        return self.marginal(np.shape(x)[-1]).log_mgf(t, x)

    def tilted_mean(self, t: Any, x: Any) -> Array:
        return self.marginal(np.shape(x)[-1]).tilted_mean(t, x)

    def survivors(self, n_features: int) -> tuple[Array, Array]:
        return self.marginal(n_features).survivors(n_features)

    def _shares(self, n_features: int) -> Array:
        # Every group has the same share, and within it every feature.
        numbers = self.numbers(n_features)
        return np.asarray(self.marginal(n_features)._shares(n_features) / np.bincount(numbers)[numbers])

    def _corrupted(self, X: Any, rng: np.random.Generator) -> Any:
        numbers, (_, factor) = self.numbers(X.shape[1]), self.survivors(X.shape[1])
        alive = rng.random((X.shape[0], count_groups(self.groups))) >= self.rate
        if not sp.issparse(X):
            return np.where(alive[:, numbers], X, 0.0) * factor
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        return np.where(alive[rows, numbers[X.indices]], X.data, 0.0) * factor[X.indices]

    def _form(self) -> tuple[Any, Any, int]:
        return self.single(self.rate)._form()

    def _spread(self, values: Any, n_features: int) -> Array:
        """Spread one value for all groups, or one per group, over the features."""
        numbers = self.numbers(n_features)
        return np.asarray((np.ones(numbers.max() + 1) * values)[numbers])

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        groups = self.groups.tolist() if isinstance(self.groups, np.ndarray) else self.groups
        return type(self).__name__, repr(groups), np.asarray(self.rate).tobytes()


class GroupDropout(GroupNoise):
    r"""Unbiased deletion of whole groups: x̃_g = 0 with probability q_g, x_g/(1 − q_g) otherwise.

    .. math:: E\,w\cdot\tilde x = w\cdot x, \qquad
              \mathrm{Var}\,w\cdot\tilde x = \sum_g \frac{q_g}{1-q_g}\,(w_g\cdot x_g)^2.

    Parameters
    ----------
    groups : array-like of shape (n_features,), list of lists of features, or dict of lists of features
        The label of every feature's group; or the features of every group, each of them a
        number, a name, or the beginning of several names. Names are those of the data frame to which
        a model is fitted; see :func:`feature_groups` for other sources of names. Every feature is in
        exactly one group; a group may have a single feature.
    rate : float or array of shape (n_groups,), in [0, 1)
        Probability that a group is deleted, in the order of the list or dict, or of the sorted
        labels. 0 protects a group.

    Examples
    --------
    >>> import numpy as np
    >>> from marginout.noise import GroupDropout
    >>> GroupDropout([[0, 1], [2]], rate=0.5).corrupt(np.ones((2, 3)), rng=1)
    array([[2., 2., 2.],
           [0., 0., 2.]])
    """

    single = Dropout


class GroupDeletion(GroupNoise):
    r"""The raw loss of whole groups: x̃_g = 0 with probability q_g, x_g otherwise.

    .. math:: E\,w\cdot\tilde x = \sum_g (1-q_g)\,w_g\cdot x_g, \qquad
              \mathrm{Var}\,w\cdot\tilde x = \sum_g q_g(1-q_g)\,(w_g\cdot x_g)^2.

    It trains for data whose groups are missing at prediction time and are left at zero.

    Parameters
    ----------
    groups : array-like of shape (n_features,), list of lists of features, or dict of lists of features
        As in :class:`GroupDropout`.
    rate : float or array of shape (n_groups,), in [0, 1)
        As in :class:`GroupDropout`.
    """

    single = Deletion


def feature_groups(names: Any, groups: Any) -> NDArray[Any]:
    """Find the label of every feature's group, from lists of names or beginnings of names.

    Parameters
    ----------
    names : array-like of str, data frame, or fitted transformer with `get_feature_names_out`
        For instance a ColumnTransformer, whose output reaches the model without names.
    groups : list of lists of features, or dict of lists of features
        As in :class:`GroupDropout`.

    Returns
    -------
    labels : array of shape (n_features,)
        Keys of the dict, or positions in the list.

    Examples
    --------
    >>> from marginout.noise import feature_groups
    >>> feature_groups(["age", "job_cook", "job_smith"], {"age": "age", "job": "job_"}).tolist()
    ['age', 'job', 'job']
    """
    if hasattr(names, "get_feature_names_out"):
        names = names.get_feature_names_out()
    names = list(getattr(names, "columns", names))
    numbers, labels = resolve_groups(groups, len(names), names)
    return np.asarray(labels)[numbers]
