"""Five hundred broken inputs: one line, the documented exit code, and never half a file."""

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import resource
import signal
import subprocess
import sys
import time
import zipfile

import joblib
import numpy as np
import pytest
import skops.io
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import FunctionTransformer

from marginout import DropoutSVC
from marginout.cli import modelfile

from .conftest import people

DATA, MODEL, OUTPUT = 3, 4, 5
FORMATS = "csv", "tsv", "json", "jsonl", "xlsx", "parquet", "feather", "npz", "svmlight"
TABULAR = "csv", "tsv", "json", "jsonl", "xlsx", "parquet", "feather"
PACKERS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}


@pytest.fixture(scope="module")
def whole():
    """The bytes of a sound file in every format."""
    frame = people(60).drop(columns=["spent", "note"])
    rng = np.random.default_rng(0)
    X, y = rng.random((60, 5)).round(3), rng.integers(0, 2, 60)
    parquet, feather, xlsx, npz = (io.BytesIO() for _ in range(4))
    frame.to_parquet(parquet)
    frame.to_feather(feather)
    frame.to_excel(xlsx, index=False)
    np.savez(npz, X=X, y=y)
    lines = [
        f"{label} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(row))
        for label, row in zip(y, X, strict=True)
    ]
    return {
        "csv": frame.to_csv(index=False).encode(),
        "tsv": frame.to_csv(index=False, sep="\t").encode(),
        "jsonl": frame.to_json(orient="records", lines=True, force_ascii=False).encode(),
        "json": frame.to_json(orient="records").encode(),
        "xlsx": xlsx.getvalue(),
        "parquet": parquet.getvalue(),
        "feather": feather.getvalue(),
        "npz": npz.getvalue(),
        "svmlight": "\n".join(lines).encode(),
    }


def attempt(run, folder, *argv):
    """Run; check that failure is one line and leaves nothing behind."""
    before = set(os.listdir(folder))
    code, _, err = run(*argv)
    assert code in (0, 2, 3, 4, 5), err
    assert "Traceback" not in err
    if code:
        errors = [line for line in err.splitlines() if ": error: " in line]
        assert len(errors) == 1, err
        assert len(errors[0]) < 700
        assert set(os.listdir(folder)) == before
    assert not [name for name in os.listdir(folder) if name.endswith(".tmp")]
    return code


def fit(run, tmp_path, content, suffix, *more):
    path = tmp_path / f"data.{suffix}"
    path.write_bytes(content)
    target = ["--target", "bought"] if suffix.split(".")[0] in TABULAR else []
    return attempt(run, tmp_path, "fit", path, *target, "--quiet", *more, "--out", tmp_path / "m.model")


# --------------------------------------------------------------------------- bytes


@pytest.mark.parametrize("number", range(10))
@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("format", FORMATS)
def test_cut_off(run, tmp_path, whole, format, packer, number):
    """Anywhere; what is compressed, or has its index at its end, cannot be read at all."""
    content = PACKERS[packer](whole[format])
    cut = np.random.default_rng(number).integers(1, len(content) - 1)
    code = fit(run, tmp_path, content[:cut], format + packer)
    if packer or format not in ("csv", "tsv", "jsonl", "svmlight"):
        assert code == DATA
    else:
        assert code in (0, DATA)  # half a text may be a whole one


@pytest.mark.parametrize("number", range(14))
@pytest.mark.parametrize("format", FORMATS)
def test_flipped_bytes(run, tmp_path, whole, format, number):
    content = bytearray(whole[format])
    rng = np.random.default_rng(number)
    for at in rng.integers(0, len(content), 30):
        content[at] = rng.integers(256)
    assert fit(run, tmp_path, bytes(content), format) in (0, 2, DATA)


@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("format", FORMATS)
def test_junk(run, tmp_path, format, number):
    content = np.random.default_rng(number).integers(0, 256, 10 ** (number % 5), dtype=np.uint8).tobytes()
    assert fit(run, tmp_path, content, format) == DATA


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"   \n \n", b"\x00" * 100, b"\xef\xbb\xbf", b"\xff\xfe", b"[1, 2", b"null"]
)
@pytest.mark.parametrize("format", FORMATS)
def test_nothing_in_it(run, tmp_path, format, content):
    assert fit(run, tmp_path, content, format) == DATA


# --------------------------------------------------------------------------- tables

