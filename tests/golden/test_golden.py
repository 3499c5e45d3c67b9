"""Fits against the results that an earlier version of the library found; see make.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .make import cases, difference, quiet

GOLDEN = json.loads((Path(__file__).parent / "objectives.json").read_text())
CASES = cases()
#: Largest relative differences, by group, of F and of weights and predictions. Machines and BLAS round
#: differently: F is then off by 1e-13, but a fit at the default tolerance may end an iteration sooner.
LIMITS = {"convex": (1e-9, 1e-6), "stopped": (1e-4, 1e-3), "local": (1e-9, 1e-6)}


def test_every_case_has_a_golden_result_and_no_other_has():
    assert CASES.keys() == GOLDEN.keys()


@pytest.mark.parametrize("name", CASES)
def test_fits_are_those_of_before(name):
    if "dask" in name:
        pytest.importorskip("distributed", reason="distributed is not installed")
    of_objective, of_model = LIMITS[name.partition("/")[0]]
    with quiet():
        found = CASES[name]()
    assert difference(found["objective"], GOLDEN[name]["objective"]) <= of_objective
    assert difference(found["norm"], GOLDEN[name]["norm"]) <= of_model
    assert difference(found["scores"], GOLDEN[name]["scores"]) <= of_model
