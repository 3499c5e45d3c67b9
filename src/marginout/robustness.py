"""What is left of a fitted model as its features die: for any scikit-learn estimator.

The model is never fitted again, and X is never changed: copies of X, in which features are
set to zero, are scored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.pipeline import Pipeline
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from marginout._validation import check_count, check_flag, check_option, make_generator
from marginout.noise import Noise, resolve

Array = NDArray[np.float64]

__all__ = ["DeletionCurve", "corrupt", "deletion_curve"]

KINDS = "random", "worst", "groups"
#: Entries of a block of rows in which the worst deletions are looked for, all rivals together.
WORST_BLOCK = 4_000_000
#: Share of the examples on which coef_ and intercept_ must say what the model predicts.
AGREEMENT = 0.999


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
    model: Noise = resolve(noise)
    values = _values(X)
    if model.positive_only and values.size and values.min() < 0:
        raise ValueError(f"{model!r} noise needs X >= 0, but X holds {values.min():g}.")
    return _like(X, model.corrupt(values, make_generator(random_state)))


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
    groups : array-like of shape (n_features,), or list of lists of features
        For kind="groups": the group of every feature, or the features of every group, as
        numbers, or as names where X is a data frame. Every feature is in exactly one.
    rescale : bool, default=False
        Whether survivors are multiplied by 1/(1 − rate), so that a score's mean stays.
    scoring : str, callable or None, default=None
        A scikit-learn scorer; None is the estimator's own `score`.
    step : str, int or None, default=None
        For a pipeline, the name or number of the step whose *input* loses features. None is the
        first step that is given numbers: the first of all, or that after the vectoriser where X are texts
        (in the worst case, the last step). Texts lose words: name the vectoriser.
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
        delete, n_repeats = _Worst(model, Z, y, rates), 1
    elif _are_texts(Z):
        delete = _Words(Z, kind, rescale)
    else:
        delete = _Random(Z, _group_numbers(groups, Z) if kind == "groups" else None)

    def one(repeat: int) -> list[float]:
        draws = delete.draw(np.random.default_rng((seed, repeat)))
        factors = 1.0 / (1.0 - np.where(rates < 1, rates, 0.0)) if rescale else np.ones(len(rates))
        return [float(scorer(model, draws(q, f), y)) for q, f in zip(rates, factors, strict=True)]

    scores = Parallel(n_jobs=n_jobs)(delayed(one)(repeat) for repeat in range(n_repeats))
    name = scoring if isinstance(scoring, str) else getattr(scoring, "__name__", None)
    default = "accuracy" if is_classifier(estimator) else "R²"
    final = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    return DeletionCurve(
        rates,
        np.array(scores).T,
        kind,
        rescale,
        type(final).__name__,
        name or ("score" if scoring else default),
    )


# --------------------------------------------------------------------------- checks and containers


def _check_rates(rates: Any) -> Array:
    try:
        given = np.asarray(rates)
        array = np.atleast_1d(np.array(given if given.dtype.kind in "fiu" else np.nan, dtype=np.float64))
    except (TypeError, ValueError):
        array = np.array([np.nan])
    if array.ndim != 1 or not array.size or not np.all((array >= 0) & (array <= 1)):
        raise ValueError(f"rates={rates!r} must be numbers in [0, 1], at least one of them.")
    return array


def _is_frame(X: Any) -> bool:
    return hasattr(X, "columns") and hasattr(X, "to_numpy")


def _are_texts(X: Any) -> bool:
    """Whether X is a sequence of strings."""
    if sp.issparse(X) or _is_frame(X):
        return False
    X = np.asarray(X, dtype=object) if isinstance(X, (list, tuple)) else np.asarray(X)
    return bool(X.ndim == 1 and X.size and all(isinstance(text, str) for text in X[:100]))


def _values(X: Any) -> Any:
    """The numbers in X: CSR, or a dense array."""
    if sp.issparse(X):
        X = X.tocsr()
        if not X.has_canonical_format:  # an entry stored in parts would die in parts
            X = X.copy()
            X.sum_duplicates()
        return X
    values = np.asarray(X.to_numpy() if _is_frame(X) else X)
    if values.ndim != 2:
        raise ValueError(f"X has {values.ndim} dimensions, but must have two: (n_samples, n_features).")
    if values.dtype.kind not in "fiub":
        try:
            if hasattr(X, "iloc"):  # pandas has missing values of its own
                values = X.to_numpy(dtype=np.float64, na_value=np.nan)
            else:
                values = values.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"X holds values of type {values.dtype}, which cannot be deleted: give numbers, or name the "
                "step of the pipeline that receives numbers, as in step='classifier'."
            ) from None
    return values


def _like(X: Any, values: Any) -> Any:
    """Values in X's kind of container."""
    if not _is_frame(X):
        return values
    values = values.toarray() if sp.issparse(values) else values
    if hasattr(X, "iloc"):
        return type(X)(values, index=X.index, columns=X.columns)
    return type(X)(values, schema=list(X.columns))


