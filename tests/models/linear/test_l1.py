"""Elastic nets and ℓ1: against an interior-point method, against scikit-learn, and their certificates."""

from itertools import product

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.utils.fixes import parse_version

import marginout
from marginout.noise import Deletion, Dropout, Gaussian, GroupDropout, Poisson
from tests.paper import DropoutLogisticRegression, DropoutSVC, DropoutSVR
from tests.problems import ESTIMATORS, problem, quiet

N, D = 50, 12
#: From 1.8 on its penalty follows from l1_ratio.
sklearn_takes_l1_ratio = parse_version(sklearn.__version__) >= parse_version("1.8")
NOISES = {
    "none": Dropout(0.0),
    "dropout": Dropout(0.3),
    "each": Dropout(np.linspace(0.1, 0.7, D)),
    "deletion": Deletion(0.4),
    "gaussian": Gaussian(0.5),
    "poisson": Poisson(),
}
NOISY = [name for name in NOISES if name != "none"]


def data(seed, regression=False):
    """Counts of which a third decide, some entries zero, and weights of examples."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(1.0, (N, D)) * rng.uniform(0.5, 1.5, D)
    y = (X[:, :4] - X[:, :4].mean(axis=0)) @ [1.0, -1.0, 0.7, -0.5] + 0.5 * rng.normal(size=N)
    return X, y if regression else np.where(y > 0.3, 1, -1), rng.uniform(0.2, 2.0, N)


def moments(noise, X):
    """M, and the deviation of every entry, from what the noise says of a feature's mean and variance."""
    scale, coefficient, power, _ = noise.moments(D)
    mean = X * scale
    return mean, np.sqrt(coefficient * mean**power)


def penalty(w, ratio):
    return 0.5 * (1 - ratio) * cp.sum_squares(w) + ratio * cp.norm1(w)


def conic(terms, noise, X, C, weights, ratio, fit_intercept=True):
    """min penalty + C Σ s·terms(m, deviations) by an interior-point method, and its weights."""
    mean, deviation = moments(noise, X)
    w, b = cp.Variable(D), cp.Variable()
    m = mean @ w + (b if fit_intercept else 0)
    loss = terms(m, deviation @ cp.diag(w))
    problem = cp.Problem(cp.Minimize(penalty(w, ratio) + C * weights @ loss))
    problem.solve(solver=cp.CLARABEL)
    return problem.value, w.value


def root(z, spread):
    """√(z² + v)."""
    return cp.norm(cp.hstack([cp.reshape(z, (N, 1), order="C"), spread]), 2, axis=1)


def hinge(y):
    return lambda m, spread: 0.5 * (1 - cp.multiply(y, m) + root(1 - cp.multiply(y, m), spread))


def squared(y):
    return lambda m, spread: cp.square(cp.pos(1 - cp.multiply(y, m))) + cp.sum(cp.square(spread), axis=1)


def tube(y, epsilon=0.2):
    return lambda m, s: 0.5 * (root(y - m - epsilon, s) + root(y - m + epsilon, s)) - epsilon


MODELS = {
    "hinge": (DropoutSVC, {}, hinge),
    "squared": (DropoutSVC, {"loss": "squared_hinge"}, squared),
    "tube": (DropoutSVR, {"epsilon": 0.2}, tube),
}


def assert_same(model, value, w, rtol=1e-5):
    assert_allclose(model.objective_, value, rtol=rtol)
    assert model.objective_ - value + rtol * value >= 0
    assert model.objective_ - value <= model.optimality_gap_ + 1e-7 * value
    found = model.coef_.ravel()
    assert_allclose(found, w, atol=5e-3 * np.abs(w).max())
    clear = np.abs(w) > 1e-3 * np.abs(w).max()
    assert np.all(found[clear] != 0)
    assert_array_equal(found[np.abs(w) < 1e-7], 0.0)


@pytest.mark.parametrize("ratio", [0.5, 1.0])
@pytest.mark.parametrize("name", NOISY)
@pytest.mark.parametrize("kind", MODELS)
def test_the_optimum_is_that_of_an_interior_point_method(kind, name, ratio):
    estimator, parameters, terms = MODELS[kind]
    seed = list(product(MODELS, NOISY)).index((kind, name))
    X, y, weights = data(seed, kind == "tube")
    fit_intercept, noise = seed % 3 > 0, NOISES[name]
    value, w = conic(terms(y), noise, X, 0.2, weights, ratio, fit_intercept)
    model = estimator(
        0.2, noise=noise, l1_ratio=ratio, fit_intercept=fit_intercept, tol=1e-6, max_iter=200, **parameters
    ).fit(sp.csr_array(X) if seed % 2 else X, y, weights)
    assert_same(model, value, w)


