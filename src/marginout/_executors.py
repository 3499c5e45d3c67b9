"""Executors on this machine: blocks and states in memory or on disk, one block at a time or several."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from joblib import delayed

from marginout._objective import Array
from marginout._sum import Handles, Task


def add_up(parts: Iterable[Array]) -> Array:
    """The sum of some arrays, in their order."""
    first, *others = parts
    total = np.array(first)
    for part in others:
        total += part
    return total


class Serial:
    """One block after the other, each with all threads."""

    def map(self, task: Task, handles: Sequence[Handles], *args: Any) -> Handles:
        return list(self._run(task, handles, args))

    def sum(self, task: Task, handles: Sequence[Handles], *args: Any) -> Array:
        return add_up(self._run(task, handles, args))

    def _run(self, task: Task, handles: Sequence[Handles], args: tuple[Any, ...]) -> Iterator[Any]:
        return (task(*own, *args) for own in zip(*handles, strict=True))


class Threads(Serial):
    """joblib's threads, a block each. Blocks should keep to one thread of their own.

    `parallel` is a `joblib.Parallel` that shares memory, entered: a pool for every sum costs 50 ms.
    """

    def __init__(self, parallel: Any) -> None:
        self._parallel = parallel

    def _run(self, task: Task, handles: Sequence[Handles], args: tuple[Any, ...]) -> Iterator[Any]:
        return iter(self._parallel(delayed(task)(*own, *args) for own in zip(*handles, strict=True)))


class Stored:
    """A state in a file, which goes when nobody needs it any more."""

    def __init__(self, path: Path, state: Array) -> None:
        self._path = path
        np.save(path, state)
        weakref.finalize(self, path.unlink, missing_ok=True)

    def load(self) -> Array:
        """The state, mapped into memory: only what is looked at is read."""
        return np.asarray(np.load(self._path, mmap_mode="r"))


class Recipe:
    """Something that is made when it is needed, and dropped again."""

    def __init__(self, make: Callable[..., Any], *args: Any) -> None:
        self._make, self._args = make, args

    def load(self) -> Any:
        return self._make(*self._args)


class OnDisk(Serial):
    """One block after the other, made by its recipe when its turn comes; states in files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def map(self, task: Task, handles: Sequence[Handles], *args: Any) -> Handles:
        return [
            Stored(self._folder / f"{uuid4().hex}.npy", state) for state in self._run(task, handles, args)
        ]

    def sum(self, task: Task, handles: Sequence[Handles], *args: Any) -> Array:
        total: Array | None = None
        for part in self._run(task, handles, args):
            total = part if total is None else np.add(total, part, out=total)
        assert total is not None
        return total

    def _run(self, task: Task, handles: Sequence[Handles], args: tuple[Any, ...]) -> Iterator[Any]:
        return (task(*(handle.load() for handle in own), *args) for own in zip(*handles, strict=True))
