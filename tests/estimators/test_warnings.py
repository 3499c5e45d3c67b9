"""Every warning of a fit points at the line of the user, however many frames of the library lie between."""

import warnings
from inspect import isclass

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning

import marginout
from marginout import CollapsedModelWarning, GridEdgeWarning, blocks

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 5))
TARGET = X @ np.arange(5.0) + RNG.normal(size=60)
LABELS = (TARGET > 3.0).astype(int)

LINEAR = [
    marginout.DropoutSVC(),
    marginout.DropoutLogisticRegression(),
    marginout.DropoutSVR(),
    marginout.DropoutQuantileRegressor(),
]
MCF = [
    *(marginout.MCFClassifier(loss) for loss in ("logistic", "quadratic", "exponential")),
    marginout.MCFRegressor(),
]
LATENT = [
    marginout.LatentDropoutSVC(n_hidden=2, random_state=0),
    marginout.LatentDropoutLogisticRegression(n_hidden=2, random_state=0),
    marginout.LatentDropoutSVR(n_hidden=2, random_state=0),
]
SEARCHES = [
    marginout.DropoutSVCCV([1.0], [0.3]),
    marginout.DropoutLogisticRegressionCV([1.0], [0.3]),
    marginout.DropoutSVRCV([1.0], [0.3]),
    marginout.DropoutQuantileRegressorCV(Cs=[1.0], noises=[0.3]),
]
COPIES = [
    marginout.ExplicitCorruptionClassifier(marginout.DropoutSVC(), blocks=False, n_copies=2),
    marginout.ExplicitCorruptionRegressor(marginout.DropoutSVR(), blocks=False, n_copies=2),
]
MODELS = [*LINEAR, *MCF, *LATENT, *SEARCHES, *COPIES, marginout.FeatureDeletionSVC()]


def name(model):
    return f"{type(model).__name__} {getattr(model, 'loss', '')}".strip()


def targets(model):
    return LABELS if is_classifier(model) else TARGET


def assert_points_here(caught, kind):
    """There is a warning of this kind, and all of them point at this file."""
    assert kind in {warning.category for warning in caught}
    assert {warning.filename for warning in caught} == {__file__}


def set_inner(model, **parameters):
    """Set parameters of a model, or of the one that it wraps."""
    model = clone(model)
    inner = model.estimator if hasattr(model, "estimator") else model
    inner.set_params(**parameters)
    return model


def test_no_estimator_is_forgotten():
    known = {type(model).__name__ for model in MODELS}
    public = {name: getattr(marginout, name) for name in marginout.__all__}
    assert known == {name for name, kind in public.items() if isclass(kind) and hasattr(kind, "predict")}


ITERATIVE = [model for model in MODELS if name(model) not in ("MCFClassifier quadratic", "MCFRegressor")]


@pytest.mark.parametrize("model", ITERATIVE, ids=name)
def test_a_fit_that_is_cut_short(model):
    model = set_inner(model, max_iter=1, tol=1e-12)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, targets(model))
    assert_points_here(caught, ConvergenceWarning)


@pytest.mark.parametrize("model", MODELS, ids=name)
def test_a_model_that_has_collapsed(model):
    y, size = targets(model), 1.0
    if isinstance(model, tuple(type(search) for search in SEARCHES)):
        model = clone(model).set_params(Cs=[1e-9])
    elif isinstance(model, marginout.FeatureDeletionSVC):
        model = clone(model).set_params(n_deletions=5)
    else:
        model, size = set_inner(model, C=1e-9), 1e-3
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(size * X, y)
    assert_points_here(caught, CollapsedModelWarning)


@pytest.mark.parametrize("model", SEARCHES, ids=name)
def test_the_edge_of_a_grid(model):
    model = clone(model).set_params(Cs=[1e-6, 1e-4, 1e-1])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, targets(model))
    assert_points_here(caught, GridEdgeWarning)


@pytest.mark.parametrize("checkpoint", [False, True], ids=["", "checkpoint"])
@pytest.mark.parametrize("model", LINEAR, ids=name)
def test_blocks(model, checkpoint, tmp_path):
    model = clone(model).set_params(max_iter=1, tol=1e-12)
    parts = [(X[:30], targets(model)[:30]), (X[30:], targets(model)[30:])]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        blocks.fit(model, parts, checkpoint=tmp_path / "file" if checkpoint else None)
    assert_points_here(caught, ConvergenceWarning)
