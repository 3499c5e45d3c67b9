"""Problems that many tests solve."""

from __future__ import annotations

from typing import Any

from marginout._core.objective import Objective
from marginout._core.penalties import Ridge
from marginout._core.shard import ROUNDING, Shard


def make_objective(
    design: Any, loss: Any, Y: Any, weights: Any, fit_intercept: bool, rounding: float = ROUNDING
) -> Objective:
    """F of examples in memory."""
    return Objective.of(Ridge(), Shard(design, loss, Y, weights, rounding), fit_intercept)
