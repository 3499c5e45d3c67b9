"""Solvers: functions (objective, W, b, tol, max_iter, monitor) -> Result that see an objective only."""

from __future__ import annotations

from collections.abc import Callable

from marginout._objective import Objective
from marginout._sum import SumObjective
from marginout.solvers import dual, irls, lbfgs, ncg, newton, rounded
from marginout.solvers._result import Monitor, Result, Solution

__all__ = ["SOLVERS", "Monitor", "Result", "Solution", "Solver", "choose"]

Solver = Callable[..., Result]

#: What `solver` may be, besides "auto".
SOLVERS: dict[str, Solver] = {"irls": irls.solve, "lbfgs": lbfgs.solve, "ncg": ncg.solve}


def choose(name: str, objective: Objective) -> Solver:
    """The solver for an objective.

    Without noise this is a plain SVM, SVR or LR. Small ones, and kinked losses of any size,
    go to a solver made for them, whatever was asked for. Otherwise "auto" is nonlinear
    conjugate gradients. Blocks have a way of their own around the kinks.
    """
    asked = "ncg" if name == "auto" else name
    if isinstance(objective, SumObjective):
        if objective.design.noiseless and objective.loss.kinked:
            return rounded.solve
        narrow = objective.design.noiseless and newton.suits_blocks(objective)
        return newton.solve_blocks if narrow else SOLVERS[asked]
    if objective.design.noiseless and newton.suits(objective):
        return newton.solve
    if objective.design.noiseless and objective.loss.kinked:
        return dual.solve
    return SOLVERS[asked]
