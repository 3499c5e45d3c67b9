"""Defaults compared with those of plain models, on the two halves of the panel."""

from __future__ import annotations

from benchmarks.tables.parts import Row, rows, signed, table

HALVES = {"held out": "tables", "development": "tables_development"}
KINDS = {"tables": "accuracy", "regressions": "R² × 100", "texts": "accuracy"}


def panel() -> str:
    """Table of the mean differences from the peers, in points, with intervals over the data sets."""
    body = []
    for half, section in HALVES.items():
        for row in (row for row in rows(section) if row["problem"] in KINDS):
            what = f"{row['repeats']} {row['problem']}, {half}, {KINDS[row['problem']]}"
            body.append([what, row["model"], row["peer"], _points(row), f"{float(row['worst']):.1f}"])
    head = ["data", "model", "peer", "better by, points [95 %]", "worst set"]
    return table(head, [[cell.replace("-", "−") for cell in line] for line in body])


def _points(row: Row) -> str:
    return signed(*(float(row[name]) for name in ("difference", "low", "high")))
