"""The executor on a Dask cluster: where the blocks are, and what is said when it breaks."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, nullcontext
from typing import Any
from uuid import uuid4

import dask
import numpy as np
from dask.core import reverse_dict
from dask.highlevelgraph import HighLevelGraph
from distributed import KilledWorker, wait
from distributed.client import ClosedClientError

from marginout._blocks.executors import Task, add_up
from marginout._core.interfaces import Array, Handles

#: Partial sums that one task adds up.
FAN_IN = 8
#: Bytes from which on an argument travels once to every worker, by one more hop, not with every task.
HEAVY = 2**18
#: Seconds between two looks at whether there is a worker at all, and how many looks in vain are enough.
PATIENCE, LOOKS = 60.0, 5
#: Blocks that a message names.
SOME = 5
#: By how much a worker's share of the work may exceed the average before a block is moved.
SLACK = 0.1


class Cluster:
    """The executor: handles are futures, made of the blocks' graph and of nothing else."""

    def __init__(self, client: Any, count: int) -> None:
        self.client, self.numbers = client, list(range(count))
        self._token, self._calls = uuid4().hex, itertools.count()
        self._homes: list[str | None] = [None] * count
        self._last: tuple[Any, Any] = None, None
        self._tasks: list[Any] = []

    def map(self, task: Task, handles: Sequence[Handles], *args: Any) -> Handles:
        sent = [self._carried(arg) for arg in args]
        return self.submit(task, *handles, *([arg] * len(self.numbers) for arg in sent))

    def sum(self, task: Task, handles: Sequence[Handles], *args: Any) -> Any:
        parts = self.map(task, handles, *args)
        while len(parts) > FAN_IN:
            groups = [list(parts[i : i + FAN_IN]) for i in range(0, len(parts), FAN_IN)]
            parts = self._named("sum", add_up, groups)
        return add_up(self.results(parts))  # the driver is the root of the tree

    def compute(self, tasks: list[Any]) -> list[Any]:
        """Futures of delayed tasks, one per block: what the blocks are made of."""
        self._tasks = tasks
        with self._explained():
            futures: list[Any] = self.client.compute(tasks)
        return futures

    def submit(self, task: Any, *args: Any) -> list[Any]:
        """Futures of task(*(arg[i] for arg in args)), whose keys tell the block."""
        count = len(self.numbers)
        return self._named(task.__name__.strip("_"), on_block, [task] * count, self.numbers, *args)

    def keep(self, blocks: list[Any], wanted: Sequence[bool]) -> list[Any]:
        """Some of the blocks, under their own numbers; the executor is for these from now on."""
        self.numbers = list(itertools.compress(self.numbers, wanted))
        self._homes = list(itertools.compress(self._homes, wanted))
        return list(itertools.compress(blocks, wanted))

    def settle(self, task: Any, blocks: list[Any], work: Sequence[int], *args: Any) -> list[Any]:
        """Futures of task(block, *args), the work shared fairly, those of one worker side by side.

        If a worker dies its blocks go elsewhere. Sums start where their terms are.
        """
        with self._explained(blocks):
            self._await(blocks)
        self.results([block for block in blocks if block.status != "finished"])
        homes = self._shared_out(blocks, work)
        order = sorted(range(len(blocks)), key=lambda i: str(homes[i]))
        self.numbers = [self.numbers[i] for i in order]
        self._homes = [homes[i] for i in order]
        name = task.__name__.strip("_")
        with self._explained():
            return [
                self.client.submit(
                    on_block,
                    task,
                    number,
                    blocks[i],
                    *args,
                    key=f"marginout-{name}-{self._token}-{number}",
                    pure=False,
                    workers=homes[i],
                    allow_other_workers=homes[i] is not None,
                )
                for number, i in zip(self.numbers, order, strict=True)
            ]

    def _shared_out(self, blocks: list[Any], work: Sequence[int]) -> list[str | None]:
        """The worker of every block: where it is, unless that one has more than its share of the work."""
        with self._explained():
            places, threads = self.client.who_has(blocks), self.client.nthreads()
        if not threads:  # all of them have just died
            return [None] * len(blocks)
        share = (1 + SLACK) * sum(work) / sum(threads.values())
        loads = dict.fromkeys(threads, 0.0)
        homes: list[str | None] = []
        for block, size in zip(blocks, work, strict=True):
            after = {worker: (load + size) / threads[worker] for worker, load in loads.items()}
            here = [worker for worker in places.get(block.key, ()) if worker in after]
            home = min(here or after, key=lambda worker: after[worker])
            if after[home] > share:
                home = min([home, *after], key=lambda worker: after[worker])
            loads[home] += size
            homes.append(home)
        return homes

    def results(self, futures: Sequence[Any]) -> list[Any]:
        """What futures hold."""
        with self._explained(futures):
            self._await(futures)
            return list(self.client.gather(list(futures)))

    def _await(self, futures: Sequence[Any]) -> None:
        """Wait for futures; not for all if one fails, nor for ever where nobody is left to compute them."""
        alone = 0
        while futures and alone < LOOKS:
            try:
                wait(list(futures), timeout=PATIENCE)
                return
            except TimeoutError:
                if any(future.status == "error" for future in futures):
                    return  # one has failed already, perhaps by ending the workers that others wait for
                alone = 0 if self.client.nthreads() else alone + 1
        if futures:
            waiting = self._where(future.key for future in futures if future.status != "finished")
            raise RuntimeError(
                f"The cluster has had no worker for {PATIENCE * LOOKS:g} s, while there was {waiting} to "
                "compute. If they died for want of memory, start workers with more of it, or use smaller "
                "blocks, for instance X.rechunk({0: rows})."
            )

    def _carried(self, arg: Any) -> Any:
        if not isinstance(arg, np.ndarray) or arg.nbytes <= HEAVY:
            return arg
        if self._last[0] is None or not np.array_equal(self._last[0], arg):
            # A copy: solvers change vectors in place. The weights of a point are asked for twice.
            sent = arg.copy()
            self._last = sent, self._named("carry", _same, [sent])[0]
        return self._last[1]

    def _named(self, name: str, function: Any, *iterables: Any) -> list[Any]:
        count, call = len(iterables[0]), next(self._calls)
        numbers = self.numbers if count == len(self.numbers) else range(count)
        keys = [f"marginout-{name}-{self._token}-{call}-{i}" for i in numbers]
        with warnings.catch_warnings(), self._explained(), self._at_home(keys, function):
            # Vectors of a million features in the graph are meant: unlike scattered ones they survive.
            warnings.filterwarnings("ignore", message="Sending large graph")
            futures: list[Any] = self.client.map(function, *iterables, key=keys, pure=False)
        return futures

    def _at_home(self, keys: list[str], function: Any) -> Any:
        """Tasks on blocks run where those are, as long as their workers live.

        Left to itself the scheduler copies blocks to whoever is idle for a moment.
        """
        if function is not on_block or None in self._homes:
            return nullcontext()
        homes = dict(zip(keys, self._homes, strict=True))
        return dask.annotate(workers=homes.get, allow_other_workers=True)

    @contextmanager
    def _explained(self, futures: Sequence[Any] = ()) -> Iterator[None]:
        """Say which block broke the cluster, or that it is lost, and what helps."""
        try:
            yield
        except KilledWorker as error:
            # A worker takes the next task before it has ended one: the scheduler suspects both.
            failed = [future.exception() for future in futures if future.status == "error"]
            keys = [other.task for other in failed if isinstance(other, KilledWorker)] or [error.task]
            raise RuntimeError(
                f"Several workers ended over {self._where(keys)}, most likely for want of memory (the last "
                f"was {error.last_worker.address}). Use smaller blocks, for instance "
                "X.rechunk({0: rows}), or workers with more memory."
            ) from error
        except (CancelledError, ClosedClientError, OSError) as error:
            if any(future.status == "error" for future in futures):
                raise  # a task's own: a file that is not there
            if isinstance(error, CancelledError) and "scheduler" not in str(error):  # which is well
                raise RuntimeError(
                    "Scattered data died with their worker, and nobody can compute them again. Give X and "
                    "y as graphs, for instance dask arrays or delayed functions that read files."
                ) from error
            raise RuntimeError(
                "The connection to the scheduler is lost, and with it all that the workers held. Start "
                "a cluster, and fit again; with fit(..., checkpoint=path) the fit goes on where it stood."
            ) from error

    def _where(self, keys: Iterable[Any]) -> str:
        """The blocks that tasks are for, in words."""
        keys = list(keys)
        numbers = sorted(self._blocks(keys))
        if not numbers:
            return f"the task {keys[0]!r}"
        some = ", ".join(map(str, numbers[:SOME])) + (", …" if len(numbers) > SOME else "")
        return f"block{'s' if len(numbers) > 1 else ''} {some} (task {keys[0]!r})"

    def _blocks(self, keys: Iterable[Any]) -> set[int]:
        """The blocks that need tasks of this module's, or of the graph that X and y came with."""
        own = [str(key).split("-") for key in keys if str(key).startswith("marginout-")]
        numbers = {int(words[-1]) for words in own if words[1] not in ("sum", "carry")}
        ahead = [key for key in keys if not str(key).startswith("marginout-")]
        if ahead:
            graph = HighLevelGraph.merge(*(task.dask for task in self._tasks))
            needed_by = reverse_dict(graph.get_all_dependencies())
            ends = {task.key: number for number, task in enumerate(self._tasks)}
            known = set(ahead)
            while ahead:
                key = ahead.pop()
                if key in ends:
                    numbers.add(ends[key])
                fresh = needed_by.get(key, set()) - known
                known |= fresh
                ahead += fresh
        return numbers


def _same(array: Array) -> Array:
    return array


def on_block(task: Any, number: int, *args: Any) -> Any:
    try:
        return task(*args)
    except MemoryError as error:
        raise MemoryError(
            f"block {number} does not fit into its worker's memory ({error}). Use smaller blocks, for "
            "instance X.rechunk({0: rows}), or workers with more memory."
        ) from error
