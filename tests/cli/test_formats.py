"""One table in every format, by its name, packed or not; what cannot be read says what to do."""

import bz2
import io
import json
import subprocess
import sys
import zipfile
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from marginout.cli import modelfile
from marginout.cli.data import CONVERTERS

from .conftest import people

pytest.importorskip("openpyxl")

DATA, USAGE = 3, 2


def zipped(content, name="people.csv", *more):
    """A zip file without a time: tests are named after its bytes, in all processes of pytest alike."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
        for other in more:
            archive.writestr(zipfile.ZipInfo(other), b"")
    return buffer.getvalue()


def excel(frame):
    buffer = io.BytesIO()
    frame.to_excel(buffer, index=False)
    return buffer.getvalue()


def feather(frame):
    buffer = io.BytesIO()
    frame.to_feather(buffer)
    return buffer.getvalue()


def text(frame, **options):
    return frame.to_csv(index=False, **options).encode()


FORMATS = {
    "people.csv": text,
    "people.csv.bz2": lambda frame: bz2.compress(text(frame)),
    "people.csv.zip": lambda frame: zipped(text(frame)),
    "people.zip": lambda frame: zipped(text(frame, sep="\t"), "folder/people.tsv", "__MACOSX/x"),
    "semicolon.csv": lambda frame: text(frame, sep=";", decimal=","),
    "tab.csv": lambda frame: text(frame, sep="\t", decimal=","),
    "pipe.csv": lambda frame: text(frame, sep="|"),
    "comma.tsv": text,
    "people.xlsx": excel,
    "excel.zip": lambda frame: zipped(excel(frame), "people.xlsx"),
    "people.feather": feather,
    "people.json": lambda frame: frame.to_json(orient="records").encode(),
    "columns.json": lambda frame: frame.to_json().encode(),
    "split.json": lambda frame: frame.to_json(orient="split").encode(),
    "lines.json": lambda frame: frame.to_json(orient="records", lines=True).encode(),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_read(run, files, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(FORMATS[name](people(240)))
    expected = run("predict", files / "people.model", files / "people.csv", "--scores")[1]
    assert run("predict", files / "people.model", path, "--scores") == (0, expected, "")
    code, _, err = run(
        "fit", path, "--target", "bought", "--drop", "spent", "--out", tmp_path / "m", "--quiet"
    )
    assert code == 0, err
    assert modelfile.load(str(tmp_path / "m")).names() == modelfile.load(str(files / "people.model")).names()


@pytest.mark.parametrize("format", ["csv", "xlsx", "feather", "json"])
def test_standard_input(run, files, monkeypatch, format):
    makers = {"csv": lambda frame: zipped(text(frame)), "xlsx": excel, "feather": feather}
    content = makers.get(format, FORMATS["people.json"])(people(240))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    code, out, _ = run("predict", files / "people.model", "-", "--format", format)
    assert (code, out) == (0, run("predict", files / "people.model", files / "people.csv")[1])


def test_excel_is_read_as_it_looks(run, files, tmp_path):
    frame = people(60).drop(columns="note")
    frame["when"] = pd.Timestamp("2024-02-28") + pd.to_timedelta(np.arange(60), unit="D")
    frame["new"] = [True, False] * 30
    with pd.ExcelWriter(tmp_path / "a.xlsx") as book:
        frame.to_excel(book, sheet_name="first")
        frame.head(1).to_excel(book, sheet_name="second")
    frame.to_csv(tmp_path / "a.csv")
    about = []
    for name in ("a.xlsx", "a.csv"):
        code, _, err = run("fit", tmp_path / name, "--target", "bought", "--out", tmp_path / "m")
        assert code == 0
        assert ("of 2 sheets the first, 'first', is read" in err) == (name == "a.xlsx")
        columns = json.loads(run("info", tmp_path / "m", "--json")[1])["columns"]
        about.append({kind: columns[kind] for kind in ("numeric", "categorical", "dates", "left_out")})
    assert about[0] == about[1]
    assert about[0]["dates"] == ["when"]
    assert "Unnamed: 0" in about[0]["left_out"]


@pytest.mark.parametrize(
    ("name", "content", "code", "words"),
    [
        ("a.zip", zipped(b"a", "a.csv", "b.csv"), DATA, "the zip holds 2 files: unpack it"),
        ("a.csv.zip", zipped(b"a,b\n1,2\n")[:-30], DATA, "get it again"),
        ("a.csv.bz2", bz2.compress(b"a,b\n1,2\n" * 1000)[:-9], DATA, "get it again"),
        ("a.xlsx", b"PK\x03\x04 junk", DATA, "no Excel file"),
        ("a.feather", b"junk", DATA, "no Feather file"),
        ("a.json", b'"text"', DATA, "no array of objects"),
        ("a.json", b"[1, 2]", DATA, "no array of objects"),
        ("a.json", b"[{", DATA, "not JSON"),
        ("a.txt", b"a,b\n1,2\n", USAGE, "add --format"),
    ],
)
def test_what_cannot_be_read_is_said(run, tmp_path, name, content, code, words):
    (tmp_path / name).write_bytes(content)
    said = run("fit", tmp_path / name, "--target", "b", "--out", tmp_path / "m")
    assert said[0] == code
    assert words in said[2]


def test_other_formats_name_the_tool_that_converts_them(run, tmp_path):
    for suffix in CONVERTERS:
        code, _, err = run("fit", f"data{suffix}", "--target", "y", "--out", tmp_path / "m")
        assert code == USAGE
        assert f"{suffix} files are not read: convert it: " in err
        assert "{" not in err
    pd.DataFrame({"x": [1.5, 2.5], "y": ["a", "b"]}).to_stata(tmp_path / "data.dta", write_index=False)
    _, _, err = run("fit", tmp_path / "data.dta", "--target", "y", "--out", tmp_path / "m")
    command = err.strip().split('python -c "')[1].rstrip('"')
    subprocess.run([sys.executable, "-c", command], cwd=tmp_path, check=True)
    assert run("fit", tmp_path / "data.parquet", "--target", "y", "--out", tmp_path / "m")[0] == 0


def test_a_delimiter_that_is_wrong_is_named(run, tmp_path):
    (tmp_path / "a.csv").write_text("size, cm;weight, kg;y\n" + "1,5;2;no\n2,5;1;yes\n" * 20)
    fit = ["fit", tmp_path / "a.csv", "--target", "y", "--out", tmp_path / "m"]
    assert run(*fit)[0] == 0
    code, _, err = run(*fit, "--delimiter", "|")
    assert code == DATA
    assert "use --delimiter ';'" in err
    assert run(*fit, "--delimiter", ";")[0] == 0


def test_targets_of_parquet_may_be_decimals_but_not_dates(run, tmp_path):
    values = np.arange(60) / 4
    frame = pd.DataFrame({"x": values, "y": [Decimal(f"{value:.2f}") for value in values]})
    frame["day"] = pd.date_range("2024-04-03", periods=60, unit="ns")
    frame.to_parquet(tmp_path / "a.parquet")
    fit = ["fit", tmp_path / "a.parquet", "--out", tmp_path / "m", "--json", "--only", "x"]
    code, out, err = run(*fit, "--target", "y")
    assert code == 0, err
    assert json.loads(out)["task"] == "regression"
    assert run("score", tmp_path / "m", tmp_path / "a.parquet")[0] == 0
    code, _, err = run(*fit, "--target", "day")
    assert (code, "the target 'day' holds datetime: name" in err) == (3, True)
