"""How many threads some work is worth, and BLAS kept to one of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController

from marginout._kernels import _passes

#: Multiplications below which a second thread costs more than it brings.
SERIAL_WORK = 200_000


def worker_threads(work: int) -> int:
    """How many threads some multiplications are worth, within the limits in force."""
    return int(_passes.max_threads()) if work > SERIAL_WORK else 1


@lru_cache(maxsize=1)
def _pools() -> ThreadpoolController:
    return ThreadpoolController()


def one_blas_thread() -> Any:
    """A context in which BLAS keeps to one thread."""
    return _pools().limit(limits=1, user_api="blas")
