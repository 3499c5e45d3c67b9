"""marginout stress: show how a saved model degrades as its features die, and what another rate would give."""

from __future__ import annotations

import os
import warnings
from argparse import Namespace
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from marginout._models.collapse import CollapsedModelWarning
from marginout.cli import modelfile
from marginout.cli.convert import category_groups
from marginout.cli.errors import DataError, ScoreError, UsageError
from marginout.cli.holes import compared, count_missing
from marginout.cli.info import facts as model_facts
from marginout.cli.models import chosen, describe_noise, noise_of
from marginout.cli.output import Progress, check_report, print_json, print_table, write_text
from marginout.cli.reading import model_data
from marginout.cli.reports import closing, curve_line, deaths, score_format, searched
from marginout.cli.weights import most_relied_on
from marginout.noise import Deletion
from marginout.report import Raw, Section, deletion_figure, facts, page, table, tag, validation_map
from marginout.report.charts import bars, slider
from marginout.report.markup import join
from marginout.robustness import DeletionCurve, deletion_curve

RATES = tuple(round(0.1 * k, 1) for k in range(10))
HALF = RATES.index(0.5)
#: Share that is deleted for --fail-below, where --at does not say it.
AT = 0.5
#: Rates for which models are trained again, and rates at which they are compared.
TRAINED = 0.0, 0.1, 0.3, 0.5, 0.7, 0.9
TESTED = 0.0, 0.25, 0.5, 0.75
#: Features that are listed.
NAMED = 15
#: Rows below which the data are not split into halves.
FEWEST = 20


@dataclass
class Refits:
    """Scores of the model, and of its kind trained again: with its own noise, and for other rates."""

    names: list[str]
    scores: Any  # (n_models, n_tested)
    trained_on: str

    def best(self, j: int) -> int:
        """The best of the models trained on the same rows: the model as it is may have seen more of them."""
        return 1 + int(self.scores[1:, j].argmax())


def run(arguments: Namespace) -> None:
    """Delete features of DATA, score the fixed model, try other rates, and print the results."""
    if arguments.out:
        check_report(arguments.out, arguments.json, arguments.model, arguments.data, arguments.train)
    if arguments.train == arguments.data and sorted(arguments.train_where) == sorted(arguments.where):
        raise UsageError("--train is DATA itself: name other rows, by --train-where, or leave it out")
    if arguments.train_where and not arguments.train:
        raise UsageError("--train-where needs --train: name the training data with it, or leave it out")
    if arguments.at is not None and arguments.fail_below is None:
        raise UsageError("--at needs --fail-below: name the least score with it, or leave it out")
    progress = Progress(arguments.quiet or arguments.json)
    model = modelfile.load(arguments.model)
    X, y = model_data(model, arguments, progress, rows=arguments.rows)
    if len(y) < 2:
        raise DataError(f"{arguments.data}: one row is too few to measure how a model degrades: give more")
    missing = compared(model, count_missing(X, model.columns.used if model.columns else None))
    Z = _prepared(model, X)
    groups = category_groups(model.pipeline, model.columns)
    progress.step("deleting features")
    curve = _curve(model.estimator, Z, y, RATES, groups, arguments)
    least = None
    if arguments.fail_below is not None:
        at = AT if arguments.at is None else arguments.at
        score = float(_curve(model.estimator, Z, y, [at], groups, arguments).mean[0])
        least = {"at": at, "score": score, "least": arguments.fail_below}
    progress.step("deleting single features")
    features = most_relied_on(model, Z, y, groups, NAMED)
    refits = None if arguments.no_refit else _refits(model, Z, y, groups, arguments, progress)
    if arguments.out:
        progress.step("writing the report")
        write_text(arguments.out, _report(arguments, model, curve, features, refits, len(y)))
    progress.done()
    _tell(arguments, model, curve, features, refits, len(y), {"missing": missing, "fail_below": least})
    if least and not score >= arguments.fail_below:
        raise ScoreError(
            f"{curve.score_name} is {score:.4g} with {at:.0%} of the features deleted, below --fail-below "
            f"{arguments.fail_below:g}: train for it, as with --noise deletion:{min(at, 0.9):g}"
        )


