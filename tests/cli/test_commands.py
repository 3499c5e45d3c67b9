"""The commands do what Python does, on every format."""

import gzip
import io
import json
import lzma
import resource
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_svmlight_file
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import marginout
from marginout import DropoutLogisticRegression, DropoutSVC, DropoutSVCCV
from marginout.cli import modelfile
from marginout.cli.models import parse_noise
from marginout.noise import Deletion

from .conftest import people

# --------------------------------------------------------------------------- start


def test_help_is_quick_and_imports_nothing_heavy():
    code = "import sys; from marginout.cli.arguments import _parser; _parser().format_help(); "
    code += "print([m for m in ('numpy', 'scipy', 'sklearn', 'pandas', 'skops') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "marginout", "--help"], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # The processor's seconds: those on the wall are the neighbours', too.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5


def test_public_names_are_there_though_imported_late():
    assert {*marginout.__all__, "__version__"} <= set(dir(marginout))
    assert not any(name.startswith("_") for name in set(dir(marginout)) - {"__version__"})
    homes = {name for names in marginout._HOMES.values() for name in names}
    assert homes | {"blocks", "losses", "noise", "robustness"} == set(marginout.__all__)
    assert all(getattr(marginout, name) is not None for name in marginout.__all__)
    with pytest.raises(AttributeError, match="no attribute 'DropoutSVM'"):
        _ = marginout.DropoutSVM


@pytest.mark.parametrize("command", ["demo", "fit", "predict", "score", "stress", "info", "compare"])
def test_help_of_every_command(run, command):
    code, out, err = run(command, "--help")
    assert code == 0
    assert "exit codes" in out
    assert err == ""


def test_version(run):
    assert run("--version") == (0, f"marginout {marginout.__version__}\n", "")


# --------------------------------------------------------------------------- the same as Python


def predictions(text):
    return pd.read_csv(io.StringIO(text))["prediction"].to_numpy()


def test_tables_give_what_python_gives(run, files):
    frame = people(240)
    numeric = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    strings = frame.assign(
        city=frame["city"].fillna(""),
        note=frame["note"].fillna(""),
        shop=[("" if np.isnan(v) else str(int(v))) for v in frame["shop"]],
    )
    words = {"ngram_range": (1, 2), "min_df": 2, "token_pattern": r"\w+(?:['’]\w+)*|[^\w\s]"}
    prepare = ColumnTransformer(
        [
            ("numbers", numeric, ["age"]),
            ("categories", OneHotEncoder(handle_unknown="ignore"), ["city", "shop"]),
            ("text", TfidfVectorizer(sublinear_tf=True, **words), "note"),
        ]
    )
    python = make_pipeline(prepare, DropoutLogisticRegression(C=2.0, noise=Deletion(0.3)))
    python.fit(strings, frame["bought"])
    columns = ["--numeric", "age", "--categorical", "city,shop", "--text", "note", "--only", "age"]
    model = ["--model", "logistic", "--C", "2", "--noise", "deletion:0.3"]
    path = files / "named.model"
    code, out, _ = run("fit", files / "people.csv", "--target", "bought", *columns, *model, "--out", path)
    assert code == 0
    assert "DropoutLogisticRegression" in out
    for name in ("people.csv", "people.tsv.gz", "people.parquet", "people.jsonl.xz"):
        code, out, err = run("predict", path, files / name, "--scores")
        assert (code, err) == (0, "")
        assert_array_equal(predictions(out), python.predict(strings))
        assert_allclose(pd.read_csv(io.StringIO(out))["score"], python.decision_function(strings), atol=1e-9)
        code, out, _ = run("score", path, files / name, "--json")
        assert json.loads(out)["accuracy"] == pytest.approx(python.score(strings, frame["bought"]))


def test_the_marks_of_a_text_are_features(run, tmp_path):
    """Only a mark, and a word of one letter, tell the classes of these texts apart."""
    rng = np.random.default_rng(0)
    words = np.array(["film", "plot", "actor", "scene", "end"])
    texts = [" ".join(rng.choice(words, 4)) for _ in range(200)]
    good = np.arange(200) % 2 == 1
    texts = [text + (" i don't!" if yes else " a?") for text, yes in zip(texts, good, strict=True)]
    pd.DataFrame({"text": texts, "good": good.astype(int)}).to_csv(tmp_path / "texts.csv", index=False)
    path = tmp_path / "texts.model"
    code, out, _ = run("fit", tmp_path / "texts.csv", "--target", "good", "--text", "text", "--out", path)
    assert code == 0
    assert "1.0000 on the training data" in out
    pipeline = marginout.load(path)
    names = pipeline.named_steps["prepare"].named_transformers_["text0"].get_feature_names_out()
    assert {"!", "?", "i", "a", "don't", "don't !", "film i"} <= set(names)


