r"""Estimate the law of the features from rows in which values may be missing.

In units of each feature's deviation, the law of highest

    Σ_n log N(x_n,O; μ_O, Σ_OO) − ½ν (log|Σ| + tr Σ⁻¹)

is as if ν more rows had been seen whose features go their own ways. Where nothing is missing and Σ is any
matrix, Σ = (1 − ρ)S + ρI with ρ = ν/(n + ν): the shrinkage of Ledoit and Wolf towards the diagonal. Its ρ is
that of Schäfer and Strimmer (2005), and each pair of features uses the rows where both are known:

    ρ = Σ_{i≠j} Var r_ij / Σ_{i≠j} r_ij²

All else is found by expectation-maximisation, which begins at the law of these r_ij: no step lowers the sum.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from marginout._core.gaussian.law import Law, times
from marginout._core.gaussian.patterns import Patterns
from marginout._core.interfaces import Array
from marginout._core.threads import in_order, worker_threads

#: Features up to which Σ is any matrix, and the rank of L beyond.
FULL = 64
#: The least part of a feature's variance that is its own; systems with it are solved to ten digits.
OWN = 1e-6
#: The most shrinkage, and the own part of each feature that a low rank starts from, at least.
MOST, START = 0.99, 0.05


class Estimate(NamedTuple):
    """A law, how it was found, and whether that ended by itself."""

    law: Law
    shrinkage: float
    history: list[float]
    converged: bool


class Rows:
    """Rows in which NaN is missing, and what is asked of them again and again."""

    #: X, the classes of the rows, where they have any, and how many rows come before.
    def __init__(self, X: NDArray[np.floating], y: NDArray[Any] | None = None, start: int = 0) -> None:
        self.X, self.y, self.start = X, y, start

    @cached_property
    def patterns(self) -> Patterns:
        return Patterns(~np.isnan(self.X))

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Whether each value is missing."""
        return np.asarray(~self.patterns.known[self.patterns.index])


#: Σ task(rows, *args) over all rows, wherever they are: a tuple of arrays.
Sum = Callable[..., Any]


def estimate(
    X: NDArray[np.floating],
    rank: int | None = None,
    shrinkage: float | None = None,
    tol: float = 1e-4,
    max_iter: int = 100,
) -> Estimate:
    """The law of the rows of X, in which NaN is missing; see `estimate_from`."""
    rows = Rows(X)
    return estimate_from(lambda task, *args: task(rows, *args), rank, shrinkage, tol, max_iter)


def estimate_from(
    add_up: Sum,
    rank: int | None = None,
    shrinkage: float | None = None,
    tol: float = 1e-4,
    max_iter: int = 100,
) -> Estimate:
    """The law of rows that are known by sums over them.

    `rank` is that of L; from d on, or None for d of up to 64, Σ is any matrix. The steps end when one gains
    less than `tol` in the mean log-likelihood of a known value.
    """
    n, count, mean, scale = _moments(add_up)
    d = len(mean)
    law = Law(mean, scale, np.zeros((d, 1)), np.ones(d))
    S, found = _correlations(*add_up(_products, law))
    rho = found if shrinkage is None else shrinkage
    prior = n * rho / (1.0 - rho)
    S = (n * S + prior * np.eye(d)) / (n + prior)
    gain = tol * max(1.0, count.sum())
    whole = count.sum() == n * d
    if d <= FULL if rank is None else rank >= d:
        law = full_law(law, S)
        if whole:
            return Estimate(law, rho, [_value(law, S, n + prior)], True)
        expected: Any = _full_sums
        step: Any = _full_step
    else:
        law = _start(law, S, min(rank or FULL, max(1, n - 1), d))
        if whole:
            law, history, converged = _factors(law, S, n + prior, gain, max_iter)
            return Estimate(law, rho, history, converged)
        expected, step = _low_rank_sums, _low_rank_step
    history, identity = [], np.eye(d)
    for _ in range(max_iter + 1):
        value, *sums = add_up(expected, law)
        history.append(float(value) + _value(law, identity, prior))
        if len(history) > 1 and history[-1] - history[-2] < gain:
            return Estimate(law, rho, history, True)
        if len(history) <= max_iter:
            law = step(law, n, prior, *sums)
    return Estimate(law, rho, history, False)


def _moments(add_up: Sum) -> tuple[int, Array, Array, Array]:
    """n; how often each feature is known; mean and deviation of what is known of it, 0 if nothing is."""
    n, count, total = add_up(_totals)
    at_least = np.maximum(count, 1)
    mean = total / at_least
    rest, squares = add_up(_centred, mean)
    mean = mean + rest / at_least
    if not np.isfinite(squares).all():
        worst = int(np.argmin(np.isfinite(squares)))
        raise ValueError(f"Feature {worst} of X has values that are too large to square: scale the features.")
    scale = np.sqrt(squares / at_least)
    scale[scale <= 1e-12 * np.abs(mean)] = 0.0  # rounding
    return int(n), count, mean, scale


