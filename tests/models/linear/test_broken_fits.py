"""Fits that break off leave the model as it was."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import is_classifier

from marginout._core.objective import Objective
from marginout.noise import Dropout
from marginout.solvers import newton
from tests.problems import ESTIMATORS, SOLVERS, assert_same_attributes, fitted_attributes, problem, quiet


class Interruption:
    """A derivative of the objective, with Ctrl-C at a given call."""

    def __init__(self, at: int, name: str = "gradient") -> None:
        self.left, self.method = at, getattr(Objective, name)

    def __get__(self, objective, owner=None):
        def derivative(*arguments):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
            return self.method(objective, *arguments)

        return derivative


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("road", [{"solver": s} for s in SOLVERS] + [{"noise": 0.0}], ids=str)
@pytest.mark.parametrize("at", [1, 3])
def test_interrupted_fit_leaves_the_last_one(estimator, road, at, monkeypatch):
    pandas = pytest.importorskip("pandas")
    X, y = problem(estimator)
    model = estimator(C=3.0, tol=1e-5, warm_start=True, **road)
    model.fit(pandas.DataFrame(X, columns=list("abcdef")), y)
    before = fitted_attributes(model)
    assert {"coef_", "intercept_", "n_features_in_", "feature_names_in_", "n_iter_"} <= before.keys()
    derivative = "hessian" if road == {"solver": "newton"} else "gradient"
    monkeypatch.setattr(Objective, derivative, Interruption(at, derivative))
    monkeypatch.setattr(newton, "compiled", lambda objective: False)  # it asks no objective
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :4] * 2, (y * 2 if is_classifier(model) else y))
    assert_same_attributes(model, before)
    assert_array_equal(model.predict(pandas.DataFrame(X, columns=list("abcdef"))).shape, y.shape)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_interrupted_first_fit_leaves_nothing(estimator, monkeypatch):
    X, y = problem(estimator)
    model = estimator()
    monkeypatch.setattr(Objective, "gradient", Interruption(2))
    monkeypatch.setattr(newton, "compiled", lambda objective: False)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert fitted_attributes(model) == {}


class Interrupter:
    """A scikit-learn callback in which Ctrl-C is pressed at the end of the second iteration."""

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context):
        if context.task_name == "iteration" and context.task_id == 1:
            raise KeyboardInterrupt


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("noise", [0.5, 0.0])
def test_fit_interrupted_in_a_callback_leaves_the_last_one(estimator, noise):
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since 1.9")
    X, y = problem(estimator, n=1600, d=160)  # without noise, a case for the dual solver
    model = quiet(estimator(C=0.01, noise=noise, tol=1e-5, max_iter=30), X, y)
    before = fitted_attributes(model)
    model.set_callbacks(Interrupter())
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :-1], y)
    assert_same_attributes(model, before)


BREAKS = {
    "y": lambda model, X, y: model.fit(X, np.full(len(y), np.nan)),
    "length": lambda model, X, y: model.fit(X, y[:-1]),
    "X": lambda model, X, y: model.fit(np.where(X > 1, np.inf, X)[:, :3], y),
    "weights": lambda model, X, y: model.fit(X[:, :3], y, sample_weight=-np.ones(len(y))),
    "parameter": lambda model, X, y: model.set_params(C=-1.0).fit(X[:, :3], y),
    "noise": lambda model, X, y: model.set_params(noise=Dropout([0.1, 0.2])).fit(X[:, :3], y),
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("broken", BREAKS)
def test_failed_fit_leaves_the_last_one(estimator, broken):
    X, y = problem(estimator)
    model = estimator().fit(X, y)
    before = fitted_attributes(model)
    with pytest.raises(ValueError):  # noqa: PT011 - the messages are test_bad_input's business
        BREAKS[broken](model, X, y)
    assert_same_attributes(model, before)
