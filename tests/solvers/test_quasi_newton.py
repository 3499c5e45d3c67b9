"""L-BFGS against the recursion of BFGS, and the line search against its two conditions."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from marginout.solvers._quasi_newton import ARMIJO, MEMORY, WOLFE, Memory, wolfe_step


def test_the_memory_is_the_inverse_hessian_of_its_steps():
    """BFGS's updates, one matrix after another, and fewer steps than before once the memory is full."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6))
    hessian = root @ root.T + np.eye(6)
    G = rng.normal(size=(3, 2))
    memory, pairs = Memory(G), []
    for number in range(MEMORY + 5):
        s = rng.normal(size=(3, 2))
        y = (hessian @ s.ravel()).reshape(3, 2) * (-1.0 if number == 3 else 1.0)
        G = G + y
        if number != 3:  # its curvature is negative: no step to learn from
            pairs.append((s.ravel(), y.ravel()))
        found = memory.learn(s, G)
        s, y = pairs[-1]
        inverse = np.eye(6) * (s @ y) / (y @ y)
        for s, y in pairs[-MEMORY:]:
            turn = np.eye(6) - np.outer(y, s) / (s @ y)
            inverse = turn.T @ inverse @ turn + np.outer(s, s) / (s @ y)
        assert_allclose(found.ravel(), inverse @ G.ravel(), rtol=1e-8)


#: F along t, its slope, and the first step.
FUNCTIONS = {
    "parabola": (lambda t: (t - 1.0) ** 2, lambda t: 2 * (t - 1.0), 1.0),
    "too short": (lambda t: (t - 1e3) ** 2, lambda t: 2 * (t - 1e3), 1.0),
    "too long": (lambda t: (t - 1e-3) ** 2, lambda t: 2 * (t - 1e-3), 1.0),
    "kink": (lambda t: abs(t - 0.3), lambda t: float(np.sign(t - 0.3)), 1.0),
    "edge": (lambda t: 1 - t if t < 0.2 else np.inf, lambda t: -1.0, 1.0),
    "gradient": (lambda t: (t - 0.1) ** 2, lambda t: 2 * (t - 0.1) if t < 0.15 else np.nan, 0.16),
}


@pytest.mark.parametrize("parabola", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_step_satisfies_the_weak_wolfe_conditions(name, parabola):
    value, slope, first = FUNCTIONS[name]
    P = np.array([2.0])  # F's gradient along P is its slope in t
    calls = []

    def evaluate(t):
        calls.append(t)
        return value(t), t

    def gradient(t):
        return np.array([slope(t) / 2.0])

    start = P, value(0.0), slope(0.0)
    found = wolfe_step(evaluate, gradient, *start, first=first, trials=40, parabola=parabola)
    assert found is not None
    t, trial, point, G = found
    assert (point, 2.0 * G[0]) == (t, slope(t))
    assert trial == value(t) <= value(0.0) + ARMIJO * t * slope(0.0)
    if name == "edge":  # F goes on falling up to where it is no number: the longest step that falls
        assert len(calls) == 40
        assert t == pytest.approx(0.2)
    else:
        assert slope(t) >= WOLFE * slope(0.0)


def test_a_step_that_only_goes_up_is_none_but_for_a_slack():
    def rising(t):
        return 1.0 + 1e-12 * t, np.array([0.0])

    start = np.asarray, np.array([1.0]), 1.0, -1e-18
    assert wolfe_step(rising, *start, trials=10) is None
    found = wolfe_step(rising, *start, trials=10, slack=1e-11)
    assert found is not None
    assert found[0] == 1.0


def test_a_gradient_is_computed_only_where_f_falls():
    asked, tried = [], []

    def evaluate(t):
        tried.append(t)
        return (t - 0.3) ** 2, t

    def gradient(t):
        asked.append(t)
        return np.array([2 * (t - 0.3)])

    wolfe_step(evaluate, gradient, np.array([1.0]), 0.09, -0.6, trials=10)
    assert tried == [1.0, 0.5]
    assert asked == [0.5]
