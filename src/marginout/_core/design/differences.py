"""Differences of scores: the design of joint losses of several classes.

Example n of class y has, for every output k of a problem,

    m_nk = M_n (w_k − w_y),     v_nk = V_n (w_k − w_y)²,     both 0 for k = y.

The examples of class c are a part of their own. One pass over it, with W − w_c·1ᵀ instead of W, gives both:
all parts together take as many multiplications as scores do. Offsets are added to every output as elsewhere,
so that m_nk − m_ny is the difference of scores with their offsets.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from marginout._core import interfaces
from marginout._core.design.groups import Grouping
from marginout._core.design.storage import Design
from marginout._core.interfaces import Array, Columns


@dataclass(frozen=True)
class Part:
    """The examples of one class: a design of the features that they have."""

    label: int
    rows: slice
    design: Design
    features: NDArray[np.intp] | slice

    def differences(self, W: Array, R: int) -> Array:
        """w_k − w_y of the part's features and class, for every problem."""
        each = W[self.features].reshape(-1, W.shape[1] // R, R)
        return np.ascontiguousarray((each - each[:, :, self.label, None]).reshape(-1, W.shape[1]))


class Differences(interfaces.Design):
    """Differences of scores of a design's examples, sorted by class.

    Parameters
    ----------
    design : Design
    labels : (n,) in ascending order
        The class of every example, 0 … outputs − 1, after sorting.
    order : (n,)
        Which example comes where.
    outputs : int
        The number of classes.
    """

    def __init__(
        self, design: Design, labels: NDArray[np.intp], order: NDArray[np.intp], outputs: int
    ) -> None:
        self.n, self.d, self.nnz, self.noiseless = design.n, design.d, design.nnz, design.noiseless
        self.grouping: Grouping | None = design.grouping
        self._R, self._far = outputs, design.far()
        self._base: Design | None = design
        self.classes = order, np.searchsorted(labels, np.arange(outputs + 1))

    @cached_property
    def _parts(self) -> list[Part]:
        assert self._base is not None
        assert self.classes is not None
        order, edges = self.classes
        rows = [slice(*map(int, edges[label : label + 2])) for label in range(self._R)]
        return [
            Part(label, own, *self._base.take(order[own]).narrow())
            for label, own in enumerate(rows)
            if own.stop > own.start
        ]

    def __getstate__(self) -> dict[str, Any]:
        """What a file or another process is given has X once: in parts."""
        return {**self.__dict__, "_parts": self._parts, "_base": None}

    def table(self) -> tuple[Any, ...] | None:
        return None if self._base is None else self._base.table()

    def line(self, W: Array, P: Array) -> tuple[Array, Array, Array]:
        out = self.scores(3, W.shape[1])
        for part in self._parts:
            start = part.differences(W, self._R)
            along = start if P is W else part.differences(P, self._R)
            for whole, own in zip(out, part.design.line(start, along), strict=True):
                whole[part.rows] = own
        mean, cross, square = out
        return mean, cross, square

    def pullback(self, W: Array, dm: Array, dv: Array) -> Array:
        G = np.zeros((self.d, W.shape[1]))
        for part in self._parts:
            own = part.design.pullback(part.differences(W, self._R), dm[part.rows], dv[part.rows])
            each = own.reshape(len(own), W.shape[1] // self._R, self._R)
            each[:, :, part.label] = 0.0
            each[:, :, part.label] = -each.sum(axis=2)
            G[part.features] += own
        return G

    def diagonal(self, a: Array) -> tuple[Array, Array]:
        squares, variance = np.zeros((2, self.d, a.shape[1]))
        for part in self._parts:
            own, noise = part.design.diagonal(a[part.rows])
            squares[part.features] += own
            variance[part.features] += noise
        return squares, variance

    def apply(self, W: Array) -> Array:
        (mean,) = self.scores(1, W.shape[1])
        for part in self._parts:
            mean[part.rows] = part.design.apply(part.differences(W, self._R))
        return mean

    def centre(self, a: Array) -> tuple[Array, Array]:
        """Mᵀa and Σa, of the examples and not of differences: what the outputs' features have as a mean."""
        mean = np.zeros((self.d, a.shape[1]))
        for part in self._parts:
            mean[part.features] += part.design.centre(a[part.rows])[0]
        return mean, a.sum(axis=0)

    def group_grams(self, a: Array, step: int) -> list[Array]:
        parts = (part.design.group_grams(a[part.rows], step) for part in self._parts)
        return [sum(own[1:], start=own[0]) for own in zip(*parts, strict=True)]

    def far(self) -> bool:
        return self._far

    def select(self, columns: Columns) -> Self:
        return self._each(lambda design: design.select(columns))

    def serial(self) -> Self:
        return self._each(lambda design: design.serial())

    def threads(self, work: int) -> int:
        return self._parts[0].design.threads(work)

    def _each(self, change: Callable[[Design], Design]) -> Self:
        other = copy(self)
        if self._base is not None:
            other._base = change(self._base)
        if "_parts" in self.__dict__:
            other._parts = [replace(part, design=change(part.design)) for part in self._parts]
        return other
