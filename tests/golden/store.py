"""Write fitted models of the version that is installed, for `test_stored.py` of all versions to come.

    python tests/golden/store.py        # writes tests/golden/<version>/, once per release

A folder holds every model as a pickle and as a skops file, models that the command has saved, and
`expected.json`: what they were given, what they said, and the versions that wrote them. Run it in the
environment of `make test-oldest` (.venv-oldest/bin/python): what the lowest versions of scikit-learn and
skops have written, all others must read.
"""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import re
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import skops.io
from sklearn.base import is_classifier

import marginout
from marginout import noise
from marginout.cli import main

FOLDER = Path(__file__).parent
NAMES = ["age", "height", "job_cook", "job_smith"]
GROUPS = {"body": ["age", "height"], "job": "job_"}
SEARCH = {"Cs": [0.1, 1.0], "noises": [0.1, 0.3], "cv": 2}
LATENT = {"n_hidden": 2, "noise": 0.2, "max_iter": 30, "random_state": 0}
NOISES = {
    "rate 0": 0.0,
    "dropout": noise.Dropout(0.3),
    "rates": noise.Dropout([0.1, 0.2, 0.3, 0.4]),
    "deletion": noise.Deletion(0.3),
    "gaussian": noise.Gaussian(0.2),
    "laplace": noise.Laplace([0.1, 0.2, 0.3, 0.4]),
    "poisson": noise.Poisson(),
    "bitswap": noise.BitSwap(0.1),
    "group dropout": noise.GroupDropout([0, 0, 1, 1], [0.2, 0.4]),
    "group deletion": noise.GroupDeletion([[0, 1], [2, 3]], 0.3),
}
#: A file, and arguments of `marginout fit`, by the name of a model.
COMMANDS = {
    "command svm": ["matrix.npz", "--model", "svm"],
    "command logistic, searched": [
        "matrix.npz",
        "--model",
        "logistic",
        "--cv",
        "--folds",
        "2",
        "--noise",
        "0.1,0.3",
    ],
    "command latent": ["matrix.npz", "--model", "latent-svm", "--hidden", "2", "--noise", "0.2"],
    "command mcf, table": ["table.csv", "--target", "y", "--model", "mcf", "--missing", "deleted"],
    "command svm, table, imputed": ["table.csv", "--target", "y", "--model", "svm"],
}


def models() -> dict[str, Any]:
    """One unfitted model of every kind, and one of every noise."""
    from marginout import (
        DropoutLogisticRegression,
        DropoutLogisticRegressionCV,
        DropoutSVC,
        DropoutSVCCV,
        DropoutSVR,
        DropoutSVRCV,
    )

    return {
        **{f"svc, {name}": DropoutSVC(noise=kind) for name, kind in NOISES.items()},
        "lr": DropoutLogisticRegression(noise=0.2, expectation="gaussian"),
        "lr, three classes": DropoutLogisticRegression(noise=0.2, class_weight="balanced"),
        "svr": DropoutSVR(noise=0.2),
        "svc, names": DropoutSVC(noise=noise.GroupDropout(GROUPS, [0.1, 0.4])),
        "lr, names, missing": DropoutLogisticRegression(
            noise=noise.GroupDeletion(GROUPS, 0.2), missing="deleted"
        ),
        "svr, missing": DropoutSVR(noise=0.3, missing="deleted"),
        "svc, stream": DropoutSVC(noise=0.2),
        "lr, stream, three classes": DropoutLogisticRegression(noise=noise.Gaussian(0.1)),
        "svr, stream": DropoutSVR(noise=noise.GroupDropout([0, 0, 1, 1], 0.2)),
        "svc search": DropoutSVCCV(**SEARCH),
        "svc search, names": DropoutSVCCV(**{**SEARCH, "noises": [noise.GroupDropout(GROUPS, 0.2), 0.1]}),
        "lr search": DropoutLogisticRegressionCV(**SEARCH, select="one_se"),
        "svr search": DropoutSVRCV(**SEARCH),
        "fdrop": marginout.FeatureDeletionSVC(),
        "mcf logistic": marginout.MCFClassifier(noise=0.2),
        "mcf quadratic": marginout.MCFClassifier("quadratic", noise=noise.Deletion(0.2)),
        "mcf exponential": marginout.MCFClassifier("exponential", noise=noise.Laplace(0.2)),
        "mcf regressor": marginout.MCFRegressor(noise=0.2),
        "latent svc": marginout.LatentDropoutSVC(**LATENT),
        "latent lr, names": marginout.LatentDropoutLogisticRegression(**LATENT, activation="tanh"),
        "latent svr": marginout.LatentDropoutSVR(**LATENT, activation="relu"),
        "copies svc": marginout.ExplicitCorruptionClassifier(DropoutSVC(), n_copies=2, random_state=0),
        "copies svr": marginout.ExplicitCorruptionRegressor(DropoutSVR(), n_copies=2, random_state=0),
    }


