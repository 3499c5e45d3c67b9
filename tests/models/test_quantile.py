"""Quantile regression against a conic solver, quadrature, scikit-learn's linear programme, and itself."""

from __future__ import annotations

import pickle
from itertools import product

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.base import clone
from sklearn.linear_model import QuantileRegressor
from sklearn.metrics import make_scorer, mean_pinball_loss
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import marginout
from marginout import DropoutQuantileRegressorCV, blocks
from marginout.noise import Deletion, Dropout, Gaussian, Poisson
from tests.paper import DropoutQuantileRegressor
from tests.problems import EXPECTATIONS, SOLVERS

TIGHT = {"tol": 1e-8, "max_iter": 5000}
THREE = [0.1, 0.5, 0.9]
SEARCH = {"Cs": [0.01, 0.1, 1.0], "noises": [0.0, 0.2], "cv": 3}


@parametrize_with_checks(
    [
        *(DropoutQuantileRegressor(0.3, solver=solver, tol=1e-2) for solver in SOLVERS),
        DropoutQuantileRegressor(0.3, expectation="gaussian"),
        DropoutQuantileRegressor(0.8, noise=0.0),
        DropoutQuantileRegressor(noise=Gaussian(0.1)),
        DropoutQuantileRegressorCV(0.3, [0.1, 1.0], [0.1], cv=2),
    ]
)
@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore::marginout.GridEdgeWarning"
)
def test_check_estimator(estimator, check):
    check(estimator)


def data(n=80, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=d) + (1 + np.abs(X[:, 0])) * rng.standard_t(4, n) + 3.0


# ------------------------------------------------------------------------------------------- the optimum


def conic(X, y, weights, quantile, C, noise, fit_intercept):
    """The least F, by cvxpy and Clarabel."""
    M, V = noise.mean(X), noise.var(X)
    w, b = cp.Variable(X.shape[1]), cp.Variable() if fit_intercept else 0.0
    error = y - M @ w - b
    deviations = cp.multiply(np.sqrt(V), np.ones((len(V), 1)) @ cp.reshape(w, (1, -1), order="C"))
    radius = cp.norm(cp.hstack([cp.reshape(error, (-1, 1), order="C"), deviations]), axis=1)
    losses = 0.5 * radius + (quantile - 0.5) * error
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + C * (weights @ losses)))
    problem.solve(solver=cp.CLARABEL)
    return problem.value


NOISES = [
    Dropout(0.4),
    Dropout([0.0, 0.2, 0.4, 0.6, 0.8]),
    Deletion(0.3),
    Gaussian(0.5),
    Poisson(),
    Dropout(0.0),
]
PROBLEMS = list(product(NOISES, [0.05, 0.5, 0.8], [True, False]))


@pytest.mark.parametrize("solver", ["auto", "irls", "lbfgs"])
@pytest.mark.parametrize(("noise", "quantile", "fit_intercept"), PROBLEMS)
def test_optimum_is_the_conic_solvers(noise, quantile, fit_intercept, solver):
    seed = PROBLEMS.index((noise, quantile, fit_intercept))
    X, y = data(30, seed=seed)
    X = np.abs(X) if isinstance(noise, Poisson) else X
    rng = np.random.default_rng(seed)
    weights, C = rng.gamma(2.0, 0.5, len(y)), float(10 ** rng.uniform(-1.5, 1))
    best = conic(X, y, weights, quantile, C, noise, fit_intercept)
    options = {"noise": noise, "fit_intercept": fit_intercept, "solver": solver, **TIGHT}
    for storage in (np.asarray, sp.csr_array):
        model = DropoutQuantileRegressor(quantile, C, **options).fit(storage(X), y, weights)
        assert_allclose(model.objective_, best, rtol=1e-6)
        assert model.objective_ - model.optimality_gap_ <= best * (1 + 1e-6)


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.75])
def test_without_noise_and_ridge_it_is_scikit_learns(quantile):
    X, y = data(151)
    model = DropoutQuantileRegressor(quantile, C=1e5, noise=0.0, **TIGHT).fit(X, y)
    other = QuantileRegressor(quantile=quantile, alpha=0.0).fit(X, y)
    assert_allclose(model.coef_, other.coef_, atol=1e-4)
    assert_allclose(model.intercept_, other.intercept_, atol=1e-4)
    ours, theirs = (mean_pinball_loss(y, m.predict(X), alpha=quantile) for m in (model, other))
    assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize("n", [40, 3000])  # by Newton's method, and by dual coordinate descent
@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("expectation", EXPECTATIONS)
def test_several_quantiles_are_each_alone(noise, expectation, n):
    X, y = data(n, d=3 if n < 100 else 60)
    options = {"C": 0.5, "noise": noise, "expectation": expectation, **TIGHT}
    together = DropoutQuantileRegressor(THREE, **options).fit(X, y)
    assert together.coef_.shape == (3, X.shape[1])
    assert together.predict(X).shape == (n, 3)
    alone = [DropoutQuantileRegressor(quantile, **options).fit(X, y) for quantile in THREE]
    assert_allclose(together.objective_, sum(model.objective_ for model in alone), rtol=1e-7)
    for k, model in enumerate(alone):
        assert model.coef_.shape == X.shape[1:]
        assert model.predict(X).shape == (n,)
        assert_allclose(together.predict(X)[:, k], model.predict(X), atol=2e-3)
    one = DropoutQuantileRegressor(THREE[:1], **options).fit(X, y)
    assert one.predict(X).shape == (n, 1)


