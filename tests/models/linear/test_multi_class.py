"""Joint losses of several classes against a conic solver, quadrature, scikit-learn and one another."""

import pickle
from functools import lru_cache

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.utils.class_weight import compute_sample_weight

import marginout
from marginout.noise import Deletion, Dropout, Gaussian, GroupDropout, Poisson
from tests.paper import DropoutLogisticRegression, DropoutSVC
from tests.problems import assert_same_solution, problem

D = 6
GROUPS = [0, 0, 1, 1, 1, 2]
RATES = np.linspace(0.1, 0.6, D)
NOISES = {
    "dropout": Dropout(0.3),
    "heavy": Dropout(0.8),
    "each": Dropout(RATES),
    "deletion": Deletion(0.4),
    "gaussian": Gaussian(0.5),
    "poisson": Poisson(),
    "groups": GroupDropout(GROUPS, 0.4),
}
JOINT = [
    (DropoutSVC, "pairwise"),
    (DropoutLogisticRegression, "pairwise"),
    (DropoutLogisticRegression, "multinomial"),
]
both_joint = pytest.mark.parametrize(("estimator", "multi_class"), JOINT)


def data(seed=0, n=50, classes=3):
    rng = np.random.default_rng(seed)
    X = rng.gamma(1.0, size=(n, D)) * (rng.random((n, D)) < 0.7)
    scores = 2 * (X - 1) @ rng.normal(size=(D, classes)) + rng.normal(size=(n, classes))
    y = scores.argmax(axis=1)
    y[:classes] = np.arange(classes)
    return X, y


def moments(noise, X):
    """Means and deviations (n, d), and how those of features add up, (d, parts)."""
    if isinstance(noise, GroupDropout):
        return X, np.sqrt(0.4 / 0.6) * X, np.eye(3)[GROUPS]
    if isinstance(noise, Deletion):
        mean, variance = 0.6 * X, 0.24 * X**2
    elif isinstance(noise, Gaussian):
        mean, variance = X, np.full_like(X, 0.5)
    elif isinstance(noise, Poisson):
        mean, variance = X, X
    else:
        rate = {"dropout": 0.3, "heavy": 0.8, "each": RATES}[next(k for k, v in NOISES.items() if v is noise)]
        mean, variance = X, rate / (1 - rate) * X**2
    return mean, np.sqrt(variance), np.eye(D)


def pairs_of(y, classes):
    """The example of every term, and the matrix that takes weights to w_y − w_k, (terms, classes)."""
    rows = np.repeat(np.arange(len(y)), classes - 1)
    others = np.array([[k for k in range(classes) if k != own] for own in y])
    return rows, np.eye(classes)[y[rows]] - np.eye(classes)[others.ravel()]


@lru_cache
def conic(name, seed, classes, fit_intercept):
    """min ½‖W‖² + C Σ s Σ_{k≠y} ½[z + √(z² + v)] by an interior-point method, margin 1.3, C = 0.5."""
    X, y = data(seed, 40, classes)
    weights = weights_of(seed)
    rows, S = pairs_of(y, classes)
    W, b = cp.Variable((classes, D)), cp.Variable(classes)
    difference = S @ W
    if name is None:
        mean, noise = X, None
    else:
        mean, deviation, together = moments(NOISES[name], X)
        noise = cp.multiply(deviation[rows], difference) @ together
    z = 1.3 - cp.sum(cp.multiply(mean[rows], difference), axis=1) - (S @ b if fit_intercept else 0)
    if noise is None:
        terms = 2 * cp.pos(z)
    else:
        terms = z + cp.norm(cp.hstack([cp.reshape(z, (len(rows), 1), order="C"), noise]), 2, axis=1)
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(W) + 0.25 * weights[rows] @ terms))
    problem.solve(solver=cp.CLARABEL)
    return problem.value, W.value


def weights_of(seed):
    return np.random.default_rng(seed).uniform(0.2, 2.0, 40)


