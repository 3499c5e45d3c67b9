r"""How the cells of a grid are solved, at a fraction of the price of solving each alone.

All training sets, noises of one kind and one-vs-rest classes are columns of one batch that
shares every pass over X: a training set is a column of weights that are zero for the rows
left out, and noises of one kind differ by a factor of the variance only,

.. math:: v_{nk} = \kappa_k \sum_d x_{nd}^2 w_{dk}^2 .

The batch walks from strong regularisation to weak, and each solution starts from the line
through the two before it. Measured on Amazon's books at a rate of 0.5, that start is within
2 % of the optimum, the last solution alone 10 %, the same C under heavier noise 4 %; starting
from other training sets is no option, as held-out examples would leak into early scores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral
from threading import Event
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs

from marginout._core.design.storage import Design, make_design
from marginout._core.interfaces import Array, Solver
from marginout._core.objective import Objective
from marginout._core.shard import Shard
from marginout._core.threads import one_thread
from marginout._core.validation import check_shift, check_solution
from marginout._search.problem import Problem
from marginout.noise import Noise
from marginout.solvers import Result, choose, dual, ncg, newton, single_precision, soft_dual
from marginout.solvers._linesearch import starting_point

#: Problems that are started at once.
FEW = 2
#: Columns of a batch: more bring little, and cost memory.
WIDTH = 16
#: Features from which the weights of eight problems leave the cache, about: lanes without a problem take
#: their time there. Three problems of 12,500 reviews with 450,000 words: 8.4 s, in double precision 3.1 s.
WIDE = 100_000
#: Sweeps of dual coordinate descent, or entries swept over, after which a small problem without noise
#: is given to Newton's method instead.
SWEEPS, SWEPT = 200, 20_000_000
#: Arrays of (n_samples + n_features) numbers that a column of a running batch needs, about.
ARRAYS = 8
#: Bytes of them that a batch may always take; beyond, half of the input's.
SPARE = 16_000_000


class Part(NamedTuple):
    """The solution of one cell for one training set."""

    C: int
    noise: int
    training: int
    W: Array
    b: Array
    value: Array
    gap: Array
    converged: bool
    n_iter: int
    seconds: float
    #: Why there is none: W and b are zero then.
    error: ValueError | None


class Chain(NamedTuple):
    """A batch: the (noise, training set) pairs whose problems walk together, on one design."""

    pairs: list[tuple[int, int]]
    factors: list[float]
    design: Design


#: Called with the solutions of a batch at one C, and all their weights and offsets side by side.
Visit = Callable[[list[Part], tuple[Array, Array]], Any]


def walk(problem: Problem, Cs: Array, models: list[Noise], visit: Visit, n_jobs: int | None) -> None:
    """Solve all cells for all training sets; `visit` hears of each step, from any thread.

    Every batch is one thread's work, whatever n_jobs is: the solutions do not depend on it.
    """
    stop = Event()
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0):
        raise ValueError(f"n_jobs={n_jobs!r} must be None or a whole number other than 0.")

    def run(chain: Chain) -> None:
        with one_thread():
            for parts, solution in _steps(problem, Cs, chain, models, shifts, stop):
                visit(parts, solution)

    chains = _chains(problem, models)
    # The solvers' offset contains w·shift.
    shifts = [check_shift(model, problem.X.shape[1], problem.fit_intercept) for model in models]
    with ThreadPoolExecutor(min(effective_n_jobs(n_jobs), len(chains))) as pool:
        futures = [pool.submit(run, chain) for chain in chains]
        try:
            for future in futures:
                future.result()
        except BaseException:  # Ctrl-C, too: the threads end with their iteration
            stop.set()
            for future in futures:
                future.cancel()
            raise


def _chains(problem: Problem, models: list[Noise]) -> list[Chain]:
    """The pairs of noise and training set in batches, the slowest first.

    Noises of one kind share a design, and neighbours a batch: they need about as many iterations,
    light noise the most.
    """
    kinds: dict[Any, tuple[Design, float, list[tuple[float, int, int]]]] = {}
    for j, model in enumerate(models):
        design = make_design(problem.deleted(model), model)
        peak = float(design.coefficient.max()) or 1.0
        shape = (design.coefficient / peak).tobytes()
        together = None if design.groups is None else design.groups.tobytes()
        key: Any = (id(design.X), design.power, design.scale.tobytes(), shape, together, design.noiseless)
        if problem.solver not in ("auto", "ncg", "newton"):
            key = j  # the other solvers ask a design for more than a factor can mend
        for f in range(len(problem.trainings)):
            # Every training set fills in X by a law of its own.
            own = key, None if problem.laws is None else f
            if own not in kinds:
                kinds[own] = problem.design(design, model, f), peak, []
            kinds[own][2].append((peak, j, f))
    chains = []
    for design, base, members in kinds.values():
        pairs = [(peak / base, j, f) for peak, j, f in sorted(members)]
        wide = sum(len(problem.trainings[f].columns) for _, _, f in pairs)
        # A plain SVM shares no passes over X: more batches keep more cores busy.
        width = 1 if design.noiseless and problem.loss.kinked else _width(problem)
        count = min(len(pairs), -(-wide // width))
        for part in (pairs[len(pairs) * i // count : len(pairs) * (i + 1) // count] for i in range(count)):
            chains.append(Chain([(j, f) for _, j, f in part], [factor for factor, _, _ in part], design))
    return sorted(chains, key=lambda chain: chain.design.coefficient.max() * max(chain.factors))


def _width(problem: Problem) -> int:
    """How many columns a batch may have."""
    X = problem.X
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes if hasattr(X, "indptr") else X.nbytes
    column = 8 * ARRAYS * sum(X.shape)
    return int(min(WIDTH, max(1, max(SPARE, size // 2) // column)))


def _steps(
    problem: Problem, Cs: Array, chain: Chain, models: list[Noise], shifts: list[Array], stop: Event
) -> Iterator[tuple[list[Part], tuple[Array, Array]]]:
    """The solutions of a batch, from the smallest C to the largest."""
    trainings = [problem.trainings[f] for _, f in chain.pairs]
    widths = [len(training.columns) for training in trainings]
    edges = np.cumsum([0, *widths])
    Y = np.ascontiguousarray(problem.Y[:, np.concatenate([training.columns for training in trainings])])
    weights = np.hstack(
        [np.broadcast_to(t.weights, (len(Y), k)) for t, k in zip(trainings, widths, strict=True)]
    )
    design = chain.design
    if set(chain.factors) != {1.0}:
        design = design.with_factors(np.repeat(chain.factors, widths))
    loss = problem.loss.select(np.concatenate([training.columns for training in trainings]))
    W, b = np.zeros((chain.design.d, len(Y[0]))), np.zeros(len(Y[0]))
    start = W, b
    solve = _Solver(problem, stop)
    for i, C in enumerate(Cs):
        begin = time.perf_counter()
        shard = Shard.of(design, loss, Y, C * weights)
        objective = Objective.of(problem.penalty, shard, problem.fit_intercept)
        result = solve(objective, *start)
        if stop.is_set():
            return
        before, (W, b) = (W, b), (result.W, result.b)
        seconds = (time.perf_counter() - begin) / len(chain.pairs)
        parts = []
        clean = b.copy()  # for examples without noise
        for (j, f), low, high in zip(chain.pairs, edges[:-1], edges[1:], strict=True):
            own = slice(low, high)
            if shifts[j].any():
                clean[own] -= shifts[j] @ W[:, own]
            error = None
            try:
                check_solution({"C": float(C), "noise": models[j]}, coef=W[:, own], intercept=clean[own])
            except ValueError as failure:  # the next C starts from zero
                error = failure
                before[0][:, own] = before[1][own] = W[:, own] = b[own] = clean[own] = 0.0
            solved = slice(low // problem.loss.outputs, high // problem.loss.outputs)
            value, gap = result.value[solved], result.gap[solved]
            done = bool(result.converged[solved].all())
            parts.append(
                Part(i, j, f, W[:, own], clean[own], value, gap, done, result.n_iter, seconds, error)
            )
        start = _ahead(Cs, i, before, (W, b))
        yield parts, (W, clean)


class _Solver:
    """The solver of a chain. Without noise it starts from the dual variables of the C before.

    Those of a plain SVM at the bound stay there as C grows, those inside move little: where the
    classes can be separated, not at all.
    """

    def __init__(self, problem: Problem, stop: Event) -> None:
        self._problem, self._stop = problem, stop
        self._options: dict[str, Any] = {"tol": problem.tol, "monitor": lambda *_: stop.is_set()}
        self._before: tuple[Array, Array] | None = None  # the last weights and dual variables
        self._late = False  # whether dual coordinate descent has given up on a smaller C

    def __call__(self, objective: Objective, W: Array, b: Array) -> Result:
        problem = self._problem
        plain = dual.suits(objective) and not newton.cheap(objective)
        if plain or choose(problem.solver, objective) is soft_dual.solve:
            return self._plain(objective, W, b)
        quick = problem.solver == "auto" and problem.tol >= single_precision.FINEST and not problem.certified
        quick = quick and (2 * objective.K > single_precision.LANES or objective.traits.d < WIDE)
        if quick and not newton.cheap(objective) and single_precision.suits(objective):
            return self._sprint(objective, W, b)
        solve = choose(problem.solver, objective)
        result: Result = solve(objective, W, b, max_iter=problem.max_iter, **self._options)
        return result

    def _plain(self, objective: Objective, W: Array, b: Array) -> Result:
        """A plain SVM or SVR: dual coordinate descent."""
        rows, traits = objective.examples, objective.traits
        weights = np.broadcast_to(rows.weights, rows.Y.shape)
        beta = np.zeros_like(rows.Y)
        if self._before is not None:
            lighter, last = self._before
            # Without a bound, β stays feasible as it is.
            bound = objective.loss.kinked & (np.abs(last) > 0.999 * lighter)
            beta = np.where(bound, np.sign(last) * weights, last)
        small = newton.suits(objective)
        each = max(traits.nnz, traits.n)  # an example without entries takes time too
        smooth = not objective.loss.kinked
        finish, most = newton.solve if small else ncg.solve, self._problem.max_iter
        if self._late and (small or smooth):
            return finish(objective, W, b, max_iter=most, **self._options)
        sweeps = min(most, soft_dual.SWEEPS) if smooth else most
        if small:
            sweeps = max(SWEEPS, SWEPT // each)
        result = dual.solve(objective, W, b, max_iter=sweeps, beta=beta, **self._options)
        beta[:, ~np.isfinite(result.W).all(axis=0)] = 0.0
        self._before = weights, beta
        if small or smooth:
            # Features of very different size, or far from zero, where it is late: at a larger C too.
            self._late = not result.converged.all()
            self._finish(result, finish, objective, *((result.W, result.b) if smooth else (W, b)))
        return result

    def _sprint(self, objective: Objective, W: Array, b: Array) -> Result:
        """Eight problems at a time in single precision; `ncg` has those that end too early."""
        K = objective.K
        if not W.any():
            W, b = self._start(objective)
        result = Result(W.copy(), b.copy(), np.zeros(K), np.full(K, np.inf), np.zeros(K, dtype=bool), 1, [])
        for own in np.array_split(np.arange(K), -(-K // single_precision.LANES)):
            if self._stop.is_set():
                return result
            few = objective.select(own) if len(own) < K else objective
            tol, most = self._problem.tol, self._problem.max_iter
            end = single_precision.sprint(
                few, W[:, own], b[own], tol=tol, max_iter=most, stopped=self._stop.is_set
            )
            result.W[:, own], result.b[own] = end.W, end.b
            result.value[own], result.gap[own], result.converged[own] = end.value, end.left, end.converged
            result.n_iter = max(result.n_iter, int(end.iterations.max()))
        self._finish(result, ncg.solve, objective, result.W, result.b)
        return result

    def _start(self, objective: Objective) -> tuple[Array, Array]:
        """Weights and offsets to begin with, a few problems at a time: double precision needs more room."""
        W, b = np.zeros((objective.traits.d, objective.K)), np.zeros(objective.K)
        for i in range(0, objective.K, FEW):
            own = np.arange(i, min(i + FEW, objective.K))
            point = starting_point(objective.select(own), W[:, own], b[own], ncg.ROUGH)
            W[:, own], b[own] = point.W, point.b
        return W, b

    def _finish(self, result: Result, solve: Solver, objective: Objective, W: Array, b: Array) -> None:
        """Solve what has not converged by another method, from (W, b).

        Sets: the columns of the result.
        """
        late = np.flatnonzero(~result.converged)
        if late.size:
            few, own = objective.select(late), objective.columns(late)
            end = solve(few, W[:, own], b[own], max_iter=self._problem.max_iter, **self._options)
            result.W[:, own], result.b[own], result.value[late] = end.W, end.b, end.value
            result.gap[late], result.converged[late] = end.gap, end.converged


def _ahead(Cs: Array, i: int, before: tuple[Array, Array], now: tuple[Array, Array]) -> tuple[Array, Array]:
    """Where the line through the last two solutions, in log C, meets the next C."""
    if i == 0 or i + 1 == len(Cs):
        return now
    ratio = np.log(Cs[i + 1] / Cs[i]) / np.log(Cs[i] / Cs[i - 1])
    step = min(float(ratio), 1.0)
    return now[0] + step * (now[0] - before[0]), now[1] + step * (now[1] - before[1])
