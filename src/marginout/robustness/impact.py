"""Measure what the loss of each group of features costs a fixed model: :func:`group_impact`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_consistent_length

from marginout._core.interfaces import Array
from marginout._core.validation import check_count
from marginout.noise.grouping import resolve_groups
from marginout.robustness.containers import are_texts, data_frame, like, names_of, numbers_in
from marginout.robustness.deletions import check_fill, fill_of
from marginout.robustness.scoring import check_scorer, enter, estimator_name, score_name


@dataclass(frozen=True, eq=False)
class GroupImpact:
    """Costs of the loss of groups of features, for a fixed model. Prints as a table, the costliest first.

    Attributes
    ----------
    labels : list of length n_groups
        Names of the groups.
    score : float
        Score of the model on complete data.
    costs : array of shape (n_groups,)
        Fall of the score without each group.
    pairs : array of shape (n_pairs, 2)
        Numbers of the groups that were lost together.
    pair_costs : array of shape (n_pairs,)
        Fall of the score without both groups of a pair.
    estimator_name : str
        Name of the model.
    score_name : str
        Name of the score.
    """

    labels: list[Any]
    score: float
    costs: Array
    pairs: NDArray[np.intp]
    pair_costs: Array
    estimator_name: str
    score_name: str

    @property
    def order(self) -> NDArray[np.intp]:
        """Numbers of the groups, the costliest first."""
        return np.argsort(-self.costs, kind="stable")

    def worst_partners(self) -> dict[int, tuple[int, float]]:
        """Map every group of a pair to the partner with which its loss costs most, and to that cost."""
        worst: dict[int, tuple[int, float]] = {}
        for (i, j), cost in zip(self.pairs.tolist(), self.pair_costs.tolist(), strict=True):
            for one, other in ((i, j), (j, i)):
                if one not in worst or cost > worst[one][1]:
                    worst[one] = other, cost
        return worst

    def to_frame(self) -> Any:
        """Make a pandas data frame with one row per group and per pair: lost, with, cost, score."""
        first = [*self.order.tolist(), *self.pairs[:, 0].tolist()]
        second = [None] * len(self.costs) + self.pairs[:, 1].tolist()
        costs = np.concatenate([self.costs[self.order], self.pair_costs])
        return data_frame(
            {
                "lost": [self.labels[g] for g in first],
                "with": [None if g is None else self.labels[g] for g in second],
                "cost": costs,
                "score": self.score - costs,
            }
        )

    def __str__(self) -> str:
        head = f"{self.estimator_name}: {self.score_name} {self.score:.4f}; what is lost without a group"
        worst = self.worst_partners()
        width = max(5, *(len(str(label)) for label in self.labels)) + 2
        lines = [head, f"{'group':{width}}{'cost':>9}{'with its worst partner':>26}"]
        for g in self.order.tolist():
            partner = f"{worst[g][1]:>12.4f}  {self.labels[worst[g][0]]}" if g in worst else ""
            lines.append(f"{self.labels[g]!s:{width}}{self.costs[g]:9.4f}{partner}")
        return "\n".join(lines)

    __repr__ = __str__


def group_impact(
    estimator: Any,
    X: Any,
    y: Any,
    groups: Any,
    *,
    max_pairs: int = 100,
    fill: float | str = 0.0,
    scoring: Any = None,
    step: str | int | None = None,
    n_jobs: int | None = None,
) -> GroupImpact:
    """Measure how much the score of a fitted model falls without each group of features, and each pair.

    The costliest group shows, for instance, which sensor to buy twice.

    Parameters
    ----------
    estimator : fitted classifier, regressor or pipeline
        It is not fitted again.
    X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
        Test data; not changed.
    y : array-like of shape (n_samples,)
        True targets.
    groups : array-like of shape (n_features,), or list or dict of lists of features
        The group of every feature, or the features of every group. Features are numbers, or, where
        X is a data frame, names or beginnings of names. Every feature is in exactly one group.
    max_pairs : int, default=100
        Largest number of pairs to try. If there are more, the pairs of the groups that cost most
        alone are tried. 0: no pairs.
    fill : float or "mean", default=0.0
        Value of lost features. NaN is for models that take it, such as those with
        ``missing="conditional"``; "mean" is the mean of the feature in X. Anything but 0 needs dense X.
    scoring : str, callable or None, default=None
        A scikit-learn scorer; None is the estimator's own `score`.
    step : str, int or None, default=None
        For a pipeline, the name or number of the step whose *input* loses features. None is the first.
    n_jobs : int or None, default=None
        Number of losses that are scored in parallel, as in scikit-learn.

    Returns
    -------
    impact : GroupImpact
        The costs.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from marginout import DropoutSVC
    >>> from marginout.robustness import group_impact
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> impact = group_impact(DropoutSVC(C=0.1).fit(scale(X), y), scale(X), y, np.arange(30) % 10)
    >>> impact.costs.shape, impact.pairs.shape
    ((10,), (45, 2))
    """
    max_pairs = check_count("max_pairs", max_pairs, 0)
    fill = check_fill(fill)
    scorer = check_scorer(estimator, scoring)
    check_consistent_length(X, y)
    model, Z = enter(estimator, X, step)
    if are_texts(Z):
        raise ValueError("group_impact needs numbers, but X are texts: name a step that is given numbers.")
    values = numbers_in(Z)
    filling = fill_of(fill, values)
    numbers, labels = resolve_groups(groups, values.shape[1], names_of(Z))

    def score(lost: tuple[int, ...]) -> float:
        return float(scorer(model, like(Z, _emptied(values, np.isin(numbers, lost), filling)), y))

    def scores(losses: list[tuple[int, ...]]) -> Array:
        return np.array(Parallel(n_jobs=n_jobs)(delayed(score)(lost) for lost in losses), dtype=np.float64)

    whole = float(scorer(model, Z, y))
    costs = whole - scores([(g,) for g in range(len(labels))])
    several = int((1 + np.sqrt(1 + 8 * max_pairs)) / 2)  # n (n − 1)/2 = max_pairs
    worst = np.sort(np.argsort(-costs, kind="stable")[:several])
    pairs = [(int(i), int(j)) for i, j in combinations(worst, 2)]
    return GroupImpact(
        labels,
        whole,
        costs,
        np.array(pairs, dtype=np.intp).reshape(-1, 2),
        whole - scores(list(pairs)),
        estimator_name(estimator),
        score_name(estimator, scoring),
    )


def _emptied(values: Any, lost: NDArray[np.bool_], filling: Any) -> Any:
    """A copy of dense or CSR values whose lost columns hold the filling."""
    values = values.astype(filling.dtype)
    if sp.issparse(values):
        values.data[lost[values.indices]] = 0
        values.eliminate_zeros()
    else:
        values[:, lost] = filling[lost] if np.ndim(filling) else filling
    return values