def _group_numbers(groups: Any, X: Any) -> NDArray[np.intp]:
    """The number of every feature's group."""
    d = X.shape[1]
    names = {name: i for i, name in enumerate(X.columns)} if _is_frame(X) else {}
    if isinstance(groups, (list, tuple)):
        groups = [list(group) if isinstance(group, (set, frozenset)) else group for group in groups]
    listed = isinstance(groups, list) and any(np.ndim(group) == 1 for group in groups)
    if not listed:
        labels = np.asarray(groups)
        if labels.shape != (d,):
            raise ValueError(
                f"groups has shape {labels.shape} but X has {d} features: give the group of every feature, "
                "or a list of the features of every group."
            )
        missing = np.flatnonzero([label is None or label != label for label in labels])
        if len(missing):
            raise ValueError(
                f"groups do not cover all features: that of feature {missing[0]} is {labels[missing[0]]!r}."
            )
        return np.unique(labels, return_inverse=True)[1]
    numbers = np.full(d, -1, dtype=np.intp)
    for number, group in enumerate(groups):
        for feature in np.atleast_1d(group):
            at = names.get(feature, feature)
            if not isinstance(at, (int, np.integer)) or isinstance(at, bool) or not 0 <= at < d:
                raise ValueError(f"groups[{number}] names feature {feature!r}, which X does not have.")
            if numbers[at] >= 0:
                raise ValueError(
                    f"groups overlap: feature {feature!r} is in groups {numbers[at]} and {number}. Put every "
                    "feature into exactly one."
                )
            numbers[at] = number
    if np.any(numbers < 0):
        missing = np.flatnonzero(numbers < 0)
        raise ValueError(
            f"groups do not cover all features: {len(missing)} are in none, such as feature {missing[0]}. "
            "Put every feature into exactly one; a feature may be a group of its own."
        )
    return numbers


def _enter(estimator: Any, X: Any, step: str | int | None, kind: str) -> tuple[Any, Any]:
    """The part of a pipeline that is given the deleted features, and what it is given for X."""
    if not isinstance(estimator, Pipeline):
        if step is not None:
            raise ValueError(f"step={step!r} needs a pipeline, but the estimator is {estimator!r}.")
        return estimator, X if _are_texts(X) or _is_frame(X) else _values(X)
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
    while step is None and at < last and _are_texts(Z):
        at, Z = at + 1, _transformed(estimator[at : at + 1], Z)
    model = estimator.steps[-1][1] if at == last else estimator[at:]
    return model, Z if _are_texts(Z) or _is_frame(Z) else _values(Z)


def _transformed(steps: Pipeline, X: Any) -> Any:
    """What the steps, perhaps none, make of X: of a copy, for they may work in place."""
    return steps.transform(deepcopy(X)) if steps.steps else X


# --------------------------------------------------------------------------- what is deleted


class _Random:
    """Random deletions of features, or of groups of them."""

    def __init__(self, X: Any, numbers: NDArray[np.intp] | None) -> None:
        self._X, self._values, self._numbers = X, _values(X), numbers

    def draw(self, rng: np.random.Generator) -> Callable[[float, float], Any]:
        """A function of (rate, factor): what survives, times the factor. More dies at higher rates."""
        values, numbers = self._values, self._numbers
        sparse = sp.issparse(values)
        n = values.shape[0]
        if numbers is not None:
            fate = rng.random((n, int(numbers.max()) + 1), dtype=np.float32)
            rows = np.repeat(np.arange(n), np.diff(values.indptr)) if sparse else slice(None)
            fate = fate[rows, numbers[values.indices] if sparse else numbers]
        else:
            fate = rng.random(values.nnz if sparse else values.shape, dtype=np.float32)

        def survivors(rate: float, factor: float) -> Any:
            entries = values.data if sparse else values
            # Not a product: 0·NaN would not be deleted.
            kept = np.where((fate >= rate) & (rate < 1), entries, entries.dtype.type(0))
            return _rebuilt(self._X, values, kept, factor)

        return survivors


