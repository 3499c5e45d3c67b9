"""Newton's method with noise: its Hessian, its optimum, its certificate, and where it is taken."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import marginout
from marginout import blocks
from marginout._core import interfaces
from marginout._core.design import hessians
from marginout._core.design.storage import make_design
from marginout.losses import Hinge
from marginout.noise import Dropout, GroupDeletion, GroupDropout
from marginout.solvers import choose, dual, irls, ncg, newton
from tests.paper import DropoutLogisticRegression, DropoutSVC, DropoutSVR
from tests.problems import ESTIMATORS, LOSSES, in_shards, make_noises, make_objective, problem, tight

N, D, K = 40, 6, 5
RNG = np.random.default_rng(0)
X = RNG.gamma(1.0, size=(N, D)) * (RNG.random((N, D)) < 0.5)
GROUPS = [[0, 3], [1, 2, 5], [4]]
NOISES = make_noises(RNG.uniform(0.1, 0.7, D), RNG.uniform(0.2, 1.0, D))
NOISES |= {"groups": GroupDropout(GROUPS, 0.4), "group-deletion": GroupDeletion(GROUPS, [0.2, 0.5, 0.3])}
NOISY = {name: noise for name, noise in NOISES.items() if name != "none"}
LAYOUTS = {"dense": np.asarray, "csr": sp.csr_array}

noises = pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
noisy = pytest.mark.parametrize("noise", NOISY.values(), ids=NOISY)
losses = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
layouts = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)


def posed(noise, loss, layout=np.asarray, offset=True, outputs=1, C=0.7):
    """An objective with weighted examples, and targets that suit the loss."""
    rng = np.random.default_rng(1)
    scores = (X - 0.5) @ rng.normal(size=(D, outputs)) + rng.normal(size=(N, outputs))
    weights = C * rng.uniform(0.0, 2.0, (N, outputs))
    return make_objective(make_design(layout(X), noise), loss, np.sign(scores), weights, offset)


def solved(solver, objective, tol=1e-9, max_iter=5000):
    start = np.zeros((objective.traits.d, objective.K)), np.zeros(objective.K)
    return solver.solve(objective, *start, tol=tol, max_iter=max_iter)


# ----------------------------------------------------------------------------------------- the Hessian


@pytest.mark.parametrize("dense", [0.0, 0.3, 2.0], ids=["blocks", "by share", "rows"])
@pytest.mark.parametrize("outputs", [1, K])
@layouts
@noises
def test_every_way_to_form_the_hessian_is_the_plain_one(noise, layout, outputs, dense, monkeypatch):
    """Against the interface's own: two passes over X for unit vectors."""
    monkeypatch.setattr(hessians, "DENSE", dense)
    monkeypatch.setattr(hessians, "ENTRIES", 100)  # several blocks of rows
    design = make_design(layout(X), noise)
    if outputs > 1:
        design = design.with_factors(RNG.uniform(0.5, 2.0, outputs))
    W, derivatives = RNG.normal(size=(D, outputs)), RNG.normal(size=(4, N, outputs))
    wanted = interfaces.Design.hessian(design, W, *derivatives)
    assert_allclose(design.hessian(W, *derivatives), wanted, rtol=1e-11, atol=1e-11 * abs(wanted).max())


@losses
@noisy
def test_hessian_is_the_slope_of_the_gradient(noise, loss):
    """Central differences, in every weight and the offset."""
    objective = posed(noise, loss).rounded(0.3)
    W, b, step = RNG.normal(size=(D, 1)), np.array([0.2]), 1e-5
    H, cross, corner, *_ = objective.hessian(objective.point(W, b))
    full = np.block([[H[0] + np.eye(D), cross], [cross.T, corner[:, None]]])

    def gradient(move):
        G, g = objective.gradient(objective.point(W + move[:D, None], b + move[D:]))
        return np.append(G, g)

    differences = [gradient(step * e) - gradient(-step * e) for e in np.eye(D + 1)]
    assert_allclose(full, np.array(differences) / (2 * step), rtol=1e-6, atol=1e-6 * abs(full).max())


