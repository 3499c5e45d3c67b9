"""The command `marginout`: fit, predict, score, stress, compare, info, demo.

`arguments` says what can be asked, `run` finds the command and turns errors into one line and
an exit code, `data` and its readers bring files in, `prepare` makes numbers of them, `modelfile` and `output`
bring results out. Every command is a module of its own with a function `run`. Nothing heavy is
imported before a command needs it.
"""

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; its exit code."""
    try:
        from marginout.cli import run

        return run.main(argv)
    except KeyboardInterrupt:  # before the command was ready for it
        return 130
