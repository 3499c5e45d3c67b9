"""Solvers for the objective of the hidden layer, which is smooth but not convex.

`joint` is L-BFGS over all parameters of the collapsed objective. `alternating` is the paper's
coordinate descent: γ and the output weights in closed form, then gradient steps on the hidden
weights. In the time that `joint` needs, `alternating` ends 41 % above its F on Amazon books and
48 % on scikit-learn's digits (20 units, rate 0.5), so `joint` is the default.

In both F never rises. They stop when WINDOW iterations together have lowered F by less than `tol`,
relative to F. There is no certificate, as F is not convex.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginout._core.threads import one_blas_thread
from marginout._models.latent.objective import LatentObjective, Net
from marginout.solvers._quasi_newton import ARMIJO, Memory, wolfe_step
from marginout.solvers._smoothing import roundings

Array = NDArray[np.float64]

#: Called after every iteration with (iteration, F, relative decrease over WINDOW iterations, network); a true
#: value ends the fit.
Monitor = Callable[[int, float, float, Net], bool | None]

#: Iterations over which the decrease of F is measured.
WINDOW = 10
#: Least `tol` for single precision. It gives F to about 1e-6.
SINGLE_TOL = 1e-4
#: Most trials of a line search, each a pass over X.
TRIALS = 30
#: Gradient steps on the hidden weights in each round of `alternating`.
HIDDEN_STEPS = 5
#: Fractions of the loss's scale: its kinks are rounded off by these, one after the other, before F itself is
#: minimised. Otherwise L-BFGS runs into the kink at w = 0 and stays there (on digits at a rate of 0.5,
#: F = 1284 after 400 iterations instead of 898 after 300).
ROUNDINGS = roundings(0.3, 0.03, per_decade=1)


#: Minimises an objective, starting from a network.
Solver = Callable[..., "LatentResult"]


@dataclass
class LatentResult:
    """The network found, F there, and F after every iteration.

    While kinks are rounded off, the history is that of the rounded function, which is above F.
    """

    net: Net
    value: float
    converged: bool = False
    stopped: bool = False
    history: list[float] = field(default_factory=list)
    _first: int = 0

    @property
    def decrease(self) -> float:
        """Relative decrease of F over the last WINDOW iterations; inf if there were fewer."""
        recent = self.history[self._first :]
        if len(recent) <= WINDOW:
            return np.inf
        return (recent[-1 - WINDOW] - recent[-1]) / max(abs(recent[-1]), 1e-300)

    def begin(self, value: float) -> None:
        """Start to minimise another function, which has this value at the network."""
        self.value, self.converged, self._first = value, False, len(self.history)

    def record(self, net: Net, value: float, tol: float, monitor: Monitor | None) -> bool:
        """Record an iteration; return whether it is the last."""
        self.net, self.value = net, value
        self.history.append(value)
        if monitor is not None:
            self.stopped = bool(monitor(len(self.history), value, self.decrease, net))
        self.converged = self.stopped or self.decrease <= tol
        return self.converged


def on_one_thread(solve: Solver) -> Solver:
    """Keep BLAS to one thread while a solver runs: threads work on blocks of examples instead.

    BLAS multiplies short vectors and small blocks here. On a busy machine its threads would wait for each
    other longer than they work.
    """

    @wraps(solve)
    def limited(*args: Any, **kwargs: Any) -> LatentResult:
        with one_blas_thread():
            return solve(*args, **kwargs)

    return limited


@on_one_thread
def joint(
    objective: LatentObjective, net: Net, *, tol: float, max_iter: int, monitor: Monitor | None = None
) -> LatentResult:
    """L-BFGS over all parameters; a kinked loss is smoothed by ROUNDINGS first if W = 0 at the start.

    Products of dense X are in single precision, unless `tol` asks for more digits than that gives F.
    """
    if tol >= SINGLE_TOL and (fast := objective.single()) is not objective:
        result = _joint(fast, net, tol, max_iter, monitor)
        result.value = objective.value(result.net)
        return result
    return _joint(objective, net, tol, max_iter, monitor)


def _joint(
    objective: LatentObjective, net: Net, tol: float, max_iter: int, monitor: Monitor | None
) -> LatentResult:
    result = LatentResult(net, np.inf)
    if objective.loss.kinked and not net.W.any():
        for stage, rounding in enumerate(ROUNDINGS, 1):
            last = stage * max_iter // (len(ROUNDINGS) + 1)
            _lbfgs(objective.rounded(rounding), result, 10 * tol, last, monitor)
            if result.stopped:
                result.value = objective.value(result.net)
                return result
    _lbfgs(objective, result, tol, max_iter, monitor)
    return result


def _lbfgs(
    objective: LatentObjective, result: LatentResult, tol: float, last: int, monitor: Monitor | None
) -> None:
    """L-BFGS in variables scaled by the objective's `scales`.

    It continues from the network of `result`, until there are `last` iterations in all.
    """
    shape, scales = result.net, objective.scales(result.net).pack()

    def evaluate(z: Array, p: Array, t: float) -> tuple[float, Array]:
        value, gradient = objective.value_and_gradient(shape.unpack((z + t * p) / scales))
        return value, gradient.pack() / scales

    z = shape.pack() * scales
    value, g = evaluate(z, z, 0.0)
    check_start(value, g)
    result.begin(value)
    memory, p = Memory(g), -g
    while len(result.history) < last:
        slope = float(g @ p)
        first = 1.0 if memory else min(1.0, 1.0 / max(float(np.abs(g).max()), 1e-300))
        found = None
        if slope < 0:
            along = partial(evaluate, z, p)
            found = wolfe_step(along, np.asarray, p, value, slope, first=first, trials=TRIALS)
        if found is None:
            if not memory:  # F does not fall along its gradient: a minimum, as far as the arithmetic tells
                result.converged = True
                return
            memory, p = Memory(g), -g
            continue
        t, value, g, _ = found
        z = z + t * p
        p = -memory.learn(t * p, g)
        if result.record(shape.unpack(z / scales), value, tol, monitor):
            return


def check_start(value: float, g: Array) -> None:
    """Raise if F or its gradient is not finite at the start."""
    if not (np.isfinite(value) and np.isfinite(g).all()):
        raise ValueError(
            f"The fit diverges: the objective is {value:g} at its start, or its gradient overflows. Scale "
            "the features (for instance with sklearn.preprocessing.StandardScaler), or lower C."
        )


@on_one_thread
def alternating(
    objective: LatentObjective, net: Net, *, tol: float, max_iter: int, monitor: Monitor | None = None
) -> LatentResult:
    """The paper's coordinate descent: γ and W in closed form, then gradient steps on α."""
    scales = objective.scales(net)
    value, gradient = objective.value_and_gradient(net)
    check_start(value, gradient.pack())
    result = LatentResult(net, value)
    t = 1.0
    while len(result.history) < max_iter:
        net, value, gradient = _output_step(objective, net, value, gradient)
        for _ in range(HIDDEN_STEPS):
            t, net, value, gradient = _hidden_step(objective, net, value, gradient, scales, 2 * t)
        if result.record(net, value, tol, monitor):
            break
    return result


