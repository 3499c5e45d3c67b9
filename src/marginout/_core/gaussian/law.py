r"""The normal law x ~ N(μ, Σ) of the features, and of what is missing given what is known.

With x = μ + L z + ε, z ~ N(0, I_r) and ε ~ N(0, D), D diagonal, Σ = LLᵀ + D. Where O is known and M missing,

    A = I + L_Oᵀ D_O⁻¹ L_O,   G = A⁻¹,   E z = G L_Oᵀ D_O⁻¹ (x_O − μ_O)
    x̂_M = μ_M + L_M E z           S_M = L_M G L_Mᵀ + D_M

which are the textbook's Σ_MO Σ_OO⁻¹ (x_O − μ_O) and Σ_MM − Σ_MO Σ_OO⁻¹ Σ_OM. A and G depend on the pattern of
what is known alone. The A of many patterns are one matrix product: a row of zeros and ones for each, times
the products l_d l_dᵀ/D_d of every feature.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginout._core.gaussian.patterns import Patterns
from marginout._core.interfaces import Array
from marginout._core.threads import in_order, worker_threads

#: Numbers of the matrices G that are worked on at a time: 16 MB.
AT_ONCE = 2**21
#: Numbers of the matrices G that a law remembers, and that a conditional variance keeps: 64 MB and 256 MB.
REMEMBERED, KEPT = 2**23, 2**25


def times(G: Array, H: Array, patterns: Patterns, some: slice) -> Array:
    """G h of the rows of some patterns, each with its pattern's G; H is in the order of `patterns.rows`."""
    one, where, others = patterns.alone(some)
    out = np.empty_like(H)
    if len(one):
        each = G if len(one) == len(G) else G[one]
        out[where] = np.matmul(each, H[where, :, None])[:, :, 0]
    for i, own in others:
        out[own] = H[own] @ G[i].T
    return out


