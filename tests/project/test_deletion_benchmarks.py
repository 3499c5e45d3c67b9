"""Benchmarks whose test data lose features: scored once, as given, with the same choices for all models."""

import ast
import csv
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    StratifiedShuffleSplit,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from benchmarks import holes, missing_groups, mnist_deletion, problems, report
from benchmarks.options import Options
from benchmarks.report import Report
from benchmarks.sections import latent, lost
from marginout.noise import Dropout

ROOT = Path(__file__).parents[2]
#: Models whose errors are counted by hand, one of each kind.
COUNTED = (
    "HistGradientBoosting, ten copies with losses",
    "LinearSVC, mean imputation",
    "LogisticRegression, IterativeImputer, nothing chosen",
    "LogisticRegression, one model per pattern",
    "LogisticRegression, GaussianImputer",
    "DropoutSVCCV, deleted, group noise",
    "DropoutLogisticRegressionCV, conditional",
)


def written(folder, name):
    with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_prepared_test_set_is_not_scored_by_the_scorer_of_a_search():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)

    def blind(model, Z, labels):
        return float(np.mean(model.predict(np.zeros_like(Z)) == labels))

    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, scoring=blind).fit(X[::2], y[::2])
    plain = float(np.mean(search.best_estimator_.predict(X[1::2]) != y[1::2]))
    assert missing_groups.error(search, X[1::2], y[1::2]) == plain
    assert 1 - search.score(X[1::2], y[1::2]) > plain + 0.1


def test_missing_groups_writes_errors_on_data_as_given(tmp_path):
    missing_groups.main(["--quick", "--csv", str(tmp_path)])
    rows = {row["model"]: float(row["test_error"]) for row in written(tmp_path, "missing_groups")}
    assert list(rows) == list(missing_groups.candidates(1))
    # The same split again, and predictions for the damaged examples counted by hand.
    X, y = load_breast_cancer(return_X_y=True)
    split = StratifiedShuffleSplit(n_splits=1, train_size=100, test_size=100, random_state=0)
    train, test = next(split.split(X, y))
    models = missing_groups.candidates(1)
    for name in COUNTED:
        model = models[name].fit(X[train], y[train])
        final = getattr(model, "best_estimator_", model)
        wrong = [
            final.predict(missing_groups.lose(X[test], 1, mask)) != y[test]
            for mask in range(missing_groups.MASKS)
        ]
        assert rows[name] == pytest.approx(np.mean(wrong), abs=1e-6)


def test_holes_are_scored_as_given(tmp_path):
    holes.main(["--quick", "--tables", "wine", "--csv", str(tmp_path)])
    lines = written(tmp_path, "holes")
    assert len(lines) == 2 * 7
    X, y = load_wine(return_X_y=True)
    X, y = (each[np.unique(np.linspace(0, 177, 60).astype(int))] for each in (X, y))
    X, Z, y, z = train_test_split(X, y, test_size=1 / 3, stratify=y, random_state=0)
    scaler = StandardScaler().fit(X)
    Z = holes.punched(scaler.transform(Z), 0.5, 0)
    trees = HistGradientBoostingClassifier(random_state=0).fit(scaler.transform(X), y)
    (line,) = [line for line in lines if (line["model"], line["missing"]) == (holes.TREES, "0.5")]
    assert float(line["test_error"]) == pytest.approx(np.mean(trees.predict(Z) != z), abs=1e-6)


def test_C_behind_an_imputer_is_that_of_a_search_over_the_pipeline():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:150], y[:150]
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    model = missing_groups.candidates(3)["LogisticRegression, mean imputation"].fit(X, y)
    pipeline = make_pipeline(StandardScaler(), SimpleImputer(), LogisticRegression(max_iter=1000))
    grid = {"logisticregression__C": missing_groups.CS}
    search = GridSearchCV(pipeline, grid, scoring=missing_groups.after_loss(3), cv=folds).fit(X, y)
    assert search.best_params_["logisticregression__C"] == model.C_
    damaged = missing_groups.lose(X, 3, 1)
    assert (model.predict(damaged) == search.best_estimator_.predict(damaged)).all()


