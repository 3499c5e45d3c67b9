r"""One normal law of the features for every class, where the classes' laws say more of what is missing.

    p(x) = Σ_c π_c N(x; μ_c, Σ_c)          r_c = p(c | x_O)          x̂ = Σ_c r_c x̂_c

With R_c the scatter of the n_c rows of a class around their mean, and W the covariance within classes, shrunk
as that of all rows was,

    Σ_c = (R_c + d·W)/(n_c + d)

as if d more rows of each class had been seen with the covariance that all classes share (Friedman, 1989).
Values that rows miss count by their moments under the law of all rows: one step of expectation-maximisation.

Whether one law or these: half of what is known of held-out rows is hidden, and either fills it in. The laws
of the classes are taken where their squared errors, in units of the deviations and none above 4, are lower by
a hundredth and by three standard errors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from marginout._core.gaussian.estimate import FULL, Estimate, Rows, Sum, estimate_from, full_law
from marginout._core.gaussian.law import REMEMBERED, Law
from marginout._core.interfaces import Array

#: Parts of the rows, each of which is filled in by laws of the others, and rows that are, about.
FOLDS, HELD = 3, 1000
#: Different sets of features that are hidden, so that rows share what is expensive.
MASKS = 32
#: The largest squared error of a value, in units of the deviation: that of a feature which hardly ever varies
#: may be a thousand.
LARGEST = 4.0
#: The least share of the squared error that laws of the classes must save, and how many standard errors.
GAIN, DEVIATIONS = 0.01, 3.0
#: Numbers of the classes' covariances: 64 MB.
MOST = 2**23
#: Numbers of conditional means that are worked on at a time.
AT_ONCE = 2**20


class ClassLaws:
    """The laws of several classes, and the one law of all rows.

    Parameters
    ----------
    one : Law, of all rows, that training takes
    shares : (C,), π
    laws : C laws, with the scale of the one law
    """

    def __init__(self, one: Law, shares: Array, laws: list[Law]) -> None:
        self.one, self.shares, self.laws = one, shares, laws
        for law in laws:
            law.room = REMEMBERED // len(laws)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def components(self, X: NDArray[Any]) -> tuple[Array, list[NDArray[Any]]]:
        """log r, (n, C), and X with every class's conditional means."""
        each = [law.explained(X) for law in self.laws]
        density = np.column_stack([log_density for _, log_density in each])
        density[~np.isfinite(density).all(axis=1)] = 0.0  # so far away that no class is nearer
        logs = np.log(self.shares) + density
        return logs - logsumexp(logs, axis=1, keepdims=True), [filled for filled, _ in each]

    def fill(self, X: NDArray[Any]) -> NDArray[Any]:
        """X with conditional means for NaN; X itself where there are none."""
        rows = np.flatnonzero(np.isnan(X).any(axis=1))
        out = X.copy() if len(rows) else X
        for some in pieces(rows, len(self.laws) * X.shape[1]):
            logs, filled = self.components(X[some].astype(np.float64))
            out[some] = sum(r[:, None] * means for r, means in zip(np.exp(logs.T), filled, strict=True))
        return out

    @property
    def mean(self) -> Array:
        """The mean of the mixture, (d,)."""
        return np.asarray(self.shares @ [law.mean for law in self.laws])

    @property
    def rank(self) -> int:
        return self.one.rank

    def covariance(self) -> Array:
        """The covariance of the mixture, (d, d)."""
        total = np.zeros((len(self.mean), len(self.mean)))
        for share, law in zip(self.shares, self.laws, strict=True):
            off = law.mean - self.mean
            total += share * (law.covariance() + np.outer(off, off))
        return total

    def variances(self, X: NDArray[Any]) -> NDArray[Any]:
        """Σ r (S + (x̂_c − x̂)²) of every missing value, and 0 of what is known, (n, d)."""
        rows = np.flatnonzero(np.isnan(X).any(axis=1))
        out = np.zeros_like(X)
        for some in pieces(rows, len(self.laws) * X.shape[1]):
            logs, filled = self.components(X[some].astype(np.float64))
            r, mean = np.exp(logs.T)[:, :, None], self.fill(X[some])
            for share, law, own in zip(r, self.laws, filled, strict=True):
                out[some] += share * (law.variances(X[some].astype(np.float64)) + (own - mean) ** 2)
        return out

    def draw(self, X: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        """X with draws for NaN: of a class by r, then of its law."""
        rows = np.flatnonzero(np.isnan(X).any(axis=1))
        out = X.copy()
        for some in pieces(rows, len(self.laws) * X.shape[1]):
            shares = np.cumsum(np.exp(self.components(X[some].astype(np.float64))[0]), axis=1)
            kind = (rng.random((len(some), 1)) > shares[:, :-1]).sum(axis=1)
            for k, law in enumerate(self.laws):
                own = some[kind == k]
                if len(own):
                    out[own] = law.draw(X[own], rng)
        return out


def pieces(rows: NDArray[np.intp], width: int) -> list[NDArray[np.intp]]:
    """Some rows, so many at a time that `width` numbers of each take little memory."""
    return np.array_split(rows, -(-len(rows) * width // AT_ONCE)) if len(rows) else []


def learn(X: NDArray[np.floating], y: NDArray[Any] | None = None) -> Law | ClassLaws:
    """The law of the rows of X, or those of their classes y, where these say more."""
    rows = Rows(X, y)
    classes = None if y is None else np.unique(y)
    return learn_from(lambda task, *args: task(rows, *args), classes)


def learn_from(add_up: Sum, classes: NDArray[Any] | None) -> Law | ClassLaws:
    """The same for rows that are known by sums over them."""
    found = estimate_from(add_up)
    law, d = found.law, len(found.law.mean)
    if classes is None or len(classes) < 2 or d > FULL or len(classes) * d * d * FOLDS > MOST:
        return law
    sums = add_up(_class_sums, law, classes)
    total = [part.sum(axis=0) for part in sums]
    step = max(1, int(total[0].sum()) // HELD)
    rests = ([whole - part[k] for whole, part in zip(total, sums, strict=True)] for k in range(FOLDS))
    parts = [_laws(found, *rest) for rest in rests]
    error, saved, squares = add_up(_saved, parts, step)
    if saved <= max(GAIN * error, DEVIATIONS * float(np.sqrt(squares))):
        return law
    laws = _laws(found, *total)
    return ClassLaws(law, laws.shares, laws.laws)


def _numbers(rows: Rows) -> NDArray[np.uint64]:
    """A number for each row by its place among all rows, without any order."""
    z = (np.arange(len(rows.X), dtype=np.uint64) + np.uint64(rows.start + 1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return z ^ (z >> np.uint64(27))


def _class_sums(rows: Rows, law: Law, classes: NDArray[Any]) -> tuple[Array, Array, Array]:
    """n, Σ E y and Σ E yyᵀ of each fold and class, in units of the law's scale."""
    d, missing = len(law.mean), np.isnan(rows.X)
    fold, label = _numbers(rows) % FOLDS, np.searchsorted(classes, np.asarray(rows.y))
    filled = law.standardised(law.fill(rows.X))
    shape = FOLDS, len(classes)
    count, total, squares = np.zeros(shape), np.zeros((*shape, d)), np.zeros((*shape, d, d))
    for k, c in np.ndindex(shape):
        own = (fold == k) & (label == c)
        Y = filled[own]
        count[k, c], total[k, c] = len(Y), Y.sum(axis=0)
        squares[k, c] = Y.T @ Y + law.missing_covariance(missing[own])
    return count, total, squares


def _laws(found: Estimate, count: Array, total: Array, squares: Array) -> ClassLaws:
    """The laws of sums over the rows of each class."""
    law, n, d = found.law, count.sum(), total.shape[1]
    some = count > 0
    count, total, squares = count[some], total[some], squares[some]
    prior = n * found.shrinkage / (1.0 - found.shrinkage)
    mean = total.sum(axis=0) / n
    S = (squares.sum(axis=0) - n * np.outer(mean, mean) + prior * np.eye(d)) / (n + prior)
    means = total / count[:, None]
    scatter = squares - count[:, None, None] * means[:, :, None] * means[:, None, :]
    W = scatter.sum(axis=0) / n
    W += found.shrinkage * (np.diag(np.diag(W)) - W)
    laws = []
    for own, centre, R in zip(count, means, scatter, strict=True):
        covariance = (R + d * W) / (own + d)
        # A constant feature says nothing of the class.
        np.einsum("dd->d", covariance)[law.scale == 0] = 1.0
        laws.append(full_law(law.moved(centre), covariance))
    return ClassLaws(full_law(law.moved(mean), S), count / n, laws)


def _saved(rows: Rows, parts: list[ClassLaws], step: int) -> Array:
    """Of the squared error of what is hidden: Σ by the one law, Σ saved by those of the classes, Σ saved²."""
    number = _numbers(rows)
    fold, rest = number % FOLDS, number // FOLDS
    masks = np.random.default_rng(0).random((MASKS, rows.X.shape[1])) < 0.5
    sums = np.zeros(3)
    for k, laws in enumerate(parts):
        own = np.flatnonzero((fold == k) & (rest % step == 0))
        X = rows.X[own].astype(np.float64)
        hidden = masks[rest[own] // step % MASKS] & ~np.isnan(X)
        Y = np.where(hidden, np.nan, X)
        scale = np.where(laws.one.scale > 0, laws.one.scale, 1.0)
        one, several = (
            np.minimum(((model.fill(Y) - np.nan_to_num(X)) / scale) ** 2, LARGEST).sum(axis=1, where=hidden)
            for model in (laws.one, laws)
        )
        sums += one.sum(), (one - several).sum(), ((one - several) ** 2).sum()
    return sums
