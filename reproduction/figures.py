"""Draw the figures, on a white background: they can be read on light and on dark pages."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

#: Colours that colour-blind readers can tell apart (Okabe & Ito), and a marker for print.
STYLES = {
    "Dropout-SVM": ("#0072B2", "o"),
    "Dropout-LR": ("#009E73", "s"),
    "MCF-Logistic": ("#D55E00", "^"),
    "MCF-Quadratic": ("#CC79A7", "v"),
    "Dropout-SVM, Gaussian": ("#56B4E9", "D"),
    "Dropout-SVM, balanced": ("#000000", "x"),
    "Dropout-SVM, Gaussian and balanced": ("#56B4E9", "D"),
    "Dropout-SVM, pairwise": ("#000000", "x"),
    "Dropout-SVM, pairwise and Gaussian": ("#7A5195", "d"),
    "Dropout-SVR": ("#0072B2", "o"),
    "MCF-Quadratic regression": ("#CC79A7", "v"),
    "Dropout-SVR, Gaussian": ("#56B4E9", "D"),
    "Dropout-LatentSVM": ("#E69F00", "P"),
    "Dropout-LatentLR": ("#7A5195", "X"),
    "Dropout-LatentSVM, no noise": ("#000000", "P"),
    "Dropout-LatentLR, no noise": ("#B24745", "X"),
    "explicit corruption": ("#D55E00", "s"),
    "Hinge-L2": ("#777777", "<"),
    "Hinge-FDROP": ("#A06A2C", ">"),
}
OTHERS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

Curve = tuple[Sequence[float], Sequence[float]]
Panels = Mapping[str, Mapping[str, Curve]]


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise ImportError(
            "The report draws with matplotlib: pip install 'marginout[reproduction]'."
        ) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def lines(panels: Panels, across: str, up: str, log: str = "") -> Any:
    """Draw named curves, one panel per title. `log` names the logarithmic axes."""
    pyplot = _pyplot()
    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    size = (4.6 * columns if columns > 1 else 6.0, 3.3 * rows)
    figure, axes = pyplot.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    handles: dict[str, Any] = {}
    for (title, curves), axis in zip(panels.items(), axes.flat, strict=False):
        for place, (name, (x, y)) in enumerate(curves.items()):
            colour, marker = STYLES.get(name, (OTHERS[place % len(OTHERS)], "o"))
            (handles[name],) = axis.plot(x, y, color=colour, marker=marker, markersize=4, linewidth=1.4)
        axis.set(title=title, xlabel=across, ylabel=up)
        if not any(len(x) for x, _ in curves.values()):
            axis.text(0.5, 0.5, "not run yet", transform=axis.transAxes, ha="center", color="#555555")
        if "x" in log:
            places = sorted({place for x, _ in curves.values() for place in x})
            axis.set_xscale("log")
            axis.set_xticks(places, [f"{place:g}" for place in places])
            axis.minorticks_off()
        if "y" in log:
            axis.set_yscale("log")
        axis.grid(alpha=0.25)
    for axis in list(axes.flat)[len(panels) :]:
        axis.set_axis_off()
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=min(len(handles), 4), fontsize=8
    )
    return figure


def bars(panels: dict[str, dict[str, float]], up: str) -> Any:
    """Draw named bars on a logarithmic axis, one panel per title."""
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(1, len(panels), figsize=(9.2, 3.4), squeeze=False, layout="constrained")
    for (title, values), axis in zip(panels.items(), axes.flat, strict=True):
        colours = [STYLES.get(name, ("#777777", ""))[0] for name in values]
        axis.barh(list(values), list(values.values()), color=colours)
        axis.invert_yaxis()
        axis.set(title=title, xlabel=up, xscale="log")
        axis.grid(alpha=0.25, axis="x")
    return figure


def units(rows: Sequence[dict[str, Any]], classes: Sequence[str]) -> Any:
    """Draw a hidden unit per row: weight, images of largest response, mean response by class."""
    pyplot = _pyplot()
    count = len(rows[0]["images"])
    figure, axes = pyplot.subplots(
        len(rows),
        count + 1,
        figsize=(0.75 * count + 3.6, 0.85 * len(rows) + 0.5),
        width_ratios=[1.0] * count + [3.4],
        squeeze=False,
        layout="constrained",
    )
    for row, cells in zip(rows, axes, strict=True):
        for axis, image in zip(cells, row["images"], strict=False):
            axis.imshow(unpack(image), cmap="gray")
            axis.set(xticks=[], yticks=[])
        label = f"{row['group']}\nw = {row['weight']:.2f}"
        cells[0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=8)
        cells[-1].bar(range(len(classes)), row["response"], color=OTHERS[0])
        cells[-1].set(ylim=(0, 1), xticks=range(len(classes)), yticks=[0, 1])
        slant = {"rotation": 45, "ha": "right"} if len(classes[0]) > 1 else {}
        cells[-1].set_xticklabels(classes if row is rows[-1] else [], fontsize=7, **slant)
        cells[-1].tick_params(axis="y", labelsize=7)
    axes[0, -1].set_title("mean response by class", fontsize=8)
    return figure


def save(figure: Any, path: Path) -> None:
    """Write an SVG file. The same numbers give the same bytes."""
    pyplot = _pyplot()
    path.parent.mkdir(parents=True, exist_ok=True)
    with pyplot.rc_context({"svg.hashsalt": "marginout", "svg.fonttype": "none"}):
        figure.savefig(path, format="svg", facecolor="white", metadata={"Date": None})
    pyplot.close(figure)


def pack(image: Any) -> dict[str, Any]:
    """Encode a uint8 image as text, for a result file."""
    pixels = np.ascontiguousarray(image, dtype=np.uint8)
    return {"shape": pixels.shape, "pixels": base64.b64encode(zlib.compress(pixels.tobytes(), 9)).decode()}


def unpack(image: dict[str, Any]) -> Any:
    pixels = zlib.decompress(base64.b64decode(image["pixels"]))
    return np.frombuffer(pixels, dtype=np.uint8).reshape(image["shape"])
