"""Columns of every kind, read by the command and by Python."""

import io
import json
import pickle
import zipfile

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import marginout
from marginout.cli import modelfile


def every_kind(n=240, seed=0):
    """Numbers, bools, number-coded categories, gaps in each, texts, dates; a target of two classes."""
    rng = np.random.default_rng(seed)
    size = rng.normal(3, 2, n).round(2)
    count = rng.integers(0, 60, n)
    member = rng.random(n) < 0.5
    ward = rng.integers(1, 7, n)
    words = np.array(["good", "bad", "fine", "poor", "new", "old", "red", "wide"])
    picks = rng.integers(0, 8, (n, 5))
    score = (size - 3) + 0.05 * (count - 30) + member + 0.4 * (ward == 3) + (picks == 0).sum(1)
    frame = pd.DataFrame(
        {
            "size": size,
            "count": count,
            "member": member,
            "ward": ward.astype(float),
            "city": rng.choice(["Rome", "Oslo", "NA", "Ürümqi"], n),
            "note": [" ".join(words[row]) for row in picks],
            "seen": pd.Timestamp("2021-03-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
            "y": np.where(score + rng.normal(0, 0.7, n) > np.median(score), "yes", "no"),
        }
    )
    for name in ("size", "ward", "city", "note", "seen"):
        frame[name] = frame[name].where(rng.random(n) > 0.15)
    return frame


def scores(text):
    return pd.read_csv(io.StringIO(text))["score"].to_numpy()


KINDS = ["--numeric", "size,count,member", "--categorical", "ward,city", "--text", "note"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    from marginout.cli import main

    folder = tmp_path_factory.mktemp("columns")
    frame = every_kind()
    frame.to_csv(folder / "all.csv", index=False)
    frame.to_parquet(folder / "all.parquet")
    frame.to_json(folder / "all.jsonl", orient="records", lines=True, date_format="iso")
    data = [str(folder / "all.csv"), "--target", "y", "--quiet"]
    assert main(["fit", *data, *KINDS, "--out", str(folder / "svm.model")]) == 0
    logistic = ["--model", "logistic", "--noise", "deletion:0.2", "--out", str(folder / "logistic.model")]
    assert main(["fit", *data, *KINDS, *logistic]) == 0
    return folder


def as_objects(frame):
    """The same cells as Python objects, missing ones None and pd.NA in turn."""
    gaps = [None, pd.NA]
    return pd.DataFrame(
        {
            name: pd.Series(
                [gaps[i % 2] if pd.isna(v) else v for i, v in enumerate(frame[name])], dtype=object
            )
            for name in frame
        }
    )


FRAMES = {
    "as made": lambda folder: every_kind(),
    "read_csv": lambda folder: pd.read_csv(folder / "all.csv"),
    "read_csv, strings": lambda folder: pd.read_csv(folder / "all.csv", dtype=str),
    "read_parquet": lambda folder: pd.read_parquet(folder / "all.parquet"),
    "read_json": lambda folder: pd.read_json(folder / "all.jsonl", lines=True),
    "nullable": lambda folder: every_kind().convert_dtypes(),
    "objects": lambda folder: as_objects(every_kind()),
    "another order": lambda folder: every_kind().iloc[:, ::-1].assign(more=1).set_axis(range(7, 247)),
    "polars": lambda folder: pytest.importorskip("polars").read_parquet(folder / "all.parquet"),
    "pyarrow": lambda folder: pytest.importorskip("pyarrow.parquet").read_table(folder / "all.parquet"),
}


@pytest.mark.parametrize("how", FRAMES)
def test_loaded_pipeline_predicts_what_the_command_predicts(run, saved, how):
    frame = FRAMES[how](saved)
    for name in ("svm", "logistic"):
        pipeline = marginout.load(saved / f"{name}.model")
        for kind in ("csv", "parquet", "jsonl"):
            code, out, _ = run("predict", saved / f"{name}.model", saved / f"all.{kind}", "--scores")
            assert code == 0
            assert_allclose(scores(out), pipeline.decision_function(frame), rtol=1e-12, atol=1e-12)
            said = pd.read_csv(io.StringIO(out))["prediction"]
            assert_array_equal(said, pipeline.predict(frame))
        assert hasattr(pipeline, "predict_proba") == (name == "logistic")


def test_load_says_what_is_wrong(run, saved, tmp_path):
    pipeline = marginout.load(saved / "svm.model")
    frame = every_kind()
    with pytest.raises(ValueError, match=r"2 of the \d columns that the model needs are missing: size, city"):
        pipeline.predict(frame.drop(columns=["size", "city"]))
    with pytest.raises(TypeError, match="must be a data frame"):
        pipeline.predict(frame.to_numpy())
    with pytest.raises(ValueError, match="'size' holds 'large' where a number is needed"):
        pipeline.predict(frame.astype({"size": object}).assign(size="large"))
    with pytest.raises(FileNotFoundError):
        marginout.load(tmp_path / "nothing.model")
    (tmp_path / "pickled").write_bytes(pickle.dumps(pipeline[-1]))
    with pytest.raises(ValueError, match="refused"):
        marginout.load(tmp_path / "pickled")
    old = tmp_path / "old.model"
    with zipfile.ZipFile(saved / "svm.model") as source, zipfile.ZipFile(old, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == modelfile.DESCRIPTION:
                content = json.dumps({**json.loads(content), "format": 1}).encode()
            target.writestr(name, content)
    with pytest.raises(ValueError, match=r"format 1.*fit it again"):
        marginout.load(old)
    assert run("info", old)[0] == 4


def test_matrices_are_loaded_too(files):
    X = np.load(files / "digits.npz")["X"]
    model = modelfile.load(str(files / "digits.model"))
    assert_array_equal(marginout.load(files / "digits.model").predict(X), model.pipeline.predict(X))
