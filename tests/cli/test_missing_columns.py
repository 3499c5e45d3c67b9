"""Data that lack columns, or cells, of the model: used, with a warning that says what it costs."""

import io
import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import marginout
from marginout import DropoutLogisticRegression, MissingColumnsWarning
from marginout.cli import main, modelfile
from marginout.noise import GroupDeletion, GroupDropout

from .conftest import people

DATA = ["people.csv", "--target", "bought", "--drop", "spent,id", "--categorical", "city,shop"]


@pytest.fixture(scope="module", params=["imputed", "deleted"])
def folder(request, tmp_path_factory):
    """A table, the same without two columns, the same with empty ones, and a model for either way."""
    folder = tmp_path_factory.mktemp(request.param)
    frame = people(240)
    frame.to_csv(folder / "people.csv", index=False)
    frame.drop(columns=["city", "age"]).to_csv(folder / "fewer.csv", index=False)
    frame.assign(city="", age="").to_csv(folder / "empty.csv", index=False)
    cwd = pytest.MonkeyPatch()
    cwd.chdir(folder)
    more = ["--model", "logistic", "--noise", "0.2", "--missing", request.param, "--out", "m.model"]
    assert main(["fit", *DATA, *more, "--quiet"]) == 0
    yield folder
    cwd.undo()


def table(text):
    return pd.read_csv(io.StringIO(text))


def test_missing_columns_are_empty_columns_with_a_warning(run, folder):
    code, out, err = run("predict", "m.model", "fewer.csv", "--scores")
    assert code == 0
    assert err.count("\n") == 1
    assert "2 of the 4 columns that the model needs are missing: age, city." in err
    _, empty, silent = run("predict", "m.model", "empty.csv", "--scores")
    assert silent == ""
    assert_array_equal(table(out), table(empty))
    whole = table(run("predict", "m.model", "people.csv", "--scores")[1])
    assert np.abs(table(out)["score"] - whole["score"]).max() > 0.1
    assert run("predict", "m.model", "fewer.csv", "--quiet")[2] == ""
    for command in (["score"], ["stress", "--no-refit"]):
        code, _, err = run(command[0], "m.model", "fewer.csv", *command[1:])
        assert code == 0
        assert "are missing: age, city." in err


def test_python_does_what_the_command_does(run, folder):
    out = table(run("predict", "m.model", "fewer.csv", "--scores")[1])
    pipeline = marginout.load("m.model")
    with pytest.warns(MissingColumnsWarning, match="are missing: age, city"):
        scores = pipeline.decision_function(pd.read_csv("fewer.csv"))
    assert_allclose(scores, out["score"], atol=1e-12)
    pipeline.set_params(convert__strict=True)
    with pytest.raises(ValueError, match="are missing: age, city"):
        pipeline.predict(pd.read_csv("fewer.csv"))


def test_the_cost_is_what_the_score_loses(run, folder):
    """Each column alone, on the rows of the training data."""
    frame = pd.read_csv("people.csv")
    about = json.loads(run("info", "m.model", "--json")[1])
    whole = json.loads(run("score", "m.model", "people.csv", "--json")[1])["accuracy"]
    assert set(about["costs"]) == {"age", "city", "shop", "note"}
    assert max(about["costs"].values()) > 0.02
    for name, cost in about["costs"].items():
        frame.drop(columns=name).to_csv("without.csv", index=False)
        code, out, err = run("score", "m.model", "without.csv", "--json")
        assert code == 0
        assert json.loads(out)["accuracy"] == pytest.approx(whole - cost)
        assert f"{cost:.3g} without {name}" in err


def test_strict(run, folder):
    for command in ("predict", "score", "stress"):
        code, out, err = run(command, "m.model", "fewer.csv", "--strict")
        assert (code, out) == (3, "")
        assert (
            "2 of the 4 columns that the model needs are missing: age, city: add them, or leave --strict"
            in err
        )
        assert run(command, "m.model", "people.csv", "--strict")[0] == 0


def test_data_without_any_column_are_refused(run, folder):
    pd.DataFrame({"a": [1, 2], "bought": ["yes", "no"]}).to_csv("foreign.csv", index=False)
    code, _, err = run("predict", "m.model", "foreign.csv")
    assert code == 3
    assert "4 of the 4 columns" in err


def test_deleted_is_what_the_estimator_calls_deleted(run, tmp_path):
    """NaN for a number, and for all values of an empty category; the noise deletes whole columns."""
    frame = people(120).drop(columns=["note", "id", "spent"])
    frame.to_csv(tmp_path / "a.csv", index=False)
    fit = [
        "fit",
        tmp_path / "a.csv",
        "--target",
        "bought",
        "--categorical",
        "city,shop",
        "--out",
        tmp_path / "m",
    ]
    assert run(*fit, "--missing", "deleted", "--model", "logistic", "--noise", "0.3")[0] == 0
    age = frame["age"].to_numpy()
    parts, groups = [((age - np.nanmean(age)) / np.nanstd(age))[:, None]], [0]
    for number, name in enumerate(("city", "shop"), 1):
        values = sorted({v if isinstance(v, str) else str(int(v)) for v in frame[name].dropna()})
        cells = frame[name].map(lambda v: v if isinstance(v, str) else str(int(v)), na_action="ignore")
        hot = np.array([[float(cell == v) for v in values] for cell in cells])
        hot[frame[name].isna()] = np.nan
        parts.append(hot)
        groups += [number] * len(values)
    X = np.hstack(parts)
    oracle = DropoutLogisticRegression(noise=GroupDropout(groups, 0.3), missing="deleted").fit(
        X, frame["bought"]
    )
    out = table(run("predict", tmp_path / "m", tmp_path / "a.csv", "--scores")[1])
    assert_allclose(out["score"], oracle.decision_function(X), atol=1e-7)
    assert np.isnan(X).any(axis=1).sum() > 10