def _rebuilt(X: Any, values: Any, kept: Any, factor: float) -> Any:
    """X, whose values are given, with other entries, times a factor."""
    if factor != 1.0:
        kept = (kept * factor).astype(kept.dtype if kept.dtype.kind == "f" else np.float64, copy=False)
    if not sp.issparse(values):
        return _like(X, kept)
    result = type(values)((kept, values.indices, values.indptr), shape=values.shape, copy=True)
    result.eliminate_zeros()
    return result


class _Words:
    """Random deletions of the different words of each text."""

    def __init__(self, texts: Any, kind: str, rescale: bool) -> None:
        if kind == "groups" or rescale:
            what = "kind='groups'" if kind == "groups" else "rescale=True"
            raise ValueError(f"{what} needs numbers, but X are texts: name a step that is given numbers.")
        self._texts = [str(text) for text in texts]

    def draw(self, rng: np.random.Generator) -> Callable[[float, float], list[str]]:
        words = [sorted(set(re.findall(r"\w+", text))) for text in self._texts]
        fates = [dict(zip(each, rng.random(len(each)), strict=True)) for each in words]

        def survivors(rate: float, factor: float) -> list[str]:
            pairs = zip(self._texts, fates, strict=True)
            return [_without(text, {word for word, u in fate.items() if u < rate}) for text, fate in pairs]

        return survivors


def _without(text: str, words: set[str]) -> str:
    return re.sub(r"\w+", lambda match: "" if match[0] in words else match[0], text)


