"""marginout compare: cross-validate scikit-learn's linear models and ours side by side."""

from __future__ import annotations

import os
import time
import warnings
from argparse import Namespace
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy import stats
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.svm import LinearSVC, LinearSVR

from marginout._models.collapse import CollapsedModelWarning
from marginout.cli.columns import largest_share
from marginout.cli.convert import category_groups
from marginout.cli.errors import DataError
from marginout.cli.output import Progress, check_report, print_json, print_table, write_text
from marginout.cli.reading import Training, training_data
from marginout.cli.reports import closing, deaths, score_format, searched
from marginout.estimators.cv import DropoutSVCCV, DropoutSVRCV, GridEdgeWarning
from marginout.noise import Deletion
from marginout.report import Line, Raw, Section, deletion_figure, facts, page, table, validation_map
from marginout.report.charts import slider
from marginout.report.markup import join
from marginout.robustness import deletion_curve

RATES = tuple(round(0.1 * k, 1) for k in range(10))
PRINTED = 0.0, 0.3, 0.5, 0.7
HALF = RATES.index(0.5)
#: Values of C for all models, folds that choose among them, draws of dead features in a fold.
CS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
INNER, REPEATS = 3, 3


@dataclass
class Contender:
    """A model, the parameters that are chosen inside every training part, and its results."""

    name: str
    kind: str
    chosen: str
    make: Any
    scores: list[Any] = field(default_factory=list)  # per fold, over RATES
    seconds: list[float] = field(default_factory=list)
    maps: list[Any] = field(default_factory=list)

    @property
    def mean(self) -> Any:
        return np.mean(self.scores, axis=0)

    @property
    def std(self) -> Any:
        return np.std(self.scores, axis=0, ddof=1)


def contenders(task: str) -> list[Contender]:
    """Four models: two of scikit-learn, ours for complete data, and ours for features that die."""
    sturdy: dict[str, Any] = {"noises": [Deletion(0.5)], "expectation": "gaussian", "cv": INNER, "Cs": CS}
    if task == "regression":
        return [
            Contender(
                "LinearSVR", "plain", "C", lambda: _search(LinearSVR(dual="auto", max_iter=10_000), "C", CS)
            ),
            Contender("Ridge", "plain2", "alpha", lambda: _search(Ridge(), "alpha", [0.5 / C for C in CS])),
            Contender("DropoutSVR", "ours", "C, dropout rate", lambda: DropoutSVRCV(CS, cv=INNER)),
            Contender("DropoutSVR, deletion 0.5", "ours2", "C", lambda: DropoutSVRCV(**sturdy)),
        ]
    plain_svm, logistic = (
        LinearSVC(dual="auto", max_iter=10_000, random_state=0),
        LogisticRegression(max_iter=1000),
    )
    return [
        Contender("LinearSVC", "plain", "C", lambda: _search(plain_svm, "C", CS)),
        Contender("LogisticRegression", "plain2", "C", lambda: _search(logistic, "C", CS)),
        Contender("DropoutSVC", "ours", "C, dropout rate", lambda: DropoutSVCCV(CS, cv=INNER)),
        Contender(
            "DropoutSVC, deletion 0.5", "ours2", "C", lambda: DropoutSVCCV(class_weight="balanced", **sturdy)
        ),
    ]


def _search(model: Any, parameter: str, grid: Any) -> GridSearchCV:
    return GridSearchCV(model, {parameter: list(grid)}, cv=INNER)


def run(arguments: Namespace) -> None:
    """Cross-validate with inner folds; score every model on whole rows and as features die."""
    if arguments.out:
        check_report(arguments.out, arguments.json, arguments.data)
    progress = Progress(arguments.quiet or arguments.json)
    # The grid is the same for all models, on purpose; the share of the largest class shows which collapsed.
    warnings.filterwarnings("ignore", category=GridEdgeWarning)
    warnings.filterwarnings("ignore", category=CollapsedModelWarning)
    training = training_data(arguments, progress, rows=arguments.rows)
    models = contenders(training.task)
    progress.step("comparing")
    for number, (train, test) in enumerate(_folds(training, arguments), 1):
        _fold(training, arguments, models, train, test, progress, number)
    rows = training.X.shape[0]
    if arguments.out:
        progress.step("writing the report")
        write_text(arguments.out, _report(arguments, training, models, rows))
    progress.done()
    _tell(arguments, training, models, rows)


