"""`--model quantile`: quantiles as columns, their loss, and the share of the targets below each."""

import io
import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import QuantileRegressor

from marginout import load

LEVELS = [0.1, 0.5, 0.9]


@pytest.fixture(scope="module")
def waits(tmp_path_factory):
    """Waiting times whose spread grows with the load; rows to train on and others."""
    rng = np.random.default_rng(0)
    load_, staff = rng.uniform(0, 10, 900), rng.integers(1, 5, 900)
    wait = 5 + 2 * load_ - staff + (1 + load_) * rng.normal(size=900)
    frame = pd.DataFrame({"load": load_.round(3), "staff": staff, "wait": wait.round(3)})
    folder = tmp_path_factory.mktemp("waits")
    frame[:600].to_csv(folder / "train.csv", index=False)
    frame[600:].to_csv(folder / "new.csv", index=False)
    return folder


@pytest.fixture
def fitted(run, waits, tmp_path):
    def fit(*more):
        path = tmp_path / "waits.model"
        common = ["--target", "wait", "--model", "quantile", "--noise", "0", "--C", "10"]
        code, out, err = run("fit", waits / "train.csv", *common, *more, "--out", path)
        assert (code, err) == (0, ""), err
        return path, out

    return fit


def test_several_quantiles_are_columns(run, waits, fitted):
    path, out = fitted("--quantile", "0.1,0.5,0.9")
    assert "−pinball loss" in out
    code, out, err = run("predict", path, waits / "new.csv")
    assert (code, err) == (0, "")
    table, new = pd.read_csv(io.StringIO(out)), pd.read_csv(waits / "new.csv")
    assert list(table) == ["quantile 0.1", "quantile 0.5", "quantile 0.9"]
    assert_allclose(table, load(path).predict(new), atol=1e-12)
    train = pd.read_csv(waits / "train.csv")
    for k, level in enumerate(LEVELS):  # with so large a C the ridge hardly matters
        X = train[["load", "staff"]].to_numpy()
        peer = QuantileRegressor(quantile=level, alpha=0).fit(X, train["wait"])
        assert_allclose(table.iloc[:, k], peer.predict(new[["load", "staff"]].to_numpy()), atol=0.3)
    rows = run("predict", path, waits / "new.csv", "--json")[1].splitlines()
    assert json.loads(rows[3])["quantile 0.9"] == pytest.approx(table["quantile 0.9"][3])
    header = run("predict", path, waits / "new.csv", "--id", "staff")[1].splitlines()[0]
    assert header == "staff,quantile 0.1,quantile 0.5,quantile 0.9"
    assert "quantile 0.1, 0.5, 0.9" in run("info", path)[1]


def test_the_score_is_the_loss_and_the_shares_below(run, waits, fitted):
    path, _ = fitted("--quantile", "0.1,0.5,0.9")
    code, out, _ = run("score", path, waits / "new.csv", "--json")
    assert code == 0
    scores, new = json.loads(out), pd.read_csv(waits / "new.csv")
    error = new["wait"].to_numpy()[:, None] - load(path).predict(new)
    loss = np.where(error > 0, np.array(LEVELS) * error, (np.array(LEVELS) - 1) * error).mean()
    assert scores["pinball_loss"] == pytest.approx(loss)
    for k, level in enumerate(LEVELS):
        assert scores[f"share_below_{level:g}"] == pytest.approx((error[:, k] < 0).mean())
        assert scores[f"share_below_{level:g}"] == pytest.approx(level, abs=0.05)
    assert "share below 0.9" in run("score", path, waits / "new.csv")[1]


def test_one_quantile_is_a_prediction(run, waits, fitted):
    path, _ = fitted("--quantile", "0.9")
    table = pd.read_csv(io.StringIO(run("predict", path, waits / "new.csv")[1]))
    assert list(table) == ["prediction"]
    new = pd.read_csv(waits / "new.csv")
    assert np.mean(new["wait"] < table["prediction"]) == pytest.approx(0.9, abs=0.04)
    assert load(fitted()[0])[-1].quantile == 0.5


def test_stress_and_missing_columns_speak_of_its_score(run, waits, fitted, tmp_path):
    path, _ = fitted("--quantile", "0.1,0.9")
    code, out, err = run("stress", path, waits / "new.csv", "--out", tmp_path / "report.html", "--no-refit")
    assert (code, err) == (0, "")
    assert "−pinball loss of DropoutQuantileRegressor on 300 rows" in out
    assert "R²" not in out + (tmp_path / "report.html").read_text(encoding="utf-8")
    pd.read_csv(waits / "new.csv").drop(columns="staff").to_csv(tmp_path / "lost.csv", index=False)
    code, _, err = run("predict", path, tmp_path / "lost.csv")
    assert code == 0
    assert "On training data the score fell by" in err


def test_the_noise_is_chosen_by_folds(run, waits, tmp_path):
    path = tmp_path / "cv.model"
    more = ["--cv", "--folds", "2", "--C", "1,10", "--noise", "0,0.3", "--quantile", "0.1,0.9"]
    fit = ["fit", waits / "train.csv", "--target", "wait", "--model", "quantile", *more, "--out", path]
    assert run(*fit)[0] == 0
    assert load(path)[-1].noise_.rate == 0.0
    assert list(pd.read_csv(io.StringIO(run("predict", path, waits / "new.csv")[1]))) == [
        "quantile 0.1",
        "quantile 0.9",
    ]


def test_targets_of_few_values_are_numbers_too(run, waits, tmp_path):
    frame = pd.read_csv(waits / "train.csv").assign(wait=lambda f: (f["wait"] > 10).astype(int))
    frame.to_csv(tmp_path / "few.csv", index=False)
    out = ["--out", tmp_path / "m.model", "--json"]
    code, said, _ = run("fit", tmp_path / "few.csv", "--target", "wait", "--model", "quantile", *out)
    assert code == 0
    assert json.loads(said)["task"] == "regression"
