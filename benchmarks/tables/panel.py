"""Defaults compared with those of plain models, on the two halves of the panel."""

from __future__ import annotations

from benchmarks.tables.parts import Row, rows, signed, table

HALVES = {"held out": "tables", "development": "tables_development"}
HEAD = ["data", "model", "peer", "better by, points [95 %]", "worst set"]
KINDS = {"tables": "accuracy", "regressions": "R² × 100", "texts": "accuracy"}


def panel() -> str:
    """Table of the mean differences from the peers on the held-out half: defaults on both sides."""
    return table(HEAD, [_line(row) for row in _half("held out") if "rate" not in row["model"]])


def panel_halves() -> str:
    """The same of both halves, given rates too."""
    return table(HEAD, [_line(row, half) for half in HALVES for row in _half(half)])


def _half(half: str) -> list[Row]:
    return [row for row in rows(HALVES[half]) if row["problem"] in KINDS]


def _line(row: Row, half: str = "") -> list[str]:
    """Cells of a row: points, with an interval over the data sets."""
    what = ", ".join(filter(None, [f"{row['repeats']} {row['problem']}", half, KINDS[row["problem"]]]))
    cells = [what, row["model"], row["peer"], _points(row), f"{float(row['worst']):.1f}"]
    return [cell.replace("-", "−") for cell in cells]


def _points(row: Row) -> str:
    return signed(*(float(row[name]) for name in ("difference", "low", "high")))
