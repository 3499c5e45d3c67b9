"""Missing cells: how often they occur, for how many a model was trained, and the score expected with them."""

from __future__ import annotations

import warnings
from argparse import Namespace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline, make_pipeline

from marginout.cli import cells
from marginout.cli.convert import feature_columns
from marginout.cli.modelfile import Model
from marginout.cli.models import chosen, noise_of
from marginout.cli.output import listed
from marginout.cli.reading import Training
from marginout.noise import resolve
from marginout.robustness import expected_score

#: Rows that lose cells for `--expected-score`, at most; draws times rows, about.
ROWS, DRAWN = 5000, 2000
#: Excess of missing cells that is worth a warning, as a share and in standard deviations.
EXCESS, DEVIATIONS = 0.05, 3.0
#: What stands for the columns of a matrix, which have no names: its NaN are counted together.
ENTRIES = "all features"


def missing_cells(frame: Any, columns: list[str]) -> NDArray[np.bool_]:
    """Mask of the missing cells, (n_rows, n_columns); all cells of a column that the frame lacks."""
    gone = np.ones(len(frame), dtype=bool)
    masks = [cells.missing(frame[name]) if name in frame.columns else gone for name in columns]
    return np.column_stack(masks)


def count_missing(X: Any, columns: list[str] | None) -> dict[str, list[int]]:
    """Number of missing cells, and of cells, of every column that X has; of a matrix, of its entries."""
    if columns is None:
        values = X.data if sp.issparse(X) else X
        return {ENTRIES: [int(np.isnan(values).sum()), int(values.size)]}
    here = [name for name in columns if name in X.columns]
    counts = missing_cells(X, here).sum(axis=0) if here else []
    return {name: [int(count), len(X)] for name, count in zip(here, counts, strict=True)}


def trained_rates(model: Model) -> dict[str, float]:
    """The rate of missing cells that each column was trained for: in the data, or by a noise that deletes.

    The words of a text die one by one: for the loss of all of them, only the data count.
    """
    known: dict[str, float] = model.about.get("missing_rates") or {}
    try:
        dead = resolve(noise_of(model.estimator)).survivors(int(model.estimator.n_features_in_))[0]
    except ValueError:  # a noise that deletes nothing
        return known
    columns = model.columns
    if columns is None:
        return {name: 1 - (1 - rate) * (1 - float(dead.mean())) for name, rate in known.items()}
    sources = np.array(feature_columns(model.pipeline, columns), dtype=object)
    dies = {name: dead[sources == name] for name in known if name not in columns.text}
    return {name: 1 - (1 - rate) * (1 - _least(dies.get(name))) for name, rate in known.items()}


def _least(rates: Any) -> float:
    return float(rates.min()) if rates is not None and len(rates) else 0.0


def compared(model: Model, counts: dict[str, list[int]]) -> dict[str, dict[str, float]]:
    """Shares of missing cells, and what the model was trained for; warns of columns that miss far more."""
    trained, found, excess = trained_rates(model), {}, []
    for name, (count, cells_) in counts.items():
        if name not in trained or not cells_:
            continue
        share, rate = count / cells_, trained[name]
        found[name] = {"share": share, "trained_for": rate}
        spread = np.sqrt(cells_ * rate * (1 - rate) + 1)
        if share > rate + EXCESS and count - cells_ * rate > DEVIATIONS * spread:
            excess.append(f"{name} {share:.0%} (trained for {rate:.0%})")
    if excess:
        warnings.warn(
            f"more cells are missing than the model was trained for: {listed(excess)}: fit on rows like "
            "these, or with --noise deletion:RATE",
            stacklevel=2,
        )
    return found


def expected(pipeline: Pipeline, training: Training, arguments: Namespace) -> dict[str, Any]:
    """Expected scores by the share of the columns that is missing, from models of folds of the rows.

    As in --cv, the steps before the model are those of all rows.
    """
    assert training.columns is not None
    frame = training.X.mask(missing_cells(training.X, training.columns.used))
    model = make_pipeline(FrozenEstimator(pipeline[:-1]), clone(chosen(pipeline[-1])))
    rng, folds = np.random.default_rng(arguments.seed), []
    for train, test in check_cv(arguments.folds, training.y, classifier=is_classifier(model)).split(
        frame, training.y
    ):
        most = ROWS // arguments.folds
        folds.append((train, test if len(test) <= most else rng.choice(test, most, replace=False)))
    repeats = int(np.clip(DRAWN // len(frame), 1, 5))
    found = expected_score(model, frame, training.y, n_repeats=repeats, cv=folds, random_state=arguments.seed)
    return {"score": found.score_name, "shares": found.shares.tolist(), "mean": found.mean.tolist()}


def rows_expected(model: Model, X: Any) -> list[NDArray[np.float64]]:
    """For every row, the share of the columns that is missing, and the expected score."""
    assert model.columns is not None
    shares = missing_cells(X, model.columns.used).mean(axis=1)
    curve = model.about["expected"]
    return [shares, np.interp(shares, curve["shares"], curve["mean"])]


def facts(about: dict[str, Any]) -> list[tuple[str, str]]:
    """What `fit` and `info` say of the expected scores."""
    curve = about.get("expected")
    if not curve:
        return []
    most, half, least = np.interp([0.0, 0.5, 1.0], curve["shares"], curve["mean"])
    said = f"{most:.4f} with all cells, {half:.4f} with half of them missing, {least:.4f} with all (folds)"
    return [(f"expected {curve['score']}", said)]
