"""Draw charts as inline SVG and tables; the page's style colours them for light and dark screens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from marginout.report.markup import Raw, join, table, tag, values

#: Units of the SVG: size of the drawing, and its margins, wide enough for the larger letters of a phone.
WIDTH, HEIGHT = 720.0, 400.0
LEFT, TOP, RIGHT, BOTTOM = 76.0, 16.0, 24.0, 66.0
#: Largest number of rows of the table under a chart.
MOST_ROWS = 10


@dataclass(frozen=True)
class Line:
    """A score over the deletion rate, with a band; `kind` is its style."""

    name: str
    mean: Any
    low: Any
    high: Any
    kind: str  # "ours", "ours2", "plain", "plain2"


@dataclass(frozen=True)
class Scale:
    """Map rates and scores to coordinates of the drawing."""

    rates: Any
    low: float
    high: float

    def x(self, rate: float) -> float:
        first, last = float(min(self.rates)), float(max(self.rates))
        share = (rate - first) / ((last - first) or 1.0)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def y(self, score: float) -> float:
        share = (score - self.low) / (self.high - self.low)
        return round(HEIGHT - BOTTOM - min(1.05, max(-0.02, share)) * (HEIGHT - TOP - BOTTOM), 1)


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def plain(value: float) -> str:
    return f"{value:.3f}"


def deletion_figure(
    lines: Sequence[Line], rates: Sequence[float], start: int, *, score: str, what: str, caption: str
) -> Raw:
    """Draw curves with bands, a legend with the values at one rate, and a table of all values.

    `score` is "accuracy", shown in percent, or another name. `what` names the features ("pixels"). `start` is
    the number of the rate that is marked before the slider is moved.
    """
    show = percent if score == "accuracy" else plain
    scale = _scale(lines, rates)
    shown = [f"{rate:.0%}" for rate in rates]
    legend = tag(
        "ul",
        *(
            tag(
                "li",
                _swatch(line.kind),
                tag("span", line.name, class_="name"),
                tag("span", show(line.mean[start]), class_="value", data_at=values(map(show, line.mean))),
                class_=line.kind,
            )
            for line in lines
        ),
        class_="legend",
        aria_label=f"{score} of each model at the marked rate",
    )
    marked = tag(
        "p",
        f"{score.capitalize()} with ",
        tag("strong", shown[start], data_at=values(shown)),
        f" of the {what} deleted:",
        class_="marked",
    )
    drawing = _drawing(lines, rates, start, scale, f"{score} by share of {what} deleted", what, score, show)
    return join(
        [
            tag("figure", marked, legend, drawing, tag("figcaption", caption), class_="chart"),
            _value_table(lines, shown, score, what, show),
        ]
    )


def slider(rates: Sequence[float], start: int, what: str) -> Raw:
    """The control that moves all marks of a page; hidden until the script shows it."""
    shown = [f"{rate:.0%}" for rate in rates]
    label = tag(
        "label",
        f"Share of {what} deleted ",
        tag("output", shown[start], for_="rate", data_at=values(shown)),
        for_="rate",
    )
    control = tag(
        "input",
        type="range",
        id="rate",
        min=0,
        max=len(rates) - 1,
        step=1,
        value=start,
        aria_valuetext=shown[start],
        data_rates=values(float(rate) for rate in rates),
    )
    return tag("div", label, control, class_="control", hidden=True)


def _scale(lines: Sequence[Line], rates: Sequence[float]) -> Scale:
    low = min(float(np.min(line.low)) for line in lines)
    high = max(float(np.max(line.high)) for line in lines)
    if low < -1:  # R² of a regression has no lower bound: the rest of the curve would be flat
        low = -1.0
    step = _step(max(high - low, 1e-3))
    bottom, top = math.floor(low / step) * step, math.ceil(high / step) * step
    return Scale(rates, bottom, top if top > bottom else bottom + step)


def _step(span: float) -> float:
    """A round distance between ticks, for about five of them."""
    unit = 10 ** math.floor(math.log10(span / 5))
    return float(next(unit * m for m in (1, 2, 5, 10) if unit * m * 5.5 >= span))


def _drawing(
    lines: Sequence[Line],
    rates: Sequence[float],
    start: int,
    scale: Scale,
    title: str,
    what: str,
    score: str,
    show: Any,
) -> Raw:
    ends = [f"{line.name} from {show(line.mean[0])} to {show(line.mean[-1])}" for line in lines]
    description = f"From {rates[0]:.0%} to {rates[-1]:.0%} of the {what} deleted: {'; '.join(ends)}."
    parts = [tag("title", title), tag("desc", description), *_axes(scale, what, score)]
    xs = [scale.x(rate) for rate in rates]
    for line in lines:
        band = [(x, scale.y(v)) for x, v in zip(xs, line.high, strict=True)]
        band += [(x, scale.y(v)) for x, v in zip(reversed(xs), reversed(list(line.low)), strict=True)]
        parts.append(tag("polygon", points=_points(band), class_=f"band {line.kind}"))
    for line in lines:
        points = [(x, scale.y(v)) for x, v in zip(xs, line.mean, strict=True)]
        parts.append(tag("polyline", points=_points(points), class_=f"curve {line.kind}"))
    parts.append(_marker(lines, scale, xs, start))
    return tag("svg", *parts, viewBox=f"0 0 {WIDTH:.0f} {HEIGHT:.0f}", role="img")


def _marker(lines: Sequence[Line], scale: Scale, xs: Sequence[float], start: int) -> Raw:
    x = xs[start]
    bottom = HEIGHT - BOTTOM
    marks = [tag("line", x1=x, x2=x, y1=TOP, y2=bottom, class_="cursor", data_x=values(xs))]
    for line in lines:
        ys = [scale.y(v) for v in line.mean]
        marks.append(
            tag(
                "circle",
                cx=x,
                cy=ys[start],
                r=6,
                class_=f"dot {line.kind}",
                data_x=values(xs),
                data_y=values(ys),
            )
        )
    return tag("g", *marks, aria_hidden="true")


def _axes(scale: Scale, what: str, score: str) -> list[Raw]:
    step = _step(scale.high - scale.low)
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for k in range(round((scale.high - scale.low) / step) + 1):
        value = scale.low + k * step
        y = scale.y(value)
        label = f"{value:.0%}" if score == "accuracy" and step >= 0.01 else f"{value:.3g}"
        parts.append(tag("line", x1=LEFT, x2=right, y1=y, y2=y, class_="grid"))
        parts.append(tag("text", label, x=LEFT - 10, y=y, class_="tick left"))
    every = max(1, round(len(scale.rates) / 5))
    for rate in list(scale.rates)[::every]:
        parts.append(tag("text", f"{rate:.0%}", x=scale.x(rate), y=bottom + 12, class_="tick below"))
    middle = (LEFT + right) / 2
    parts.append(tag("text", f"{what} deleted", x=middle, y=HEIGHT - 6, class_="axis"))
    return parts


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)


def _swatch(kind: str) -> Raw:
    line = tag("line", x1=0, x2=28, y1=6, y2=6, class_=f"curve {kind}")
    return tag("svg", line, viewBox="0 0 28 12", class_="swatch", aria_hidden="true")


def _value_table(lines: Sequence[Line], shown: Sequence[str], score: str, what: str, show: Any) -> Raw:
    lines = sorted(lines, key=lambda line: not line.kind.startswith("ours"))  # a phone shows the first ones
    rows = []
    for i in range(0, len(shown), math.ceil(len(shown) / MOST_ROWS)):
        best = max(float(line.mean[i]) for line in lines)
        cells = [
            tag("td", show(line.mean[i]), class_="best" if len(lines) > 1 and line.mean[i] == best else None)
            for line in lines
        ]
        rows.append([shown[i], *cells])
    return table(
        f"{score.capitalize()} by share of {what} deleted",
        ["deleted", *(line.name for line in lines)],
        rows,
        class_="values",
    )


def validation_map(
    Cs: Sequence[float], noises: Sequence[str], means: Any, chosen: tuple[int, int], score: str
) -> Raw:
    """Table of the scores of a search over C and noise: more colour is better, the chosen cell is framed."""
    show = percent if score == "accuracy" else plain
    means = np.asarray(means, dtype=float)
    floor = float(
        np.nanmedian(means)
    )  # the worse half is blank, so that differences in the better half are seen
    span = (float(np.nanmax(means)) - floor) or 1.0
    rows = []
    for i, C in enumerate(Cs):
        cells = []
        for j in range(len(noises)):
            share = min(1.0, max(0.0, (means[i, j] - floor) / span)) if np.isfinite(means[i, j]) else 0.0
            here = (i, j) == chosen
            mark = tag("span", " (chosen)", class_="unseen") if here else ""
            style = f"--heat:{50 * share**2:.0f}%"
            cells.append(
                tag("td", show(means[i, j]), mark, class_="cell chosen" if here else "cell", style=style)
            )
        rows.append([f"{C:.3g}", *cells])
    caption = f"Cross-validated {score} over C (rows) and noise (columns); the chosen cell is framed"
    return table(caption, ["C", *noises], rows, class_="map")


def bars(caption: str, header: Sequence[str], rows: Sequence[tuple[str, float, Sequence[str]]]) -> Raw:
    """Table whose second column is a signed number with a bar."""
    largest = max((abs(value) for _, value, _ in rows), default=1.0) or 1.0
    made = []
    for name, value, rest in rows:
        side = "up" if value >= 0 else "down"
        bar = tag("span", class_=f"bar {side}", style=f"--size:{100 * abs(value) / largest:.0f}%")
        made.append([name, tag("td", f"{value:+.3g}", bar, class_="weight"), *rest])
    return table(caption, header, made, class_="bars")
