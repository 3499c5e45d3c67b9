r"""The design of rows that miss values, under a normal law of the features.

    m = Σ_O w·E x̃ + Σ_M w·x̂ + b          v = v_noise of what is known + w_Mᵀ S_M w_M

What is known is the design of the noise on X with 0 for NaN; what is missing adds a sparse matrix of the x̂
to the means, and one variance for every pattern of missing values. The noise does not touch x̂.
"""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marginout._core import interfaces
from marginout._core.design.storage import Design, make_design
from marginout._core.gaussian import HiddenVariance, Law, Patterns
from marginout._core.interfaces import Array, Columns
from marginout._core.validation import check_features
from marginout.noise import Noise


class ConditionalDesign(interfaces.Design):
    """The noise on what is known, and the conditional law of what is missing."""

    dependent = True
    noiseless = False

    def __init__(self, X: NDArray[Any], noise: Noise, law: Law, base: Design, filled: Any = None) -> None:
        missing = np.isnan(X)
        #: X with conditional means, and as it was given.
        self.X, self.given = law.fill(X) if filled is None else filled, X
        self.base = base
        self.n, self.d, self.nnz = self.base.n, self.base.d, X.size
        rows = np.flatnonzero(missing.any(axis=1))
        self._rows, self._patterns = rows, Patterns(~missing[rows])
        # The solvers' offset holds the noise's shift of all features.
        hidden = np.where(missing, self.X.astype(np.float64) - noise.shift(self.d), 0.0)
        self._hidden = sp.csr_array(hidden)
        self._variance = HiddenVariance(law, self._patterns)

    @property
    def coefficient(self) -> Array:
        """How heavy the noise is, for a search."""
        return self.base.coefficient

    @property
    def _excess(self) -> Array:
        """Additive noise is on what is missing, too, in the design of what is known."""
        return self.base.coefficient if self.base.power == 0 else np.zeros(self.d)

    def arrays(self) -> list[NDArray[Any]]:
        """X as it was given, and with conditional means."""
        return [self.given, self.X]

    def under(self, noise: Noise) -> Self:
        """The design under a noise of shift 0, if this one was made without any; else itself."""
        return self._on(self.base.under(noise))

    def with_factors(self, factors: Array) -> Self:
        """The same design for outputs that each have a noise of their own: its variance times a factor."""
        return self._on(self.base.with_factors(factors))

    def select(self, columns: Columns) -> Self:
        return self._on(self.base.select(columns))

    def take(self, rows: slice | NDArray[np.intp]) -> Self:
        """The same design for a copy of some of the examples."""
        design = self._on(self.base.take(rows))
        design.X, design.given, design._hidden = self.X[rows], self.given[rows], self._hidden[rows]
        design.n = design.base.n
        design.nnz = design.X.size
        place = np.full(self.n, -1)
        place[self._rows] = self._patterns.index
        own = place[rows]
        design._rows = np.flatnonzero(own >= 0)
        design._patterns = Patterns(~self._variance.missing[own[design._rows]])
        design._variance = HiddenVariance(self._variance.law, design._patterns)
        return design

    def narrow(self) -> tuple[Self, slice]:
        return self, slice(None)

    def serial(self) -> Self:
        return self._on(self.base.serial())

    def reusing(self) -> Self:
        """The same design for a block: passes over what is known use buffers again, and little is kept."""
        design = self._on(self.base.reusing())
        design._variance = self._variance.forgetful()
        return design

    def threads(self, work: int) -> int:
        return self.base.threads(work)

    def far(self) -> bool:
        return self.base.far()

    def apply(self, P: Array) -> Array:
        return np.asarray(self.base.apply(P) + self._hidden @ P)

    def line(self, W: Array, P: Array) -> tuple[Array, Array, Array]:
        xp, vwp, vpp = self.base.line(W, P)
        xp += self._hidden @ P
        vwp[self._rows] += self._spread(W, P)
        vpp[self._rows] += self._spread(P, P)
        return xp, vwp, vpp

    def pullback(self, W: Array, dm: Array, dv: Array) -> Array:
        a = self._patterns.sums(dv[self._rows])
        back = self.base.pullback(W, dm, dv) + self._hidden.T @ dm + self._variance.backward(W, a)
        return np.asarray(back - 2.0 * W * self._overcounted(a))

    def diagonal(self, a: Array) -> tuple[Array, Array]:
        squares, variance = self.base.diagonal(a)
        own = self._patterns.sums(a[self._rows])
        squares = squares + self._hidden.multiply(self._hidden).T @ a
        return squares, variance + self._variance.diagonal(own) - self._overcounted(own)

    def gram(self, a: Array) -> Array:
        own = self._patterns.sums(a[self._rows, None])
        known = sp.csr_array(self.base.X) * self.base.scale
        cross = (known.T @ (self._hidden * a[:, None])).toarray()
        square = (self._hidden.T @ (self._hidden * a[:, None])).toarray()
        gram = self.base.gram(a) + cross + cross.T + square + self._variance.gram(own[:, 0])
        np.einsum("dd->d", gram)[...] -= self._overcounted(own)[:, 0]
        return np.asarray(gram)

    def kernel(self, weights: Array) -> Array:
        raise ValueError(
            "Woodbury's identity needs a diagonal variance, but missing features depend on one another: "
            "choose another form of the step."
        )

    def _spread(self, W: Array, P: Array) -> Array:
        """What the missing values add to V (W∘P), one row for every row that misses some."""
        each = self._variance.forward(W, P)
        if self._excess.any():
            each -= self.base.factors * (self._variance.missing @ (self._excess[:, None] * W * P))
        return np.asarray(each[self._patterns.index])

    def _overcounted(self, a: Array) -> Array:
        """Σ a times the additive noise of what is missing, (d, K)."""
        return np.asarray(self.base.factors * self._excess[:, None] * (self._variance.missing.T @ a))

    def _on(self, base: Design) -> Self:
        design = copy(self)
        design.base = base
        return design


def conditional_design(X: NDArray[Any], noise: Noise, law: Law, filled: Any = None) -> Any:
    """The design of dense X, in which NaN has the law's conditional moments; `filled` has them, if known."""
    missing = np.isnan(X)
    base = make_design(check_features(np.where(missing, X.dtype.type(0), X), noise), noise)
    return ConditionalDesign(X, noise, law, base, filled) if missing.any() else base
