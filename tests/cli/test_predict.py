"""What `predict` gives, what accuracies are compared with, and what a terminal shows meanwhile."""

import io
import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from marginout import load

from .conftest import people


@pytest.fixture(scope="module")
def logistic(files):
    from marginout.cli import main

    path = files / "logistic.model"
    data = [str(files / "people.csv"), "--target", "bought", "--drop", "spent,id", "--quiet"]
    assert main(["fit", *data, "--model", "logistic", "--noise", "0.1", "--out", str(path)]) == 0
    return path


def test_probabilities(run, files, logistic, tmp_path):
    code, out, err = run("predict", logistic, files / "people.csv", "--probabilities", "--scores")
    assert (code, err) == (0, "")
    table = pd.read_csv(io.StringIO(out))
    assert list(table) == ["prediction", "score", "probability no", "probability yes"]
    python = load(logistic).predict_proba(pd.read_csv(files / "people.csv"))
    assert_allclose(table[["probability no", "probability yes"]], python, atol=1e-12)
    code, _, err = run("predict", files / "people.model", files / "people.csv", "--probabilities")
    assert code == 2
    assert "--model logistic, or use --scores" in err
    for model in ("mcf", "latent-logistic"):
        path = tmp_path / model
        assert run("fit", files / "digits.npz", "--model", model, "--out", path, "--hidden", "2")[0] == 0
        rows = run("predict", path, files / "digits.npz", "--probabilities", "--json")[1].splitlines()
        first = json.loads(rows[0])
        assert sum(first[f"probability {k}"] for k in range(4)) == pytest.approx(1)


def test_an_id_is_kept_as_it_is_written(run, files, logistic, tmp_path):
    frame = people(240).assign(code=[f"{i:03d}" for i in range(240)])
    frame.loc[5, "code"] = None
    frame.to_csv(tmp_path / "coded.csv", index=False)
    code, out, err = run("predict", logistic, tmp_path / "coded.csv", "--id", "code")
    assert (code, err) == (0, "")
    assert out.splitlines()[:2] == ["code,prediction", f"000,{load(logistic).predict(frame)[0]}"]
    assert out.splitlines()[6].startswith(",")
    out = run("predict", logistic, tmp_path / "coded.csv", "--id", "code", "--json")[1]
    assert [json.loads(line)["code"] for line in out.splitlines()][3:6] == ["003", "004", ""]
    # A column that the model learns from is kept all the same.
    out = run("predict", logistic, tmp_path / "coded.csv", "--id", "age")[1]
    assert_allclose(pd.read_csv(io.StringIO(out))["age"], frame["age"])
    code, _, err = run("predict", logistic, files / "people.csv", "--id", "code")
    assert code == 3
    assert "--id code: there is no such column; the columns are id, age" in err
    for data in ("digits.npz", "digits.svmlight"):
        code, _, err = run("predict", files / "digits.model", files / data, "--id", "code")
        assert code == 2
        assert "leave it out" in err


def test_unseen_categories_are_counted_and_named(run, files, logistic, tmp_path):
    frame = people(240)
    frame.loc[[3, 7], "city"] = "Lima"
    frame.loc[[7, 9], "shop"] = 99
    frame.to_csv(tmp_path / "new.csv", index=False)
    kinds = ["--categorical", "city,shop"]
    model = tmp_path / "m"
    assert run("fit", files / "people.csv", "--target", "bought", *kinds, "--out", model)[0] == 0
    for command in ("predict", "score", "stress"):
        code, _, err = run(command, model, tmp_path / "new.csv")
        assert code == 0
        said = "3 of 240 rows have categories that the model has not been trained on"
        assert [said in line and "city, shop" in line for line in err.splitlines()] == [True]
    assert run("predict", model, files / "people.csv")[2] == ""
    assert run("predict", model, tmp_path / "new.csv", "--quiet")[2] == ""


