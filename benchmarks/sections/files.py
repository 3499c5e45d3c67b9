"""A fit from files four times as large as the memory limit, compared with a fit in memory."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from benchmarks.measure import convergence, peak_resident
from benchmarks.options import Options
from benchmarks.peers import PAPER
from benchmarks.problems import shard
from benchmarks.report import Report, Row
from marginout import DropoutSVC, blocks

C, RATE = 0.1, 0.5
#: Bytes of the files / bytes that the process may map, for data, libraries and everything else.
SQUEEZE = 4


class Run(NamedTuple):
    """Seconds of reading, if it is a separate step, and of fitting; iterations, objective, peak memory."""

    reading: float
    fitting: float
    n_iter: int
    objective: float
    peak: int


def run(options: Options) -> Report:
    """CSR, 50 entries per row, 10,000 features. Fits alternate, each in a new process."""
    count, rows, d = (4, 500, 1000) if options.quick else (96, 62_500, 10_000)
    report = Report()
    with TemporaryDirectory(prefix="marginout-") as folder:
        paths = [_write(Path(folder, f"{i}.npz"), i, rows, d) for i in range(count)]
        size = sum(path.stat().st_size for path in paths)
        limit = None if options.quick else size // SQUEEZE  # tiny files are smaller than the libraries
        runs: dict[str, list[Run]] = {"in memory": [], "from files": []}
        for _ in range(options.slow_repeats):
            runs["in memory"].append(_alone(_in_memory, paths, None))
            runs["from files"].append(_alone(_from_files, paths, limit))
    spread = [result.objective for results in runs.values() for result in results]
    assert max(spread) <= (1 + 1e-3) * min(spread)
    fit = median(result.fitting for result in runs["in memory"])
    whole = median(result.reading + result.fitting for result in runs["in memory"])
    ours = median(result.fitting for result in runs["from files"])
    for name, results in runs.items():
        report.rows.append(
            Row(
                problem=f"{count} files",
                model=f"DropoutSVC {name}",
                C=C,
                rate=RATE,
                repeats=len(results),
                time_s=median(result.reading + result.fitting for result in results),
                peer="in memory",
                ratio_to_peer=(ours if name == "from files" else whole) / whole,
                n_iter=results[0].n_iter,
                n=count * rows,
                d=d,
                nnz=50 * count * rows,
                input_mb=size / 1e6,
                peak_mb=max(result.peak for result in results) / 1e6,
            )
        )
    report.summary = {
        "size of the files / memory allowed": size / limit if limit else float("nan"),
        "from files to a model, time / in memory": ours / whole,
        "the same / the fit in memory alone": ours / fit,
        "peak resident memory / size of the files": max(r.peak for r in runs["from files"]) / size,
    }
    return report


def _write(path: Path, number: int, rows: int, d: int) -> Path:
    X, y = shard(number, rows, d, 50)
    np.savez(path, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y)
    return path


def _alone(work: Callable[..., Run], paths: Sequence[Path], limit: int | None) -> Run:
    """Do the work in a new process that may map `limit` bytes."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_limited, work, paths, limit).result()


def _limited(work: Callable[..., Run], paths: Sequence[Path], limit: int | None) -> Run:
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with convergence():
        return work(paths)


def _model() -> Any:
    return DropoutSVC(C, noise=RATE, **PAPER)


def _in_memory(paths: Sequence[Path]) -> Run:
    start = time.perf_counter()
    parts = list(blocks.read_npz(paths))
    X, y = sp.vstack([part[0] for part in parts], format="csr"), np.concatenate([part[1] for part in parts])
    del parts
    read = time.perf_counter()
    model = _model().fit(X, y)
    return Run(read - start, time.perf_counter() - read, model.n_iter_, model.objective_, peak_resident())


def _from_files(paths: Sequence[Path]) -> Run:
    start = time.perf_counter()
    model = blocks.fit(_model(), blocks.read_npz(paths))
    return Run(0.0, time.perf_counter() - start, model.n_iter_, model.objective_, peak_resident())