def stem(name: str) -> str:
    """A model's name as that of its files."""
    return re.sub(r"\W+", "-", name)


def data(name: str, model: Any) -> tuple[Any, Any]:
    """X and y that suit a model: bits, named columns, missing cells, three classes, as its name says."""
    rng = np.random.default_rng(0)
    X = rng.gamma(1.0, size=(40, 4)).round(2)
    if "bitswap" in name:
        X = (X > 0.7).astype(float)
    score = X @ [1.0, -2.0, 1.0, 0.5] + 0.3 * rng.normal(size=40)
    if "missing" in name:
        X.flat[::9] = np.nan
    y: Any = score.round(2)
    if is_classifier(model):
        y = np.digitize(score, [-0.5, 0.7]) if "three classes" in name else np.where(score > 0, "yes", "no")
    return (pd.DataFrame(X, columns=NAMES) if "names" in name else X), y


def answers(model: Any, X: Any) -> dict[str, Any]:
    """What a fitted model says of X, by method."""
    names = ("predict", "decision_function", "predict_proba", "transform")
    return {name: getattr(model, name)(X).tolist() for name in names if hasattr(model, name)}


def as_input(X: Any, names: list[str] | None) -> Any:
    """X as it was given: an array, or a data frame where features have names."""
    return np.array(X, dtype=float) if names is None else pd.DataFrame(X, columns=names)


def fitted(name: str, model: Any) -> tuple[Any, dict[str, Any]]:
    """A fitted model, and what to expect of it."""
    X, y = data(name, model)
    first = {"classes": np.unique(y)} if is_classifier(model) else {}
    model = model.partial_fit(X, y, **first) if "stream" in name else model.fit(X, y)
    some = X[:5]
    expected = {
        "X": np.asarray(some).tolist(),
        "names": NAMES if "names" in name else None,
        "answers": answers(model, some),
    }
    if "stream" in name:  # where it goes on with the same examples
        more = pickle.loads(pickle.dumps(model)).partial_fit(some, y[:5])
        expected |= {"more": np.asarray(y[:5]).tolist(), "answers after": answers(more, some)}
    return model, expected


def command_models(folder: Path) -> dict[str, Any]:
    """Models that the command fits to a matrix or a table, saved in a folder; what to expect of them."""
    X, y = data("names", marginout.DropoutSVC())
    table = X.assign(city=np.where(X["age"] > 1, "Rome", "Oslo"))
    table.loc[::8, "height"] = np.nan
    some = {"matrix.npz": X.to_numpy()[:5], "table.csv": table[:5]}
    expected = {}
    with tempfile.TemporaryDirectory() as scratch:
        np.savez(Path(scratch, "matrix.npz"), X=X.to_numpy(), y=y)
        table.assign(y=y).to_csv(Path(scratch, "table.csv"), index=False)
        for name, (file, *options) in COMMANDS.items():
            path = folder / f"{stem(name)}.model"
            with contextlib.redirect_stdout(io.StringIO()):
                assert main(["fit", f"{scratch}/{file}", "--out", str(path), "--quiet", *options]) == 0
            values = np.asarray(some[file], dtype=object)
            expected[name] = {
                "X": np.where(pd.isna(values), None, values).tolist(),
                "names": list(table) if file == "table.csv" else None,
                "answers": answers(marginout.load(path), some[file]),
            }
    return expected


def store() -> Path:
    """The folder of this version, written."""
    folder = FOLDER / marginout.__version__
    folder.mkdir()
    expected = {}
    for name, model in models().items():
        model, expected[name] = fitted(name, model)
        content = pickle.dumps(model, protocol=5)
        # scikit-learn does not promise to read its own objects of another version: there are none of them.
        assert b"sklearn" not in content, name
        (folder / f"{stem(name)}.pkl").write_bytes(content)
        skops.io.dump(model, folder / f"{stem(name)}.skops", compression=zipfile.ZIP_DEFLATED)
    expected |= command_models(folder)
    made = versions()
    text = json.dumps({"versions": made, "models": expected}, separators=(",", ":"))
    (folder / "expected.json").write_text(text.replace('},"', '},\n"') + "\n")
    return folder


def versions() -> dict[str, str]:
    """What the files are written with."""
    import sklearn

    return {
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "skops": skops.__version__,
    }


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = store()
    print(f"{made}: {sum(path.stat().st_size for path in made.iterdir()):,} bytes")
