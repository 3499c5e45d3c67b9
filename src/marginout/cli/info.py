"""marginout info: describe a saved model."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from marginout.cli import holes, modelfile
from marginout.cli.models import describe_model
from marginout.cli.output import listed, print_facts, print_json, print_table
from marginout.cli.weights import heaviest


def run(arguments: Namespace) -> None:
    """Print training data, parameters, versions, and the features of the largest weights."""
    model = modelfile.load(arguments.model)
    features = heaviest(model, arguments.top)
    if arguments.json:
        about = {name: value for name, value in model.about.items() if name != "feature_names"}
        parameters = {name: repr(value) for name, value in model.estimator.get_params(deep=False).items()}
        estimator = type(model.estimator).__name__
        print_json({**about, "estimator": estimator, "parameters": parameters, "top_features": features})
        return
    print_facts(facts(model))
    print()
    print_table(
        [
            ["features of the largest weights", "weight", "for"],
            *([f["name"], f"{f['weight']:+.4g}", f["output"]] for f in features),
        ]
    )


def facts(model: modelfile.Model) -> list[tuple[str, str]]:
    """Names and values of what is known about a model."""
    about = model.about
    scores: dict[str, Any] = about["scores"]
    found = [
        ("model", describe_model(model.estimator)),
        ("task", f"{model.task} of {about['target']!r}"),
        ("trained on", f"{about['rows']} rows, {about['features']} features"),
    ]
    if model.columns:
        found.append(("columns", model.columns.describe()))
        if model.columns.left_out:
            found.append(("not used", model.columns.unused()))
    if model.classes is not None:
        found.append(("classes", listed(map(str, model.classes))))
    found += [(f"score, {name.replace('_', ' ')}", f"{value:.4f}") for name, value in scores.items()]
    found += holes.facts(about)
    if about.get("largest_class_share") is not None:
        found.append(("largest class", f"{about['largest_class_share']:.4f} of the rows trained on"))
    found += [("created", about["created"]), ("command", about["command"])]
    found.append(("versions", ", ".join(f"{name} {number}" for name, number in about["versions"].items())))
    return found
