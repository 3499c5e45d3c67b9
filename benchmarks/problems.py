"""Load or generate problems: real data from the folder in MARGINOUT_DATA, scikit-learn's, generated ones."""

from __future__ import annotations

import json
import lzma
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.preprocessing import normalize, scale

DATA = "MARGINOUT_DATA"
DOMAINS = ("books", "dvd", "electronics", "kitchen")
#: Tables of TabFSBench: with classes, then with numbers to predict.
TABFS = (
    "credit",
    "electricity",
    "heart",
    "eyemovements",
    "iris",
    "abalone",
    "bike",
    "concrete",
    "laptop",
)
#: Features that can be made from word counts: see :meth:`Problem.words_as`.
WORDS = ("counts", "0 and 1", "log counts", "log counts, unit rows", "tf-idf, unit rows")


class DataMissingError(Exception):
    """A data file is missing. The section that needs it is skipped."""


@dataclass(frozen=True)
class Problem:
    """Training and test data. X is CSR or dense. Generated problems have no test data."""

    name: str
    X: Any
    y: Any
    X_test: Any = None
    y_test: Any = None
    words: str | None = None

    @property
    def nnz(self) -> int:
        return int(self.X.nnz if sp.issparse(self.X) else self.X.size)

    @property
    def input_bytes(self) -> int:
        """Bytes of X as it is passed to fit."""
        if sp.issparse(self.X):
            return int(self.X.data.nbytes + self.X.indices.nbytes + self.X.indptr.nbytes)
        return int(self.X.nbytes)

    def thin(self, rows: int | None) -> Problem:
        """Keep `rows` training rows, evenly spread, and the test rows of their classes."""
        if rows is None or rows >= self.X.shape[0]:
            return self
        chosen = np.linspace(0, self.X.shape[0] - 1, rows).astype(int)
        return _known_classes(replace(self, X=self.X[chosen], y=self.y[chosen]))

    def words_as(self, words: str) -> Problem:
        """Counts x as they are, as 1 where x > 0, as log(1 + x), or one of two in rows of length one.

        These two are log(1 + x), and (1 + log x)·log(inverse document frequency) with the frequencies of the
        training rows. The command makes the last from texts.
        """
        make: dict[str, Callable[[Any], Any]] = {
            "counts": lambda X: X,
            "0 and 1": lambda X: X.sign(),
            "log counts": lambda X: X.log1p(),
            "log counts, unit rows": lambda X: normalize(X.log1p()),
            "tf-idf, unit rows": TfidfTransformer(sublinear_tf=True).fit(self.X).transform,
        }
        X, X_test = (make[words](each).tocsr() for each in (self.X, self.X_test))
        return replace(self, X=X, X_test=X_test, words=words)


def amazon(domain: str) -> Problem:
    """Reviews of one product domain as counts of 5,000 words and bigrams; 2,000 training rows."""
    X, z = _csr(f"amazon_{domain}_5000.npz")
    return _split(domain, X, z["y"], z["split"] == 0)


def reuters() -> Problem:
    """Reuters-21578 as term counts: the 58 of its 65 classes that have training documents."""
    X, z = _csr("reuters21578_65.npz")
    return _known_classes(_split("reuters", X, z["y"], z["split"] == 0))


def newsgroups() -> Problem:
    """20 newsgroups as counts of 17,576 words; 11,314 training posts."""
    X, z = _csr("newsgroups20_bow.npz")
    return _split("20 newsgroups", X, z["y"], z["split"] == 0)


def a9a() -> Problem:
    """Adult as 123 binary features, CSR; 32,561 training rows."""
    X, z = _csr("a9a.npz")
    return _split("a9a", X, z["y"], z["split"] == 0)


def w8a(seed: int = 0) -> Problem:
    """Web pages as 300 binary features, 3 % of them positive, CSR; four fifths for training."""
    X, z = _csr("w8a.npz")
    return _split("w8a", X, z["y"], np.random.default_rng(seed).random(X.shape[0]) < 0.8)


