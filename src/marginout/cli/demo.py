"""marginout demo: train digit classifiers, delete half of the pixels, and compare what is left."""

from __future__ import annotations

import os
import time
from argparse import Namespace
from dataclasses import replace
from textwrap import fill
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from marginout._core.interfaces import Array
from marginout.cli.output import Progress, check_writable, print_json, print_table, write_text
from marginout.cli.reports import closing, curve_line
from marginout.estimators.imputer import GaussianImputer
from marginout.estimators.logistic import DropoutLogisticRegression
from marginout.estimators.svm import DropoutSVC
from marginout.noise import Deletion
from marginout.report import Raw, Section, deletion_figure, facts, page, table, tag
from marginout.report.charts import percent, slider
from marginout.report.markup import join, values
from marginout.robustness import DeletionCurve, deletion_curve, group_impact

RATES = tuple(round(0.05 * k, 2) for k in range(18))
PRINTED = 0.0, 0.1, 0.25, 0.5, 0.75
HALF = RATES.index(0.5)
MASKS = 20
#: Masks for pixels that are known to be dead: conditional means take time.
KNOWN_MASKS = 4
#: Test images on the first screen: the first ones of the test set.
SHOWN = 8
#: Plain models and ours, in pairs of the same kind, with the look of their curves.
LOOKS = {
    "LinearSVC": "plain",
    "LogisticRegression": "plain2",
    "DropoutSVC": "ours",
    "DropoutLogisticRegression": "ours2",
}
#: Values from which C is chosen.
CS = [10 ** (k / 2) for k in range(-6, 5)]
#: The plain models again, with C chosen for whole images.
WHOLE = {name: f"{name}, for whole images" for name in ("LinearSVC", "LogisticRegression")}


def models() -> dict[str, Any]:
    """Two plain models, and two of ours for the loss of half of the pixels; C is not chosen yet."""
    ours: dict[str, Any] = {
        "noise": Deletion(0.5),
        "expectation": "gaussian",
        "class_weight": "balanced",
    }
    return {
        "LinearSVC": LinearSVC(loss="hinge", max_iter=100_000, random_state=0),
        "LogisticRegression": LogisticRegression(max_iter=10_000),
        "DropoutSVC": DropoutSVC(loss="hinge", **ours),
        "DropoutLogisticRegression": DropoutLogisticRegression(multi_class="ovr", **ours),
    }


def tuned(model: Any, X: Array, y: Array, rate: float = 0.5) -> Any:
    """Fit a model with the C, and the offset or none, of the fewest errors as pixels are deleted.

    Three folds of X choose, with pixels deleted at this rate in their test part. All models have the same
    choice.
    """

    def accuracy(fitted: Any, images: Array, labels: Array) -> float:
        copies = [Deletion(rate).corrupt(images, seed) for seed in range(5 if rate else 1)]
        return float(np.mean([fitted.predict(copy) == labels for copy in copies]))

    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    grid = {"C": CS, "fit_intercept": [True, False]}
    return GridSearchCV(model, grid, scoring=accuracy, cv=folds).fit(X, y).best_estimator_


def digits() -> tuple[Array, Array, Array, Array]:
    """scikit-learn's digits, pixels from 0 to 1: half to train on, half to test; X, X_test, y, y_test."""
    X, y = load_digits(return_X_y=True)
    halves = train_test_split(X / 16, y, test_size=0.5, random_state=0, stratify=y)
    return halves[0], halves[1], halves[2], halves[3]