TABLES = {
    "header only": "a,bought\n",
    "one row": "a,bought\n1,yes\n",
    "one class": "a,bought\n1,yes\n2,yes\n",
    "another class in every row": "a,bought\n" + "".join(f"{i},c{i}\n" for i in range(60)),
    "no target": "a,b\n1,yes\n2,no\n",
    "target only": "bought\nyes\nno\n",
    "missing targets": "a,bought\n1,yes\n2,\n3,no\n",
    "NaN targets": "a,bought\n1,1\n2,NaN\n3,0\n",
    "infinite targets": "a,bought\n1,1.5\n2,inf\n3,0\n",
    "infinite features": "a,bought\n1,yes\ninf,no\n3,no\n",
    "longer rows": "a,bought\n1,yes\n2,no,3,4\n3,yes\n",
    "shorter rows": "a,b,bought\n1,2,yes\n2\n3,4,no\n",
    "same name twice": "bought,a,bought\nyes,2,yes\nno,3,no\n",
    "quote never closed": 'a,bought\n"1,yes\n2,no\n',
    "empty column": "a,bought\n,yes\n,no\n,yes\n",
    "only identifiers": "a,bought\n" + "".join(f"u{i},{'yes' if i % 2 else 'no'}\n" for i in range(300)),
    "huge numbers": "a,bought\n1e308,yes\n-1e308,no\n1e308,yes\n",
}


@pytest.mark.parametrize("name", TABLES)
def test_broken_tables(run, tmp_path, name):
    assert fit(run, tmp_path, TABLES[name].encode(), "csv") == DATA


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-32", "cp1252"])
def test_wrong_encoding(run, tmp_path, whole, encoding):
    text = whole["csv"].decode()
    content = text.encode(encoding, "replace") + "é".encode(encoding)
    assert fit(run, tmp_path, content, "csv") == DATA
    assert fit(run, tmp_path, text.encode(encoding, "replace"), "csv", "--encoding", encoding) == 0
    (tmp_path / "m.model").unlink()
    assert fit(run, tmp_path, content, "csv", "--encoding", "no-such") == 2


@pytest.mark.parametrize("size", [10**5, 10**6])
def test_huge_fields(run, tmp_path, size):
    content = f"a,bought\n{'x' * size},yes\n{'y ' * (size // 2)},no\n1,yes\n".encode()
    assert fit(run, tmp_path, content, "csv") in (0, DATA)
    line = json.dumps({"a": ["x"] * 10, "bought": "yes"}) + "\n" + '{"a": ' + "[" * 100_000
    assert fit(run, tmp_path, line.encode(), "jsonl") == DATA


@pytest.mark.parametrize(
    "line", ["[1]", "3", '"a"', "{", '{"a": 1}}', "{'a': 1}", '{"a": NaN', "nul", "\x00", '{"a":1}\x0b{']
)
def test_broken_json_lines(run, tmp_path, line):
    sound = '{"a": 1, "bought": "yes"}\n{"a": 2, "bought": "no"}\n'
    assert fit(run, tmp_path, (sound + line).encode(), "jsonl") == DATA


SVMLIGHT = [
    "a 1:2",
    "1 a:2",
    "1 1:a",
    "1 1:",
    "1 :1",
    "1 1",
    "1 1:2:3",
    "1 2 3:4",
    "1:2 3:4",
    "1 1:nan",
    "1 1:inf",
]
SVMLIGHT += [
    "nan 1:2",
    "1 -1:2",
    "1 1.5:2",
    "1,2 1:3",
    "1 1 :2",
    "1 99999999999:1",
    "1 1:2 \x00",
    "1 1:2,3",
    "1 0x1:2",
]


@pytest.mark.parametrize("line", SVMLIGHT)
def test_broken_svmlight(run, tmp_path, line):
    sound = "0 1:1 2:0.5\n1 2:1\n"
    assert fit(run, tmp_path, (sound + line + "\n").encode(), "svmlight") == DATA


