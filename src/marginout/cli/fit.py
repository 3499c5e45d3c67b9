"""marginout fit: train a model and save it."""

from __future__ import annotations

import shlex
import time
from argparse import Namespace
from typing import Any

from marginout._core.callbacks import heard
from marginout.cli import modelfile, prepare, targets
from marginout.cli.errors import UsageError
from marginout.cli.models import check_model, delete_groups, make_model
from marginout.cli.output import Progress, check_writable, print_facts, print_json
from marginout.cli.reading import Training, training_data
from marginout.cli.weights import column_costs, describe_noise


def run(arguments: Namespace) -> None:
    """Read, prepare, fit, save, tell."""
    if arguments.out == "-":
        raise UsageError("a model cannot go to standard output: name a file, as in --out my.model")
    check_writable(arguments.out, arguments.data)
    check_model(arguments)
    modelfile.require_skops()
    progress = Progress(arguments.quiet or arguments.json)
    training = training_data(arguments, progress)
    model = make_model(arguments, training.task)
    if arguments.cv:
        targets.check_folds(training.y, training.task, arguments.folds)
    pipeline = training.pipeline(model, arguments)
    if arguments.missing == "deleted" and training.columns:
        groups = prepare.category_groups(pipeline[:-1].fit(training.X), training.columns)
        if groups is not None:
            delete_groups(model, groups)
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
        "largest_class_share": targets.largest_share(training.y) if classify else None,
        "seconds": seconds,
        "missing": arguments.missing,
        "costs": pipeline[0].costs_ if training.columns else None,
    }
    progress.step("saving")
    modelfile.save(arguments.out, pipeline, about)
    progress.done()
    _tell(arguments, training, final, about)


def _tell(arguments: Namespace, training: Training, model: Any, about: dict[str, Any]) -> None:
    """What was done, for people or for machines."""
    chosen = {"C": _chosen(model, "C"), "noise": describe_noise(_chosen(model, "noise"))}
    if arguments.json:
        kept = {name: value for name, value in about.items() if name != "feature_names"}
        print_json({"model": arguments.out, "estimator": type(model).__name__, **chosen, **kept})
        return
    score, beside = "R²", ""
    if training.task == "classification":
        score, beside = "accuracy", f" (the largest class has {about['largest_class_share']:.4f} of the rows)"
    facts = [
        ("task", f"{training.task} of {training.target!r}"),
        ("data", f"{about['rows']} rows, {about['features']} features"),
    ]
    if training.columns:
        facts.append(("columns", training.columns.describe()))
        if training.columns.left_out:
            facts.append(("not used", training.columns.unused()))
    facts.append(("model", f"{type(model).__name__}, C = {chosen['C']:.3g}, noise {chosen['noise']}"))
    if "cross_validation" in about["scores"]:
        facts.append((score, f"{about['scores']['cross_validation']:.4f} in cross-validation{beside}"))
    facts.append((score, f"{about['scores']['train']:.4f} on the training data{beside}"))
    facts.append(("time", f"{about['seconds']:.2f} s to fit"))
    facts.append(("saved", arguments.out))
    print_facts(facts)


def _chosen(model: Any, name: str) -> Any:
    """A parameter as a search has chosen it, or as it was given."""
    return getattr(model, f"{name}_", None) if hasattr(model, f"{name}_") else getattr(model, name)
