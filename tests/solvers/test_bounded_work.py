"""Hard problems, counted in passes, iterations or sweeps: features of huge size, tiny noise, a large C."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from marginout import MCFRegressor
from marginout._core.design.storage import DenseDesign
from marginout.noise import Laplace
from marginout.solvers import dual, newton
from tests.paper import DropoutSVCCV


def test_conjugate_gradients_give_way_to_a_factorisation(monkeypatch):
    """As many features as examples, next to no noise, a large C: 500 iterations do not solve one system."""
    passes = 0

    def apply(self, P):
        nonlocal passes
        passes += 1
        return original(self, P)

    original = DenseDesign.apply
    monkeypatch.setattr(DenseDesign, "apply", apply)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 600))
    y = X @ rng.normal(size=600) / 30 + rng.normal(size=600)
    model = MCFRegressor(1e6, noise=Laplace(1e-6)).fit(X, y)
    assert passes <= 600
    assert model.n_iter_ <= 3
    assert model.optimality_gap_ <= 1e-6 * model.objective_


@pytest.mark.filterwarnings("ignore::marginout.GridEdgeWarning")
def test_a_search_does_not_try_dual_coordinate_descent_again_where_it_failed(monkeypatch):
    """Features far from zero without noise: it never gets there, at no C, and Newton's method does."""
    given_up = 0

    def solve(*args, **options):
        nonlocal given_up
        result = original(*args, **options)
        given_up += not result.converged.all()
        return result

    original = dual.solve
    monkeypatch.setattr(dual, "solve", solve)
    monkeypatch.setattr(newton, "compiled", lambda objective: False)  # it would be asked first, and get there
    rng = np.random.default_rng(0)
    X, y = 1e8 + rng.normal(size=(64, 3)), rng.integers(2, size=64)
    search = DropoutSVCCV(Cs=[0.01, 0.1, 1.0, 10.0], noises=[0.0], cv=3, n_jobs=1)
    with pytest.warns(ConvergenceWarning, match="Scale the features"):
        search.fit(X, y)
    assert 0 < given_up <= 3  # once in every fold
    assert np.isfinite(search.coef_).all()