def news(seed: int = 0) -> Problem:
    """AG News, four classes, as counts of words in three texts or more, CSR; four fifths for training."""
    with lzma.open(_file("agnews_17k.jsonl.xz"), "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    train = np.random.default_rng(seed).random(len(lines)) < 0.8
    texts, labels = np.array([line["text"] for line in lines]), np.array([line["label"] for line in lines])
    words = CountVectorizer(min_df=3, dtype=np.float64).fit(texts[train])
    return _split("AG News", words.transform(texts).tocsr(), labels, train)


def mnist() -> Problem:
    """60,000 + 10,000 digits of 784 pixels in [0, 1], dense float32."""
    with np.load(_file("mnist.npz")) as z:
        images = {name: z[name].reshape(-1, 784).astype(np.float32) for name in ("X_train", "X_test")}
        for X in images.values():
            X /= 255
        return Problem("mnist", images["X_train"], z["y_train"], images["X_test"], z["y_test"])


def mcf_digits() -> Problem:
    """The 5,000 + 5,000 digits of MNIST in the demonstration of the authors of MCF, dense float64."""
    with np.load(_file("mnist.npz")) as z:
        train, test = z["mcf_demo_train_idx"], z["mcf_demo_test_idx"]
        X, X_test = z["X_train"][train].reshape(-1, 784) / 255.0, z["X_test"][test].reshape(-1, 784) / 255.0
        return Problem("mcf digits", X, z["y_train"][train], X_test, z["y_test"][test])


def hotel(seed: int = 0) -> Problem:
    """5,000 hotel reviews with ratings, half for training; log counts of 12,000 words, rows of length one."""
    X, z = _csr("hotel_reviews_bow.npz")
    np.log1p(X.data, out=X.data)
    train = np.zeros(X.shape[0], dtype=bool)
    train[np.random.default_rng(seed).permutation(X.shape[0])[: X.shape[0] // 2]] = True
    return _split("hotel", normalize(X), z["rating"].astype(np.float64), train)


def bundled(name: str, seed: int = 0) -> Problem:
    """A small data set of scikit-learn, half for training: breast_cancer, digits or diabetes."""
    loaders = {"breast_cancer": load_breast_cancer, "digits": load_digits, "diabetes": load_diabetes}
    X, y = loaders[name](return_X_y=True)
    X = X / 16 if name == "digits" else scale(X)
    train = np.random.default_rng(seed).random(len(y)) < 0.5
    return _split(name, X, y, train)


def tabfs(name: str) -> Any:
    """A table of TabFSBench as a pandas data frame; its last column is the target."""
    import pandas

    return pandas.read_csv(_file(f"tabfsbench/{name}.csv.xz"), skipinitialspace=True)


def usps(rows: int = 1000, seed: int = 0) -> Problem:
    """Digits of 16 x 16 pixels in [0, 1], classes 0 to 9: `rows` to train on, 2,000 others to test."""
    with np.load(_file("usps.npz")) as z:
        order = np.random.default_rng(seed).permutation(len(z["y"]))
        X, y = z["X"].reshape(len(order), -1) / 255.0, z["y"].astype(int) - 1
    train, test = order[:rows], order[rows : rows + 2000]
    return Problem("usps", X[train], y[train], X[test], y[test])


def sparse(n: int, d: int, row_nnz: int, seed: int = 0, topics: int = 100) -> Problem:
    """Generated word counts, CSR, about row_nnz of d words per row, with labels by `_teach`.

    Half of the words of a row are drawn from the whole vocabulary, with power-law frequencies, and half from
    the part of it that belongs to the topic of the row. Independent words would make the problem too easy.
    """
    rng = np.random.default_rng(seed)
    position = rng.random((n, row_nnz)) ** 4
    topic = rng.integers(topics, size=(n, 1))
    own = rng.random((n, row_nnz)) < 0.5
    words = np.where(own, (topic + position) / topics, position)
    columns = (d * words).astype(np.int32).ravel()
    indptr = np.arange(0, n * row_nnz + 1, row_nnz, dtype=np.int32 if n * row_nnz < 2**31 else np.int64)
    X = sp.csr_matrix((np.ones(n * row_nnz), columns, indptr), shape=(n, d))
    X.sum_duplicates()
    return Problem(f"sparse {n}x{d}x{row_nnz}", X, _teach(X, rng))


def shard(
    number: int, rows: int, d: int, row_nnz: int, classes: int = 2, topics: int = 100
) -> tuple[Any, Any]:
    """Block `number` of a generated data set of any size, CSR, exactly row_nnz of d words per row.

    As in :func:`sparse`, half of the words, here the odd ones, belong to the topic of the row. The blocks of
    one data set have labels by the same rule.
    """
    rng = np.random.default_rng([number, rows])
    half = row_nnz // 2
    everywhere = ((np.arange(half) + rng.random((rows, half))) / half) ** 2
    own = (np.arange(row_nnz - half) + rng.random((rows, row_nnz - half))) / (row_nnz - half)
    own = (rng.integers(topics, size=(rows, 1)) + own) / topics
    columns = np.hstack(
        [2 * (everywhere * (d // 2)).astype(np.int32), 1 + 2 * (own * (d // 2)).astype(np.int32)]
    )
    columns.sort(axis=1)
    indptr = np.arange(0, rows * row_nnz + 1, row_nnz, dtype=np.int32)
    X = sp.csr_array((0.5 + rng.random(rows * row_nnz), columns.ravel(), indptr), shape=(rows, d))
    scores = X @ np.random.default_rng(0).standard_normal((d, 1 if classes == 2 else classes))
    scores += scores.std() / 3 * rng.standard_normal(scores.shape)
    return X, (scores[:, 0] > 0).astype(int) if classes == 2 else scores.argmax(axis=1)


def dense(n: int, d: int, seed: int = 0, factors: int = 10) -> Problem:
    """Generated float32 features with common factors, rows of about length one, labels by `_teach`."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d), dtype=np.float32)
    loadings = rng.standard_normal((factors, d), dtype=np.float32)
    X += rng.standard_normal((n, factors), dtype=np.float32) @ loadings
    X /= np.float32(np.sqrt(d * (1 + factors)))
    return Problem(f"dense {n}x{d}", X, _teach(X, rng))


def _teach(X: Any, rng: np.random.Generator) -> Any:
    """Labels ±1 = sign of a random linear score plus noise, which is a third as large as the score."""
    score = X @ rng.standard_normal(X.shape[1]).astype(X.dtype)
    score -= score.mean()
    return np.where(score + 0.3 * score.std() * rng.standard_normal(len(score)) > 0, 1, -1)


def _file(name: str) -> Path:
    folder = os.environ.get(DATA)
    if not folder:
        raise DataMissingError(f"{name} is needed: set {DATA} to the folder that holds it")
    path = Path(folder) / name
    if not path.is_file():
        raise DataMissingError(f"{name} is not in the folder that {DATA} names")
    return path


def _csr(name: str) -> tuple[Any, dict[str, Any]]:
    """A stored CSR matrix as float64, and the other arrays of its file."""
    with np.load(_file(name)) as z:
        arrays = dict(z)
    parts = arrays["data"].astype(np.float64), arrays["indices"], arrays["indptr"]
    return sp.csr_matrix(parts, shape=tuple(arrays["shape"])), arrays


def _split(name: str, X: Any, y: Any, train: Any) -> Problem:
    return Problem(name, X[train], y[train], X[~train], y[~train])


def _known_classes(problem: Problem) -> Problem:
    """Remove the test rows whose class has no training row."""
    if problem.X_test is None or problem.y.dtype.kind == "f":
        return problem
    known = np.isin(problem.y_test, problem.y)
    return replace(problem, X_test=problem.X_test[known], y_test=problem.y_test[known])