@pytest.mark.parametrize("expectation", ["bound", "gaussian"])
@pytest.mark.parametrize("ratio", [0.3, 1.0])
def test_a_logistic_loss_is_minimised_like_by_bounded_quasi_newton_steps(ratio, expectation):
    X, y, weights = data(7)
    mean, deviation = moments(NOISES["dropout"], X)
    nodes, shares = np.polynomial.hermite_e.hermegauss(60)

    def F(parts):
        w = parts[:D] - parts[D : 2 * D]
        m, v = mean @ w + parts[-1], (deviation**2) @ w**2
        if expectation == "bound":
            root = np.sqrt(m * m + v)
            each = np.logaddexp(0.5 * root, -0.5 * root) - 0.5 * y * m
        else:
            scores = m[:, None] + np.sqrt(v)[:, None] * nodes
            each = np.logaddexp(0, -y[:, None] * scores) @ shares / shares.sum()
        return 0.5 * (1 - ratio) * w @ w + ratio * parts[:-1].sum() + 0.5 * weights @ each

    best = minimize(
        F,
        np.full(2 * D + 1, 0.01),
        method="L-BFGS-B",
        bounds=[(0, None)] * 2 * D + [(None, None)],
        options={"maxiter": 5000, "maxfun": 10**6, "ftol": 1e-14, "gtol": 1e-9},
    )
    model = DropoutLogisticRegression(0.5, noise=0.3, l1_ratio=ratio, expectation=expectation, tol=1e-7)
    model.fit(X, y, weights)
    assert_allclose(model.objective_, best.fun, rtol=1e-6)
    assert_allclose(model.coef_[0], best.x[:D] - best.x[D : 2 * D], atol=2e-3)
    assert 0 < np.count_nonzero(model.coef_) < D


@pytest.mark.parametrize("ratio", [0.4, 1.0])
def test_without_noise_it_is_the_logistic_regression_of_scikit_learn(ratio):
    X, y, _ = data(3)
    options = {"C": 0.3, "l1_ratio": ratio}
    model = DropoutLogisticRegression(noise=0.0, tol=1e-8, **options).fit(X, y)
    other = LogisticRegression(solver="saga", tol=1e-10, max_iter=100_000, **options)
    if not sklearn_takes_l1_ratio:
        other.set_params(penalty="elasticnet")
    other.fit(X, y)
    assert_allclose(model.coef_, other.coef_, atol=1e-5)
    assert_allclose(model.intercept_, other.intercept_, atol=1e-5)
    assert_array_equal(model.coef_ != 0, other.coef_ != 0)


@pytest.mark.parametrize("kind", MODELS)
def test_without_noise_kinks_are_smoothed_away(kind):
    estimator, parameters, terms = MODELS[kind]
    X, y, weights = data(5, kind == "tube")
    value, w = conic(terms(y), NOISES["none"], X, 0.3, weights, 1.0)
    model = estimator(0.3, noise=0.0, l1_ratio=1.0, tol=1e-5, **parameters).fit(X, y, weights)
    assert_same(model, value, w)


@pytest.mark.parametrize("noise", [0.0, 0.3, Gaussian(0.5)], ids=repr)
def test_storage_does_not_matter(noise):
    X, y, _ = data(1)
    y = np.digitize(X[:, 0] - X[:, 1], [-0.5, 0.7])
    models = [
        DropoutLogisticRegression(0.5, noise=noise, l1_ratio=0.8, tol=1e-8).fit(form, y)
        for form in (
            X,
            np.asfortranarray(X),
            sp.csr_array(X),
            X.astype(np.float32),
            sp.csr_array(X, dtype="f4"),
        )
    ]
    for model in models:
        assert_allclose(model.coef_, models[0].coef_, atol=1e-5)
        assert_allclose(model.intercept_, models[0].intercept_, atol=1e-5)
    assert models[0].coef_.shape == (3, D)
    assert 0 < np.count_nonzero(models[0].coef_) < 3 * D


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_more_of_it_means_fewer_weights_and_none_at_a_small_C(estimator):
    X, y = problem(estimator, n=80, d=20, n_classes=2)
    counts = [
        np.count_nonzero(estimator(0.1, noise=0.2, l1_ratio=ratio).fit(X, y).coef_)
        for ratio in (0.0, 0.5, 1.0)
    ]
    assert counts[0] == 20 > counts[1] > counts[2] > 0
    with pytest.warns(marginout.CollapsedModelWarning, match="lower l1_ratio=1.0"):
        model = estimator(1e-4, noise=0.2, l1_ratio=1.0).fit(X, y)
    assert not model.coef_.any()
    assert model.optimality_gap_ <= 1e-3 * model.objective_


def test_certificates_hold_however_early_the_fit_stops():
    X, y, _ = data(2)
    best = DropoutSVC(noise=0.3, l1_ratio=0.9, tol=1e-8).fit(X, y).objective_
    for max_iter in range(1, 8):
        model = quiet(DropoutSVC(noise=0.3, l1_ratio=0.9, tol=1e-9, max_iter=max_iter), X, y)
        assert model.objective_ - best <= model.optimality_gap_ + 1e-7 * best


