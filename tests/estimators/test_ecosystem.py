"""Our estimators in the hands of scikit-learn's tools, joblib and skops; the files that publish them."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

import marginout
from marginout import (
    DropoutLogisticRegression,
    DropoutLogisticRegressionCV,
    DropoutSVC,
    DropoutSVCCV,
    DropoutSVR,
    DropoutSVRCV,
    ExplicitCorruptionClassifier,
    ExplicitCorruptionRegressor,
    FeatureDeletionSVC,
    LatentDropoutLogisticRegression,
    LatentDropoutSVC,
    LatentDropoutSVR,
    MCFClassifier,
    MCFRegressor,
)
from marginout.noise import BitSwap, Deletion, Dropout, Gaussian, Laplace, Poisson
from marginout.skops import trusted_types

ROOT = Path(__file__).parents[2]
SEARCH = {"Cs": [0.1, 1.0], "noises": [0.0, 0.3], "cv": 2}
HIDDEN = {"n_hidden": 3, "tol": 1e-2, "random_state": 0}
MODELS = [
    DropoutSVC(),
    DropoutSVCCV(**SEARCH),
    DropoutSVR(),
    DropoutSVRCV(**SEARCH),
    DropoutLogisticRegression(),
    DropoutLogisticRegressionCV(**SEARCH),
    FeatureDeletionSVC(n_deletions=2),
    MCFClassifier(),
    MCFRegressor(),
    LatentDropoutSVC(**HIDDEN),
    LatentDropoutSVR(**HIDDEN),
    LatentDropoutLogisticRegression(**HIDDEN),
    ExplicitCorruptionClassifier(LogisticRegression(), n_copies=2, random_state=0),
    ExplicitCorruptionRegressor(DropoutSVR(), n_copies=2, random_state=0),
]
CLASSIFIERS = [model for model in MODELS if is_classifier(model)]
# The searches' best cell may lie at the edge of so small a grid.
pytestmark = pytest.mark.filterwarnings("ignore::marginout.GridEdgeWarning")
NOISES = [Dropout(0.2), Deletion(0.2), Gaussian(0.1), Laplace(0.1), Poisson(), BitSwap(0.1)]


def name(model):
    return type(model).__name__


@pytest.fixture(scope="module")
def bits():
    """Eighty examples of twelve bits, the first six of which say the class."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 40)
    X = (rng.random((80, 12)) < np.where(np.arange(12) < 6, 0.15 + 0.7 * y[:, None], 0.5)).astype(float)
    return X, y


