"""Laws of classes against dense formulas, and where they are taken."""

import pickle
import tracemalloc

import numpy as np
import pytest
from scipy.special import logsumexp, softmax
from scipy.stats import multivariate_normal
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import scale

from marginout import DropoutLogisticRegression, DropoutSVC, DropoutSVR, GaussianImputer
from marginout._core.gaussian import ClassLaws, Law, classes, estimate, learn


def blobs(n=300, d=6, share=0.0, seed=0):
    """Three classes whose features depend on one another in ways of their own."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    roots, centres = rng.normal(size=(3, d, d)), 3 * rng.normal(size=(3, d))
    X = np.array([centres[k] + roots[k] @ rng.normal(size=d) for k in y])
    return np.where(rng.random(X.shape) < share, np.nan, X), y


def mixture(laws, x):
    """log r, x̂ of every class, and the covariance of what is missing, by dense solves."""
    m, o = np.isnan(x), ~np.isnan(x)
    logs, means, covariances = [], [], []
    for share, law in zip(laws.shares, laws.laws, strict=True):
        S, filled = law.covariance(), x.copy()
        K = np.linalg.solve(S[np.ix_(o, o)], S[np.ix_(o, m)]).T
        filled[m] = law.mean[m] + K @ (x[o] - law.mean[o])
        density = multivariate_normal.logpdf(x[o], law.mean[o], S[np.ix_(o, o)]) if o.any() else 0.0
        logs.append(np.log(share) + density)
        means.append(filled)
        covariances.append(S[np.ix_(m, m)] - K @ S[np.ix_(o, m)])
    return np.array(logs) - logsumexp(logs), np.array(means), covariances


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_conditional_means_are_those_of_the_mixture(share):
    X, y = blobs(share=share)
    laws = learn(X, y)
    assert isinstance(laws, ClassLaws)
    Z = blobs(share=0.4, seed=1)[0][:50]
    Z[3] = np.nan
    logs, means = laws.components(Z)
    filled = laws.fill(Z)
    for i, x in enumerate(Z):
        r, each, _ = mixture(laws, x)
        np.testing.assert_allclose(logs[i], r, atol=1e-8)
        np.testing.assert_allclose([own[i] for own in means], each, atol=1e-8)
        np.testing.assert_allclose(filled[i], np.exp(r) @ each, atol=1e-8)
    np.testing.assert_allclose(filled[3], estimate(X).law.mean, atol=1e-6 if share == 0 else 0.1)


def test_the_laws_are_those_of_the_formula():
    X, y = blobs()
    laws, found = learn(X, y), estimate(X)
    d, n, rho = X.shape[1], len(X), found.shrinkage
    own = [X[y == k] - X[y == k].mean(axis=0) for k in range(3)]
    W = sum(part.T @ part for part in own) / n
    W = (1 - rho) * W + rho * np.diag(np.diag(W))
    for part, law, share, k in zip(own, laws.laws, laws.shares, range(3), strict=True):
        want = (part.T @ part + d * W) / (len(part) + d)
        np.testing.assert_allclose(law.covariance(), want, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(law.mean, X[y == k].mean(axis=0), rtol=1e-9)
        assert share == len(part) / n


def test_scores_and_probabilities():
    """decision_function has the mean score, predict_proba the mean over draws of the mixture."""
    X, y = blobs()
    model = DropoutLogisticRegression(C=10.0, noise=0.0, missing="conditional").fit(X, y)
    Z = blobs(share=0.5, seed=2)[0][:40]
    rng, got = np.random.default_rng(0), model.predict_proba(Z)
    np.testing.assert_allclose(
        model.decision_function(Z), model._law.fill(Z) @ model.coef_.T + model.intercept_, rtol=1e-9
    )
    off = plugged = 0.0
    for x, p in zip(Z, got, strict=True):
        logs, means, covariances = mixture(model._law, x)
        want = np.zeros(3)
        for log_r, filled, S in zip(logs, means, covariances, strict=True):
            draws = np.repeat(filled[None], 4000, axis=0)
            draws[:, np.isnan(x)] += rng.multivariate_normal(np.zeros(len(S)), S, 4000) if len(S) else 0.0
            want += np.exp(log_r) * softmax(draws @ model.coef_.T + model.intercept_, axis=1).mean(axis=0)
        off = max(off, np.abs(p - want).max())
        mean = model._law.fill(x[None]) @ model.coef_.T + model.intercept_
        plugged = max(plugged, np.abs(softmax(mean) - want).max())
    assert off < 0.03
    assert plugged > 0.2
    complete = blobs(seed=3)[0]
    scores = model.decision_function(complete)
    np.testing.assert_allclose(model.predict_proba(complete), softmax(scores, axis=1), rtol=1e-12)


def test_variances_and_draws_are_those_of_the_mixture():
    X, y = blobs()
    laws = learn(X, y)
    Z = blobs(share=0.5, seed=2)[0][:20]
    filled, variances = laws.fill(Z), laws.variances(Z)
    draws = (
        laws.draw(np.repeat(Z, 2000, axis=0), np.random.default_rng(0)).reshape(20, 2000, 6).swapaxes(0, 1)
    )
    for i, x in enumerate(Z):
        logs, means, covariances = mixture(laws, x)
        want, m = np.zeros(6), np.isnan(x)
        for r, mean, S in zip(np.exp(logs), means, covariances, strict=True):
            want[m] += r * np.diag(S)
            want += r * (mean - filled[i]) ** 2
        np.testing.assert_allclose(variances[i], want, atol=1e-8)
    error = np.sqrt(variances / len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - filled) <= 5 * error + 1e-12)
    np.testing.assert_allclose(draws.var(axis=0), variances, rtol=0.5, atol=1e-9)
    every = np.array(
        [laws.draw(np.full((1, 6), np.nan), rng)[0] for rng in np.random.default_rng(1).spawn(4000)]
    )
    np.testing.assert_allclose(every.mean(axis=0), laws.mean, atol=0.3)
    np.testing.assert_allclose(np.cov(every.T), laws.covariance(), rtol=0.2, atol=0.8)


def test_two_classes_and_hinges():
    X, y = blobs()
    model = DropoutSVC(missing="conditional").fit(X, y == 0)
    assert isinstance(model._law, ClassLaws)
    Z = blobs(share=0.4, seed=1)[0]
    np.testing.assert_allclose(
        model.decision_function(Z), model._law.fill(Z) @ model.coef_[0] + model.intercept_, rtol=1e-9
    )
    p = DropoutLogisticRegression(missing="conditional").fit(X, y == 0).predict_proba(Z)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)


def test_where_classes_have_no_laws_of_their_own_there_is_one():
    rng = np.random.default_rng(0)
    for seed in range(5):
        X = rng.normal(size=(200, 5)) @ rng.normal(size=(5, 5))
        y = X @ rng.normal(size=5) > 0
        assert isinstance(learn(X, y), Law), seed
    X, y = blobs()
    assert isinstance(learn(X, rng.permutation(y)), Law)
    assert isinstance(DropoutSVR(missing="conditional").fit(X, y)._law, Law)
    labels = np.eye(3)[y].astype(int)
    assert isinstance(DropoutSVC(missing="conditional", multi_class="ovr").fit(X, labels)._law, Law)
    wide = np.hstack([X, rng.normal(size=(300, 60))])
    assert isinstance(learn(wide, y), Law)


def test_training_takes_the_one_law():
    """F has the moments of GaussianImputer, whatever the classes' laws say."""
    X, y = blobs(share=0.2)
    model = DropoutSVC(0.1, noise=0.0, missing="conditional", tol=1e-8).fit(X, y == 0)
    assert isinstance(model._law, ClassLaws)
    imputer = GaussianImputer().fit(X)
    np.testing.assert_array_equal(model._law.one.mean, imputer.mean_)
    np.testing.assert_array_equal(model._law.one.covariance(), imputer.covariance())


