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


class Sample(NamedTuple):
    """Standardised rows, 0 where missing, and ν."""

    Y: Array
    patterns: Patterns
    prior: float


class Expected(NamedTuple):
    """What a law says of a sample: its log-likelihood, E z of every row, and what a step needs besides."""

    value: float
    Z: Array
    total: Array


def estimate(
    X: NDArray[np.floating],
    rank: int | None = None,
    shrinkage: float | None = None,
    tol: float = 1e-4,
    max_iter: int = 100,
) -> Estimate:
    """The law of the rows of X, in which NaN is missing.

    `rank` is that of L; from d on, or None for d of up to 64, Σ is any matrix. The steps end when one gains
    less than `tol` in the mean log-likelihood of a known value.
    """
    known = ~np.isnan(X)
    mean, scale = _moments(X, known)
    n, d = X.shape
    law = Law(mean, scale, np.zeros((d, 1)), np.ones(d))
    Y = law.standardised(X)
    S, found = _correlations(Y, known & (scale > 0))
    rho = found if shrinkage is None else shrinkage
    prior = n * rho / (1.0 - rho)
    S = (n * S + prior * np.eye(d)) / (n + prior)
    gain = tol * max(1, int(known.sum()))
    whole = bool(known.all())
    if d <= FULL if rank is None else rank >= d:
        law = _full(law, S)
        if whole:
            return Estimate(law, rho, [_value(law, S, n + prior)], True)
        collect, step = _missing_covariance, _full_step
    else:
        law = _start(law, S, min(rank or FULL, max(1, n - 1), d))
        if whole:
            law, history, converged = _factors(law, S, n + prior, gain, max_iter)
            return Estimate(law, rho, history, converged)
        collect, step = _second_moments, _low_rank_step
    sample = Sample(Y, Patterns(known), prior)
    expected = expect(law, sample, collect)
    history = [expected.value]
    for _ in range(max_iter):
        law = step(law, sample, expected)
        expected = expect(law, sample, collect)
        history.append(expected.value)
        if history[-1] - history[-2] < gain:
            return Estimate(law, rho, history, True)
    return Estimate(law, rho, history, False)


def _moments(X: NDArray[np.floating], known: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Mean and deviation of what is known of every feature; 0 of one of which nothing is known."""
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, X, 0.0).sum(axis=0, dtype=np.float64) / count
    centred = np.where(known, X - mean, 0.0)
    mean += centred.sum(axis=0) / count
    with np.errstate(over="ignore"):
        scale = np.sqrt(np.einsum("nd,nd->d", centred, centred) / count)
    if not np.isfinite(scale).all():
        raise ValueError(
            f"X has values as large as {np.nanmax(np.abs(X)):.1e}, too large to square: scale the features."
        )
    scale[scale <= 1e-12 * np.abs(mean)] = 0.0  # rounding
    return mean, scale


def _correlations(Y: Array, known: NDArray[np.bool_]) -> tuple[Array, float]:
    """r of standardised rows, each pair of features by the rows where both are known, and its ρ."""
    seen = known.astype(np.float64)
    pairs = seen.T @ seen
    some = pairs > 1
    count = np.where(some, pairs, 2.0)
    r = np.where(some, Y.T @ Y / count, 0.0)
    squares = Y * Y
    spread = np.where(some, (squares.T @ squares / count - r * r) / (count - 1.0), 0.0)
    np.fill_diagonal(spread, 0.0)
    total = float((r * r).sum() - (np.diag(r) ** 2).sum())
    return r, float(np.clip(spread.sum() / total, OWN, MOST)) if total > 0 else MOST


def _full(law: Law, S: Array) -> Law:
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


def expect(law: Law, sample: Sample, collect: Collect) -> Expected:
    """What the law says of the sample."""
    patterns = sample.patterns
    Z = sample.Y @ (law.loadings / law.noise[:, None])
    logs, value = np.log(law.noise), -float((sample.Y**2 / law.noise).sum())

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
    return Expected(0.5 * value + _value(law, np.eye(len(logs)), sample.prior), Z, total)


def _moved(law: Law, shift: Array, sample: Sample) -> Law:
    """The law with its mean moved, in units of its scale; the rows move with it."""
    missing = ~sample.patterns.known[sample.patterns.index]
    sample.Y[...] -= shift
    sample.Y[missing] = 0.0
    return Law(law.mean + law.scale * shift, law.scale, law.loadings, law.noise)


def _missing_covariance(law: Law, patterns: Patterns, some: slice, G: Array, E: Array) -> Array:
    """Σ of the covariances of what is missing, (d, d)."""
    return law.summed_covariance(~patterns.known[some], G, patterns.counts[some])


def _full_step(law: Law, sample: Sample, expected: Expected) -> Law:
    """One step of expectation-maximisation, where Σ is any matrix."""
    patterns = sample.patterns
    missing = ~patterns.known[patterns.index]
    filled = np.where(missing, expected.Z @ law.loadings.T, sample.Y)
    shift = filled.mean(axis=0)
    filled -= shift
    S = filled.T @ filled + expected.total
    np.einsum("dd->d", S)[...] += sample.prior
    return _full(_moved(law, shift, sample), S / (len(filled) + sample.prior))


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


def _low_rank_step(law: Law, sample: Sample, expected: Expected) -> Law:
    """One step of expectation-maximisation for a low rank: a regression on z and 1 for every feature."""
    patterns, r, d = sample.patterns, law.rank, len(law.mean)
    Y, Z, prior, (rows, columns) = sample.Y, expected.Z, sample.prior, law.triangle
    system = np.zeros((d, r + 1, r + 1))
    system[:, rows, columns] = system[:, columns, rows] = expected.total
    right = np.zeros((d, r + 1))
    right[:, :r], right[:, r] = Y.T @ Z, Y.sum(axis=0)
    count = patterns.counts @ patterns.known
    system[:, r, :r] = system[:, :r, r] = patterns.known.T.astype(np.float64) @ patterns.sums(Z)
    system[:, r, r] = np.maximum(count, 1.0)
    if prior:
        G = law.posteriors(np.ones((1, d), dtype=bool))[0]
        B = (law.loadings / law.noise[:, None]) @ G
        system[:, :r, :r] += prior * (G + B.T @ B)
        right[:, :r] += prior * B
    solved = np.linalg.solve(system, right[..., None])[..., 0].astype(np.float64, copy=False)
    squares = np.einsum("nd,nd->d", Y, Y) + prior
    noise = (squares - np.einsum("dr,dr->d", solved, right)) / np.maximum(count + prior, 1e-300)
    moved = _moved(law, solved[:, r], sample)
    return Law(moved.mean, law.scale, np.ascontiguousarray(solved[:, :r]), np.maximum(noise, OWN))
