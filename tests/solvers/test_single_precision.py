"""Eight problems at once in single precision: the optimum that double precision finds, to the tolerance."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_digits

from marginout._core.design.storage import make_design
from marginout._kernels import _single_precision
from marginout._search.chains import walk
from marginout._search.problem import pose
from marginout.losses import Hinge, Logistic, LogisticGaussian, SquaredHinge
from marginout.noise import Deletion, Dropout, Gaussian
from marginout.solvers import ncg, single_precision
from tests.paper import DropoutLogisticRegression, DropoutSVC
from tests.problems import make_objective

pytestmark = pytest.mark.skipif(
    not _single_precision.AVAILABLE, reason="made for processors with AVX2 and FMA"
)


LOSSES = {
    "hinge": Hinge(),
    "half hinge": Hinge(0.5),
    "normal hinge": Hinge(1.0, "gaussian"),
    "half normal hinge": Hinge(0.5, "gaussian"),
    "normal squared": SquaredHinge(2.0, "gaussian"),
    "normal logistic": LogisticGaussian(),
}


KINDS = {
    "hinge": DropoutSVC,
    "normal hinge": partial(DropoutSVC, expectation="gaussian"),
    "normal squared": partial(DropoutSVC, loss="squared_hinge", expectation="gaussian"),
    "normal logistic": partial(DropoutLogisticRegression, multi_class="ovr", expectation="gaussian"),
}


def never():
    return False


def problem(n=300, d=80, K=8, dtype=np.float64, loss=LOSSES["hinge"], fit_intercept=True, seed=0):
    """K problems with rates, weights and left-out rows of their own."""
    rng = np.random.default_rng(seed)
    places = np.unravel_index(rng.choice(n * d, size=n * d // 5, replace=False), (n, d), order="F")
    X = sp.csr_array((rng.exponential(size=n * d // 5), places), shape=(n, d))
    X = X.astype(dtype)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    scores = X @ rng.normal(size=(d, K)) + rng.normal(size=(n, K))
    Y = np.where(scores > 0.3, 1.0, -1.0)
    weights = rng.random((n, K)) * (rng.random((n, K)) < 0.8)
    rates = np.linspace(0.1, 0.9, K)
    design = make_design(X, Dropout(0.5)).with_factors(rates / (1 - rates))
    return make_objective(design, loss, Y, weights, fit_intercept), rng.normal(size=(d, K)) / 10


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("K", [1, 3, 8])
def test_reaches_the_optimum(K, fit_intercept, loss, dtype):
    objective, W = problem(K=K, fit_intercept=fit_intercept, loss=loss, dtype=dtype)
    assert single_precision.suits(objective)
    exact = ncg.solve(objective, W, np.zeros(K), tol=1e-9, max_iter=2000)
    found = single_precision.sprint(objective, W, np.zeros(K), tol=1e-3, max_iter=1000, stopped=never)
    assert found.converged.all()
    value = objective.point(found.W, found.b).value
    # In double precision: from a start this poor, single precision loses a tenth of the tolerance.
    assert_allclose(found.value, value, rtol=1e-4)
    assert np.all(value <= exact.value * (1 + 1e-3))
    if not fit_intercept:
        assert not found.b.any()


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("size", [1e-6, 1e-2, 1e3, 1e6])
def test_features_of_any_size(loss, size):
    """Scores far out in the tails, and deviations that single precision hardly sees."""
    objective, W = problem(K=3, loss=loss)
    rows = objective.examples
    design = make_design(size * rows.design.X, Dropout(0.2))
    objective = make_objective(design, loss, rows.Y, rows.weights, True)
    end = single_precision.sprint(objective, W, np.zeros(3), tol=1e-3, max_iter=1000, stopped=never)
    start, value = (objective.point(*at).value for at in ((W, np.zeros(3)), (end.W, end.b)))
    assert np.isfinite(value).all()
    assert np.all(value <= start)
    assert_allclose(end.value, value, rtol=2e-4)


def test_ctrl_c_is_heard(monkeypatch):
    """What the watcher raises comes out, within seconds of a loop that would take minutes."""
    objective, W = problem(n=20_000, d=400)
    monkeypatch.setattr(single_precision, "MOST", 10**6)
    monkeypatch.setattr(single_precision, "FINEST", 0.0)

    def stopped():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        single_precision.sprint(objective, W, np.zeros(8), tol=0.0, max_iter=10**6, stopped=stopped)
    end = single_precision.sprint(objective, W, np.zeros(8), tol=0.0, max_iter=10**6, stopped=lambda: True)
    assert not end.converged.any()
    assert end.iterations.max() < 10**4


def test_a_finer_tolerance_comes_closer():
    objective, W = problem()
    exact = ncg.solve(objective, W, np.zeros(8), tol=1e-9, max_iter=2000).value
    coarse, fine = (
        single_precision.sprint(objective, W, np.zeros(8), tol=tol, max_iter=1000, stopped=never)
        for tol in (3e-2, 3e-4)
    )
    assert np.max(fine.value / exact - 1) < 1e-4 < np.max(coarse.value / exact - 1)


def test_knows_what_it_does_not_know():
    objective, _ = problem(K=2)
    rows = objective.examples
    X, Y, weights = rows.design.X, rows.Y, rows.weights

    def make(X=X, noise=None, loss=None, weights=weights):
        design = make_design(X, noise or Dropout(0.3))
        return make_objective(design, loss or Hinge(), Y, weights, True)

    wide = X.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    assert single_precision.suits(make())
    others = [
        make(X.toarray()),
        make(wide),
        make(1e13 * X),
        make(noise=Gaussian(0.1)),
        make(noise=Deletion(0.1)),
        make(noise=Dropout(0.0)),
        make(noise=Dropout(np.linspace(0, 0.5, X.shape[1]))),
        make(loss=Logistic()),
        make(loss=SquaredHinge()),
        make(weights=1e13 * weights),
    ]
    assert not any(single_precision.suits(other) for other in others)


def test_a_search_leaves_to_ncg_what_it_cannot_finish(monkeypatch):
    X, y = load_digits(return_X_y=True)
    X, y, model = sp.csr_array(X[:200] / 16), y[:200], DropoutSVC(class_weight="balanced")

    def objectives():
        values = {}
        problem = pose(model, X, y, np.ones(200), [np.arange(0, 150), np.arange(50, 200)], loose=2.0)
        walk(problem, np.array([0.1, 1.0]), [Dropout(0.3), Dropout(0.5)], keep_in(values), n_jobs=1)
        return np.array([values[key] for key in sorted(values)])

    def keep_in(values):
        return lambda parts, _: values.update({part[:3]: part.value for part in parts})

    whole = objectives()
    assert whole.shape == (8, 10)
    monkeypatch.setattr(single_precision, "MOST", 1)
    assert_allclose(objectives(), whole, rtol=3e-4)


@pytest.mark.parametrize("noise", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_fit_of_several_classes_sprints_and_ends_in_double_precision(noise, kind, monkeypatch):
    X, y = load_digits(return_X_y=True)
    X = sp.csr_array(X / 16)
    sprints = []

    def sprint(*args, **options):
        sprints.append(lanes_sprint(*args, **options))
        return sprints[-1]

    lanes_sprint = single_precision.sprint
    monkeypatch.setattr(single_precision, "sprint", sprint)
    model = kind(0.1, noise=noise, class_weight="balanced", solver="ncg")  # "auto" of many features
    few = clone(model).fit(X, y)
    assert [len(end.b) for end in sprints] == [5, 5]
    exact = clone(model).set_params(tol=1e-7).fit(X, y)
    assert few.objective_ - few.optimality_gap_ <= exact.objective_ <= few.objective_
    assert few.objective_ <= exact.objective_ * (1 + 1e-4)
    assert len(few.objective_history_) == few.n_iter_
    monkeypatch.setattr(ncg, "SEVERAL", 11)
    slow = clone(model).set_params(tol=1e-7).fit(X, y)
    assert_allclose(exact.objective_, slow.objective_, rtol=1e-7)
    assert_allclose(exact.coef_, slow.coef_, atol=1e-3 * np.abs(slow.coef_).max())
    assert slow.n_iter_ > exact.n_iter_


def test_a_class_that_is_given_up_is_certified_in_few_iterations():
    """At rate 0.5 half of the digits end at w = 0, where single precision cannot see the slope."""
    X, y = load_digits(return_X_y=True)
    model = DropoutSVC(0.1, solver="ncg").fit(sp.csr_array(X / 16), y)
    assert np.sum(np.abs(model.coef_).max(axis=1) < 1e-6) == 5
    assert model.n_iter_ < 20
    assert model.optimality_gap_ < 0.02 * model.objective_
