"""NaN as dead features: against data made by hand, in training, prediction and searches."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from marginout import (
    DropoutLogisticRegressionCV,
    DropoutSVRCV,
    ExplicitCorruptionClassifier,
    FeatureDeletionSVC,
    GridEdgeWarning,
    MCFClassifier,
    MCFRegressor,
    blocks,
    path,
    robustness,
)
from marginout.noise import (
    BitSwap,
    Deletion,
    Dropout,
    Gaussian,
    GroupDeletion,
    GroupDropout,
    Laplace,
    Poisson,
    Thinning,
    from_missing,
)
from tests.paper import (
    DropoutLogisticRegression,
    DropoutSVC,
    DropoutSVCCV,
    DropoutSVR,
    LatentDropoutLogisticRegression,
    LatentDropoutSVC,
    LatentDropoutSVR,
)

ALL = [
    DropoutSVC,
    DropoutLogisticRegression,
    DropoutSVR,
    MCFClassifier,
    MCFRegressor,
    FeatureDeletionSVC,
    LatentDropoutSVC,
    LatentDropoutLogisticRegression,
    LatentDropoutSVR,
    DropoutSVCCV,
    DropoutSVRCV,
    DropoutLogisticRegressionCV,
]
GROUPS = np.array([0, 0, 1, 1, 1, 2])
nan = np.nan
ROW = np.array([[1.0, 2.0, 4.0, nan, 8.0, nan]])
FULL = np.array([1.0, 2.0, 4.0, 0.0, 8.0, 0.0])
#: What becomes of ROW: by hand.
RULES = [
    (0.5, 6 / 4 * FULL),
    (Dropout(0.2), 6 / 4 * FULL),
    (0.0, 6 / 4 * FULL),
    (Dropout([0.5, 0, 0.5, 0.5, 0, 0.5]), FULL * [2, 1, 2, 2, 1, 2]),  # two of four that can die have died
    (Dropout([0.5, 0.5, 0, 0, 0, 0]), FULL),  # only protected ones have
    (Deletion(0.5), FULL),
    (Gaussian(1.0), 6 / 4 * FULL),
    (Laplace(0.1), 6 / 4 * FULL),
    (Poisson(), 6 / 4 * FULL),
    (Thinning(0.3), FULL),
    # A third of one group and all of another: 4/9 of three groups.
    (GroupDropout(GROUPS, 0.3), 9 / 5 * FULL),
    (GroupDropout(GROUPS, [0.3, 0.3, 0.0]), FULL * 6 / 5 * [1, 1, 1, 1, 1, 0]),
    (GroupDropout(GROUPS, [0.3, 0.0, 0.3]), FULL * [2, 2, 1, 1, 1, 2]),
    (GroupDeletion(GROUPS, 0.3), FULL),
]


def data(n: int = 80, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = np.abs(rng.normal(size=(n, 6)))
    return X, np.where(X @ [1, -1, 0.5, -0.5, 1, -1] + 0.1 * rng.normal(size=n) > 0.2, "yes", "no")


def with_holes(X, share: float = 0.3, seed: int = 1):
    holes = np.random.default_rng(seed).random(X.shape) < share
    holes[0] = True  # nothing is left of this one
    return np.where(holes, np.nan, X)


def sparse(X):
    """CSR with explicit NaN, in which zeros are not stored."""
    return sp.csr_array(X)


def filled(X, noise):
    """The same data without NaN, by hand: one row at a time."""
    d = X.shape[1]
    rate = np.ones(d) * getattr(noise, "rate", 0.5) if not isinstance(noise, float) else np.full(d, noise)
    if isinstance(noise, (Deletion, GroupDeletion)):
        return np.nan_to_num(X)
    mortal = rate > 0 if (rate > 0).any() else rate == 0
    out = np.nan_to_num(X)
    for row, given in zip(out, X, strict=True):
        left = 1 - np.isnan(given)[mortal].sum() / mortal.sum()
        row[mortal] *= 1 / left if left else 1
    return out


# ------------------------------------------------------------------------------------------- the rule


@pytest.mark.parametrize("storage", [np.asarray, sparse])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("noise", "wanted"), RULES, ids=[repr(noise) for noise, _ in RULES])
def test_survivors_are_rescaled_as_the_noise_implies(noise, wanted, dtype, storage):
    X, y = data()
    model = DropoutSVC(noise=noise, missing="deleted").fit(np.rint(2 * X), y)
    row = storage(ROW.astype(dtype))
    before = row.copy()
    scores = model.decision_function(row)
    assert scores == pytest.approx(
        model.decision_function(wanted[None]), rel=1e-6 if dtype == np.float32 else 1e-12
    )
    assert (before != row).sum() == np.isnan(
        ROW
    ).sum()  # NaN differ from themselves; nothing else was changed
    nothing = storage(np.full((1, 6), np.nan, dtype))
    assert model.decision_function(nothing) == pytest.approx(model.intercept_)


def roomy(X, behind, column):
    """CSR whose arrays go on behind the last entry: SciPy allows it, and some tools make such."""
    X = sp.csr_array(X)
    room = np.full(7, behind), np.full(7, column, X.indices.dtype)
    X.data, X.indices = np.append(X.data, room[0]), np.append(X.indices, room[1])
    assert len(X.data) > X.nnz
    return X


@pytest.mark.parametrize(("behind", "column"), [(nan, 0), (1e300, 99), (-1.0, -5)])
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("estimator", ALL)
@pytest.mark.filterwarnings("ignore::marginout.GridEdgeWarning")
def test_what_lies_behind_the_last_entry_is_not_read(estimator, holes, behind, column):
    X, y = data()
    X, y = with_holes(X) if holes else X, (y == "yes") * 1.0
    usual, model = small(estimator).fit(sparse(X), y), small(estimator).fit(roomy(X, behind, column), y)
    np.testing.assert_array_equal(model.coef_, usual.coef_)
    np.testing.assert_array_equal(model._scores(roomy(X, behind, column)), usual._scores(sparse(X)))
    assert np.isfinite(model.coef_).all()
    if not holes:
        strict = clone(model).set_params(missing="error").fit(roomy(X, behind, column), y)
        np.testing.assert_array_equal(strict.coef_, usual.coef_)


def test_nor_by_other_parts_of_the_library():
    X, y = data()
    given, usual = roomy(X, nan, 99), sparse(X)
    model = DropoutSVC().fit(X, y)
    for kind in ("random", "worst"):
        one, other = (
            robustness.deletion_curve(model, Z, y, kind=kind, random_state=0).scores for Z in (given, usual)
        )
        np.testing.assert_array_equal(one, other)
    one, other = (robustness.group_impact(model, Z, y, GROUPS).costs for Z in (given, usual))
    np.testing.assert_array_equal(one, other)
    for noise in (Dropout(0.5), Gaussian(0.1), GroupDropout(GROUPS, 0.3)):
        one, other = (robustness.corrupt(Z, noise, random_state=0) for Z in (given, usual))
        assert abs(one - other).max() == 0
    copies = ExplicitCorruptionClassifier(LogisticRegression(), random_state=0)
    np.testing.assert_array_equal(copies.fit(given, y).predict(given), copies.fit(usual, y).predict(usual))
    assert from_missing(roomy(with_holes(X), nan, 99)) == from_missing(with_holes(X))


@pytest.mark.parametrize("missing", ["error", "deleted"])
@pytest.mark.parametrize("estimator", ALL)
@pytest.mark.filterwarnings("ignore::marginout.GridEdgeWarning")
def test_a_matrix_without_any_entry(estimator, missing):
    """Nothing but the offset, as for dense zeros; searches try a model without noise as well."""
    y = np.repeat([0.0, 1.0], [20, 40])
    found = []
    for X in (sp.csr_array((60, 6)), np.zeros((60, 6))):
        model = small(estimator).set_params(missing=missing)
        if hasattr(model, "noises"):
            model.set_params(noises=[0.0, 0.3], cv=KFold(2, shuffle=True, random_state=0))
        found.append(model.fit(X, y)._scores(X))
    np.testing.assert_allclose(found[0], found[1], atol=1e-3)
    assert np.ptp(found[0]) == 0


def test_a_dead_bit_reads_zero():
    X, y = data()
    X = (X > 0.5) * 1.0
    model = DropoutSVC(noise=BitSwap(0.1), missing="deleted").fit(np.where(X[:, :1] > 0, nan, X), y)
    assert model.decision_function(ROW > 0) == pytest.approx(
        model.decision_function(np.where(ROW > 0, 1.0, nan))
    )


def test_expected_scores_are_unbiased():
    """Under its own noise, a model's score with NaN for the dead has about the mean of the full one.

    The share of the dead is random, so the mean is that of a ratio: exact given their number.
    """
    X, y = data()
    model = DropoutSVC(noise=0.5, missing="deleted").fit(X, y)
    masks = np.array(list(np.ndindex((2,) * 6)), dtype=bool)
    scores = model.decision_function(np.where(masks, nan, X[5]))
    for count in range(6):
        alike = masks.sum(axis=1) == count
        assert scores[alike].mean() == pytest.approx(model.decision_function(X[5:6])[0])


# ------------------------------------------------------------------------------------------- estimators


def small(estimator, **params):
    """Quick settings."""
    model = estimator(missing="deleted", **params)
    if hasattr(model, "n_hidden"):
        model.set_params(n_hidden=3, random_state=0, tol=1e-2)
    if hasattr(model, "Cs"):
        model.set_params(Cs=[0.1, 1.0], noises=[0.2, 0.6], cv=2)
    return model


#: One of every kind of fit path; the others differ by their loss only.
CHECKED = [DropoutSVC, DropoutSVR, MCFClassifier, FeatureDeletionSVC, LatentDropoutSVC, DropoutSVCCV]


@parametrize_with_checks([small(estimator) for estimator in CHECKED])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::marginout.GridEdgeWarning")
def test_check_estimator(estimator, check):
    check(estimator)


@pytest.mark.parametrize("storage", [np.asarray, sparse])
@pytest.mark.parametrize("estimator", ALL)
def test_training_and_prediction_agree_with_data_filled_by_hand(estimator, storage):
    X, y = data()
    y = (y == "yes") * 1.0
    noise = Deletion(0.2) if estimator is FeatureDeletionSVC else 0.2
    params = (
        {}
        if estimator in (FeatureDeletionSVC, DropoutSVCCV, DropoutSVRCV, DropoutLogisticRegressionCV)
        else {"noise": noise}
    )
    holes = with_holes(X)
    by_hand = filled(holes, noise)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        one = small(estimator, **params).fit(storage(holes), y)
        other = small(estimator, **params).set_params(missing="error").fit(storage(by_hand), y)
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(one.predict(storage(holes)), other.predict(storage(by_hand)), rtol=1e-9)
    if hasattr(one, "transform"):
        np.testing.assert_allclose(one.transform(holes), other.transform(by_hand), rtol=1e-9)


@pytest.mark.parametrize("estimator", ALL)
def test_tag_follows_the_parameter_and_the_error_names_it(estimator):
    X, y = data()
    y = (y == "yes") * 1
    model = small(estimator)
    assert get_tags(model).input_tags.allow_nan
    model.set_params(missing="error")
    assert not get_tags(model).input_tags.allow_nan
    for holes in (with_holes(X), sparse(with_holes(X))):
        with pytest.raises(ValueError, match=r"Input X contains NaN\. .*missing='deleted'"):
            model.fit(holes, y)
    model.set_params(missing="dead")
    with pytest.raises(ValueError, match="missing='dead' must be one of 'error', 'deleted'"):
        model.fit(X, y)
    if estimator is DropoutSVC:
        with pytest.raises(ValueError, match="missing='deleted'"):
            path(DropoutSVC(), with_holes(X), y, Cs=[1.0], noises=[0.5])
    with pytest.raises(ValueError, match="infinity"):
        small(estimator).fit(np.where(X > 1, np.inf, X), y)


FRAMES = {
    "pandas": lambda X: pd.DataFrame(X),
    "pandas Float64": lambda X: pd.DataFrame(X).astype("Float64").mask(np.isnan(X)),
    "pandas objects": lambda X: pd.DataFrame(np.where(np.isnan(X), pd.NA, X.astype(object))),
    "array of objects": lambda X: np.where(np.isnan(X), pd.NA, X.astype(object)),
    "lists with pandas.NA": lambda X: np.where(np.isnan(X), pd.NA, X.astype(object)).tolist(),
    "polars null": lambda X: pl.DataFrame(X, schema=list("abcdef")).fill_nan(None),
    "polars NaN": lambda X: pl.DataFrame(X, schema=list("abcdef")),
    "lists": lambda X: [[None if value != value else value for value in row] for row in X.tolist()],
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_nulls_of_data_frames(frame):
    X, y = data()
    holes = with_holes(X)
    model = DropoutSVC(missing="deleted").fit(frame(holes), y)
    wanted = DropoutSVC(missing="deleted").fit(holes, y)
    np.testing.assert_array_equal(model.coef_, wanted.coef_)
    np.testing.assert_array_equal(model.predict(frame(holes)), wanted.predict(holes))
    with pytest.raises(ValueError, match="missing='deleted'"):
        DropoutSVC().fit(frame(holes), y)


@pytest.mark.parametrize("estimator", [e for e in ALL if e is not FeatureDeletionSVC])  # which has no noise
@pytest.mark.filterwarnings("ignore::marginout.GridEdgeWarning")
def test_predictions_delete_as_the_fit_did(estimator):
    """Whatever the noise, or the noises of a search, are set to for a later fit."""
    X, y = data()
    y, holes = (y == "yes") * 1.0, with_holes(X)
    first, later = Dropout([0.3, 0.3, 0, 0, 0.3, 0.3]), Deletion(0.3)
    model = small(estimator)
    searched = hasattr(model, "noises")
    model.set_params(**{"noises": [first]} if searched else {"noise": first}).fit(holes, y)
    before = model._scores(holes)
    model.set_params(**{"noises": [later]} if searched else {"noise": later})
    np.testing.assert_array_equal(model._scores(holes), before)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy._scores(holes), before)
    assert np.abs(model.fit(holes, y)._scores(holes) - before).max() > 1e-3


@pytest.mark.parametrize("estimator", [DropoutSVC, DropoutLogisticRegression, DropoutSVR])
def test_a_stream_deletes_as_it_learnt_last(estimator):
    X, y = data()
    y, holes = (y == "yes") * 1.0, with_holes(X)
    classes = {} if estimator is DropoutSVR else {"classes": [0, 1]}
    model = small(estimator, noise=0.3).partial_fit(holes, y, **classes)
    before = model._scores(holes)
    model.set_params(noise=Deletion(0.3))
    np.testing.assert_array_equal(model._scores(holes), before)
    model.partial_fit(holes[:1], y[:1])  # of which nothing is left: only the offset moves
    np.testing.assert_allclose(
        model._scores(holes) - model.intercept_, np.nan_to_num(holes) @ model.coef_.ravel()
    )


def test_blocks_delete_as_the_fit_did():
    X, y = data()
    holes = with_holes(X)
    model = blocks.fit(DropoutSVC(noise=0.3, missing="deleted"), [(holes[:40], y[:40]), (holes[40:], y[40:])])
    before = model.decision_function(holes)
    np.testing.assert_array_equal(model.set_params(noise=Deletion(0.3)).decision_function(holes), before)


def test_a_scaler_hands_nan_on():
    X, y = data()
    model = make_pipeline(StandardScaler(), DropoutSVC(missing="deleted")).fit(with_holes(X), y)
    assert model.predict(with_holes(X, seed=2)).shape == (80,)


def test_negative_counts_are_refused_where_they_stand_beside_nan():
    X, y = data()
    X[3, 3] = -1.0
    X[2, 2] = nan
    for model in (
        DropoutSVC(noise=Poisson(), missing="deleted"),
        DropoutSVCCV(2, [Poisson()], missing="deleted"),
    ):
        with pytest.raises(ValueError, match="Negative values in data passed to X"):
            model.fit(X, y)


# ------------------------------------------------------------------------------------------- searches


@pytest.mark.parametrize("storage", [np.asarray, sparse])
def test_searches_treat_every_noise_by_its_own_rule(storage):
    """Scores of a grid of unbiased, raw and group noises equal those of single fits; scorers agree."""
    X, y = data(120)
    holes = with_holes(X)
    noises = [
        0.0,
        Dropout(0.3),
        Deletion(0.0),
        Deletion(0.3),
        GroupDropout(GROUPS, 0.3),
        GroupDeletion(GROUPS, 0.3),
    ]
    Cs, cv = [0.1, 1.0], KFold(3, shuffle=True, random_state=0)
    search = DropoutSVCCV(Cs, noises, cv=cv, missing="deleted", tol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        search.fit(storage(holes), y)
        scored = clone(search).set_params(scoring="accuracy").fit(storage(holes), y)
    np.testing.assert_array_equal(search.scores_, scored.scores_)
    for f, (train, test) in enumerate(cv.split(X)):
        for i, C in enumerate(Cs):
            for j, noise in enumerate(noises):
                single = DropoutSVC(C, noise=noise, missing="deleted", tol=1e-6).fit(holes[train], y[train])
                assert search.scores_[f, i, j] == pytest.approx(single.score(holes[test], y[test]), abs=0.026)
    best = DropoutSVC(search.C_, noise=search.noise_, missing="deleted", tol=1e-6).fit(holes, y)
    np.testing.assert_allclose(search.decision_function(holes), best.decision_function(holes), atol=1e-6)
    cells = path(DropoutSVC(missing="deleted", tol=1e-6), storage(holes), y, Cs=Cs, noises=noises)
    for i, C in enumerate(Cs):
        for j, noise in enumerate(noises):
            single = DropoutSVC(C, noise=noise, missing="deleted", tol=1e-6).fit(holes, y)
            assert cells.objectives[i, j] == pytest.approx(single.objective_, rel=1e-6)


def test_names_survive_a_search():
    """Groups by name, resolved against the data frame that is searched on."""
    X, y = data()
    frame = pd.DataFrame(with_holes(X), columns=["a_1", "a_2", "b", "c_1", "c_2", "c_3"])
    groups = {"a": "a_", "b": "b", "c": ["c_1", "c_"]} | {"c": "c_"}
    noises = [GroupDropout(groups, rate) for rate in (0.1, 0.3, 0.5)]
    search = DropoutSVCCV([0.01, 0.1, 1.0, 10.0], noises, cv=3, missing="deleted")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        search.fit(frame, y)
    single = DropoutSVC(search.C_, noise=search.noise_, missing="deleted").fit(frame, y)
    np.testing.assert_array_equal(search.predict(frame), single.predict(frame))


# ------------------------------------------------------------------------------------------- rates


def test_rates_of_a_sample():
    """The stated shrinkage, computed again; nothing has a rate of 0 or 1."""
    X = with_holes(np.ones((50, 6)), 0.4)
    X[:, 0], X[:, 1] = 1.0, nan
    noise = from_missing(X)
    k = np.isnan(X).sum(axis=0)
    mean = (k.sum() + 0.5) / (300 + 1)
    np.testing.assert_allclose(noise.rate, (k + 2 * mean) / 52)
    assert 0 < noise.rate.min() < noise.rate.max() < 1
    for other in (
        sparse(X),
        pd.DataFrame(X).astype("Float64").mask(np.isnan(X)),
        pl.DataFrame(X).fill_nan(None),
        np.where(np.isnan(X), pd.NA, X.astype(object)),
    ):
        assert from_missing(other) == noise


def test_rates_of_groups():
    X = np.ones((100, 6))
    X[:30, GROUPS == 1] = nan
    noise = from_missing(X, GROUPS)
    assert isinstance(noise, GroupDropout)
    np.testing.assert_allclose(noise.rate, [0.002, 0.296, 0.002], atol=1e-3)
    frame = pd.DataFrame(X, columns=["a1", "a2", "b1", "b2", "b3", "c"])
    named = from_missing(frame, {"a": "a", "b": "b", "c": "c"})
    np.testing.assert_array_equal(named.rate, noise.rate)
    np.testing.assert_array_equal(named.moments(6).groups, GROUPS)


def test_training_for_what_production_shows():
    """A fit with the rates of a sample, on data with holes: no worse than the plain one, on holes."""
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    groups = np.arange(30) % 10
    holes = np.where(np.random.default_rng(0).random((len(X), 10))[:, groups] < 0.4, nan, X)
    noise = from_missing(holes[:100], groups)
    model = DropoutSVC(C=0.1, noise=noise, missing="deleted").fit(X[::2], y[::2])
    plain = DropoutSVC(C=0.1, noise=0.0, missing="deleted").fit(X[::2], y[::2])
    assert model.score(holes[1::2], y[1::2]) > plain.score(holes[1::2], y[1::2]) + 0.01


@pytest.mark.parametrize(("X", "match"), [(np.ones(3), "1 dimensions"), (np.ones((0, 3)), "0 rows")])
def test_samples_without_rates(X, match):
    with pytest.raises(ValueError, match=match):
        from_missing(X)


def test_an_entry_stored_in_two_parts_is_missing_once():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 6)), np.arange(60) % 2
    model = DropoutSVC(noise=0.3, missing="deleted").fit(X, y)
    twice = sp.csr_array(([1.0, np.nan, np.nan, 2.0], [0, 1, 1, 2], [0, 4]), shape=(1, 6))
    once = twice.copy()
    once.sum_duplicates()
    np.testing.assert_allclose(model.decision_function(twice), model.decision_function(once))
    assert twice.nnz == 4
    rows = sp.csr_array(([np.nan] * 4, [0] * 4, [0, 2, 4]), shape=(2, 2))
    assert np.all(from_missing(rows).rate < 1)