ARCHIVES = {
    "no features": {"y": np.arange(3)},
    "lengths differ": {"X": np.ones((3, 2)), "y": np.arange(4)},
    "NaN": {"X": np.array([[1.0, np.nan], [2, 3]]), "y": np.arange(2)},
    "texts": {"X": np.array([["a", "b"]]), "y": np.arange(1)},
    "no rows": {"X": np.ones((0, 2)), "y": np.ones(0)},
    "no columns": {"X": np.ones((2, 0)), "y": np.arange(2)},
    "one dimension": {"X": np.ones(3), "y": np.arange(3)},
    "no target": {"X": np.ones((3, 2))},
    "complex": {"X": np.ones((3, 2)) * 1j, "y": np.arange(3)},
    "broken indptr": {
        "data": np.ones(2),
        "indices": np.arange(2),
        "indptr": np.array([0, 5, 1]),
        "shape": (2, 2),
        "y": np.arange(2),
    },
    "index too large": {
        "data": np.ones(2),
        "indices": np.array([0, 9]),
        "indptr": np.array([0, 1, 2]),
        "shape": (2, 2),
        "y": np.arange(2),
    },
    "too wide": {
        "data": np.ones(2),
        "indices": np.array([0, 1]),
        "indptr": np.array([0, 1, 2]),
        "shape": (2, 10**9),
        "y": np.arange(2),
    },
    "columns for rows": {
        "data": np.ones(2),
        "indices": np.array([0, 1]),
        "indptr": np.array([0, 1, 2]),
        "shape": (2, 2),
        "format": np.array(b"csc"),
        "y": np.arange(2),
    },
    "pickled": {"X": np.array([[{}, {}]], dtype=object), "y": np.arange(1)},
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_broken_archives(run, tmp_path, name):
    buffer = io.BytesIO()
    np.savez(buffer, **ARCHIVES[name])
    assert fit(run, tmp_path, buffer.getvalue(), "npz") == DATA


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (["--target", "nothing"], 3),
        (["--text", "nothing"], 3),
        (["--numeric", "city"], 3),
        (["--numeric", "age", "--text", "age"], 2),
        (["--noise", "2"], 2),
        (["--noise", "fog:1"], 2),
        (["--noise", "0.1,0.2"], 2),
        (["--C", "0"], 2),
        (["--C", "1,2"], 2),
        (["--cv", "--model", "mcf"], 2),
        (["--folds", "1"], 2),
        (["--cv", "--folds", "59"], 3),
        (["--where", "city"], 2),
        (["--where", "nothing=1"], 3),
        (["--where", "city=Nowhere"], 3),
        (["--task", "regression"], 3),
        (["--model", "logistic", "--task", "regression"], 3),
        (["--scale"], 2),
        (["--delimiter", ",,"], 2),
        (["--format", "xml"], 2),
        (["--drop", "id,age,city,shop"], 3),
        (["--noise", "poisson"], 3),
        (["--noise", "thinning:0.1"], 3),
        (["--noise", "bitswap:0.1"], 3),
        (["--hidden", "0"], 2),
    ],
)
def test_wrong_arguments(run, tmp_path, whole, more, code):
    assert fit(run, tmp_path, whole["csv"], "csv", *more) == code


def test_no_such_file_folder_or_format(run, tmp_path):
    out = ["--out", tmp_path / "m.model"]
    assert attempt(run, tmp_path, "fit", tmp_path / "nothing.csv", "--target", "y", *out) == DATA
    (tmp_path / "folder.csv").mkdir()
    assert attempt(run, tmp_path, "fit", tmp_path / "folder.csv", "--target", "y", *out) == DATA
    assert attempt(run, tmp_path, "fit", tmp_path / "data.txt", *out) == 2
    assert attempt(run, tmp_path, "fit", "-", *out) == 2


# --------------------------------------------------------------------------- models


@pytest.mark.parametrize("number", range(20))
@pytest.mark.parametrize("how", ["cut", "flip"])
def test_broken_models(run, files, tmp_path, how, number):
    content = bytearray((files / "people.model").read_bytes())
    at = int(np.random.default_rng(number).integers(1, len(content) - 1))
    if how == "cut":
        content = content[:at]
    else:
        content[at] ^= 0xFF
    path = tmp_path / "broken.model"
    path.write_bytes(content)
    out = tmp_path / "out.csv"
    code = attempt(run, tmp_path, "predict", path, files / "people.csv", "--out", out)
    assert code == MODEL if how == "cut" else code in (0, MODEL)
    if code == 0:  # a byte that says nothing, such as a time
        assert out.read_text() == run("predict", files / "people.model", files / "people.csv")[1]


class Bomb:
    """What a hostile pickle looks like."""

    def __reduce__(self):
        return os.mkdir, ("exploded",)


