"""marginout fit: train a model and save it."""

from __future__ import annotations

import shlex
import time
from argparse import Namespace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import get_tags

from marginout._core.fit import heard
from marginout.cli import holes, modelfile
from marginout.cli.columns import Columns, check_folds, largest_share
from marginout.cli.convert import category_groups, feature_columns
from marginout.cli.errors import UsageError
from marginout.cli.models import check_model, chosen, delete_groups, describe_noise, make_model, noise_of
from marginout.cli.output import Progress, check_writable, print_facts, print_json
from marginout.cli.reading import Training, training_data
from marginout.robustness.scoring import score_name

#: Rows of the training data on which the cost of a missing column is measured, at most and at least.
ROWS, FEWEST = 1000, 100
#: Entries that are looked at for these costs, about one second of work; columns above which none is measured.
ENTRIES, COLUMNS = 100_000_000, 1000


def run(arguments: Namespace) -> None:
    """Read the data, fit the pipeline, save it, and print what was done."""
    if arguments.out == "-":
        raise UsageError("a model cannot go to standard output: name a file, as in --out my.model")
    check_writable(arguments.out, arguments.data)
    check_model(arguments)
    if arguments.model == "quantile" and arguments.task is None:
        arguments.task = "regression"  # also where the target has few values
    modelfile.require_skops()
    progress = Progress(arguments.quiet or arguments.json)
    training = training_data(arguments, progress)
    model = make_model(arguments, training.task)
    if arguments.expected_score and training.columns is None:
        raise UsageError("--expected-score needs a table, whose cells can be missing: leave it out")
    if arguments.cv or arguments.expected_score:
        check_folds(training.y, training.task, arguments.folds)
    pipeline = training.pipeline(model, arguments)
    if arguments.missing == "deleted" and training.columns:
        groups = category_groups(pipeline[:-1].fit(training.X), training.columns)
        if groups is not None:
            delete_groups(model, arguments, groups)
    progress.step("fitting")
    begin = time.perf_counter()
    with heard(progress.fitting):
        pipeline.fit(training.X, training.y)
    seconds = time.perf_counter() - begin
    progress.step("scoring")
    scores = {"train": float(pipeline.score(training.X, training.y))}
    final = pipeline[-1]
    classify = training.task == "classification"
    if training.columns:
        pipeline[0].costs_ = column_costs(pipeline, training.columns, training.X, training.y)
    expected = None
    if arguments.expected_score:
        progress.step("scoring with missing cells")
        expected = holes.expected(pipeline, training, arguments)
    counts = holes.count_missing(training.X, training.columns.used if training.columns else None)
    if arguments.cv:
        scores["cross_validation"] = float(final.best_score_)
    about = {
        "command": "marginout " + shlex.join(arguments.argv),
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "task": training.task,
        "target": training.target,
        "columns": training.columns.as_dict() if training.columns else None,
        "rows": training.X.shape[0],
        "features": int(final.n_features_in_),
        "feature_names": training.names,
        "base": training.base,
        "scores": scores,
        "largest_class_share": largest_share(training.y) if classify else None,
        "seconds": seconds,
        "missing": arguments.missing,
        "costs": pipeline[0].costs_ if training.columns else None,
        "missing_rates": {name: count / max(cells, 1) for name, (count, cells) in counts.items()},
        "expected": expected,
    }
    progress.step("saving")
    modelfile.save(arguments.out, pipeline, about)
    progress.done()
    _tell(arguments, training, final, about)


def _tell(arguments: Namespace, training: Training, model: Any, about: dict[str, Any]) -> None:
    """Print what was done, for people or for machines."""
    C, noise = chosen(model).C, describe_noise(noise_of(model))
    if arguments.json:
        kept = {name: value for name, value in about.items() if name != "feature_names"}
        estimator = type(model).__name__
        print_json({"model": arguments.out, "estimator": estimator, "C": C, "noise": noise, **kept})
        return
    score, beside = score_name(model, None), ""
    if training.task == "classification":
        beside = f" (the largest class has {about['largest_class_share']:.4f} of the rows)"
    facts = [
        ("task", f"{training.task} of {training.target!r}"),
        ("data", f"{about['rows']} rows, {about['features']} features"),
    ]
    if training.columns:
        facts.append(("columns", training.columns.describe()))
        if training.columns.left_out:
            facts.append(("not used", training.columns.unused()))
    facts.append(("model", f"{type(model).__name__}, C = {C:.3g}, noise {noise}"))
    if "cross_validation" in about["scores"]:
        facts.append((score, f"{about['scores']['cross_validation']:.4f} in cross-validation{beside}"))
    facts.append((score, f"{about['scores']['train']:.4f} on the training data{beside}"))
    facts += holes.facts(about)
    facts.append(("time", f"{about['seconds']:.2f} s to fit"))
    facts.append(("saved", arguments.out))
    print_facts(facts)


def column_costs(pipeline: Any, columns: Columns, frame: Any, y: Any) -> dict[str, float]:
    """Fall of the model's score on rows of its training data when one column is missing in all of them."""
    import pandas

    if len(columns.used) > COLUMNS:
        return {}
    most = max(FEWEST, min(ROWS, ENTRIES // len(columns.used) ** 2))
    rows = np.arange(len(y))
    if len(rows) > most:
        rows = np.random.default_rng(0).choice(len(rows), most, replace=False)
    steps, model, y = pipeline[:-1], pipeline[-1], y[rows]
    Z = sp.csr_matrix(steps.transform(frame.iloc[rows]))
    empty = pandas.DataFrame({name: [None] for name in columns.used}, dtype=object)
    nothing = sp.csr_matrix(steps.transform(empty))
    sources = np.array(feature_columns(pipeline, columns), dtype=object)
    sparse = get_tags(model).input_tags.sparse
    whole, costs = float(model.score(Z if sparse else Z.toarray(), y)), {}
    for name in columns.used:
        other = Z.copy()
        other.data[(sources == name)[other.indices]] = 0
        hole = nothing.copy()
        hole.data[(sources != name)[hole.indices]] = 0
        other = other + sp.csr_matrix(np.ones((len(y), 1))) @ hole
        costs[name] = whole - float(model.score(other if sparse else other.toarray(), y))
    return costs