def _totals(rows: Rows) -> tuple[Array, ...]:
    """n, and how often each feature is known, and its sum."""
    known = ~np.isnan(rows.X)
    total = np.where(known, rows.X, 0.0).sum(axis=0, dtype=np.float64)
    return np.array(len(rows.X)), known.sum(axis=0, dtype=np.float64), total


def _centred(rows: Rows, mean: Array) -> tuple[Array, Array]:
    """Σ (x − mean) and Σ (x − mean)² of what is known."""
    centred = rows.X - mean
    centred[np.isnan(centred)] = 0.0
    with np.errstate(over="ignore"):
        return centred.sum(axis=0), np.einsum("nd,nd->d", centred, centred)


def _products(rows: Rows, law: Law) -> tuple[Array, Array, Array]:
    """Of each pair of features, how often both are known, and Σ of their products and of the squared ones."""
    Y = law.standardised(rows.X)
    seen = (~np.isnan(rows.X) & (law.scale > 0)).astype(np.float64)
    squares = Y * Y
    return seen.T @ seen, Y.T @ Y, squares.T @ squares


def _correlations(pairs: Array, products: Array, squares: Array) -> tuple[Array, float]:
    """r of standardised rows, each pair of features by the rows where both are known, and its ρ."""
    some = pairs > 1
    count = np.where(some, pairs, 2.0)
    r = np.where(some, products / count, 0.0)
    spread = np.where(some, (squares / count - r * r) / (count - 1.0), 0.0)
    np.fill_diagonal(spread, 0.0)
    total = float((r * r).sum() - (np.diag(r) ** 2).sum())
    return r, float(np.clip(spread.sum() / total, OWN, MOST)) if total > 0 else MOST


def full_law(law: Law, S: Array) -> Law:
    """The law of covariance S, in units of its scale."""
    values, vectors = np.linalg.eigh(S)
    own = max(0.5 * float(values[0]), OWN)
    loadings = vectors * np.sqrt(np.maximum(values - own, 0.0))
    return Law(law.mean, law.scale, loadings, np.full(len(S), own))


def _value(law: Law, S: Array, n: float) -> float:
    """−½n(log|Σ| + tr Σ⁻¹S), in units of each feature's deviation."""
    B = law.loadings / law.noise[:, None]
    A = law.precisions(np.ones((1, len(S)), dtype=bool))[0]
    trace = (np.diag(S) / law.noise).sum() - np.trace(np.linalg.solve(A, B.T @ (S @ B)))
    return float(-0.5 * n * (np.log(law.noise).sum() + np.linalg.slogdet(A)[1] + trace))


def _start(law: Law, S: Array, rank: int) -> Law:
    """The law of the first principal components of covariance S, in units of its scale."""
    _, values, vectors = randomized_svd(S, rank, power_iteration_normalizer="QR", random_state=0)
    rest = max(float(np.trace(S) - values.sum()) / max(1, len(S) - rank), 0.0)
    loadings = vectors.T * np.sqrt(np.maximum(values - rest, 0.0))
    return Law(law.mean, law.scale, loadings, np.maximum(1.0 - (loadings * loadings).sum(axis=1), START))


def _factors(law: Law, S: Array, n: float, gain: float, max_iter: int) -> tuple[Law, list[float], bool]:
    """The likeliest law of low rank for n rows of covariance S: factor analysis (Rubin and Thayer, 1982)."""
    history = [_value(law, S, n)]
    for _ in range(max_iter):
        G = law.posteriors(np.ones((1, len(S)), dtype=bool))[0]
        B = (law.loadings / law.noise[:, None]) @ G
        C = S @ B
        loadings = np.linalg.solve(G + B.T @ C, C.T).T
        noise = np.maximum(np.diag(S) - np.einsum("dr,dr->d", loadings, C), OWN)
        law = Law(law.mean, law.scale, np.ascontiguousarray(loadings), noise)
        history.append(_value(law, S, n))
        if history[-1] - history[-2] < gain:
            return law, history, True
    return law, history, False


#: What a step needs besides, of the law and some patterns: which, their G, and E z of their rows.
Collect = Callable[[Law, Patterns, slice, Array, Array], Array]


