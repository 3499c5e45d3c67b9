"""What the outputs of a joint loss have in common is in the penalty alone: its preconditioner knows it."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

from marginout import DropoutLogisticRegression, DropoutSVC
from marginout._core.design.storage import make_design
from marginout._core.joint import join
from marginout._core.objective import Objective
from marginout._core.penalties import Ridge
from marginout._core.shard import Shard
from marginout.losses import Hinge
from marginout.noise import Dropout, GroupDropout

N, D, R = 40, 6, 3
NOISES = {"each": Dropout(0.3), "groups": GroupDropout([0, 0, 1, 1, 2, 2], 0.3)}


def make(kind, noise, far, fit_intercept):
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.gamma(2.0, 0.5, (N, D)) * rng.integers(0, 2, (N, D)) + far)
    labels = rng.integers(0, R, N)
    Y = np.where(labels[:, None] == np.arange(R), 1.0, -1.0)
    shard = Shard.of(make_design(X, noise), join(kind, Hinge(1.0, "gaussian"), R), Y, np.ones((N, 1)))
    return Objective.of(Ridge(), shard, fit_intercept), rng


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("far", [0.0, 50.0])
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("kind", ["pairwise", "multinomial"])
def test_it_is_a_symmetric_positive_matrix(kind, noise, far, fit_intercept):
    objective, rng = make(kind, noise, far, fit_intercept)
    A = objective.preconditioner(objective.point(0.1 * rng.normal(size=(D, R)), np.zeros(R)))
    inverse = np.array([A.solve(unit.reshape(D, R)).ravel() for unit in np.eye(D * R)])
    np.testing.assert_allclose(inverse, inverse.T, rtol=1e-9, atol=1e-9 * abs(inverse).max())
    assert np.linalg.eigvalsh(inverse).min() > 0
    same = np.repeat(rng.normal(size=(D, 1)), R, axis=1)  # F has the curvature of ½‖w‖² there
    np.testing.assert_allclose(A.solve(same), same, rtol=1e-9)


@pytest.mark.parametrize("kind", ["pairwise", "multinomial"])
def test_the_loss_does_not_see_what_outputs_have_in_common(kind):
    objective, rng = make(kind, NOISES["each"], 0.0, True)
    W, b = rng.normal(size=(D, R)), rng.normal(size=R)
    shifts = rng.normal(size=(D, 1)), rng.normal()
    before, after = objective.point(W, b), objective.point(W + shifts[0], b + shifts[1])
    ridges = [0.5 * float((each.W**2).sum()) for each in (before, after)]
    assert after.value - ridges[1] == pytest.approx(before.value - ridges[0])


@pytest.mark.parametrize(
    ("model", "most"),
    [
        (DropoutSVC(noise=0.3, loss="hinge", multi_class="pairwise"), 25),  # 34 with the diagonal alone
        (DropoutLogisticRegression(noise=0.3, multi_class="multinomial"), 13),  # 19
    ],
)
def test_few_iterations_suffice(model, most):
    X, y = load_digits(return_X_y=True)
    model.fit(X[:800] / 16, y[:800])
    assert model.n_iter_ <= most
    exact = type(model)(**{**model.get_params(), "solver": "lbfgs", "tol": 1e-6}).fit(X[:800] / 16, y[:800])
    assert model.objective_ == pytest.approx(exact.objective_, rel=1e-4)
