"""Parts of the reports that several commands write."""

from __future__ import annotations

import os
import platform
import shlex
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

from marginout.cli.modelfile import versions
from marginout.cli.models import is_search, parameters
from marginout.report import Line, Section, facts
from marginout.report.charts import percent, plain
from marginout.report.markup import tag
from marginout.robustness import DeletionCurve


def curve_line(curve: DeletionCurve, name: str, kind: str) -> Line:
    """Line of a deletion curve, with a band of one standard deviation of a draw."""
    return Line(name, curve.mean, curve.mean - curve.std, curve.mean + curve.std, kind)


def score_format(task: str, name: str = "R²") -> tuple[str, Callable[[float], str]]:
    """The name of a task's score, which a regression may give, and the function that shows a value."""
    return ("accuracy", percent) if task == "classification" else (name, plain)


def deaths(groups: Any) -> dict[str, Any]:
    """Options of :func:`deletion_curve` for features that die in these groups, or alone (None)."""
    return {} if groups is None else {"kind": "groups", "groups": groups}


def closing(arguments: Namespace, more: Sequence[tuple[str, object]] = ()) -> Section:
    """Section that names the command, the versions and the machine."""
    made = versions()
    rows: list[tuple[str, object]] = [
        ("command", tag("code", "marginout " + shlex.join(arguments.argv))),
        *more,
        ("versions", ", ".join(f"{name} {number}" for name, number in made.items())),
        ("machine", f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors"),
        ("written", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())),
    ]
    return Section("How this was made", facts(rows))


def searched(model: Any) -> dict[str, Any] | None:
    """Arguments of :func:`marginout.report.validation_map`; None without a search of several cells."""
    if not is_search(model) or model.scores_.shape[1] * model.scores_.shape[2] < 2:
        return None
    chosen = divmod(int(model.best_index_), len(model.noises_))
    names = [_short(noise) for noise in model.noises_]
    return {"Cs": model.Cs_, "noises": names, "means": model.scores_.mean(axis=0), "chosen": chosen}


def _short(noise: Any) -> str:
    """A noise in few letters: its rate, variance or scale, where it has one."""
    numbers = [value for name, value in parameters(noise).items() if name != "groups"]
    if numbers:
        return f"{numbers[0]:g}"
    return f"{noise:g}" if isinstance(noise, float) else repr(noise)
