"""Errors of the command, one class per exit code. A message names the fault, its place and the cure."""


class CommandError(Exception):
    """An error with a message for the user; all others are bugs."""

    code = 1


class UsageError(CommandError):
    """Arguments that contradict each other."""

    code = 2


class DataError(CommandError):
    """Data that cannot be read, or from which nothing can be learnt."""

    code = 3


class ModelError(CommandError, ValueError):
    """A model file that is broken, foreign, or of another version."""

    code = 4


class OutputError(CommandError):
    """An output that cannot be written."""

    code = 5


class MissingPackageError(CommandError, ImportError):
    """An optional package that is not installed."""

    code = 6


class ScoreError(CommandError):
    """A score below the one that was asked for."""

    code = 7


#: Exit codes, as `marginout --help` prints them.
EXIT_CODES = """\
exit codes:
  0    done
  1    unexpected error, a bug: run again with --debug and report it
  2    usage: unknown or contradictory arguments
  3    data that cannot be read or learnt from
  4    model file that is broken, foreign or of another version
  5    output that cannot be written
  6    optional package not installed
  7    stress --fail-below: the score is below the one asked for (all output is written)
  130  interrupted (Ctrl-C), 143 terminated, 141 reader of the output gone;
       whatever the code, no output file is left half-written"""


def need(package: str, why: str) -> MissingPackageError:
    """The error for a missing package."""
    return MissingPackageError(
        f"{why} needs {package}: pip install 'marginout[cli]' (or pip install {package})"
    )
