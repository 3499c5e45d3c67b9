"""GaussianImputer against the textbook's dense formula."""

import pickle
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import skops.io
from scipy.stats import multivariate_normal
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from marginout import GaussianImputer
from marginout.skops import trusted_types


def rows(n, d, share, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 3 * rng.normal(size=d)
    X[rng.random(X.shape) < share] = np.nan
    return X.astype(dtype)


def holes(X, share, seed=1):
    X = X.copy()
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


def textbook(mean, S, x):
    """x̂_M and S_M by a dense solve."""
    m = np.isnan(x)
    K = np.linalg.solve(S[np.ix_(~m, ~m)], S[np.ix_(~m, m)]).T
    return mean[m] + K @ (x[~m] - mean[~m]), S[np.ix_(m, m)] - K @ S[np.ix_(~m, m)]


@parametrize_with_checks([GaussianImputer(), GaussianImputer(rank=1, add_indicator=True)])
def test_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("n", "d", "rank", "share"),
    [
        (200, 8, "auto", 0.0),
        (200, 8, "auto", 0.3),
        (40, 90, "auto", 0.0),
        (80, 30, 5, 0.3),
        (20, 30, "auto", 0.2),
    ],
)
def test_means_and_variances_are_the_textbooks(n, d, rank, share):
    imputer = GaussianImputer(rank=rank, max_iter=1000).fit(rows(n, d, share))
    X = holes(rows(30, d, 0.0), 0.5)
    filled, variance = imputer.transform(X, return_variance=True)
    S = imputer.covariance()
    for x, got, var in zip(X, filled, variance, strict=True):
        m = np.isnan(x)
        want, cov = textbook(imputer.mean_, S, x)
        np.testing.assert_allclose(got[m], want, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(var[m], np.diag(cov), rtol=1e-8, atol=1e-8)
        assert np.array_equal(got[~m], x[~m])
        assert not var[~m].any()


def test_collinear_features_keep_eight_digits():
    X, _ = load_breast_cancer(return_X_y=True)
    imputer = GaussianImputer().fit(X)
    Q, S = holes(X[:40], 0.4), imputer.covariance()
    scale = X.std(axis=0)
    for x, got in zip(Q, imputer.transform(Q), strict=True):
        unit = S / scale[:, None] / scale
        want, _ = textbook(imputer.mean_ / scale, unit, x / scale)
        np.testing.assert_allclose((got / scale)[np.isnan(x)], want, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("d", "rank"), [(6, "auto"), (12, 3), (70, "auto")])
@pytest.mark.parametrize("shrinkage", ["auto", 0.0, 0.2])
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_the_likelihood_never_falls(d, rank, shrinkage, share):
    X = rows(120, d, share)
    imputer = GaussianImputer(rank=rank, shrinkage=shrinkage, tol=1e-7, max_iter=40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        steps = np.diff(imputer.fit(X).log_likelihood_)
    assert np.all(steps > -1e-8)
    closed = share == 0 and rank == "auto" and d == 6
    assert closed or len(steps) > (2 if share else 0)  # where nothing is missing, the start is near the end


@pytest.mark.parametrize("rank", [2, "auto"])
def test_the_likelihood_is_that_of_the_known_values(rank):
    X = rows(50, 6, 0.3)
    imputer = GaussianImputer(rank=rank, shrinkage=0.0, tol=1e-5, max_iter=2000).fit(X)
    S, scale = imputer.covariance(), np.nanstd(X, axis=0)
    total = 0.0
    for x in X:
        o = ~np.isnan(x)
        if o.any():
            cov = (S / scale[:, None] / scale)[np.ix_(o, o)]
            known = ((x - imputer.mean_) / scale)[o]
            total += multivariate_normal(np.zeros(o.sum()), cov).logpdf(known)
            total += 0.5 * o.sum() * np.log(2 * np.pi)
    np.testing.assert_allclose(imputer.log_likelihood_[-1], total, rtol=1e-8)


def test_shrinkage_of_complete_data_is_schaefer_and_strimmers():
    X = rows(40, 5, 0.0)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    R = np.corrcoef(X.T)
    top = bottom = 0.0
    for i in range(5):
        for j in range(5):
            if i != j:
                top += np.var(Z[:, i] * Z[:, j]) / 39
                bottom += R[i, j] ** 2
    imputer = GaussianImputer().fit(X)
    np.testing.assert_allclose(imputer.shrinkage_, top / bottom, rtol=1e-10)
    rho, S = imputer.shrinkage_, np.cov(X.T, bias=True)
    np.testing.assert_allclose(imputer.covariance(), (1 - rho) * S + rho * np.diag(np.diag(S)), rtol=1e-9)


def test_full_rank_is_the_dense_law():
    X = rows(100, 7, 0.2)
    auto, full = (GaussianImputer(rank=rank).fit(X) for rank in ("auto", 7))
    np.testing.assert_allclose(full.covariance(), auto.covariance(), rtol=1e-12)


@pytest.mark.parametrize("rank", ["auto", 6])
def test_a_low_rank_finds_the_law_of_few_factors(rank):
    rng = np.random.default_rng(0)
    L = rng.normal(size=(6, 2))
    X = rng.normal(size=(4000, 2)) @ L.T + rng.normal(size=(4000, 6)) * 0.5
    want = L @ L.T + 0.25 * np.eye(6)
    few = GaussianImputer(rank=2, tol=1e-7, max_iter=2000).fit(holes(X, 0.2))
    np.testing.assert_allclose(few.covariance(), want, atol=0.08 * np.abs(want).max())
    dense = GaussianImputer(rank=rank, tol=1e-7, max_iter=2000).fit(holes(X, 0.2))
    np.testing.assert_allclose(dense.covariance(), few.covariance(), atol=0.05 * np.abs(want).max())


def test_draws_have_the_conditional_moments():
    imputer = GaussianImputer().fit(rows(200, 4, 0.0))
    x = rows(1, 4, 0.0, seed=5)
    x[0, [0, 2]] = np.nan
    draws = imputer.sample(x, 20_000, random_state=0)[:, 0]
    want, cov = textbook(imputer.mean_, imputer.covariance(), x[0])
    missing = draws[:, [0, 2]]
    np.testing.assert_allclose(missing.mean(axis=0), want, atol=4 * np.sqrt(cov.max() / 20_000))
    np.testing.assert_allclose(np.cov(missing.T), cov, atol=0.05 * cov.max())
    assert np.array_equal(imputer.sample(x, 2, random_state=3), imputer.sample(x, 2, random_state=3))


def test_every_row_is_drawn_by_its_own_pattern():
    """Patterns of one row and of several, in any order."""
    X = rows(200, 4, 0.0)
    imputer = GaussianImputer().fit(X)
    Q = holes(X[:6], 0.5)
    Q[3:5] = np.where(np.isnan(Q[0]), np.nan, Q[3:5])
    draws = imputer.sample(Q, 4000, random_state=0)
    mean, variance = imputer.transform(Q, return_variance=True)
    deviation = np.sqrt(variance)
    assert np.all(np.abs(draws.mean(axis=0) - mean) <= 5 * deviation / np.sqrt(4000) + 1e-12 * np.abs(mean))
    np.testing.assert_allclose(draws.std(axis=0), deviation, rtol=0.08, atol=1e-12)


def test_threads_and_what_is_remembered_change_nothing(monkeypatch):
    X = rows(300, 12, 0.0)
    imputer = GaussianImputer().fit(X)
    Q = holes(X, 0.4)
    want = imputer.transform(Q)
    assert np.array_equal(imputer.transform(Q), want)
    monkeypatch.setattr("marginout._core.gaussian.law.worker_threads", lambda work: 2)
    monkeypatch.setattr("marginout._core.gaussian.law.AT_ONCE", 500)
    monkeypatch.setattr("marginout._core.gaussian.law.REMEMBERED", 20 * 144)
    fresh = GaussianImputer().fit(X)
    close = {"rtol": 1e-12, "atol": 1e-13 * np.abs(X).max()}  # rounding of a sum
    np.testing.assert_allclose(fresh.transform(Q), want, **close)
    np.testing.assert_allclose(fresh.transform(Q[:5]), want[:5], **close)
    np.testing.assert_allclose(fresh.transform(Q[2:8]), want[2:8], **close)
    assert 0 < len(fresh._law._remembered) <= 20


@pytest.mark.parametrize("rank", ["auto", 3])
def test_a_fit_in_threads_and_in_parts_is_the_same(rank, monkeypatch):
    """Some patterns have many rows, others one."""
    X = rows(300, 9, 0.3)
    X[:100, 1:4] = np.nan
    X[:100, 4:] = np.nan_to_num(X[:100, 4:])
    one = GaussianImputer(rank=rank).fit(X)
    monkeypatch.setattr(sys.modules["marginout._core.gaussian.estimate"], "worker_threads", lambda work: 3)
    monkeypatch.setattr("marginout._core.gaussian.law.AT_ONCE", 20 * 9**2)
    many = GaussianImputer(rank=rank).fit(X)
    np.testing.assert_allclose(many.log_likelihood_, one.log_likelihood_, rtol=1e-10)
    np.testing.assert_allclose(many.covariance(), one.covariance(), rtol=1e-7, atol=1e-9)
    again = GaussianImputer(rank=rank).fit(X)
    assert np.array_equal(again.covariance(), many.covariance())


def test_constant_and_empty_columns():
    X = rows(50, 5, 0.1)
    X[:, 1], X[:, 3] = 7.0, np.nan
    imputer = GaussianImputer().fit(X)
    filled, variance = imputer.transform(np.full((1, 5), np.nan), return_variance=True)
    np.testing.assert_allclose(filled[0], imputer.mean_)
    np.testing.assert_array_equal(filled[0, [1, 3]], [7.0, 0.0])
    np.testing.assert_array_equal(variance[0, [1, 3]], 0.0)
    other = imputer.transform([[1.0, 1e9, np.nan, 1e9, 2.0]])
    np.testing.assert_allclose(other[0, 2], imputer.transform([[1.0, 7.0, np.nan, np.nan, 2.0]])[0, 2])


@pytest.mark.parametrize(
    "X", [np.full((4, 3), np.nan), np.ones((1, 3)), np.array([[1.0, np.nan], [np.nan, 2.0]])]
)
def test_data_that_say_next_to_nothing(X):
    filled = GaussianImputer().fit_transform(X)
    assert np.isfinite(filled).all()


def test_linearly_dependent_features_are_recovered():
    X = rows(60, 3, 0.0)
    X = np.hstack([X, X @ np.ones((3, 1)), X[:, :1]])
    Q = X.copy()
    Q[:, 3:] = np.nan
    filled = GaussianImputer(shrinkage=0.0).fit(X).transform(Q)
    np.testing.assert_allclose(filled, X, atol=1e-3 * np.abs(X).max())


def test_single_precision_pickles_and_skops():
    X = rows(60, 5, 0.2, dtype=np.float32)
    imputer = GaussianImputer().fit(X)
    filled = imputer.transform(X)
    assert filled.dtype == np.float32
    assert np.array_equal(pickle.loads(pickle.dumps(imputer)).transform(X), filled)
    stored = skops.io.loads(skops.io.dumps(imputer), trusted=trusted_types())
    assert np.array_equal(stored.transform(X), filled)


def test_indicator_and_names():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame({"a": [1.0, np.nan, 3.0, 4.0], "b": [1.0, 2.0, 3.0, 5.0]})
    imputer = GaussianImputer(add_indicator=True).set_output(transform="pandas").fit(X)
    out = imputer.transform(X)
    assert list(out.columns) == ["a", "b", "missingindicator_a"]
    assert out["missingindicator_a"].tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rank": 0}, "rank=0 must be 'auto' or a whole number"),
        ({"rank": "low"}, "rank='low' must be"),
        ({"shrinkage": 1.0}, "shrinkage=1.0 must be 'auto' or a number in"),
        ({"shrinkage": "much"}, "shrinkage='much' must be 'auto' or"),
        ({"shrinkage": np.nan}, "shrinkage=nan must be 'auto' or"),
        ({"tol": 0}, "tol=0 must be"),
        ({"max_iter": 0}, "max_iter=0 must be"),
        ({"add_indicator": "yes"}, "add_indicator='yes' must be"),
    ],
)
def test_bad_parameters(options, says):
    with pytest.raises(ValueError, match=says):
        GaussianImputer(**options).fit(rows(10, 3, 0.1))