@pytest.mark.parametrize("solver", ["ncg", "lbfgs"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("name", NOISES)
def test_the_pairwise_hinge_against_a_conic_solver(name, fit_intercept, solver):
    seed = sorted(NOISES).index(name)
    classes = 3 + seed % 3
    X, y = data(seed, 40, classes)
    best, W = conic(name, seed, classes, fit_intercept)
    options = {"noise": NOISES[name], "fit_intercept": fit_intercept, "solver": solver, "margin": 1.3}
    for stored in X, sp.csr_array(X):
        model = DropoutSVC(0.5, multi_class="pairwise", tol=1e-8, max_iter=5000, **options)
        model.fit(stored, y, sample_weight=weights_of(seed))
        assert_allclose(model.objective_, best, rtol=1e-6)
        assert model.objective_ - model.optimality_gap_ <= best * (1 + 1e-7)
        assert_allclose(model.coef_, W, atol=2e-3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", range(2))
def test_the_pairwise_hinge_without_noise(seed):
    """Kinks that no noise smooths: F within its certificate, and within 1e-6 of a conic solver."""
    X, y = data(seed, 40, 3 + seed % 2)
    best, _ = conic(None, seed, 3 + seed % 2, True)
    options = {"noise": 0.0, "multi_class": "pairwise", "margin": 1.3}
    model = DropoutSVC(0.5, tol=1e-6, max_iter=5000, **options).fit(X, y, sample_weight=weights_of(seed))
    assert_allclose(model.objective_, best, rtol=1e-6)
    assert model.objective_ - model.optimality_gap_ <= best * (1 + 1e-8)
    quick = DropoutSVC(0.5, **options).fit(X, y, sample_weight=weights_of(seed))
    assert quick.objective_ <= best * (1 + 1e-3)


@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_the_pairwise_form_of_the_squared_hinge(rate):
    """max(0, z)² + v, its tight bound, summed over pairs: by an interior-point method."""
    X, y = data(3, 40, 4)
    rows, S = pairs_of(y, 4)
    W, b = cp.Variable((4, D)), cp.Variable(4)
    w = S @ W
    z = 1 - cp.sum(cp.multiply(X[rows], w), axis=1) - S @ b
    noise = rate / (1 - rate) * cp.sum_squares(cp.multiply(X[rows], w))
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(W) + 0.5 * (cp.sum_squares(cp.pos(z)) + noise)))
    problem.solve(solver=cp.CLARABEL)
    options = {"noise": rate, "loss": "squared_hinge", "multi_class": "pairwise"}
    model = DropoutSVC(0.5, tol=1e-8, **options).fit(X, y)
    assert_allclose(model.objective_, problem.value, rtol=1e-6)
    assert_allclose(model.coef_, W.value, atol=2e-3)


NODES, SHARES = np.polynomial.hermite_e.hermegauss(120)


def reference(estimator, multi_class, expectation):
    """φ of differences (n, R) with the own class's column left out, by quadrature or by definition."""

    def expected(f):
        return lambda m, v: f(m[..., None] + np.sqrt(v)[..., None] * NODES) @ SHARES / np.sqrt(2 * np.pi)

    if multi_class == "multinomial":
        return lambda m, v: logsumexp(np.column_stack([m + 0.5 * v, np.zeros(len(m))]), axis=1)
    if estimator is DropoutLogisticRegression:
        if expectation == "gaussian":
            return expected(lambda f: np.logaddexp(0, -f))
        return lambda m, v: np.logaddexp(0.5 * np.sqrt(m**2 + v), -0.5 * np.sqrt(m**2 + v)) - 0.5 * m
    grid = np.linspace(-9, 9, 40_001)  # a kink: a fine grid instead of a Gauss rule
    density = np.exp(-0.5 * grid**2) / np.sqrt(2 * np.pi) * (grid[1] - grid[0])
    return lambda m, v: np.maximum(0, 1 - m[..., None] - np.sqrt(v)[..., None] * grid) @ density


@pytest.mark.parametrize(
    ("estimator", "multi_class", "expectation"),
    [
        (DropoutSVC, "pairwise", "gaussian"),
        (DropoutLogisticRegression, "pairwise", "bound"),
        (DropoutLogisticRegression, "pairwise", "gaussian"),
        (DropoutLogisticRegression, "multinomial", "bound"),
        (DropoutLogisticRegression, "multinomial", "gaussian"),
    ],
)
@pytest.mark.parametrize("name", ["dropout", "deletion", "groups"])
def test_the_other_losses_against_quadrature(estimator, multi_class, expectation, name):
    """F at the fit is the reference's F, and nothing near it is lower; BFGS on the reference agrees."""
    C, R, noise = 0.6, 3, NOISES[name]
    X, y = data(5, 30, R)
    model = estimator(C, noise=noise, multi_class=multi_class, expectation=expectation, tol=1e-9).fit(X, y)
    phi, (mean, deviation, together) = reference(estimator, multi_class, expectation), moments(noise, X)
    rows, S = pairs_of(y, R)
    sign = -1 if multi_class == "multinomial" else 1

    def F(u):
        W, b = u[: R * D].reshape(R, D), u[R * D :]
        w = S @ W
        m = np.sum(mean[rows] * w, axis=1) + S @ b
        v = np.sum(((deviation[rows] * w) @ together) ** 2, axis=1)
        return 0.5 * np.sum(W**2) + C * np.sum(phi(sign * m.reshape(-1, R - 1), v.reshape(-1, R - 1)))

    at = np.concatenate([model.coef_.ravel(), model.intercept_])
    assert_allclose(F(at), model.objective_, rtol=1e-7)
    if estimator is DropoutLogisticRegression:
        best = minimize(F, np.zeros_like(at), method="BFGS", options={"gtol": 1e-5})
        assert_allclose(model.objective_, best.fun, rtol=1e-7)
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert F(at + 1e-3 * rng.normal(size=at.shape)) > F(at)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_noise_multinomial_is_scikit_learns(fit_intercept):
    X, y = data(1, 80, 4)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    options = {"C": 0.7, "fit_intercept": fit_intercept, "class_weight": "balanced"}
    ours = DropoutLogisticRegression(noise=0.0, multi_class="multinomial", tol=1e-10, **options)
    ours.fit(X, y, sample_weight=weights)
    theirs = LogisticRegression(tol=1e-10, max_iter=10_000, **options)
    # scikit-learn's "balanced" does not look at sample_weight, ours does.
    counts = np.bincount(y, weights)
    theirs.set_params(class_weight=dict(enumerate(counts.sum() / (4 * counts)))).fit(
        X, y, sample_weight=weights
    )
    assert_allclose(ours.coef_, theirs.coef_, atol=2e-4)
    assert_allclose(ours.intercept_, theirs.intercept_, atol=2e-4)
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
    assert_allclose(ours.intercept_.sum(), 0, atol=1e-12)


@both_joint
def test_two_classes_are_one_problem_in_any_case(estimator, multi_class):
    X, y = data(2, 40, 2)
    one = estimator(noise=0.3).fit(X, y)
    other = estimator(noise=0.3, multi_class=multi_class).fit(X, y)
    assert other.coef_.shape == (1, D)
    assert_array_equal(one.coef_, other.coef_)
    assert_array_equal(one.decision_function(X), other.decision_function(X))


@both_joint
def test_weights_are_repeated_examples(estimator, multi_class):
    X, y = data(3, 40, 4)
    times = np.random.default_rng(0).integers(0, 3, len(y))
    times[:4] = 1
    model = estimator(0.4, noise=0.4, multi_class=multi_class, tol=1e-8)
    weighted = pickle.loads(pickle.dumps(model)).fit(X, y, sample_weight=times)
    repeated = model.fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert_same_solution(weighted, repeated)


@both_joint
def test_balanced_is_scikit_learns(estimator, multi_class):
    X, y = data(4, 60, 3)
    y[y == 2] = np.where(np.arange(np.sum(y == 2)) < 4, 2, 0)
    options = {"noise": 0.4, "multi_class": multi_class, "tol": 1e-8}
    balanced = estimator(class_weight="balanced", **options).fit(X, y)
    weighted = estimator(**options).fit(X, y, sample_weight=compute_sample_weight("balanced", y))
    assert_same_solution(balanced, weighted)


@both_joint
@pytest.mark.parametrize("name", ["each", "groups", "gaussian"])
def test_storage_and_precision_of_X_do_not_matter(estimator, multi_class, name):
    X, y = data(6, 60, 4)
    X = np.round(X * 64) / 64  # the same in float32
    wide = np.hstack([X, np.zeros((60, 3))])
    noise = {
        "each": Dropout(np.r_[RATES, 0.5, 0.5, 0.5]),
        "groups": GroupDropout([*GROUPS, 3, 3, 3], 0.4),
    }.get(name, NOISES[name])
    wide[y == 1, 6], wide[y == 2, 7], wide[y == 3, 8] = 1.0, 0.5, 2.0  # features of one class alone
    long = sp.csr_array(wide)
    long.indices, long.indptr = long.indices.astype(np.int64), long.indptr.astype(np.int64)
    model = estimator(0.4, noise=noise, multi_class=multi_class, tol=1e-8)
    first = pickle.loads(pickle.dumps(model)).fit(wide, y)
    for other in (
        np.asfortranarray(wide),
        wide.astype(np.float32),
        sp.csr_array(wide.astype(np.float32)),
        long,
    ):
        assert_same_solution(first, pickle.loads(pickle.dumps(model)).fit(other, y))
    order = np.random.default_rng(0).permutation(60)
    assert_same_solution(first, pickle.loads(pickle.dumps(model)).fit(wide[order], y[order]))


@both_joint
def test_features_far_from_zero(estimator, multi_class):
    X, y = data(7, 60, 3)
    options = {"noise": Gaussian(0.2), "multi_class": multi_class, "tol": 1e-6}
    near, far = estimator(**options).fit(X, y), estimator(**options).fit(X + 100.0, y)
    assert_allclose(far.objective_, near.objective_, rtol=1e-6)
    assert_allclose(far.coef_, near.coef_, atol=1e-2)


@both_joint
def test_blocks_and_a_path_reach_the_same(estimator, multi_class):
    X, y = data(8, 90, 3)
    order = np.argsort(y)  # blocks without some of the classes
    model = estimator(0.4, noise=0.4, multi_class=multi_class, tol=1e-8)
    whole = pickle.loads(pickle.dumps(model)).fit(X, y)
    parts = [(X[own], y[own]) for own in np.array_split(order, 4)]
    assert_same_solution(whole, marginout.blocks.fit(pickle.loads(pickle.dumps(model)), parts))
    path = marginout.path(model, X, y, Cs=[0.1, 0.4], noises=[0.2, 0.4])
    assert path.coefs.shape == (2, 2, 3, D)
    assert_allclose(path.objectives[1, 1], whole.objective_, rtol=1e-7)
    assert_allclose(path.coefs[1, 1], whole.coef_, atol=1e-2)
    assert_allclose(path.intercepts[1, 1], whole.intercept_, atol=1e-2)
    warm = model.set_params(warm_start=True).fit(X, y).fit(X, y)
    assert warm.n_iter_ <= 2
    assert_allclose(warm.objective_, whole.objective_, rtol=1e-7)


@both_joint
def test_deleted_features(estimator, multi_class):
    """A raw deletion that is known: a feature of no value to the score."""
    X, y = data(9, 60, 3)
    holes = np.where(X == 0, np.nan, X)
    options = {"noise": Deletion(0.3), "multi_class": multi_class, "tol": 1e-8}
    assert_same_solution(
        estimator(missing="deleted", **options).fit(holes, y), estimator(**options).fit(X, y)
    )


@pytest.mark.parametrize("multi_class", ["pairwise", "multinomial"])
def test_probabilities_are_the_softmax_of_the_scores(multi_class):
    X, y = data(10, 60, 4)
    model = DropoutLogisticRegression(noise=0.3, multi_class=multi_class).fit(X, y)
    assert_allclose(model.predict_proba(X), softmax(model.decision_function(X), axis=1))
    assert_allclose(model.predict_log_proba(X), log_softmax(model.decision_function(X), axis=1))
    plain = model.to_sklearn()
    assert type(plain) is LogisticRegression
    assert_allclose(plain.predict_proba(X), model.predict_proba(X))
    assert_array_equal(plain.predict(X), model.predict(X))


@pytest.mark.parametrize("multi_class", ["pairwise", "multinomial"])
def test_probabilities_are_those_of_the_data(multi_class):
    """One feature that is always 1, no noise: offsets alone say how often each class comes."""
    shares = np.array([0.5, 0.3, 0.15, 0.05])
    y = np.repeat(np.arange(4), (1000 * shares).astype(int))
    X = np.random.default_rng(0).normal(size=(1000, 1)) * 1e-3
    model = DropoutLogisticRegression(1.0, noise=0.0, multi_class=multi_class, tol=1e-8).fit(X, y)
    assert_allclose(model.predict_proba(np.zeros((1, 1)))[0], shares, atol=1e-3)


def test_the_svm_converts_to_scikit_learn():
    X, y = data(11, 60, 4)
    model = DropoutSVC(noise=0.3, multi_class="pairwise").fit(X, y)
    assert_array_equal(model.to_sklearn().predict(X), model.predict(X))
    assert_allclose(model.to_sklearn().decision_function(X), model.decision_function(X))


def test_what_joint_losses_do_not_have_is_refused():
    X, y = data(12, 40, 3)
    with pytest.raises(
        ValueError, match=r"solver='irls' .* must be 'auto', 'ncg' or 'lbfgs', or multi_class must be 'ovr'"
    ):
        DropoutSVC(multi_class="pairwise", solver="irls").fit(X, y)
    with pytest.raises(AttributeError, match="partial_fit") as caught:
        DropoutSVC(multi_class="pairwise").partial_fit(X, y, classes=[0, 1, 2])
    assert "multi_class='pairwise' must be 'ovr'. Or fit to blocks" in str(caught.value.__cause__)
    for model, bad in [
        (DropoutSVC, "multinomial"),
        (DropoutSVC, None),
        (DropoutLogisticRegression, "ovo"),
        (DropoutLogisticRegression, 3),
    ]:
        with pytest.raises(ValueError, match=rf"multi_class={bad!r} must be one of .*'ovr', 'pairwise'"):
            model(multi_class=bad).fit(X, y)
        with pytest.raises(ValueError, match="multi_class"):
            model(multi_class=bad).fit(X[y < 2], y[y < 2])
    good = DropoutSVC(multi_class="pairwise").fit(X, y)
    before = good.coef_.copy()
    with pytest.raises(ValueError, match="NaN"):
        good.fit(np.where(X > 1, np.nan, X), y)
    assert_array_equal(good.coef_, before)


def test_probabilities_are_those_of_the_fit():
    """They do not follow a parameter that was changed since."""
    X, y, *_ = data()
    model = DropoutLogisticRegression(multi_class="multinomial").fit(X, y)
    before = model.predict_proba(X)
    assert_array_equal(model.set_params(multi_class="ovr").predict_proba(X), before)


def test_classes_that_are_given_up_are_certified():
    """Heavy noise and features far from zero: two classes get the same weights, at the tip of a cone."""
    X, y = problem(DropoutSVC)
    model = DropoutSVC(multi_class="pairwise", noise=0.5, tol=1e-6).fit(X + 1.0, y)
    assert_allclose(model.coef_[0], model.coef_[1], atol=1e-4)
    assert model.optimality_gap_ <= 1e-3 * model.objective_
    assert np.all(np.diff(model.objective_history_) <= 1e-14 * model.objective_)


@pytest.mark.parametrize("solver", ["auto", "ncg", "lbfgs"])
@pytest.mark.parametrize("joint", ["multinomial", "pairwise"])
def test_a_matrix_without_any_entry(joint, solver):
    """No part of the sums divides by the number of its features; every class has the same score."""
    y = np.repeat([0, 1, 2], 4)
    model = DropoutLogisticRegression(multi_class=joint, solver=solver, noise=0.5)
    for X in (sp.csr_array((12, 1)), sp.csr_array((12, 3), dtype=np.float32)):
        model.fit(X, y)
        assert not model.coef_.any()
        np.testing.assert_allclose(model.predict_proba(X), 1 / 3, atol=1e-6)


@pytest.mark.parametrize("joint", ["multinomial", "pairwise"])
def test_a_class_without_any_entry(joint):
    rng = np.random.default_rng(0)
    X, y = rng.poisson(0.5, size=(60, 6)).astype(float), np.arange(60) % 3
    X[y == 1] = 0
    sparse, dense = (
        DropoutLogisticRegression(multi_class=joint, noise=0.5, tol=1e-8).fit(each, y)
        for each in (sp.csr_array(X), X)
    )
    assert_allclose(sparse.coef_, dense.coef_, atol=1e-4)
