"""The schedules of the smoothing continuations."""

from __future__ import annotations

import numpy as np
import pytest

from marginout.solvers._smoothing import roundings


@pytest.mark.parametrize(
    ("coarsest", "finest", "per_decade", "exponents"),
    [
        (1.0, 1e-9, 2, np.arange(0.0, 9.1, 0.5)),
        (0.1, 1e-9, 2, np.arange(1.0, 9.1, 0.5)),
        (1.0, 1.0, 2, [0.0]),
    ],
)
def test_roundings_fall_in_equal_ratios(coarsest, finest, per_decade, exponents):
    found = roundings(coarsest, finest, per_decade)
    np.testing.assert_allclose(found, 10.0 ** -np.asarray(exponents), rtol=1e-15)


def test_the_hidden_layer_starts_coarse():
    np.testing.assert_array_equal(roundings(0.3, 0.03, 1), [0.3, 0.03])
