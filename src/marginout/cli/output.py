"""What leaves the command: files that are whole or absent, tables, JSON, progress."""

from __future__ import annotations

import json
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from marginout.cli.errors import OutputError, UsageError


def check_report(path: str, as_json: bool, *inputs: str | None) -> None:
    """The same for a report, which cannot share standard output with JSON."""
    if path == "-" and as_json:
        raise UsageError("--json and a report on standard output do not go together: name a file with --out")
    check_writable(path, *inputs)


def check_writable(path: str, *inputs: str | None) -> None:
    """Fail before the work, not after it, where a file cannot be written, or is one of the inputs."""
    if path == "-":
        return
    for given in inputs:
        if given and given != "-" and os.path.realpath(given) == os.path.realpath(path):
            raise OutputError(f"cannot write {path!r}: it is read as well: name another file")
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise OutputError(
            f"cannot write {path!r}: the folder {str(folder)!r} does not exist: create it first"
        )
    if Path(path).is_dir():
        raise OutputError(f"cannot write {path!r}: it is a folder: name a file in it")
    if not os.access(folder, os.W_OK):
        raise OutputError(f"cannot write {path!r}: no permission in {str(folder)!r}: name another folder")


def write_atomically(path: str, write: Callable[[BinaryIO], None]) -> None:
    """Have `write` fill a file that appears under its name when it is whole, or not at all.

    It grows under a temporary name in the same folder and is then renamed, which the system does in one step.
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


def _replace(target: str, write: Callable[[BinaryIO], None]) -> None:
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
    """Text to a file, or to standard output."""
    if path == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        write_atomically(path, lambda file: _write_all(file, text.encode()))


def _write_all(file: BinaryIO, content: bytes) -> None:
    file.write(content)


def print_json(content: dict[str, Any]) -> None:
    print(json.dumps(content, indent=2, default=_plain, allow_nan=False))


def to_json(content: Any) -> str:
    """JSON on one line, from NumPy's numbers too."""
    return json.dumps(content, default=_plain, allow_nan=False)


def _plain(value: Any) -> Any:
    for method in ("item", "tolist"):
        if hasattr(value, method):
            with suppress(ValueError):
                return getattr(value, method)()
    return str(value)


def print_table(rows: Sequence[Sequence[str]], indent: str = "") -> None:
    """Columns under one another, the first to the left and the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print(indent + "  ".join(cells).rstrip())


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Name and value, one under the other."""
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        print(f"{name.ljust(width)}  {value}")


#: Goes back to the beginning of a terminal's line, and empties it.
CLEAR = "\r\x1b[K"


def print_note(text: str) -> None:
    """A line on stderr; on a terminal in the place of a progress bar."""
    print(f"{CLEAR if sys.stderr.isatty() else ''}marginout: note: {text}", file=sys.stderr)


#: Cells of a progress bar, and seconds between two looks of it.
BAR, PAUSE = 20, 0.2


class Progress:
    """What is going on, on a terminal's stderr; silent in a pipe."""

    def __init__(self, quiet: bool = False) -> None:
        self._on = sys.stderr.isatty() and not quiet
        self._quiet = quiet
        self._noted: set[str] = set()
        self._step, self._begin, self._shown = "", time.perf_counter(), 0.0

    def step(self, what: str) -> None:
        """A new step begins."""
        self.done()
        self._step, self._begin, self._shown = what, time.perf_counter(), 0.0
        self._show(f"{what} …")

    def part(self, share: float, what: str = "") -> None:
        """Show the share of the step that is done as a bar, the time left, and what is done now."""
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
        """The share of a fit, or of a search, that is done; for :func:`heard`."""
        step = {"cell": "cross-validating", "iteration": "fitting"}[name]
        if self._on and step != self._step:
            self.step(step)
        self.part(share)

    def done(self) -> None:
        if self._step:
            self._show(f"{self._step}: {time.perf_counter() - self._begin:.1f} s")
            if self._on:
                sys.stderr.write("\n")
            self._step = ""

    def note(self, text: str) -> None:
        """A line that a pipe gets too, once."""
        if not self._quiet and text not in self._noted:
            self._noted.add(text)
            print_note(text)

    def _show(self, text: str) -> None:
        if self._on:
            sys.stderr.write(f"{CLEAR}{text}")
            sys.stderr.flush()


def _clock(seconds: float) -> str:
    """A time of seconds, minutes or hours in few letters."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"
