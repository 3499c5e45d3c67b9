"""Solvers: functions (objective, W, b, tol, max_iter, monitor) -> Result that see an objective only."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from marginout._core.interfaces import Monitor, Objective, Result, Solution, Solver
from marginout._core.validation import check_option
from marginout.solvers import continuation, dual, irls, lbfgs, ncg, newton

__all__ = ["SOLVERS", "Monitor", "Result", "Solution", "Solver", "choose", "named"]


class Spec(NamedTuple):
    """A solver, the objectives without noise that it takes over, and whether it needs all examples here."""

    name: str
    solve: Solver
    suits: Callable[[Objective], bool] | None = None
    needs_rows: bool = False


#: Those with `suits` come first: without noise they take over the objectives that they are made for, plain
#: SVM, SVR and LR, whatever was asked for. The others are what `solver` may be.
TABLE = (
    Spec("newton", newton.solve, newton.suits),
    Spec("dual", dual.solve, dual.suits, needs_rows=True),
    Spec("continuation", continuation.solve, continuation.suits),
    Spec("ncg", ncg.solve),
    Spec("lbfgs", lbfgs.solve),
    Spec("irls", irls.solve, needs_rows=True),
)
#: What `solver` may be, besides "auto".
SOLVERS = {spec.name: spec.solve for spec in sorted(TABLE) if spec.suits is None}


def named(name: str, in_one_place: bool) -> Spec:
    """The solver that a name stands for; "auto" is nonlinear conjugate gradients."""
    specs = {spec.name: spec for spec in sorted(TABLE) if spec.suits is None}
    suitable = ["auto", *(key for key, spec in specs.items() if in_one_place or not spec.needs_rows)]
    if isinstance(name, str) and name in specs and name not in suitable:
        raise ValueError(
            f"solver={name!r} needs all examples in one place: for blocks it must be one of "
            f"{', '.join(map(repr, suitable))}."
        )
    name = check_option("solver", name, suitable)
    return specs["ncg" if name == "auto" else name]


def choose(name: str, objective: Objective) -> Solver:
    """The first solver of the table that takes the objective over, or else the one that was asked for."""
    here = objective.rows is not None
    for spec in TABLE if objective.traits.noiseless else ():
        if spec.suits is not None and (here or not spec.needs_rows) and spec.suits(objective):
            return spec.solve
    return named(name, here).solve