def run(arguments: Namespace) -> None:
    """Choose C, fit, delete pixels of the test images, print a table, write the report."""
    check_writable(arguments.out)
    progress = Progress(arguments.quiet or arguments.json)
    X, X_test, y, y_test = digits()
    progress.step("choosing C, for half of the pixels deleted")
    fitted = {name: tuned(model, X, y) for name, model in models().items()}
    progress.step("choosing C, for whole images")
    whole = {WHOLE[name]: tuned(model, X, y, 0.0) for name, model in models().items() if name in WHOLE}
    progress.step("timing one fit of each")
    seconds = {}
    for name, model in fitted.items():
        begin = time.perf_counter()
        clone(model).fit(X, y)
        seconds[name] = time.perf_counter() - begin
    progress.step("deleting pixels")
    curves = {
        name: deletion_curve(model, X_test, y_test, RATES, MASKS, random_state=arguments.seed)
        for name, model in {**whole, **fitted}.items()
    }
    progress.step("deleting pixels, known to be dead")
    plain = whole[WHOLE["LogisticRegression"]]
    known = {
        name: deletion_curve(
            model, X_test, y_test, PRINTED, KNOWN_MASKS, fill=np.nan, random_state=arguments.seed
        )
        for name, model in told(plain, X).items()
    }
    progress.step("writing the report")
    write_text(arguments.out, report(arguments, fitted, curves, known, seconds, X_test, y_test))
    progress.done()
    _tell(arguments, curves, known, seconds)


def told(model: Any, X: Array) -> dict[str, Any]:
    """A fitted model that takes NaN for dead pixels, by what is put in their place."""
    imputers = {"the pixel's mean": SimpleImputer(), "conditional means": GaussianImputer()}
    return {f"NaN, replaced by {what}": make_pipeline(each.fit(X), model) for what, each in imputers.items()}


def _tell(
    arguments: Namespace,
    curves: dict[str, DeletionCurve],
    known: dict[str, DeletionCurve],
    seconds: dict[str, float],
) -> None:
    path = os.path.abspath(arguments.out)
    if arguments.json:
        scores = {
            name: dict(zip(map(str, RATES), c.mean.tolist(), strict=True)) for name, c in curves.items()
        }
        nan = {name: dict(zip(map(str, PRINTED), c.mean.tolist(), strict=True)) for name, c in known.items()}
        print_json({"accuracy": scores, "known": nan, "fit_seconds": seconds, "report": path})
        return
    if arguments.out == "-":
        return
    print("scikit-learn's digits, half for training, half for testing. Test error in % as pixels")
    print(f"of the test images are deleted at random (mean of {MASKS} draws; no model is fitted again):\n")
    head = ["pixels deleted", *(f"{rate:.0%}" for rate in PRINTED)]
    at = [RATES.index(rate) for rate in PRINTED]
    print_table(
        [head, *([name, *(f"{100 * (1 - c.mean[i]):.1f}" for i in at)] for name, c in curves.items())]
    )
    plain, ours = (100 * (1 - _best(curves, look)) for look in ("plain", "ours"))
    paid, dear = (100 * (1 - _best(curves, look, 0)) for look in ("whole", "ours"))
    said = (
        "C, and whether there is an offset, were chosen by folds of the training images with half of their "
        "pixels deleted, or with all of them (for whole images). With half of the pixels gone the best plain "
        f"model errs on {plain:.1f} % of the digits, the best dropout model on {ours:.1f} %, that is "
        f"{100 * (1 - ours / plain):.0f} % less: it was trained as if on infinitely many copies with dead "
        f"pixels. While all pixels live it errs more, {dear:.1f} against {paid:.1f} %: what to train for is "
        "yours to choose."
    )
    print("\n" + fill(said, 92))
    zero, mean, conditional = (
        100 * (1 - float(c.mean[PRINTED.index(0.5)])) for c in _stories(curves, known).values()
    )
    said = (
        "All this holds where nothing says which pixels are dead: they are zeros. Where they arrive as NaN, "
        f"the plain LogisticRegression for whole images, not fitted again, errs on {mean:.1f} % of the "
        f"half-dead digits with the mean of each pixel in place of NaN, and on {conditional:.1f} % behind a "
        f"GaussianImputer, in place of {zero:.1f} %."
    )
    print("\n" + fill(said, 92))
    print(f"\nThe report, to be opened in a browser: {path}")


def _best(curves: dict[str, DeletionCurve], look: str, at: int = HALF) -> float:
    """The best accuracy of the models of one look: "plain", "ours", or "whole", chosen for whole images."""
    return max(
        float(curve.mean[at]) for name, curve in curves.items() if LOOKS.get(name, "whole").startswith(look)
    )


