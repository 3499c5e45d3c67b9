"""Dual block coordinate descent for the SVM of the worst deletion of K features.

`_kernels/_fdrop.pyx` states the dual and solves the part of one example. The duality gap, with the best
offset for w and feasible dual variables, is the certificate.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from marginout._core.interfaces import Array, Monitor, Penalty, Result
from marginout._core.threads import worker_threads
from marginout._core.validation import csr_arrays
from marginout._kernels import _fdrop
from marginout.solvers._progress import total_history
from marginout.solvers.dual import SEED, balance, flattest

#: Sweeps before the duality gap is first computed, and the factor from one time to the next.
FIRST_LOOK, NEXT_LOOK = 4, 1.3
#: Weight ρ of ½ρ(Σya)² in the augmented Lagrangian, as a fraction of the examples' mean squared norm.
RHO = 0.1
#: Entries visited before `tol` ends a fit, some 100 ms, and the relative gap that ends it earlier: small
#: problems are solved to rounding error, as it costs nothing.
LEAST, EXACT = 5e6, 1e-14
#: Smallest entry of X whose square is far enough from zero to be divided by.
TINY = 1e-140


@dataclass(frozen=True)
class DeletionProblem:
    """penalty(w) + Σ c_n max(0, 1 − y_n(w·x_n + b) + s_K(y_n w∘x_n)) for every column of Y.

    X is CSR without stored zeros, s_K the sum of the K largest positive entries; weights are (n, 1), or as Y.
    """

    X: Any
    Y: Array
    weights: Array
    n_deletions: int
    fit_intercept: bool
    penalty: Penalty  # its own conjugate: the kernel's dual is that of ½‖w‖²

    @classmethod
    def of(cls, X: Any, *rest: Any) -> DeletionProblem:
        """The problem for X in any storage, and the other attributes."""
        X = X if sp.issparse(X) else sp.csr_array(X)
        # Entries whose squares underflow are removed, like stored zeros.
        nothing = np.abs(X.data) <= TINY  # in single precision TINY is 0
        if nothing.any():
            X = X.copy()
            X.data[nothing] = 0.0
            X.eliminate_zeros()
        return cls(X, *rest)

    @cached_property
    def rows(self) -> tuple[Any, Any, Any]:
        """X as the kernels take it."""
        return csr_arrays(self.X)


def solve(
    objective: DeletionProblem,
    W: Array,
    b: Array,
    *,
    tol: float,
    max_iter: int,
    monitor: Monitor | None = None,
) -> Result:
    """Minimise all problems, as many at a time as there are threads. Of the start, only b is used."""
    K = objective.Y.shape[1]
    threads = worker_threads(objective.X.nnz * K)
    done: list[_Descent] = []
    with ThreadPoolExecutor(threads) as pool:
        for first in range(0, K, threads):
            ks = range(first, min(first + threads, K))
            some = [_Descent(objective, k, float(b[k]), tol, max_iter) for k in ks]
            done += some
            _descend(some, done, W.shape, pool, monitor)
    W, b = _solution(done, W.shape)
    values = [descent.value for descent in done]
    return Result(
        W,
        b,
        value=np.array(values),
        gap=np.array([descent.gap for descent in done]),
        converged=np.array([descent.converged for descent in done]),
        n_iter=max(descent.sweeps for descent in done),
        history=total_history([descent.history for descent in done], values),
    )


def _descend(
    going: list[_Descent],
    done: list[_Descent],
    shape: tuple[int, ...],
    pool: ThreadPoolExecutor,
    monitor: Monitor | None,
) -> None:
    """Sweep until the gap of every problem is small; it is computed at times `look`."""
    look = FIRST_LOOK
    while going:
        list(pool.map(_Descent.advance, going, [look] * len(going)))
        total, left = sum(one.value for one in done), sum(one.gap for one in done)
        stop = monitor and monitor(going[0].sweeps, total, left, lambda: _solution(done, shape))
        for descent in going:
            descent.converged |= bool(stop)
        going = [one for one in going if not one.converged and one.sweeps < one.max_iter]
        look = int(np.ceil(look * NEXT_LOOK))


def _solution(done: list[_Descent], shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Weights and offsets; zero for problems that have not begun."""
    W, b = np.zeros(shape), np.zeros(shape[1])
    for k, descent in enumerate(done):
        W[:, k], b[k] = descent.w, descent.b
    return W, b


