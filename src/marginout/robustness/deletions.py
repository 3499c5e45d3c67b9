"""Delete features, groups of features, words, or the features whose loss is worst for a linear model.

Each class has `draw(rng)`, which returns a function of (rate, factor): what is left of X, times the factor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import column_or_1d

from marginout._core.interfaces import Array
from marginout.robustness.containers import like, numbers_in

#: Entries, times classes, of the rows for which the worst deletions are found at a time.
WORST_BLOCK = 4_000_000
#: Share of the examples for which coef_ and intercept_ must give the model's prediction.
AGREEMENT = 0.999
#: Beyond this number a fill would become infinite in single precision.
LARGEST_FILL = float(np.finfo(np.float32).max)


def check_fill(fill: Any) -> Any:
    """The parameter `fill`: a finite number, NaN, or "mean"."""
    if isinstance(fill, str) and fill == "mean":
        return fill
    number: Any = None if isinstance(fill, bool) or not isinstance(fill, Real) else fill
    if number is not None and not abs(number) > LARGEST_FILL:
        return float(number)
    raise ValueError(f"fill={fill!r} must be a number, NaN or 'mean'.")


def fill_of(fill: float | str, values: Any) -> Any:
    """What takes the place of deleted values: a number, NaN, or the mean of every feature, (d,)."""
    if sp.issparse(values):
        if fill != 0:
            raise ValueError(f"fill={fill!r} would fill the zeros of sparse data: give dense X, or fill=0.")
        return values.dtype.type(0)
    kind = values.dtype if fill == 0 else np.result_type(values.dtype, np.float32)
    if fill != "mean":
        return kind.type(fill)
    known = ~np.isnan(values.astype(np.float64, copy=False))
    count = np.maximum(known.sum(axis=0), 1)
    return (np.where(known, values, 0).sum(axis=0, dtype=np.float64) / count).astype(kind)


class RandomDeletion:
    """Random deletions of features, or of groups of them."""

    def __init__(self, X: Any, numbers: NDArray[np.intp] | None, fill: Any = 0.0) -> None:
        self._X, self._values, self._numbers = X, numbers_in(X), numbers
        self._fill = fill_of(fill, self._values)

    def draw(self, rng: np.random.Generator) -> Callable[[float, float], Any]:
        """Draw once for all rates: what dies at one rate dies at every higher rate."""
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
            kept = np.where((fate >= rate) & (rate < 1), entries, self._fill)
            return _rebuilt(self._X, values, kept, factor)

        return survivors


def _rebuilt(X: Any, values: Any, kept: Any, factor: float) -> Any:
    """X with the entries `kept` in the place of its `values`, times a factor."""
    if factor != 1.0:
        kept = (kept * factor).astype(kept.dtype if kept.dtype.kind == "f" else np.float64, copy=False)
    if not sp.issparse(values):
        return like(X, kept)
    result = type(values)((kept, values.indices, values.indptr), shape=values.shape, copy=True)
    result.eliminate_zeros()
    return result


class WordDeletion:
    """Random deletions of the different words of each text, in upper and lower case alike."""

    def __init__(self, texts: Any, kind: str, rescale: bool) -> None:
        if kind == "groups" or rescale:
            what = "kind='groups'" if kind == "groups" else "rescale=True"
            raise ValueError(f"{what} needs numbers, but X are texts: name a step that is given numbers.")
        self._texts = [str(text) for text in texts]

    def draw(self, rng: np.random.Generator) -> Callable[[float, float], list[str]]:
        words = [sorted(set(re.findall(r"\w+", text.lower()))) for text in self._texts]
        fates = [dict(zip(each, rng.random(len(each)), strict=True)) for each in words]

        def survivors(rate: float, factor: float) -> list[str]:
            pairs = zip(self._texts, fates, strict=True)
            return [_without(text, {word for word, u in fate.items() if u < rate}) for text, fate in pairs]

        return survivors


def _without(text: str, words: set[str]) -> str:
    return re.sub(r"\w+", lambda match: "" if match[0].lower() in words else match[0], text)


class WorstDeletion:
    """The deletions that hurt a linear model most, example by example.

    A classifier's margin over another class k is (w_y − w_k)·x + b_y − b_k. Against one class the worst
    features to lose are those with the largest positive terms; the worst class is the one with the
    smallest margin left. A regressor's prediction is moved down or up, whichever takes it farther from y.
    """

    def __init__(self, model: Any, X: Any, y: Any, rates: Array) -> None:
        self._X, self._values = X, numbers_in(X)
        self._rates = rates
        self._W, self._b, self._target = _linear(model, X, column_or_1d(y))
        self._classifier = is_classifier(model)

    def draw(self, rng: np.random.Generator) -> Callable[[float, float], Any]:
        """Find the worst deletions of every rate; nothing is drawn."""
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
        """Columns (−1 after a row's end) and entries of some rows, and the slice where they are stored."""
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
        """For every rate, a mask of the entries of the rows that are kept."""
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
        """For every other class: each entry's term of the margin, the margin, and a mask of the rows.

        The mask leaves out the rows of the class itself. A regression has two such "classes": predictions
        that are moved down and up.
        """
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
    """Weights (d, K) and offsets (K,) of a linear model, and y: numbers of classes, or targets."""
    coef, intercept = getattr(model, "coef_", None), getattr(model, "intercept_", None)
    cure = "kind='worst' needs a linear model (or a pipeline that ends with one), with coef_ and intercept_"
    if coef is None or intercept is None:
        raise ValueError(f"{cure}, but the model is {model!r}: use kind='random' or 'groups'.")
    W = np.atleast_2d(coef.toarray() if sp.issparse(coef) else np.asarray(coef, dtype=np.float64)).T
    b = np.atleast_1d(np.asarray(intercept, dtype=np.float64)) * np.ones(W.shape[1])
    values = numbers_in(X)
    if W.shape[0] != values.shape[1]:
        features = f"{W.shape[0]} weights a row for {values.shape[1]} features"
        raise ValueError(f"{cure}, but {model!r} has {features}: use kind='random' or 'groups'.")
    scores = np.asarray(values @ W) + b
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
