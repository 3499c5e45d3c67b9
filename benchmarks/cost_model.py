"""Compare the cost model of docs/scaling.md with fits on local workers: `python -m benchmarks.cost_model`.

    T  =  K (N τ + n R σ) / p   +   8 d K V / β   +   R ℓ + (R + 2) B θ

is the time of an iteration with n examples, N non-zeros, d features, K problems, B blocks and p workers of
one core. The constants are measured after each fit, on the same workers, by tasks that are not part of a
fit: τ and σ on one block, ℓ and θ by tasks that do nothing, V / β by vectors. R, the round trips of an
iteration, is counted. Time per iteration = (time of MANY iterations − time of FEW) / (MANY − FEW).
"""

from __future__ import annotations

import csv
import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from dask import delayed
from distributed import Client, LocalCluster, wait

from benchmarks.problems import shard
from benchmarks.report import RESULTS, environment
from marginout._blocks.cluster import Cluster
from marginout._blocks.fit import block_shard, prepare_block
from marginout._core.fit import make_plan, merge
from marginout._core.shard import Shard
from marginout.dask import DropoutLogisticRegression

FEW, MANY, REPEATS = 2, 10, 1


class Setting(NamedTuple):
    """Size of a problem, its blocks, and the number of workers."""

    rows: int
    d: int
    row_nnz: int
    classes: int
    blocks: int
    workers: int


SETTINGS = [
    Setting(500_000, 10_000, 50, 2, 4, 1),
    Setting(500_000, 10_000, 50, 2, 4, 2),
    Setting(100_000, 10_000, 200, 2, 4, 2),
    Setting(100_000, 10_000, 50, 5, 4, 2),
    Setting(200_000, 1_000_000, 50, 2, 4, 2),
    Setting(200_000, 10_000, 50, 2, 64, 2),
]


class Prediction(NamedTuple):
    """Seconds of an iteration: the three terms of the model."""

    work: float
    vectors: float
    waiting: float


def main() -> None:
    print(environment(), end="\n\n", flush=True)
    names = [*Setting._fields, "round_trips", *Prediction._fields, "predicted", "measured"]
    print("  ".join(names))
    with (RESULTS / "cost_model.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for setting in SETTINGS:
            trips, prediction, measured = check(setting)
            numbers = [trips, *prediction, sum(prediction), measured]
            line = [*setting, *(f"{number:.3g}" for number in numbers)]
            print("  ".join(map(str, line)), flush=True)
            writer.writerow(line)


def check(setting: Setting) -> tuple[float, Prediction, float]:
    """Round trips of an iteration, its predicted time, and its measured time."""
    rows = setting.rows // setting.blocks
    with (
        LocalCluster(
            n_workers=setting.workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        Client(cluster) as client,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        parts = [
            delayed(shard, nout=2)(i, rows, setting.d, setting.row_nnz, setting.classes)
            for i in range(setting.blocks)
        ]
        X, y = (list(client.persist(part)) for part in zip(*parts, strict=True))
        wait(X + y)
        fit(X, y, 1)  # workers import marginout here
        trips, measured = slope(lambda most: fit(X, y, most))
        return trips, predict(client, setting, trips), measured


def fit(X: Any, y: Any, most: int) -> tuple[int, float]:
    """Round trips and seconds of a fit of `most` iterations."""
    count, plain = 0, Cluster.sum

    def counted(*args: Any) -> Any:
        nonlocal count
        count += 1
        return plain(*args)

    Cluster.sum = counted  # type: ignore[method-assign]
    try:
        start = time.perf_counter()
        DropoutLogisticRegression(0.1, noise=0.1, tol=1e-14, max_iter=most).fit(X, y)
        return count, time.perf_counter() - start
    finally:
        Cluster.sum = plain  # type: ignore[method-assign]


def slope(run: Callable[[int], tuple[int, float]]) -> tuple[float, float]:
    """Round trips and seconds of one more iteration."""
    few, many = ([run(most) for _ in range(REPEATS)] for most in (FEW, MANY))
    trips, seconds = np.median(many, axis=0) - np.median(few, axis=0)
    return trips / (MANY - FEW), seconds / (MANY - FEW)


def predict(client: Any, setting: Setting, trips: float) -> Prediction:
    """The terms of the model, from constants measured on these workers."""
    K = 1 if setting.classes == 2 else setting.classes
    work = [
        client.submit(working, setting, number, trips, pure=False, workers=[worker])
        for number, worker in enumerate(client.nthreads())
    ]
    seconds = max(client.gather(work)) * setting.blocks / setting.workers
    one, many = (trip(client, count, 1) for count in (setting.workers, 64))
    theta = (many - one) / (64 - setting.workers)
    latency = one - setting.workers * theta
    vector = max(trip(client, setting.workers, setting.d * K) - one, 0.0)
    waiting = trips * latency + (trips + 2) * setting.blocks * theta
    return Prediction(seconds, 1.5 * vector, waiting)


def trip(client: Any, count: int, size: int) -> float:
    """Seconds of a sum over `count` tasks, each of which receives and returns a vector."""
    cluster = Cluster(client, count)
    blocks = cluster.submit(nothing, [0] * count)
    times = []
    for _ in range(2 * REPEATS + 1):
        vector = np.ones(size)
        start = time.perf_counter()
        cluster.sum(echo, [blocks], vector)
        times.append(time.perf_counter() - start)
    return median(times)


def nothing(number: int) -> int:
    return number


def echo(number: int, vector: Any) -> Any:
    return vector


def working(setting: Setting, number: int, trips: float) -> float:
    """Seconds of the work of an iteration on one block: 2 1/6 passes and trial steps."""
    X, y = shard(number, setting.rows // setting.blocks, setting.d, setting.row_nnz, setting.classes)
    model = DropoutLogisticRegression(0.1, noise=0.1)
    block, summary = prepare_block(model, number, X, y)
    assert block is not None
    own = block_shard(block, make_plan(model, merge([summary])))
    rng = np.random.default_rng(0)
    W, P = rng.standard_normal((2, setting.d, own.K)) / 100
    state = own.moments(W, np.zeros(own.K))

    def timed(task: Callable[..., Any], *args: Any) -> float:
        times = []
        for _ in range(2 * REPEATS + 1):
            start = time.perf_counter()
            task(own, *args)
            times.append(time.perf_counter() - start)
        return median(times)

    along, step = own.along(0.0, W, P), (np.ones(own.K), np.zeros(own.K))
    return (
        timed(Shard.along, 0.0, W, P)
        + timed(Shard.gradient, state, W)
        + timed(Shard.diagonal, state) / 6
        + timed(Shard.moved, state, along, *step)
        + timed(Shard.expand, state, along, *step) * (trips - 1)
    )


if __name__ == "__main__":
    main()