def test_matrices_give_what_python_gives(run, files, monkeypatch):
    X, y = load_svmlight_file(str(files / "digits.svmlight"), n_features=64)
    python = DropoutSVC().fit(X, y.astype(int))
    _, out, _ = run("predict", files / "digits.model", files / "digits.svmlight")
    assert_array_equal(predictions(out), python.predict(X))
    _, out, _ = run("predict", files / "digits.model", files / "digits.npz", "--json", "--scores")
    rows = [json.loads(line) for line in out.splitlines()]
    assert_allclose(
        [[row[f"score {k}"] for k in range(4)] for row in rows], python.decision_function(X), atol=1e-9
    )
    content = (files / "digits.svmlight").read_bytes()
    for packed in (content, gzip.compress(content), lzma.compress(content)):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(packed)))
        code, out, _ = run("predict", files / "digits.model", "-", "--format", "svmlight")
        assert code == 0
        assert_array_equal(predictions(out), python.predict(X))


def test_search_gives_what_python_gives(run, files, tmp_path):
    path = tmp_path / "search.model"
    more = ["--cv", "--noise", "0,0.3,0.6", "--C", "0.01,0.1,1", "--folds", "3", "--where", "part=0"]
    assert run("fit", files / "digits.npz", *more, "--out", path)[0] == 0
    archive = np.load(files / "digits.npz")
    kept = archive["part"] == 0
    python = DropoutSVCCV([0.01, 0.1, 1], parse_noise("0,0.3,0.6", True), cv=3).fit(
        archive["X"][kept], archive["y"][kept]
    )
    model = modelfile.load(str(path))
    assert_array_equal(model.estimator.scores_, python.scores_)
    assert (model.estimator.C_, repr(model.estimator.noise_)) == (python.C_, repr(python.noise_))
    assert model.about["scores"]["cross_validation"] == python.best_score_


def test_regression(run, files, tmp_path):
    path = tmp_path / "spent.model"
    code, out, _ = run(
        "fit",
        files / "people.csv",
        "--target",
        "spent",
        "--drop",
        "bought",
        "--noise",
        "0.05",
        "--out",
        path,
        "--json",
    )
    assert code == 0
    about = json.loads(out)
    assert about["task"] == "regression"
    assert about["columns"]["left_out"] == {
        "id": "240 different words in 240 rows, more than 20%",
        "bought": "dropped",
    }
    code, out, _ = run("score", path, files / "people.parquet", "--json")
    frame = people(240)
    plain = (
        LinearRegression()
        .fit(frame[["age"]].fillna(40), frame["spent"])
        .score(frame[["age"]].fillna(40), frame["spent"])
    )
    assert json.loads(out)["r2"] > plain + 0.1
    assert run("predict", path, files / "people.csv", "--scores")[0] == 2


@pytest.mark.parametrize(("model", "cv"), [("svm", False), ("svm", True), ("latent-svm", False)])
def test_the_noise_that_the_data_bear(run, files, tmp_path, model, cv):
    path, more = tmp_path / "auto.model", ["--C", "1", "--cv"] if cv else []
    code, out, err = run(
        "fit", files / "digits.npz", "--model", model, *more, "--noise", "Auto", "--out", path, "--json"
    )
    assert code == 0, err
    final = modelfile.load(path).pipeline[-1]
    rate = final.noise_
    assert 0 < rate < 1
    assert f"noise {rate}" in run("info", path)[1]
    assert json.loads(out)["noise"] == str(rate)


@pytest.mark.parametrize("model", ["mcf", "latent-svm", "latent-logistic"])
def test_other_models_are_saved_and_loaded(run, files, tmp_path, model):
    path = tmp_path / "other.model"
    more = ["--model", model, "--hidden", "3", "--noise", "0.1"]
    assert run("fit", files / "digits.npz", *more, "--out", path)[0] == 0
    code, out, _ = run("score", path, files / "digits.npz", "--json")
    assert code == 0
    assert json.loads(out)["accuracy"] > 0.9


def test_balanced_accuracy_is_the_mean_recall(run, files, tmp_path):
    """Classes of different size and recall: all right, half right, none right, and all right again."""
    with np.load(files / "digits.npz") as stored:
        X, y = stored["X"], stored["y"]
    right = modelfile.load(files / "digits.model").pipeline.predict(X) == y
    rows = [np.flatnonzero(right & (y == k))[:count] for k, count in enumerate((4, 6, 8, 10))]
    truth = np.repeat([0, 1, 2, 3], [4, 6, 8, 10])
    # Three of the six ones are shown as pictures of zeros, all twos as pictures of threes.
    rows[1][:3], rows[2][:] = rows[0][:3], rows[3][:8]
    np.savez(tmp_path / "mixed.npz", X=X[np.concatenate(rows)], y=truth)
    code, out, _ = run("score", files / "digits.model", tmp_path / "mixed.npz", "--json")
    assert code == 0
    scores = json.loads(out)
    assert scores["balanced_accuracy"] == pytest.approx((1 + 0.5 + 0 + 1) / 4)
    assert scores["accuracy"] == pytest.approx((4 + 3 + 0 + 10) / 28)


