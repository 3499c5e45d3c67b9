"""Newton's method for multinomial problems: its products with the Hessian, its optimum, where it is taken."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris

import marginout
from marginout._core.design.storage import make_design
from marginout._core.joint import Multinomial, Pairwise
from marginout._core.objective import Objective
from marginout._core.penalties import Ridge
from marginout._core.shard import Shard
from marginout._kernels import _newton
from marginout.losses import Hinge
from marginout.noise import Dropout, GroupDropout
from marginout.solvers import choose, lbfgs, ncg, newton
from tests.problems import make_noises

N, D, R = 150, 5, 3
RNG = np.random.default_rng(0)
X = RNG.gamma(1.0, size=(N, D)) * (RNG.random((N, D)) < 0.6)
NOISES = make_noises(RNG.uniform(0.1, 0.7, D), RNG.uniform(0.2, 1.0, D))

noises = pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
layouts = pytest.mark.parametrize("layout", [np.asarray, sp.csr_array], ids=["dense", "csr"])
offsets = pytest.mark.parametrize("offset", [True, False], ids=["offset", "no offset"])


def posed(noise, layout=np.asarray, offset=True, x=X, classes=R, problems=1, C=0.7, factors=None):
    """Multinomial problems with weighted examples, some of which weigh nothing."""
    rng = np.random.default_rng(1)
    n, d = x.shape
    scores = (x - x.mean(axis=0)) @ rng.normal(size=(d, classes)) + rng.gumbel(size=(n, classes))
    labels = scores.argmax(axis=1)
    Y = np.tile(np.where(labels[:, None] == np.arange(classes), 1.0, -1.0), problems)
    weights = C * np.maximum(rng.uniform(-0.2, 2.0, (n, problems)), 0.0)
    weights = np.repeat(weights, classes, axis=1) if problems > 1 else weights
    design = make_design(layout(x), noise)
    if factors is not None:
        design = design.with_factors(np.repeat(factors, classes))
    return Objective.of(Ridge(), Shard.of(design, Multinomial(classes), Y, weights), offset)


def solved(solver, objective, tol=1e-9, max_iter=5000, **more):
    start = np.zeros((objective.traits.d, objective.K)), np.zeros(objective.K)
    return solver.solve(objective, *start, tol=tol, max_iter=max_iter, **more)


@offsets
@layouts
@noises
def test_products_with_the_hessian_are_slopes_of_the_gradient(noise, layout, offset):
    """Central differences of the gradient that other code computes.

    With an offset the solver's features are x - c, with the mean c of the examples that weigh something: a
    direction (p, q) is (p, q - c.p) for the other code, and a gradient (G, g) is (G - c g, g) for the solver.
    """
    objective = posed(noise, layout, offset)
    rng = np.random.default_rng(2)
    W, b = rng.normal(size=(D, R)), rng.normal(size=R) * offset
    W -= W.mean(axis=1, keepdims=True)  # all points of the solver are balanced
    probe = rng.normal(size=(D + 1, R))
    probe[D] *= offset
    design, weights, step = objective.examples.design, objective.examples.weights, 1e-5
    table, *moments, _ = design.table()
    data = None
    if sp.issparse(table):  # entries of CSR are those of M
        entries = (table.data * moments[0][table.indices])[:, None]
        data = entries, table.indices, table.indptr.astype(np.int64)
    centre = offset * (X[design.classes[0]][weights[:, 0] > 0] * moments[0]).mean(axis=0)
    product = probe.copy()
    _newton.solve_joint(
        *(data or (table, None, None)), moments, *design.classes, weights, np.ones(R), W.copy(), b.copy(),
        offset, (1e-9, 2.5, 5.0, 0.01, 3), 10, None, [], product,
    )  # fmt: skip

    def gradient(t):
        move = probe[D] - centre @ probe[:D]
        G, g = objective.gradient(objective.point(W + t * probe[:D], b + t * move))
        return np.vstack([G - centre[:, None] * g, g])

    slopes = (gradient(step) - gradient(-step)) / (2 * step)
    assert_allclose(product, slopes, rtol=1e-6, atol=1e-6 * abs(slopes).max())


@offsets
@layouts
@noises
def test_the_optimum_is_that_of_other_solvers(noise, layout, offset):
    objective = posed(noise, layout, offset)
    ours, theirs = solved(newton, objective), [solved(other, objective) for other in (ncg, lbfgs)]
    assert ours.converged.all()
    assert ours.n_iter <= 20
    best = min(result.value[0] for result in theirs)
    assert ours.value[0] <= best * (1 + 1e-8)
    assert best - 1e-12 * best >= ours.value[0] - ours.gap[0]  # the certificate is a bound
    assert ours.gap[0] <= 1e-6 * best
    assert_allclose(ours.value, objective.point(ours.W, ours.b).value, rtol=1e-12)
    closest = min(theirs, key=lambda result: result.gap[0])
    assert_allclose(ours.W, closest.W - closest.W.mean(axis=1, keepdims=True), atol=2e-3)


@pytest.mark.parametrize("classes", [2, 7])
@pytest.mark.parametrize("C", [1e-3, 1e3])
def test_any_number_of_classes_and_any_C(classes, C):
    objective = posed(Dropout(0.1), classes=classes, C=C)
    ours, theirs = solved(newton, objective, 1e-8), solved(lbfgs, objective, 1e-10, 20_000)
    assert ours.converged.all()
    assert ours.value[0] <= theirs.value[0] * (1 + 1e-7)


def test_problems_of_a_batch_have_weights_and_noise_of_their_own():
    factors = np.array([0.2, 1.0, 3.0])
    objective = posed(Dropout(0.3), problems=3, factors=factors)
    together = solved(newton, objective)
    for p in range(3):
        alone = solved(newton, objective.select(np.array([p])))
        assert_allclose(together.value[p], alone.value[0], rtol=1e-12)
        assert_allclose(together.W[:, R * p : R * p + R], alone.W, atol=1e-12)
    assert_allclose(together.value, solved(lbfgs, objective).value, rtol=1e-7)


@pytest.mark.parametrize("noise", [Dropout(0.0), Dropout(0.01)], ids=["no noise", "noise"])
@layouts
def test_features_far_from_zero_lose_no_digits(noise, layout):
    """The offset makes up for their mean; without noise, the optimum is that of the features without it."""
    x = RNG.normal(size=(N, D))
    ours = solved(newton, posed(noise, layout, x=x + 1e6), tol=1e-8)
    assert ours.converged.all()
    if noise.moments(D).coefficient.any():
        theirs = solved(lbfgs, posed(noise, layout, x=x + 1e6), tol=1e-8, max_iter=20_000)
        assert ours.value[0] <= theirs.value[0] * (1 + 1e-7)
    else:
        assert_allclose(ours.W, solved(newton, posed(noise, layout, x=x)).W, atol=1e-5)


def test_large_data_are_packed_anew_for_every_pass():
    x = np.random.default_rng(0).normal(size=(40_000, 30)).astype(np.float32)
    objective = posed(Dropout(0.1), x=x, C=1.0)
    ours, theirs = solved(newton, objective, 1e-6), solved(ncg, objective, 1e-6)
    assert_allclose(ours.value, theirs.value, rtol=2e-6)


def test_a_class_without_examples():
    objective = posed(Dropout(0.2))
    rows = objective.examples
    rows.weights[rows.Y[:, 1] > 0] = 0.0
    ours, theirs = solved(newton, objective, 1e-6), solved(ncg, objective, 1e-6)
    assert np.isfinite(ours.W).all()
    assert_allclose(ours.value, theirs.value, rtol=1e-5)


def test_a_warm_start_at_the_solution_stays():
    y = X[:, :R].argmax(axis=1)
    model = marginout.DropoutLogisticRegression(noise=0.2, warm_start=True, tol=1e-6).fit(X, y)
    coef, iterations = model.coef_, model.n_iter_
    assert iterations > 1
    assert model.fit(X, y).n_iter_ == 1
    assert_allclose(model.coef_, coef, atol=1e-4)


@pytest.mark.parametrize("stop_at", [None, 2])
def test_a_monitor_hears_every_iteration_and_may_stop(stop_at):
    heard = []
    objective = posed(Dropout(0.2), x=X + 3.0)

    def monitor(iteration, value, left, solution):
        W, b = solution()
        assert_allclose(objective.point(W, b).value.sum(), value, rtol=1e-10)
        heard.append(iteration)
        return iteration == stop_at

    result = solved(newton, objective, monitor=monitor)
    assert heard == list(range(1, result.n_iter + 1))
    assert_allclose(objective.point(result.W, result.b).value, result.value, rtol=1e-10)
    if stop_at:
        assert result.n_iter == stop_at
        least = solved(newton, objective).value
        assert np.all(result.value - result.gap <= least)
        assert np.all(result.value > least)
    assert result.history[-1] == result.value.sum()


def test_auto_takes_it_for_few_weights():
    def chosen(*args, **options):
        return choose("auto", posed(*args, **options))

    assert chosen(Dropout(0.2)) is newton.solve
    assert chosen(Dropout(0.0)) is newton.solve
    assert chosen(Dropout(0.2), sp.csr_array) is newton.solve
    assert chosen(GroupDropout([[0, 1], [2, 3, 4]], 0.2)) is ncg.solve
    wide = RNG.normal(size=(60, 300))
    assert chosen(Dropout(0.2), x=wide) is newton.solve
    assert chosen(Dropout(0.2), x=wide, classes=10) is ncg.solve
    assert chosen(Dropout(0.2), sp.csr_array, x=wide * (RNG.random(wide.shape) < 0.05)) is ncg.solve


def test_what_it_does_not_know_is_refused_with_a_cure():
    Y = np.where(RNG.integers(0, R, N)[:, None] == np.arange(R), 1.0, -1.0)
    shard = Shard.of(make_design(X, Dropout(0.2)), Pairwise(Hinge(), R), Y, np.ones((N, 1)))
    with pytest.raises(
        ValueError, match=r"solver='newton' solves joint losses only where .*use solver='auto'"
    ):
        choose("newton", Objective.of(Ridge(), shard, True))
    with pytest.raises(
        ValueError, match=r"solver='newton' solves joint losses only where .*use solver='auto'"
    ):
        choose("newton", posed(GroupDropout([[0, 1], [2, 3, 4]], 0.2)))


def test_signals_end_a_long_fit():
    """An exception of whoever watches ends the fit and comes out."""

    def monitor(iteration, value, left, solution):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solved(newton, posed(Dropout(0.2)), monitor=monitor)


def test_the_default_model_of_a_table_takes_few_steps():
    X, y = load_iris(return_X_y=True)
    model = marginout.DropoutLogisticRegression().fit((X - X.mean(axis=0)) / X.std(axis=0), y)
    assert model.multi_class_ == "multinomial"
    assert model.n_iter_ <= 8
    assert model.optimality_gap_ <= 1e-6 * model.objective_