def _prepared(model: modelfile.Model, X: Any) -> Any:
    """The input of the last step of the pipeline."""
    Z = model.pipeline[:-1].transform(X) if len(model.pipeline) > 1 else X
    return Z.tocsr() if sp.issparse(Z) else np.asarray(Z)


def _curve(model: Any, Z: Any, y: Any, rates: Any, groups: Any, arguments: Namespace) -> DeletionCurve:
    return deletion_curve(
        model, Z, y, rates, arguments.repeats, random_state=arguments.seed, **deaths(groups)
    )


def _refits(
    model: modelfile.Model, Z: Any, y: Any, groups: Any, arguments: Namespace, progress: Progress
) -> Refits | None:
    """Train the same kind of model, with the same C, for other rates: on --train, or on half of DATA."""
    if arguments.train:
        X_train, y_train = model_data(model, arguments, progress, train=True, rows=arguments.rows)
        Z_train, trained_on = _prepared(model, X_train), f"{len(y_train)} rows of {arguments.train}"
    elif len(y) < FEWEST:
        progress.note(f"{len(y)} rows are too few to train for other rates: give --train")
        return None
    else:
        order = np.random.default_rng(arguments.seed).permutation(len(y))
        half, rest = order[: len(y) // 2], order[len(y) // 2 :]
        Z_train, y_train, Z, y = Z[half], y[half], Z[rest], y[rest]
        trained_on = f"one half of the data ({len(y_train)} rows), all scored on the other ({len(y)} rows)"
    if model.classes is not None and len(np.unique(y_train)) < 2:
        progress.note("the training rows have one class only: no other rates were tried")
        return None
    base, own = chosen(model.estimator), noise_of(model.estimator)
    names, scores = ["the model as it is"], [_curve(model.estimator, Z, y, TESTED, groups, arguments).mean]
    noises = {f"its own noise, {describe_noise(own)}": own}
    noises |= {f"trained for {rate:.0%}": Deletion(rate) for rate in TRAINED}
    warnings.filterwarnings("ignore", category=CollapsedModelWarning)  # at a high rate this is expected
    for name, noise in noises.items():
        progress.step(f"training again: {name}")
        other = clone(base).set_params(noise=noise).fit(Z_train, y_train)
        names.append(name)
        scores.append(_curve(other, Z, y, TESTED, groups, arguments).mean)
    return Refits(names, np.array(scores), trained_on)


def _advice(refits: Refits, show: Any) -> str:
    """Sentences on what another rate would give, while all features live and when half of them die."""
    parts = []
    for when, rate in (("While all features live", 0.0), ("When half of them die", 0.5)):
        j = TESTED.index(rate)
        best = refits.best(j)
        own, there = show(refits.scores[1, j]), show(refits.scores[best, j])
        if best == 1:
            parts.append(f"{when}, no other rate does better than its own noise, {own}.")
        else:
            parts.append(
                f"{when}, a model {refits.names[best]} scores {there}, one with its own noise {own}."
            )
    parts.append("These were trained on the same rows; the model as it is may have seen more.")
    return " ".join(parts)


def _tell(
    arguments: Namespace,
    model: modelfile.Model,
    curve: DeletionCurve,
    features: list[dict[str, Any]],
    refits: Refits | None,
    rows: int,
    more: dict[str, Any],
) -> None:
    _, show = score_format(model.task, curve.score_name)
    if arguments.json:
        print_json(
            {
                "model": arguments.model,
                "data": arguments.data,
                "rows": rows,
                "score": curve.score_name,
                "curve": {"rate": curve.rates, "mean": curve.mean, "std": curve.std},
                "features": features,
                "refits": refits
                and {"tested": TESTED, **dict(zip(refits.names, refits.scores.tolist(), strict=True))},
                **more,
                "report": arguments.out,
            }
        )
        return
    if arguments.out == "-":
        return
    print(
        f"{curve.score_name} of {type(model.estimator).__name__} on {rows} rows as features die at random:\n"
    )
    print_table([["deleted", *(f"{r:.0%}" for r in RATES)], ["", *(show(v) for v in curve.mean)]])
    print()
    head = ["features it relies on most", "weight", "for", "lost if it dies"]
    print_table(
        [head, *([f["name"][:60], f"{f['weight']:+.3g}", f["output"], show(f["cost"])] for f in features[:8])]
    )
    if refits:
        print(f"\nOther rates, trained on {refits.trained_on}:\n")
        head = ["deleted", *(f"{rate:.0%}" for rate in TESTED)]
        rows_ = [[name, *map(show, row)] for name, row in zip(refits.names, refits.scores, strict=True)]
        print_table([head, *rows_])
        print(f"\n{_advice(refits, show)}")
    if arguments.out:
        print(f"\nThe report: {os.path.abspath(arguments.out)}")


def _report(
    arguments: Namespace,
    model: modelfile.Model,
    curve: DeletionCurve,
    features: list[dict[str, Any]],
    refits: Refits | None,
    rows: int,
) -> str:
    score, show = score_format(model.task, curve.score_name)
    title = (
        f"{score.capitalize()} {show(curve.mean[0])} while all features live, "
        f"{show(curve.mean[HALF])} when half of them die."
    )
    lead = (
        f"{type(model.estimator).__name__}, trained on {model.about['rows']} rows to predict "
        f"{model.about['target']!r}, is never fitted again here: features of {rows} rows are deleted, "
        "that is, set to zero as the model sees them, and it is scored as it is."
    )
    line = curve_line(curve, type(model.estimator).__name__, "ours")
    caption = (
        f"Features die at random, {arguments.repeats} draws; the band is one standard deviation of a "
        "draw. Scores are fair only on data that the model was not trained on."
    )
    figure = deletion_figure([line], RATES, HALF, score=score, what="features", caption=caption)
    sections = [Section("What it relies on", _features_part(features, score, show))]
    if refits:
        sections.append(Section("What another rate would give", _refits_part(refits, score, show)))
    found = searched(model.estimator)
    if found:
        sections.append(Section("The search over C and noise", validation_map(**found, score=score)))
    sections.append(Section("What was trained", facts(model_facts(model))))
    sections.append(closing(arguments, [("data", f"{arguments.data}, {rows} rows")]))
    return page(title, lead, join([slider(RATES, HALF, "features"), figure]), sections)


def _features_part(features: list[dict[str, Any]], score: str, show: Any) -> Raw:
    if not features:
        return tag("p", "All weights are zero: the model relies on nothing.")
    said = (
        "The features with the largest share in the model's scores: weight times typical size in "
        "these data. The last column deletes this feature alone, in every row."
    )
    rows = [(f["name"][:60], f["weight"], [f["output"], show(f["cost"])]) for f in features]
    header = ["feature", "weight", "for", f"{score} lost if it dies"]
    return join([tag("p", said), bars("Features that the model relies on most", header, rows)])


def _refits_part(refits: Refits, score: str, show: Any) -> Raw:
    rows = []
    for i, name in enumerate(refits.names):
        cells = [
            tag("td", show(value), class_="best" if refits.best(j) == i else None)
            for j, value in enumerate(refits.scores[i])
        ]
        rows.append([name, *cells])
    header = ["model", *(f"{rate:.0%} deleted" for rate in TESTED)]
    caption = f"{score.capitalize()}; other rates: Deletion noise, the same C, trained on {refits.trained_on}"
    return join([tag("p", _advice(refits, show)), table(caption, header, rows, class_="values")])