# ----------------------------------------------------------------------------------------- the optimum


@pytest.mark.parametrize("offset", [True, False], ids=["offset", "no offset"])
@layouts
@losses
@noisy
def test_newton_agrees_with_the_other_solvers(noise, loss, layout, offset):
    objective = posed(noise, loss, layout, offset)
    ours, theirs = solved(newton, objective), [solved(other, objective) for other in (ncg, irls)]
    assert ours.converged.all()
    assert ours.n_iter < 40
    best = min(result.value[0] for result in theirs)
    assert ours.value[0] <= best * (1 + 1e-8)
    assert ours.value[0] - ours.gap[0] <= best * (1 + 1e-12)  # the certificate is a bound


@pytest.mark.parametrize("loss", [LOSSES["hinge"], LOSSES["logistic-gaussian"]], ids=["hinge", "logistic"])
@pytest.mark.parametrize("noise", [NOISES["dropout"], NOISES["groups"]], ids=["dropout", "groups"])
def test_a_batch_is_its_problems_one_by_one(noise, loss, monkeypatch):
    objective = posed(noise, loss, outputs=K)
    together = solved(newton, objective, tol=1e-6)
    monkeypatch.setattr(newton, "WIDTH", 1)
    alone = solved(newton, objective, tol=1e-6)
    assert_allclose(together.value, alone.value, rtol=2e-6)
    assert np.all(together.gap < 1e-2 * together.value)


@pytest.mark.parametrize("noise", [NOISES["dropout"], NOISES["groups"]], ids=["dropout", "groups"])
def test_examples_in_shards(noise):
    Y, weights = np.sign(X[:, :1] - X[:, 1:2] - 0.1), np.full((N, 1), 0.5)
    results = [
        solved(newton, in_shards(count, X, noise, LOSSES["hinge"], Y, weights, True)) for count in (1, 3)
    ]
    assert_allclose(results[0].value, results[1].value, rtol=1e-8)


# ------------------------------------------------------------------------------------ weights that are 0