def rewritten(source, target, change):
    """A model file whose description is changed."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == modelfile.DESCRIPTION:
                about = json.loads(content)
                change(about)
                content = json.dumps(about).encode()
            new.writestr(name, content)


def test_foreign_models(run, files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "foreign.model"
    fitted = LogisticRegression().fit([[0], [1]], [0, 1])
    for content in (
        *(pickle.dumps(thing, protocol) for thing in (Bomb(), fitted) for protocol in range(6)),
        skops.io.dumps(fitted),
        b"",
        b"PK\x03\x04",
        b"\x89PNG",
        json.dumps({"format": 1}).encode(),
    ):
        path.write_bytes(content)
        assert attempt(run, tmp_path, "info", path) == MODEL
    for compress in (0, 3, ("gzip", 3), ("bz2", 3)):
        joblib.dump(fitted, path, compress=compress)
        assert attempt(run, tmp_path, "info", path) == MODEL
    assert not (tmp_path / "exploded").exists()
    assert "refused" in run("info", path)[2]
    assert attempt(run, tmp_path, "info", tmp_path / "nothing.model") == MODEL
    assert attempt(run, tmp_path, "info", tmp_path) == MODEL


def test_types_that_are_not_trusted_are_refused(run, files, tmp_path):
    model = modelfile.load(str(files / "digits.model"))
    pipeline = model.pipeline
    pipeline.steps.insert(0, ("call", FunctionTransformer(os.system)))
    modelfile.save(
        str(tmp_path / "m.model"), pipeline, {k: v for k, v in model.about.items() if k != "format"}
    )
    code, _, err = run("predict", tmp_path / "m.model", files / "digits.npz")
    assert code == MODEL
    assert "not trusted" in err


def test_models_of_other_versions(run, files, tmp_path):
    path = tmp_path / "other.model"
    rewritten(files / "people.model", path, lambda about: about.update(format=3))
    code, _, err = run("score", path, files / "people.csv")
    assert code == MODEL
    assert "format 3" in err
    rewritten(files / "people.model", path, lambda about: about["versions"].update(marginout="9.1.0"))
    code, _, err = run("score", path, files / "people.csv")
    assert code == 0
    assert "fitted with marginout 9.1.0" in err
    for change in (lambda a: a.clear(), lambda a: a.pop("columns"), lambda a: a.update(columns={"b": 1})):
        rewritten(files / "people.model", path, change)
        assert attempt(run, tmp_path, "score", path, files / "people.csv") == MODEL


def test_data_that_do_not_fit_the_model(run, files, tmp_path, whole):
    (tmp_path / "few.csv").write_text("height,bought\n1,yes\n")
    (tmp_path / "words.csv").write_text("age,city,shop,note\nold,Rome,1,good\n")
    np.savez(tmp_path / "wide.npz", X=np.ones((3, 65)), y=np.arange(3))
    for model, name in [("people", "few.csv"), ("people", "words.csv"), ("digits", "wide.npz")]:
        for command in ("predict", "score"):
            assert attempt(run, tmp_path, command, files / f"{model}.model", tmp_path / name) == DATA
    assert attempt(run, tmp_path, "predict", files / "digits.model", files / "people.csv") == DATA
    assert attempt(run, tmp_path, "predict", files / "people.model", files / "digits.npz") == DATA
    assert (
        attempt(run, tmp_path, "score", files / "people.model", files / "people.csv", "--target", "none")
        == DATA
    )


# --------------------------------------------------------------------------- output


def test_unwritable_output(run, files, tmp_path):
    data = files / "digits.svmlight"
    (tmp_path / "folder").mkdir()
    for out in (tmp_path / "no" / "m", tmp_path / "folder", "/dev/full"):
        assert attempt(run, tmp_path, "fit", data, "--out", out) == OUTPUT
        assert attempt(run, tmp_path, "predict", files / "digits.model", data, "--out", out) == OUTPUT
    assert attempt(run, tmp_path, "fit", data, "--out", "-") == 2


def child(*argv, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "marginout", *map(str, argv)],
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        stdin=subprocess.PIPE,
        **options,
    )


def test_full_disk(files, tmp_path):
    """No file may grow beyond 100 bytes, so writing fails midway; the old file stays."""
    old = tmp_path / "m.model"
    old.write_text("old")

    def small():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    process = child("fit", files / "digits.svmlight", "--out", old, preexec_fn=small)
    _, err = process.communicate(timeout=60)
    assert process.returncode == OUTPUT
    assert b"Traceback" not in err
    assert os.listdir(tmp_path) == ["m.model"]
    assert old.read_text() == "old"
    with open("/dev/full", "w") as full:
        process = child("predict", files / "digits.model", files / "digits.npz", stdout=full)
        _, err = process.communicate(timeout=60)
    assert process.returncode == OUTPUT
    assert b"Traceback" not in err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals(files, tmp_path, number, code):
    """A command that waits for its data is stopped."""
    process = child(
        "predict", files / "digits.model", "-", "--format", "svmlight", "--out", tmp_path / "out.csv"
    )
    process.stdin.write((files / "digits.svmlight").read_bytes() * 100)
    process.stdin.flush()
    deadline = time.monotonic() + 30
    while not os.listdir(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert os.listdir(tmp_path)  # it grows under another name
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert b"Traceback" not in err
    assert os.listdir(tmp_path) == []


def test_interrupted_while_fitting(run, files, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(DropoutSVC, "fit", interrupted)
    assert run("fit", files / "digits.svmlight", "--out", tmp_path / "m.model")[0] == 130
    monkeypatch.undo()
    monkeypatch.setattr(os, "fsync", interrupted)
    assert run("fit", files / "digits.svmlight", "--out", tmp_path / "m.model")[0] == 130
    assert os.listdir(tmp_path) == []


def test_reader_gone(files):
    process = child("predict", files / "digits.model", files / "digits.npz")
    process.stdout.close()
    with process.stderr, process.stdin:
        assert process.wait(timeout=60) == 141
        assert process.stderr.read() == b""


def test_debug_shows_the_traceback(run, tmp_path):
    code, _, err = run("info", tmp_path / "nothing", "--debug")
    assert code == MODEL
    assert "Traceback" in err
