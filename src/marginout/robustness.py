"""What is left of a fitted model as its features die: for any scikit-learn estimator.

The model is never fitted again, and X is never changed: copies of X, in which features are
set to zero, are scored.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from itertools import combinations
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.pipeline import Pipeline
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from marginout._core.validation import check_count, check_flag, check_option, make_generator
from marginout._deletion import RandomDeletion, WordDeletion, WorstDeletion
from marginout._groups import resolve_groups
from marginout._tables import are_texts, is_frame, like, names_of, numbers_in
from marginout.noise import Noise, resolve

Array = NDArray[np.float64]

__all__ = ["DeletionCurve", "GroupImpact", "corrupt", "deletion_curve", "group_impact"]

KINDS = "random", "worst", "groups"


def corrupt(X: Any, noise: Any = 0.5, random_state: Any = None) -> Any:
    """A corrupted copy of X.

    Parameters
    ----------
    X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
        Numbers. Sparse data stay sparse unless the noise is additive; a data frame stays one.
    noise : float or noise model, default=0.5
        A dropout rate (the survivors are scaled by 1/(1 − rate)), or a model from
        :mod:`marginout.noise`, such as ``Deletion(0.5)``, which leaves survivors as they are.
    random_state : int, RandomState, Generator or None, default=None

    Returns
    -------
    X : of the same kind, with float values

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


@dataclass(frozen=True, eq=False)
class DeletionCurve:
    """The scores of a fixed model as its features die. Prints as a table.

    Attributes
    ----------
    rates : array of shape (n_rates,)
        The share of the features that is deleted.
    scores : array of shape (n_rates, n_repeats)
    mean, std : arrays of shape (n_rates,)
        Over the repeats; `std` is the standard deviation of a repeat, 0 for a single one.
    kind : {"random", "worst", "groups"}
    rescale : bool
    estimator_name, score_name : str
    """

    rates: Array
    scores: Array
    kind: str
    rescale: bool
    estimator_name: str
    score_name: str

    @property
    def mean(self) -> Array:
        return np.asarray(self.scores.mean(axis=1))

    @property
    def std(self) -> Array:
        ddof = 1 if self.scores.shape[1] > 1 else 0
        return np.asarray(self.scores.std(axis=1, ddof=ddof))

    def to_frame(self) -> Any:
        """A pandas data frame with one row per rate: rate, mean, std, min, max."""
        try:
            import pandas
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install pandas.") from None
        return pandas.DataFrame(self._columns())

    def _columns(self) -> dict[str, Array]:
        low, high = self.scores.min(axis=1), self.scores.max(axis=1)
        return {"rate": self.rates, "mean": self.mean, "std": self.std, "min": low, "max": high}

    def __str__(self) -> str:
        rescaled = ", survivors rescaled" if self.rescale else ""
        repeats = self.scores.shape[1]
        head = f"{self.estimator_name}: {self.score_name}, {self.kind} deletion{rescaled}, {repeats} repeat"
        columns = self._columns()
        lines = [head + "s" * (repeats != 1), "".join(f"{name:>10}" for name in columns)]
        lines += ["".join(f"{value:10.4f}" for value in row) for row in zip(*columns.values(), strict=True)]
        return "\n".join(lines)

    __repr__ = __str__


