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


KINDS = ["--categorical", "ward"]


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
    for name in ("svm", "logistic"):
        for kind in ("csv", "parquet", "jsonl"):
            files = [str(folder / part) for part in (f"{name}.model", f"all.{kind}", f"{name}.{kind}.said")]
            assert main(["predict", *files[:2], "--scores", "--out", files[2]]) == 0
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
def test_loaded_pipeline_predicts_what_the_command_predicts(saved, how):
    frame = FRAMES[how](saved)
    for name in ("svm", "logistic"):
        pipeline = marginout.load(saved / f"{name}.model")
        for kind in ("csv", "parquet", "jsonl"):
            said = pd.read_csv(saved / f"{name}.{kind}.said")
            assert_allclose(said["score"], pipeline.decision_function(frame), rtol=1e-12, atol=1e-12)
            assert_array_equal(said["prediction"], pipeline.predict(frame))
        assert hasattr(pipeline, "predict_proba") == (name == "logistic")


def test_load_says_what_is_wrong(run, saved, tmp_path):
    pipeline = marginout.load(saved / "svm.model")
    frame = every_kind()
    pipeline.set_params(convert__strict=True)
    with pytest.raises(ValueError, match=r"2 of the \d columns that the model needs are missing: size, city"):
        pipeline.predict(frame.drop(columns=["size", "city"]))
    with pytest.raises(TypeError, match="must be a data frame"):
        pipeline.predict(frame.to_numpy())
    with pytest.raises(ValueError, match="'size' must hold numbers, but 'large' is no number"):
        pipeline.predict(frame.astype({"size": object}).assign(size="large"))
    with pytest.raises(ValueError, match="two columns have the name 'size'"):
        pipeline.predict(pd.concat([frame, frame[["size"]]], axis=1))
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


def test_columns_with_numbers_for_names(run, tmp_path):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)))
    frame[2] = np.where(frame[0] > 0, "yes", "no")
    frame.to_csv(tmp_path / "a.csv", index=False)
    assert run("fit", tmp_path / "a.csv", "--target", "2", "--out", tmp_path / "m")[0] == 0
    said = pd.read_csv(io.StringIO(run("predict", tmp_path / "m", tmp_path / "a.csv")[1]))["prediction"]
    assert_array_equal(marginout.load(tmp_path / "m").predict(frame), said)


def test_matrices_are_loaded_too(files):
    X = np.load(files / "digits.npz")["X"]
    model = modelfile.load(str(files / "digits.model"))
    assert_array_equal(marginout.load(files / "digits.model").predict(X), model.pipeline.predict(X))


# --------------------------------------------------------------------------- what a column is


def fitted(run, path, *more, target="y"):
    """What `fit` says about its columns, the features' names, and standard error."""
    model = path.with_suffix(".model")
    code, out, err = run("fit", path, "--target", target, *more, "--json", "--out", model)
    assert code == 0, err
    return json.loads(out)["columns"], modelfile.load(str(model)).names(), err


def table(path, columns, **options):
    """A table with a target of two classes that follows its first column."""
    frame = pd.DataFrame(columns)
    frame["y"] = np.where(np.arange(len(frame)) % 2, "yes", "no")
    frame.to_csv(path, index=False, **options)
    return frame


NUMBERS = np.random.default_rng(1).normal(0, 2000, 200).round(2)
WRITTEN = {
    "plain": "{:.2f}".format,
    "thousands": "{:,.2f}".format,
    "decimal comma": lambda x: f"{x:.2f}".replace(".", ","),
    "both": lambda x: f"{x:,.2f}".translate({44: ".", 46: ","}),
    "space": lambda x: f"{x:,.2f}".translate({44: " ", 46: ","}),
    "apostrophe": lambda x: f"{x:,.2f}".replace(",", "’"),
    "euro before": lambda x: f"{'-' if x < 0 else ''}€{abs(x):.2f}",
    "euro behind": lambda x: f"{x:,.2f}".translate({44: ".", 46: ","}) + " €",
    "dollar": lambda x: f"${x:,.2f}",
    "code": "USD {:.2f}".format,
    "minus": lambda x: f"{x:.2f}".replace("-", "−"),
    "exponent": "{:.9e}".format,
    "percent": lambda x: f"{100 * x:.0f}%",
    "percent, comma": lambda x: f"{100 * x:.1f} %".replace(".", ","),
}