def test_info(run, files):
    code, out, _ = run("info", files / "people.model")
    assert code == 0
    assert "DropoutSVC" in out
    assert "city = Rome" in out
    code, out, _ = run("info", files / "people.model", "--json", "--top", "3")
    about = json.loads(out)
    assert about["columns"]["categorical"] == ["city"]
    assert about["columns"]["text"] == ["note"]
    assert len(about["top_features"]) == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.3", "[Dropout(rate=0.3)]"),
        ("deletion:0.5", "[Deletion(rate=0.5)]"),
        ("gaussian:0.1", "[Gaussian(variance=0.1)]"),
        ("poisson", "[Poisson()]"),
        ("thinning:0.3", "[Thinning(rate=0.3)]"),
        ("BITSWAP:0.2", "[BitSwap(rate=0.2)]"),
    ],
)
def test_noise(text, expected):
    assert repr(parse_noise(text, cv=False)) == expected


# --------------------------------------------------------------------------- large files


def test_svmlight_in_blocks_is_what_scikit_learn_reads(run, files, tmp_path, monkeypatch):
    from marginout._blocks import readers
    from marginout.cli.matrices import read_svmlight
    from marginout.cli.output import Progress

    rng = np.random.default_rng(0)
    ours, theirs = ["# a comment", ""], []
    for _ in range(500):
        columns = rng.choice(np.arange(1, 3000), rng.integers(0, 30), replace=False)
        cells = [f"{c}:{v:.6g}" for c, v in zip(columns, rng.normal(size=len(columns)), strict=True)]
        label = f"{rng.integers(-1, 2):+d}"
        ours.append(f"{label} qid:3 {' '.join(cells)} # note\r")
        theirs.append(" ".join([label, *sorted(cells, key=lambda cell: int(cell.split(":")[0]))]))
    content = "\n".join(ours).encode()
    X, y = load_svmlight_file(io.BytesIO("\n".join(theirs).encode()), zero_based=False)
    for block in (64, 1000, 1 << 20):
        monkeypatch.setattr(readers, "PIECE", block)
        found = read_svmlight(io.BytesIO(content), Progress(True), None, None, 0, 0)
        assert_array_equal(found.y, y)
        assert (abs(found.X - X) > 0).nnz == 0
        part = read_svmlight(io.BytesIO(content), Progress(True), X.shape[1], 1, 50, 0)
        assert part.X.shape == (50, X.shape[1])
        rows = {row.tobytes() for row in X.toarray()}
        assert all(row.tobytes() in rows for row in part.X.toarray())


def test_unknown_features_are_left_out_with_a_note(run, files, tmp_path):
    path = tmp_path / "more.svmlight"
    content = (files / "digits.svmlight").read_text().splitlines()
    path.write_text("\n".join(line + " 70:5 900:1" for line in content))
    code, out, err = run("predict", files / "digits.model", path)
    assert code == 0
    assert err.count("never seen") == 1
    assert_array_equal(
        predictions(out), predictions(run("predict", files / "digits.model", files / "digits.svmlight")[1])
    )


def test_categories_are_the_same_in_every_format(run, tmp_path):
    frame = pd.DataFrame(
        {"shop": [1, 2, None, 3] * 20, "flag": [True, False] * 40, "y": ["a", "b", "a", "b"] * 20}
    )
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    run("fit", tmp_path / "a.csv", "--target", "y", "--categorical", "shop,flag", "--out", tmp_path / "m")
    names = modelfile.load(str(tmp_path / "m")).names()
    assert names == ["shop = (missing)", "shop = 1", "shop = 2", "shop = 3", "flag = False", "flag = True"]
    one, two = (
        run("predict", tmp_path / "m", tmp_path / f"a.{kind}", "--scores")[1] for kind in ("csv", "parquet")
    )
    assert one == two


def test_inputs_are_never_overwritten_and_long_rows_refused(run, tmp_path):
    data = tmp_path / "data.csv"
    people(40).to_csv(data, index=False)
    before = data.read_bytes()
    assert run("fit", data, "--target", "bought", "--out", data)[0] == 5
    assert run("compare", data, "--target", "bought", "--out", data)[0] == 5
    assert data.read_bytes() == before
    longer = tmp_path / "longer.csv"
    longer.write_text("x,y,z\n1,0.3,0,0.7\n2,3.1,1,0.2\n3,0.5,0,0.1\n")
    code, _, said = run("fit", longer, "--target", "y", "--out", tmp_path / "model")
    assert code == 3
    assert "more fields than its header" in said
    for text in ("\n\ny,x,y\n0,1,0\n1,2,1\n", 'y,"x\nx",y\n0,1,0\n1,2,1\n'):
        longer.write_text(text)
        code, _, said = run("fit", longer, "--target", "y", "--out", tmp_path / "model")
        assert code == 3
        assert "two columns have the name 'y'" in said
    assert run("compare", data, "--target", "bought", "--json", "--out", "-")[0] == 2


def test_predictions_of_nothing_are_nothing(run, files, tmp_path):
    model = tmp_path / "model"
    data = tmp_path / "data.csv"
    people(40).to_csv(data, index=False)
    assert run("fit", data, "--target", "bought", "--out", model)[0] == 0
    code, out, _ = run("predict", model, tmp_path / "missing.csv")
    assert (code, out) == (3, "")
    assert run("predict", model, data, "--out", model)[0] == 5
