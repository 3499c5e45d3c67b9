"""marginout score: score a saved model on labelled data."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np
from sklearn import metrics

from marginout.cli import modelfile
from marginout.cli.columns import largest_share
from marginout.cli.holes import compared, count_missing
from marginout.cli.models import quantiles_of
from marginout.cli.output import Progress, print_facts, print_json
from marginout.cli.reading import model_blocks


def run(arguments: Namespace) -> None:
    """Print the accuracy, or R² and the errors of a regression, or the loss of quantiles."""
    progress = Progress(arguments.quiet or arguments.json)
    model = modelfile.load(arguments.model)
    truth, said = [], []
    missing: dict[str, list[int]] = {}
    columns = model.columns.used if model.columns else None
    for X, y in model_blocks(model, arguments, progress, labelled=True):
        for name, counts in count_missing(X, columns).items():
            missing[name] = [a + b for a, b in zip(missing.get(name, [0, 0]), counts, strict=True)]
        truth.append(y)
        said.append(model.pipeline.predict(X))
    progress.done()
    cells = compared(model, missing)
    y, predicted = np.concatenate(truth), np.concatenate(said)
    quantiles = quantiles_of(model.estimator)
    if quantiles:
        scores = _quantiles(y, predicted, quantiles)
    elif model.task == "classification":
        scores = _classification(y, predicted, model, progress)
    else:
        scores = _regression(y, predicted)
    if arguments.json:
        print_json(
            {"model": arguments.model, "data": arguments.data, "task": model.task, **scores, "missing": cells}
        )
    else:
        print_facts(
            [
                (name.replace("_", " "), f"{value:.4f}" if isinstance(value, float) else str(value))
                for name, value in scores.items()
            ]
        )


def _classification(y: Any, predicted: Any, model: modelfile.Model, progress: Progress) -> dict[str, Any]:
    unknown = ~np.isin(y, model.classes)
    if unknown.any():
        progress.note(
            f"{unknown.sum()} rows have classes that the model does not know, such as {y[unknown][0]!r}"
        )
    right = y == predicted
    recalls = [float(np.mean(right[y == name])) for name in np.unique(y)]
    return {
        "rows": len(y),
        "accuracy": float(np.mean(right)),
        "largest_class_share": largest_share(y),
        "error": float(np.mean(~right)),
        "balanced_accuracy": float(np.mean(recalls)),
    }


def _regression(y: Any, predicted: Any) -> dict[str, Any]:
    r2 = float(metrics.r2_score(y, predicted)) if len(y) > 1 else None  # not defined for one row
    rmse = float(metrics.root_mean_squared_error(y, predicted))
    return {"rows": len(y), "r2": r2, "rmse": rmse, "mae": float(metrics.mean_absolute_error(y, predicted))}


def _quantiles(y: Any, predicted: Any, quantiles: list[float]) -> dict[str, Any]:
    """The mean pinball loss of all quantiles, and the share of the targets below each: near the quantile."""
    predicted = np.reshape(predicted, (len(y), -1))
    losses = [metrics.mean_pinball_loss(y, predicted[:, k], alpha=value) for k, value in enumerate(quantiles)]
    below = np.mean(y[:, None] < predicted, axis=0)
    shares = {f"share_below_{value:g}": float(share) for value, share in zip(quantiles, below, strict=True)}
    return {"rows": len(y), "pinball_loss": float(np.mean(losses)), **shares}
