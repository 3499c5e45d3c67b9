"""Expected scores by the share that is missing, against masks counted by hand."""

from __future__ import annotations

import pickle
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from marginout.robustness import ExpectedScore, expected_score
from tests.paper import DropoutLogisticRegression

CANCER, SICK = load_breast_cancer(return_X_y=True)
CANCER = StandardScaler().fit_transform(CANCER)
SEEN: list[np.ndarray] = []


class Recorder(ClassifierMixin, BaseEstimator):
    """Keeps what it is asked about, and is right on rows that miss an even number of values."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        SEEN.append(np.array(X, dtype=float))
        return (np.isnan(SEEN[-1]).sum(axis=1) % 2).astype(int)


@pytest.fixture(autouse=True)
def nothing_seen():
    SEEN.clear()


@pytest.mark.parametrize("groups", [None, [0, 0, 1, 2, 2, 2, 3, 3], {"a": [0], "b": range(1, 8)}])
def test_every_row_loses_as_many_groups_each_as_often(groups):
    labels = {type(None): np.arange(8), list: np.array(groups), dict: np.array([0] + [1] * 7)}[type(groups)]
    G = labels.max() + 1
    X, y = np.ones((600, 8)), np.zeros(600, dtype=int)
    expected = expected_score(Recorder(), X, y, [0, 0.5, 1], 4, groups=groups, cv=KFold(3), random_state=0)
    assert_allclose(expected.shares, [0, 0.5, 1])
    assert [len(seen) for seen in SEEN] == [200] * 36
    assert (expected.counts == 200).all()
    lost = np.isnan(np.array(SEEN).reshape(3, 3, 4, 200, 8)).transpose(1, 0, 2, 3, 4).reshape(3, -1, 8)
    for i, k in enumerate((0, G // 2, G)):
        dead = np.column_stack([lost[i][:, labels == g].all(axis=1) for g in range(G)])
        assert (np.column_stack([lost[i][:, labels == g].any(axis=1) for g in range(G)]) == dead).all()
        assert (dead.sum(axis=1) == k).all()
        assert_allclose(dead.mean(axis=0), k / G, atol=5 * np.sqrt(0.25 / len(dead)))
    # A row that is dead at a share is dead at every larger one of the same draw.
    assert (lost[0] <= lost[1]).all()
    assert (lost[1] <= lost[2]).all()
    assert (X == 1).all()


MODELS = {
    "ours": DropoutLogisticRegression(noise=0.3, missing="deleted"),
    "imputed": make_pipeline(SimpleImputer(), LogisticRegression(max_iter=1000)),
}


@pytest.mark.parametrize("name", MODELS)
def test_scores_are_those_of_a_direct_monte_carlo_count(name):
    model, folds = MODELS[name], StratifiedKFold(3, shuffle=True, random_state=0)
    X, y = CANCER[:300], SICK[:300]
    expected = expected_score(model, X, y, [0.2, 0.8], 20, cv=folds, random_state=0)
    rng = np.random.default_rng(1)
    for i, k in enumerate((6, 24)):
        right = np.zeros((20, 300))
        for train, test in folds.split(X, y):
            fitted = clone(model).fit(X[train], y[train])
            for draw in range(20):
                Z = X[test].copy()
                for row in Z:
                    row[rng.choice(30, k, replace=False)] = np.nan
                right[draw, test] = fitted.predict(Z) == y[test]
        error = np.sqrt(2) * right.mean(axis=1).std(ddof=1) / np.sqrt(20)
        assert expected.mean[i] == pytest.approx(right.mean(), abs=4 * error)
        assert error < 0.01


def test_scores_are_the_mean_over_all_masks():
    X, y = CANCER[:200, [1, 4, 7, 20, 27]], SICK[:200]
    model, folds = MODELS["imputed"], KFold(2)
    expected = expected_score(model, X, y, [0.4], 150, cv=folds, random_state=0)
    exact, spread = np.zeros(2), np.zeros(2)
    for fold, (train, test) in enumerate(folds.split(X)):
        fitted = clone(model).fit(X[train], y[train])
        right = []
        for lost in combinations(range(5), 2):
            Z = X[test].copy()
            Z[:, lost] = np.nan
            right.append(fitted.predict(Z) == y[test])
        exact[fold] = np.mean(right)
        spread[fold] = np.sqrt(np.var(right, axis=0).sum()) / len(test)  # of one draw
    assert_allclose(expected.scores[0], exact, atol=4 * spread.max() / np.sqrt(150))
    assert expected.mean[0] == pytest.approx(expected.scores[0].mean())


def test_values_that_are_missing_already():
    """A row counts where it misses no more than the share; groups may be missing in part."""
    X, y = np.ones((8, 4)), np.zeros(8, dtype=int)
    X[0] = np.nan  # all
    X[1, 0] = np.nan  # half of the first group
    X[2, :2] = np.nan  # the first group
    labels = ["a", "a", "b", "b"]
    expected = expected_score(Recorder(), X, y, [0, 0.5, 1], 3, groups=labels, cv=[([7], range(8))])
    assert expected.counts[:, 0].tolist() == [5, 7, 8]
    shares = [np.mean([np.isnan(seen[:, :2]).mean(1), np.isnan(seen[:, 2:]).mean(1)], 0) for seen in SEEN]
    # Row 1 loses b or the rest of a, whichever comes first: 3/4 or 1/2.
    assert {share[0] for share in shares[3:6]} <= {0.5, 0.75}
    assert_allclose([share[1:] for share in shares[3:6]], 0.5)
    assert expected.shares[1] == pytest.approx(np.mean(shares[3:6]))
    assert_allclose(expected.shares[[0, 2]], [0, 1])
    share, score = expected.rows(X)
    assert_allclose(share, [1, 0.25, 0.5, 0, 0, 0, 0, 0])
    assert_allclose(score, np.interp(share, expected.shares, expected.mean))
    X[:, 3] = np.nan
    few = expected_score(Recorder(), X, y, [0, 0.25, 0.5], cv=[([7], range(8))])
    assert few.counts[:, 0].tolist() == [5, 6]
    with pytest.raises(ValueError, match=r"shares=\[0\]: every row of X misses more than this: add larger"):
        expected_score(Recorder(), X, y, [0], cv=[([7], range(8))])


def test_regressions_tables_and_what_lies_between_two_shares():
    X, y = load_diabetes(return_X_y=True)
    model = make_pipeline(SimpleImputer(), Ridge(0.1))
    expected = expected_score(model, X, y, [0, 0.3, 1.0], 2, cv=3, random_state=0)
    by_hand = [
        r2_score(y[test], clone(model).fit(X[train], y[train]).predict(X[test]))
        for train, test in KFold(3).split(X)
    ]
    assert_allclose(expected.scores[0], by_hand)
    assert expected.mean[0] > expected.mean[1] > expected.mean[2]
    assert expected.mean[2] == pytest.approx(0, abs=0.05)
    assert_allclose(expected.std, expected.scores.std(axis=1, ddof=1))
    assert_allclose(
        expected.at([0.0, 0.15, 2.0]), [expected.mean[0], expected.mean[:2].mean(), expected.mean[2]]
    )
    lines = str(expected).splitlines()
    assert lines[0] == "Ridge: expected R² by the share of a row that is missing"
    assert lines[1].split() == ["share", "mean", "std", "rows"]
    assert lines[2].split()[-1] == "442"
    assert list(expected.to_frame().columns) == ["share", "mean", "std", "rows"]
    assert isinstance(pickle.loads(pickle.dumps(expected)), ExpectedScore)
    absolute = expected_score(model, X, y, [0], cv=3, scoring="neg_mean_absolute_error")
    assert absolute.mean[0] < -10


def test_frames_of_any_columns():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {
            "age": rng.integers(20, 80, 300),
            "city": pandas.Series(rng.choice(["Rome", "Oslo"], 300)),
            "shop": pandas.Categorical(rng.choice(["a", "b", "c"], 300)),
            "member": rng.random(300) < 0.5,
            "visits": rng.integers(0, 5, 300),
        }
    )
    y = np.where((frame["age"] > 50) ^ frame["member"], "yes", "no")
    before = frame.copy()
    prepare = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["city", "shop"]), remainder="passthrough"
    )
    trees = HistGradientBoostingClassifier(max_iter=20, min_samples_leaf=5, random_state=0)
    options = {"n_repeats": 2, "cv": 3, "random_state": 0}
    expected = expected_score(make_pipeline(prepare, trees), frame, y, [0, 0.4, 1], **options)
    pandas.testing.assert_frame_equal(frame, before)
    assert expected.mean[0] > 0.9 > expected.mean[1] > expected.mean[2]
    frame.loc[3, ["city", "visits"]] = None
    assert_allclose(expected.rows(frame)[0][2:5], [0, 0.4, 0])
    numbers = frame[["age", "member"]].astype(float)
    one = expected_score(trees, numbers, y, [0.5], groups={"a": ["age"], "m": ["member"]}, **options)
    for other in (polars.DataFrame(numbers.to_dict("list")), numbers.to_numpy(), numbers.to_numpy().tolist()):
        same = expected_score(trees, other, y.tolist(), [0.5], **options)
        assert_array_equal(same.scores, one.scores)
        assert_array_equal(same.rows(other)[0], np.zeros(300))


def test_the_same_bits_whatever_the_number_of_jobs():
    X, y = CANCER.astype(np.float32), SICK
    model = clone(MODELS["ours"])
    with parallel_config("threading"):
        one, two = (
            expected_score(model, X, y, [0.3, 0.6], 2, cv=2, random_state=5, n_jobs=jobs) for jobs in (1, 2)
        )
    assert_array_equal(one.scores, two.scores)
    assert not hasattr(model, "coef_")
    other = expected_score(model, X, y, [0.3, 0.6], 2, cv=2, random_state=6)
    assert (one.scores != other.scores).any()


WRONG = [
    ({"shares": [1.5]}, r"shares=\[1.5\] must be numbers in \[0, 1\]"),
    ({"n_repeats": 0}, "n_repeats=0 must be a whole number >= 1"),
    ({"groups": [[0, 1]]}, "groups do not cover all features"),
    ({"scoring": ["accuracy"]}, "must be one scorer"),
    ({"cv": 1}, "k-fold cross-validation requires at least one train/test split"),
    ({"random_state": -1}, "random_state=-1 must be None"),
    ({"y": SICK[:-1]}, "inconsistent numbers of samples"),
    ({"X": list("ab") * 284 + ["c"]}, "1 dimensions, but must have two"),
    ({"estimator": LogisticRegression(max_iter=1000)}, "NaN"),
]


@pytest.mark.parametrize(("change", "match"), WRONG, ids=lambda value: next(iter(value), None))
def test_what_is_wrong(change, match):
    given = {"estimator": MODELS["ours"], "X": CANCER, "y": SICK, **change}
    with pytest.raises(ValueError, match=match):
        expected_score(**given)


def test_what_has_no_holes():
    with pytest.raises(TypeError, match="X is sparse, and what it does not store is 0, not missing"):
        expected_score(MODELS["ours"], sp.csr_array(CANCER), SICK)
    expected = expected_score(MODELS["ours"], CANCER, SICK, [0.5], 1, cv=2)
    with pytest.raises(ValueError, match="X has 29 features, but was fitted with 30"):
        expected.rows(CANCER[:, 1:])