@pytest.mark.parametrize("how", WRITTEN)
def test_numbers_as_people_write_them(run, tmp_path, how):
    table(tmp_path / "a.csv", {"x": [WRITTEN[how](x) for x in NUMBERS]})
    columns, names, _ = fitted(run, tmp_path / "a.csv")
    assert (columns["numeric"], columns["left_out"], names) == (["x"], {}, ["x"])
    convert = marginout.load(tmp_path / "a.model")[0]
    frame = pd.read_csv(tmp_path / "a.csv", dtype=str)
    assert_allclose(convert.transform(frame)["x"], NUMBERS, rtol=0, atol=1e-9)
    # A few cells are read as the many were, and numbers are numbers.
    assert_allclose(convert.transform(frame.iloc[3:4])["x"], NUMBERS[3:4], rtol=0, atol=1e-9)
    assert_allclose(convert.transform(pd.DataFrame({"x": NUMBERS}))["x"], NUMBERS)


def test_a_comma_that_may_be_two_things_needs_a_word(run, tmp_path):
    whole = [f"{i},{100 + (37 * i) % 900}" for i in range(1, 101)]
    table(tmp_path / "a.csv", {"x": whole, "age": np.arange(100) % 50})
    columns, _, _ = fitted(run, tmp_path / "a.csv")
    assert columns["numeric"] == ["age"]
    assert "add --decimal , or --decimal ." in columns["left_out"]["x"]
    for mark, first in ((",", 1.137), (".", 1137.0)):
        columns, _, _ = fitted(run, tmp_path / "a.csv", "--decimal", mark)
        assert columns["numeric"] == ["x", "age"]
        pipeline = marginout.load(tmp_path / "a.model")
        assert pipeline[0].transform(pd.DataFrame({"x": whole, "age": 1}))["x"][0] == first
    # The other columns of the file tell, in training and later.
    for share, first in (("{:.2f}".format, 1137.0), (lambda x: f"{x:.2f}".replace(".", ","), 1.137)):
        frame = table(tmp_path / "a.csv", {"x": whole, "share": [share(x) for x in NUMBERS[:100]]})
        columns, _, _ = fitted(run, tmp_path / "a.csv")
        assert columns["numeric"] == ["x", "share"]
        pipeline = marginout.load(tmp_path / "a.model")
        assert pipeline[0].transform(frame)["x"][0] == first
    # A model of numbers cannot know.
    frame = pd.DataFrame({"x": np.arange(100) / 7, "y": ["no", "yes"] * 50})
    frame.to_parquet(tmp_path / "n.parquet")
    fitted(run, tmp_path / "n.parquet")
    table(tmp_path / "a.csv", {"x": whole})
    code, _, err = run("predict", tmp_path / "n.model", tmp_path / "a.csv")
    assert code == 3
    assert "--decimal" in err
    assert run("predict", tmp_path / "n.model", tmp_path / "a.csv", "--decimal", ",")[0] == 0


def test_units_are_not_mixed(run, tmp_path):
    mixed = [f"€{x:.2f}" if i % 3 else f"${x:.2f}" for i, x in enumerate(NUMBERS)]
    table(tmp_path / "a.csv", {"x": mixed, "z": np.abs(NUMBERS)})
    columns, _, _ = fitted(run, tmp_path / "a.csv")
    assert "units differ" in columns["left_out"]["x"]
    table(tmp_path / "b.csv", {"x": [f"€{x:.2f}" for x in NUMBERS]})
    fitted(run, tmp_path / "b.csv")
    pipeline = marginout.load(tmp_path / "b.model")
    assert_array_equal(pipeline[0].transform(pd.DataFrame({"x": ["3.20", None]})), [[3.2], [np.nan]])
    with pytest.raises(ValueError, match=r"is in \$, but in training it was in €"):
        pipeline.predict(pd.DataFrame({"x": ["$3.20"]}))