def test_reduced_models_know_only_what_is_left():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    reduced = missing_groups.Reduced(LogisticRegression()).fit(X[:300], y[:300])
    damaged = missing_groups.lose(X[300:310], 5, 0)
    said = reduced.predict(damaged)
    for row, found in zip(damaged, said, strict=True):
        left = ~np.isnan(row)
        alone = LogisticRegression().fit(X[:300, left], y[:300])
        assert found == alone.predict(row[None, left])[0]


def test_all_features_of_a_column_are_lost_together():
    frame = pd.DataFrame(
        {
            "number": np.arange(60.0),
            "kind": ["a", "b", "c"] * 20,
            "when": pd.date_range("2020-01-01", periods=60, freq="7h").astype(str),
        }
    )
    X, columns = lost.numbers(frame, 60)
    assert columns.tolist() == [0, 1, 1, 1, 2, 2, 2, 2]
    assert (X[:, 0] == np.arange(60)).all()
    assert (X[:, 1:4].sum(axis=1) == 1).all()
    assert (X[:, 5] == np.arange(60) * 7 % 24).all()
    assert [len(each) for each in lost.drawn(8, 0.4)] == [3] * lost.DRAWS
    assert [sorted(each.tolist()) for each in lost.drawn(3, 1.0)] == [[0, 1, 2]]
    assert len(lost.drawn(8, 0.0)) == 1
    mean = type("Mean", (), {"predict": lambda self, X: np.full(len(X), 2.0)})()
    assert lost.score(mean, X[:3], np.array([1.0, 2.0, 3.0]), classify=False) == 0
    assert lost.score(mean, X[:4], np.array([2, 2, 2, 1]), classify=True) == 0.75


def test_every_row_loses_as_many_measurements():
    X = np.ones((20, 30))
    dead = np.isnan(missing_groups.lose(X, 3, seed=0))
    assert (dead.sum(axis=1) == 9).all()
    assert (dead[:, :10] == dead[:, 20:]).all()


