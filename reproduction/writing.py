"""Parts of a chapter of the report: results, tables, curves, and claims with their checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import sqrt
from statistics import mean
from typing import Any

from reproduction.cells import Experiment, Result, Settings, Store

NOT_RUN = "not run yet"


class NotRunError(Exception):
    """A number has not been measured yet."""


@dataclass(frozen=True)
class Results:
    """The cells of the full run of an experiment, each with its record or None."""

    cells: list[tuple[Settings, Result | None]]
    store: Store

    @classmethod
    def of(cls, experiment: Experiment, store: Store) -> Results:
        cells = experiment.cells(False)
        return cls(list(zip(cells, store.load(experiment.name, cells), strict=True)), store)

    def other(self, experiment: Experiment) -> Results:
        """The results of another experiment, for a comparison."""
        return Results.of(experiment, self.store)

    @property
    def missing(self) -> int:
        return sum(record is None for _, record in self.cells)

    def where(self, **match: Any) -> Results:
        """The cells with these settings."""
        chosen = [
            cell for cell in self.cells if all(cell[0].get(name) == value for name, value in match.items())
        ]
        return Results(chosen, self.store)

    def records(self) -> list[Result]:
        """Settings and results of all cells, which must be finished."""
        if not self.cells or self.missing:
            raise NotRunError
        return [{**settings, **record["result"]} for settings, record in self.cells if record is not None]

    def finished(self) -> list[Result]:
        """Settings and results of the finished cells."""
        return [{**settings, **record["result"]} for settings, record in self.cells if record is not None]

    def mean(self, name: str, **match: Any) -> float:
        """Mean of a number over the cells with these settings."""
        return float(mean(result[name] for result in self.where(**match).records()))

    def error(self, **match: Any) -> float:
        """Mean test error = 1 − mean test score."""
        return 1 - self.mean("test_score", **match)

    def chosen_error(self, **match: Any) -> float:
        """Test error of the cell with the best cross-validated score; its mean over outer folds, if any."""
        best: dict[Any, Result] = {}
        for result in sorted(self.where(**match).records(), key=lambda result: result["cv_score"]):
            best[result.get("fold")] = result
        return 1 - float(mean(result["test_score"] for result in best.values()))

    def standard_error(self, **match: Any) -> float:
        """√(e(1 − e)/n) = standard error of the chosen test error e on the n examples of all outer folds."""
        error = self.chosen_error(**match)
        sizes = {result.get("fold"): result["n_test"] for result in self.where(**match).records()}
        return sqrt(error * (1 - error) / sum(sizes.values()))


@dataclass(frozen=True)
class Check:
    """A claim of the paper, whether it holds in our numbers (None: not run yet), and the numbers.

    A claim that is not decided does not hold: its difference is smaller than a standard error.
    """

    claim: str
    holds: bool | None
    numbers: str
    decided: bool = True

    @property
    def word(self) -> str:
        if self.holds is None:
            return NOT_RUN
        return "holds" if self.holds else "does not hold" if self.decided else "not decided"


def check(claim: str, judge: Callable[[], tuple[bool | None, str]]) -> Check:
    """Check a claim. `judge` returns None if it is not decided, and may raise NotRunError."""
    try:
        holds, numbers = judge()
    except NotRunError:
        return Check(claim, None, NOT_RUN)
    return Check(claim, bool(holds), numbers, decided=holds is not None)


def positive(gains: Sequence[float], errors: Sequence[float]) -> bool | None:
    """True if all gains exceed their standard errors, False if one is not positive, else None."""
    if min(gains) <= 0:
        return False
    return True if all(gain > error for gain, error in zip(gains, errors, strict=True)) else None


@dataclass
class Section:
    """One chapter: claim, protocol, checks, tables, figures of matplotlib by file name, remarks."""

    claim: str
    protocol: str
    checks: list[Check]
    tables: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        known = [each.holds for each in self.checks if each.holds is not None]
        if not known:
            return NOT_RUN
        words = "holds" if all(known) else "holds in part" if any(known) else "does not hold"
        if not any(known) and not all(each.decided for each in self.checks):
            words = "not decided"
        part = f" ({len(known)} of {len(self.checks)} parts run)" if len(known) < len(self.checks) else ""
        return words + part


def number(value: Callable[..., float], *args: Any, digits: int = 3, bold: bool = False, **match: Any) -> str:
    """The value for these settings as an entry of a table, or NOT_RUN."""
    try:
        text = f"{value(*args, **match):.{digits}f}"
    except NotRunError:
        return NOT_RUN
    return f"**{text}**" if bold else text


def table(head: Sequence[Any], rows: Sequence[Sequence[Any]], caption: str = "", labels: int = 1) -> str:
    """A Markdown table, or a sentence if none of it has been run. The first `labels` columns are labels."""
    if rows and all(NOT_RUN in str(entry) for row in rows for entry in row[labels:]):
        return f"{caption} {NOT_RUN}."
    lines = [head, ["---"] * len(head), *rows]
    text = "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
    return f"{caption}\n\n{text}" if caption else text


def rate_table(
    results: Results, rows: dict[str, Settings], rates: Sequence[float], caption: str, name: str = ""
) -> str:
    """Table of test errors, or means of the number `name`, by rate: one row per entry of `rows`."""
    value = partial(results.mean, name) if name else results.error
    body = [[label, *(number(value, rate=rate, **match) for rate in rates)] for label, match in rows.items()]
    return table(["rate", *rates], body, caption)


def gain_table(results: Results, rows: Sequence[str], axis: str, columns: Sequence[str], caption: str) -> str:
    """Table of test errors, without noise → with the chosen rate: one row per model."""
    body = []
    for model in rows:
        places: list[Settings] = [{"model": model, axis: column} for column in columns]
        plain = [number(results.error, rate=0.0, **place) for place in places]
        chosen = [number(results.chosen_error, bold=True, **place) for place in places]
        body.append([model, *(f"{before} → {after}" for before, after in zip(plain, chosen, strict=True))])
    return table(["model", *columns], body, caption)


def curve(
    results: Results, name: str = "test_score", axis: str = "rate", error: bool = True, **match: Any
) -> tuple[list[float], list[float]]:
    """The finished points of a curve: values of `axis`, and the mean of a number, or 1 − it, at each."""
    found: dict[float, list[float]] = {}
    for result in results.where(**match).finished():
        found.setdefault(result[axis], []).append(1 - result[name] if error else result[name])
    places = sorted(found)
    return places, [mean(found[place]) for place in places]


def points(values: float | Sequence[float]) -> str:
    """A difference of errors, or the smallest and the largest of several, in signed percentage points."""
    if isinstance(values, float):
        return f"{100 * values:+.2f} points"
    return f"{100 * min(values):+.1f} to {100 * max(values):+.1f} points"


def percent(value: float, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f} %"
