"""Every parameter of the linear estimators matters, and has its place in the docstring."""

from __future__ import annotations

import doctest
import importlib
import inspect

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning

from marginout import CollapsedModelWarning
from marginout.noise import Deletion
from tests.paper import DropoutSVC, DropoutSVR
from tests.problems import CLASSIFIERS, ESTIMATORS, SOLVERS, fitted_attributes, problem

CHANGES = [
    *((estimator, {"C": 1.0}, {"C": 0.1}) for estimator in ESTIMATORS),
    *((estimator, {"noise": 0.5}, {"noise": 0.4}) for estimator in ESTIMATORS),
    *((estimator, {"noise": 0.5}, {"noise": Deletion(0.5)}) for estimator in ESTIMATORS),
    *((estimator, {"expectation": "bound"}, {"expectation": "gaussian"}) for estimator in ESTIMATORS),
    *((estimator, {"fit_intercept": True}, {"fit_intercept": False}) for estimator in ESTIMATORS),
    *((estimator, {"class_weight": None}, {"class_weight": "balanced"}) for estimator in CLASSIFIERS),
    *((estimator, {"class_weight": None}, {"class_weight": {0: 2.0}}) for estimator in CLASSIFIERS),
    *((estimator, {"multi_class": "ovr"}, {"multi_class": "pairwise"}) for estimator in CLASSIFIERS),
    *((estimator, {"l1_ratio": 0.0}, {"l1_ratio": 0.5}) for estimator in ESTIMATORS),
    (DropoutSVC, {"margin": 1.0}, {"margin": 0.5}),
    (DropoutSVC, {"loss": "hinge"}, {"loss": "squared_hinge"}),
    (DropoutSVR, {"epsilon": 0.1}, {"epsilon": 0.5}),
]


@pytest.mark.parametrize(("estimator", "usual", "other"), CHANGES)
def test_parameter_changes_the_solution(estimator, usual, other):
    X, y = problem(estimator)
    X = X + 1.0  # an offset has something to do
    default = estimator(tol=1e-6).fit(X, y)
    assert_array_equal(estimator(tol=1e-6, **usual).fit(X, y).coef_, default.coef_)
    changed = estimator(tol=1e-6, **other).fit(X, y)
    assert np.abs(changed.coef_ - default.coef_).max() > 0.01 * np.abs(default.coef_).max()


def test_margin_is_a_unit_of_length():
    """With margin ℓ, C = c/ℓ and ℓ·w solve the problem of margin 1: F(ℓw; ℓ, C) = ℓ²·F(w; 1, C/ℓ)."""
    X, y = problem(DropoutSVC, n_classes=2)
    one = DropoutSVC(C=0.5, tol=1e-10).fit(X, y)
    wide = DropoutSVC(C=0.5 * 3.0, margin=3.0, tol=1e-10).fit(X, y)
    assert_allclose(wide.coef_, 3.0 * one.coef_, atol=1e-5)
    assert_allclose(wide.objective_, 9.0 * one.objective_, rtol=1e-9)