# ------------------------------------------------------------------------------------ what is guaranteed


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("noise", [0.0, 0.4, Gaussian(1.0)], ids=str)
def test_mean_predictions_are_in_the_order_of_the_quantiles(noise, fit_intercept):
    for seed in range(2):
        X, y = data(25, d=10, seed=seed)
        weights = np.random.default_rng(seed).gamma(1.0, size=len(y))
        options = {"noise": noise, "fit_intercept": fit_intercept, **TIGHT}
        model = DropoutQuantileRegressor(np.linspace(0.05, 0.95, 19), 10.0, **options).fit(X, y, weights)
        means = weights @ model.predict(X) / weights.sum()
        assert np.all(np.diff(means) >= -1e-4)
        spread = np.sort(model.predict(X), axis=1)
        assert model.score(X, y) <= -mean_pinballs(y, spread, model.quantile) + 1e-12


def mean_pinballs(y, predictions, quantiles):
    pairs = zip(predictions.T, quantiles, strict=True)
    return np.mean([mean_pinball_loss(y, column, alpha=quantile) for column, quantile in pairs])


def test_without_noise_shares_of_the_training_targets_lie_below():
    X, y = data(200)
    below = (y[:, None] < DropoutQuantileRegressor(THREE, noise=0.0, **TIGHT).fit(X, y).predict(X)).mean(
        axis=0
    )
    assert_allclose(below, THREE, atol=(X.shape[1] + 1) / len(y))


def test_with_noise_shares_lie_below_the_noisy_predictions():
    X, y = data(200)
    noise = Dropout(0.4)
    model = DropoutQuantileRegressor(THREE, C=10, noise=noise, expectation="gaussian", **TIGHT).fit(X, y)
    deviation = np.sqrt(noise.var(X) @ (model.coef_.T**2))
    below = norm.cdf((model.predict(X) - y[:, None]) / deviation).mean(axis=0)
    assert_allclose(below, THREE, atol=1e-4)