class _Descent:
    """The state of one problem: weights a, shares p, w = Σ y p∘x, and the order of the examples."""

    def __init__(self, problem: DeletionProblem, k: int, centre: float, tol: float, max_iter: int) -> None:
        self.tol, self.max_iter, self.sweeps, self.converged = tol, max_iter, 0, False
        self.b, self.value, self.gap = 0.0, np.inf, np.inf
        self.history: list[float] = []
        n, d = problem.X.shape
        self._csr, self._K = problem.rows, problem.n_deletions
        self._size = len(self._csr[0])
        self._y = np.ascontiguousarray(problem.Y[:, k])
        self._c = np.ascontiguousarray(problem.weights[:, min(k, problem.weights.shape[1] - 1)])
        self._fit_intercept, self._penalty = problem.fit_intercept, problem.penalty.value
        self._widest = int(np.diff(problem.X.indptr).max(initial=0))
        self.w = np.zeros(d)
        self._a, self._p, self._tau = np.zeros(n), np.zeros(self._size), np.zeros(n)
        squares = float(np.vdot(problem.X.data, problem.X.data)) / n if problem.X.nnz else 1.0
        self._rho = RHO * squares if problem.fit_intercept else 0.0
        self._offset = np.array([0.0, centre if problem.fit_intercept else 0.0])
        self._order = np.flatnonzero(self._c > 0).astype(np.int64)
        self._limit = np.inf
        self._seed = np.array([SEED], dtype=np.uint64)

    def advance(self, look: int) -> None:
        """Sweep until there are `look` sweeps in all, then compute the gap."""
        count = min(look, self.max_iter) - self.sweeps
        self.sweep(count)
        self.sweeps += count
        self.b, self.value, self.gap = self.certify()
        self.history.append(self.value)
        enough = self.sweeps >= min(self.max_iter, LEAST / self._size)
        self.converged = self.gap <= (self.tol if enough else EXACT) * self.value

    def sweep(self, count: int) -> None:
        """Sweep over the examples, without those that stay at zero."""
        active = len(self._order)
        for _ in range(count):
            if active == 0:
                break
            active, worst = _fdrop.sweep(
                *self._csr, self._K, self._y, self._c, self._rho, self._a, self._p, self._tau,
                self.w, self._offset, self._order, active, self._widest, self._limit, self._seed,
            )  # fmt: skip
            self._limit = worst if worst > 0 else np.inf
            self._offset[1] += self._rho * self._offset[0]  # the multiplier's step

    def certify(self) -> tuple[float, float, float]:
        """The best offset for w, F there, and the duality gap: three passes, the first to compute w anew."""
        self.w[:] = 0.0
        _fdrop.assemble(*self._csr, self._y, self._p, self.w)
        slack = np.empty(len(self._y))
        _fdrop.slacks(*self._csr, self._K, self._y, self.w, self._widest, slack)
        b = 0.0
        if self._fit_intercept:
            # Below its kink an example of y = 1 has a loss; above it, one of y = −1.
            b = flattest(slack * self._y, self._c, -float(self._c[self._y > 0].sum()))
        loss = self._c @ np.maximum(slack - self._y * b, 0.0)
        value = self._penalty(self.w[:, None])[0] + loss
        share = self._balance() if self._fit_intercept else np.ones(len(self._y))
        w = np.zeros_like(self.w)
        _fdrop.assemble(*self._csr, self._y * share, self._p, w)
        dual = share @ self._a - self._penalty(w[:, None])[0]
        return float(b), float(value), max(float(value - dual), 0.0)

    def _balance(self) -> Array:
        """Factors of the weights a, of which one class's are below 1, that make Σya = 0."""
        up, down = balance(*(float(self._a[self._y * sign > 0].sum()) for sign in (1, -1)))
        return np.asarray(np.where(self._y > 0, up, down))
