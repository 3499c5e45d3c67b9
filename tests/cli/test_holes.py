"""Missing cells: the score to expect with them, rates that the model was not trained for, CI pipelines."""

import io
import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import StratifiedKFold

import marginout
from marginout.cli import main
from marginout.robustness import deletion_curve

from .conftest import people

TABLE = ["--target", "bought", "--drop", "spent,id", "--categorical", "city,shop"]
NAMES = ["age", "city", "shop", "note"]


@pytest.fixture(scope="module", params=["imputed", "deleted"])
def folder(request, tmp_path_factory):
    """Tables with a tenth of the cells missing, and one where ages are rare; a model with expected scores."""
    folder = tmp_path_factory.mktemp(request.param)
    rng = np.random.default_rng(0)
    people(600).to_csv(folder / "train.csv", index=False)
    fresh = people(400, 1)
    fresh.to_csv(folder / "fresh.csv", index=False)
    fresh.assign(age=fresh["age"].where(rng.random(400) < 0.3)).to_csv(folder / "rare.csv", index=False)
    cwd = pytest.MonkeyPatch()
    cwd.chdir(folder)
    more = ["--missing", request.param, "--noise", "deletion:0.1", "--expected-score", "--out", "m.model"]
    assert main(["fit", "train.csv", *TABLE, *more, "--quiet"]) == 0
    yield folder
    cwd.undo()


def test_expected_scores_are_those_of_folds_counted_by_hand(run, folder):
    about = json.loads(run("info", "m.model", "--json")[1])
    found = about["expected"]
    assert found["score"] == "accuracy"
    assert_allclose(found["shares"], [0, 0.25, 0.5, 0.75, 1], atol=1e-12)
    frame = pd.read_csv("train.csv")
    own = frame[NAMES].isna()
    rng = np.random.default_rng(1)
    by_hand = np.zeros((20, 5))
    rows = own.mean(axis=1) <= 0.5
    right = []
    for train, test in StratifiedKFold(5).split(frame, frame["bought"]):
        frame.iloc[train].to_csv("part.csv", index=False)
        options = ["--missing", about["missing"], "--noise", "deletion:0.1", "--out", "part.model"]
        assert run("fit", "part.csv", *TABLE, *options, "--quiet")[0] == 0
        fitted, held = marginout.load("part.model"), frame.iloc[[i for i in test if rows[i]]]
        for _ in range(3):
            holes = held[NAMES].isna().to_numpy()
            for row in holes:
                row[rng.permutation(np.flatnonzero(~row))[: 2 - row.sum()]] = True
            right.append(fitted.predict(held.assign(**held[NAMES].mask(holes))) == held["bought"])
    by_hand = np.mean(np.concatenate(right))
    assert found["mean"][2] == pytest.approx(by_hand, abs=4 * np.sqrt(0.25 / rows.sum() / 2))
    assert (
        f"expected accuracy  {found['mean'][0]:.4f} with all cells, {found['mean'][2]:.4f}"
        in run("info", "m.model")[1]
    )


def test_predict_adds_the_share_and_the_score(run, folder):
    about = json.loads(run("info", "m.model", "--json")[1])["expected"]
    out = pd.read_csv(io.StringIO(run("predict", "m.model", "rare.csv", "--expected-score", "--scores")[1]))
    assert list(out.columns) == ["prediction", "score", "missing", "expected score"]
    share = pd.read_csv("rare.csv")[NAMES].isna().mean(axis=1)
    assert_allclose(out["missing"], share)
    assert_allclose(out["expected score"], np.interp(share, about["shares"], about["mean"]))
    lines = run("predict", "m.model", "rare.csv", "--expected-score", "--json")[1].splitlines()
    assert json.loads(lines[0])["missing"] == share[0]
    pd.read_csv("rare.csv").drop(columns=["age", "note"]).to_csv("fewer.csv", index=False)
    out = pd.read_csv(io.StringIO(run("predict", "m.model", "fewer.csv", "--expected-score")[1]))
    assert_allclose(out["missing"], pd.read_csv("rare.csv")[["city", "shop"]].isna().mean(axis=1) / 2 + 0.5)


