r"""Designs whose features are corrupted in groups: the variance of a score is no longer diagonal.

With s_ng = w_g·m_ng, the part that group g has in example n's score,

    v_n = Σ_g κ_g s_ng²        ∂v_n/∂w_d = 2 κ_g s_ng m_nd        Var = Σ_g κ_g M_gᵀ diag(a) M_g

and the rest is as in `storage`. Still one pass over X, and no copy of it: a row's sums s fit into
a line of one number per group.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marginout._core.design.storage import (
    BLOCK_ENTRIES,
    DESIGNS,
    CsrDesign,
    DenseDesign,
    Design,
    centred,
)
from marginout._core.interfaces import Array, Columns
from marginout._core.validation import csr_arrays
from marginout._kernels import _groups
from marginout.noise import Noise

#: Entries of X that every entry of the groups' blocks must be worth.
BLOCK_WORTH = 8
#: Features of a group, on average, below which BLAS is not worth a call for each.
SMALL_GROUP = 16
#: Features of the largest group up to which sums run over the groups at once: the first feature of every
#: group, then the second, and so on.
DEEPEST = 64
#: Rows for every feature of a group that show how they go together; of more, every SPARSEST-th at least.
SAMPLE, SPARSEST = 100, 8
#: Most entries of the blocks of features far from zero, or in blocks of examples, for each problem: 8 MB.
HEAVIEST = 2**20
#: Sums over groups that are formed at a time: 8 MB.
SLOPES = 2**20
#: Added to the unit diagonal of a block before it is inverted; more where its centre was taken out.
JITTER = 1e-12


class Blocks:
    """The blocks of groups of features, which group noise makes heavy.

    Without them, neighbouring pixels that vanish together take four times the iterations.
    """

    def __init__(
        self, members: list[NDArray[np.intp]], inverses: list[Array], mean: Array | None = None
    ) -> None:
        # Of all groups of a size: (count, size) and (count, K, size, size).
        self._members, self._inverses = members, inverses
        self.mean = mean

    def solve(self, G: Array) -> Array:
        S = np.empty_like(G)
        for own, inverse in zip(self._members, self._inverses, strict=True):
            S[own] = np.matmul(inverse, G[own].transpose(0, 2, 1)[..., None])[..., 0].transpose(0, 2, 1)
        return S

    def select(self, columns: Columns) -> Blocks:
        inverses = [inverse[:, columns] for inverse in self._inverses]
        return Blocks(self._members, inverses, None if self.mean is None else self.mean[:, columns])


class Grouping:
    """Which features go together."""

    def __init__(self, groups: NDArray[np.intp]) -> None:
        self.groups = groups.astype(np.int32)
        self.sizes = np.bincount(groups)
        self.count = len(self.sizes)
        self.entries = int(self.sizes @ self.sizes)

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """The features, those of a group side by side."""
        return np.argsort(self.groups, kind="stable")

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """Where each group begins in this order."""
        return np.cumsum(self.sizes) - self.sizes

    @cached_property
    def members(self) -> list[NDArray[np.intp]]:
        """The features of every group."""
        return np.split(self.order, self.starts[1:])

    @cached_property
    def alike(self) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """The groups of every size, (count,), and their features, (count, size): thousands are one array."""
        sizes = [np.flatnonzero(self.sizes == size) for size in np.unique(self.sizes)]
        return [(own, self.order[self.starts[own][:, None] + np.arange(self.sizes[own[0]])]) for own in sizes]

    @cached_property
    def layers(self) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """The groups that have an i-th feature, and those features, for every i."""
        having = [np.flatnonzero(self.sizes > i) for i in range(int(self.sizes.max()))]
        return [(own, self.order[self.starts[own] + i]) for i, own in enumerate(having)]

    def step(self, n: int, nnz: int, far: bool = False) -> int:
        """Every how many-th of n rows shows how features go together; 0 if their blocks cost too much.

        Of features far from zero all rows are needed, and blocks are worth more: without them it may take
        a thousand iterations.
        """
        if far:
            return int(self.entries <= HEAVIEST)
        if BLOCK_WORTH * self.entries > nnz:
            return 0
        return min(max(1, n // (SAMPLE * int(self.sizes.max()))), SPARSEST)

    def centred(self, squares: Array, variance: Array, mean: Array, total: Array) -> tuple[Array, Array]:
        """The diagonal of the means and of the noise where the features' mean is taken out of both.

        Weights of a group that cancel each other feel no noise but that of the deviations: of features far
        from zero the noise's own diagonal says nothing about them.
        """
        apart = centred(squares, mean, total)
        alone = self.sizes[self.groups] == 1
        share = np.where(squares > 0, apart / np.where(squares > 0, squares, 1.0), 1.0)
        return apart, np.where(alone[:, None], variance, share * variance)

    def preconditioner(
        self, D: Array, diagonal: Array, grams: list[Array], centre: tuple[Array, Array] | None
    ) -> Blocks:
        """The groups' blocks of D + Mᵀdiag(a)M + Var, by the diagonal of the last two and a sample of rows.

        A `centre`, μ and Σa, is taken out of M: then the sample is all rows.
        """
        inverses = []
        for (_, own), block in zip(self.alike, grams, strict=True):
            heavy, least = (x[own].transpose(0, 2, 1) for x in (diagonal, D))
            jitter = np.full(heavy.shape, JITTER)
            if centre is not None:
                mean, total = centre[0][own].transpose(0, 2, 1), centre[1][:, None]
                block -= (total * mean)[..., None] * mean[..., None, :]
                apart = centred(heavy, mean, total)
                heavy, jitter = (
                    apart,
                    JITTER * np.where(apart > 0, heavy / np.where(apart > 0, apart, 1.0), 1.0),
                )
            # How features go together is seen in a sample of the rows; how large they are, in all.
            seen = np.einsum("gkii->gki", block).copy()
            unit = 1.0 / np.sqrt(np.where(seen > 0, seen, 1.0))
            part = np.sqrt(heavy / (least + heavy)) * unit
            block *= part[..., None] * part[..., None, :]
            # Scaled to a unit diagonal, features of any size can be inverted together.
            np.einsum("gkii->gki", block)[...] = 1.0 + jitter
            size = 1.0 / np.sqrt(least + heavy)
            inverses.append(size[..., None] * np.linalg.inv(block) * size[..., None, :])
        return Blocks([own for _, own in self.alike], inverses)


class GroupSums(Grouping):
    """The sums s = w_g·x_g over every row's groups, (rows, G, K), and their adjoint."""

    def __init__(self, X: Any, groups: NDArray[np.intp]) -> None:
        super().__init__(groups)
        self.X = X

    def forward(self, rows: slice, W: Array) -> Array:
        """s of some rows for weights W, (d, K)."""
        size = rows.stop - rows.start
        S = np.zeros((size, self.count, W.shape[1]))
        if sp.issparse(self.X):
            X, indices, indptr = self._csr
            W = np.ascontiguousarray(W)
            _groups.csr_sums(X, indices, indptr, rows.start, rows.stop, self.groups, W, S)
        else:
            self.block_forward(self.X[rows], W, S)
        return S

    def backward(self, rows: slice, D: Array, G: Array) -> None:
        """G += ∂/∂W of Σ D∘s."""
        if sp.issparse(self.X):
            X, indices, indptr = self._csr
            D = np.ascontiguousarray(D)
            _groups.csr_sums_back(X, indices, indptr, rows.start, rows.stop, self.groups, D, G)
        else:
            self.block_backward(self.X[rows], D, G)

    def empty(self, rows: int, K: int) -> Array:
        """Room for s, (rows, G, K), in which a problem's sums lie side by side."""
        return np.empty((K, rows, self.count)).transpose(1, 2, 0)

    def block_forward(self, block: Array, W: Array, S: Array) -> None:
        """Sets: S, of a dense block of rows."""
        if len(self.order) >= SMALL_GROUP * self.count:
            for g, own in enumerate(self.members):
                np.matmul(block[:, own], W[own], out=S[:, g])
        elif self.sizes.max() > DEEPEST:
            for k in range(W.shape[1]):
                np.add.reduceat((block * W[:, k])[:, self.order], self.starts, axis=1, out=S[:, :, k])
        else:
            parts = [(own, features, block[:, features]) for own, features in self.layers]
            for k in range(W.shape[1]):
                for own, features, part in parts:
                    if features is parts[0][1]:
                        np.multiply(part, W[features, k], out=S[:, :, k])
                    elif len(own) == self.count:
                        S[:, :, k] += part * W[features, k]
                    else:
                        S[:, own, k] += part * W[features, k]

    def block_backward(self, block: Array, D: Array, G: Array) -> None:
        """G += ∂/∂W of Σ D∘s of a dense block of rows."""
        if len(self.order) < SMALL_GROUP * self.count:
            for k in range(G.shape[1]):
                G[:, k] += np.einsum("nd,nd->d", block, D[:, self.groups, k])
        else:
            for g, own in enumerate(self.members):
                G[own] += block[:, own].T @ D[:, g]

    @cached_property
    def _csr(self) -> tuple[Any, ...]:
        return csr_arrays(self.X)


