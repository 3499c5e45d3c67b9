"""L-BFGS for the objectives made of moment generating functions.

F along a line is no function of two moments, so that every trial step is a pass over X. The metric D is the
diagonal of the Hessian, by the noise's moments at the start; L-BFGS corrects it. The offset is optimised
away at every point. Where F is +inf, outside of the MGF's domain, the line search cuts the step.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from marginout._core.interfaces import Array, Monitor, Result
from marginout._models.mcf.objective import MgfObjective, Point
from marginout.solvers._progress import total_history
from marginout.solvers._quasi_newton import Memory, wolfe_step

#: Factor on the estimated suboptimality, beyond the largest error of the estimate so far.
SAFETY = 2.0
#: Most trials of a line search, each a pass over X.
TRIALS = 40
#: Ratio of successive falls of F, at most, in the estimate of what is to come.
SLOWEST = 0.9
#: Rounding error of F, as a fraction of F: a smaller rise counts as none.
ROUNDING = 1e-14


def solve(
    objective: list[MgfObjective],
    W: Array,
    b: Array,
    *,
    tol: float,
    max_iter: int,
    monitor: Monitor | None = None,
) -> Result:
    """Minimise independent problems, one after the other, from (W, b), each from its own columns."""
    runs: list[_Run] = []
    solution = W.copy(), b.copy()
    at = 0
    for one in objective:
        columns = slice(at, at + one.K)
        run = _Run(one, W[:, columns], b[columns], tol)
        for iteration in range(1, max_iter + 1):
            run.step()
            solution[0][:, columns], solution[1][columns] = run.point.W, run.point.b
            done = [*runs, run]
            total, left = sum(r.point.value for r in done), sum(r.left for r in done)
            stop = monitor and monitor(
                iteration, total, left, lambda: (solution[0].copy(), solution[1].copy())
            )
            run.converged |= bool(stop)
            if run.converged:
                break
        runs.append(run)
        at += one.K
    values = [run.point.value for run in runs]
    return Result(
        *solution,
        value=np.array(values),
        gap=np.array([run.gap for run in runs]),
        converged=np.array([run.converged for run in runs]),
        n_iter=max(len(run.history) for run in runs),
        history=total_history([run.history for run in runs], values),
    )


@dataclass
class _Run:
    """The state of one problem, in variables √D·w: in these, features of any size are alike."""

    objective: MgfObjective
    W: Array
    b: Array
    tol: float
    history: list[float] = field(default_factory=list)
    converged: bool = False

    def __post_init__(self) -> None:
        self.point = self.objective.point(np.zeros_like(self.W), np.zeros_like(self.b))
        if self.W.any():
            with np.errstate(invalid="ignore", over="ignore"):
                warm = self.objective.point(self.W, self.b)
            if warm.value <= self.point.value:  # otherwise it is outside of the domain, or worse than W = 0
                self.point = warm
        self._unit = 1.0 / np.sqrt(self.objective.curvature(self.point))
        self._G = self._gradient(self.point)
        self._memory = Memory(self._G)
        self._decrements: list[float] = []
        self._P, self.left, self._fall = -self._G, np.inf, 0.0

    @property
    def gap(self) -> float:
        """Certificate: F exceeds its minimum by no more than this."""
        with np.errstate(over="ignore"):
            bound = self.objective.penalty.certificate(
                self.point.W, self._G / self._unit, np.asarray(self.point.value)
            )
            return float(bound.sum()) + self.point.offset_left

    def _gradient(self, point: Point) -> Array:
        return np.asarray(self._unit * self.objective.gradient(point))

    def step(self) -> None:
        """Make one iteration."""
        P, slope = self._P, float(np.vdot(self._G, self._P))
        if slope >= 0.0:
            self.converged, self.left = True, 0.0  # the gradient vanishes
        else:
            self._search(P, slope)
        self.history.append(self.point.value)

    def _search(self, P: Array, slope: float) -> None:
        old = self.point

        def evaluate(t: float) -> tuple[float, Point]:
            point = self.objective.point(old.W + t * self._unit * P, old.b)
            return point.value, point

        slack = ROUNDING * old.value
        found = wolfe_step(
            evaluate, self._gradient, P, old.value, slope, trials=TRIALS, slack=slack, parabola=True
        )
        if found is None:
            self.converged = True  # rounding hides any lower F
        else:
            t, _, point, G = found
            self._accept(t * P, point, G)

    def _accept(self, s: Array, point: Point, G: Array) -> None:
        before, self._fall = self._fall, max(self.point.value - point.value, 0.0)
        self.point, self._G = point, G
        # Half the Newton decrement by the present metric, or the sum of future falls at the present rate.
        rate = min(self._fall / before, SLOWEST) if before > 0 else SLOWEST
        self._P = -self._memory.learn(s, G)
        decrement = -0.5 * float(np.vdot(G, self._P))
        trend = 2 * self._fall * max(rate / (1 - rate), 1.0)
        self._decrements.append(max(decrement, np.finfo(float).tiny))
        excess = SAFETY * self._excess(point.value)
        self.left = min(max(excess * decrement, trend) + point.offset_left, self.gap)
        self.converged = self.left <= self.tol * point.value

    def _excess(self, value: float) -> float:
        """Largest ratio of the fall of F since a decrement to this decrement, in the later half of the fit.

        On unscaled features, where the metric is poor, a decrement is too small an estimate.
        """
        later = len(self._decrements) // 2
        pairs = zip(self.history[later:], self._decrements[later:], strict=False)
        return max([1.0, *((before - value) / promised for before, promised in pairs)])