def sources():
    folders = "benchmarks", "reproduction", "examples", "src/marginout/cli"
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def scores_by_a_searchs_own_scorer(text):
    """Whether a module hands a scorer of its own to a search and calls some `score` method too."""
    nodes = list(ast.walk(ast.parse(text)))
    given = [node.value for node in nodes if isinstance(node, ast.keyword) and node.arg == "scoring"]
    for node in nodes:
        if isinstance(node, ast.Dict):
            named = zip(node.keys, node.values, strict=True)
            given += [v for k, v in named if isinstance(k, ast.Constant) and k.value == "scoring"]
    own = any(not isinstance(value, ast.Constant) for value in given)
    methods = [n.func.attr for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    return own and "score" in methods


def test_nothing_with_a_scorer_of_its_own_calls_score():
    assert scores_by_a_searchs_own_scorer("GridSearchCV(m, g, scoring=f).fit(X, y).score(X, y)")
    assert scores_by_a_searchs_own_scorer("S(**{'scoring': f}); m.score(X, y)")
    assert not scores_by_a_searchs_own_scorer("GridSearchCV(m, g, scoring='accuracy').fit(X, y).score(X, y)")
    assert [str(p) for p in sources() if scores_by_a_searchs_own_scorer(p.read_text(encoding="utf-8"))] == []


def test_mnist_deletion_runs(tmp_path):
    mnist_deletion.main(["--quick", "--csv", str(tmp_path)])
    rows = written(tmp_path, "mnist_deletion")
    assert [(row["model"], row["deleted"]) for row in rows] == [
        (name, str(rate)) for name in mnist_deletion.candidates() for rate in mnist_deletion.RATES
    ]
    errors = {(row["model"], row["deleted"]): float(row["test_error"]) for row in rows}
    for row in rows:
        assert bool(row["peer"]) == (row["model"] not in mnist_deletion.PLAIN)
        if row["peer"]:
            low, less, high = (float(row[name]) for name in ("less_low", "less", "less_high"))
            gain = errors[row["peer"], row["deleted"]] - errors[row["model"], row["deleted"]]
            assert less == pytest.approx(gain)
            assert low < less < high
    # Some models alone, beside the stored choices of the plain ones: the same lines.
    alone = [row for row in rows if row["model"] != "DropoutSVC, pairwise"]
    report.write_lines(alone, "mnist_deletion", tmp_path)
    mnist_deletion.main(["--quick", "--csv", str(tmp_path), "--only", "DropoutSVC, pairwise"])
    assert written(tmp_path, "mnist_deletion") == rows


def test_all_models_choose_the_offset_and_from_as_many_values_of_C():
    for models, _ in mnist_deletion.candidates().values():
        assert {model.fit_intercept for model in models} == {True, False}
    assert {kind(0.5).corrupt(np.ones((1, 9)), 0).max() for kind in mnist_deletion.EVENTS.values()} == {1, 2}


class Peaked(BaseEstimator):
    """Errs on a share of the examples that grows with the distance of C from one; all labels are 1."""

    def __init__(self, C=1.0):
        self.C = C

    def fit(self, X, y):
        return self

    def predict(self, X):
        return (np.arange(len(X)) / len(X) >= abs(np.log10(self.C)) / 10).astype(int)


@pytest.mark.parametrize(
    ("least", "values", "more", "k", "edge"),
    [
        (-3, 7, 0, 0, False),
        (-8, 2, 9, 0, False),
        (5, 2, 9, 0, False),
        (-8, 2, 4, -3, True),
        (5, 2, 1, 4, True),
    ],
)
def test_a_grid_of_C_goes_on_where_its_outermost_value_is_best(least, values, more, k, edge):
    X, y = np.ones((100, 3)), np.ones(100)
    held_out = {key: ([X], y) for key in product(mnist_deletion.RATES, mnist_deletion.EVENTS)}
    size = mnist_deletion.Size(100, 1, values, more)
    found = mnist_deletion.search([Peaked()], least, X, y, held_out, size)
    assert [(choice.k, choice.edge) for choice in found] == [(k, edge)] * 2
    assert found[0].error == pytest.approx(abs(k) / 20, abs=0.01)


def test_C_is_chosen_for_the_condition_that_is_scored():
    problem = problems.bundled("digits", 0)
    whole, half = (latent._tuned(LinearSVC(), rate, problem.X, problem.y, 0) for rate in (0.0, 0.5))
    damaged = Dropout(0.5).corrupt(problem.X_test, 0)
    assert half.C < whole.C
    assert latent._error(half, damaged, problem.y_test) < latent._error(whole, damaged, problem.y_test) - 0.02
    assert latent._error(whole, problem.X_test, problem.y_test) < latent._error(
        half, problem.X_test, problem.y_test
    )


def test_an_interrupted_run_of_the_hidden_layers_goes_on_where_it_stood(tmp_path, monkeypatch):
    whole, fits = latent._digit_cell, []

    def interrupted(*args, **options):
        if fits:
            raise KeyboardInterrupt
        fits.append(args)
        return whole(*args, **options)

    monkeypatch.setattr(latent, "_digit_cell", interrupted)
    options, report = Options(quick=True, resume=tmp_path), Report()
    with pytest.raises(KeyboardInterrupt):
        latent._digits(Report(), options)
    monkeypatch.setattr(
        latent, "_digit_cell", lambda *args, **more: fits.append(args) or whole(*args, **more)
    )
    latent._digits(report, options)
    assert len(fits) == 2  # two models, one half each: none is fitted again
    again = Report()
    latent._digits(again, options)
    assert len(fits) == 2
    assert again.rows == report.rows
    errors = [row.test_error for row in report.rows]
    fresh = Report()
    latent._digits(fresh, Options(quick=True))
    assert [row.test_error for row in fresh.rows] == errors