def _folds(training: Training, arguments: Namespace) -> list[tuple[Any, Any]]:
    y, k = training.y, arguments.folds
    if training.task == "regression":
        if len(y) < k * INNER:
            raise DataError(f"{len(y)} rows are too few for {k} folds: lower --folds, or give more rows")
        return list(KFold(k, shuffle=True, random_state=arguments.seed).split(y))
    smallest = int(np.unique(y, return_counts=True)[1].min())
    if smallest < max(k, INNER + 1):
        raise DataError(
            f"the rarest class of {training.target!r} has {smallest} rows, too few for {k} folds: "
            "lower --folds, leave such rows out, or give more"
        )
    return list(StratifiedKFold(k, shuffle=True, random_state=arguments.seed).split(y, y))


def _fold(
    training: Training,
    arguments: Namespace,
    models: list[Contender],
    train: Any,
    test: Any,
    progress: Progress,
    number: int,
) -> None:
    """Fit and score all models in one outer fold; the steps before them see its training part only."""
    X, y = training.X, training.y
    first, last = (X.iloc[train], X.iloc[test]) if training.columns else (X[train], X[test])
    steps = training.pipeline(None, arguments)[:-1]
    if steps.steps:
        first, last = steps.fit_transform(first), steps.transform(last)
    first, last = (Z.tocsr() if sp.issparse(Z) else np.asarray(Z) for Z in (first, last))
    groups = category_groups(steps, training.columns)
    y_train, y_test = y[train], y[test]
    if (
        training.task == "regression"
    ):  # one unit for all data, so that C means the same; R² does not depend on it
        centre, size = y_train.mean(), y_train.std() or 1.0
        y_train, y_test = (y_train - centre) / size, (y_test - centre) / size
    for contender in models:
        done = len(contender.seconds) * len(models) + models.index(contender)
        share = done / (arguments.folds * len(models))
        progress.part(share, f"fold {number} of {arguments.folds}: {contender.name}")
        begin = time.perf_counter()
        model = contender.make().fit(first, y_train)
        contender.seconds.append(time.perf_counter() - begin)
        curve = deletion_curve(
            model, last, y_test, RATES, REPEATS, random_state=arguments.seed, **deaths(groups)
        )
        contender.scores.append(curve.mean)
        contender.maps.append(searched(model))


def _tell(arguments: Namespace, training: Training, models: list[Contender], rows: int) -> None:
    score, show = score_format(training.task)
    if arguments.json:
        found = {
            m.name: {"mean": m.mean, "std": m.std, "seconds": float(np.mean(m.seconds)), "chosen": m.chosen}
            for m in models
        }
        content = {"data": arguments.data, "rows": rows, "score": score, "rates": RATES, "models": found}
        content["largest_class_share"] = _largest_share(training)
        print_json({**content, "report": arguments.out})
        return
    if arguments.out == "-":
        return
    print(
        f"{score}, mean of {arguments.folds} folds of {rows} rows, whole and as features of test rows die:\n"
    )
    at = [RATES.index(rate) for rate in PRINTED]
    head = ["model", *(f"{rate:.0%} dead" if rate else "whole" for rate in PRINTED), "± (whole)", "seconds"]
    body = [
        [m.name, *(show(m.mean[i]) for i in at), show(m.std[0]), f"{np.mean(m.seconds):.2f}"] for m in models
    ]
    share = _largest_share(training)
    if share is not None:
        body.append(["always the largest class", *[show(share)] * len(PRINTED), "", ""])
    print_table([head, *body])
    print(
        f"\nC, and the rate where it says so, are chosen by {INNER} folds inside every training part; seconds"
    )
    print("are those of choosing and fitting. No model is fitted to damaged rows, nor again as features die.")
    print(f"\n{_headline(models, show)}")
    if arguments.out:
        print(f"\nThe report: {os.path.abspath(arguments.out)}")


