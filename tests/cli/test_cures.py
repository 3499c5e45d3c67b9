"""Every message names a cure, and the cure works."""

import numpy as np
import pandas as pd
import pytest

from marginout.cli import main

from .conftest import people

TABLE = ["people.csv", "--target", "bought", "--drop", "spent,id,note", "--quiet"]
SPENT = ["people.csv", "--target", "spent", "--drop", "bought,id,note", "--noise", "0.1"]
FEW = ["few.csv", "--target", "bought", "--numeric", "age"]
OUT = ["--out", "new.model"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data with something wrong in each, and models."""
    folder = tmp_path_factory.mktemp("cures")
    frame = people(80)
    frame.to_csv(folder / "people.csv", index=False)
    frame.to_csv(folder / "people.txt", index=False)
    frame.assign(city="Zürich").to_csv(folder / "latin.csv", index=False, encoding="latin-1")
    frame.assign(bought=frame["bought"].where(frame.index > 4)).to_csv(folder / "few.csv", index=False)
    frame.assign(many=np.arange(80)).to_csv(folder / "many.csv", index=False)
    frame.assign(age=[*frame["age"][:-1], "old"]).to_csv(folder / "words.csv", index=False)
    X, z = np.abs(np.random.default_rng(0).normal(size=(60, 5))), np.arange(60) % 2
    np.savez(folder / "other.npz", X=X + z[:, None], z=z, part=np.arange(60) // 30)
    lines = [f"{k} 1:{x[0]:.3f} 2:{x[1]:.3f}" for k, x in zip(z, X + z[:, None], strict=True)]
    (folder / "rows.svmlight").write_text("\n".join(lines))
    np.savez(folder / "gaps.npz", X=X, y=np.where(np.arange(60) == 3, np.nan, z))
    cwd = pytest.MonkeyPatch()
    cwd.chdir(folder)
    assert main(["fit", *TABLE, "--out", "table.model"]) == 0
    assert main(["fit", *SPENT, "--quiet", "--out", "spent.model"]) == 0
    assert main(["fit", "other.npz", "--target", "z", "--quiet", "--out", "matrix.model"]) == 0
    yield folder
    cwd.undo()


#: Arguments, the exit code, what is said, and the arguments with the cure applied.
ERRORS = {
    "no target": (["fit", "people.csv", *OUT], 2, "needs --target", ["fit", *TABLE, *OUT]),
    "unknown target": (
        ["fit", "people.csv", "--target", "sold", *OUT],
        3,
        "the columns are id, age, city, shop, note, bought",
        ["fit", "people.csv", "--target", "bought", *OUT],
    ),
    "unknown format": (
        ["fit", "people.txt", *TABLE[1:], *OUT],
        2,
        "add --format",
        ["fit", "people.txt", *TABLE[1:], *OUT, "--format", "csv"],
    ),
    "encoding": (
        ["fit", "latin.csv", *TABLE[1:], *OUT],
        3,
        "name its --encoding, as in latin-1",
        ["fit", "latin.csv", *TABLE[1:], *OUT, "--encoding", "latin-1"],
    ),
    "kind of noise": (
        ["fit", *TABLE, *OUT, "--noise", "fog:1"],
        2,
        "the kinds are dropout, deletion",
        ["fit", *TABLE, *OUT, "--noise", "deletion:1e-1"],
    ),
    "the noise that the data bear, mcf": (
        ["fit", *TABLE, *OUT, "--model", "mcf", "--noise", "auto"],
        2,
        "as in --noise 0.3",
        ["fit", *TABLE, *OUT, "--model", "mcf", "--noise", "0.3"],
    ),
    "the noise that the data bear, deleted": (
        ["fit", *TABLE, *OUT, "--missing", "deleted", "--noise", "auto"],
        2,
        "as in --noise 0.3",
        ["fit", *TABLE, *OUT, "--missing", "deleted", "--noise", "0.3"],
    ),
    "texts are not conditional": (
        ["fit", "people.csv", "--target", "bought", *OUT, "--missing", "conditional"],
        2,
        "leave them out with --drop",
        ["fit", "people.csv", "--target", "bought", *OUT, "--missing", "conditional", "--drop", "note"],
    ),
    "sparse matrices are not conditional": (
        ["fit", "rows.svmlight", *OUT, "--missing", "conditional"],
        2,
        "choose --missing deleted",
        ["fit", "rows.svmlight", *OUT, "--missing", "deleted"],
    ),
    "models that are not conditional": (
        ["fit", *TABLE, *OUT, "--model", "mcf", "--missing", "conditional"],
        2,
        "choose svm, logistic or quantile",
        ["fit", *TABLE, *OUT, "--model", "mcf", "--missing", "deleted"],
    ),
    "value of noise": (
        ["fit", *TABLE, *OUT, "--noise", "2"],
        2,
        "as in --noise deletion:0.5",
        ["fit", *TABLE, *OUT, "--noise", "deletion:0.5"],
    ),
    "several noises": (
        ["fit", *TABLE, *OUT, "--noise", "0.1,0.2"],
        2,
        "add --cv",
        ["fit", *TABLE, *OUT, "--noise", "0.1,0.2", "--cv", "--C", "1"],
    ),
    "several C": (
        ["fit", *TABLE, *OUT, "--C", "1,2"],
        2,
        "add --cv",
        ["fit", *TABLE, *OUT, "--C", "1,2", "--cv", "--noise", "0.1"],
    ),
    "a search without one": (
        ["fit", *TABLE, *OUT, "--model", "mcf", "--cv"],
        2,
        "leave it out, or choose svm",
        ["fit", *TABLE, *OUT, "--model", "mcf"],
    ),
    "expectation": (
        ["fit", *TABLE, *OUT, "--model", "mcf", "--expectation", "gaussian"],
        2,
        "leave it out",
        ["fit", *TABLE, *OUT, "--model", "mcf"],
    ),
    "loss": (
        ["fit", *TABLE, *OUT, "--model", "logistic", "--loss", "squared_hinge"],
        2,
        "leave it out",
        ["fit", *TABLE, *OUT, "--model", "svm", "--loss", "squared_hinge"],
    ),
    "logistic regression of numbers": (
        ["fit", *SPENT, *OUT, "--model", "logistic"],
        2,
        "choose --model svm",
        ["fit", *SPENT, *OUT, "--model", "svm"],
    ),
    "quantiles of another model": (
        ["fit", *SPENT, *OUT, "--quantile", "0.9"],
        2,
        "add --model quantile",
        ["fit", *SPENT, *OUT, "--quantile", "0.9", "--model", "quantile"],
    ),
    "quantiles of classes": (
        ["fit", *SPENT, *OUT, "--model", "quantile", "--task", "classification"],
        2,
        "leave --task out",
        ["fit", *SPENT, *OUT, "--model", "quantile"],
    ),
    "a quantile is a share": (
        ["fit", *SPENT, *OUT, "--model", "quantile", "--quantile", "0.1,90"],
        2,
        "must be a number between 0 and 1",
        ["fit", *SPENT, *OUT, "--model", "quantile", "--quantile", "0.1,0.9"],
    ),
    "balanced": (["fit", *SPENT, *OUT, "--balanced"], 2, "leave it out", ["fit", *SPENT, *OUT]),
    "epsilon": (["fit", *TABLE, *OUT, "--epsilon", "1"], 2, "leave it out", ["fit", *TABLE, *OUT]),
    "scale": (["fit", *TABLE, *OUT, "--scale"], 2, "leave it out", ["fit", *TABLE, *OUT]),
    "regression of words": (
        ["fit", *TABLE, *OUT, "--task", "regression"],
        3,
        "leave --task out",
        ["fit", *TABLE, *OUT],
    ),
    "many classes": (
        ["fit", "many.csv", "--target", "many", "--numeric", "age", *OUT, "--task", "classification"],
        3,
        "set --task regression",
        ["fit", "many.csv", "--target", "many", "--numeric", "age", *OUT, "--task", "regression"],
    ),
    "folds": (
        ["fit", *TABLE, *OUT, "--cv", "--folds", "70", "--C", "1", "--noise", "0.1"],
        3,
        "lower --folds",
        ["fit", *TABLE, *OUT, "--cv", "--folds", "3", "--C", "1", "--noise", "0.1"],
    ),
    "folds of compare": (
        ["compare", *TABLE, "--folds", "70"],
        3,
        "lower --folds",
        ["compare", *TABLE, "--folds", "2", "--rows", "40"],
    ),
    "a word among numbers": (
        ["fit", "words.csv", "--target", "bought", "--numeric", "age", *OUT],
        3,
        "or use --categorical",
        ["fit", "words.csv", "--target", "bought", "--categorical", "age", *OUT],
    ),
    "negative counts": (
        ["fit", *TABLE, *OUT, "--noise", "poisson"],
        3,
        "choose another noise",
        ["fit", *TABLE, *OUT, "--noise", "gaussian:0.1"],
    ),
    "where": (
        ["fit", *TABLE, *OUT, "--where", "city"],
        2,
        "must be COL=VALUE",
        ["fit", *TABLE, *OUT, "--where", "city=Rome"],
    ),
    "where of an unknown column": (
        ["fit", *TABLE, *OUT, "--where", "town=Rome"],
        3,
        "the columns are id, age, city",
        ["fit", *TABLE, *OUT, "--where", "city=Rome"],
    ),
    "where of an unknown array": (
        ["fit", "other.npz", "--target", "z", "--where", "a=1", *OUT],
        3,
        "those there are: z, part",
        ["fit", "other.npz", "--target", "z", "--where", "part=1", *OUT],
    ),
    "where of an unknown value": (
        ["fit", *TABLE, *OUT, "--where", "city=Nowhere"],
        3,
        "name values that the columns hold",
        ["fit", *TABLE, *OUT, "--where", "city=Oslo"],
    ),
    "nothing left": (
        ["fit", "people.csv", "--target", "bought", "--drop", "spent,id,age,city,shop,note", *OUT],
        3,
        "name some, as in --text COL",
        ["fit", "people.csv", "--target", "bought", "--text", "note", *OUT],
    ),
    "no target in npz": (
        ["fit", "other.npz", *OUT],
        3,
        "name its array with --target",
        ["fit", "other.npz", *OUT, "--target", "z"],
    ),
    "columns of npz": (
        ["fit", "other.npz", "--target", "z", "--text", "a", *OUT],
        2,
        "leave them out",
        ["fit", "other.npz", "--target", "z", *OUT],
    ),
    "where in svmlight": (
        ["fit", "rows.svmlight", "--where", "a=1", *OUT],
        2,
        "leave it out",
        ["fit", "rows.svmlight", *OUT],
    ),
    "missing target, fit": (
        ["fit", *FEW, *OUT],
        3,
        "add --drop-unlabelled",
        ["fit", *FEW, *OUT, "--drop-unlabelled"],
    ),
    "missing target, npz": (
        ["fit", "gaps.npz", *OUT],
        3,
        "add --drop-unlabelled",
        ["fit", "gaps.npz", *OUT, "--drop-unlabelled"],
    ),
    "missing target, score": (
        ["score", "table.model", "few.csv"],
        3,
        "add --drop-unlabelled",
        ["score", "table.model", "few.csv", "--drop-unlabelled"],
    ),
    "missing target, stress": (
        ["stress", "table.model", "few.csv", "--no-refit"],
        3,
        "add --drop-unlabelled",
        ["stress", "table.model", "few.csv", "--no-refit", "--drop-unlabelled"],
    ),
    "another target to score": (
        ["score", "table.model", "people.csv", "--target", "sold"],
        3,
        "name it with --target",
        ["score", "table.model", "people.csv", "--target", "bought"],
    ),
    "scores of a regression": (
        ["predict", "spent.model", "people.csv", "--scores"],
        2,
        "leave it out",
        ["predict", "spent.model", "people.csv"],
    ),
    "probabilities of an SVM": (
        ["predict", "table.model", "people.csv", "--probabilities"],
        2,
        "use --scores",
        ["predict", "table.model", "people.csv", "--scores"],
    ),
    "a model of a matrix": (
        ["predict", "matrix.model", "people.csv"],
        3,
        "give it the same kind",
        ["predict", "matrix.model", "other.npz"],
    ),
    "train-where alone": (
        ["stress", "table.model", "people.csv", "--train-where", "city=Rome"],
        2,
        "leave it out",
        ["stress", "table.model", "people.csv", "--no-refit"],
    ),
    "training data twice": (
        ["stress", "table.model", "people.csv", "--train", "people.csv"],
        2,
        "leave it out",
        ["stress", "table.model", "people.csv", "--no-refit"],
    ),
    "no folder": (
        ["fit", *TABLE, "--out", "none/new.model"],
        5,
        "create it first",
        ["fit", *TABLE, "--out", "new.model"],
    ),
    "over its own data": (
        ["fit", *TABLE, "--out", "people.csv"],
        5,
        "name another file",
        ["fit", *TABLE, "--out", "new.model"],
    ),
    "a model on standard output": (
        ["fit", *TABLE, "--out", "-"],
        2,
        "as in --out my.model",
        ["fit", *TABLE, "--out", "my.model"],
    ),
    "no such encoding": (
        ["fit", *TABLE, *OUT, "--encoding", "klingon"],
        2,
        "name one that Python knows",
        ["fit", *TABLE, *OUT, "--encoding", "utf-8"],
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_the_cure_of_an_error_works(run, folder, name):
    argv, code, said, cured = ERRORS[name]
    found, _, err = run(*argv)
    assert found == code, err
    assert said in err
    found, _, err = run(*cured)
    assert found == 0, err


#: Arguments, what is noted, and the arguments with the cure applied, of which nothing of the kind is noted.
NOTES = {
    "iterations": (
        [*SPENT, "--max-iter", "2"],
        "raise --max-iter",
        [*SPENT, "--max-iter", "1000"],
    ),
    "tolerance": ([*SPENT, "--max-iter", "2"], "raise --tol", [*SPENT, "--max-iter", "2", "--tol", "10"]),
    "iterations of a search": (
        [*SPENT, "--cv", "--C", "0.1,1", "--max-iter", "1"],
        "raise --max-iter",
        [*SPENT, "--cv", "--C", "0.1,1"],
    ),
    "width of the tube": ([*SPENT, "--epsilon", "9"], "lower --epsilon=9", [*SPENT, "--epsilon", "0.1"]),
    "small C": ([*SPENT, "--C", "1e-7"], "raise --C=1e-07", [*SPENT, "--C", "1"]),
    "edge of the grid": (
        [*SPENT, "--cv", "--C", "0.0001,0.001"],
        "The best C=0.001 is the largest of the grid: a larger one may do better. Extend --C that way",
        [*SPENT, "--cv", "--C", "0.0001,0.001,0.01"],
    ),
    "edge of the noises": (
        [*SPENT[:-1], "0.7,0.8", "--cv", "--C", "1"],
        "Extend --noise that way",
        [*SPENT[:-1], "0,0.1,0.2,0.7,0.8", "--cv", "--C", "1"],
    ),
}


@pytest.mark.parametrize("name", NOTES)
def test_the_cure_of_a_note_works(run, folder, name):
    argv, said, cured = NOTES[name]
    code, _, err = run("fit", *argv, *OUT)
    assert code == 0
    assert said in err
    code, _, err = run("fit", *cured, *OUT)
    assert code == 0
    assert said not in err


def test_rows_without_a_target_are_left_out_as_python_would(run, folder):
    frame = people(80)
    run("fit", *FEW, *OUT, "--drop-unlabelled")
    code, _, err = run("fit", *FEW, *OUT, "--drop-unlabelled", "--json")
    assert code == 0
    code, _, err = run("fit", *FEW, *OUT, "--drop-unlabelled")
    assert "5 of 80 rows have no target 'bought' and are left out" in err
    one = run("predict", "new.model", "people.csv", "--scores")[1]
    frame[5:].to_csv("rest.csv", index=False)
    assert run("fit", "rest.csv", *FEW[1:], *OUT)[0] == 0
    assert run("predict", "new.model", "people.csv", "--scores")[1] == one
    frame.assign(bought=pd.NA).to_csv("none.csv", index=False)
    code, _, err = run("fit", "none.csv", *FEW[1:], *OUT, "--drop-unlabelled")
    assert code == 3
    assert "name another --target" in err


@pytest.mark.parametrize(("cell", "said"), [("u{0} v{0} w{0}", "no word in two rows"), (" ", "has no word")])
def test_a_text_without_words_can_be_dropped(run, tmp_path, cell, said):
    frame = people(120).assign(note=[cell.format(i) for i in range(120)])
    frame.to_csv(tmp_path / "a.csv", index=False)
    fit = ["fit", tmp_path / "a.csv", "--target", "bought", "--out", tmp_path / "m"]
    code, _, err = run(*fit, "--text", "note")
    assert (code, f"{said}: name it with --drop" in err) == (3, True), err
    assert run(*fit, "--drop", "note")[0] == 0


def test_predict_advises_nothing_that_it_cannot_do(run, folder):
    """What a column is was settled by `fit`."""
    code, _, err = run("predict", "table.model", "words.csv")
    assert code == 3
    assert "'old' is no number: write one, or leave it empty" in err
    assert "--categorical" not in err
    code, _, err = run("predict", "table.model", "people.csv", "--categorical", "age")
    assert code == 2
    assert "unrecognized arguments" in err


@pytest.mark.parametrize("wrong", [["--noise", "fog:1"], ["--C", "1,2"], ["--model", "mcf", "--cv"]])
def test_arguments_are_checked_before_the_data_are_read(run, folder, wrong):
    code, _, err = run("fit", "nothing.csv", "--target", "y", *OUT, *wrong)
    assert code == 2
    assert "no such file" not in err