def _output_step(objective: LatentObjective, net: Net, value: float, gradient: Net) -> tuple[Net, float, Net]:
    """Minimise the majoriser at the present γ over (W, b); where rounding would raise F, change nothing."""
    H = objective.output_curvature(net)
    K = net.W.shape[0]
    slopes = np.vstack([gradient.W, gradient.b])
    size = K + objective.fit_intercept
    step = np.zeros_like(slopes)
    H[:, K, K] += 1e-12 * (1 + H[:, K, K])
    for p in range(net.W.shape[1]):
        step[:size, p] = np.linalg.solve(H[p, :size, :size], slopes[:size, p])
    trial = net._replace(W=net.W - step[:K], b=net.b - step[K])
    new, new_gradient = objective.value_and_gradient(trial)
    return (trial, new, new_gradient) if new <= value else (net, value, gradient)


def _hidden_step(
    objective: LatentObjective, net: Net, value: float, gradient: Net, scales: Net, t: float
) -> tuple[float, Net, float, Net]:
    """One gradient step on (α, a), halved until it satisfies Armijo's condition."""
    p = gradient.alpha / scales.alpha**2, gradient.a / scales.a**2
    slope = float(np.vdot(p[0], gradient.alpha) + np.vdot(p[1], gradient.a))
    for _ in range(TRIALS):
        trial = net._replace(alpha=net.alpha - t * p[0], a=net.a - t * p[1])
        new, slopes = objective.value_and_gradient(trial)
        if new <= value - ARMIJO * t * slope and np.isfinite(slopes.alpha).all():
            return t, trial, new, slopes
        t *= 0.5
    return t, net, value, gradient


#: The solvers that draw nothing, by their names.
SOLVERS: dict[str, Solver] = {"joint": joint, "alternating": alternating}
