"""Losses of several classes at once: one problem whose outputs are the classes, f_k = w_k·x̃ + b_k.

    pairwise       Σ_{k≠y} φ(f_y − f_k)          φ any loss of a margin; Weston & Watkins for the hinge
    multinomial    log Σ_k exp(m_k − m_y + ½v_k)

m_k − m_y and v_k = Σ_d V_d (w_kd − w_yd)² are the mean and the variance of f_k − f_y. Both are convex in the
weights, and both depend on differences of scores alone.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from marginout._core.design.differences import Differences
from marginout._core.design.storage import Design
from marginout._core.interfaces import Array
from marginout.losses import Jet, Loss, Plane


def join(name: str, loss: Loss, outputs: int) -> Loss:
    """The joint loss of all classes, by its name, given that of one-vs-rest problems."""
    return Multinomial(outputs) if name == "multinomial" else Pairwise(loss, outputs)


def classes_in(Y: Array, R: int) -> Iterator[tuple[int, slice]]:
    """Each class of examples that are sorted by class, and its rows. Y is 1 for an example's own class."""
    start, n = 0, len(Y)
    while start < n:
        label = int(Y[start, :R].argmax())
        own = Y[:, label]
        stop = bisect_left(range(n), True, start, n, key=lambda n: own[n] <= 0)
        yield label, slice(start, stop)
        start = stop


class Joint(Loss):
    """A loss of score differences; its outputs are the classes. Examples are sorted by class."""

    relative = True

    def __init__(self, outputs: int) -> None:
        self.outputs = outputs

    def arrange(self, design: Design, Y: Array, weights: Array) -> tuple[Differences, Array, Array]:
        labels = Y[:, : self.outputs].argmax(axis=1)
        order = np.argsort(labels, kind="stable")
        return Differences(design, labels[order], order, self.outputs), Y[order], weights[order]

    def jet(self, m: Array, v: Array, y: Array) -> Jet:
        raise TypeError(f"{type(self).__name__} couples its outputs: it has no derivatives of single scores")

    @abstractmethod
    def majorizer(self, m: Array, v: Array, y: Array) -> Array: ...

    @abstractmethod
    def add_expansion(self, plane: Plane, y: Array, weights: Array, sums: Array) -> None: ...

    @abstractmethod
    def add_majorizer(self, plane: Plane, y: Array, weights: Array, sums: Array) -> None: ...

    @abstractmethod
    def fill_slopes(self, m: Array, v: Array, y: Array, dm: Array, dv: Array) -> None: ...

    def each(self, values: Any) -> Any:
        """(..., K) as (..., P, R)."""
        return values.reshape(*values.shape[:-1], -1, self.outputs)

    def _own(self, values: Array, label: int) -> Array:
        """The value of a class for all outputs of its problem, (K,)."""
        return np.repeat(self.each(values)[:, label], self.outputs)

    def _subtract(self, values: Array, label: int, sums: Array) -> None:
        """Add derivatives in δ_k − δ_y to sums of those in δ."""
        sums += values
        self.each(sums)[:, label] -= self.each(values).sum(axis=1)

    def _add_blocks(self, values: Array, label: int, sums: Array) -> None:
        """Add second derivatives in δ_k − δ_y to R rows of those in δ."""
        own, R = self.each(values), self.outputs
        blocks, diagonal = sums.reshape(R, -1, R), np.arange(R)
        blocks[diagonal, :, diagonal] += own.T
        blocks[label] -= own
        blocks[:, :, label] -= own.T
        blocks[label, :, label] += own.sum(axis=1)


class Pairwise(Joint):
    r"""Sum over all other classes of a loss of the margin, f_y − f_k.

    .. math:: \varphi = \sum_{k \ne y} \varphi_1(m_y - m_k,\; v_k)

    The rows of class y hold f_k − f_y: targets are −1. The output of y itself has the offset alone. It is
    subtracted from the others' by a shift δ that all rows have in common.
    """

    def __init__(self, one: Loss, outputs: int) -> None:
        super().__init__(outputs)
        self.one = one
        self.kinked, self.scale, self.grain, self.chunk = one.kinked, one.scale, one.grain, one.chunk

    def least_squares(self, y: Array) -> Array:
        return self.one.least_squares(y)

    def majorizer(self, m: Array, v: Array, y: Array) -> Array:
        return self._each_class(self.one.majorizer, m, v, y)

    def curvature(self, m: Array, v: Array, y: Array) -> Array:
        return np.minimum(self._each_class(self.one.curvature, m, v, y), 1.0 / self.grain)

    def _each_class(
        self, part: Callable[[Array, Array, Array], Array], m: Array, v: Array, y: Array
    ) -> Array:
        """A curvature of φ_1 for all outputs, and their sum for the output of y itself."""
        gamma = np.empty_like(m)
        for label, rows in classes_in(y, self.outputs):
            gamma[rows] = part(self._apart(m[rows], label), v[rows], y[rows])
            own = self.each(gamma[rows])
            own[:, :, label] = 0.0
            own[:, :, label] = own.sum(axis=2)
        return gamma

    def fill_slopes(self, m: Array, v: Array, y: Array, dm: Array, dv: Array) -> None:
        for label, rows in classes_in(y, self.outputs):
            self.one.fill_slopes(self._apart(m[rows], label), v[rows], y[rows], dm[rows], dv[rows])
            mean, variance = self.each(dm[rows]), self.each(dv[rows])
            mean[:, :, label] = variance[:, :, label] = 0.0
            mean[:, :, label] = -mean.sum(axis=2)

    def add_expansion(self, plane: Plane, y: Array, weights: Array, sums: Array) -> None:
        for label, rows in classes_in(y, self.outputs):
            own = np.zeros((6, y.shape[1]))
            apart, a = self._plane(plane, rows, label)
            self.one.add_expansion(apart, y[rows], weights[rows], own)
            self.each(own)[:, :, label] = 0.0
            value, dt, db, dtt, dtb, dbb = own
            sums[[0, 1, 3]] += value, dt - a * db, dtt - 2 * a * dtb + a * a * dbb
            self._subtract(db, label, sums[2])
            self._subtract(dtb - a * dbb, label, sums[4])
            self._add_blocks(dbb, label, sums[5:])

    def add_majorizer(self, plane: Plane, y: Array, weights: Array, sums: Array) -> None:
        for label, rows in classes_in(y, self.outputs):
            own = np.zeros((3, y.shape[1]))
            apart, a = self._plane(plane, rows, label)
            self.one.add_majorizer(apart, y[rows], weights[rows], own)
            self.each(own)[:, :, label] = 0.0
            tt, tb, bb = own
            sums[0] += tt - 2 * a * tb + a * a * bb
            self._subtract(tb - a * bb, label, sums[1])
            self._add_blocks(bb, label, sums[2:])

    def _apart(self, m: Array, label: int) -> Array:
        """m_k − m_y of rows of one class."""
        return m - self._own(m[0], label)

    def _plane(self, plane: Plane, rows: slice, label: int) -> tuple[Plane, Array]:
        """The rows of one class with m_y, δ_y and t·a_y in δ, and a_y, which is left in a."""
        m, v, a, c, e = (part[rows] for part in plane[:5])
        own = self._own(a[0], label)
        shift = self._own(m[0] + plane.delta, label) + plane.t * own
        return Plane(m, v, a, c, e, plane.t, plane.delta - shift, plane.floor), own


