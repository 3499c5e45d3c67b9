"""Fits that begin where the last one ended."""

from __future__ import annotations

import pytest
from numpy.testing import assert_allclose, assert_array_equal

from marginout import MCFClassifier, MCFRegressor
from tests.paper import DropoutSVC, DropoutSVR
from tests.problems import (
    CLASSIFIERS,
    ESTIMATORS,
    SOLVERS,
    assert_same_attributes,
    fitted_attributes,
    problem,
)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_warm_start_is_a_start(estimator, solver):
    X, y = problem(estimator)
    model = estimator(C=5.0, noise=0.05, solver=solver, tol=1e-6, warm_start=True)
    first = model.fit(X, y).objective_
    assert model.n_iter_ > 2
    assert model.fit(X, y).n_iter_ <= 2
    assert model.objective_ <= first * (1 + 1e-12)
    assert model.objective_ >= first * (1 - 1e-6)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_no_warm_start_unasked(estimator):
    X, y = problem(estimator)
    model = estimator(noise=0.2).fit(X, y)
    first = fitted_attributes(model)
    assert_same_attributes(model.fit(X, y), first)


@pytest.mark.parametrize("estimator", [DropoutSVC, DropoutSVR])
def test_warm_start_without_noise_changes_nothing(estimator):
    X, y = problem(estimator)
    model = estimator(noise=0.0, tol=1e-5, warm_start=True)
    first = model.fit(X, y).objective_
    assert_allclose(model.fit(X, y).objective_, first, rtol=1e-6)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_warm_start_follows_a_path(estimator):
    """A model warm-started along C reaches the optimum of every C."""
    X, y = problem(estimator)
    walker = estimator(noise=0.2, tol=1e-8, warm_start=True)
    for C in 0.01, 0.1, 1.0, 10.0:
        walker.set_params(C=C).fit(X, y)
        fresh = estimator(C=C, noise=0.2, tol=1e-8).fit(X, y)
        assert_allclose(walker.objective_, fresh.objective_, rtol=1e-8)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_warm_start_ignores_another_number_of_features(estimator):
    X, y = problem(estimator)
    model = estimator(warm_start=True).fit(X, y).fit(X[:, :4], y)
    assert_array_equal(model.coef_, estimator().fit(X[:, :4], y).coef_)


@pytest.mark.parametrize("estimator", [*ESTIMATORS, MCFClassifier, MCFRegressor])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_warm_start_without_an_offset_forgets_the_last_one(estimator, noise):
    X, y = problem(estimator)
    model = estimator(noise=noise, tol=1e-8, warm_start=True).fit(X + 1, y)
    assert model.intercept_.any()
    model.set_params(fit_intercept=False).fit(X + 1, y)
    fresh = estimator(noise=noise, tol=1e-8, fit_intercept=False).fit(X + 1, y)
    assert not model.intercept_.any()
    assert_allclose(model.objective_, fresh.objective_, rtol=1e-6)


@pytest.mark.parametrize("estimator", CLASSIFIERS)
@pytest.mark.parametrize("others", [lambda y: y + 1, lambda y: y == 0, lambda y: y % 2], ids=range(3))
def test_warm_start_ignores_other_classes(estimator, others):
    X, y = problem(estimator)
    model = estimator(warm_start=True).fit(X, y).fit(X, others(y))
    assert_array_equal(model.coef_, estimator().fit(X, others(y)).coef_)
