"""How many threads some work is worth, and BLAS kept to one of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from threading import current_thread, main_thread
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from marginout._kernels import _passes

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Multiplications below which a second thread costs more than it brings.
SERIAL_WORK = 200_000


def worker_threads(work: int) -> int:
    """How many threads some multiplications are worth, within the limits in force."""
    return int(_passes.max_threads()) if work > SERIAL_WORK else 1


@lru_cache(maxsize=1)
def _pools() -> ThreadpoolController:
    return ThreadpoolController()  # looking for the pools takes longer than a small search


def one_thread() -> Any:
    """A context in which BLAS and OpenMP keep to one thread."""
    return _pools().limit(limits=1)


def one_blas_thread() -> Any:
    """A context in which BLAS keeps to one thread."""
    return _pools().limit(limits=1, user_api="blas")


def in_order(work: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """`work` of all items, in their order, in so many threads; few results wait to be taken.

    What another thread than the main one asks for stays in it: callers that limit BLAS at the same time
    would restore one another's limits.
    """
    if threads == 1 or current_thread() is not main_thread():
        yield from map(work, items)
        return
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
