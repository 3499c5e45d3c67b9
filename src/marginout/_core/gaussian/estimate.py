r"""Estimate the law of the features from rows in which values may be missing.

In units of each feature's deviation, the law of highest

    Σ_n log N(x_n,O; μ_O, Σ_OO) − ½ν (log|Σ| + tr Σ⁻¹)

is as if ν more rows had been seen whose features go their own ways. Where nothing is missing and Σ is any
matrix, Σ = (1 − ρ)S + ρI with ρ = ν/(n + ν): the shrinkage of Ledoit and Wolf towards the diagonal. Its ρ is
that of Schäfer and Strimmer (2005), and each pair of features uses the rows where both are known:

    ρ = Σ_{i≠j} Var r_ij / Σ_{i≠j} r_ij²

All else is found by expectation-maximisation: no step lowers the sum above.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from marginout._core.gaussian.law import Law
from marginout._core.gaussian.patterns import Patterns
from marginout._core.interfaces import Array

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
    """Standardised rows, 0 where missing; `n` rows that are as many in truth. Centred rows have mean 0."""

    Y: Array
    patterns: Patterns
    counts: Array
    n: int
    centred: bool


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
    law = Law(mean, scale, np.zeros((len(mean), 1)), np.ones(len(mean)))
    Y = law.standardised(X)
    live = known & (scale > 0)
    rho = _shrinkage(Y, live) if shrinkage is None else shrinkage
    prior = len(X) * rho / (1.0 - rho)
    d = len(mean)
    full = d <= FULL if rank is None else rank >= d
    whole = bool(known.all())
    sample = _complete(Y) if whole else Sample(Y, Patterns(known), Patterns(known).counts, len(X), False)
    if full:
        law = _full(law, (Y.T @ Y + prior * np.eye(d)) / (len(X) + prior))
        step = _full_step
    else:
        law = _start(law, Y, min(rank or FULL, max(1, len(X) - 1), d))
        step = _low_rank_step
    history = [likelihood(law, sample, prior)]
    if full and whole:
        return Estimate(law, rho, history, True)
    gain = tol * max(1, int(known.sum()))
    for _ in range(max_iter):
        law = step(law, sample, prior)
        history.append(likelihood(law, sample, prior))
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


def _shrinkage(Y: Array, known: NDArray[np.bool_]) -> float:
    """ρ of standardised rows, each pair of features by the rows where both are known."""
    seen = known.astype(np.float64)
    pairs = seen.T @ seen
    np.fill_diagonal(pairs, 0.0)
    some = pairs > 1
    count = np.where(some, pairs, 2.0)
    r = np.where(some, Y.T @ Y / count, 0.0)
    squares = Y * Y
    spread = np.where(some, (squares.T @ squares / count - r * r) / (count - 1.0), 0.0)
    total = float((r * r).sum())
    return float(np.clip(spread.sum() / total, OWN, MOST)) if total > 0 else MOST


def _complete(Y: Array) -> Sample:
    """Rows that miss nothing: of many, d that have the same second moments."""
    n, d = Y.shape
    patterns = Patterns(np.ones((min(n, d), d), dtype=bool))
    rows = np.asarray(np.linalg.qr(Y, mode="r")) if n > d else Y
    return Sample(rows, patterns, np.array([float(n)]), n, True)


def _full(law: Law, S: Array) -> Law:
    """The law of covariance S, in units of its scale."""
    values, vectors = np.linalg.eigh(S)
    own = max(0.5 * float(values[0]), OWN)
    loadings = vectors * np.sqrt(np.maximum(values - own, 0.0))
    return Law(law.mean, law.scale, loadings, np.full(len(S), own))


def _start(law: Law, Y: Array, rank: int) -> Law:
    """The law of the first principal components."""
    _, values, vectors = randomized_svd(Y, rank, power_iteration_normalizer="QR", random_state=0)
    values = values**2 / len(Y)
    rest = max(float((Y * Y).sum() / len(Y) - values.sum()) / max(1, len(law.mean) - rank), 0.0)
    loadings = vectors.T * np.sqrt(np.maximum(values - rest, 0.0))
    noise = np.maximum(1.0 - (loadings * loadings).sum(axis=1), START)
    return Law(law.mean, law.scale, loadings, noise)


def likelihood(law: Law, sample: Sample, prior: float) -> float:
    """What the steps raise, in units of each feature's deviation, 2π apart."""
    H = sample.Y @ (law.loadings / law.noise[:, None])
    logs, value = np.log(law.noise), -float((sample.Y**2 / law.noise).sum())
    step = max(1, 2**22 // law.rank**2)
    for start in range(0, len(sample.patterns), step):
        some = slice(start, start + step)
        known = sample.patterns.known[some]
        roots = np.linalg.cholesky(law.precisions(known))
        twice = 2 * np.log(np.einsum("uii->ui", roots)).sum(axis=1)
        value -= float(sample.counts[some] @ (known @ logs + twice))
        for rows, root in zip(sample.patterns.rows[some], roots, strict=True):
            half = np.linalg.solve(root, H[rows].T)
            value += float((half * half).sum())
    if prior:
        everything = np.ones((1, len(law.noise)), dtype=bool)
        G = law.posteriors(everything)[0]
        B = law.loadings / law.noise[:, None]
        trace = float((1.0 / law.noise).sum() - np.einsum("dr,rs,ds->", B, G, B))
        value -= prior * (trace + float(logs.sum()) - float(np.linalg.slogdet(G)[1]))
    return 0.5 * value


def _moved(law: Law, shift: Array, sample: Sample) -> Law:
    """The law with its mean moved, in units of its scale; the rows move with it."""
    missing = ~sample.patterns.known[sample.patterns.index]
    sample.Y[...] -= shift
    sample.Y[missing] = 0.0
    return Law(law.mean + law.scale * shift, law.scale, law.loadings, law.noise)


def _full_step(law: Law, sample: Sample, prior: float) -> Law:
    """One step of expectation-maximisation, where Σ is any matrix."""
    patterns = sample.patterns
    Z = law.latent(sample.Y, patterns)
    missing = ~patterns.known[patterns.index]
    filled = np.where(missing, Z @ law.loadings.T, sample.Y)
    spread = np.zeros((len(law.mean), len(law.mean)))
    for some, G in law.parts(patterns):
        spread += law.summed_covariance(~patterns.known[some], G, sample.counts[some])
    shift = filled.mean(axis=0)
    filled -= shift
    S = (filled.T @ filled + spread + prior * np.eye(len(spread))) / (sample.n + prior)
    return _full(_moved(law, shift, sample), S)


def _low_rank_step(law: Law, sample: Sample, prior: float) -> Law:
    """One step of expectation-maximisation for a low rank: a regression on z and 1 for every feature."""
    patterns, r, d = sample.patterns, law.rank, len(law.mean)
    Y, rows, columns = sample.Y, *np.tril_indices(r)
    Z = Y @ (law.loadings / law.noise[:, None])
    inner = np.zeros((d, len(rows)))
    for some, G in law.parts(patterns):
        Q = G * sample.counts[some, None, None]
        for own, each, second in zip(patterns.rows[some], G, Q, strict=True):
            Z[own] = Z[own] @ each
            second += Z[own].T @ Z[own]
        inner += patterns.known[some].T.astype(np.float64) @ Q[:, rows, columns]
    system = np.zeros((d, r + 1, r + 1))
    system[:, rows, columns] = inner
    system[:, columns, rows] = inner
    right = np.zeros((d, r + 1))
    right[:, :r] = Y.T @ Z
    count = sample.counts @ patterns.known
    if not sample.centred:
        right[:, r] = Y.sum(axis=0)
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