class _Worst:
    """The deletions that hurt a linear model most, example by example.

    A classifier's margin over a rival k is (w_y − w_k)·x + b_y − b_k: against one rival the worst
    features are those with the largest positive terms, and the worst rival is that with the smallest
    margin left. A regressor's prediction is pushed down or up, whichever takes it farther from y.
    """

    def __init__(self, model: Any, X: Any, y: Any, rates: Array) -> None:
        self._X, self._values = X, _values(X)
        self._rates = rates
        self._W, self._b, self._target = _linear(model, X, column_or_1d(y))
        self._classifier = is_classifier(model)

    def draw(self, rng: np.random.Generator) -> Callable[[float, float], Any]:
        """A function of (rate, factor), as for random deletions; nothing is drawn."""
        values = self._values
        sparse = sp.issparse(values)
        stored = values.data if sparse else values
        kept = {rate: np.empty(stored.shape, dtype=bool) for rate in np.unique(self._rates)}
        for rows in self._blocks():
            columns, entries, place = self._padded(rows)
            for rate, keep in self._survivors(rows, columns, entries):
                kept[rate][place] = keep[columns >= 0] if sparse else keep

        def survivors(rate: float, factor: float) -> Any:
            return _rebuilt(self._X, values, np.where(kept[rate], stored, stored.dtype.type(0)), factor)

        return survivors

    def _blocks(self) -> Iterator[slice]:
        n, d = self._values.shape
        width = int(np.diff(self._values.indptr).max(initial=1)) if sp.issparse(self._values) else d
        size = max(1, WORST_BLOCK // (max(width, 1) * max(2, self._W.shape[1])))
        for i in range(0, n, size):
            yield slice(i, min(i + size, n))

    def _padded(self, rows: slice) -> tuple[NDArray[np.intp], Array, Any]:
        """Columns (−1 beyond a row's end) and entries of some rows, and where they are stored."""
        if not sp.issparse(self._values):
            entries = self._values[rows]
            return np.broadcast_to(np.arange(entries.shape[1]), entries.shape), entries, rows
        indptr = self._values.indptr[rows.start : rows.stop + 1]
        at = indptr[:-1, None] + np.arange(max(1, np.diff(indptr).max(initial=0)))
        inside = at < indptr[1:, None]
        safe = np.where(inside, at, 0)
        columns = np.where(inside, self._values.indices[safe] if self._values.nnz else 0, -1)
        entries = np.where(inside, self._values.data[safe] if self._values.nnz else 0.0, 0.0)
        return columns, entries, slice(int(indptr[0]), int(indptr[-1]))

    def _survivors(
        self, rows: slice, columns: NDArray[np.intp], entries: Array
    ) -> Iterator[tuple[float, NDArray[np.bool_]]]:
        """For every rate, which entries of the rows are kept."""
        count = np.count_nonzero(entries, axis=1)
        best: dict[float, tuple[Array, NDArray[np.bool_]]] = {}
        for terms, start, active in self._rivals(rows, columns, entries):
            order = np.argsort(-terms, axis=1, kind="stable")
            loss = np.cumsum(np.maximum(np.take_along_axis(terms, order, axis=1), 0.0), axis=1)
            loss = np.column_stack([np.zeros(len(loss)), loss])
            rank = np.empty_like(order)
            np.put_along_axis(rank, order, np.arange(order.shape[1])[None], axis=1)
            for rate in np.unique(self._rates):
                K = np.floor(rate * count + 0.5).astype(np.intp)
                left = np.where(active, start - loss[np.arange(len(K)), K], np.inf)
                keep = (rank >= K[:, None]) | (terms <= 0)
                if rate in best:
                    before, other = best[rate]
                    worse = left < before
                    left, keep = np.where(worse, left, before), np.where(worse[:, None], keep, other)
                best[rate] = left, keep
        for rate, (_, keep) in best.items():
            yield rate, keep

    def _rivals(
        self, rows: slice, columns: NDArray[np.intp], entries: Array
    ) -> Iterator[tuple[Array, Array, NDArray[np.bool_]]]:
        """Per rival: each entry's part in the margin, the margin, and for which rows it is a rival."""
        W, b, target = self._W, self._b, self._target[rows]
        if not self._classifier:
            for sign in (1.0, -1.0):
                terms = sign * entries * W[columns, 0]
                yield terms, terms.sum(axis=1) + sign * (b[0] - target), np.ones(len(target), dtype=bool)
            return
        at = target.astype(np.intp)
        own = W.T[at[:, None], columns]
        for rival in range(W.shape[1]):
            terms = entries * (own - W[columns, rival])
            yield terms, terms.sum(axis=1) + b[at] - b[rival], at != rival


def _linear(model: Any, X: Any, y: Any) -> tuple[Array, Array, Any]:
    """Weights (d, K) and offsets (K,) of a linear model, and y as numbers of classes or as it is."""
    coef, intercept = getattr(model, "coef_", None), getattr(model, "intercept_", None)
    cure = "kind='worst' needs a linear model (or a pipeline that ends with one), with coef_ and intercept_"
    if coef is None or intercept is None:
        raise ValueError(f"{cure}, but the model is {model!r}: use kind='random' or 'groups'.")
    W = np.atleast_2d(coef.toarray() if sp.issparse(coef) else np.asarray(coef, dtype=np.float64)).T
    b = np.atleast_1d(np.asarray(intercept, dtype=np.float64)) * np.ones(W.shape[1])
    scores = np.asarray(_values(X) @ W) + b
    said = model.predict(X)
    if not is_classifier(model):
        if W.shape[1] != 1 or not np.allclose(scores[:, 0], np.ravel(said), rtol=1e-4, atol=1e-6):
            raise ValueError(f"{cure} for one target, but {model!r} predicts otherwise.")
        return W, b, np.asarray(y, dtype=np.float64)
    classes = model.classes_
    if W.shape[1] == 1 and len(classes) == 2:
        W, b = np.column_stack([0 * W, W]), np.array([0.0, b[0]])
        scores = np.column_stack([np.zeros(len(scores)), scores])
    agree = W.shape[1] == len(classes) and np.mean(classes[scores.argmax(axis=1)] == said) >= AGREEMENT
    if not agree:
        raise ValueError(f"{cure} of one row per class, but {model!r} predicts otherwise.")
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(f"y holds {unknown[0]!r}, which is none of the model's classes.")
    return W, b, np.searchsorted(classes, y)