def test_the_true_reason_and_every_unused_column(run, tmp_path):
    words = {f"name{k}": [f"w{i}-{k}" for i in range(90)] for k in range(20)}
    weights = [f"{x:.1f} kg" for x in np.abs(NUMBERS[:90])]
    table(tmp_path / "a.csv", {"x": NUMBERS[:90], "weight": weights, **words})
    columns, _, _ = fitted(run, tmp_path / "a.csv")
    assert columns["left_out"]["name3"] == "90 different words in 90 rows, more than 20%"
    weight = f"90 different words in 90 rows, more than 20%; no numbers, as {weights[0]!r} is no number"
    assert columns["left_out"]["weight"] == weight
    code, out, _ = run("fit", tmp_path / "a.csv", "--target", "y", "--out", tmp_path / "m")
    assert code == 0
    line = next(line for line in out.splitlines() if "not used" in line)
    assert "name9" in line
    assert line.endswith("… and 9 more (--json names all)")
    assert any(
        "not used" in line and "… and 9 more" in line for line in run("info", tmp_path / "m")[1].splitlines()
    )


def test_what_only_counts_or_names_rows_is_left_out(run, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=120).round(3), "y": np.repeat(["a", "b"], 60)})
    frame.to_csv(tmp_path / "a.csv")  # with its index: sorted by class, it would be the best feature
    columns, names, _ = fitted(run, tmp_path / "a.csv")
    assert names == ["size"]
    assert columns["left_out"] == {"Unnamed: 0": "counts the rows: --numeric 'Unnamed: 0' uses it"}
    assert fitted(run, tmp_path / "a.csv", "--numeric", "Unnamed: 0")[1] == ["Unnamed: 0", "size"]
    frame.sample(frac=1, random_state=0).to_csv(tmp_path / "b.csv")  # shuffled
    assert fitted(run, tmp_path / "b.csv")[1] == ["size"]
    unique = rng.permutation(10**6)[:120]
    for name in ("id", "customer_id", "PassengerId", "UserID", "Index", "row"):
        frame.assign(**{name: unique}).to_csv(tmp_path / "c.csv", index=False)
        columns, names, _ = fitted(run, tmp_path / "c.csv")
        assert names == ["size"]
        assert columns["left_out"][name].startswith(
            "whole numbers that name the rows, 120 of them in 120 rows"
        )


def test_measurements_are_not_taken_for_identifiers(run, tmp_path):
    rng = np.random.default_rng(0)
    n = 120
    kept = {
        "year": np.arange(1900, 1900 + n),  # counts, but not the rows
        "steps": rng.permutation(20_000)[:n],  # whole, all different
        "grid": rng.permutation(500)[:n],
        "paid": rng.integers(0, 3, n),
        "group_id": rng.integers(0, 9, n),  # few values
        "amount": rng.normal(size=n).round(2),
    }
    table(tmp_path / "a.csv", kept)
    columns, names, _ = fitted(run, tmp_path / "a.csv", "--categorical", "paid")
    assert columns["left_out"] == {}
    assert [name for name in kept if name != "paid"] == names[:5]
    err = run("fit", tmp_path / "a.csv", "--target", "y", "--out", tmp_path / "m")[2]
    assert [name for name in kept if f"note: {name} is another whole number in every row" in err] == [
        "year",
        "steps",
        "grid",
    ]
    table(tmp_path / "b.csv", {"dose": np.arange(1, 11)})  # a small table
    assert fitted(run, tmp_path / "b.csv")[1] == ["dose"]


def test_codes_keep_their_zeros(run, tmp_path):
    codes = np.array(["01067", "10115", "80331", "04109"])
    frame = table(tmp_path / "a.csv", {"zip": codes[np.arange(80) % 4], "x": NUMBERS[:80]})
    frame.to_parquet(tmp_path / "b.parquet")
    for name in ("a.csv", "b.parquet"):
        columns, names, _ = fitted(run, tmp_path / name)
        assert columns["categorical"] == ["zip"]
        assert names[1:] == ["zip = 01067", "zip = 04109", "zip = 10115", "zip = 80331"]
    assert fitted(run, tmp_path / "a.csv", "--numeric", "zip")[0]["numeric"] == ["zip", "x"]


