"""Measure times of alternating fits, distance to the optimum, test error, peak memory."""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import psutil  # type: ignore[import-untyped]
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from benchmarks.peers import PEERS, Make, Peer
from benchmarks.problems import Problem


@dataclass(frozen=True)
class Entry:
    """One model of a race: a peer with its C, rate and threads."""

    peer: Peer
    C: float
    rate: float = 0.0
    threads: int = 1

    def make(self, seed: int) -> Any:
        """Make the estimator, with this seed if it draws random numbers, and these threads if it asks."""
        estimator = self.peer.make(self.C, self.rate)
        own = {"random_state": seed, "threads": self.threads}
        return estimator.set_params(**{name: own[name] for name in own if name in estimator.get_params()})


@dataclass
class Outcome:
    """The fits of one entry: their times, their models, and whether all converged."""

    entry: Entry
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    models: list[Any] = field(default_factory=list)
    converged: bool = True

    @property
    def time(self) -> float:
        return median(self.seconds)

    @property
    def cpu_time(self) -> float:
        """CPU time of all threads of this process."""
        return median(self.cpu_seconds)

    @property
    def n_iter(self) -> int:
        return int(np.max(self.models[-1].n_iter_))


def race(problem: Problem, entries: Sequence[Entry], repeats: int) -> list[Outcome]:
    """Time the fits of all entries on one problem, alternating between them."""
    return race_all([(problem, entry) for entry in entries], repeats)


def race_all(runs: Sequence[tuple[Problem, Entry]], repeats: int) -> list[Outcome]:
    """Time fits on several problems, alternating between them.

    Every round makes each fit once, so that a busy moment of the machine slows all of them. The order
    rotates by one from round to round, so that no fit always follows the same other fit. Threads are
    limited, and garbage is collected, before the clock starts.
    """
    outcomes = [Outcome(entry) for _, entry in runs]
    order = list(range(len(runs)))
    for seed in range(repeats):
        shift = seed % len(runs)
        for turn in order[shift:] + order[:shift]:
            (problem, entry), outcome = runs[turn], outcomes[turn]
            model = entry.make(seed)
            with threadpool_limits(limits=entry.threads), convergence() as late:
                gc.collect()
                start, cpu = time.perf_counter(), time.process_time()
                model.fit(problem.X, problem.y)
                outcome.cpu_seconds.append(time.process_time() - cpu)
                outcome.seconds.append(time.perf_counter() - start)
            outcome.models.append(model)
            outcome.converged &= not late
    return outcomes


@contextmanager
def convergence() -> Any:
    """Collect convergence warnings in a list, and repeat all other warnings."""
    late: list[Any] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield late
    for warning in caught:
        if issubclass(warning.category, ConvergenceWarning):
            late.append(warning)
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


class Precision(NamedTuple):
    """F(fit) / min F − 1, and a bound on the relative error of min F.

    min F comes from a tight solve, and its bound from the certificate of that solve. The distance to the
    true minimum is at most the sum of both. Peers give no certificate.
    """

    suboptimality: float
    reference_gap: float | None


class Optima:
    """Minima of the objectives of the peers on one problem, each computed once."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._known: dict[tuple[Make, float, float], tuple[float, float | None]] = {}

    def precision(self, outcome: Outcome) -> Precision | None:
        """F at the worst of the fits / F at a tight solve − 1; None if F is not known."""
        peer, C = outcome.entry.peer, outcome.entry.C
        if peer.objective is None or peer.tight is None:
            return None
        least, gap = self._least(peer, peer.tight, C, outcome.entry.rate if peer.noisy else 0.0)
        worst = max(peer.objective(model, C, self._problem.X, self._problem.y) for model in outcome.models)
        return Precision(worst / least - 1, gap)

    def _least(self, peer: Peer, tight: Make, C: float, rate: float) -> tuple[float, float | None]:
        key = tight, C, rate
        if key not in self._known:
            with convergence():
                model = tight(C, rate).fit(self._problem.X, self._problem.y)
            if hasattr(model, "objective_"):
                self._known[key] = model.objective_, model.optimality_gap_ / model.objective_
            else:
                assert peer.objective is not None
                self._known[key] = peer.objective(model, C, self._problem.X, self._problem.y), None
        return self._known[key]


def scores_on_test(problem: Problem, outcome: Outcome) -> list[float]:
    """Accuracy, or R² of a regression, of every fit, on the test data."""
    return [float(model.score(problem.X_test, problem.y_test)) for model in outcome.models]


def peak_memory(load: Callable[[], Problem], entry: Entry) -> tuple[int, int]:
    """Peak bytes that a fit needs on top of its data, and the bytes of X.

    Runs in a new process. `load` must be picklable, and the peer one of PEERS.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_fit_alone, load, entry.peer.name, entry.C, entry.rate, entry.threads).result()


def _fit_alone(
    load: Callable[[], Problem], name: str, C: float, rate: float, threads: int
) -> tuple[int, int]:
    problem, entry = load(), Entry(PEERS[name], C, rate, threads)
    few = problem.thin(200)
    with threadpool_limits(limits=threads), convergence():
        entry.make(0).fit(few.X, few.y)  # imports and caches of the first fit are not counted
        model = entry.make(0)
        return peak_growth(lambda: model.fit(problem.X, problem.y)), problem.input_bytes


def peak_memory_of(load: Callable[[], Problem], model: Any) -> tuple[int, int]:
    """The same for any estimator, with all threads."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_fit_model, load, model).result()


def _fit_model(load: Callable[[], Problem], model: Any) -> tuple[int, int]:
    problem = load()
    few = problem.thin(200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(few.X, few.y)
        return peak_growth(lambda: model.fit(problem.X, problem.y)), problem.input_bytes


def peak_growth(work: Callable[[], Any]) -> int:
    """Peak memory of this process while `work` runs − its memory before.

    The memory before is what is resident, not the earlier peak: a peak during loading would hide that of
    the fit. Where the system cannot reset the earlier peak, the result is an upper bound.
    """
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # else the fit could reuse memory that loading has left
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # Linux: reset the peak
    before = psutil.Process().memory_info().rss
    kept = work()
    growth = peak_resident() - int(before)
    del kept
    return growth


def peak_resident() -> int:
    """Peak resident bytes of this process.

    On Linux, ru_maxrss of a spawned process starts at the peak of its *parent* and never falls. After a
    large section it would report that a fit needs nothing. VmHWM belongs to the process itself.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
