"""marginout predict: one prediction per row."""

from __future__ import annotations

import csv
import io
import sys
from argparse import Namespace
from collections.abc import Iterator
from typing import Any, TextIO

import numpy as np

from marginout.cli import modelfile
from marginout.cli.errors import DataError, UsageError
from marginout.cli.holes import rows_expected
from marginout.cli.models import quantiles_of
from marginout.cli.output import Progress, check_writable, listed, to_json, write_atomically
from marginout.cli.reading import model_blocks


def run(arguments: Namespace) -> None:
    """Write CSV with the column `prediction`, or one for each quantile, or JSON lines."""
    check_writable(arguments.out, arguments.model, arguments.data)
    progress = Progress(arguments.quiet)
    model = modelfile.load(arguments.model)
    if arguments.scores and model.classes is None:
        raise UsageError("--scores needs classes, but the model predicts numbers: leave it out")
    if arguments.probabilities and not hasattr(model.estimator, "predict_proba"):
        kind = type(model.estimator).__name__
        raise UsageError(f"--probabilities: {kind} has none: fit with --model logistic, or use --scores")
    if arguments.expected_score and not model.about.get("expected"):
        raise UsageError(
            "--expected-score: fit did not measure it: fit with --expected-score, or leave it out"
        )
    lines = _lines(model, arguments, progress)
    if arguments.out != "-":
        write_atomically(
            arguments.out, lambda file: _write(io.TextIOWrapper(file, "utf-8", newline=""), lines)
        )
    else:
        _write(sys.stdout, lines)
    progress.done()


def _write(file: TextIO, lines: Iterator[str]) -> None:
    for text in lines:
        file.write(text)
    file.flush()
    if isinstance(file, io.TextIOWrapper) and file is not sys.stdout:
        file.detach()  # the caller closes the file


def _lines(model: modelfile.Model, arguments: Namespace, progress: Progress) -> Iterator[str]:
    """Lines of the output, block by block."""
    quantiles = quantiles_of(model.estimator) or []
    predictions = [f"quantile {value:g}" for value in quantiles] if len(quantiles) > 1 else ["prediction"]
    header = [*([] if arguments.id is None else [arguments.id]), *predictions]
    if arguments.scores:
        header += [f"score {name}" for name in model.classes] if len(model.classes) > 2 else ["score"]
    if arguments.probabilities:
        header += [f"probability {name}" for name in model.classes]
    if arguments.expected_score:
        header += ["missing", "expected score"]
    if len(set(header)) < len(header):
        raise UsageError(f"--id {arguments.id}: a column of the predictions has this name: rename it in DATA")
    head = (
        "" if arguments.json else _csv([header])
    )  # written with the first rows, not before: reading them may fail
    for X, _ in model_blocks(model, arguments, progress, labelled=False):
        columns = [] if arguments.id is None else [_ids(X, arguments.id)]
        columns += list(np.reshape(model.pipeline.predict(X), (-1, len(predictions))).T)
        if arguments.scores:
            scores = np.asarray(model.pipeline.decision_function(X))
            columns += list(scores.T) if scores.ndim == 2 else [scores]
        if arguments.probabilities:
            columns += list(np.asarray(model.pipeline.predict_proba(X)).T)
        if arguments.expected_score:
            columns += rows_expected(model, X)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        if arguments.json:
            yield "".join(to_json(dict(zip(header, row, strict=True))) + "\n" for row in rows)
        else:
            yield head + _csv(rows)
            head = ""


def _ids(X: Any, name: str) -> Any:
    """The cells of a column as they were read; None for a missing one."""
    if name not in X.columns:
        raise DataError(f"--id {name}: there is no such column; the columns are {listed(X.columns)}")
    cells = X[name].astype(object)
    return cells.where(cells.notna(), None)


def _csv(rows: Any) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()