def test_codes_that_pandas_has_read_as_numbers_are_the_same(run, tmp_path):
    codes = np.array(["01067", "10115", "80331", "04109"])
    frame = table(tmp_path / "a.csv", {"zip": codes[np.arange(80) % 4], "x": NUMBERS[:80]})
    fitted(run, tmp_path / "a.csv")
    pipeline, read = marginout.load(tmp_path / "a.model"), pd.read_csv(tmp_path / "a.csv")
    assert read["zip"].dtype.kind == "i"
    expected = pipeline.decision_function(frame)
    assert_array_equal(pipeline.decision_function(read), expected)
    assert_array_equal(pipeline.decision_function(read.astype({"zip": float})), expected)
    read.to_csv(tmp_path / "lost.csv", index=False)
    code, out, err = run("predict", tmp_path / "a.model", tmp_path / "lost.csv", "--scores")
    assert (code, err) == (0, "")
    assert_allclose(pd.read_csv(io.StringIO(out))["score"], expected, rtol=1e-12)


@pytest.mark.parametrize("mark", [".", ","])
def test_a_decimal_mark_that_a_column_never_had_is_no_mark_of_thousands(run, tmp_path, mark):
    other = ",."[mark == ","]
    frame = table(
        tmp_path / "a.csv", {"x": NUMBERS[:80] / 1000, "k": np.arange(80) % 3}, sep=";", decimal=mark
    )
    fitted(run, tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text(f"x;k\n1{other}234;1\n")  # nothing else tells
    predict = ["predict", tmp_path / "a.model", tmp_path / "b.csv", "--scores"]
    code, out, err = run(*predict)
    if mark == ".":
        assert (code, "'1,234' has decimals or thousands behind its comma: add --decimal ," in err) == (
            3,
            True,
        )
        code, out, err = run(*predict, "--decimal", ",")
    assert (code, err) == (0, "")
    expected = marginout.load(tmp_path / "a.model").decision_function(frame.head(1).assign(x=1.234, k=1))
    assert_allclose(pd.read_csv(io.StringIO(out))["score"], expected, rtol=1e-12)


def test_a_frame_without_rows_is_refused_in_words(saved):
    with pytest.raises(ValueError, match="0 sample"):
        marginout.load(saved / "svm.model").predict(every_kind().head(0))


def test_number_codes_beside_gaps_are_the_same_with_decimal_commas(run, tmp_path):
    frame = table(tmp_path / "a.csv", {"code": np.array([20, 60, 190])[np.arange(80) % 3], "x": NUMBERS[:80]})
    fitted(run, tmp_path / "a.csv", "--categorical", "code")
    frame["code"] = frame["code"].where(frame.index % 5 > 0)
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "b.tsv", index=False, sep="\t", decimal=",")
    assert "60,0\t" in (tmp_path / "b.tsv").read_text()
    points, commas = (
        run("predict", tmp_path / "a.model", tmp_path / n, "--scores") for n in ("a.csv", "b.tsv")
    )
    assert commas == points
    assert commas[2] == ""


def test_a_question_mark_is_a_missing_cell(run, tmp_path):
    power = np.arange(80).astype(str)
    power[7] = "?"
    table(tmp_path / "a.csv", {"power": power, "x": NUMBERS[:80]})
    columns, _, err = fitted(run, tmp_path / "a.csv")
    assert (columns["numeric"], columns["left_out"]) == (["power", "x"], {}), err


@pytest.mark.parametrize(
    "labels", [["007", "008"], ["1", "2"], ["TRUE", "FALSE"], ["10 %", "20 %"], ["1.5a", "2"]]
)
def test_labels_come_back_as_they_are(run, tmp_path, labels):
    frame = table(tmp_path / "a.csv", {"x": np.repeat(NUMBERS[:40], 2)})
    frame["y"] = np.array(labels)[(frame["x"] > 0).astype(int)]
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    fitted(run, tmp_path / "a.csv", "--noise", "0", "--C", "100")
    for kind in ("csv", "parquet"):
        out = run("predict", tmp_path / "a.model", tmp_path / f"a.{kind}")[1]
        said = pd.read_csv(io.StringIO(out), dtype=str)["prediction"]
        expected = frame["y"].str.capitalize() if labels[0] == "TRUE" else frame["y"]
        assert (said == expected).mean() > 0.9
        assert set(said) == set(expected)
        accuracy = json.loads(run("score", tmp_path / "a.model", tmp_path / f"a.{kind}", "--json")[1])[
            "accuracy"
        ]
        assert accuracy == (said == expected).mean()