def report(
    arguments: Namespace,
    fitted: dict[str, Any],
    curves: dict[str, DeletionCurve],
    known: dict[str, DeletionCurve],
    seconds: dict[str, float],
    X_test: Array,
    y_test: Array,
) -> str:
    """The HTML page."""
    plain, ours = _best(curves, "plain"), _best(curves, "ours")
    title = (
        f"Half of the pixels are dead. The best plain model reads {plain:.0%} of the digits, "
        f"marginout {ours:.0%}."
    )
    lead = (
        "Sensors fail, fields stay empty, words are missing once a model is in use. marginout trains "
        "linear models as if on infinitely many damaged copies of the data, in one fit. C and the offset of "
        "all models here were chosen by folds of the training images with half of their pixels deleted."
    )
    first = join([slider(RATES, HALF, "pixels"), _strip(fitted, X_test, y_test, arguments.seed)])
    lines = [curve_line(curves[name], name, look) for name, look in LOOKS.items()]
    caption = (
        f"Test images lose pixels at random, {MASKS} draws; bands are one standard deviation of a "
        "draw. Every model was fitted to whole images, and never again. With C chosen for whole images, not "
        f"for half of them, the best plain model reads {percent(_best(curves, 'whole', 0))} while all pixels "
        f"live, more than ours ({percent(_best(curves, 'ours', 0))}), and "
        f"{percent(_best(curves, 'whole'))} of half-dead ones: what to train for is a choice."
    )
    figure = deletion_figure(lines, RATES, HALF, score="accuracy", what="pixels", caption=caption)
    return page(
        title,
        lead,
        first,
        [
            Section("What is left as pixels die", figure),
            Section("What if it is known which pixels are dead?", _known(curves, known)),
            Section("What each model relies on", _costs(fitted, X_test, y_test)),
            Section("What was trained", _trained(fitted, seconds)),
            closing(arguments, [("data", "scikit-learn's digits: 898 images to train on, 899 to test")]),
        ],
    )


def _stories(curves: dict[str, DeletionCurve], known: dict[str, DeletionCurve]) -> dict[str, Any]:
    """The curves of one plain model for zeros that nothing announces, and for NaN, at PRINTED rates."""
    zeros = curves[WHOLE["LogisticRegression"]]
    at = [RATES.index(rate) for rate in PRINTED]
    return {
        "zeros, not known to be dead": replace(zeros, rates=np.array(PRINTED), scores=zeros.scores[at]),
        **known,
    }


def _known(curves: dict[str, DeletionCurve], known: dict[str, DeletionCurve]) -> Raw:
    """A table of both stories: dead pixels that are zeros, and dead pixels that are NaN."""
    said = (
        "Above, dead pixels are zeros and nothing says so: training for them is what helps. Often it is "
        "known what is missing: it arrives as NaN. Then the other pixels tell what to expect in its place. "
        "The model of the first three rows is the same LogisticRegression, with C chosen for whole images, "
        "and is never fitted again: only what it is given for a dead pixel differs. GaussianImputer puts in "
        "the conditional mean under a normal law of the pixels."
    )
    rows = [[name, *(percent(value) for value in c.mean)] for name, c in _stories(curves, known).items()]
    ours = [_best(curves, "ours", RATES.index(rate)) for rate in PRINTED]
    rows.append(["zeros, the best model trained for them", *(percent(value) for value in ours)])
    caption = f"Accuracy by share of dead pixels; {KNOWN_MASKS} draws for NaN, {MASKS} for zeros"
    head = ["dead pixels are", *(f"{rate:.0%} dead" for rate in PRINTED)]
    return join([tag("p", said), table(caption, head, rows, class_="values")])


def _strip(fitted: dict[str, Any], X_test: Array, y_test: Array, seed: int) -> Raw:
    """Test images that lose pixels, and the digits that two models read."""
    X, y = X_test[:SHOWN], y_test[:SHOWN]
    fates = np.random.default_rng(seed).random(X.shape)
    said = {
        name: np.array([fitted[name].predict(np.where(fates < rate, 0.0, X)) for rate in RATES])
        for name in ("LinearSVC", "DropoutSVC")
    }
    cards = []
    for i in range(len(X)):
        picture = _image(X[i], fates[i], y[i])
        answers = [
            _answer(who, said[name][:, i], y[i])
            for who, name in (("SVM", "LinearSVC"), ("ours", "DropoutSVC"))
        ]
        truth = tag("p", tag("span", "true", class_="who"), tag("span", y[i]))
        cards.append(tag("li", picture, truth, *answers))
    note = (
        f"The first {SHOWN} test images, not chosen. Under each, what the two models read: a plain "
        "LinearSVC, and marginout's DropoutSVC, which was trained for the loss of half of the pixels."
    )
    return tag("figure", tag("ul", *cards, class_="digits"), tag("figcaption", note))


