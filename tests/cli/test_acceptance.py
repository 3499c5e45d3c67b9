"""Public tables in five forms: the same features and predictions, from the command and from Python."""

import io
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import datasets

import marginout
from marginout.cli import modelfile

from .conftest import people
from .test_columns import every_kind

pytest.importorskip("openpyxl")

ROWS = 200
KINDS = "numeric", "categorical", "text", "dates"


def bundled(name):
    """One of scikit-learn's tables, in which classes have their names; its target is the last column."""
    found = getattr(datasets, f"load_{name}")(as_frame=True)
    frame = found.frame
    if name == "digits":
        return frame.loc[frame["target"] < 4, ["pixel_2_4", "pixel_3_3", "pixel_4_2", "pixel_5_5", "target"]]
    if name in ("iris", "wine", "breast_cancer"):
        frame = frame.assign(target=found.target_names[frame["target"]])
    return frame


TABLES = {
    **dict.fromkeys(("iris", "wine", "breast_cancer", "digits", "diabetes", "linnerud"), bundled),
    "people": lambda _: people(ROWS).drop(columns="spent"),
    "spent": lambda _: people(ROWS).drop(columns="bought"),
    "every_kind": lambda _: every_kind(ROWS),
}
FOLDER = Path(os.environ.get("MARGINOUT_DATA", "")) / "tabfsbench"
STORED = ("abalone", "bike", "concrete", "credit", "electricity", "eyemovements", "heart", "laptop")


def stored(name):
    if not FOLDER.is_dir():
        pytest.skip("MARGINOUT_DATA names no folder with tabfsbench")
    return pd.read_csv(FOLDER / f"{name}.csv.xz")


FORMS = {
    "comma.csv": lambda frame, path: frame.to_csv(path, index=False),
    "decimal.tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t", decimal=","),
    "semicolon.csv": lambda frame, path: frame.to_csv(path, index=False, sep=";", decimal=","),
    "sheet.xlsx": lambda frame, path: frame.to_excel(path, index=False),
    "columns.parquet": lambda frame, path: frame.to_parquet(path),
}
READERS = {
    "comma.csv": pd.read_csv,
    "decimal.tsv": lambda path: pd.read_csv(path, sep="\t"),  # numbers stay strings
    "semicolon.csv": lambda path: pd.read_csv(path, sep=";", decimal=","),
    "sheet.xlsx": pd.read_excel,
    "columns.parquet": pd.read_parquet,
}


@pytest.mark.parametrize("name", [*TABLES, *STORED])
def test_a_table_is_the_same_in_every_form(run, tmp_path, name):
    frame = TABLES[name](name) if name in TABLES else stored(name)
    if len(frame) > ROWS:
        frame = frame.sample(ROWS, random_state=0).reset_index(drop=True)
    target = "y" if name == "every_kind" else frame.columns[-1]
    described, answers = [], []
    for form, write in FORMS.items():
        path = tmp_path / form
        write(frame, path)
        model = tmp_path / "first.model" if form == "comma.csv" else tmp_path / "other.model"
        code, out, err = run("fit", path, "--target", target, "--json", "--out", model)
        assert code == 0, err
        columns = json.loads(out)["columns"]
        described.append({kind: columns[kind] for kind in (*KINDS, "left_out")})
        assert modelfile.load(str(model)).names() == modelfile.load(str(tmp_path / "first.model")).names()
        answers.append(_answer(run, tmp_path / "first.model", path, READERS[form]))
    assert all(found == described[0] for found in described)
    for said, score in answers:  # Excel keeps 15 digits
        pd.testing.assert_frame_equal(said, answers[0][0], rtol=1e-9, atol=1e-9)
        assert score == pytest.approx(answers[0][1], rel=1e-9)
    used = [column for kind in KINDS for column in described[0][kind]]
    assert sorted([*used, *described[0]["left_out"], target]) == sorted(frame.columns)
    numbers = set(frame.drop(columns=target).select_dtypes("number"))
    assert numbers <= {*described[0]["numeric"], *described[0]["left_out"]}
    _new_cells(run, tmp_path, frame, described[0])
    _a_column_less(run, tmp_path, frame, used)


def _answer(run, model, path, reader):
    """What the command predicts and scores; Python must say the same."""
    pipeline = marginout.load(model)
    scores = ["--scores"] if hasattr(pipeline, "decision_function") else []
    code, out, err = run("predict", model, path, *scores)
    assert (code, err) == (0, "")
    said, frame = pd.read_csv(io.StringIO(out)), reader(path)
    if scores:
        assert_array_equal(said["prediction"].astype(str), pipeline.predict(frame).astype(str))
        ours = said.drop(columns="prediction").to_numpy().squeeze()
        assert_allclose(ours, pipeline.decision_function(frame), rtol=1e-12, atol=1e-12)
    else:
        assert_allclose(said["prediction"], pipeline.predict(frame), rtol=1e-12, atol=1e-12)
    code, score, err = run("score", model, path, "--json")
    assert (code, err) == (0, "")
    return said, {key: value for key, value in json.loads(score).items() if isinstance(value, float)}


def _new_cells(run, tmp_path, frame, columns):
    """Empty cells and categories that were never seen change no format."""
    frame = frame.head(40).copy()
    rows = np.arange(len(frame))
    for k, name in enumerate(columns["numeric"] + columns["dates"]):
        frame[name] = frame[name].where(rows % 7 != k % 7)
    for name in columns["categorical"]:
        frame[name] = frame[name].astype(object).where(rows % 3 > 0, "quite new")
    outputs = []
    for form, write in FORMS.items():
        write(frame, tmp_path / form)
        code, out, err = run("predict", tmp_path / "first.model", tmp_path / form)
        assert code == 0, err
        outputs.append(pd.read_csv(io.StringIO(out)))
    for said in outputs:
        pd.testing.assert_frame_equal(said, outputs[0], rtol=1e-9, atol=1e-9)


def _a_column_less(run, tmp_path, frame, used):
    """A column that is missing is named, in every format and in Python."""
    frame = frame.head(40).drop(columns=used[0])
    outputs = []
    for form, write in FORMS.items():
        write(frame, tmp_path / form)
        code, out, err = run("predict", tmp_path / "first.model", tmp_path / form)
        assert code == 0, err
        assert f"1 of the {len(used)} columns that the model needs are missing: {used[0]}" in err
        outputs.append(pd.read_csv(io.StringIO(out)))
        with pytest.warns(UserWarning, match="columns that the model needs are missing"):
            said = marginout.load(tmp_path / "first.model").predict(READERS[form](tmp_path / form))
        pd.testing.assert_series_equal(
            pd.Series(said), outputs[-1]["prediction"], check_names=False, check_dtype=False, rtol=1e-9
        )
    for said in outputs:
        pd.testing.assert_frame_equal(said, outputs[0], rtol=1e-9, atol=1e-9)