def test_they_err_less_on_digits():
    X, y = load_digits(return_X_y=True)
    X = scale(X[:, X.std(axis=0) > 0])
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
    Z = np.where(np.random.default_rng(0).random(test.shape) < 0.5, np.nan, test)
    model = DropoutLogisticRegression(missing="conditional").fit(train, y_train)
    several = np.mean(model.predict(Z) != y_test)
    model._law = model._law.one
    assert several < 0.7 * np.mean(model.predict(Z) != y_test)


def test_rare_classes_and_constant_features():
    X, y = blobs()
    X = np.hstack([X, np.full((300, 1), 7.0)])
    y[:2] = [8, 9]  # of one row each
    model = DropoutLogisticRegression(missing="conditional").fit(X, y)
    Z = np.hstack([blobs(share=0.5, seed=4)[0], np.full((300, 1), np.nan)])
    p = model.predict_proba(Z)
    assert np.isfinite(p).all()
    np.testing.assert_allclose(model._law.fill(Z)[:, -1], 7.0)
    X, y = load_breast_cancer(return_X_y=True)
    model = DropoutSVC(missing="conditional", noise=0.0, C=1e-3).fit(X, y)  # not scaled
    assert np.isfinite(model.decision_function(np.where(X > 100, np.nan, X))).all()


def test_rows_that_are_absurdly_far_away():
    X, y = blobs()
    model = DropoutLogisticRegression(missing="conditional").fit(X, y)
    assert isinstance(model._law, ClassLaws)
    Z = np.full((3, 6), np.nan)
    Z[:, 0] = 1e200, -1e300, 1e8
    assert np.isfinite(model.decision_function(Z)).all()
    assert np.isfinite(model.predict_proba(Z)).all()


def test_memory_is_bounded_whatever_the_patterns():
    X, y = blobs(n=600, d=40)
    model = DropoutLogisticRegression(missing="conditional").fit(X, y)
    assert isinstance(model._law, ClassLaws)
    Z = blobs(n=20_000, d=40, share=0.5)[0]
    tracemalloc.start()
    model.predict_proba(Z)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300e6  # 20,000 patterns have 96 million numbers
    again = pickle.loads(pickle.dumps(model))
    assert all(law.room == model._law.laws[0].room for law in again._law.laws)
    np.testing.assert_array_equal(again.predict_proba(Z[:50]), model.predict_proba(Z[:50]))


def test_small_pieces_give_the_same(monkeypatch):
    X, y = blobs()
    model = DropoutLogisticRegression(missing="conditional").fit(X, y)
    Z = blobs(share=0.4, seed=1)[0]
    scores, p = model.decision_function(Z), model.predict_proba(Z)
    monkeypatch.setattr(classes, "AT_ONCE", 100)
    np.testing.assert_allclose(model.decision_function(Z), scores, rtol=1e-9)
    np.testing.assert_allclose(model.predict_proba(Z), p, rtol=1e-9)
    same = model.decision_function(Z.astype(np.float32))
    np.testing.assert_allclose(same, scores, atol=1e-4)
