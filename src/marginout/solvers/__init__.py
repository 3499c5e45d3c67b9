"""Solvers: functions (objective, W, b, tol, max_iter, monitor) -> Result that see an objective only."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from marginout._core.interfaces import Monitor, Objective, Result, Solution, Solver
from marginout._core.validation import check_option
from marginout.solvers import continuation, dual, irls, lbfgs, ncg, newton, proximal, soft_dual

__all__ = ["SOLVERS", "Monitor", "Result", "Solution", "Solver", "choose", "named"]


class Spec(NamedTuple):
    """A solver: where it is taken, and what it needs.

    Attributes
    ----------
    suits : the objectives without noise that it takes over, whatever was asked for
    cheap : the objectives that "auto" gives to it
    public : whether `solver` may name it
    needs_rows : whether it needs all examples here
    needs_single : whether it needs problems of one output each
    """

    name: str
    solve: Solver
    suits: Callable[[Objective], bool] | None = None
    cheap: Callable[[Objective], bool] | None = None
    public: bool = True
    needs_rows: bool = False
    needs_single: bool = False


#: In the order in which they are asked.
TABLE = (
    Spec("newton", newton.solve, newton.suits, newton.cheap),
    Spec("dual", dual.solve, dual.suits, public=False, needs_rows=True),
    Spec("soft_dual", soft_dual.solve, cheap=soft_dual.cheap, public=False, needs_rows=True),
    Spec("continuation", continuation.solve, continuation.suits, public=False),
    Spec("ncg", ncg.solve),
    Spec("lbfgs", lbfgs.solve),
    Spec("irls", irls.solve, needs_rows=True, needs_single=True),
)
#: What `solver` may be, besides "auto".
SOLVERS = {spec.name: spec.solve for spec in sorted(TABLE) if spec.public}


def named(name: str, in_one_place: bool) -> Spec:
    """The solver that a name stands for; "auto" is nonlinear conjugate gradients."""
    specs = {spec.name: spec for spec in sorted(TABLE) if spec.public}
    suitable = ["auto", *(key for key, spec in specs.items() if in_one_place or not spec.needs_rows)]
    if isinstance(name, str) and name in specs and name not in suitable:
        raise ValueError(
            f"solver={name!r} needs all examples in one place: for blocks it must be one of "
            f"{', '.join(map(repr, suitable))}."
        )
    name = check_option("solver", name, suitable)
    return specs["ncg" if name == "auto" else name]


def choose(name: str, objective: Objective) -> Solver:
    """The first solver of the table that takes the objective, or else the one that was asked for."""
    here = objective.rows is not None
    if proximal.suits(objective):
        proximal.check(name, objective)
        return proximal.solve
    for spec in TABLE:
        if here or not spec.needs_rows:
            forced = objective.traits.noiseless and spec.suits is not None and spec.suits(objective)
            if forced or (name == "auto" and spec.cheap is not None and spec.cheap(objective)):
                return spec.solve
    # Classes that are given up share their weights, at the tip of a cone, which no gradient shows.
    if name == "auto" and objective.coupled and objective.loss.kinked and not objective.traits.noiseless:
        return continuation.solve_joint
    if name == "newton":
        newton.check(objective)
    spec = named(name, here)
    if spec.needs_single and objective.coupled:
        free = (other for other in TABLE if other.public and other.suits is None and not other.needs_single)
        others = [repr(other.name) for other in free]
        raise ValueError(
            f"solver={name!r} solves one problem per class, but here all classes are one problem: it must "
            f"be 'auto', {' or '.join(others)}, or multi_class must be 'ovr'."
        )
    return spec.solve