class Law:
    """x = μ + scale∘(L z + ε), with ε ~ N(0, D). A feature of scale 0 is constant.

    Parameters
    ----------
    mean, scale : (d,)
    loadings : (d, r), L in units of the scale
    noise : (d,), D in units of the squared scale, positive
    """

    def __init__(self, mean: Array, scale: Array, loadings: Array, noise: Array) -> None:
        self.mean, self.scale, self.loadings, self.noise = mean, scale, loadings, noise
        self._forget()

    def _forget(self) -> None:
        #: Numbers of the matrices G that are remembered, at most.
        self.room = REMEMBERED
        self._remembered: OrderedDict[bytes, Array] = OrderedDict()
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Array]:
        return {name: getattr(self, name) for name in ("mean", "scale", "loadings", "noise")}

    def __setstate__(self, state: dict[str, Array]) -> None:
        self.__dict__.update(state)
        self._forget()

    @property
    def one(self) -> Law:
        """The law of all rows: this one; see `ClassLaws`."""
        return self

    @property
    def rank(self) -> int:
        return int(self.loadings.shape[1])

    @cached_property
    def triangle(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows and columns of the lower triangle of G."""
        return np.tril_indices(self.rank)

    @cached_property
    def _places(self) -> NDArray[np.intp]:
        """Where every entry of G stands in its lower triangle, (r·r,)."""
        rows, columns = self.triangle
        places = np.zeros((self.rank, self.rank), dtype=np.intp)
        places[rows, columns] = places[columns, rows] = np.arange(len(rows))
        return places.ravel()

    @cached_property
    def _products(self) -> Array:
        """l_d l_dᵀ/D_d of every feature, the lower triangle, (d, r(r + 1)/2)."""
        rows, columns = self.triangle
        scaled = self.loadings / self.noise[:, None]
        return np.asarray(scaled[:, rows] * self.loadings[:, columns])

    def moved(self, shift: Array) -> Law:
        """The law with its mean moved, in units of its scale."""
        return Law(self.mean + self.scale * shift, self.scale, self.loadings, self.noise)

    def covariance(self) -> Array:
        """Σ, (d, d)."""
        inner = self.loadings @ self.loadings.T + np.diag(self.noise)
        return np.asarray(self.scale[:, None] * inner * self.scale)

    def standardised(self, X: Any) -> Array:
        """(x − μ)/scale, and 0 where x is missing or constant."""
        Y = (X - self.mean) / np.where(self.scale > 0, self.scale, np.inf)
        Y[np.isnan(Y)] = 0.0
        return np.asarray(Y)

    def precisions(self, known: NDArray[np.bool_]) -> Array:
        """A of some patterns, (u, r, r)."""
        packed = known.astype(np.float64) @ self._products
        A = packed.take(self._places, axis=1).reshape(len(known), self.rank, self.rank)
        np.einsum("uii->ui", A)[...] += 1.0
        return np.asarray(A)

    def posteriors(self, known: NDArray[np.bool_]) -> Array:
        """G of some patterns, (u, r, r)."""
        return np.asarray(np.linalg.inv(self.precisions(known)))

    def parts(self, patterns: Patterns) -> Iterator[tuple[slice, Array]]:
        """G of all patterns, so many at a time that memory stays small."""
        for some in self.slices(patterns):
            yield some, self._recalled(patterns.names[some], patterns.known[some])

    def slices(self, patterns: Patterns) -> list[slice]:
        """All patterns, so many at a time that memory stays small."""
        step = max(1, AT_ONCE // self.rank**2)
        return [slice(i, min(i + step, len(patterns))) for i in range(0, len(patterns), step)]

    def _recalled(self, names: list[bytes], known: NDArray[np.bool_]) -> Array:
        """G of some patterns; those seen lately are not computed again."""
        room = self.room // self.rank**2
        if len(names) > room:
            return self.posteriors(known)
        with self._lock:
            seen = {name: self._remembered[name] for name in names if name in self._remembered}
        new = [i for i, name in enumerate(names) if name not in seen]
        found = self.posteriors(known[new])
        if not seen:
            G = found
        else:
            G = np.empty((len(names), self.rank, self.rank))
            G[new] = found
            for i, name in enumerate(names):
                if name in seen:
                    G[i] = seen[name]
        with self._lock:
            for i, name in enumerate(names):
                self._remembered[name] = G[i].copy() if name not in seen else seen[name]
                self._remembered.move_to_end(name)
            while len(self._remembered) > room:
                self._remembered.popitem(last=False)
        return G

    def latent(self, Y: Array, patterns: Patterns) -> Array:
        """E z of standardised rows, (n, r)."""
        Z = Y @ (self.loadings / self.noise[:, None])
        for some, G in self.parts(patterns):
            rows = patterns.rows(some)
            Z[rows] = times(G, Z[rows], patterns, some)
        return np.asarray(Z)

    def explained(self, X: NDArray[Any]) -> tuple[Array, Array]:
        """X with conditional means, and log p(x_O), (n,), of standardised features, constants apart."""
        known = ~np.isnan(X)
        patterns, Y = Patterns(known), self.standardised(X)
        Z = Y @ (self.loadings / self.noise[:, None])
        with np.errstate(over="ignore", invalid="ignore"):  # of rows farther away than 1e154 deviations
            value = -np.einsum("nd,nd,d->n", Y, Y, 1.0 / self.noise)
            for some, G in self.parts(patterns):
                rows = patterns.rows(some)
                H = Z[rows]
                Z[rows] = E = times(G, H, patterns, some)
                own = np.linalg.slogdet(G)[1] - patterns.known[some] @ np.log(self.noise)
                value[rows] += np.einsum("nr,nr->n", H, E) + own[patterns.index[rows] - some.start]
        return np.where(known, X, self.mean + self.scale * (Z @ self.loadings.T)), 0.5 * value

    def components(self, X: NDArray[Any]) -> tuple[Array, list[NDArray[Any]]]:
        """What `ClassLaws` say of a class, for the one law: all rows are of it."""
        return np.zeros((len(X), 1)), [self.fill(X)]

    @property
    def laws(self) -> list[Law]:
        """This law alone; see `ClassLaws`."""
        return [self]

    def missing_covariance(self, missing: NDArray[np.bool_]) -> Array:
        """Σ of the covariances of what rows miss, (d, d), in units of the scale."""
        patterns = Patterns(~missing[missing.any(axis=1)])
        total = np.zeros((len(self.mean), len(self.mean)))
        for some, G in self.parts(patterns):
            total += self.summed_covariance(~patterns.known[some], G, patterns.counts[some])
        return total

    def fill(self, X: NDArray[Any]) -> NDArray[Any]:
        """X with conditional means for NaN; X itself where there are none."""
        return self._by_rows(X, self._filled, X.dtype)

    def variances(self, X: NDArray[Any]) -> NDArray[Any]:
        """The conditional variance of every missing value, and 0 of what is known, (n, d)."""
        return self._by_rows(np.isnan(X), self._variances, X.dtype)

    def draw(self, X: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        """X with draws from the conditional law for NaN."""
        missing = np.isnan(X)
        rows = np.flatnonzero(missing.any(axis=1))
        out, some = X.copy(), X[rows].astype(np.float64)
        patterns = Patterns(~missing[rows])
        Z = self.latent(self.standardised(some), patterns)
        E = rng.standard_normal(Z.shape)
        for part, G in self.parts(patterns):
            own, root = patterns.rows(part), np.asarray(np.linalg.cholesky(G))
            Z[own] += times(root, E[own], patterns, part)
        noise = rng.standard_normal(some.shape) * np.sqrt(self.noise)
        drawn = self.mean + self.scale * (Z @ self.loadings.T + noise)
        out[rows] = np.where(missing[rows], drawn, some).astype(X.dtype)
        return out

    def _filled(self, X: Array) -> Array:
        known = ~np.isnan(X)
        Z = self.latent(self.standardised(X), Patterns(known))
        return np.where(known, X, self.mean + self.scale * (Z @ self.loadings.T))

    def _variances(self, missing: NDArray[np.bool_]) -> Array:
        patterns = Patterns(~missing)
        out = np.empty(patterns.known.shape)
        for some, G in self.parts(patterns):
            out[some] = self.spread(G)
        out *= ~patterns.known * self.scale**2
        return np.asarray(out[patterns.index])

    def spread(self, G: Array) -> Array:
        """l_d·G l_d + D_d of some G and every feature, (u, d)."""
        rows, columns = self.triangle
        twice = np.where(rows == columns, 1.0, 2.0)
        squares = (self._products * self.noise[:, None]).T
        return np.asarray((G[:, rows, columns] * twice) @ squares + self.noise)

    def summed_covariance(self, missing: NDArray[np.bool_], G: Array, a: Array) -> Array:
        """Σ_u a_u (L G_u Lᵀ + D) where both features are missing, (d, d), in units of the scale."""
        total = np.diag((a @ missing) * self.noise)
        step = max(1, AT_ONCE // self.loadings.size)
        for start in range(0, len(G), step):
            some = slice(start, start + step)
            masked = missing[some, :, None] * self.loadings
            weighted = np.matmul(masked, G[some]) * a[some, None, None]
            total += np.tensordot(weighted, masked, axes=((0, 2), (0, 2)))
        return np.asarray(total)

    def _by_rows(self, X: NDArray[Any], work: Any, dtype: Any) -> NDArray[Any]:
        """`work` on the rows of X that miss values, in all threads; other rows are kept."""
        missing = X if X.dtype == bool else np.isnan(X)
        rows = np.flatnonzero(missing.any(axis=1))
        out = X.astype(dtype, copy=len(rows) > 0)
        size = max(256, AT_ONCE // (4 * X.shape[1]))
        threads = worker_threads(len(rows) * X.shape[1] * self.rank)
        count = max(1, -(-len(rows) // size), min(threads, len(rows)))
        pieces = np.array_split(rows, count) if len(rows) else []

        def run(some: NDArray[np.intp]) -> None:
            out[some] = work(X[some] if X.dtype == bool else X[some].astype(np.float64))

        for _ in in_order(run, pieces, threads if len(pieces) > 1 else 1):
            pass
        return out
