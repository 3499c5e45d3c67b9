"""The command in this process, on small files."""

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_digits

from marginout.cli import main

pytest.importorskip("pandas")
pytest.importorskip("skops")
pytest.importorskip("pyarrow")


@pytest.fixture
def run(capsys):
    """Call the command; returns exit code, standard output and standard error."""

    def call(*argv):
        code = main([str(part) for part in argv])
        return code, *capsys.readouterr()

    return call


def people(n, seed=0):
    """A table with numbers, categories, texts, missing cells and markup."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    age = rng.normal(40, 12, n).round(1)
    city = rng.choice(["Rome", "Oslo", "Ürümqi", "<b>Bern</b>"], n)
    shop = rng.integers(1, 9, n)
    words = np.array(["good", "bad", "fine", "poor", "new", "old", "red", "wide"])
    picks = rng.integers(0, 8, (n, 6))
    note = [" ".join(words[row]) for row in picks]
    score = (age - 40) / 12 + 2.0 * (city == "Rome") + 0.8 * (picks == 0).sum(1) + rng.normal(0, 0.5, n)
    frame = pd.DataFrame(
        {"id": [f"u{i}" for i in range(n)], "age": age, "city": city, "shop": shop, "note": note}
    )
    for name in ("age", "city", "shop", "note"):
        frame[name] = frame[name].where(rng.random(n) > 0.1)
    frame["bought"] = np.where(score > 1.2, "yes", "no")
    frame["spent"] = score.round(3)
    return frame


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """One table and one matrix in every format, and models of both."""
    folder = tmp_path_factory.mktemp("files")
    frame = people(240)
    frame.to_csv(folder / "people.csv", index=False)
    frame.to_csv(folder / "people.tsv.gz", index=False, sep="\t")
    frame.to_parquet(folder / "people.parquet")
    frame.to_json(folder / "people.jsonl.xz", orient="records", lines=True)
    X, y = load_digits(n_class=4, return_X_y=True)
    X, y = X[:300] / 16, y[:300]
    np.savez(folder / "digits.npz", X=X, y=y, part=np.arange(300) % 2)
    dump_svmlight_file(X, y, str(folder / "digits.svmlight"), zero_based=False)
    assert (
        main(
            [
                "fit",
                str(folder / "people.csv"),
                "--target",
                "bought",
                "--drop",
                "spent",
                "--out",
                str(folder / "people.model"),
            ]
        )
        == 0
    )
    assert main(["fit", str(folder / "digits.svmlight"), "--out", str(folder / "digits.model")]) == 0
    return folder
