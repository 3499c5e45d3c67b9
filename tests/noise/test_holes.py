"""Missing and GroupMissing, and the value of deleted features in curves and impacts."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marginout import (
    ExplicitCorruptionClassifier,
    ExplicitCorruptionRegressor,
    GaussianImputer,
    MCFClassifier,
)
from marginout.noise import GroupMissing, Missing
from marginout.robustness import corrupt, deletion_curve, group_impact
from tests.paper import DropoutLogisticRegression, DropoutSVC

GROUPS = [[0, 2], [1], [3, 4]]


def test_rates_and_groups():
    X = np.ones((20_000, 5), dtype=np.float32)
    alone = Missing([0.0, 0.1, 0.2, 0.5, 0.9]).corrupt(X, 0)
    assert alone.dtype == np.float32
    np.testing.assert_allclose(np.isnan(alone).mean(axis=0), [0.0, 0.1, 0.2, 0.5, 0.9], atol=0.012)
    dead = np.isnan(GroupMissing(GROUPS, [0.2, 0.0, 0.7]).corrupt(X, 0))
    np.testing.assert_allclose(dead.mean(axis=0), [0.2, 0.0, 0.2, 0.7, 0.7], atol=0.012)
    assert np.array_equal(dead[:, 0], dead[:, 2])
    assert np.array_equal(dead[:, 3], dead[:, 4])


@pytest.mark.parametrize("noise", [Missing(0.3), GroupMissing(GROUPS, 0.3)])
def test_they_are_values(noise):
    assert pickle.loads(pickle.dumps(noise)) == noise
    assert hash(noise) == hash(pickle.loads(pickle.dumps(noise)))
    assert noise not in (Missing(0.4), GroupMissing(GROUPS, 0.4))


@pytest.mark.parametrize("noise", [Missing(0.3), GroupMissing(GROUPS, 0.3)])
def test_models_that_need_moments_refuse_it(noise):
    X, y = np.eye(5), np.arange(5) % 2
    for model in (DropoutSVC, MCFClassifier):
        with pytest.raises(ValueError, match=r"writes NaN, which has no mean.*missing='conditional'"):
            model(noise=noise).fit(X, y)
    with pytest.raises(TypeError, match=r"give X\.toarray\(\)"):
        noise.corrupt(sp.csr_array(X))
    with pytest.raises(ValueError, match=r"features|names feature 4"):
        (noise if isinstance(noise, GroupMissing) else Missing(np.full(5, 0.3))).corrupt(np.ones((2, 4)))


def test_trees_that_are_trained_for_holes_bear_them():
    X, y = load_breast_cancer(return_X_y=True)
    groups = [[g, g + 10, g + 20] for g in range(10)]
    noise = GroupMissing(groups, 0.5)
    test, y_test = noise.corrupt(np.vstack([X[400:]] * 10), 0), np.tile(y[400:], 10)
    trees = HistGradientBoostingClassifier(max_iter=30, random_state=0)
    plain = log_loss(y_test, trees.fit(X[:400], y[:400]).predict_proba(test))
    options = {"noise": noise, "n_copies": 8, "random_state": 0}
    trained = ExplicitCorruptionClassifier(trees, **options).fit(X[:400], y[:400])
    assert log_loss(y_test, trained.predict_proba(test)) < 0.8 * plain
    again = ExplicitCorruptionClassifier(trees, **options).fit(X[:400], y[:400])
    assert np.array_equal(again.predict_proba(test), trained.predict_proba(test))


def test_a_regressor_and_an_imputer():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1)) + 0.1 * rng.normal(size=(200, 4))
    X[0, 0] = np.nan  # data may hold NaN as well
    y = X[:, 1]
    trees = HistGradientBoostingRegressor(max_iter=30)
    model = ExplicitCorruptionRegressor(trees, noise=Missing(0.3), n_copies=4, random_state=0).fit(X, y)
    assert model.score(Missing(0.3).corrupt(X, 1), y) > 0.8
    with pytest.raises(ValueError, match="NaN"):
        ExplicitCorruptionRegressor(Ridge(), noise=0.3).fit(X, y)  # which takes none


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X) + 1.0, y


def test_a_curve_with_nan_equals_one_with_the_imputed_values(cancer):
    X, y = cancer
    plain = LogisticRegression().fit(X, y)
    behind = make_pipeline(GaussianImputer(), LogisticRegression()).fit(X, y)
    options = {"rates": [0.0, 0.5], "n_repeats": 2, "random_state": 0}
    zeros, means = (deletion_curve(plain, X, y, fill=fill, **options) for fill in (0.0, "mean"))
    holes = deletion_curve(behind, X, y, fill=np.nan, **options)
    assert zeros.mean[1] < means.mean[1] < holes.mean[1]
    assert zeros.mean[0] == means.mean[0] == holes.mean[0]
    shifted = LogisticRegression().fit(X - X.mean(axis=0), y)
    same = deletion_curve(shifted, X - X.mean(axis=0), y, **options)
    np.testing.assert_allclose(means.scores, same.scores, atol=2 / len(y))


def test_an_impact_with_nan_and_with_means(cancer):
    X, y = cancer
    groups = [[g, g + 10, g + 20] for g in range(10)]
    model = DropoutLogisticRegression(noise=0.1, missing="conditional").fit(X, y)
    Q = X.copy()
    Q[:, groups[7]] = np.nan
    impact = group_impact(model, X, y, groups, fill=np.nan, max_pairs=0)
    assert impact.costs[7] == pytest.approx(model.score(X, y) - model.score(Q, y))
    Q[:, groups[7]] = X[:, groups[7]].mean(axis=0)
    impact = group_impact(model, X, y, groups, fill="mean", max_pairs=0)
    assert impact.costs[7] == pytest.approx(model.score(X, y) - model.score(Q, y))


def test_what_is_refused(cancer):
    X, y = cancer
    model = LogisticRegression().fit(X, y)
    for fill in ("median", np.inf, True, None, np.zeros(30), [0.0], 10**400, 1e300):
        for options in ({}, {"kind": "worst"}, {"rescale": True}):
            with pytest.raises(ValueError, match=r"(?s)^fill=.* must be a number, NaN or 'mean'"):
                deletion_curve(model, X, y, fill=fill, **options)
        with pytest.raises(ValueError, match=r"(?s)^fill=.* must be a number, NaN or 'mean'"):
            group_impact(model, X, y, np.arange(30), fill=fill)
    with pytest.raises(ValueError, match="rescale=True sets deleted features to 0"):
        deletion_curve(model, X, y, fill="mean", rescale=True)
    with pytest.raises(ValueError, match="kind='worst' sets deleted features to 0"):
        deletion_curve(model, X, y, fill=np.nan, kind="worst")
    with pytest.raises(ValueError, match="zeros of sparse data"):
        deletion_curve(model, sp.csr_array(X), y, fill="mean")
    frame = corrupt(X, Missing(0.5), random_state=0)
    assert np.isnan(frame).mean() == pytest.approx(0.5, abs=0.02)