@pytest.mark.parametrize("loss", [Hinge(), Hinge(1.0, "gaussian")], ids=["bound", "gaussian"])
def test_a_model_that_is_given_up_stops_at_once_with_a_certificate(loss):
    """Heavy noise and few positives: w = 0 is the optimum, F is the weight of the minority twice."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    Y = np.where(np.arange(200) < 8, 1.0, -1.0)[:, None]
    objective = make_objective(make_design(X, Dropout(0.95)), loss, Y, np.full((200, 1), 1.0), True)
    result = solved(newton, objective, tol=1e-5)
    assert result.converged.all()
    assert result.n_iter <= 25
    assert_allclose(result.value, 2 * 8, rtol=1e-5)
    assert result.gap[0] <= 1e-3 * result.value[0]
    assert np.abs(result.W).max() < 1e-3


def test_single_weights_that_are_given_up():
    """Rare features of the majority: F has a kink in each of their weights, and conjugate gradients creep."""
    rng = np.random.default_rng(0)
    n, d = 3000, 60
    X = sp.csr_array((rng.random((n, d)) < 0.04).astype(float))
    Y = np.where(X @ np.where(np.arange(d) < 6, 2.0, 0.0) + 0.5 * rng.normal(size=n) > 1.6, 1.0, -1.0)[
        :, None
    ]
    objective = make_objective(make_design(X, Dropout(0.5)), Hinge(), Y, np.full((n, 1), 1.0), True)
    result = solved(newton, objective, tol=1e-5)
    assert result.converged.all()
    assert result.n_iter <= 30
    assert result.gap[0] <= 1e-3 * result.value[0]
    assert result.value[0] <= solved(ncg, objective, tol=1e-6).value[0] * (1 + 1e-5)


# ------------------------------------------------------------------------------------------ where it is taken


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_estimators_take_it_by_name(estimator):
    """In memory, on blocks and along a path."""
    X, y = problem(estimator)
    model = tight(estimator, 0.3, solver="newton").fit(X, y)
    other = tight(estimator, 0.3, solver="lbfgs").fit(X, y)
    assert_allclose(model.objective_, other.objective_, rtol=1e-8)
    parts = [(X[i::3], y[i::3]) for i in range(3)]
    cut = blocks.fit(tight(estimator, 0.3, solver="newton"), parts, storage="memory")
    assert_allclose(cut.objective_, model.objective_, rtol=1e-8)
    path = marginout.path(estimator(solver="newton", tol=1e-9), X, y, Cs=[0.1, 0.8], noises=[0.3, 0.6])
    assert path.converged.all()
    assert_allclose(path.objectives[1, 0], model.objective_, rtol=1e-7)


def test_too_many_features_are_refused():
    X = np.random.default_rng(0).normal(size=(20, newton.MOST + 1))
    with pytest.raises(ValueError, match=r"at most 1024 features: use solver='auto'"):
        DropoutSVC(noise=0.5, solver="newton").fit(X, np.arange(20) % 2)


@pytest.mark.parametrize("estimator", [DropoutSVC, DropoutLogisticRegression, DropoutSVR])
def test_a_warm_start_at_the_solution_stays(estimator):
    X, y = problem(estimator)
    model = estimator(C=0.8, noise=0.3, solver="newton", tol=1e-6, warm_start=True).fit(X, y)
    before = model.objective_
    assert model.fit(X, y).n_iter_ <= 2
    assert model.objective_ <= before * (1 + 1e-12)


# --------------------------------------------------------------------------------------- compiled code


def in_python(objective, monkeypatch, **options):
    """The same without compiled code."""
    with monkeypatch.context() as patch:
        patch.setattr(newton, "compiled", lambda objective: False)
        return solved(newton, objective, **options)


@pytest.mark.parametrize("power", ["dropout", "poisson", "gaussian", "deletion"])
@layouts
@losses
def test_compiled_code_solves_what_python_solves(loss, layout, power, monkeypatch):
    noise = NOISES.get(power, NOISES["dropout"])
    objective = posed(noise, loss, layout, outputs=2)
    assert newton.compiled(objective) == (loss.kernel is not None and power != "gaussian")
    ours, theirs = solved(newton, objective), in_python(objective, monkeypatch)
    assert_allclose(ours.value, theirs.value, rtol=1e-9)
    assert_allclose(ours.W, theirs.W, atol=1e-3 * np.abs(theirs.W).max())


@pytest.mark.parametrize("offset", [True, False], ids=["offset", "no offset"])
@layouts
@pytest.mark.parametrize("name", ["hinge", "epsilon", "pinball"])
def test_interior_points_end_where_dual_coordinate_descent_does(name, layout, offset):
    """Without noise, with examples of weight 0; the gap is a certificate, and tight."""
    loss = LOSSES.get(name, Hinge())
    objective = posed(NOISES["none"], loss, layout, offset, C=3.0)
    objective.examples.weights[::7] = 0.0
    ours, theirs = solved(newton, objective, tol=1e-8), solved(dual, objective, tol=1e-8, max_iter=100_000)
    assert ours.converged.all()
    assert ours.n_iter <= 30
    assert_allclose(ours.value, theirs.value, rtol=2e-8)
    assert ours.gap[0] <= 1e-8 * ours.value[0]


def test_a_table_with_duplicate_rows_is_no_obstacle_without_noise():
    """Fourteen distinct rows: hundreds of examples share a kink, where smoothed losses stood still."""
    rng = np.random.default_rng(0)
    X = np.eye(3)[rng.integers(0, 3, 1500)]
    X = np.hstack([X, rng.integers(0, 2, (1500, 2))])
    y = np.where(X @ rng.normal(size=5) + rng.normal(size=1500) > 0.3, 1.0, -1.0)[:, None]
    objective = make_objective(make_design(X, NOISES["none"]), Hinge(), y, np.ones((1500, 1)), True)
    result = solved(newton, objective, tol=1e-6)
    assert result.converged.all()
    assert result.gap[0] <= 1e-6 * result.value[0]
    assert result.n_iter <= 30


def test_auto_takes_newton_for_few_features_and_not_for_many():
    few, many = np.random.default_rng(0).normal(size=(2, 300, 400))
    y = np.where(few[:, 0] > 0, 1.0, -1.0)[:, None]
    for X, wanted in ((few[:, :5], newton.solve), (many, ncg.solve)):
        objective = make_objective(make_design(X, Dropout(0.5)), Hinge(), y, np.ones((300, 1)), True)
        assert choose("auto", objective) is wanted
        assert choose("ncg", objective) is ncg.solve


@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("make", [DropoutSVC, DropoutLogisticRegression])
def test_what_overflows_is_refused(make, rate):
    X = np.random.default_rng(0).normal(size=(50, 3)) * 1e152
    with pytest.raises(ValueError, match=r"no finite solution|overflow|too large|magnitude"):
        make(noise=rate, C=1e10).fit(X, X[:, 0] > 0)


def test_a_class_that_is_given_up_ends_at_zero():
    """A cone's tip, which steps come ever closer to: the weights are 0; a warm start stays there."""
    X, y = problem(DropoutSVC)
    model = DropoutSVC(C=0.8, noise=0.3, warm_start=True).fit(X, y)
    assert list(np.abs(model.coef_).max(axis=1) > 0) == [True, False, True]
    assert_allclose(tight(DropoutSVC, 0.3, C=0.8, solver="ncg").fit(X, y).coef_[1], 0.0, atol=1e-6)
    assert not model.fit(X, y).coef_[1].any()


