"""What the reports of all commands share."""

from __future__ import annotations

import os
import platform
import shlex
import time
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from marginout.cli.modelfile import versions
from marginout.report import Line, Section, facts
from marginout.report.markup import tag
from marginout.robustness import DeletionCurve


def curve_line(curve: DeletionCurve, name: str, kind: str) -> Line:
    """A deletion curve, with a band of one standard deviation of a draw."""
    return Line(name, curve.mean, curve.mean - curve.std, curve.mean + curve.std, kind)


def closing(arguments: Namespace, more: Sequence[tuple[str, object]] = ()) -> Section:
    """Where the report comes from: the command, the machine, the versions."""
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
    """The map of a search, for :func:`marginout.report.validation_map`; None if there was none."""
    if not hasattr(model, "scores_") or model.scores_.shape[1] * model.scores_.shape[2] < 2:
        return None
    chosen = divmod(int(model.best_index_), len(model.noises_))
    names = [_short(noise) for noise in model.noises_]
    return {"Cs": model.Cs_, "noises": names, "means": model.scores_.mean(axis=0), "chosen": chosen}


def _short(noise: Any) -> str:
    """A noise in few letters: the only parameter, where there is one."""
    for name in ("rate", "variance", "scale"):
        if hasattr(noise, name):
            return f"{getattr(noise, name):g}"
    return f"{noise:g}" if isinstance(noise, float) else repr(noise)
