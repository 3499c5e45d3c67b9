"""Compare one pass of `partial_fit` with the batch fit and SGDClassifier: `python -m benchmarks.online`.

Streams have 1,000,000 examples: generated ones (10,000 features of power-law frequency, 50 non-zeros per
row), the Amazon reviews of four domains, and the eights of MNIST against the rest, drawn with replacement
from their training examples. A call has 10,000 rows. The batch optimum is that of `fit` on the same
examples, each weighted by how often it was drawn. Times are CPU times of the process. Ratios are to
`partial_fit` of SGDClassifier over the same calls, the faster of two runs each. The errors of
SGDClassifier, with and without averaging, are listed too.

Progressive validation: every part of a real stream is first predicted, then learnt. The Amazon reviews
come domain after domain, the posts of the newsgroups in random order.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import normalize

from benchmarks.peers import PAPER
from benchmarks.problems import DOMAINS, DataMissingError, amazon, mnist, newsgroups
from benchmarks.report import RESULTS, environment, load, record, write_lines
from marginout import DropoutSVC
from marginout._core.design.storage import make_design
from marginout._core.objective import Objective
from marginout._core.shard import Shard

CALL = 10_000
RATES = 0.0, 0.3, 0.5, 0.9
#: C · length of the stream: the value with the smallest errors of the batch models.
WEIGHTS = {"generated": 1e6, "amazon": 3e4, "mnist 8": 1e3}


def generated(n: int) -> tuple[Any, ...]:
    """Rows of length one over 10,000 features of power-law frequency; a tenth of the labels flipped."""
    rng = np.random.default_rng(0)
    d, size = 10_000, n + 50_000
    often = (np.arange(d) + 20.0) ** -0.8
    columns = np.searchsorted(np.cumsum(often) / often.sum(), rng.random((size, 50))).clip(max=d - 1)
    values = np.log1p(1.0 + rng.poisson(0.3, columns.shape))
    rows = np.repeat(np.arange(size, dtype=np.int32), 50)
    X = sp.csr_matrix((values.ravel(), (rows, columns.ravel())), shape=(size, d))
    X = normalize(X, copy=False)
    score = X @ (2 * rng.standard_normal(d) * (rng.random(d) < 0.5)) + 0.4 * rng.standard_normal(size) - 0.1
    y = np.where((score > 0) ^ (rng.random(size) < 0.1), 1, -1)
    return X[:n], y[:n], X[n:], y[n:], np.arange(n)


def reviews(n: int) -> tuple[Any, ...]:
    """Reviews of all domains: words and bigrams that occur, rows of length one; 20,000 to draw from."""
    parts = [amazon(domain) for domain in DOMAINS]
    X = sp.vstack([sp.vstack([part.X, part.X_test]) for part in parts]).tocsr()
    X.data[:] = 1
    X, y = normalize(X), np.concatenate([np.concatenate([part.y, part.y_test]) for part in parts])
    rng = np.random.default_rng(1)
    order = rng.permutation(len(y))
    train, test = order[:20_000], order[20_000:]
    return X[train], y[train], X[test], y[test], rng.integers(0, len(train), n)


def eights(n: int) -> tuple[Any, ...]:
    """The eights of MNIST against the other digits."""
    problem = mnist()
    X, X_test = sp.csr_matrix(problem.X), sp.csr_matrix(problem.X_test)
    drawn = np.random.default_rng(1).integers(0, X.shape[0], n)
    return X, np.where(problem.y == 8, 1, -1), X_test, np.where(problem.y_test == 8, 1, -1), drawn


STREAMS: dict[str, Callable[[int], tuple[Any, ...]]] = {
    "generated": generated,
    "amazon": reviews,
    "mnist 8": eights,
}


def one_pass(model: Any, X: Any, y: Any) -> float:
    """CPU seconds of one pass, in calls of CALL rows."""
    start = time.process_time()
    for i in range(0, len(y), CALL):
        model.partial_fit(X[i : i + CALL], y[i : i + CALL], classes=[-1, 1])
    return time.process_time() - start


def objective(model: Any, X: Any, y: Any, counts: Any) -> float:
    """F of a model on weighted examples."""
    Y = np.where(y > 0, 1.0, -1.0)[:, None]
    shard = Shard(make_design(X, model._noise()), model._loss(Y), Y, model.C * counts[:, None])
    F = Objective.of(model._penalty(), shard, True)
    return float(F.point(np.ascontiguousarray(model.coef_.T), model.intercept_).value[0])


def _sgd(name: str, average: bool) -> Any:
    """SGDClassifier with the same ridge as DropoutSVC: alpha = 1/(C·n)."""
    return SGDClassifier(alpha=1 / WEIGHTS[name], average=average, random_state=0)


def compare(name: str, n: int) -> list[dict[str, Any]]:
    """Results for every rate on one stream."""
    X, y, X_test, y_test, drawn = STREAMS[name](n)
    rows, labels = (X, y) if np.array_equal(drawn, np.arange(len(y))) else (X[drawn], y[drawn])
    counts = np.bincount(drawn, minlength=len(y)).astype(float)
    seen = counts > 0
    peers = [_sgd(name, average) for average in (False, False, True)]
    seconds_of_peer = min([one_pass(peer, rows, labels) for peer in peers][:2])
    plain, averaged = (f"{100 * (1 - peer.score(X_test, y_test)):.2f}" for peer in peers[1:])
    lines = []
    for rate in RATES:
        model = DropoutSVC(C=WEIGHTS[name] / n, noise=rate, **PAPER)
        batch = DropoutSVC(C=model.C, noise=rate, **PAPER).fit(X[seen], y[seen], sample_weight=counts[seen])
        seconds = min(
            one_pass(DropoutSVC(C=model.C, noise=rate, **PAPER), rows, labels), one_pass(model, rows, labels)
        )
        ratio = objective(model, X, y, counts) / objective(batch, X, y, counts)
        errors = [100 * (1 - each.score(X_test, y_test)) for each in (batch, model)]
        lines.append(
            {
                "stream": name,
                "rate": rate,
                "objective above the optimum, %": f"{100 * (ratio - 1):.2f}",
                "batch error, %": f"{errors[0]:.2f}",
                "one pass, %": f"{errors[1]:.2f}",
                "SGDClassifier, %": plain,
                "averaged, %": averaged,
                "time / SGDClassifier's": f"{seconds / seconds_of_peer:.1f}",
            }
        )
        print(*lines[-1].values(), sep=" | ", flush=True)
    return lines


def progressive(name: str, X: Any, y: Any, part: int = 100) -> dict[str, Any]:
    """Errors when every part of a stream is predicted before it is learnt."""
    classes = np.unique(y)
    models = {
        "DropoutSVC(0.5)": DropoutSVC(C=1.0, noise=0.5, **PAPER),
        "DropoutSVC(0)": DropoutSVC(C=1.0, noise=0.0, **PAPER),
        "SGDClassifier": SGDClassifier(random_state=0),
        "SGDClassifier(average)": SGDClassifier(average=True, random_state=0),
    }
    line: dict[str, Any] = {"stream": name, "examples": len(y)}
    for label, model in models.items():
        wrong = 0
        for i in range(0, len(y), part):
            if i:
                wrong += int(np.sum(model.predict(X[i : i + part]) != y[i : i + part]))
            model.partial_fit(X[i : i + part], y[i : i + part], classes=classes)
        line[label] = f"{100 * wrong / (len(y) - part):.1f}"
    print(*line.values(), sep=" | ", flush=True)
    return line


def real_streams() -> list[dict[str, Any]]:
    """Reviews domain after domain, each in random order; posts in random order."""
    rng = np.random.default_rng(0)
    parts = [amazon(domain) for domain in DOMAINS]
    X = [sp.vstack([part.X, part.X_test]).tocsr() for part in parts]
    y = [np.concatenate([part.y, part.y_test]) for part in parts]
    orders = [rng.permutation(len(each)) for each in y]
    X = normalize(sp.vstack([each[order] for each, order in zip(X, orders, strict=True)]).tocsr())
    lines = [progressive("amazon", X, np.concatenate([each[o] for each, o in zip(y, orders, strict=True)]))]
    posts = newsgroups().words_as("log counts, unit rows")
    order = rng.permutation(len(posts.y))
    return [*lines, progressive("20 newsgroups", posts.X[order], posts.y[order])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=1_000_000, help="length of the streams")
    parser.add_argument("--only", nargs="+", choices=STREAMS, default=list(STREAMS))
    parser.add_argument("--write", action="store_true", help="replace the measured numbers in results/")
    arguments = parser.parse_args()
    print(environment())
    before = load()
    try:
        streams = real_streams()
        lines = [line for name in arguments.only for line in compare(name, arguments.examples)]
    except DataMissingError as missing:
        raise SystemExit(f"skipped: {missing}") from None
    if arguments.write:
        write_lines(lines, "online", RESULTS)
        write_lines(streams, "online_progressive", RESULTS)
        record("online", before, RESULTS)


if __name__ == "__main__":
    main()
