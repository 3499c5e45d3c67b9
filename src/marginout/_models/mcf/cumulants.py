"""Cumulants of the noisy scores: L_n(t) = Σ_d log E exp(t_d x̃_nd), a sum of log-MGFs.

The sum is over the features, or over groups of features that are corrupted together. Each class is for one
kind of noise or data. L is convex in t, stays in the log domain, and is +inf where the noise has no MGF.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marginout._core.design.groups import GroupSums
from marginout._core.design.storage import BLOCK_ENTRIES, Design, linear_scores
from marginout._core.interfaces import Array
from marginout._core.threads import worker_threads
from marginout._kernels import _mgf
from marginout.noise import Deletion, Noise

#: Multiplications that cost as much as one exponential.
WORTH = 10
#: Places in a table of columns × possible counts, for each entry of X, at most.
TABLE = 8
#: Entries of X for each distinct entry, at least, for a table of these to pay: binary and joint problems.
ENTRIES, JOINT_ENTRIES = 2, 8
#: Logarithm of the largest product of MGFs that is formed: well within the range of doubles.
REACH = 600.0


@dataclass(frozen=True)
class Coding:
    """The contrasts of an example of class c: t_k = a_ck w_k − joint·w_c, for the weights of K scores.

    Joint problems have a = 1.
    """

    classes: NDArray[np.int64]
    a: Array
    joint: bool

    def contrast(self, W: Array, c: int) -> Array:
        """The contrasts (d, K) of class c."""
        return np.asarray(self.a[c] * W - W[:, [c]] if self.joint else self.a[c] * W)

    def add_gradient(self, c: int, G: Array, total: Array) -> None:
        """Add to `total`, ∂/∂W, the part of the gradient G = ∂/∂t of class c."""
        total += self.a[c] * G
        if self.joint:
            total[:, c] -= G.sum(axis=1)


class Cumulants(ABC):
    """L of every example at its contrasts, and the adjoint of its derivative.

    Results at W may be kept for the next call: another W is always another array.
    """

    def __init__(self, design: Design, noise: Noise, coding: Coding) -> None:
        self.design, self.noise, self.coding = design, noise, coding
        self.n, self.d = design.n, design.d

    @abstractmethod
    def forward(self, W: Array) -> Array:
        """L, (n, K): one pass over X."""

    @abstractmethod
    def backward(self, W: Array, R: Array) -> Array:
        """The gradient of Σ R∘L in W, (d, K): one pass over X."""


def make_cumulants(design: Design, noise: Noise, coding: Coding) -> Cumulants:
    """The cumulants for the data and the noise of a design."""
    if noise.affine_mgf:
        return AffineCumulants(design, noise, coding)
    if design.groups is not None:
        return GroupCumulants(design, noise, coding)
    # Without noise there are no exponentials to be saved in a joint problem.
    counted = design.storage == "csr" and (not coding.joint or np.any(noise.survivors(design.d)[0]))
    kinds = distinct_counts(design) if counted else None
    if kinds is None or len(kinds.columns) * (JOINT_ENTRIES if coding.joint else ENTRIES) > design.nnz:
        return DeletionCumulants(design, noise, coding)
    return (JointCountCumulants if coding.joint else CountCumulants)(design, noise, coding, kinds)


class Counts(NamedTuple):
    """The distinct entries of a CSR matrix of counts, and for every entry which of them it is."""

    columns: NDArray[np.int64]
    values: Array
    numbers: NDArray[Any]


def distinct_counts(design: Design) -> Counts | None:
    """The distinct entries of X, stored as CSR; None if they are no whole numbers, or too large."""
    nnz = design.nnz
    if not nnz:
        return None
    data, indices = (part[:nnz] for part in design.rows[:2])
    low, high = data.min(), data.max()
    if high - low >= TABLE * nnz:
        return None
    width = int(high - low) + 1
    if design.d * width > TABLE * nnz or np.any(data != np.rint(data)):
        return None
    key = indices.astype(np.int64) * width + (data - low).astype(np.int64)
    present = np.zeros(design.d * width, dtype=bool)
    present[key] = True
    kinds = np.flatnonzero(present)
    number = np.cumsum(present, dtype=indices.dtype) - 1
    return Counts(kinds // width, np.asarray(float(low) + kinds % width, np.float64), number[key])


class DeletionCumulants(Cumulants):
    """Features that are deleted or survive, each on its own: compiled passes over X."""

    #: The pass over X, by its storage.
    PASSES: ClassVar[dict[str, Any]] = {"csr": _mgf.csr_pass, "dense": _mgf.dense_pass}

    def __init__(self, design: Design, noise: Noise, coding: Coding) -> None:
        super().__init__(design, noise, coding)
        self._survivors = noise.survivors(self.d)

    def forward(self, W: Array) -> Array:
        S = np.zeros((self.n, W.shape[1]))
        threads = worker_threads(WORTH * self.design.nnz * W.shape[1])
        self._run(W, S, S.copy(), np.zeros((threads, 1, 1)), False, threads)
        return S

    def backward(self, W: Array, R: Array) -> Array:
        threads = worker_threads(WORTH * self.design.nnz * W.shape[1])
        G = np.zeros((threads, *W.shape))
        self._run(W, np.zeros_like(R), R, G, True, threads)
        return np.asarray(G.sum(axis=0))

    def _run(self, W: Array, S: Array, R: Array, G: Array, backward: bool, threads: int) -> None:
        design, coding = self.design, self.coding
        self.PASSES[design.storage](
            *design.rows, *self._survivors, coding.classes, coding.a, coding.joint,
            np.ascontiguousarray(W), S, np.ascontiguousarray(R), G, backward, threads,
        )  # fmt: skip


class CountCumulants(Cumulants):
    """Counts, few of them distinct in a column: each distinct entry's log-MGF is taken once.

    On 2,000 book reviews 184,408 entries are 10,363 different ones.
    """

    def __init__(self, design: Design, noise: Noise, coding: Coding, kinds: Counts) -> None:
        super().__init__(design, noise, coding)
        rate, factor = noise.survivors(self.d)
        self._columns, self._rate = kinds.columns, rate[kinds.columns]
        self._values = kinds.values * factor[kinds.columns]
        entries = np.ones(design.nnz), kinds.numbers, design.rows[2]
        members = sp.csr_array(entries, (self.n, len(kinds.columns)))
        rows = [np.flatnonzero(coding.classes == c) for c in range(len(coding.a))]
        self._classes = [(c, at, members[at]) for c, at in enumerate(rows) if at.size]
        self._last: tuple[Any, list[tuple[Array, Array, Array]]] = None, []

    def forward(self, W: Array) -> Array:
        S = np.zeros((self.n, 1))
        for (_, rows, members), (z, _, r) in zip(self._classes, self._terms(W), strict=True):
            with np.errstate(divide="ignore"):
                S[rows, 0] = members @ np.where(self._rate > 0, np.maximum(z, 0) + np.log(r), z)
        return S

    def backward(self, W: Array, R: Array) -> Array:
        G, q = np.zeros(self.d), self._rate
        for (c, rows, members), (z, e, r) in zip(self._classes, self._terms(W), strict=True):
            with np.errstate(invalid="ignore"):
                kept = np.where(q > 0, np.where(z > 0, 1.0, e) * (1 - q) / r, 1.0)
            slope = self._values * kept * self.coding.a[c, 0]
            G += np.bincount(self._columns, slope * (members.T @ R[rows, 0]), self.d)
        return G[:, None]

    def _terms(self, W: Array) -> list[tuple[Array, Array, Array]]:
        """z, exp(−|z|) and r of log M = max(z, 0) + log r, for every distinct entry at each class's contrast.

        A gradient is computed where the value just was: the last terms are kept.
        """
        if self._last[0] is not W:
            q, terms = self._rate, []
            for c, _, _ in self._classes:
                z = self._values * (self.coding.a[c, 0] * W[self._columns, 0])
                e = np.exp(-np.abs(z))
                terms.append((z, e, np.where(z > 0, q * e + (1 - q), q + (1 - q) * e)))
            self._last = W, terms
        return self._last[1]


class JointCountCumulants(DeletionCumulants):
    """Counts in joint problems: each distinct entry's exponentials are taken once, exp(t_k x) = E_k / E_c."""

    def __init__(self, design: Design, noise: Noise, coding: Coding, kinds: Counts) -> None:
        super().__init__(design, noise, coding)
        rate, factor = self._survivors
        self._kinds = kinds.columns, kinds.values * factor[kinds.columns], rate[kinds.columns]
        *_, indptr = design.rows
        self._entries = kinds.numbers.astype(indptr.dtype, copy=False), indptr
        with np.errstate(divide="ignore"):
            self._least = -np.log(self._kinds[2]), -np.log1p(-self._kinds[2])
        self._room = np.empty((len(kinds.columns), coding.a.shape[1])), np.empty(len(kinds.columns))
        self._last: tuple[Any, tuple[Array, Array] | None] = None, None

    def _run(self, W: Array, S: Array, R: Array, G: Array, backward: bool, threads: int) -> None:
        table = self._table(W)
        if table is None:
            super()._run(W, S, R, G, backward, threads)
            return
        (columns, values, rate), (reach, E) = self._kinds, table
        _mgf.kinds_pass(
            *self._entries, columns, values, rate, reach, E, self.coding.classes,
            S, np.ascontiguousarray(R), G, REACH, backward, threads,
        )  # fmt: skip

    def _table(self, W: Array) -> tuple[Array, Array] | None:
        """Largest |log| of each distinct entry's factor, and its E; None if one is too large.

        A gradient is computed where the value just was: the last table is kept.
        """
        if self._last[0] is not W:
            columns, values, _ = self._kinds
            E, spread = self._room
            self._last = None, None
            _mgf.kinds_table(columns, values, np.ascontiguousarray(W), E, spread)
            deleted, kept = self._least
            reach = np.maximum(spread, np.minimum(deleted, spread + kept))
            self._last = W, (reach, E) if reach.max() <= REACH else None
        return self._last[1]