@pytest.mark.parametrize("late", [False, True], ids=["compiled", "handed over"])
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_a_monitor_hears_every_iteration_once_and_the_end_last(rate, late, monkeypatch):
    """Of three problems, one after the other; one that is not solved goes to code without compiled loops."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(90, 4)), np.where(rng.normal(size=(90, 3)) > 0.2, 1.0, -1.0)
    objective = make_objective(make_design(X, Dropout(rate)), Hinge(), Y, np.ones((90, 1)), True)
    if late:
        whole = newton._newton.solve

        def solve(*given):
            results, marks = whole(*given)
            marks[0, 1] = 0
            return results, marks

        monkeypatch.setattr(newton._newton, "solve", solve)
    heard = []

    def monitor(iteration, value, left, solution):
        heard.append((iteration, value, solution()))
        return iteration == stop

    stop = -1
    start = np.zeros((4, 3)), np.zeros(3)
    result = newton.solve(objective, *start, tol=1e-6, max_iter=500, monitor=monitor)
    numbers = [iteration for iteration, *_ in heard if iteration]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == result.n_iter
    if rate == 0 or not late:
        assert_allclose(heard[-1][2][0], result.W, atol=1e-12)
        assert_allclose(heard[-1][2][1], result.b, atol=1e-12)
        assert_allclose(heard[-1][1], result.value.sum(), rtol=1e-9)
    stop, heard = 2, []
    result = newton.solve(objective, *start, tol=1e-6, max_iter=500, monitor=monitor)
    assert result.n_iter == len(result.history) == 2
    assert_allclose(result.W, heard[-1][2][0], atol=0)
    assert_allclose(result.b, heard[-1][2][1], atol=1e-15)
    assert_allclose(objective.point(result.W, result.b).value, result.value, rtol=1e-12)
    assert np.all(result.gap <= result.value)
