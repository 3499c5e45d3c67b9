"""Make X and y of DATA: to train a model on, or to predict and score with a saved model."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline

from marginout.cli import convert, data, matrices
from marginout.cli.columns import Columns, plan, scoring_target, target_cells, training_target, unlabelled
from marginout.cli.errors import DataError, UsageError
from marginout.cli.modelfile import Model
from marginout.cli.output import Progress, listed


@dataclass
class Training:
    """X and y to train on, and their description."""

    X: Any
    y: Any
    task: str
    target: str
    columns: Columns | None  # of a table
    names: list[str] | None  # of the features of a matrix
    base: int  # the number of the first feature of a matrix

    def pipeline(self, model: Any, arguments: Namespace) -> Pipeline:
        """The model, after the steps that make numbers of the columns."""
        if self.columns is None:
            return convert.matrix_pipeline(model, arguments.scale)
        return convert.table_pipeline(self.columns, model, len(self.X), arguments.missing)


def training_data(arguments: Namespace, progress: Progress, rows: int = 0) -> Training:
    """Read DATA for `fit` and `compare`."""
    kinds = arguments.text, arguments.categorical, arguments.numeric, arguments.drop, arguments.only
    if data.is_matrix(data.find_format(arguments.data, arguments.format)) and any(kinds):
        raise UsageError(
            "--text, --categorical, --numeric, --drop and --only need a table, but svmlight and npz are "
            "numbers: leave them out"
        )
    found = data.read(arguments, progress, target=arguments.target, rows=rows)
    if isinstance(found, data.Table):
        if arguments.scale:
            raise UsageError(
                "--scale is for svmlight and npz; numbers in tables are always scaled: leave it out"
            )
        found = _with_targets(found, arguments.target, arguments, progress)
        columns = plan(found.frame, arguments, progress)
        if arguments.missing == "conditional" and columns.text:
            raise UsageError(
                "--missing conditional is for numbers and categories, but these columns are texts: "
                f"{listed(columns.text)}: leave them out with --drop, or choose --missing deleted"
            )
        mark = columns.marks.get(columns.target)
        values = target_cells(found.frame[columns.target], mark)
        y, task = training_target(values, columns.target, arguments.task)
        return Training(found.frame[columns.used], y, task, columns.target, columns, None, 0)
    name = arguments.target or "y"
    if found.y is None:
        raise DataError(f"{arguments.data}: there is no target in it: name its array with --target")
    found = _with_targets(found, name, arguments, progress)
    y, task = training_target(found.y, name, arguments.task)
    X = check_numbers(found.X, arguments.missing != "imputed")
    if arguments.missing == "conditional" and sp.issparse(X):
        raise UsageError(
            "--missing conditional needs a dense matrix, but DATA is sparse: choose --missing deleted"
        )
    return Training(X, y, task, name, None, found.names, found.base)


def _with_targets(found: Any, name: str | None, arguments: Namespace, progress: Progress) -> Any:
    """Leave out the rows without a target, if --drop-unlabelled asks for it."""
    y = found.target(name)
    if not arguments.drop_unlabelled or y is None:
        return found
    gaps = unlabelled(y)
    if gaps.all():
        raise DataError(f"the target {name!r} is missing in all {len(gaps)} rows: name another --target")
    if not gaps.any():
        return found
    progress.note(f"{gaps.sum()} of {len(gaps)} rows have no target {name!r} and are left out")
    return found.take(~gaps)


def model_data(
    model: Model, arguments: Namespace, progress: Progress, *, train: bool = False, rows: int = 0
) -> tuple[Any, Any]:
    """Read DATA, or --train, for a saved model: features as its pipeline takes them, and targets."""
    path, format = (arguments.train, None) if train else (arguments.data, arguments.format)
    _check_kind(model, data.find_format(path, format))
    return _model_data(model, arguments, progress, labelled=True, train=train, rows=rows)


def _model_data(
    model: Model, arguments: Namespace, progress: Progress, labelled: bool, **options: Any
) -> tuple[Any, Any]:
    found = data.read(arguments, progress, **options, **_matrix_options(model, arguments))
    if not labelled:
        return _features(model, found, arguments, progress), None
    found = _with_targets(found, arguments.target or model.about["target"], arguments, progress)
    return _features(model, found, arguments, progress), _target(model, found, arguments)


def model_blocks(
    model: Model, arguments: Namespace, progress: Progress, labelled: bool
) -> Iterator[tuple[Any, Any]]:
    """Read DATA for a saved model in blocks, if it is svmlight: a file of any size needs little memory."""
    format = data.find_format(arguments.data, arguments.format)
    _check_kind(model, format)
    if format != "svmlight":
        yield _model_data(model, arguments, progress, labelled)
        return
    if arguments.where:
        raise UsageError("--where needs columns with names, which svmlight does not have: leave it out")
    _matrix_options(model, arguments)
    progress.step("reading")
    d, base, empty = int(model.pipeline.n_features_in_), model.about["base"], True
    with data.opened(arguments.data, progress) as stream:
        for rows in matrices.svmlight_parts(stream):
            if not len(rows.labels):
                continue
            empty = False
            y = scoring_target(rows.labels, "label", model.classes) if labelled else None
            yield matrices.assemble(rows, d, base, progress), y
    if empty:
        raise DataError(f"{arguments.data}: there is no row in it")


def _check_kind(model: Model, format: str) -> None:
    if data.is_matrix(format) != (model.columns is None):
        known = "a table" if model.columns else "svmlight or npz"
        raise DataError(f"the model was trained on {known}, but DATA is {format}: give it the same kind")


def _matrix_options(model: Model, arguments: Namespace) -> dict[str, Any]:
    """Options of `data.read` for a model of matrices; none for a model of tables."""
    if model.columns:
        return {}
    if arguments.id:
        raise UsageError("--id needs columns with names, which svmlight and npz do not have: leave it out")
    target = arguments.target or model.about["target"]
    return {
        "target": arguments.target or (target if target != "y" else None),
        "n_features": int(model.pipeline.n_features_in_),
        "base": model.about["base"],
    }


def _features(model: Model, found: Any, arguments: Namespace, progress: Progress) -> Any:
    """X as the model's pipeline takes it; notes categories that the model does not know."""
    if model.columns is None:
        return check_numbers(found.X, model.estimator.missing != "error")
    model.pipeline.set_params(convert__strict=arguments.strict)
    if arguments.decimal:
        model.pipeline.set_params(convert__decimal=arguments.decimal)
    rows, names = convert.unseen(model.pipeline, model.columns, found.frame)
    if rows:
        progress.note(
            f"{rows} of {len(found.frame)} rows have categories that the model has not been trained on; they "
            f"are ignored: {listed(names)}"
        )
    return found.frame


def _target(model: Model, found: Any, arguments: Namespace) -> Any:
    """True targets, in the type of the model's classes."""
    name = arguments.target or model.about["target"]
    y = found.target(name)
    if y is None and model.columns is None:
        raise DataError("there is no target in it: name its array with --target")
    if y is None:
        raise DataError(f"there is no column {name!r} with the true targets: name it with --target")
    if model.columns:
        numbers = model.classes is None or model.classes.dtype.kind in "fiu"
        mark = model.pipeline[0].decimal_marks(found.frame, name).get(name) if numbers else None
        y = target_cells(y, mark)
    return scoring_target(y, name, model.classes)


def check_numbers(X: Any, nan: bool = False) -> Any:
    """Refuse a matrix with infinity, or with NaN unless the model takes them."""
    values = X if isinstance(X, np.ndarray) else X.data
    if np.isinf(values).any():
        raise DataError("a feature is infinite: replace it by a number")
    if not nan and np.isnan(values).any():
        raise DataError("a feature is NaN: replace it by a number, or fit with --missing deleted")
    return X