class AffineCumulants(Cumulants):
    """Noises whose log-MGF is affine in x, log M(t, x) = log M(t, 0) + x·slope(t): matrix products."""

    def __init__(self, design: Design, noise: Noise, coding: Coding) -> None:
        super().__init__(design, noise, coding)
        self._block = max(16, BLOCK_ENTRIES * self.n // max(design.nnz, 1))

    def forward(self, W: Array) -> Array:
        S = np.zeros((self.n, W.shape[1]))
        for c, blocks in self._blocks():
            T = self.coding.contrast(W, c).T
            at_zero = self.noise.log_mgf(T, np.zeros(self.d))
            at_one = self.noise.log_mgf(T, np.ones(self.d))
            if not (np.isfinite(at_zero).all() and np.isfinite(at_one).all()):
                return np.full_like(S, np.inf)
            slope, base = (at_one - at_zero).T, at_zero.sum(axis=1)
            for rows in blocks:
                S[rows] = linear_scores(self.design.X[rows], slope) + base
        return S

    def backward(self, W: Array, R: Array) -> Array:
        total = np.zeros_like(W)
        for c, blocks in self._blocks():
            T = self.coding.contrast(W, c).T
            at_zero = self.noise.tilted_mean(T, np.zeros(self.d)).T
            slope = self.noise.tilted_mean(T, np.ones(self.d)).T - at_zero
            back, weight = np.zeros_like(W), np.zeros(W.shape[1])
            for rows in blocks:
                back += self.design.X[rows].T @ R[rows]
                weight += R[rows].sum(axis=0)
            self.coding.add_gradient(c, slope * back + at_zero * weight, total)
        return total

    def _blocks(self) -> Iterator[tuple[int, list[NDArray[np.intp]]]]:
        """The rows of every class, few at a time: X is not copied as a whole."""
        for c in range(len(self.coding.a)):
            rows = np.flatnonzero(self.coding.classes == c)
            if rows.size:
                yield c, np.array_split(rows, -(-rows.size // self._block))


class GroupCumulants(Cumulants):
    """Features that are deleted in groups: L = Σ_g log(q_g + (1 − q_g) exp(t_g·x_g)), x with its factor."""

    def __init__(self, design: Design, noise: Noise, coding: Coding) -> None:
        super().__init__(design, noise, coding)
        assert design.groups is not None
        self._sums = GroupSums(design.X, design.groups)
        rate, self._factor = noise.survivors(self.d)
        self._law = Deletion([rate[own[0]] for own in self._sums.members])

    def forward(self, W: Array) -> Array:
        S = np.empty((self.n, W.shape[1]))
        for rows, Z in self._contrasts(W):
            S[rows] = self._law.log_mgf(Z, 1.0).sum(axis=2)
        return S

    def backward(self, W: Array, R: Array) -> Array:
        total, own = np.zeros_like(W, order="C"), self.coding.classes
        for rows, Z in self._contrasts(W):
            D = R[rows, :, None] * self._law.tilted_mean(Z, 1.0)
            back = self.coding.a[own[rows], :, None] * D
            if self.coding.joint:
                back[np.arange(len(D)), own[rows]] -= D.sum(axis=1)
            self._sums.backward(rows, back.transpose(0, 2, 1), total)
        return self._factor[:, None] * total

    def _contrasts(self, W: Array) -> Iterator[tuple[slice, Array]]:
        """The part of every group in every contrast, (rows, K, G), some rows at a time."""
        W, own = self._factor[:, None] * W, self.coding.classes
        size = max(1, BLOCK_ENTRIES // (W.shape[1] * self._sums.count))
        for i in range(0, self.n, size):
            rows = slice(i, min(i + size, self.n))
            Z = self._sums.forward(rows, W).transpose(0, 2, 1)
            contrast = self.coding.a[own[rows], :, None] * Z
            if self.coding.joint:
                contrast -= Z[np.arange(len(Z)), own[rows]][:, None]
            yield rows, contrast
