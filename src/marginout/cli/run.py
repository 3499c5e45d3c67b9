"""Run the command that the arguments name; turn an error into one line and an exit code."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import traceback
import warnings
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Any

from marginout.cli.arguments import parse
from marginout.cli.errors import CommandError
from marginout.cli.output import CLEAR, print_note

INTERRUPTED, TERMINATED, BROKEN_PIPE = 130, 143, 141
#: Words of the library's advice, and the words for the command line.
OPTIONS = {
    "noise=": "--noise=",
    "raise C=": "raise --C=",
    "lower C": "lower --C",
    "max_iter": "--max-iter",
    "raise tol": "raise --tol",
    "epsilon=": "--epsilon=",
    "set class_weight='balanced'": "add --balanced",
    "Extend Cs": "Extend --C",
    "Extend noises": "Extend --noise",
    "n_splits=": "--folds=",
    "the largest Cs": "the largest values of --C",
    "scale the features": "scale the features (svmlight, npz: --scale)",
    "empty vocabulary; perhaps the documents only contain stop words": (
        "a column of text has no word: name it with --drop"
    ),
    "After pruning, no terms remain. Try a lower min_df or a higher max_df.": (
        "a column of text has no word in two rows: name it with --drop"
    ),
    "Scale the features": "Scale the features (svmlight, npz: --scale)",
}
#: Characters of an error line; a library may quote half a file.
LONGEST = 500


class Terminated(BaseException):
    """SIGTERM, raised so that temporary files are removed on the way out."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (without the program's name); return the exit code."""
    try:
        arguments = parse(sys.argv[1:] if argv is None else list(argv))
    except SystemExit as stop:  # argparse has printed the reason
        return int(stop.code or 0)
    try:
        with _sigterm_raised(), _warnings_noted(arguments.quiet):
            import_module(f"marginout.cli.{arguments.command}").run(arguments)
            sys.stdout.flush()
        return 0
    except (KeyboardInterrupt, Terminated) as stop:
        word, code = (
            ("terminated", TERMINATED) if isinstance(stop, Terminated) else ("interrupted", INTERRUPTED)
        )
        return _fail(arguments, f"{word}; nothing was written", code)
    except BrokenPipeError:
        _silence_stdout()
        return BROKEN_PIPE
    except Exception as error:
        return _fail(arguments, *_explain(error, arguments))


def _explain(error: Exception, arguments: Namespace) -> tuple[str, int]:
    """The error line and the exit code of an exception."""
    if isinstance(error, CommandError):
        return str(error), error.code
    if isinstance(error, MemoryError):
        return "not enough memory for these data: use fewer rows or columns (--where, --drop)", 3
    if isinstance(error, OSError):
        return f"cannot write: {error.strerror or error}: free space, or name another file", 5
    if isinstance(error, ValueError):  # of the library, about data or parameters
        said = _translated(str(error))
        if arguments.command in ("fit", "compare"):  # a saved model has chosen what each column is
            said = re.sub(r"(is no number: write one, or leave it empty)$", r"\1, or use --categorical", said)
        return said, 3
    name = type(error).__name__
    return f"unexpected {name}: {error} (a bug: run again with --debug and report it)", 1


def _translated(text: str) -> str:
    """Replace parameters of the library by options of the command."""
    text = re.sub(r"\bnoise=(\w+)\(\w+=([\d.e-]+)\)", lambda m: f"--noise {m[1].lower()}:{m[2]}", text)
    for name, option in OPTIONS.items():
        text = text.replace(name, option)
    return " ".join(text.split())


def _fail(arguments: Namespace, message: str, code: int) -> int:
    _silence_stdout(only_broken=True)
    if arguments.debug:
        traceback.print_exc()
    line = " ".join(message.split())
    line = line if len(line) <= LONGEST else line[:LONGEST] + " …"
    clear = CLEAR if sys.stderr.isatty() else ""
    print(f"{clear}marginout {arguments.command}: error: {line}", file=sys.stderr)
    return code


def _silence_stdout(only_broken: bool = False) -> None:
    """Keep the interpreter from flushing a broken stdout at exit, which would print an error."""
    try:
        sys.stdout.flush()
        broken = False
    except (OSError, ValueError):
        broken = True
    if broken or not only_broken:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except (OSError, ValueError):  # not a real file, as under a test
            return


@contextmanager
def _sigterm_raised() -> Iterator[None]:
    """Within the block, SIGTERM raises an exception. Only the main thread can set this."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _warnings_noted(quiet: bool) -> Iterator[None]:
    """Within the block, a warning is one line on stderr, printed once; nothing if `quiet`."""
    said = set()

    def note(message: Any, category: Any, *place: Any, **more: Any) -> None:
        line = _translated(str(message))
        if line not in said and not quiet:
            said.add(line)
            print_note(line)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("default", category=UserWarning)  # ConvergenceWarning, GridEdgeWarning, ...
        warnings.showwarning = note
        yield
