"""How time grows with examples, features and non-zeros: generated data, needs no files."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import problems
from benchmarks.measure import Entry, race
from benchmarks.options import Options
from benchmarks.peers import LINEAR_SVC, SVC
from benchmarks.problems import Problem
from benchmarks.report import Report, row

#: C·n, held fixed: the same ridge per example whatever the size.
C_TIMES_N = 1e4
RATE = 0.5


def run(options: Options) -> Report:
    """The base problem, and ten times as many rows, columns, or entries per row; one thread."""
    report = Report()
    base: dict[str, tuple[float, int]] = {}
    for kind, change, problem in _problems(options.quick):
        C = C_TIMES_N / problem.X.shape[0]
        ours, plain = race(problem, [Entry(SVC, C, RATE), Entry(LINEAR_SVC, C)], options.slow_repeats)
        n, d = problem.X.shape
        report.rows += [row(problem, outcome, plain, n=n, d=d, nnz=problem.nnz) for outcome in (ours, plain)]
        base.setdefault(kind, (ours.time, ours.n_iter))
        if change:
            time, iterations = ours.time / base[kind][0], ours.n_iter / base[kind][1]
            report.summary[f"{kind}, {change} x 10: time x"] = time
            report.summary[f"{kind}, {change} x 10: time per iteration x"] = time / iterations
    return report


def _problems(quick: bool) -> Iterator[tuple[str, str, Problem]]:
    """Kind, what is ten times the base, and the problem; each is made when its turn comes."""
    n, d, nnz = (500, 500, 10) if quick else (20_000, 20_000, 50)
    yield "sparse", "", problems.sparse(n, d, nnz)
    yield "sparse", "n", problems.sparse(10 * n, d, nnz)
    yield "sparse", "d", problems.sparse(n, 10 * d, nnz)
    yield "sparse", "nnz", problems.sparse(n, d, 10 * nnz)
    n, d = (200, 20) if quick else (10_000, 100)
    yield "dense", "", problems.dense(n, d)
    yield "dense", "n", problems.dense(10 * n, d)
    yield "dense", "d", problems.dense(n, 10 * d)
