"""Searches that choose how several classes are told apart."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import LeaveOneGroupOut, cross_val_score

from marginout import (
    DropoutLogisticRegression,
    DropoutLogisticRegressionCV,
    DropoutSVC,
    DropoutSVCCV,
    DropoutSVRCV,
)
from tests.problems import problem

X, Y = problem(DropoutSVC, n=90, d=6, n_classes=3)
GRID = {"Cs": [0.03, 0.3, 3.0], "noises": [0.2, 0.4, 0.6], "cv": 3, "tol": 1e-6}

pytestmark = pytest.mark.filterwarnings("ignore::marginout.GridEdgeWarning")


@pytest.mark.parametrize(
    ("search", "estimator", "ways", "scoring"),
    [
        (DropoutSVCCV, DropoutSVC, ["ovr", "pairwise"], None),
        (DropoutLogisticRegressionCV, DropoutLogisticRegression, ["ovr", "pairwise", "multinomial"], None),
        (DropoutLogisticRegressionCV, DropoutLogisticRegression, ["multinomial", "ovr"], "neg_log_loss"),
    ],
)
def test_the_scores_are_those_of_fits_of_each_kind(search, estimator, ways, scoring):
    model = search(multi_class=ways, scoring=scoring, **GRID).fit(X, Y)
    best, near = {}, 0.012 if scoring is None else 1e-3
    for way in ways:
        scores = [
            cross_val_score(
                estimator(C, noise=noise, multi_class=way, tol=1e-6), X, Y, cv=3, scoring=scoring
            ).mean()
            for C in GRID["Cs"]
            for noise in GRID["noises"]
        ]
        best[way] = max(scores)
        if way == model.multi_class_:
            assert_allclose(model.scores_.mean(axis=0).ravel(), scores, atol=near)
    assert model.multi_class_scores_.keys() == best.keys()
    for way, score in best.items():
        assert_allclose(model.multi_class_scores_[way], score, atol=near)
    assert model.best_score_ == max(model.multi_class_scores_.values())
    assert model.best_estimator_.multi_class == model.multi_class_
    assert_array_equal(model.predict(X), model.best_estimator_.predict(X))
    if estimator is DropoutLogisticRegression:
        assert_allclose(model.predict_proba(X), model.best_estimator_.predict_proba(X))


def test_one_value_is_taken_as_it_is():
    model = DropoutSVCCV(multi_class="pairwise", **GRID).fit(X, Y)
    alone = DropoutSVC(model.C_, noise=model.noise_, multi_class="pairwise", tol=1e-6).fit(X, Y)
    assert_allclose(model.coef_, alone.coef_)
    assert list(model.multi_class_scores_) == ["pairwise"]


def test_two_classes_are_one_problem_in_any_case():
    model = DropoutSVCCV(multi_class=["pairwise", "ovr"], **GRID).fit(X, Y == 1)
    assert model.multi_class_ == "pairwise"
    assert_array_equal(model.scores_, DropoutSVCCV(**GRID).fit(X, Y == 1).scores_)


def test_auto_is_what_it_stands_for_in_a_fit():
    """Multinomial for more examples than features, once; one-vs-rest where a training set lacks a class."""
    assert DropoutLogisticRegressionCV().multi_class == DropoutLogisticRegression().multi_class == "auto"
    model = DropoutLogisticRegressionCV(**GRID).fit(X, Y)
    named = DropoutLogisticRegressionCV(multi_class=["auto", "multinomial"], **GRID).fit(X, Y)
    assert model.multi_class_ == model.best_estimator_.multi_class == "multinomial"
    assert_array_equal(model.scores_, named.scores_)
    assert model.multi_class_scores_ == named.multi_class_scores_
    assert_array_equal(model.predict_proba(X), model.best_estimator_.predict_proba(X))
    rows = np.concatenate([np.flatnonzero(k == Y)[:4] for k in np.unique(Y)])
    wide = np.hstack([X[rows]] * 3)
    assert DropoutLogisticRegressionCV(**GRID).fit(wide, Y[rows]).multi_class_ == "ovr"
    assert DropoutLogisticRegressionCV(l1_ratio=0.5, **GRID).fit(X, Y).multi_class_ == "ovr"
    assert DropoutLogisticRegressionCV(**GRID).fit(X, Y == 1).multi_class_ == "ovr"
    alone = {**GRID, "cv": LeaveOneGroupOut()}
    assert DropoutLogisticRegressionCV(**alone).fit(X, Y, groups=Y).multi_class_ == "ovr"


@pytest.mark.parametrize("value", ["crammer", ["ovr", "multinomial"], [], 3, None], ids=repr)
def test_bad_values(value):
    with pytest.raises(ValueError, match=r"multi_class=.* must be one of 'ovr', 'pairwise', or a list of"):
        DropoutSVCCV(multi_class=value, **GRID).fit(X, Y)
    assert not hasattr(DropoutSVRCV(), "multi_class")
