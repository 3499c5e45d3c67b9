"""All peers on small data sets of scikit-learn; no files needed."""

from __future__ import annotations

from benchmarks import problems
from benchmarks.measure import Entry, Optima, race
from benchmarks.options import Options
from benchmarks.peers import LINEAR_SVC, LINEAR_SVR, LR, PLAIN_LR, SGD, SVC, SVC_IRLS, SVC_LBFGS, SVR
from benchmarks.report import Report, row

RATE = 0.3


def run(options: Options) -> Report:
    """Time every peer at C = 0.1 and rate 0.3 on one thread; ratios to LinearSVC or LinearSVR."""
    report = Report()
    for name in options.few(["breast_cancer", "digits"]):
        problem = problems.bundled(name)
        plain = [LINEAR_SVC, PLAIN_LR, SGD]
        entries = [Entry(peer, 0.1, RATE) for peer in (*plain, SVC, SVC_IRLS, SVC_LBFGS, LR)]
        outcomes, optima = race(problem, entries, options.repeats), Optima(problem)
        for outcome in outcomes:
            # With several classes LogisticRegression is multinomial: its objective is another one.
            joint = outcome.entry.peer is PLAIN_LR and len(outcome.models[0].classes_) > 2
            report.rows.append(row(problem, outcome, outcomes[0], None if joint else optima))
    problem = problems.bundled("diabetes")
    outcomes = race(problem, [Entry(LINEAR_SVR, 10.0), Entry(SVR, 10.0, RATE)], options.repeats)
    optima = Optima(problem)
    report.rows += [row(problem, outcome, outcomes[0], optima) for outcome in outcomes]
    return report
