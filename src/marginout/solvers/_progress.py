"""What a solver keeps while it runs, what it returns, and what it says when it stops too early."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from itertools import pairwise
from threading import Event

import numpy as np

from marginout._core.interfaces import Array, Columns, Monitor, Objective, Point, Result, Solution, Solver


def total_history(histories: Sequence[Sequence[float]], ends: Iterable[float]) -> list[float]:
    """F summed over problems after as many iterations of each; one that ended earlier stays at its end."""
    length = max(map(len, histories))
    padded = [[*own, *[end] * (length - len(own))] for own, end in zip(histories, ends, strict=True)]
    return [float(sum(values)) for values in zip(*padded, strict=True)]


#: A problem also counts as solved when as many iterations together lower F by less than tol/100.
STALL = 50
#: How much the suboptimality may exceed its estimate: on real text it stayed below twice.
SAFETY = 2.5
#: How much more before there is a trend to go by.
EARLY = 5.0
#: Factor on the estimate, times the largest ratio so far of a fall of F to the estimate before it.
CAUTION = 1.0
#: Iterations that a good preconditioner makes do with.
MANY = 20
#: A fall of F is measured over so many iterations, or fewer.
WINDOW = 8


#: Minimises an objective's problems from (W, b), and records them.
Descent = Callable[[Objective, Array, Array, "Progress"], None]


class Progress:
    """The best known state of all K problems while a solver works on those still active."""

    def __init__(self, objective: Objective, tol: float, max_iter: int, monitor: Monitor | None) -> None:
        self.tol, self.max_iter, self._monitor = tol, max_iter, monitor
        P = objective.P
        self.active = np.arange(P)
        self.head_start = 0  # iterations that some other method made before
        self._columns = objective.columns
        self._W, self._b = np.zeros((objective.traits.d, objective.K)), np.zeros(objective.K)
        self._value, self._gap, self._left = np.full(P, np.inf), np.full(P, np.inf), np.full(P, np.inf)
        self._converged, self._n_iter = np.zeros(P, dtype=bool), np.ones(P, dtype=np.intp)
        self._stop = Event()
        self._history: list[list[float]] = [[] for _ in range(P)]
        self._promises: list[list[tuple[float, float]]] = [[] for _ in range(P)]  # F, and ½gᵀD⁻¹g there

    def solve(
        self, objective: Objective, W: Array, b: Array, descend: Descent, size: int, apart: bool = False
    ) -> Result:
        """Solve all problems by `descend`, at most `size` at a time.

        `apart`: blocks of them run in threads, each without threads of its own; one after
        the other if someone watches, with the same result.
        """
        edges = [*range(0, objective.P, size), objective.P]
        threads, count = 1, len(edges) - 1
        if apart and count > 1:
            threads = 1 if self._monitor else min(count, objective.threads)
            objective = objective.serial()

        def one(first: int, end: int) -> None:
            problems = np.arange(first, end)
            columns = objective.columns(problems)
            start = np.ascontiguousarray(W[:, columns])
            descend(objective.select(problems), start, b[columns], self._part(problems))

        if threads == 1:
            for first, end in pairwise(edges):
                one(first, end)
            return self.result()
        with ThreadPoolExecutor(threads) as pool:
            try:
                list(pool.map(one, edges[:-1], edges[1:]))
            except BaseException:  # Ctrl-C too ends all of them
                self._stop.set()
                raise
        return self.result()

    def _part(self, problems: Columns) -> Progress:
        """The progress of some of the problems: their part of the same state."""
        part = copy(self)
        part.active = problems
        return part

    def stopped(self) -> bool:
        """Whether the fit has been stopped from outside."""
        return self._stop.is_set()

    def record(self, iteration: int, point: Point, left: Array) -> bool:
        """Note the active problems' state, with the suboptimality about left; whether to go on.

        A problem has converged once this, and what a better offset would bring, is at most `tol`·F.
        """
        left = left + point.offset_left
        active = self.active
        self._value[active], self._left[active] = point.value, left
        self._n_iter[active] = np.maximum(self._n_iter[active], iteration)
        if iteration:
            for k, value in zip(active, point.value, strict=True):
                self._history[k].append(float(value))
            self._converged[active] |= left <= self.tol * point.value
            self._converged[active] |= [self._stalled(self._history[k]) for k in active]
            if self._report(iteration, point):
                self._stop.set()
        return not (iteration == self.max_iter or self._stop.is_set() or self._converged[active].all())

    def _stalled(self, values: list[float]) -> bool:
        """Whether F has not moved for a while.

        A minimum where F is not smooth, such as w = 0 for a class that is given up, is
        approached but never certified by a gradient.
        """
        little = max(0.01 * self.tol, 1e-14) * abs(values[-1])
        return len(values) > STALL and values[-1 - STALL] - values[-1] <= little

    def estimate(self, point: Point, decrement: Array) -> Array:
        """What is left of the suboptimality, about, from gᵀD⁻¹g and from how F has been falling.

        D is the diagonal of a matrix like the Hessian, or above it. Half of gᵀD⁻¹g is too little where D
        is a bad guess at the Hessian, much so where there is next to no noise; many
        iterations are a sign of it, and that F has fallen since by more than it said. The second
        estimate continues the geometric series of the last two falls of F.
        """
        histories = [self._history[k] for k in self.active]
        count = self.head_start + np.array([len(history) for history in histories])
        doubt = np.where(count < 2, EARLY, np.maximum(1.0, count / MANY) ** 3)
        now = zip(self.active.tolist(), point.value, 0.5 * decrement, strict=True)
        excess = [self._excess(k, value, promise) for k, value, promise in now]
        caution = np.maximum(SAFETY * doubt, CAUTION * np.array(excess))
        return np.maximum(0.5 * caution * decrement, list(map(self._trend, histories, point.value)))

    def _excess(self, k: int, value: float, promise: float) -> float:
        """By what factor F has fallen more since than ½gᵀD⁻¹g promised in the later half of the fit."""
        promises = self._promises[k]
        later = promises[max(len(promises) // 2, len(promises) - STALL) :]
        promises.append((value, promise))
        return max([(before - value) / promised for before, promised in later if promised > 0], default=0.0)

    @staticmethod
    def _trend(before: list[float], value: float) -> float:
        values = [*before[-2 * WINDOW :], value]
        width = (len(values) - 1) // 2
        if width == 0:
            return 0.0
        first, second = values[-1 - 2 * width] - values[-1 - width], values[-1 - width] - value
        ratio = min(second / first, 0.99) if first > 0 else 0.99
        return float(max(second, 0.0) * ratio / (1 - ratio))

    def exhaust(self) -> None:
        """Declare the active problems solved as well as the arithmetic allows."""
        self._converged[self.active] = True

    def keep(self, point: Point, gap: Array, problems: Columns | slice = slice(None)) -> None:
        """Take a point as the result of the active problems, or of some: F is at most `gap` too high."""
        which = self.active[problems]
        columns = self._columns(which)
        self._W[:, columns], self._b[columns] = point.W, point.b
        self._value[which], self._gap[which] = point.value, gap
        self._converged[which] |= gap <= self.tol * point.value  # whatever the estimate said
        for k, value in zip(which, point.value, strict=True):
            self._history[k][-1:] = [float(value)]

    def _report(self, iteration: int, point: Point) -> bool:
        """Tell the monitor; whether it asks to stop."""

        def solution() -> tuple[Array, Array]:
            W, b = self._W.copy(), self._b.copy()
            columns = self._columns(self.active)
            W[:, columns], b[columns] = point.W, point.b
            return W, b

        if self._monitor is None or self._stop.is_set():
            return False
        known = np.isfinite(self._left)
        total, left = float(self._value[known].sum()), float(self._left[known].sum())
        return bool(self._monitor(iteration, total, left, solution))

    def part(self, fraction: float) -> tuple[Columns, Columns] | None:
        """Which active problems have converged and which have not, once a fraction of them has."""
        done = self._converged[self.active]
        if done.mean() < fraction or not done.any():
            return None
        return np.flatnonzero(done), np.flatnonzero(~done)

    def result(self) -> Result:
        converged = self._converged | self._stop.is_set()
        history, n_iter = total_history(self._history, self._value), int(self._n_iter.max())
        return Result(self._W, self._b, self._value, self._gap, converged, n_iter, history, self._left)


def go_on(
    solve: Solver,
    objective: Objective,
    result: Result,
    late: Columns,
    start: tuple[Array, Array],
    tol: float,
    max_iter: int,
    monitor: Monitor | None,
) -> Result:
    """Solve by another solver the problems that were late, from the start given."""
    W, b, before = result.W, result.b, result.n_iter
    others = np.setdiff1d(np.arange(objective.P), late)
    value = float(result.value[others].sum())
    left = float(np.broadcast_to(result.left, objective.P)[others].sum())

    def onward(iteration: int, rest: float, distance: float, solution: Solution) -> bool:
        def whole() -> tuple[Array, Array]:
            now = W.copy(), b.copy()
            now[0][:, late], now[1][late] = solution()
            return now

        assert monitor is not None
        return bool(monitor(iteration and before + iteration, value + rest, left + distance, whole))

    few, begin = objective.select(late), np.ascontiguousarray(start[0][:, late])
    watch = None if monitor is None else onward
    end = solve(few, begin, start[1][late], tol=tol, max_iter=max_iter - before, monitor=watch)
    W[:, late], b[late], result.value[late] = end.W, end.b, end.value
    result.gap[late], result.converged[late] = end.gap, end.converged
    history = [*result.history, *(value + rest for rest in end.history)]
    return replace(result, n_iter=before + end.n_iter, history=history)
