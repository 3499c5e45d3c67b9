"""Executors on this machine: blocks and states in memory or on disk, one block at a time or several."""

from __future__ import annotations

import errno
import mmap
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from joblib import delayed
from numpy.typing import NDArray

from marginout._core.interfaces import Handles

#: Arrays in a file begin at multiples of so many bytes.
ALIGNED = 64
#: What the system says when a file cannot grow: the disk is full, a quota is, or files may not be so large.
FULL = errno.ENOSPC, errno.EDQUOT, errno.EFBIG


#: A function of a shard, its states and other arguments: arrays to be added up, or a state.
Task = Callable[..., Any]


def add_up(parts: Iterable[Any]) -> Any:
    """The sum of some arrays, or of some tuples of arrays, in their order."""
    total: Any = None
    for part in parts:
        if total is None:
            total = tuple(map(np.array, part)) if isinstance(part, tuple) else np.array(part)
        elif isinstance(part, tuple):
            for whole, more in zip(total, part, strict=True):
                whole += more
        else:
            total += part
    return total


class Serial:
    """One block after the other, each with all threads."""

    def map(self, task: Task, handles: Sequence[Handles], *args: Any) -> Handles:
        return list(self._run(task, handles, args))

    def sum(self, task: Task, handles: Sequence[Handles], *args: Any) -> Any:
        return add_up(self._run(task, handles, args))

    def _run(self, task: Task, handles: Sequence[Handles], args: tuple[Any, ...]) -> Iterator[Any]:
        return (task(*own, *args) for own in zip(*handles, strict=True))


class Threads(Serial):
    """joblib's threads, a block each. Blocks should keep to one thread of their own.

    `parallel` is a `joblib.Parallel` that shares memory, entered: a new pool for every sum
    would cost more than the sum.
    """

    def __init__(self, parallel: Any) -> None:
        self._parallel = parallel

    def _run(self, task: Task, handles: Sequence[Handles], args: tuple[Any, ...]) -> Iterator[Any]:
        return iter(self._parallel(delayed(task)(*own, *args) for own in zip(*handles, strict=True)))


class Stored:
    """Arrays in one file of their own, which goes when nobody needs it any more.

    Where each begins is known here: to have them back is to map the file, and what a task does not look
    at is not read. (NumPy's format would cost half a millisecond for every array of every task.)
    """

    def __init__(self, path: Path, arrays: Sequence[NDArray[Any]]) -> None:
        self._path = path
        self._places: list[tuple[np.dtype[Any], tuple[int, ...], int]] = []
        weakref.finalize(self, path.unlink, missing_ok=True)  # also if the disk is full
        with open(path, "wb") as file:
            for array in arrays:
                file.seek(-file.tell() % ALIGNED, os.SEEK_CUR)
                self._places.append((array.dtype, array.shape, file.tell()))
                # As bytes, which any type can be seen as; `tofile` would not tell why it fails.
                file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
            file.write(b"\0")  # nobody can map an empty file

    def load(self) -> tuple[NDArray[Any], ...]:
        """The arrays, read-only."""
        with open(self._path, "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return tuple(np.ndarray(shape, dtype, mapped, start) for dtype, shape, start in self._places)


class Recipe:
    """Something that is made of stored arrays when it is needed, and dropped again."""

    def __init__(self, make: Callable[..., Any], *parts: Stored) -> None:
        self._make, self._parts = make, parts

    def load(self) -> Any:
        return self._make(*(array for part in self._parts for array in part.load()))

    def then(self, change: Callable[[Any], Any]) -> Recipe:
        """A recipe of what `change` makes of this one."""
        return Recipe(lambda *arrays: change(self._make(*arrays)), *self._parts)


class OnDisk(Serial):
    """One block after the other, made by its recipe when its turn comes; states in files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def map(self, task: Task, handles: Sequence[Handles], *args: Any) -> Handles:
        return [self.store(*state) for state in self._run(task, handles, args)]

    def store(self, *arrays: NDArray[Any]) -> Stored:
        """Arrays in a file of the folder."""
        try:
            return Stored(self._folder / uuid4().hex, arrays)
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise OSError(
                error.errno,
                f"{error.strerror}: the scratch folder {str(self._folder.parent)!r} has no room for the "
                "blocks, which take the size of the data and about ten numbers per example and class. Name "
                "one that has, by scratch=... or the environment's TMPDIR, or fit to fewer examples",
            ) from error

    def _run(self, task: Task, handles: Sequence[Handles], args: tuple[Any, ...]) -> Iterator[Any]:
        return (task(*(handle.load() for handle in own), *args) for own in zip(*handles, strict=True))