class Multinomial(Joint):
    r"""The loss of multinomial logistic regression, in expectation at most

    .. math:: \varphi = \log \sum_k \exp(m_k - m_y + \tfrac12 v_k)

    for normal scores: E log Σ exp ≤ log Σ E exp.
    """

    multinomial = True

    def least_squares(self, y: Array) -> Array:
        return 2 * y

    def majorizer(self, m: Array, v: Array, y: Array) -> Array:
        p, _ = self._shares(m, v, y)
        return np.where(y > 0, 1 - p.reshape(m.shape), p.reshape(m.shape))

    def fill_slopes(self, m: Array, v: Array, y: Array, dm: Array, dv: Array) -> None:
        p, _ = self._shares(m, v, y)
        own = y > 0
        dm[...] = p.reshape(m.shape) - own
        dv[...] = np.where(own, 0.0, 0.5 * p.reshape(m.shape))

    def add_expansion(self, plane: Plane, y: Array, weights: Array, sums: Array) -> None:
        m, v = plane.moments()
        s, own = self._weights(weights), self.each(y > 0)
        p, top = self._shares(m, v, y)
        a, e = self.each(plane.a), self.each(plane.e)
        slope = a + self.each(plane.c + plane.t * plane.e)
        mean = (p * slope).sum(axis=2, keepdims=True)
        sp = s * p
        self._add_first(sums[0], s * (top - np.where(own, self.each(m), 0.0).sum(axis=2, keepdims=True)))
        self._add_first(sums[1], s * (mean - np.where(own, a, 0.0).sum(axis=2, keepdims=True)))
        sums[2] += (sp - s * own).sum(axis=0).ravel()
        sums[3] += (sp * ((slope - mean) ** 2 + e)).sum(axis=0).ravel()
        sums[4] += (sp * (slope - mean)).sum(axis=0).ravel()
        blocks, diagonal = sums[5:].reshape(self.outputs, -1, self.outputs), np.arange(self.outputs)
        blocks[diagonal, :, diagonal] += sp.sum(axis=0).T
        blocks -= np.matmul(sp.transpose(1, 2, 0), p.transpose(1, 0, 2)).transpose(1, 0, 2)

    def add_majorizer(self, plane: Plane, y: Array, weights: Array, sums: Array) -> None:
        p = (self._weights(weights) * self._shares(*plane.moments(), y)[0]).reshape(y.shape)
        for label, rows in classes_in(y, self.outputs):
            a = plane.a[rows] - self._own(plane.a[rows.start], label)
            each = p[rows]
            self.each(each)[:, :, label] = 0.0
            sums[0] += (each * (a * a + plane.e[rows])).sum(axis=0)
            self._subtract((each * a).sum(axis=0), label, sums[1])
            self._add_blocks(each.sum(axis=0), label, sums[2:])

    def _weights(self, weights: Array) -> Array:
        """One for every problem, (n, P or 1, 1)."""
        return weights[:, :, None] if weights.shape[1] == 1 else self.each(weights)[:, :, :1]

    def _shares(self, m: Array, v: Array, y: Array) -> tuple[Array, Array]:
        """p_k ∝ exp(m_k + ½v_k), (n, P, R), and the logarithm of what they are divided by, (n, P, 1)."""
        u = self.each(np.where(y > 0, m, m + 0.5 * v))
        top = u.max(axis=2, keepdims=True)
        p = np.exp(u - top)
        total = p.sum(axis=2, keepdims=True)
        p /= total
        return p, top + np.log(total)

    def _add_first(self, sums: Array, values: Array) -> None:
        """Add what belongs to no output to the first of each problem."""
        self.each(sums)[:, 0] += values[:, :, 0].sum(axis=0)
