"""Rows of the result files, and the parts that tables share."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence

from benchmarks.problems import WORDS
from benchmarks.report import RESULTS

TFIDF = WORDS[-1]
#: Characters of a line of text.
WIDTH = 120

Row = dict[str, str]


def rows(section: str) -> list[Row]:
    """The rows of a section's CSV file."""
    with (RESULTS / f"{section}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def summary(section: str) -> dict[str, float]:
    """The headline numbers of a section by name."""
    return {row["measure"]: float(row["value"]) for row in rows(f"{section}_summary")}


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def percent(row: Row) -> str:
    return f"{100 * float(row['test_error']):.1f}"


def signed(mean: float, low: float, high: float) -> str:
    """A difference and its interval, with minus signs as in print."""
    return f"{mean:.1f} [{low:.1f}, {high:.1f}]".replace("-", "−")