def deletion_curve(
    estimator: Any,
    X: Any,
    y: Any,
    rates: ArrayLike = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    n_repeats: int = 5,
    *,
    kind: str = "random",
    groups: Any = None,
    rescale: bool = False,
    scoring: Any = None,
    step: str | int | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> DeletionCurve:
    """Score a fitted model, as it is, on data whose features are deleted.

    Parameters
    ----------
    estimator : fitted classifier, regressor or pipeline
        It is not fitted again.
    X : array-like, sparse matrix or data frame of shape (n_samples, n_features), or texts
        Test data; not changed.
    y : array-like of shape (n_samples,)
        True targets.
    rates : array-like of numbers in [0, 1]
        Shares of the features to delete, that is, to set to zero.
    n_repeats : int, default=5
        How often to draw the deletions. At higher rates the same features die, and some more.
    kind : {"random", "worst", "groups"}, default="random"
        "random" deletes every feature of every example with probability `rate`; "groups"
        deletes whole groups of features, each with that probability; "worst" deletes, for a linear model,
        the features of each example that hurt its score most: up to round(rate·m) of its m features
        that are not zero. The worst case needs no repeats.
    groups : array-like of shape (n_features,), or list or dict of lists of features
        For kind="groups": the group of every feature, or the features of every group, as
        numbers, or as names, or beginnings of names, where X is a data frame. Every feature is in
        exactly one.
    rescale : bool, default=False
        Whether survivors are multiplied by 1/(1 − rate), so that a score's mean stays.
    scoring : str, callable or None, default=None
        A scikit-learn scorer; None is the estimator's own `score`.
    step : str, int or None, default=None
        For a pipeline, the name or number of the step whose *input* loses features. None is the
        first step that is given numbers: the first of all, or that after the vectoriser where X are texts
        (in the worst case, the last step). Texts lose words, each in upper and lower case alike: name the
        vectoriser.
    random_state : int, RandomState, Generator or None, default=None
    n_jobs : int or None, default=None
        Repeats to run in parallel, as everywhere in scikit-learn. The result does not depend on it.

    Returns
    -------
    curve : DeletionCurve

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from marginout.robustness import deletion_curve
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LogisticRegression(max_iter=1000).fit(X[:900] / 16, y[:900])
    >>> curve = deletion_curve(model, X[900:] / 16, y[900:], rates=[0, 0.5], random_state=0)
    >>> bool(curve.mean[0] > curve.mean[1])
    True
    """
    rates = _check_rates(rates)
    n_repeats = check_count("n_repeats", n_repeats, 1)
    kind = check_option("kind", kind, KINDS)
    rescale = check_flag("rescale", rescale)
    check_is_fitted(estimator)
    if scoring is not None and not isinstance(scoring, str) and not callable(scoring):
        raise ValueError(f"scoring={scoring!r} must be one scorer: its name, a callable or None.")
    scorer = check_scoring(estimator, scoring)
    seed = int(make_generator(random_state).integers(2**63))
    check_consistent_length(X, y)
    if (groups is not None) != (kind == "groups"):
        wanted = "must be given" if groups is None else "must be None"
        raise ValueError(f"groups={groups!r} {wanted} for kind={kind!r}.")
    model, Z = _enter(estimator, X, step, kind)
    delete: Any
    if kind == "worst":
        delete, n_repeats = WorstDeletion(model, Z, y, rates), 1
    elif are_texts(Z):
        delete = WordDeletion(Z, kind, rescale)
    else:
        delete = RandomDeletion(
            Z, resolve_groups(groups, Z.shape[1], names_of(Z)).numbers if kind == "groups" else None
        )

    def one(repeat: int) -> list[float]:
        draws = delete.draw(np.random.default_rng((seed, repeat)))
        factors = 1.0 / (1.0 - np.where(rates < 1, rates, 0.0)) if rescale else np.ones(len(rates))
        return [float(scorer(model, draws(q, f), y)) for q, f in zip(rates, factors, strict=True)]

    scores = Parallel(n_jobs=n_jobs)(delayed(one)(repeat) for repeat in range(n_repeats))
    return DeletionCurve(
        rates,
        np.array(scores).T,
        kind,
        rescale,
        _estimator_name(estimator),
        _score_name(estimator, scoring),
    )


@dataclass(frozen=True, eq=False)
class GroupImpact:
    """What losing groups of features costs a fixed model. Prints as a table, the costliest first.

    Attributes
    ----------
    labels : list of length n_groups
    score : float
        Of the model on complete data.
    costs : array of shape (n_groups,)
        By how much the score falls without each group.
    pairs : array of shape (n_pairs, 2)
        Numbers of the groups that were also lost together.
    pair_costs : array of shape (n_pairs,)
    estimator_name, score_name : str
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
        """The groups, the costliest first."""
        return np.argsort(-self.costs, kind="stable")

    def worst_partners(self) -> dict[int, tuple[int, float]]:
        """For every group in a pair: the partner whose loss on top of it costs most, and the pair's cost."""
        worst: dict[int, tuple[int, float]] = {}
        for (i, j), cost in zip(self.pairs.tolist(), self.pair_costs.tolist(), strict=True):
            for one, other in ((i, j), (j, i)):
                if one not in worst or cost > worst[one][1]:
                    worst[one] = other, cost
        return worst

    def to_frame(self) -> Any:
        """A pandas data frame with one row per loss, groups and pairs: lost, with, cost, score."""
        try:
            import pandas
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install pandas.") from None
        first = [*self.order.tolist(), *self.pairs[:, 0].tolist()]
        second = [None] * len(self.costs) + self.pairs[:, 1].tolist()
        costs = np.concatenate([self.costs[self.order], self.pair_costs])
        return pandas.DataFrame(
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
    fill: float = 0.0,
    scoring: Any = None,
    step: str | int | None = None,
    n_jobs: int | None = None,
) -> GroupImpact:
    """What losing each group of features, and each pair of groups, costs a fitted model.

    Which sensor to buy twice, that is.

    Parameters
    ----------
    estimator : fitted classifier, regressor or pipeline
        It is not fitted again.
    X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
        Test data; not changed.
    y : array-like of shape (n_samples,)
        True targets.
    groups : array-like of shape (n_features,), or list or dict of lists of features
        The group of every feature, or the features of every group, as numbers, or as names, or
        beginnings of names, where X is a data frame. Every feature is in exactly one.
    max_pairs : int, default=100
        Most pairs to try: all of them if they are no more, else those of the groups that cost
        most alone. 0 for none.
    fill : float, default=0.0
        What lost features hold. NaN for models that take it, such as those with
        ``missing="deleted"``; X must be dense then.
    scoring : str, callable or None, default=None
        A scikit-learn scorer; None is the estimator's own `score`.
    step : str, int or None, default=None
        For a pipeline, the name or number of the step whose *input* loses features. None is the first.
    n_jobs : int or None, default=None
        Losses to score in parallel, as everywhere in scikit-learn.

    Returns
    -------
    impact : GroupImpact

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
    if not isinstance(fill, Real):
        raise ValueError(f"fill={fill!r} must be a number, or NaN.")
    check_is_fitted(estimator)
    scorer = check_scoring(estimator, scoring)
    check_consistent_length(X, y)
    model, Z = _enter(estimator, X, step, "groups")
    if are_texts(Z):
        raise ValueError("group_impact needs numbers, but X are texts: name a step that is given numbers.")
    values = numbers_in(Z)
    if sp.issparse(values) and fill != 0:
        raise ValueError(f"fill={fill!r} would fill the zeros of sparse data: give dense X, or fill=0.")
    numbers, labels = resolve_groups(groups, values.shape[1], names_of(Z))

    def score(lost: tuple[int, ...]) -> float:
        return float(scorer(model, like(Z, _emptied(values, np.isin(numbers, lost), fill)), y))

    def scores(losses: list[tuple[int, ...]]) -> Array:
        return np.array(Parallel(n_jobs=n_jobs)(delayed(score)(lost) for lost in losses), dtype=np.float64)

    whole = float(scorer(model, Z, y))
    costs = whole - scores([(g,) for g in range(len(labels))])
    several = int((1 + np.sqrt(1 + 8 * max_pairs)) / 2)  # so many groups have max_pairs pairs
    worst = np.sort(np.argsort(-costs, kind="stable")[:several])
    pairs = [(int(i), int(j)) for i, j in combinations(worst, 2)]
    return GroupImpact(
        labels,
        whole,
        costs,
        np.array(pairs, dtype=np.intp).reshape(-1, 2),
        whole - scores(list(pairs)),
        _estimator_name(estimator),
        _score_name(estimator, scoring),
    )


def _emptied(values: Any, lost: NDArray[np.bool_], fill: float) -> Any:
    """A copy of dense or CSR values whose lost columns hold `fill`."""
    values = values.copy() if fill == 0 else values.astype(np.result_type(values.dtype, np.float32))
    if sp.issparse(values):
        values.data[lost[values.indices]] = 0
        values.eliminate_zeros()
    else:
        values[:, lost] = fill
    return values


def _estimator_name(estimator: Any) -> str:
    return type(estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator).__name__


def _score_name(estimator: Any, scoring: Any) -> str:
    """What a score is called."""
    name = scoring if isinstance(scoring, str) else getattr(scoring, "__name__", None)
    default = "accuracy" if is_classifier(estimator) else "R²"
    return name or ("score" if scoring else default)


def _check_rates(rates: Any) -> Array:
    try:
        given = np.asarray(rates)
        array = np.atleast_1d(np.array(given if given.dtype.kind in "fiu" else np.nan, dtype=np.float64))
    except (TypeError, ValueError):
        array = np.array([np.nan])
    if array.ndim != 1 or not array.size or not np.all((array >= 0) & (array <= 1)):
        raise ValueError(f"rates={rates!r} must be numbers in [0, 1], at least one of them.")
    return array


def _enter(estimator: Any, X: Any, step: str | int | None, kind: str) -> tuple[Any, Any]:
    """The part of a pipeline that is given the deleted features, and what it is given for X."""
    if not isinstance(estimator, Pipeline):
        if step is not None:
            raise ValueError(f"step={step!r} needs a pipeline, but the estimator is {estimator!r}.")
        return estimator, X if are_texts(X) or is_frame(X) else numbers_in(X)
    names, last = [name for name, _ in estimator.steps], len(estimator.steps) - 1
    if step is None:
        at = last if kind == "worst" else 0
    elif isinstance(step, str) and step in names:
        at = names.index(step)
    elif isinstance(step, (int, np.integer)) and -last - 1 <= step <= last:
        at = int(step) % (last + 1)
    else:
        raise ValueError(f"step={step!r} must be the name or the number of a step: {', '.join(names)}.")
    if kind == "worst" and at != last:
        raise ValueError(f"step={step!r} must be None or the last step for kind='worst', which is linear.")
    Z = _transformed(estimator[:at], X)
    while step is None and at < last and are_texts(Z):
        at, Z = at + 1, _transformed(estimator[at : at + 1], Z)
    model = estimator.steps[-1][1] if at == last else estimator[at:]
    return model, Z if are_texts(Z) or is_frame(Z) else numbers_in(Z)


def _transformed(steps: Pipeline, X: Any) -> Any:
    """What the steps, perhaps none, make of X: of a copy, for they may work in place."""
    return steps.transform(deepcopy(X)) if steps.steps else X