@pytest.fixture(scope="module")
def frame():
    """Mixed columns: a text, a category, numbers with holes; a label that the text gives away."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(["bad", "good"], 60))
    words = {"good": ["kind", "quick", "clean"], "bad": ["rude", "slow", "dirty"]}
    texts = [" ".join([*rng.choice(words[label], 3), *rng.choice(["room", "staff"], 2)]) for label in y]
    size = rng.normal(size=120)
    table = pd.DataFrame(
        {"text": texts, "city": rng.choice(["Lyon", "Oslo"], 120), "size": size, "age": rng.normal(size=120)}
    )
    table.loc[::7, "size"] = np.nan
    return table, y


# --------------------------------------------------------------------------- scikit-learn


@pytest.mark.parametrize("model", CLASSIFIERS, ids=name)
def test_column_transformer(model, frame):
    table, y = frame
    columns = make_column_transformer(
        (TfidfVectorizer(), "text"),
        (OneHotEncoder(), ["city"]),
        (make_pipeline(SimpleImputer(), StandardScaler()), ["size", "age"]),
    )
    pipeline = make_pipeline(columns, clone(model)).fit(table[:80], y[:80])
    assert pipeline.score(table[80:], y[80:]) > 0.9
    by_hand = clone(model).fit(columns.fit_transform(table[:80]), y[:80])
    assert_array_equal(pipeline.predict(table), by_hand.predict(columns.transform(table)))


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_set_output(output, frame):
    """Frames from the steps before reach the model with their names, and leave a hidden layer as frames."""
    pytest.importorskip(output)
    table, y = frame
    columns = ColumnTransformer(
        [("city", OneHotEncoder(sparse_output=False), ["city"]), ("number", SimpleImputer(), ["size", "age"])]
    )
    model = make_pipeline(columns, StandardScaler(), LatentDropoutSVC(**HIDDEN))
    model.set_output(transform=output).fit(table, y)
    names = ["city__city_Lyon", "city__city_Oslo", "number__size", "number__age"]
    assert_array_equal(model[-1].feature_names_in_, names)
    hidden = model.transform(table)
    assert type(hidden).__module__.startswith(output)
    assert list(hidden.columns) == [f"latentdropoutsvc{i}" for i in range(3)]
    scores = hidden.to_numpy() @ model[-1].coef_.T + model[-1].intercept_
    assert_allclose(scores[:, 0], model.decision_function(table), rtol=1e-9)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=name)
def test_calibration(model, bits):
    X, y = bits
    calibrated = CalibratedClassifierCV(clone(model), cv=2).fit(X, y)
    probabilities = calibrated.predict_proba(X)
    assert_allclose(probabilities.sum(axis=1), 1.0)
    assert np.mean(probabilities.argmax(axis=1) == y) > 0.8


def test_calibration_of_a_plain_model_is_that_of_its_export(bits):
    X, y = bits
    ours = CalibratedClassifierCV(
        DropoutSVC(C=1e-3, noise=0.0, loss="hinge", fit_intercept=False, tol=1e-9), cv=2
    )
    plain = CalibratedClassifierCV(
        LinearSVC(loss="hinge", C=1e-3, fit_intercept=False, tol=1e-9, max_iter=100_000), cv=2
    )
    assert_allclose(ours.fit(X, y).predict_proba(X), plain.fit(X, y).predict_proba(X), atol=1e-4)


def test_groups_and_weights_are_routed_to_a_search(bits):
    X, y = bits
    groups, weights = np.arange(80) % 5, np.linspace(0.5, 2.0, 80)
    search = DropoutSVCCV([0.1, 1.0], [0.0, 0.3], cv=GroupKFold(5))
    with config_context(enable_metadata_routing=True):
        inner = clone(search).set_fit_request(sample_weight=True, groups=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, inner).fit(X, y, sample_weight=weights, groups=groups)
    by_hand = search.fit(StandardScaler().fit_transform(X), y, sample_weight=weights, groups=groups)
    assert_array_equal(pipeline[-1].scores_, by_hand.scores_)
    assert_array_equal(pipeline[-1].coef_, by_hand.coef_)


# --------------------------------------------------------------------------- joblib


@pytest.mark.parametrize("model", MODELS, ids=name)
def test_fits_in_threads_are_those_of_one_thread(model, bits):
    X, y = bits

    def predictions(seed):
        rows = np.random.default_rng(seed).permutation(len(y))
        return clone(model).fit(X[rows], y[rows]).predict(X)

    alone = [predictions(seed) for seed in range(4)]
    together = joblib.Parallel(n_jobs=4, backend="threading")(
        joblib.delayed(predictions)(seed) for seed in range(4)
    )
    assert_array_equal(together, alone)


def test_cross_validation_in_threads(bits):
    X, y = bits
    model = make_pipeline(StandardScaler(), DropoutLogisticRegression())
    alone = cross_val_predict(model, X, y, cv=4, method="predict_proba")
    with joblib.parallel_backend("threading", n_jobs=2):
        assert_array_equal(cross_val_predict(model, X, y, cv=4, method="predict_proba"), alone)


# --------------------------------------------------------------------------- skops


@pytest.mark.parametrize("model", MODELS, ids=name)
def test_skops_needs_no_other_types(model, bits):
    skops_io = pytest.importorskip("skops.io")
    X, y = bits
    pipeline = make_pipeline(StandardScaler(), clone(model)).fit(X, y)
    stored = skops_io.dumps(pipeline)
    assert skops_io.get_untrusted_types(data=stored)  # or the list would not matter
    copy = skops_io.loads(stored, trusted=trusted_types())
    assert_array_equal(copy.predict(X), pipeline.predict(X))


@pytest.mark.parametrize("noise", [Dropout(0.2), "auto"], ids=str)
def test_skops_stores_a_stream(noise, bits):
    skops_io = pytest.importorskip("skops.io")
    X, y = bits
    model = marginout.DropoutSVC(noise=noise).partial_fit(X, y, classes=np.unique(y))
    copy = skops_io.loads(skops_io.dumps(model), trusted=trusted_types())
    assert_array_equal(copy.partial_fit(X, y).coef_, model.partial_fit(X, y).coef_)
    for name in (name for name in trusted_types() if name.endswith(".Stream")):  # of today, and before
        module, _, kind = name.rpartition(".")
        assert getattr(importlib.import_module(module), kind) is type(model._stream)


@pytest.mark.parametrize("noise", NOISES, ids=name)
def test_skops_stores_every_noise(noise, bits):
    skops_io = pytest.importorskip("skops.io")
    stored = skops_io.dumps(DropoutSVC(noise=noise).fit(*bits))
    assert skops_io.loads(stored, trusted=trusted_types()).noise == noise
    assert {type(model).__name__ for model in MODELS} <= {each.split(".")[-1] for each in trusted_types()}


# --------------------------------------------------------------------------- publishing


@pytest.mark.parametrize("workflow", ["ci", "docs", "wheels"])
def test_workflows_are_yaml_and_name_targets_that_exist(workflow):
    yaml = pytest.importorskip("yaml", reason="the workflows are YAML")
    text = (ROOT / ".github" / "workflows" / f"{workflow}.yml").read_text()
    parsed = yaml.safe_load(text)
    assert {"name", "jobs"} <= set(parsed)
    targets = (ROOT / "Makefile").read_text()
    for job in parsed["jobs"].values():
        assert job["runs-on"]
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            for word in step.get("run", "").split("make ")[1:]:
                assert f"\n{word.split()[0]}:" in targets


def test_versions_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    version = project["project"]["version"]
    assert marginout.__version__ == version
    assert f"version: '{version}'" in (ROOT / "meson.build").read_text()


def test_every_public_name_has_a_page():
    listed = (ROOT / "docs" / "api" / "index.rst").read_text().split()
    assert [name for name in marginout.__all__ if name not in listed] == []