def test_bad_data():
    X = rows(10, 3, 0.1)
    with pytest.raises(TypeError, match=r"X is sparse.*X\.toarray\(\)"):
        GaussianImputer().fit(sp.csr_array(np.eye(3)))
    with pytest.raises(ValueError, match="infinity"):
        GaussianImputer().fit(np.where(np.isnan(X), np.inf, X))
    with pytest.raises(ValueError, match="large"):
        GaussianImputer().fit(1e300 * X)
    with pytest.raises(ValueError, match="2 features"):
        GaussianImputer().fit(X).transform(X[:, :2])
    with pytest.raises(ValueError, match="n_draws=0"):
        GaussianImputer().fit(X).sample(X, 0)


def test_a_fit_that_fails_leaves_the_last_one():
    X = rows(20, 3, 0.2)
    imputer = GaussianImputer().fit(X)
    filled = imputer.transform(X)
    with pytest.raises(ValueError, match="too large to square"):
        imputer.fit(1e200 * np.hstack([X, X]))
    np.testing.assert_array_equal(imputer.transform(X), filled)
    new = GaussianImputer()
    with pytest.raises(ValueError, match="too large to square"):
        new.fit(1e200 * X)
    assert not hasattr(new, "n_features_in_")


def test_a_fit_that_is_cut_short_warns():
    with pytest.warns(ConvergenceWarning, match="raise max_iter or tol"):
        GaussianImputer(max_iter=1, tol=1e-12).fit(rows(50, 5, 0.3))
