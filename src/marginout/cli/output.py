"""Write the output: files, whole or not at all; tables, JSON, notes and progress."""

from __future__ import annotations

import json
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from marginout.cli.errors import OutputError, UsageError


def check_report(path: str, as_json: bool, *inputs: str | None) -> None:
    """As `check_writable`, for a report, which cannot share standard output with JSON."""
    if path == "-" and as_json:
        raise UsageError("--json and the report cannot both go to standard output: name a file with --out")
    check_writable(path, *inputs)


def check_writable(path: str, *inputs: str | None) -> None:
    """Refuse, before the work begins, a file that cannot be written or that is one of the inputs."""
    if path == "-":
        return
    for given in inputs:
        if given and given != "-" and os.path.realpath(given) == os.path.realpath(path):
            raise OutputError(f"cannot write {path!r}: it is also an input: name another file")
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise OutputError(
            f"cannot write {path!r}: the folder {str(folder)!r} does not exist: create it first"
        )
    if Path(path).is_dir():
        raise OutputError(f"cannot write {path!r}: it is a folder: name a file in it")
    if not os.access(folder, os.W_OK):
        raise OutputError(f"cannot write {path!r}: no permission in {str(folder)!r}: name another folder")


def write_atomically(path: str, write: Callable[[BinaryIO], object]) -> None:
    """Write a file whole or not at all; `write` is given the open file.

    The file has a temporary name in the same folder until it is whole. It is then renamed, which the system
    does in one step.
    """
    target = os.path.realpath(path)  # a link stays a link
    try:
        if os.path.exists(target) and not stat.S_ISREG(os.stat(target).st_mode):
            with open(target, "wb") as device:  # a device or pipe cannot be replaced
                write(device)
            return
        _replace(target, write)
    except OSError as error:
        cure = "free space, or name another file"
        raise OutputError(f"cannot write {path!r}: {error.strerror or error}: {cure}") from error


def _replace(target: str, write: Callable[[BinaryIO], object]) -> None:
    folder, name = os.path.split(target)
    handle, temporary = tempfile.mkstemp(prefix=f".{name[:100]}.", suffix=".tmp", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _mode(target))
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _mode(target: str) -> int:
    """The permissions of the file that is replaced, or those of a new one."""
    with suppress(OSError):
        return stat.S_IMODE(os.stat(target).st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def write_text(path: str, text: str) -> None:
    """Write text to a file, or to standard output."""
    if path == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        write_atomically(path, lambda file: file.write(text.encode()))


def print_json(content: dict[str, Any]) -> None:
    print(json.dumps(content, indent=2, default=_plain, allow_nan=False))


def to_json(content: Any) -> str:
    """JSON on one line; NumPy's numbers are numbers."""
    return json.dumps(content, default=_plain, allow_nan=False)


def _plain(value: Any) -> Any:
    for method in ("item", "tolist"):
        if hasattr(value, method):
            with suppress(ValueError):
                return getattr(value, method)()
    return str(value)


def listed(names: Iterable[str], most: int = 12) -> str:
    """Names with commas between them: the first `most`, then the number of all."""
    names = list(names)
    return ", ".join(names[:most]) + (f" … ({len(names)})" if len(names) > most else "")


def print_table(rows: Sequence[Sequence[str]], indent: str = "") -> None:
    """Print aligned columns, the first to the left and the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print(indent + "  ".join(cells).rstrip())


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print one line per fact: its name and its value."""
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        print(f"{name.ljust(width)}  {value}")


#: Control characters that move to the beginning of a terminal's line and clear it.
CLEAR = "\r\x1b[K"


def print_note(text: str) -> None:
    """Print a line on stderr; on a terminal it replaces the progress bar."""
    print(f"{CLEAR if sys.stderr.isatty() else ''}marginout: note: {text}", file=sys.stderr)


#: Characters of a progress bar, and seconds between two updates.
BAR, PAUSE = 20, 0.2


class Progress:
    """Show the current step on stderr, if this is a terminal; silent in a pipe."""

    def __init__(self, quiet: bool = False) -> None:
        self._on = sys.stderr.isatty() and not quiet
        self._quiet = quiet
        self._noted: set[str] = set()
        self._step, self._begin, self._shown = "", time.perf_counter(), 0.0

    def step(self, what: str) -> None:
        """Begin a new step."""
        self.done()
        self._step, self._begin, self._shown = what, time.perf_counter(), 0.0
        self._show(f"{what} …")

    def part(self, share: float, what: str = "") -> None:
        """Show a bar for the share of the step that is done, the time left, and the current work."""
        now = time.perf_counter()
        if now - self._shown <= PAUSE:
            return
        self._shown = now
        bar = ("█" * round(BAR * share)).ljust(BAR, "░")
        text = f"{self._step} {bar} {share:.0%}"
        if share > 0:
            text += f", {_clock((now - self._begin) * (1 - share) / share)} left"
        self._show(f"{text}, {what}" if what else text)

    def fitting(self, name: str, share: float) -> None:
        """Show the share of a fit, or of a search, that is done; for :func:`heard`."""
        step = {"cell": "cross-validating", "iteration": "fitting"}[name]
        if self._on and step != self._step:
            self.step(step)
        self.part(share)

    def done(self) -> None:
        """End the current step, and show its time."""
        if self._step:
            self._show(f"{self._step}: {time.perf_counter() - self._begin:.1f} s")
            if self._on:
                sys.stderr.write("\n")
            self._step = ""

    def note(self, text: str) -> None:
        """Print a note once, in a pipe too."""
        if not self._quiet and text not in self._noted:
            self._noted.add(text)
            print_note(text)

    def _show(self, text: str) -> None:
        if self._on:
            sys.stderr.write(f"{CLEAR}{text}")
            sys.stderr.flush()


def _clock(seconds: float) -> str:
    """A time in seconds, minutes or hours."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"
