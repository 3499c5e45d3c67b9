"""Nonlinear conjugate gradients where F has kinks that little noise hardly smooths."""

import numpy as np
import pytest
import scipy.sparse as sp

from marginout import DropoutSVC


@pytest.fixture(scope="module")
def few_entries():
    """Rows of 2.5 entries; those without any, one in thirteen, all have their kink at the same offset."""
    rng = np.random.default_rng(1)
    X = sp.random(2000, 50, 0.05, format="csr", random_state=1)
    return X, np.asarray(X @ rng.normal(size=(50, 3))).argmax(axis=1)


def test_where_f_stands_still_newton_goes_on(few_entries):
    X, y = few_entries
    model = DropoutSVC(C=1000.0, noise=0.001, loss="hinge", solver="ncg").fit(X, y)
    best = DropoutSVC(C=1000.0, noise=0.001, loss="hinge", solver="irls", tol=1e-6).fit(X, y)
    assert model.objective_ <= (1 + 1e-4) * best.objective_
    assert len(model.objective_history_) == model.n_iter_
    assert np.all(np.diff(model.objective_history_) <= 1e-9 * model.objective_)
    assert model.objective_history_[-1] == pytest.approx(model.objective_, rel=1e-12)
    assert model.objective_ - model.optimality_gap_ <= best.objective_


def test_a_limit_of_iterations_is_kept(few_entries):
    X, y = few_entries
    with pytest.warns(UserWarning, match="max_iter=100"):
        model = DropoutSVC(C=1000.0, noise=0.001, max_iter=100, loss="hinge", solver="ncg").fit(X, y)
    assert model.n_iter_ == len(model.objective_history_) == 100