def test_json_is_what_the_help_says(run, files, logistic):
    assert "print JSON lines: one object per row" in run("predict", "--help")[1]
    rows = run("predict", logistic, files / "people.csv", "--json")[1].splitlines()
    assert len(rows) == 240
    assert all(set(json.loads(row)) == {"prediction"} for row in rows)
    model, data = files / "digits.model", files / "digits.npz"
    commands = {"score": [model, data], "info": [model], "stress": [model, data, "--rows", "20"]}
    commands["compare"] = [data, "--where", "part=1", "--rows", "60", "--folds", "2"]
    for command, more in commands.items():
        assert "one JSON object for machines" in run(command, "--help")[1]
        code, out, _ = run(command, *more, "--json")
        assert code == 0
        found = json.loads(out)
        assert isinstance(found, dict)
    assert 0.25 <= found["largest_class_share"] < 0.5  # of four classes


def test_every_accuracy_has_the_share_of_the_largest_class_beside_it(run, tmp_path):
    frame = people(80)
    frame.to_csv(tmp_path / "few.csv", index=False)
    share = max(np.mean(frame["bought"] == name) for name in ("yes", "no"))
    assert 0.5 < share < 1
    data = [tmp_path / "few.csv", "--target", "bought", "--drop", "spent,id,note"]
    path = tmp_path / "m"
    code, out, _ = run("fit", *data, "--cv", "--C", "1", "--noise", "0,0.1", "--out", path)
    assert code == 0
    assert out.count("accuracy ") == out.count(f"(the largest class has {share:.4f} of the rows)") == 2
    assert json.loads(run("fit", *data, "--out", path, "--json")[1])["largest_class_share"] == share
    assert f"largest class  {share:.4f} of the rows" in run("info", path)[1]
    assert f"largest class share  {share:.4f}" in run("score", path, data[0])[1]
    assert json.loads(run("score", path, data[0], "--json")[1])["largest_class_share"] == share
    more = ["--folds", "2", "--rows", "0", "--out", tmp_path / "report.html"]
    shown = run("compare", *data, *more)[1]
    row = next(line for line in shown.splitlines() if line.startswith("always the largest class"))
    assert row.count(f"{100 * share:.1f} %") == 4
    assert "always the largest class" in (tmp_path / "report.html").read_text()
    spent = [data[0], "--target", "spent", "--drop", "bought,id", "--noise", "0.05"]
    out = run("fit", *spent, "--out", path, "--json")[1]
    assert json.loads(out)["largest_class_share"] is None


def test_the_command_says_that_a_model_has_collapsed(run, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(400, 8)), columns=list("abcdefgh")).round(3)
    frame["y"] = np.where(0.4 * (frame.a + frame.b + frame.c) + rng.normal(size=400) > 0.8, "yes", "no")
    frame.to_csv(tmp_path / "survey.csv", index=False)
    data = ["fit", tmp_path / "survey.csv", "--target", "y", "--out", tmp_path / "m"]
    fit = [*data, "--loss", "hinge", "--noise"]
    code, _, err = run(*fit, "0.5")
    assert code == 0
    assert err.startswith("marginout: note: The model has collapsed")
    assert "add --balanced" in err
    assert "lower --noise dropout:0.5," in err
    assert run(*fit, "dropout:0.5")[:3:2] == (0, err)
    assert run(*fit, "0.5", "--balanced")[2] == run(*data)[2] == ""


def on_terminal(*argv):
    """Standard output, and what stderr shows on a terminal."""
    import pty

    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "marginout", *map(str, argv)], stdout=subprocess.PIPE, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # Linux's way to say that nobody writes any more
            break
        if not part:
            break
        shown += part
    os.close(ours)
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 0, shown
    return out.decode(), shown.decode()


def test_a_terminal_shows_a_bar_and_a_pipe_nothing(run, files, tmp_path):
    grid = ["--cv", "--C", "0.1", "--noise", "0.2", "--folds", "2", "--where", "part=1"]
    fit = ["fit", files / "digits.npz", *grid, "--out", tmp_path / "m"]
    _, shown = on_terminal(*fit)
    lines = [line for line in shown.replace("\r", "\n").splitlines() if "cross-validating" in line]
    assert any("░" in line and "%" in line and " left" in line for line in lines)
    assert "░" not in on_terminal(*fit, "--quiet")[1]
    assert "░" not in run(*fit)[2]
