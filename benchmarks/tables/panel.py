"""Defaults and searches compared with those of plain models, on the two halves of the panel."""

from __future__ import annotations

from benchmarks import panel as halves
from benchmarks.report import geometric_mean
from benchmarks.tables.parts import Row, rows, signed, table

HALVES = {halves.HELD_OUT: "tables", halves.DEVELOPMENT: "tables_development"}
SEARCHES = {halves.HELD_OUT: "tables_search", halves.DEVELOPMENT: "tables_search_development"}
HEAD = ["data", "model", "peer", "better by, points [95 %]", "worst set"]
KINDS = {"tables": "accuracy", "regressions": "R² × 100", "texts": "accuracy"}


def panel() -> str:
    """Table of the mean differences from the peers on the held-out half: defaults on both sides."""
    own = _means(rows(HALVES[halves.HELD_OUT]))
    return table(HEAD, [_line(row) for row in own if "rate" not in row["model"]])


def panel_halves() -> str:
    """The same of both halves, given rates too, with times."""
    return _timed(HALVES)


def panel_searches() -> str:
    """The same of searches with their default grids."""
    return _timed(SEARCHES)


def _timed(sections: dict[str, str]) -> str:
    body = []
    for half, section in sections.items():
        found = rows(section)
        body += [[*_line(row, half), _time(found, row)] for row in _means(found)]
    return table([*HEAD, "time / the peer's, mean (worst)"], body)


def _means(found: list[Row]) -> list[Row]:
    return [row for row in found if row["problem"] in KINDS]


def _time(found: list[Row], mean: Row) -> str:
    """The geometric mean over the data sets of a kind of the ratio of CPU times, and the largest."""
    kinds = {each.name: "regressions" if each.regression else "tables" for each in halves.TABLES}
    pair = mean["model"], mean["peer"]
    ratios = [
        float(row["cpu_ratio_to_peer"])
        for row in found
        if (row["model"], row["peer"]) == pair
        and row["cpu_ratio_to_peer"]
        and kinds.get(row["problem"], "texts") == mean["problem"]
    ]
    return f"{geometric_mean(ratios):.2f} ({max(ratios):.1f})" if ratios else ""


def _line(row: Row, half: str = "") -> list[str]:
    """Cells of a row: points, with an interval over the data sets."""
    what = ", ".join(filter(None, [f"{row['repeats']} {row['problem']}", half, KINDS[row["problem"]]]))
    cells = [what, row["model"], row["peer"], _points(row), f"{float(row['worst']):.1f}"]
    return [cell.replace("-", "−") for cell in cells]


def _points(row: Row) -> str:
    return signed(*(float(row[name]) for name in ("difference", "low", "high")))