def _largest_share(training: Training) -> float | None:
    """The accuracy of always naming the largest class; None in a regression."""
    return largest_share(training.y) if training.task == "classification" else None


def _headline(models: list[Contender], show: Any) -> str:
    """Compare our best model with the best plain one, on whole rows and with half of the features dead."""
    parts = [f"{when}: {_verdict(models, i, show)}" for when, i in (("Whole rows", 0), ("Half dead", HALF))]
    return ". ".join(parts) + "."


def _verdict(models: list[Contender], i: int, show: Any) -> str:
    """Name the better one at one rate; level if the difference may be chance (a paired t-test, 5 %)."""
    plain_one, ours = (
        max((m for m in models if m.kind.startswith(look)), key=lambda m: float(m.mean[i]))
        for look in ("plain", "ours")
    )
    gains = np.array(ours.scores)[:, i] - np.array(plain_one.scores)[:, i]
    error = gains.std(ddof=1) / np.sqrt(len(gains))
    first, second = (ours, plain_one) if gains.mean() > 0 else (plain_one, ours)
    clear = abs(gains.mean()) > error * stats.t.ppf(0.975, len(gains) - 1)
    how = "beats" if clear else "is level with"
    return f"{first.name} {how} {second.name}, {show(first.mean[i])} to {show(second.mean[i])}"


def _report(arguments: Namespace, training: Training, models: list[Contender], rows: int) -> str:
    score, show = score_format(training.task)
    lead = (
        f"Four linear models predict {training.target!r} on {rows} rows, {arguments.folds} folds. "
        "Each is fitted to whole rows, C chosen inside the training part, and scored on rows of which more "
        "and more features are dead."
    )
    lines = [Line(m.name, m.mean, m.mean - m.std, m.mean + m.std, m.kind) for m in models]
    caption = f"Bands are one standard deviation over the {arguments.folds} folds. Dead features are zero."
    figure = deletion_figure(lines, RATES, HALF, score=score, what="features", caption=caption)
    sections = [Section("The models", _models_part(models, _largest_share(training), score, show))]
    found = _mean_map(models)
    if found:
        sections.append(
            Section(
                "DropoutSVC's search" if score == "accuracy" else "DropoutSVR's search",
                validation_map(**found, score=score),
            )
        )
    about = [("target", f"{training.target!r}, {training.task}"), ("data", f"{arguments.data}, {rows} rows")]
    if training.columns:
        about.append(("columns", training.columns.describe()))
    sections.append(Section("What was trained on", facts(about)))
    sections.append(closing(arguments))
    title = _headline(models, show)
    return page(title, lead, join([slider(RATES, HALF, "features"), figure]), sections)


def _models_part(models: list[Contender], share: float | None, score: str, show: Any) -> Raw:
    rows = [
        [m.name, f"{show(m.mean[0])} ± {show(m.std[0])}", m.chosen, f"{np.mean(m.seconds):.2f} s"]
        for m in models
    ]
    if share is not None:
        rows.append(["always the largest class", show(share), "", ""])
    header = ["model", f"{score}, whole rows", "chosen by inner folds", "time to choose and fit"]
    return table("Every model, its choices and its time; means over the outer folds", header, rows)


def _mean_map(models: list[Contender]) -> dict[str, Any] | None:
    """The mean over the outer folds of the map of our model's search, and its best cell."""
    maps = next(m for m in models if m.kind == "ours").maps
    if not maps or maps[0] is None:
        return None
    means = np.mean([found["means"] for found in maps], axis=0)
    chosen = np.unravel_index(int(np.nanargmax(means)), means.shape)
    return {**maps[0], "means": means, "chosen": (int(chosen[0]), int(chosen[1]))}
