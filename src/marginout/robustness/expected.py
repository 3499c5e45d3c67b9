"""Tell how good a model still is where a share of a row is missing: :func:`expected_score`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_consistent_length, column_or_1d

from marginout._core.interfaces import Array
from marginout._core.validation import check_count, make_generator
from marginout.noise.grouping import resolve_groups
from marginout.robustness.containers import data_frame, holes_in, names_of, rows_of, with_holes
from marginout.robustness.curve import check_rates
from marginout.robustness.scoring import check_scorer, estimator_name, score_name

#: Shares are sums of 1/n_groups: two that differ by less are equal.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class ExpectedScore:
    """Expected scores by the share of a row that is missing. Prints as a table.

    Attributes
    ----------
    shares : array of shape (n_shares,)
        Shares that are missing, in increasing order.
    scores : array of shape (n_shares, n_folds)
        Scores on the held-out rows of every fold; NaN where none of them could be scored.
    counts : array of shape (n_shares, n_folds)
        Number of rows that each score is of.
    mean : array of shape (n_shares,)
        Mean over the folds, weighted by `counts`.
    std : array of shape (n_shares,)
        Standard deviation over the folds; 0 for a single fold.
    groups : array of int of shape (n_features,)
        Number of every feature's group.
    estimator_name : str
        Name of the model.
    score_name : str
        Name of the score.
    """

    shares: Array
    scores: Array
    counts: NDArray[np.intp]
    groups: NDArray[np.intp]
    estimator_name: str
    score_name: str

    @property
    def mean(self) -> Array:
        """Mean over the folds, weighted by `counts`."""
        return _weighted(self.scores, self.counts)

    @property
    def std(self) -> Array:
        """Standard deviation over the folds; 0 for a single fold."""
        scored = self.counts > 0
        folds = scored.sum(axis=1)
        scores = np.where(scored, self.scores, 0.0)
        off = np.where(scored, scores - (scores.sum(axis=1) / folds)[:, None], 0.0)
        return np.asarray(np.sqrt((off**2).sum(axis=1) / np.maximum(folds - 1, 1)))

    def at(self, shares: ArrayLike) -> Array:
        """Interpolate the mean linearly between the nearest two of `shares`.

        Parameters
        ----------
        shares : array-like
            Shares that are missing.

        Returns
        -------
        scores : array of the same shape
            Expected scores; outside of `shares` that of the nearest one.
        """
        return np.asarray(np.interp(np.asarray(shares), self.shares, self.mean))

    def rows(self, X: Any) -> tuple[Array, Array]:
        """Tell, for every row, which share is missing and the expected score at this share.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Rows in which NaN, and what pandas calls missing, is missing.

        Returns
        -------
        shares : array of shape (n_samples,)
            Mean over all groups of features of the share of each that is missing.
        scores : array of shape (n_samples,)
            Expected scores.
        """
        holes = holes_in(X)
        if holes.shape[1] != len(self.groups):
            raise ValueError(f"X has {holes.shape[1]} features, but was fitted with {len(self.groups)}.")
        shares = _lost(holes, self.groups).mean(axis=1)
        return shares, self.at(shares)

    def to_frame(self) -> Any:
        """Make a pandas data frame with one row per share: share, mean, std, rows."""
        return data_frame(self._columns())

    def _columns(self) -> dict[str, Array]:
        return {"share": self.shares, "mean": self.mean, "std": self.std, "rows": self.counts.sum(axis=1)}

    def __str__(self) -> str:
        columns = self._columns()
        head = f"{self.estimator_name}: expected {self.score_name} by the share of a row that is missing"
        lines = [head, "".join(f"{name:>10}" for name in columns)]
        for *values, rows in zip(*columns.values(), strict=True):
            lines.append("".join(f"{value:10.4f}" for value in values) + f"{rows:10d}")
        return "\n".join(lines)

    __repr__ = __str__


def expected_score(
    estimator: Any,
    X: Any,
    y: Any,
    shares: ArrayLike = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    n_repeats: int = 5,
    *,
    groups: Any = None,
    cv: Any = 5,
    scoring: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> ExpectedScore:
    """Measure the score that a model is expected to reach where a share of a row is missing.

    Clones of the estimator are fitted on training folds of X as it is. Values of the held-out rows are then
    made NaN, as many as belong to each share, and the rows are scored. The result tells of new rows how much
    of them is missing, and how far a prediction for such rows can be trusted.

    Parameters
    ----------
    estimator : classifier, regressor or pipeline
        It takes NaN, or begins with an imputer. It is cloned, and may be fitted or not.
    X : array-like or data frame of shape (n_samples, n_features)
        Training data. They may miss values: rows that miss more than a share do not count there.
    y : array-like of shape (n_samples,)
        Targets.
    shares : array-like of numbers in [0, 1]
        Shares to measure, each rounded to a whole number of groups.
    n_repeats : int, default=5
        Number of draws of what is missing.
    groups : array-like of shape (n_features,), or list or dict of lists of features, default=None
        The group of every feature, or the features of every group. Whole groups are lost, each as likely as
        any other. None: every feature is a group.
    cv : int, splitter or iterable, default=5
        The folds, as in scikit-learn.
    scoring : str, callable or None, default=None
        A scikit-learn scorer; None is the estimator's own `score`.
    random_state : int, RandomState, Generator or None, default=None
        Draws what is missing.
    n_jobs : int or None, default=None
        Number of folds that run in parallel, as in scikit-learn. The result does not depend on it.

    Returns
    -------
    expected : ExpectedScore
        The scores; its method `rows` tells the share and the score of new rows.

    Notes
    -----
    The groups that are lost are drawn at random. Where the same few features are always missing, the scores
    may be higher or lower than these: `group_impact` measures that.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from marginout import DropoutLogisticRegression
    >>> from marginout.robustness import expected_score
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = DropoutLogisticRegression(noise=0.3, missing="deleted")
    >>> expected = expected_score(model, scale(X), y, [0, 0.5, 0.9], random_state=0)
    >>> row = np.where(np.arange(30) < 24, np.nan, scale(X)[:1])
    >>> share, score = expected.rows(row)
    >>> float(share[0]), bool(expected.mean[2] < score[0] < expected.mean[1])
    (0.8, True)
    """
    targets = check_rates("shares", shares)
    n_repeats = check_count("n_repeats", n_repeats, 1)
    scorer = check_scorer(estimator, scoring, fitted=False)
    seed = int(make_generator(random_state).integers(2**63))
    if sp.issparse(X):
        raise TypeError("X is sparse, and what it does not store is 0, not missing: give X.toarray().")
    check_consistent_length(X, y)
    y = column_or_1d(y)
    holes = holes_in(X)
    d = holes.shape[1]
    numbers = np.arange(d) if groups is None else resolve_groups(groups, d, names_of(X)).numbers
    size = int(numbers.max()) + 1
    targets = np.unique(np.rint(targets * size)) / size
    folds = list(check_cv(cv, y, classifier=is_classifier(estimator)).split(X, y))

    def one(fold: int) -> tuple[Array, Array, NDArray[np.intp]]:
        train, test = folds[fold]
        model = clone(estimator).fit(rows_of(X, train), y[train])
        return _fold_scores(
            lambda Z, rows: float(scorer(model, Z, y[test][rows])),
            rows_of(X, test),
            holes[test],
            numbers,
            targets,
            [np.random.default_rng((seed, fold, repeat)) for repeat in range(n_repeats)],
        )

    found = Parallel(n_jobs=n_jobs)(delayed(one)(fold) for fold in range(len(folds)))
    reached, scores, counts = (np.array(part).T for part in zip(*found, strict=True))
    some = counts.sum(axis=1) > 0
    if not some.any():
        raise ValueError(f"shares={shares!r}: every row of X misses more than this: add larger shares.")
    reached, scores, counts = reached[some], scores[some], counts[some]
    return ExpectedScore(
        _weighted(reached, counts),
        scores,
        counts,
        numbers,
        estimator_name(estimator),
        score_name(estimator, scoring),
    )


def _fold_scores(
    score: Any,
    X: Any,
    holes: NDArray[np.bool_],
    numbers: NDArray[np.intp],
    targets: Array,
    generators: list[np.random.Generator],
) -> tuple[Array, Array, NDArray[np.intp]]:
    """For every target: the share that is missing, the score, and the number of rows; means of the draws."""
    lost = _lost(holes, numbers)
    own = lost.mean(axis=1)
    orders = [rng.random(lost.shape).argsort(axis=1) for rng in generators]
    reached, scores = np.full((2, len(targets)), np.nan)
    counts = np.zeros(len(targets), dtype=np.intp)
    for i, target in enumerate(targets):
        rows = np.flatnonzero(own <= target + ROUNDING)
        if len(rows) < 2:  # R² of one row is not defined
            continue
        found = []
        for order in orders:
            dead = _drawn(lost[rows], order[rows], target)[:, numbers] | holes[rows]
            share = float(_lost(dead, numbers).mean())
            found.append((share, score(with_holes(rows_of(X, rows), dead), rows)))
        reached[i], scores[i] = np.mean(found, axis=0)
        counts[i] = len(rows) if np.isfinite(scores[i]) else 0  # some scorers need all classes
    return reached, scores, counts


def _weighted(values: Array, counts: NDArray[np.intp]) -> Array:
    """Mean over the folds; what counts nothing may be NaN."""
    return np.asarray(np.where(counts > 0, values * counts, 0.0).sum(axis=1) / counts.sum(axis=1))


def _lost(holes: NDArray[np.bool_], numbers: NDArray[np.intp]) -> Array:
    """Share of every group that is missing, (n, n_groups)."""
    members = np.zeros((len(numbers), int(numbers.max()) + 1))
    members[np.arange(len(numbers)), numbers] = 1.0
    return np.asarray(holes @ (members / members.sum(axis=0)))


def _drawn(lost: Array, order: NDArray[np.intp], target: float) -> NDArray[np.bool_]:
    """Groups that are lost, in their order, until the target share of a row is missing, (n, n_groups)."""
    gains = np.take_along_axis(1.0 - lost, order, axis=1) / lost.shape[1]
    before = np.cumsum(gains, axis=1) - gains + lost.mean(axis=1, keepdims=True)
    dead = np.empty(lost.shape, dtype=bool)
    np.put_along_axis(dead, order, before < target - ROUNDING, axis=1)
    return dead