def test_a_path_holds_what_fits_find():
    X, y, _ = data(4)
    estimator = DropoutLogisticRegression(l1_ratio=1.0, tol=1e-7)
    path = marginout.path(estimator, X, y, Cs=6, noises=[0.0, 0.4])
    assert not path.coefs[0].any() or np.count_nonzero(path.coefs[0, 0]) <= 2
    for i, j in product(range(6), range(2)):
        model = DropoutLogisticRegression(path.Cs[i], noise=path.noises[j], l1_ratio=1.0, tol=1e-7)
        if i > 1:
            assert_allclose(path.objectives[i, j], model.fit(X, y).objective_, rtol=1e-6)
            assert_allclose(path.coefs[i, j], model.coef_, atol=1e-3 * np.abs(model.coef_).max())


@pytest.mark.filterwarnings("ignore::marginout.GridEdgeWarning")
def test_a_search_chooses_a_sparse_model():
    X, y, _ = data(4)
    X = np.hstack([X, np.random.default_rng(0).normal(size=(N, 30))])
    search = marginout.DropoutSVCCV(Cs=[0.1, 1.0, 10.0], noises=[0.1, 0.3], l1_ratio=1.0, cv=3).fit(X, y)
    assert search.best_estimator_.l1_ratio == 1.0
    assert 0 < np.count_nonzero(search.coef_) < D + 30


def test_a_warm_start_ends_at_the_same_optimum_sooner():
    X, y, _ = data(6)
    model = DropoutSVC(0.5, noise=0.3, l1_ratio=1.0, tol=1e-6, warm_start=True).fit(X, y)
    first, objective = model.n_iter_, model.objective_
    model.fit(X, y)
    assert_allclose(model.objective_, objective, rtol=1e-6)
    assert model.n_iter_ < first


def test_sparse_weights_predict_the_same_and_go_everywhere():
    X, y, _ = data(6)
    model = DropoutLogisticRegression(0.2, noise=0.3, l1_ratio=1.0, warm_start=True).fit(X, y)
    coef, scores = model.coef_, model.decision_function(X)
    assert model.sparsify() is model
    assert sp.issparse(model.coef_)
    for form in (X, sp.csr_array(X), X.astype(np.float32)):
        assert_allclose(model.decision_function(form), scores, rtol=1e-5)
    assert_allclose(model.to_sklearn().decision_function(X), scores)
    assert_array_equal(model.densify().coef_, coef)
    model.sparsify().fit(X, y)  # a warm start
    assert isinstance(model.coef_, np.ndarray)
    model.set_params(l1_ratio=0).sparsify().partial_fit(X, y)
    assert isinstance(model.coef_, np.ndarray)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"l1_ratio": 1.5}, "l1_ratio=1.5 must be a number from 0"),
        ({"l1_ratio": -0.1}, "l1_ratio=-0.1 must be a number >= 0"),
        ({"l1_ratio": "l1"}, "l1_ratio='l1' must be a number"),
        ({"l1_ratio": 0.5, "solver": "lbfgs"}, "solver='lbfgs' needs a smooth penalty: set solver='auto'"),
        ({"l1_ratio": 0.5, "multi_class": "pairwise"}, "set multi_class='ovr', or l1_ratio=0"),
        ({"l1_ratio": 0.5, "noise": GroupDropout([0] * 6 + [1] * 6, 0.3)}, "take noise without groups"),
    ],
    ids=lambda value: None if isinstance(value, dict) else value[:20],
)
def test_what_cannot_be_is_refused_with_a_cure(parameters, message):
    X, _, _ = data(0)
    model = DropoutSVC(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(X, np.digitize(X[:, 0], [0.5, 1.5]))
    assert not hasattr(model, "coef_")


def test_streams_and_blocks_refuse_it_with_a_cure():
    X, y, _ = data(0)
    for estimator in ESTIMATORS:
        assert not hasattr(estimator(l1_ratio=0.5), "partial_fit")
        with pytest.raises(AttributeError) as raised:
            estimator(l1_ratio=0.5).partial_fit(X, y)
        assert "l1_ratio=0.5 must be 0. Or fit to all examples at once" in str(raised.value.__cause__)
    with pytest.raises(ValueError, match=r"needs all examples in one place.*or set l1_ratio=0"):
        marginout.blocks.fit(DropoutSVC(l1_ratio=0.5), [(X[:25], y[:25]), (X[25:], y[25:])])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "model",
    [
        DropoutLogisticRegression(noise=0.0),
        DropoutLogisticRegression(noise=0.3),
        DropoutSVC(noise=0.3),
        DropoutSVC(noise=0.0, loss="squared_hinge"),
    ],
)
def test_a_fit_ends_within_its_tolerance(model, seed):
    """What is left is judged by the error of the last model: no bound, but it held on all of these."""
    rng = np.random.default_rng(seed)
    X = sp.random(300, 400, 0.05, "csr", random_state=seed, data_rvs=lambda size: rng.gamma(1.0, 1.0, size))
    y = np.asarray(X @ rng.laplace(size=400)) + 0.5 * rng.normal(size=300) > 0
    model.set_params(l1_ratio=1.0, C=3.0, tol=1e-8)
    best = model.fit(X, y).objective_
    for tol in (1e-1, 1e-2, 1e-3):
        assert model.set_params(tol=tol).fit(X, y).objective_ <= (1 + 0.1 * tol) * best
