"""Growth of time with examples, features and non-zeros; generated data, no files needed."""

from __future__ import annotations

from scipy.sparse import issparse
from sklearn.utils.extmath import squared_norm

from benchmarks import problems
from benchmarks.measure import Entry, Optima, Outcome, race_all
from benchmarks.options import Options
from benchmarks.peers import LINEAR_SVC, SVC
from benchmarks.problems import Problem
from benchmarks.report import Report, row

RATE = 0.5


def run(options: Options) -> Report:
    """Time a base problem, and ten times as many rows, columns, or entries per row, on one thread."""
    report = Report()
    n, d, nnz = (500, 500, 10) if options.quick else (20_000, 50_000, 50)
    texts = {
        "": problems.sparse(n, d, nnz),
        "n x 10": problems.sparse(10 * n, d, nnz),
        "d x 10": problems.sparse(n, 10 * d, nnz),
        "entries per row x 10": problems.sparse(n, d, 10 * nnz),
    }
    _grow(report, options, "sparse", texts, 5e4)
    n, d = (200, 20) if options.quick else (10_000, 100)
    tables = {
        "": problems.dense(n, d),
        "n x 10": problems.dense(10 * n, d),
        "d x 10": problems.dense(n, 10 * d),
    }
    _grow(report, options, "dense", tables, 1e5)
    return report


def _grow(report: Report, options: Options, kind: str, sizes: dict[str, Problem], weight: float) -> None:
    """Time all sizes in one race. C·‖X‖² is constant, so that the penalty has the same weight."""
    runs = []
    for problem in sizes.values():
        C = weight / squared_norm(problem.X.data if issparse(problem.X) else problem.X)
        runs += [(problem, Entry(SVC, C, RATE)), (problem, Entry(LINEAR_SVC, C))]
    outcomes = race_all(runs, options.slow_repeats)
    ours, plain = outcomes[::2], outcomes[1::2]
    for (change, problem), own, other in zip(sizes.items(), ours, plain, strict=True):
        shape = {"n": problem.X.shape[0], "d": problem.X.shape[1], "nnz": problem.nnz}
        report.rows.append(row(problem, own, other, Optima(problem), **shape))
        report.rows.append(row(problem, other, **shape))
        if change:
            report.summary[f"{kind}, {change}: non-zeros x"] = problem.nnz / sizes[""].nnz
            report.summary[f"{kind}, {change}: time x"] = own.cpu_time / ours[0].cpu_time
            report.summary[f"{kind}, {change}: time per iteration x"] = _pace(own) / _pace(ours[0])


def _pace(outcome: Outcome) -> float:
    return outcome.cpu_time / outcome.n_iter
