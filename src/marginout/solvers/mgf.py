"""L-BFGS for the objectives made of moment generating functions.

F along a line is no cheap function of two moments here, so that every trial step is a pass over X.
The metric is a diagonal, the Hessian's by the noise's moments, corrected by the last few
steps; the offset is optimised away at every point. A step is taken once it lowers F
enough and is not too short (Wolfe's conditions, by bisection): where F is +inf, outside of the
MGF's domain, it is cut like any other that goes up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg.lapack import dtrtrs

from marginout._core.interfaces import Monitor
from marginout._mgf import Array, MgfObjective, Point
from marginout.solvers._progress import Result

MEMORY = 20
#: How much the suboptimality may exceed its estimate by the metric, beyond what it has done so far.
SAFETY = 2.0
#: A step must bring this share of what the slope promises, and leave this share of the slope.
ENOUGH, STEEP = 1e-4, 0.9
TRIALS = 40
#: A fall of F to this fraction of the last one is taken for the slowest of trends.
SLOWEST = 0.9
#: F is known to this fraction of itself: a smaller rise is none.
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
    """Minimise independent problems, one after the other, from (W, b), whose columns they share out."""
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
    longest = max(len(run.history) for run in runs)
    padded = [run.history + run.history[-1:] * (longest - len(run.history)) for run in runs]
    return Result(
        *solution,
        value=np.array([run.point.value for run in runs]),
        gap=np.array([run.gap for run in runs]),
        converged=np.array([run.converged for run in runs]),
        n_iter=longest,
        history=[float(sum(values)) for values in zip(*padded, strict=True)],
    )


@dataclass
class _Run:
    """One problem: where it stands, and the memory of its last steps, all in variables √D·w.

    D is the metric; in these variables features of any size are alike.
    """

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
            if warm.value <= self.point.value:  # else it is outside of the domain, or worse than none
                self.point = warm
        self._unit = 1.0 / np.sqrt(self.objective.curvature(self.point))
        self._G = self._gradient(self.point)
        self._memory = _Memory(self._G)
        self._decrements: list[float] = []
        self._P, self.left, self._fall = -self._G, np.inf, 0.0

    @property
    def gap(self) -> float:
        """Certificate: F exceeds its minimum by no more than this."""
        with np.errstate(over="ignore"):
            G = self._G / self._unit
            return 0.5 * float(np.vdot(G, G)) + self.point.offset_left

    def _gradient(self, point: Point) -> Array:
        return np.asarray(self._unit * self.objective.gradient(point))

    def step(self) -> None:
        """One iteration."""
        P, slope = self._P, float(np.vdot(self._G, self._P))
        if slope >= 0.0:
            self.converged, self.left = True, 0.0  # the gradient vanishes
        else:
            self._search(P, slope)
        self.history.append(self.point.value)

    def _search(self, P: Array, slope: float) -> None:
        old, low, high, t = self.point, 0.0, np.inf, 1.0
        for _ in range(TRIALS):
            point = self.objective.point(old.W + t * self._unit * P, old.b)
            if not point.value <= old.value + ENOUGH * t * slope + ROUNDING * old.value:
                high = t
                t = low + self._cut(point, old, t, slope, low) * (high - low)
                continue
            G = self._gradient(point)
            if np.vdot(G, P) >= STEEP * slope:
                return self._accept(t * P, point, G)
            low, t = t, 2 * t if np.isinf(high) else 0.5 * (t + high)
        self.converged = True  # no lower F can be told from this one
        return None

    @staticmethod
    def _cut(point: Point, old: Point, t: float, slope: float, low: float) -> float:
        """Where a parabola would have its minimum, as a share of the bracket; half of it if unknown."""
        rise = point.value - old.value - t * slope
        if low > 0 or not np.isfinite(rise) or rise <= 0:
            return 0.5
        return float(np.clip(-0.5 * slope * t / rise, 0.1, 0.5))

    def _accept(self, s: Array, point: Point, G: Array) -> None:
        before, self._fall = self._fall, max(self.point.value - point.value, 0.0)
        self.point, self._G = point, G
        # Half the Newton decrement by the metric at hand, or what is to come if F goes on falling as it does.
        rate = min(self._fall / before, SLOWEST) if before > 0 else SLOWEST
        self._P = -self._memory.learn(s, G)
        decrement = -0.5 * float(np.vdot(G, self._P))
        trend = 2 * self._fall * max(rate / (1 - rate), 1.0)
        self._decrements.append(max(decrement, np.finfo(float).tiny))
        excess = SAFETY * self._excess(point.value)
        self.left = min(max(excess * decrement, trend) + point.offset_left, self.gap)
        self.converged = self.left <= self.tol * point.value

    def _excess(self, value: float) -> float:
        """By what factor F has fallen more since than a decrement of the later half of the fit promised.

        On unscaled features, where the metric is poor, a decrement promises too little.
        """
        later = len(self._decrements) // 2
        pairs = zip(self.history[later:], self._decrements[later:], strict=False)
        return max([1.0, *((before - value) / promised for before, promised in pairs)])


class _Memory:
    """The inverse Hessian that the last steps s and changes y of the gradient suggest, times the gradient G.

    The compact form of Byrd, Nocedal & Schnabel (1994): with R the upper triangle of SᵀY, D its diagonal and
    δ = s·y / y·y of the last step,

        H = δI + (S  δY) [[R⁻ᵀ(D + δYᵀY)R⁻¹, −R⁻ᵀ], [−R⁻¹, 0]] (S  δY)ᵀ,

    so that S and Y are read twice, each time as matrices, where the two-loop recursion goes through
    them one vector after another.
    """

    def __init__(self, G: Array) -> None:
        self._steps, self._changes = np.empty((2, MEMORY, G.size))
        self._order: list[int] = []  # places in these two, the oldest first
        self._SY, self._YY = np.zeros((2, MEMORY, MEMORY))  # s_i·y_j and y_i·y_j, the oldest first
        self._slopes = np.zeros((2, 0))  # s_i·G and y_i·G at the last G, likewise
        self._G = G

    def learn(self, s: Array, G: Array) -> Array:
        """The product at G, which the step s has led to; a step of positive curvature is remembered."""
        y, keep = G - self._G, False
        if np.vdot(s, y) > 1e-10 * np.vdot(s, s):
            keep, ends = True, [np.vdot(s, self._G), np.vdot(y, self._G)]
            self._slopes = np.column_stack([self._slopes, ends])
            self._replace_oldest(s, y)
        order, used, g = self._order, len(self._order), G.ravel()
        slopes = np.stack([(self._steps[:used] @ g)[order], (self._changes[:used] @ g)[order]])
        if keep:
            inner = slopes - self._slopes  # of all s and y with the new y
            self._SY[:used, used - 1], self._YY[:used, used - 1] = inner
            self._YY[used - 1, :used] = inner[1]
        self._slopes, self._G = slopes, G
        return self._combined(g, *slopes).reshape(G.shape) if used else G

    def _replace_oldest(self, s: Array, y: Array) -> None:
        at = len(self._order)
        if at == MEMORY:
            at = self._order.pop(0)
            self._slopes = self._slopes[:, 1:]
            for products in (self._SY, self._YY):
                products[:-1, :-1] = products[1:, 1:].copy()
        self._order.append(at)
        self._steps[at], self._changes[at] = s.ravel(), y.ravel()

    def _combined(self, g: Array, s_slopes: Array, y_slopes: Array) -> Array:
        used = len(self._order)
        SY, YY = self._SY[:used, :used], self._YY[:used, :used]
        scale = SY[-1, -1] / YY[-1, -1]
        inner, _ = dtrtrs(SY, s_slopes)  # it reads the upper triangle alone
        middle = np.diagonal(SY) * inner + scale * (YY @ inner - y_slopes)
        shares = np.empty((2, used))
        shares[:, self._order] = dtrtrs(SY, middle, trans=1)[0], -scale * inner
        product = shares[0] @ self._steps[:used]
        product += shares[1] @ self._changes[:used]
        product += scale * g
        return np.asarray(product)
