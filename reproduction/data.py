"""Load the data of the experiments from the folder in MARGINOUT_DATA.

A loader keeps its last result for the next cell, so the arrays must not be changed.
"""

from __future__ import annotations

import json
import lzma
import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

DATA = "MARGINOUT_DATA"
DOMAINS = ("books", "kitchen", "dvd", "electronics")


class DataMissingError(Exception):
    """A data file is missing. The cells that need it are skipped."""


@dataclass(frozen=True)
class Problem:
    """Training and test data; X is CSR or dense."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any

    def thin(self, rows: int | None) -> Problem:
        """Keep `rows` training rows and as many test rows, evenly spread. None keeps all of them."""
        if rows is None:
            return self
        few, few_test = _spread(len(self.y), rows), _spread(len(self.y_test), rows)
        thinned = Problem(self.X[few], self.y[few], self.X_test[few_test], self.y_test[few_test])
        return thinned if self.y.dtype.kind == "f" else thinned.known_classes()

    def known_classes(self) -> Problem:
        """Remove the test rows whose class has no training row."""
        known = np.isin(self.y_test, self.y)
        return replace(self, X_test=self.X_test[known], y_test=self.y_test[known])


@lru_cache(1)
def amazon(domain: str) -> Problem:
    """Reviews of one product domain as counts of 5,000 words and bigrams; 2,000 training rows."""
    X, z = stored(f"amazon_{domain}_5000.npz")
    return _split(X, z["y"], z["split"] == 0)


def amazon_20000(domain: str, fold: int, folds: int) -> Problem:
    """The 2,000 training reviews as 20,000 counts. One of `folds` folds is the test set."""
    from sklearn.model_selection import StratifiedKFold

    X, z = stored("amazon_labelled_20000.npz")
    rows = z["domain"] == [str(name) for name in z["domain_names"].astype(str)].index(domain)
    X, y = X[rows], z["y"][rows]
    splits = list(StratifiedKFold(folds, shuffle=True, random_state=0).split(X, y))
    test = np.zeros(len(y), dtype=bool)
    test[splits[fold][1]] = True
    return _split(X, y, ~test)


@lru_cache(1)
def reuters() -> Problem:
    """Reuters-21578 as term counts: the 58 of its 65 classes that have training documents."""
    X, z = stored("reuters21578_65.npz")
    return _split(X, z["y"], z["split"] == 0).known_classes()


@lru_cache(1)
def newsgroups() -> Problem:
    """20 newsgroups, log counts of 17,576 words, rows of length one; 11,314 training posts."""
    X, z = stored("newsgroups20_bow.npz")
    return _split(_log_counts(X), z["y"], z["split"] == 0)


#: Sets of texts: the file, and the labels to keep of one with many.
TEXTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "AthR": ("newsgroups20_text.jsonl.xz", ("alt.atheism", "talk.religion.misc")),
    "XGraph": ("newsgroups20_text.jsonl.xz", ("comp.windows.x", "comp.graphics")),
    "BbCrypt": ("newsgroups20_text.jsonl.xz", ("rec.sport.baseball", "sci.crypt")),
    "RT-s": ("sentence_polarity.jsonl.xz", ()),
    "Subj": ("subjectivity.jsonl.xz", ()),
}


def texts(name: str) -> tuple[list[str], Any, Any]:
    """Texts, labels, and the split if the source has one: 0 for training, 1 for test."""
    name, groups = TEXTS[name]
    with lzma.open(file(name), "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    split = None
    if "split" in rows[0]:
        rows = [row for row in rows if not groups or row["group"] in groups]
        split = np.array([row["split"] != "train" for row in rows]).astype(int)
    labels = np.array([row["group"] if groups else row["label"] for row in rows])
    if groups:
        return [row["text"].partition("\n\n")[2] for row in rows], labels, split  # without headers
    return [row["text"].replace("<br />", " ") for row in rows], labels, split


def ngrams(documents: list[str], y: Any, split: Any, longest: int) -> tuple[Any, Any, Any]:
    """Counts of words and marks of punctuation, and of their n-grams up to `longest`."""
    from sklearn.feature_extraction.text import CountVectorizer

    options = {"token_pattern": r"\w+|[^\w\s]", "dtype": np.float64}
    vectorizer = CountVectorizer(ngram_range=(1, longest), **options)
    train = (
        documents
        if split is None
        else [text for text, part in zip(documents, split, strict=True) if part == 0]
    )
    return vectorizer.fit(train).transform(documents), y, split


def hotel(seed: int, log: bool) -> Problem:
    """5,000 hotel reviews, half for training; counts, or log counts in unit rows; standardised ratings."""
    X, z = stored("hotel_reviews_bow.npz")
    train = np.zeros(X.shape[0], dtype=bool)
    train[np.random.default_rng(seed).permutation(X.shape[0])[: X.shape[0] // 2]] = True
    rating = z["rating"].astype(np.float64)
    return _split(_log_counts(X) if log else X, (rating - rating[train].mean()) / rating[train].std(), train)


@lru_cache(1)
def mnist() -> Problem:
    """60,000 + 10,000 digits of 784 pixels in [0, 1], dense float32."""
    with np.load(file("mnist.npz")) as z:
        images = [z[name].reshape(-1, 784).astype(np.float32) / 255 for name in ("X_train", "X_test")]
        return Problem(images[0], z["y_train"], images[1], z["y_test"])


def bundled(name: str) -> Problem:
    """A small data set of scikit-learn, half for training: breast_cancer or diabetes."""
    from sklearn import datasets
    from sklearn.preprocessing import scale

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    y = 2 * y - 1 if name == "breast_cancer" else scale(y)
    return _split(scale(X), y, np.random.default_rng(0).random(len(y)) < 0.5)


def file(name: str, cure: str = "") -> Path:
    """Path of a file in the data folder."""
    folder = os.environ.get(DATA)
    if not folder:
        raise DataMissingError(f"{name} is needed: set {DATA} to the folder that holds it. {cure}".strip())
    path = Path(folder) / name
    if not path.is_file():
        raise DataMissingError(f"{name} is not in the folder that {DATA} names. {cure}".strip())
    return path


def stored(name: str) -> tuple[Any, dict[str, Any]]:
    """A stored CSR matrix as float64, and the other arrays of its file."""
    with np.load(file(name)) as z:
        arrays = dict(z)
    parts = arrays["data"].astype(np.float64), arrays["indices"], arrays["indptr"]
    return sp.csr_matrix(parts, shape=tuple(arrays["shape"])), arrays


def _log_counts(X: Any) -> Any:
    from sklearn.preprocessing import normalize

    np.log1p(X.data, out=X.data)
    return normalize(X)


def _split(X: Any, y: Any, train: Any) -> Problem:
    return Problem(X[train], y[train], X[~train], y[~train])


def _spread(n: int, rows: int) -> Any:
    return np.linspace(0, n - 1, min(rows, n)).astype(int)