@pytest.mark.parametrize("command", [["score"], ["stress", "--no-refit"]])
def test_more_missing_cells_than_trained_for(run, folder, command):
    name, *more = command
    _, out, err = run(name, "m.model", "rare.csv", "--json", *more)
    rare, trained = pd.read_csv("rare.csv"), pd.read_csv("train.csv")
    missing = json.loads(out)["missing"]
    assert set(missing) == set(NAMES)
    for column in NAMES:
        assert missing[column]["share"] == pytest.approx(rare[column].isna().mean())
        deletes = 0 if column == "note" else 0.1  # the words of a text die one by one
        expected = 1 - (1 - trained[column].isna().mean()) * (1 - deletes)
        assert missing[column]["trained_for"] == pytest.approx(expected)
    age = missing["age"]
    assert err.count("\n") == 1
    assert f"trained for: age {age['share']:.0%} (trained for {age['trained_for']:.0%}): fit on rows" in err
    assert run(name, "m.model", "rare.csv", "--quiet", *more)[2] == ""
    assert run(name, "m.model", "fresh.csv", *more, "--json")[2] == ""
    assert run(name, "m.model", "rare.csv", *more)[0] == 0


def test_few_rows_and_little_more_are_no_reason_to_warn(run, folder):
    frame = pd.read_csv("fresh.csv")
    frame.head(2).assign(age=None).to_csv("two.csv", index=False)
    assert run("score", "m.model", "two.csv")[2] == ""
    frame.assign(age=frame["age"].where(np.arange(400) % 5 > 0)).to_csv("fifth.csv", index=False)
    err = run("score", "m.model", "fifth.csv")[2]
    assert ("trained for: age" in err) == (frame["age"].where(np.arange(400) % 5 > 0).isna().mean() > 0.25)


def test_nan_in_a_matrix(run, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 10))
    y = (X.sum(axis=1) > 0).astype(int)
    np.savez(tmp_path / "whole.npz", X=X, y=y)
    np.savez(tmp_path / "holes.npz", X=np.where(rng.random(X.shape) < 0.4, np.nan, X), y=y)
    fit = ["fit", tmp_path / "whole.npz", "--missing", "deleted", "--out", tmp_path / "m"]
    for noise, warned in (("gaussian:0.1", True), ("0.5", False)):
        assert run(*fit, "--noise", noise)[0] == 0
        err = run("score", tmp_path / "m", tmp_path / "holes.npz")[2]
        assert ("all features 40% (trained for 0%)" in err) == warned
        assert run("score", tmp_path / "m", tmp_path / "whole.npz")[2] == ""


def test_a_score_below_the_one_asked_for_has_an_exit_code_of_its_own(run, folder):
    stress = ["stress", "m.model", "fresh.csv", "--no-refit"]
    out = json.loads(run(*stress, "--json")[1])
    at = dict(zip(out["curve"]["rate"], out["curve"]["mean"], strict=True))
    assert out["fail_below"] is None
    for share, more in ((0.5, []), (0.2, ["--at", "0.2"])):
        code, text, err = run(*stress, *more, "--fail-below", at[share] - 1e-6, "--json")
        assert (code, err) == (0, "")
        assert json.loads(text)["fail_below"] == {"at": share, "score": at[share], "least": at[share] - 1e-6}
        code, text, err = run(*stress, *more, "--fail-below", at[share] + 0.01, "--out", "report.html")
        assert code == 7
        assert "features it relies on most" in text
        assert "</html>" in (folder / "report.html").read_text(encoding="utf-8")
        said = f"accuracy is {at[share]:.4g} with {share:.0%} of the features deleted, below --fail-below"
        assert said in err
        (folder / "report.html").unlink()
    pipeline, frame = marginout.load("m.model"), pd.read_csv("fresh.csv")
    whole = deletion_curve(pipeline[-1], pipeline[:-1].transform(frame), frame["bought"], [0.0], 1)
    code, out, _ = run(*stress, "--at", "0", "--fail-below", "0.99", "--json")
    assert (code, json.loads(out)["fail_below"]["score"]) == (7, pytest.approx(whole.mean[0]))


def test_what_is_refused(run, files, tmp_path):
    out = tmp_path / "m"
    code, _, err = run("fit", files / "digits.npz", "--expected-score", "--out", out)
    assert (code, out.exists()) == (2, False)
    assert "--expected-score needs a table, whose cells can be missing: leave it out" in err
    code, _, err = run("predict", files / "people.model", files / "people.csv", "--expected-score")
    assert code == 2
    assert "fit with --expected-score, or leave it out" in err
    stress = ["stress", files / "people.model", files / "people.csv"]
    for more, said in (
        (["--at", "0.5"], "--at needs --fail-below"),
        (["--fail-below", "much"], "'much' must be a number"),
        (["--fail-below", "nan"], "'nan' must be a number"),
        (["--fail-below", "0.5", "--at", "1.5"], "'1.5' must be a number from 0 to 1"),
    ):
        code, _, err = run(*stress, *more)
        assert code == 2
        assert said in err
