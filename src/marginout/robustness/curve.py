"""Score a fixed model as more and more of its features die: :func:`deletion_curve`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_consistent_length

from marginout._core.interfaces import Array
from marginout._core.validation import check_count, check_flag, check_option, make_generator
from marginout.noise.grouping import resolve_groups
from marginout.robustness.containers import are_texts, data_frame, names_of
from marginout.robustness.deletions import RandomDeletion, WordDeletion, WorstDeletion, check_fill
from marginout.robustness.scoring import check_scorer, enter, estimator_name, score_name

KINDS = "random", "worst", "groups"


@dataclass(frozen=True, eq=False)
class DeletionCurve:
    """Scores of a fixed model at several deletion rates. Prints as a table.

    Attributes
    ----------
    rates : array of shape (n_rates,)
        Shares of the features that are deleted.
    scores : array of shape (n_rates, n_repeats)
        Score of every repeat.
    mean : array of shape (n_rates,)
        Mean over the repeats.
    std : array of shape (n_rates,)
        Standard deviation over the repeats; 0 for a single repeat.
    kind : {"random", "worst", "groups"}
        Kind of deletion.
    rescale : bool
        Whether survivors are multiplied by 1/(1 − rate).
    estimator_name : str
        Name of the model.
    score_name : str
        Name of the score.
    """

    rates: Array
    scores: Array
    kind: str
    rescale: bool
    estimator_name: str
    score_name: str

    @property
    def mean(self) -> Array:
        """Mean over the repeats."""
        return np.asarray(self.scores.mean(axis=1))

    @property
    def std(self) -> Array:
        """Standard deviation over the repeats; 0 for a single repeat."""
        ddof = 1 if self.scores.shape[1] > 1 else 0
        return np.asarray(self.scores.std(axis=1, ddof=ddof))

    def to_frame(self) -> Any:
        """Make a pandas data frame with one row per rate: rate, mean, std, min, max."""
        return data_frame(self._columns())

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
    fill: float | str = 0.0,
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
        Shares of the features to delete, that is, to set to `fill`.
    n_repeats : int, default=5
        Number of draws. Features that die at one rate die at every higher rate of the same draw.
    kind : {"random", "worst", "groups"}, default="random"
        "random" deletes every feature of every example with probability `rate`. "groups" deletes
        whole groups of features, each with this probability. "worst" needs a linear model: of the m
        features of an example that are not zero, it deletes up to round(rate·m), those that hurt the
        example's score most. The worst case is not random: it is scored once.
    groups : array-like of shape (n_features,), or list or dict of lists of features
        For kind="groups": the group of every feature, or the features of every group. Features are
        numbers, or, where X is a data frame, names or beginnings of names. Every feature is in
        exactly one group.
    rescale : bool, default=False
        Whether survivors are multiplied by 1/(1 − rate), which keeps the mean of a score.
    fill : float or "mean", default=0.0
        Value of deleted features. NaN tells the model which they are: it is for models that take it, such as
        those with ``missing="conditional"``, and pipelines with an imputer. "mean" is the mean of the feature
        in X. Anything but 0 needs dense X and ``rescale=False``, and is not for kind="worst".
    scoring : str, callable or None, default=None
        A scikit-learn scorer; None is the estimator's own `score`.
    step : str, int or None, default=None
        For a pipeline, the name or number of the step whose *input* loses features. None is the first
        step that is given numbers: the first step, or the step after the vectoriser where X are texts.
        For kind="worst", None is the last step. To delete words of texts, in upper and lower case alike,
        name the vectoriser.
    random_state : int, RandomState, Generator or None, default=None
        Draws the deletions.
    n_jobs : int or None, default=None
        Number of repeats that run in parallel, as in scikit-learn. The result does not depend on it.

    Returns
    -------
    curve : DeletionCurve
        The scores.

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
    rates = check_rates("rates", rates)
    n_repeats = check_count("n_repeats", n_repeats, 1)
    kind = check_option("kind", kind, KINDS)
    rescale = check_flag("rescale", rescale)
    fill = check_fill(fill)
    scorer = check_scorer(estimator, scoring)
    seed = int(make_generator(random_state).integers(2**63))
    check_consistent_length(X, y)
    if (groups is not None) != (kind == "groups"):
        wanted = "must be given" if groups is None else "must be None"
        raise ValueError(f"groups={groups!r} {wanted} for kind={kind!r}.")
    if fill != 0 and (rescale or kind == "worst"):
        what = "rescale=True" if rescale else "kind='worst'"
        raise ValueError(f"{what} sets deleted features to 0: fill={fill!r} must be 0.")
    model, Z = enter(estimator, X, step, last=kind == "worst")
    delete: Any
    if kind == "worst":
        delete, n_repeats = WorstDeletion(model, Z, y, rates), 1
    elif are_texts(Z):
        if fill != 0:
            raise ValueError(
                f"fill={fill!r} needs numbers, but X are texts: name a step that is given numbers."
            )
        delete = WordDeletion(Z, kind, rescale)
    else:
        numbers = resolve_groups(groups, Z.shape[1], names_of(Z)).numbers if kind == "groups" else None
        delete = RandomDeletion(Z, numbers, fill)

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
        estimator_name(estimator),
        score_name(estimator, scoring),
    )


def check_rates(name: str, rates: Any) -> Array:
    """Numbers in [0, 1], at least one."""
    try:
        given = np.asarray(rates)
        array = np.atleast_1d(np.array(given if given.dtype.kind in "fiu" else np.nan, dtype=np.float64))
    except (TypeError, ValueError):
        array = np.array([np.nan])
    if array.ndim != 1 or not array.size or not np.all((array >= 0) & (array <= 1)):
        raise ValueError(f"{name}={rates!r} must be numbers in [0, 1], at least one of them.")
    return array