class GroupDesign(Design):
    """What group designs share: the coefficient of every group, and how the variance enters a matrix."""

    dependent = True

    def __init__(self, X: Any, noise: Noise) -> None:
        super().__init__(X, noise)
        assert self.groups is not None
        self.sums = GroupSums(self.X, self.groups)
        self.group_kappa = np.zeros(self.sums.count)
        self.group_kappa[self.groups] = self.coefficient

    @property
    def grouping(self) -> Grouping:
        return self.sums

    def group_grams(self, a: Array, step: int) -> list[Array]:
        variances = self.group_kappa[:, None] * np.broadcast_to(self.factors, a.shape[1])
        grams = self._group_grams(a, step)
        for (groups, _), gram in zip(self.sums.alike, grams, strict=True):
            gram *= (1.0 + variances[groups])[:, :, None, None]
        return grams

    def _add_spread(self, H: Array, dv: Array) -> None:
        variances = 2 * self.group_kappa[:, None] * np.broadcast_to(self.factors, dv.shape[1])
        for (groups, own), gram in zip(self.sums.alike, self._group_grams(dv, 1), strict=True):
            blocks = (gram * variances[groups][:, :, None, None]).transpose(1, 0, 2, 3)
            H[:, own[:, :, None], own[:, None, :]] += blocks

    def _slopes(self, x: Array, w: Array) -> Array:
        S = np.empty((len(x), self.sums.count, 1))
        self.sums.block_forward(x, w[:, None], S)
        return x * (2 * self.group_kappa * S[:, :, 0])[:, self.sums.groups]

    def _row_slopes(self, w: Array) -> Array:
        x, indices, indptr = csr_arrays(self.X)
        out = np.empty(len(x))
        step = max(1, SLOPES // self.sums.count)
        for i in range(0, self.n, step):
            rows = slice(i, min(i + step, self.n))
            S = 2 * self.group_kappa * self.sums.forward(rows, w[:, None])[:, :, 0]
            own = slice(indptr[rows.start], indptr[rows.stop])
            number = np.repeat(np.arange(len(S)), np.diff(indptr[rows.start : rows.stop + 1]))
            out[own] = x[own] * S[number, self.sums.groups[indices[own]]]
        return out

    def kernel(self, weights: Array) -> Array:
        raise ValueError(
            "Woodbury's identity needs a diagonal variance, but features are corrupted in groups: choose "
            "another form of the step."
        )

    @abstractmethod
    def _group_grams(self, a: Array, step: int) -> list[Array]:
        """M_gᵀdiag(a_k)M_g of all groups of a size, each (count, K, size, size), over every step-th row."""

    def _add_variance(self, gram: Array, a: Array) -> Array:
        # Within a group the variance is κ times the Gram matrix itself.
        gram *= self.scale[:, None] * self.scale
        for own, kappa in zip(self.sums.members, self.group_kappa, strict=True):
            gram[np.ix_(own, own)] *= 1.0 + kappa
        return gram


class GroupCsrDesign(GroupDesign, CsrDesign):
    """Rows of non-zeros, passed over by the compiled kernels."""

    def _line(self, W: Array, P: Array) -> tuple[Array, Array, Array]:
        K = W.shape[1]
        xp, vwp, vpp = self.scores(3, K)
        threads = self.threads(self.nnz * K)
        room = np.zeros((threads, 8 * self.sums.count))
        _groups.csr_line(
            *self._csr, self.sums.groups, self.group_kappa, np.hstack([W, P]), xp, vwp, vpp, room, threads
        )
        return xp, vwp, vpp

    def _pullback(self, W: Array, dm: Array, dv: Array) -> Array:
        parts = self._parts(W.shape[1])
        U, dm, dv = map(np.ascontiguousarray, (2 * self.coefficient[:, None] * W, dm, dv))
        room = np.zeros((len(parts), 4 * self.sums.count))
        _groups.csr_pullback(*self._csr, self.sums.groups, U, dm, dv, parts, room, len(parts))
        return self._sum(parts)

    def _group_grams(self, a: Array, step: int) -> list[Array]:
        sizes = np.array([len(own) for own in self.sums.members], dtype=np.int32)
        ends = np.cumsum(sizes.astype(np.int64) ** 2)
        rank = np.empty(self.d, dtype=np.int32)
        for own in self.sums.members:
            rank[own] = np.arange(len(own))
        K = a.shape[1]
        threads = self.threads(self.nnz * K // step)
        parts = np.zeros((threads, ends[-1], K))
        first = np.full((threads, len(sizes)), -1, dtype=np.int64)
        following = np.empty((threads, self.d), dtype=np.int64)
        _groups.csr_blocks(
            *self._csr, self.sums.groups, ends - sizes.astype(np.int64) ** 2, rank, sizes,
            np.ascontiguousarray(a), parts, first, following, step, threads,
        )  # fmt: skip
        flat, corner = self._sum(parts), ends - sizes.astype(np.int64) ** 2
        grams = []
        for groups, own in self.sums.alike:
            count, size = own.shape
            half = flat[corner[groups][:, None] + np.arange(size * size)].transpose(0, 2, 1)
            half = half.reshape(count, K, size, size)
            np.einsum("gkii->gki", half)[...] *= 0.5
            scale = self.scale[own][:, None]
            grams.append((half + half.transpose(0, 1, 3, 2)) * (scale[..., None] * scale[..., None, :]))
        return grams


class GroupDenseDesign(GroupDesign, DenseDesign):
    """Blocks of rows, copied to float64 one at a time; every group's columns are multiplied by BLAS."""

    def _line(self, W: Array, P: Array) -> tuple[Array, Array, Array]:
        K = W.shape[1]
        out = np.empty((self.n, K)), np.empty((self.n, K)), np.empty((self.n, K))
        both = np.hstack([W, P])

        def work(rows: slice, block: Array) -> None:
            S = self.sums.empty(len(block), 2 * K)
            self.sums.block_forward(block, both, S)
            along = S[..., K:] * self.group_kappa[:, None]
            out[0][rows] = S[..., K:].sum(axis=1)
            np.einsum("ngk,ngk->nk", along, S[..., :K], out=out[1][rows])
            np.einsum("ngk,ngk->nk", along, S[..., K:], out=out[2][rows])

        self._each_block(work, K)
        return out

    def _pullback(self, W: Array, dm: Array, dv: Array) -> Array:
        U = 2 * self.coefficient[:, None] * W

        def work(rows: slice, block: Array) -> Array:
            D = self.sums.empty(len(block), W.shape[1])
            self.sums.block_forward(block, U, D)
            D *= dv[rows, None]
            D += dm[rows, None]
            G = np.zeros_like(W, order="C")
            self.sums.block_backward(block, D, G)
            return G

        total = self._each_block(work, W.shape[1])
        assert total is not None
        return total

    def _group_grams(self, a: Array, step: int) -> list[Array]:
        X, a = self.X[::step], a[::step]
        grams = []
        for _, own in self.sums.alike:
            count, size = own.shape
            gram = np.zeros((count, a.shape[1], size, size))
            rows = max(1, BLOCK_ENTRIES // own.size)
            for i in range(0, len(X), rows):
                part = (X[i : i + rows, own.ravel()] * self.scale[own.ravel()]).reshape(-1, count, size)
                part = np.ascontiguousarray(part.transpose(1, 2, 0))
                for k, each in enumerate(a[i : i + rows].T):
                    gram[:, k] += np.matmul(part * each, part.transpose(0, 2, 1))
            grams.append(gram)
        return grams


DESIGNS |= {(True, False): GroupDenseDesign, (True, True): GroupCsrDesign}
