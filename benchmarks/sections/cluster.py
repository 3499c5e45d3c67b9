"""A fit on two Dask workers, compared with a fit in memory on two threads."""

from __future__ import annotations

import time
from operator import itemgetter
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.measure import convergence
from benchmarks.options import Options
from benchmarks.peers import PAPER
from benchmarks.problems import DataMissingError, shard
from benchmarks.report import Report, Row
from marginout import DropoutSVC

C, RATE, WORKERS = 0.1, 0.5, 2


def run(options: Options) -> Report:
    """CSR, 2,000,000 x 10,000, 50 entries per row.

    The workers generate their blocks from seeds, the same number each, before the clock starts: the fit in
    memory has X in memory too. The first fit on new workers, which import marginout, has a row of its own.
    """
    try:
        from distributed import Client, LocalCluster, wait

        from marginout.dask import DropoutSVC as DaskSVC
    except ImportError as error:
        raise DataMissingError("dask and distributed are not installed") from error
    count, rows, d = (4, 500, 1000) if options.quick else (4, 500_000, 10_000)
    with (
        LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        Client(cluster) as client,
        convergence(),
    ):
        homes = list(client.nthreads())
        parts = [
            client.submit(shard, i, rows, d, 50, workers=[homes[i % WORKERS]], pure=False)
            for i in range(count)
        ]
        X, y = ([client.submit(itemgetter(k), part, pure=False) for part in parts] for k in (0, 1))
        wait(X + y)
        first, distributed = timed(DaskSVC(C, noise=RATE), X, y)
        here = [shard(i, rows, d, 50) for i in range(count)]
        whole = sp.vstack([part[0] for part in here], format="csr"), np.concatenate([p[1] for p in here])
        del here
        local, remote, used = [], [], [busy(client)]
        for _ in range(options.slow_repeats):
            seconds, model = timed(DropoutSVC(C, noise=RATE, **PAPER), *whole)
            local.append(seconds)
            used.append(busy(client))
            remote.append(timed(DaskSVC(C, noise=RATE), X, y)[0])
            used.append(busy(client))
    cpu = np.diff(used)
    scale = np.abs(model.coef_).max()
    difference = np.abs(distributed.coef_ - model.coef_).max() / scale
    times = {"in memory": local, "on workers": remote, "on new workers": [first]}
    report = Report()
    for name, seconds in times.items():
        report.rows.append(
            Row(
                problem=f"{count} blocks",
                model=f"DropoutSVC {name}",
                C=C,
                rate=RATE,
                threads=WORKERS,
                repeats=len(seconds),
                time_s=median(seconds),
                peer="in memory",
                ratio_to_peer=median(seconds) / median(local),
                n_iter=model.n_iter_ if name == "in memory" else distributed.n_iter_,
                n=count * rows,
                d=d,
                nnz=50 * count * rows,
            )
        )
    report.summary = {
        "two workers, time / two threads in memory": median(remote) / median(local),
        "the same, CPU time of all processes": float(cpu[1::2].sum() / cpu[::2].sum()),
        "the first fit on new workers, time / in memory": first / median(local),
        "largest difference of a coefficient / largest coefficient": float(difference),
    }
    return report


def busy(client: Any) -> float:
    """CPU seconds of this process and its workers so far. Unlike wall time, they do not count other work."""
    return time.process_time() + sum(client.run(time.process_time).values())


def timed(model: Any, X: Any, y: Any) -> tuple[float, Any]:
    """Wall-clock seconds of a fit, and the model."""
    start = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - start, model