def test_coverage_on_other_data_is_nominal():
    """A linear model of the right form, 20,000 examples: within two points."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 8))
    y = X @ rng.normal(size=8) + rng.normal(size=len(X))
    model = DropoutQuantileRegressor(THREE, noise=0.0).fit(X[::2], y[::2])
    assert_allclose((y[1::2, None] < model.predict(X[1::2])).mean(axis=0), THREE, atol=0.02)


# ----------------------------------------------------------------------------------------- the same, from


@pytest.mark.parametrize("quantile", [0.3, THREE])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_blocks_and_copies_and_storage(noise, quantile):
    X, y = data(120)
    model = DropoutQuantileRegressor(quantile, noise=noise, **TIGHT)
    whole = clone(model).fit(X, y)
    parts = [(X[:50], y[:50]), (X[50:], y[50:])]
    apart = blocks.fit(clone(model), parts)
    assert_allclose(apart.objective_, whole.objective_, rtol=1e-6)
    assert_allclose(apart.predict(X), whole.predict(X), atol=1e-2)
    assert apart.coef_.shape == whole.coef_.shape
    assert_array_equal(pickle.loads(pickle.dumps(whole)).predict(X), whole.predict(X))
    for other in (X.astype(np.float32), sp.csr_array(X), np.asfortranarray(X)):
        assert_allclose(clone(model).fit(other, y).objective_, whole.objective_, rtol=1e-6)
    twice = np.repeat(np.arange(len(y)), 2)
    assert_allclose(
        clone(model).set_params(C=0.5).fit(X[twice], y[twice]).objective_, whole.objective_, rtol=1e-6
    )
    again = clone(model).set_params(warm_start=True).fit(X, y)
    assert_allclose(again.fit(X, y).objective_, whole.objective_, rtol=1e-7)


@pytest.mark.parametrize("expectation", EXPECTATIONS)
@pytest.mark.parametrize("quantile", [0.3, [0.1, 0.9]])
def test_a_stream_approaches_the_fit(quantile, expectation):
    X, y = data(20_000)
    model = DropoutQuantileRegressor(quantile, 0.1, noise=0.2, expectation=expectation)
    exact = clone(model).fit(X, y)
    for i in range(0, len(y), 5000):
        model.partial_fit(X[i : i + 5000], y[i : i + 5000])
    assert model.coef_.shape == exact.coef_.shape
    assert model.score(X, y) >= 1.01 * exact.score(X, y)
    assert_allclose(model.predict(X).mean(axis=0), exact.predict(X).mean(axis=0), atol=0.1)
    with pytest.raises(ValueError, match=r"stream has . outputs, but these examples have 3"):
        model.set_params(quantile=THREE).partial_fit(X, y)


def test_dask():
    pytest.importorskip("distributed", reason="distributed is not installed")
    import dask.array as da
    from dask.distributed import Client

    from marginout.dask import DropoutQuantileRegressor as Remote

    X, y = data(300)
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None):
        for quantile in (0.3, THREE):
            local = DropoutQuantileRegressor(quantile, noise=0.3, **TIGHT).fit(X, y)
            remote = Remote(quantile, noise=0.3, **TIGHT)
            Xd, yd = da.from_array(X, (100, 5)), da.from_array(y, 100)
            remote.fit(Xd, yd)
            assert_allclose(remote.objective_, local.objective_, rtol=1e-7)
            predicted = remote.predict(Xd)
            assert predicted.shape == local.predict(X).shape
            assert_allclose(predicted.compute(), local.predict(X), atol=1e-3)
            assert_allclose(remote.score(Xd, yd).compute(), local.score(X, y), rtol=1e-4)


def test_to_sklearn():
    X, y = data()
    model = DropoutQuantileRegressor(0.3).fit(X, y)
    plain = model.to_sklearn()
    assert plain.quantile == 0.3
    assert_allclose(plain.predict(X), model.predict(X), rtol=1e-14)
    with pytest.raises(ValueError, match=r"quantile=\[0\.1, 0\.9\].*a model for each"):
        DropoutQuantileRegressor([0.1, 0.9]).fit(X, y).to_sklearn()


# ---------------------------------------------------------------------------------------------- searches


@pytest.mark.parametrize("quantile", [0.2, [0.1, 0.9]])
@pytest.mark.filterwarnings("ignore::marginout.GridEdgeWarning")
def test_search_is_the_mean_pinball_loss_of_grid_search(quantile):
    X, y = data(90)
    search = DropoutQuantileRegressorCV(quantile, **SEARCH, tol=1e-6).fit(X, y)
    assert search.predict(X).shape == (90,) if np.ndim(quantile) == 0 else (90, 2)
    assert_array_equal(search.predict(X), search.best_estimator_.predict(X))
    grid = {"C": SEARCH["Cs"], "noise": SEARCH["noises"]}
    other = GridSearchCV(DropoutQuantileRegressor(quantile, tol=1e-6), grid, cv=3).fit(X, y)
    assert_allclose(search.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"], rtol=1e-3)
    if np.ndim(quantile) == 0:
        scorer = make_scorer(mean_pinball_loss, alpha=quantile, greater_is_better=False)
        named = DropoutQuantileRegressorCV(quantile, **SEARCH, tol=1e-6, scoring=scorer).fit(X, y)
        assert_allclose(named.scores_, search.scores_, rtol=1e-10)


def test_cross_validation_scores_are_pinball_losses():
    X, y = data()
    model = DropoutQuantileRegressor(THREE)
    for (train, test), score in zip(
        KFold(3).split(X), cross_val_score(model, X, y, cv=KFold(3)), strict=True
    ):
        predicted = clone(model).fit(X[train], y[train]).predict(X[test])
        assert_allclose(score, -mean_pinballs(y[test], predicted, THREE), rtol=1e-12)


def test_path():
    X, y = data()
    path = marginout.path(
        DropoutQuantileRegressor([0.1, 0.9], tol=1e-6), X, y, Cs=[0.1, 1.0], noises=[0.0, 0.3]
    )
    assert path.coefs.shape == (2, 2, 2, 5)
    model = DropoutQuantileRegressor([0.1, 0.9], 1.0, noise=0.3, tol=1e-6).fit(X, y)
    assert_allclose(path.objectives[1, 1], model.objective_, rtol=1e-6)
    assert_allclose(path.intercepts[1, 1], model.intercept_, atol=1e-2)


# --------------------------------------------------------------------------------------------- bad input


BAD = [0.0, 1.0, -0.1, 2, np.nan, "0.5", None, [], [0.1, 1.0], [[0.1]], [0.1, "a"], True, {0.5}]


@pytest.mark.parametrize("quantile", BAD, ids=repr)
@pytest.mark.parametrize("estimator", [DropoutQuantileRegressor, DropoutQuantileRegressorCV])
def test_bad_quantiles(estimator, quantile):
    X, y = data(30)
    model = estimator(quantile)
    with pytest.raises(ValueError, match=r"quantile=.*must be a number between 0 and 1, or a list") as caught:
        model.fit(X, y)
    assert repr(quantile) in str(caught.value)
    assert not hasattr(model, "coef_")


def test_bad_targets():
    X, y = data(30)
    for model in (DropoutQuantileRegressor(), DropoutQuantileRegressor([0.1, 0.9])):
        with pytest.raises(ValueError, match="y should be a 1d array"):
            model.fit(X, np.column_stack([y, y]))
        with pytest.raises(ValueError, match="Input y contains NaN"):
            model.fit(X, np.where(y > 3, np.nan, y))
        with pytest.raises(ValueError, match="expectation='median'"):
            clone(model).set_params(expectation="median").fit(X, y)


def test_constant_targets_are_met():
    X, _ = data(30)
    model = DropoutQuantileRegressor([0.1, 0.9]).fit(X, np.full(30, 7.0))
    assert_allclose(model.predict(X), 7.0, atol=1e-6)
