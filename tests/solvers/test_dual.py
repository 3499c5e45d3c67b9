"""The offset in dual coordinate descent against a search over all kinks."""

from __future__ import annotations

import numpy as np
import pytest

from marginout.solvers.dual import balance, flattest


@pytest.mark.parametrize("seed", range(20))
def test_the_flattest_point_is_a_minimum(seed):
    """f(b) = Σ c·max(0, y·(k − b)) is no lower at any of its kinks, nor half-way between two of them."""
    rng = np.random.default_rng(seed)
    kinks, y = rng.normal(size=9).round(1), np.where(rng.random(9) < 0.5, 1.0, -1.0)
    c = rng.integers(1, 4, 9).astype(float)  # whole weights: some functions are flat somewhere

    def f(b):
        return float(c @ np.maximum(y * (kinks - b), 0.0))

    found = flattest(kinks, c, -float(c[y > 0].sum()))
    ends = np.sort(kinks)
    others = [*ends, *(0.5 * (ends[1:] + ends[:-1]))]
    assert f(found) <= min(map(f, others)) + 1e-12


def test_the_middle_of_a_flat_piece():
    assert flattest(np.array([3.0, 1.0]), np.array([1.0, 1.0]), -1.0) == 2.0
    assert flattest(np.array([3.0]), np.array([2.0]), -2.0) == 3.0  # constant from its only kink on


def test_balance():
    assert balance(2.0, 1.0) == (0.5, 1.0)
    assert balance(0.0, 1.0) == (0.0, 0.0)