@pytest.mark.parametrize(
    "more",
    [
        ["--cv", "--C", "1", "--noise", "deletion:0.1,0.3"],
        ["--model", "mcf"],
        ["--model", "latent-svm", "--hidden", "2"],
        ["--noise", "gaussian:0.1"],
    ],
    ids=lambda more: " ".join(more[:2]),
)
def test_every_model_takes_missing_cells(run, tmp_path, more):
    people(120).to_csv(tmp_path / "a.csv", index=False)
    data = [tmp_path / "a.csv", "--target", "bought", "--drop", "spent,id"]
    code, _, err = run("fit", *data, "--missing", "deleted", "--out", tmp_path / "m", *more)
    assert code == 0, err
    assert run("score", tmp_path / "m", tmp_path / "a.csv")[0] == 0
    assert run("stress", tmp_path / "m", tmp_path / "a.csv", "--no-refit")[0] == 0
    if more[0] == "--cv":
        assert isinstance(modelfile.load(str(tmp_path / "m")).estimator.noise_, GroupDeletion)


@pytest.mark.parametrize(
    "more", [["--model", "logistic", "--noise", "0.1"], ["--cv", "--C", "1", "--noise", "0.0,0.3,0.9"]]
)
def test_conditional_is_what_the_estimator_calls_conditional(run, tmp_path, more):
    """NaN for a number, and for all values of an empty category, in a dense matrix."""
    frame = people(160).drop(columns=["note", "id", "spent"])
    frame.to_csv(tmp_path / "a.csv", index=False)
    fit = ["fit", tmp_path / "a.csv", "--target", "bought", "--categorical", "city,shop"]
    code, _, err = run(*fit, "--missing", "conditional", "--out", tmp_path / "m", *more)
    assert code == 0, err
    pipeline = marginout.load(tmp_path / "m")
    X, model = pipeline[:-1].transform(frame), pipeline[-1]
    assert np.isnan(X).any(axis=1).sum() > 10
    assert len(np.unique(np.isnan(X), axis=0)) <= 2**3  # a category dies as a whole
    alone = clone(model).fit(X, frame["bought"])
    out = table(run("predict", tmp_path / "m", tmp_path / "a.csv", "--scores")[1])
    assert_allclose(out["score"], alone.decision_function(X), atol=1e-7)
    deleted = clone(model).set_params(missing="deleted").fit(X, frame["bought"])
    assert np.abs(out["score"] - deleted.decision_function(X)).max() > 0.01
    frame.drop(columns="age").to_csv(tmp_path / "less.csv", index=False)
    whole = json.loads(run("score", tmp_path / "m", tmp_path / "a.csv", "--json")[1])["accuracy"]
    less = json.loads(run("score", tmp_path / "m", tmp_path / "less.csv", "--json")[1])["accuracy"]
    cost = json.loads(run("info", tmp_path / "m", "--json")[1])["costs"]["age"]
    assert whole - less == pytest.approx(cost)
    assert run("stress", tmp_path / "m", tmp_path / "a.csv", "--no-refit")[0] == 0


def test_a_matrix_with_nan(run, files, tmp_path):
    archive = np.load(files / "digits.npz")
    X = archive["X"].copy()
    X[::3, 5] = np.nan
    np.savez(tmp_path / "holes.npz", X=X, y=archive["y"])
    code, _, err = run("fit", tmp_path / "holes.npz", "--out", tmp_path / "m")
    assert code == 3
    assert "or fit with --missing deleted" in err
    assert run("fit", tmp_path / "holes.npz", "--out", tmp_path / "m", "--missing", "deleted")[0] == 0
    assert run("score", tmp_path / "m", tmp_path / "holes.npz")[0] == 0
    conditional = ["--missing", "conditional", "--out", tmp_path / "m"]
    assert run("fit", tmp_path / "holes.npz", *conditional)[0] == 0
    out = table(run("predict", tmp_path / "m", tmp_path / "holes.npz")[1])
    model = marginout.load(tmp_path / "m")[-1]
    assert_array_equal(out.iloc[:, 0], model.predict(X))


def test_costs_are_bounded(run, tmp_path):
    """Nothing is measured where there are too many columns; the warning still names what is missing."""
    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(1002)]
    frame = pd.DataFrame(rng.normal(size=(40, 1002)).round(2), columns=names)
    frame["y"] = np.where(frame["x0"] + frame["x1"] > 0, "a", "b")
    frame.to_csv(tmp_path / "wide.csv", index=False)
    frame.drop(columns="x7").to_csv(tmp_path / "less.csv", index=False)
    assert run("fit", tmp_path / "wide.csv", "--target", "y", "--out", tmp_path / "m")[0] == 0
    code, _, err = run("predict", tmp_path / "m", tmp_path / "less.csv")
    assert code == 0
    assert err.endswith("1 of the 1002 columns that the model needs are missing: x7.\n")