def test_epsilon_is_a_tube():
    """A tube that holds all the targets asks for nothing; without noise, errors below ε cost nothing."""
    X, y = problem(DropoutSVR)
    with pytest.warns(CollapsedModelWarning, match="lower epsilon"):
        assert_allclose(DropoutSVR(epsilon=np.ptp(y)).fit(X, y).coef_, 0.0, atol=1e-8)
    model = DropoutSVR(C=100.0, noise=0.0, epsilon=2.0).fit(X, y)
    errors = np.abs(y - model.predict(X))
    assert errors.max() == pytest.approx(2.0, abs=1e-3)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_fit_intercept(estimator, noise):
    X, y = problem(estimator)
    model = estimator(noise=noise, fit_intercept=False).fit(X, y)
    assert_array_equal(model.intercept_, 0.0)
    assert estimator(noise=noise).fit(X, y).objective_ < model.objective_


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_solver_is_another_road_to_the_same_place(estimator, solver):
    X, y = problem(estimator)
    model = estimator(C=3.0, noise=0.2, solver=solver, tol=1e-8, max_iter=10_000).fit(X, y)
    auto = estimator(C=3.0, noise=0.2, tol=1e-8, max_iter=10_000).fit(X, y)
    assert_allclose(model.objective_, auto.objective_, rtol=2e-9)
    same_road = np.array_equal(model.objective_history_, auto.objective_history_)
    assert same_road == (solver == "newton")  # features are few


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_tol_buys_accuracy_with_iterations(estimator, solver):
    X, y = problem(estimator)
    fits = [estimator(C=3.0, noise=0.2, solver=solver, tol=tol).fit(X, y) for tol in (1e-1, 1e-3, 1e-6)]
    coarse, default, fine = (fit.n_iter_ for fit in fits)
    # Newton's steps double the digits: the same number of them may do for both.
    assert coarse <= default <= fine
    assert coarse < fine
    assert solver == "newton" or default < fine
    assert fits[0].objective_ > fits[2].objective_
    assert solver == "newton" or fits[1].objective_ > fits[2].objective_
    assert_array_equal(fits[1].coef_, estimator(C=3.0, noise=0.2, solver=solver).fit(X, y).coef_)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("road", [{"solver": s} for s in SOLVERS] + [{"noise": 0.0}], ids=str)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_max_iter_warns_with_the_gap_and_the_cure(estimator, road, n_classes):
    X, y = problem(estimator, n_classes=n_classes)
    model = estimator(C=3.0, max_iter=2, tol=1e-12, **road)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X, y)
    assert len(caught) == 1
    text = str(caught[0].message)
    assert "max_iter=2" in text
    assert "raise max_iter" in text
    problems = 3 if is_classifier(model) and n_classes == 3 else 1
    assert ("one-vs-rest problems" in text) == (problems == 3)
    assert model.n_iter_ == 2
    if problems == 1:
        assert f"within {model.optimality_gap_ / model.objective_:.1e} of its minimum" in text


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_warning_points_to_the_call_of_fit(estimator):
    with pytest.warns(ConvergenceWarning) as caught:
        estimator(max_iter=1, tol=1e-12).fit(*problem(estimator))
    assert caught[0].filename == __file__


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("road", [{"solver": s} for s in SOLVERS] + [{"noise": 0.0}], ids=str)
def test_verbose_prints_a_line_per_iteration(estimator, road, capsys):
    X, y = problem(estimator, n_classes=2)
    estimator(**road).fit(X, y)
    assert capsys.readouterr().out == ""
    model = estimator(verbose=1, **road).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(model.objective_history_)
    assert lines[-1].startswith(f"iteration {model.n_iter_}: objective ")
    shown = float(lines[-1].split()[3].rstrip(","))
    assert_allclose(shown, model.objective_, rtol=1e-6)  # the offset is settled at the end


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_no_parameter_without_a_test(estimator):
    """A new constructor parameter needs a test above that shows it matters."""
    tested = {name for cls, _, other in CHANGES if cls is estimator for name in other}
    tested |= {"solver", "tol", "max_iter", "verbose", "warm_start"}
    tested |= {"missing"}  # tests/core/test_missing.py
    assert set(inspect.signature(estimator).parameters) == tested


MODULES = ["marginout.estimators.svm", "marginout.estimators.logistic"]


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings(module):
    results = doctest.testmod(importlib.import_module(module))
    assert results.attempted > 0
    assert results.failed == 0


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_docstring_names_parameters_and_attributes(estimator):
    text = inspect.getdoc(estimator)
    parameters, attributes = text.split("Attributes\n----------")
    for name in inspect.signature(estimator).parameters:
        assert f"\n{name} : " in parameters
    pandas = pytest.importorskip("pandas")
    X, y = problem(estimator)
    model = estimator().fit(pandas.DataFrame(X, columns=list("abcdef")), y)
    for name in fitted_attributes(model):
        assert f"\n{name} : " in attributes