def test_dates_become_features(run, tmp_path):
    rng = np.random.default_rng(0)
    when = pd.Series(
        pd.Timestamp("2020-01-01 07:00") + pd.to_timedelta(rng.integers(0, 20_000, 150), unit="h")
    )
    when[3] = pd.NaT
    day = when.dt.normalize()
    frame = pd.DataFrame(
        {
            "when": when,
            "iso": day.dt.strftime("%Y-%m-%d"),
            "dotted": day.dt.strftime("%d.%m.%Y"),
            "zoned": when.dt.tz_localize("Europe/Rome", ambiguous="NaT", nonexistent="NaT"),
            "short": [f"{t.year}/{t.month}/{t.day} {t.hour}:00" if t == t else None for t in when],
            "slashed": day.dt.strftime("%d/%m/%Y"),
            "y": ["no", "yes"] * 75,
        }
    )
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "b.parquet")
    described = [fitted(run, tmp_path / name) for name in ("a.csv", "b.parquet")]
    assert described[0][:2] == described[1][:2]
    columns, names, _ = described[0]
    assert columns["dates"] == ["when", "iso", "dotted", "zoned", "short"]
    assert list(columns["left_out"]) == ["slashed"]
    assert "cannot be told apart: write 2024-04-03" in columns["left_out"]["slashed"]
    assert {"when: days", "when: year", "when: hour", "when: month = 1", "when: weekday = Monday"} <= set(
        names
    )
    truths = {"when": when, "iso": day, "dotted": day, "zoned": frame["zoned"], "short": when}
    for path in (tmp_path / "a.model", tmp_path / "b.model"):
        for source in (frame, pd.read_csv(tmp_path / "a.csv"), pd.read_parquet(tmp_path / "b.parquet")):
            made = marginout.load(path)[0].transform(source)
            for name, truth in truths.items():
                truth = truth.dt.tz_convert("UTC").dt.tz_localize(None) if name == "zoned" else truth
                seconds = (truth - pd.Timestamp(0)).dt.total_seconds()
                assert_allclose(made[f"{name}: days"], seconds / 86_400, rtol=0, atol=1e-9)
                assert_array_equal(made[f"{name}: year"], truth.dt.year)
                assert_array_equal(made[f"{name}: hour"], truth.dt.hour)
                month = ["" if np.isnan(m) else str(int(m)) for m in truth.dt.month]
                assert_array_equal(made[f"{name}: month"], month)
                assert_array_equal(made[f"{name}: weekday"], truth.dt.day_name().fillna("").astype(object))
    pipeline = marginout.load(tmp_path / "a.model")
    with pytest.raises(ValueError, match="'iso' holds 'soon' where a date is needed"):
        pipeline.predict(frame.assign(iso="soon"))


def test_naming_a_kind_keeps_the_other_columns(run, tmp_path, saved):
    path = tmp_path / "all.csv"
    path.write_bytes((saved / "all.csv").read_bytes())
    everything = fitted(run, path)[0]
    assert everything["numeric"] == ["size", "count", "member", "ward"]
    named = fitted(run, path, "--text", "city", "--drop", "seen")[0]
    assert (named["text"], named["numeric"]) == (["city", "note"], everything["numeric"])
    assert named["left_out"] == {"seen": "dropped"}
    only = fitted(run, path, "--only", "size,city", "--categorical", "ward")[0]
    assert (only["numeric"], only["categorical"], only["text"]) == (["size"], ["ward", "city"], [])
    assert set(only["left_out"].values()) == {"not in --only"}
    chosen = fitted(run, path, "--where", "ward=3")[0]
    assert chosen["left_out"] == {"ward": "the same in all rows by --where"}


def test_a_table_has_the_same_features_in_every_format(run, tmp_path, saved):
    found = []
    for kind in ("csv", "parquet", "jsonl"):
        path = tmp_path / f"{kind}.{kind}"
        path.write_bytes((saved / f"all.{kind}").read_bytes())
        columns, names, _ = fitted(run, path)
        found.append(
            (names, {k: columns[k] for k in ("numeric", "categorical", "text", "dates", "left_out")})
        )
    assert found[0] == found[1] == found[2]
    assert "city = (missing)" in found[0][0]
    assert "city = NA" not in found[0][0]