def _expect(law: Law, Y: Array, patterns: Patterns, collect: Collect) -> tuple[float, Array, Array]:
    """The log-likelihood of standardised rows, E z of every row, and what a step needs besides."""
    Z = Y @ (law.loadings / law.noise[:, None])
    logs, value = np.log(law.noise), -float((Y**2 / law.noise).sum())

    def run(some: slice) -> tuple[float, Array]:
        A = law.precisions(patterns.known[some])
        twice = 2.0 * np.log(np.einsum("uii->ui", np.linalg.cholesky(A))).sum(axis=1)
        G: Array = np.asarray(np.linalg.inv(A))
        rows = patterns.rows(some)
        H = Z[rows]
        Z[rows] = E = times(G, H, patterns, some)
        value = float((H * E).sum() - patterns.counts[some] @ (patterns.known[some] @ logs + twice))
        return value, collect(law, patterns, some, G, E)

    total: Any = 0.0
    for own, each in in_order(run, law.slices(patterns), worker_threads(len(patterns) * law.loadings.size)):
        value += own
        total += each
    return 0.5 * value, Z, total


def _missing_covariance(law: Law, patterns: Patterns, some: slice, G: Array, E: Array) -> Array:
    """Σ of the covariances of what is missing, (d, d)."""
    return law.summed_covariance(~patterns.known[some], G, patterns.counts[some])


def _full_sums(rows: Rows, law: Law) -> tuple[Any, ...]:
    """The log-likelihood, Σ E y and Σ E yyᵀ of rows in units of the law's scale, centred at its mean."""
    Y, missing = law.standardised(rows.X), rows.missing
    value, Z, covariance = _expect(law, Y, rows.patterns, _missing_covariance)
    Y[missing] = (Z @ law.loadings.T)[missing]
    return np.array(value), Y.sum(axis=0), Y.T @ Y + covariance


def _full_step(law: Law, n: int, prior: float, total: Array, squares: Array) -> Law:
    """One step of expectation-maximisation, where Σ is any matrix."""
    shift = total / n
    S = squares - n * np.outer(shift, shift) + prior * np.eye(len(shift))
    return full_law(law.moved(shift), S / (n + prior))


def _second_moments(law: Law, patterns: Patterns, some: slice, G: Array, E: Array) -> Array:
    """Σ E zzᵀ of the rows where each feature is known, the lower triangle, (d, r(r + 1)/2)."""
    rows, columns = law.triangle
    Q = G.reshape(len(G), -1).take(rows * law.rank + columns, axis=1)
    Q *= patterns.counts[some, None]
    one, where, others = patterns.alone(some)
    Q[one] += E[where[:, None], rows] * E[where[:, None], columns]
    for i, own in others:
        Q[i] += (E[own].T @ E[own])[rows, columns]
    return np.asarray(patterns.known[some].T.astype(np.float64) @ Q)


def _low_rank_sums(rows: Rows, law: Law) -> tuple[Any, ...]:
    """The log-likelihood; where each feature is known Σ E zzᵀ, Σ y E z and Σ E z; its count, Σ y and Σ y²."""
    Y, patterns = law.standardised(rows.X), rows.patterns
    value, Z, second = _expect(law, Y, patterns, _second_moments)
    if not len(Y):
        second = np.zeros((len(law.mean), len(law.triangle[0])))
    first = patterns.known.T.astype(np.float64) @ patterns.sums(Z)
    own = np.array([patterns.counts @ patterns.known, Y.sum(axis=0), np.einsum("nd,nd->d", Y, Y)])
    return np.array(value), second, Y.T @ Z, first, own


def _low_rank_step(
    law: Law, n: int, prior: float, second: Array, cross: Array, first: Array, own: Array
) -> Law:
    """One step of expectation-maximisation for a low rank: a regression on z and 1 for every feature."""
    r, d, (rows, columns) = law.rank, len(law.mean), law.triangle
    count, total, squares = own
    system = np.zeros((d, r + 1, r + 1))
    system[:, rows, columns] = system[:, columns, rows] = second
    right = np.column_stack([cross, total])
    system[:, r, :r] = system[:, :r, r] = first
    system[:, r, r] = np.maximum(count, 1.0)
    if prior:
        G = law.posteriors(np.ones((1, d), dtype=bool))[0]
        B = (law.loadings / law.noise[:, None]) @ G
        system[:, :r, :r] += prior * (G + B.T @ B)
        right[:, :r] += prior * B
    solved = np.linalg.solve(system, right[..., None])[..., 0].astype(np.float64, copy=False)
    noise = (squares + prior - np.einsum("dr,dr->d", solved, right)) / np.maximum(count + prior, 1e-300)
    moved = law.moved(solved[:, r])
    return Law(moved.mean, law.scale, np.ascontiguousarray(solved[:, :r]), np.maximum(noise, OWN))