def _image(pixels: Array, fates: Array, digit: int) -> Raw:
    titles = [f"A {digit} with {rate:.0%} of its pixels deleted" for rate in RATES]
    rects = [
        _square(at, value, class_="dead" if fate < RATES[HALF] else None, data_fate=f"{fate:.3f}")
        for at, (value, fate) in enumerate(zip(pixels, fates, strict=True))
    ]
    title = tag("title", titles[HALF], data_at=values(titles))
    return tag("svg", title, *rects, viewBox="-0.4 -0.4 8.8 8.8", role="img")


def _square(at: int, opacity: float, **attributes: object) -> Raw:
    """A square in the place of pixel `at`."""
    row, column = divmod(at, 8)
    place = {"x": column + 0.03, "y": row + 0.03, "width": 0.94, "height": 0.94}
    return tag("rect", **place, fill_opacity=f"{opacity:.2f}", **attributes)


def _answer(who: str, said: Any, truth: Any) -> Raw:
    looks = ["right" if answer == truth else "wrong" for answer in said]
    answer = tag(
        "span", said[HALF], class_=looks[HALF], data_at=values(int(a) for a in said), data_look=values(looks)
    )
    return tag("p", tag("span", who, class_="who"), answer)


def _costs(fitted: dict[str, Any], X_test: Array, y_test: Array) -> Raw:
    """Pictures, in one scale, of the accuracy that two models lose without each single pixel."""
    pixels = np.arange(X_test.shape[1])
    lost: dict[str, list[float]] = {
        name: group_impact(fitted[name], X_test, y_test, pixels, max_pairs=0).costs.tolist()
        for name in ("DropoutSVC", "LinearSVC")
    }
    largest = max(max(costs) for costs in lost.values())
    worst = {name: max(costs) for name, costs in lost.items()}
    said = (
        "Each square is one pixel: the more colour, the more accuracy is lost when this pixel alone is dead "
        f"in all test images. The costliest pixel costs the plain SVM {percent(worst['LinearSVC'])} of the "
        f"digits, DropoutSVC {percent(worst['DropoutSVC'])}: it was trained not to rely on any one."
    )
    maps = [
        tag("figure", _cost_image(costs, largest, name), tag("figcaption", name))
        for name, costs in lost.items()
    ]
    order = np.argsort([-cost for cost in lost["LinearSVC"]], kind="stable")[:8]
    rows = [
        [f"row {j // 8 + 1}, column {j % 8 + 1}", *(percent(costs[j]) for costs in lost.values())]
        for j in order
    ]
    caption = "Accuracy lost when one pixel dies: the eight that cost the plain SVM most"
    return join([tag("p", said), tag("div", *maps, class_="maps"), table(caption, ["pixel", *lost], rows)])


def _cost_image(costs: list[float], largest: float, name: str) -> Raw:
    rects = [_square(at, max(cost, 0.0) / largest, class_="up") for at, cost in enumerate(costs)]
    title = f"{name}: accuracy lost by the death of each pixel, at most {percent(max(costs))}"
    return tag("svg", tag("title", title), *rects, viewBox="-0.2 -0.2 8.4 8.4", role="img")


def _trained(fitted: dict[str, Any], seconds: dict[str, float]) -> Raw:
    """Parameters of each model, and the time of its fit."""
    pairs = []
    for name, model in fitted.items():
        told = f"C = {model.C:.4g}, {'an' if model.fit_intercept else 'no'} offset"
        if LOOKS[name].startswith("ours"):
            told += f", noise {model.noise!r}, {model.expectation} expectation, balanced classes"
        pairs.append((name, f"{told}; fitted in {seconds[name]:.2f} s"))
    return facts(pairs)
