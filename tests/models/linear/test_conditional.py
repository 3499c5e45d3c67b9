"""missing="conditional" against dense formulas, a conic solver and quadrature."""

import pickle

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, softmax
from sklearn.datasets import load_iris
from sklearn.metrics import accuracy_score
from sklearn.model_selection import StratifiedKFold

import marginout
from marginout import (
    DropoutLogisticRegressionCV,
    DropoutQuantileRegressorCV,
    DropoutSVRCV,
    ExplicitCorruptionClassifier,
    GaussianImputer,
    MCFClassifier,
)
from marginout._core.design.conditional import conditional_design
from marginout._core.gaussian import estimate
from marginout._core.validation import make_generator
from marginout.noise import Deletion, Dropout, Gaussian, GroupDropout, Missing, Poisson
from tests.paper import (
    DropoutLogisticRegression,
    DropoutQuantileRegressor,
    DropoutSVC,
    DropoutSVCCV,
    DropoutSVR,
)

NOISES = {
    "none": Dropout(0.0),
    "dropout": Dropout(0.3),
    "deletion": Deletion(0.3),
    "gaussian": Gaussian(0.7),
    "groups": GroupDropout([[0, 1], [2, 3, 4]], 0.4),
    "poisson": Poisson(),
}
EDGE = pytest.mark.filterwarnings("ignore:The best")  # of a small grid
LINEAR = [DropoutSVC, DropoutLogisticRegression, DropoutSVR]


def holes(n=40, d=5, share=0.3, seed=0, positive=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 1.0
    X = np.abs(X) if positive else X
    y = np.where(X @ rng.normal(size=d) + rng.normal(size=n) > 0.5, 1.0, -1.0)
    y[:2] = -1.0, 1.0
    X[rng.random(X.shape) < share] = np.nan
    return X, y


def conditional(law, x):
    """x̂_M and S_M by a dense solve."""
    S, m = law.covariance(), np.isnan(x)
    K = np.linalg.solve(S[np.ix_(~m, ~m)], S[np.ix_(~m, m)]).T
    return law.mean[m] + K @ (x[~m] - law.mean[~m]), S[np.ix_(m, m)] - K @ S[np.ix_(~m, m)]


def means_and_variances(X, noise, law):
    """Every row's mean, (n, d), and covariance, (n, d, d), of the textbook and of the noise's definition."""
    n, d = X.shape
    means, covariances = np.zeros((n, d)), np.zeros((n, d, d))
    groups = noise.moments(d).groups
    for i, x in enumerate(X):
        m = np.isnan(x)
        known = np.nan_to_num(x)
        means[i] = noise.mean(known) * ~m
        covariances[i] = np.diag(noise.var(known) * ~m)
        if groups is not None:
            together = groups[:, None] == groups
            covariances[i] = together * noise.moments(d).coefficient * np.outer(known, known)
        if m.any():
            mean, S = conditional(law, x)
            means[i, m] = mean
            covariances[i][np.ix_(m, m)] = S
    return means, covariances


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("kept", [True, False])
def test_the_design_has_the_moments_of_the_definition(name, kept, monkeypatch):
    if not kept:
        monkeypatch.setattr("marginout._core.gaussian.variance.KEPT", 0)
        monkeypatch.setattr("marginout._core.gaussian.law.AT_ONCE", 60)
    X, _ = holes(positive=name == "poisson")
    law, rng = estimate(X).law, np.random.default_rng(1)
    design = conditional_design(X, NOISES[name], law)
    M, S = means_and_variances(X, NOISES[name], law)
    W, P, dm, dv = rng.normal(size=(5, 2)), rng.normal(size=(5, 2)), *rng.normal(size=(2, 40, 2))
    np.testing.assert_allclose(design.apply(W), M @ W, atol=1e-10)
    m, v = design.moments(W)
    np.testing.assert_allclose(m, M @ W, atol=1e-10)
    np.testing.assert_allclose(v, np.einsum("dk,nde,ek->nk", W, S, W), atol=1e-9)
    xp, vwp, vpp = design.line(W, P)
    np.testing.assert_allclose(vwp, np.einsum("dk,nde,ek->nk", W, S, P), atol=1e-9)
    np.testing.assert_allclose(vpp, np.einsum("dk,nde,ek->nk", P, S, P), atol=1e-9)
    np.testing.assert_allclose(xp, M @ P, atol=1e-10)
    back = M.T @ dm + 2 * np.einsum("nk,nde,ek->dk", dv, S, W)
    np.testing.assert_allclose(design.pullback(W, dm, dv), back, atol=1e-9)
    squares, variance = design.diagonal(dv)
    np.testing.assert_allclose(squares, (M * M).T @ dv, atol=1e-9)
    np.testing.assert_allclose(variance, np.einsum("ndd,nk->dk", S, dv), atol=1e-9)
    gram = M.T @ (dv[:, :1] * M) + np.einsum("n,nde->de", dv[:, 0], S)
    np.testing.assert_allclose(design.gram(dv[:, 0]), gram, atol=1e-9)
    factors = design.with_factors(np.array([1.0, 0.5])).select(np.array([1]))
    base, half = np.einsum("d,nde,e->n", P[:, 1], S, P[:, 1]), factors.moments(P[:, 1:])[1][:, 0]
    hidden = np.array([0.0 if not np.isnan(x).any() else _hidden(law, x, P[:, 1]) for x in X])
    np.testing.assert_allclose(half, hidden + 0.5 * (base - hidden), atol=1e-9)


def _hidden(law, x, w):
    """w_Mᵀ S_M w_M."""
    m = np.isnan(x)
    return w[m] @ conditional(law, x)[1] @ w[m]


def conic(kind, X, y, noise, law, C):
    """min F by cvxpy and Clarabel, v as a quadratic form per example."""
    M, S = means_and_variances(X, noise, law)
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    m = M @ w + b
    roots = [np.linalg.cholesky(s + 1e-14 * np.trace(s) * np.eye(len(s)) + 1e-18 * np.eye(len(s))) for s in S]

    def radius(z):
        return cp.hstack([cp.norm(cp.hstack([z[i], root.T @ w])) for i, root in enumerate(roots)])

    constraints = []
    if kind is DropoutSVC:
        z = 1 - cp.multiply(y, m)
        losses = 0.5 * (z + radius(z))
    elif kind is DropoutSVR:
        losses = 0.5 * (radius(y - m - 0.1) + radius(y - m + 0.1)) - 0.1
    else:
        omega = cp.Variable(len(y))
        constraints = [radius(m) <= omega]
        losses = cp.logistic(omega) - 0.5 * omega - 0.5 * cp.multiply(y, m)
    program = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + C * cp.sum(losses)), constraints)
    return program.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("kind", LINEAR)
@pytest.mark.parametrize("name", ["none", "dropout", "deletion", "gaussian", "groups"])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_optimum_is_the_conic_solvers(kind, name, seed):
    """Thirty problems, to a relative 1e-6."""
    X, y = holes(n=25 + 5 * seed, share=0.2 + 0.2 * seed, seed=seed)
    C = [0.3, 2.0][seed]
    model = kind(C, noise=NOISES[name], missing="conditional", tol=1e-9, max_iter=5000).fit(X, y)
    optimum = conic(kind, X, y, NOISES[name], estimate(X).law, C)
    np.testing.assert_allclose(model.objective_, optimum, rtol=1e-6)


@pytest.mark.parametrize("kind", LINEAR)
def test_solvers_agree(kind):
    X, y = holes(seed=3)
    options = {"noise": 0.2, "missing": "conditional", "tol": 1e-8}
    values = [kind(**options, solver=solver).fit(X, y).objective_ for solver in ("ncg", "lbfgs", "irls")]
    np.testing.assert_allclose(values, values[0], rtol=1e-6)


@pytest.mark.parametrize("kind", LINEAR)
def test_complete_data_are_fitted_as_ever(kind):
    X, y = holes(share=0.0)
    plain, ours = (kind(noise=0.3, missing=missing).fit(X, y) for missing in ("error", "conditional"))
    assert np.array_equal(plain.coef_, ours.coef_)


def test_predictions_use_conditional_means():
    X, y = holes(n=200, share=0.2)
    model = DropoutLogisticRegression(missing="conditional").fit(X, y)
    law = estimate(X).law
    scores = law.fill(X) @ model.coef_[0] + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), scores, rtol=1e-10)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_are_expected_ones(classes):
    X, y = holes(n=200, share=0.4)
    y = y if classes == 2 else np.arange(200) % 3
    model = DropoutLogisticRegression(noise=0.1, C=3.0, missing="conditional").fit(X, y)
    law = estimate(X).law
    points, weights = np.polynomial.hermite_e.hermegauss(80)
    scores = np.atleast_2d(model.decision_function(X).T).T
    want = np.zeros_like(scores)
    for i, x in enumerate(X):
        for k, w in enumerate(model.coef_):
            v = _hidden(law, x, w) if np.isnan(x).any() else 0.0
            want[i, k] = weights @ expit(scores[i, k] + np.sqrt(v) * points) / weights.sum()
    want = np.hstack([1 - want, want]) if classes == 2 else want / want.sum(axis=1, keepdims=True)
    got = model.predict_proba(X)
    np.testing.assert_allclose(got, want, atol=0.02)
    plug_in = expit(scores) if classes == 2 else expit(scores) / expit(scores).sum(axis=1, keepdims=True)
    assert np.abs(got[:, 1] - want[:, 1]).max() < np.abs(plug_in[:, -classes + 1] - want[:, 1]).max()


# Of hinges without noise, rounding says whether a fit ends at tol or says how near it is.
@pytest.mark.filterwarnings("ignore:Stopped where F")
@pytest.mark.parametrize("name", ["none", "dropout"])
@pytest.mark.parametrize("kind", [DropoutSVC, DropoutLogisticRegression])
def test_pairwise_losses_have_the_conic_solvers_optimum(name, kind):
    X, _ = holes(n=30, d=4, seed=2)
    y, C = np.arange(30) % 3, 0.5
    law = estimate(X).law
    options = {"noise": NOISES[name], "missing": "conditional", "multi_class": "pairwise", "tol": 1e-8}
    if kind is DropoutSVC:
        options |= {"loss": "hinge", "expectation": "bound"}
    model = kind(C, **options, max_iter=5000).fit(X, y)
    M, S = means_and_variances(X, NOISES[name], law)
    W, b, constraints = cp.Variable((4, 3)), cp.Variable((1, 3)), []
    m, total = M @ W + np.ones((30, 1)) @ b, 0.5 * cp.sum_squares(W)
    for i, (s, own) in enumerate(zip(S, y, strict=True)):
        root = np.linalg.cholesky(s + 1e-13 * np.eye(4))
        for k in set(range(3)) - {own}:
            margin, spread = m[i, own] - m[i, k], root.T @ (W[:, own] - W[:, k])
            if kind is DropoutSVC:
                total += C * 0.5 * (1 - margin + cp.norm(cp.hstack([1 - margin, spread])))
            else:
                omega = cp.Variable()
                constraints.append(cp.norm(cp.hstack([margin, spread])) <= omega)
                total += C * (cp.logistic(omega) - 0.5 * omega - 0.5 * margin)
    optimum = cp.Problem(cp.Minimize(total), constraints).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(model.objective_, optimum, rtol=1e-6)
    order = np.random.default_rng(0).permutation(30)
    other = kind(C, **options, max_iter=5000).fit(X[order], y[order])
    np.testing.assert_allclose(other.objective_, model.objective_, rtol=1e-6)


def test_the_probabilities_of_a_softmax_are_expected_ones():
    """Draws of the joint law of all scores, given what is known."""
    X, _ = holes(n=120, share=0.4)
    y = np.argmax(GaussianImputer().fit_transform(X)[:, :3], axis=1)
    options = {"noise": 0.0, "missing": "conditional", "multi_class": "multinomial"}
    model = DropoutLogisticRegression(C=30.0, **options).fit(X, y)
    law, rng, want = estimate(X).law, np.random.default_rng(0), 0.0
    scores = model.decision_function(X)
    for _ in range(2000):
        want = want + softmax(law.draw(X, rng) @ model.coef_.T + model.intercept_, axis=1) / 2000
    got, plugged = model.predict_proba(X), softmax(scores, axis=1)
    complete = ~np.isnan(X).any(axis=1)
    np.testing.assert_allclose(got[complete], plugged[complete], rtol=1e-12)
    assert np.abs(got - want).max() < 0.03
    assert np.abs(got - want).mean() < 0.2 * np.abs(plugged - want).mean()


@EDGE
@pytest.mark.parametrize("kind", [DropoutLogisticRegressionCV, DropoutSVCCV])
@pytest.mark.parametrize("scoring", [None, "accuracy"])
def test_a_search_knows_the_training_fold_only(kind, scoring):
    X, y = holes(n=90, share=0.3)
    cv = StratifiedKFold(3)
    grid = {"Cs": [0.1, 1.0], "noises": [0.0, 0.3, 0.5], "missing": "conditional"}
    search = kind(**grid, cv=cv, scoring=scoring, tol=1e-6).fit(X, y)
    one = DropoutSVC if kind is DropoutSVCCV else DropoutLogisticRegression
    for f, (train, test) in enumerate(cv.split(X, y)):
        for i, C in enumerate(grid["Cs"]):
            for j, noise in enumerate(grid["noises"]):
                model = one(C, noise=noise, missing="conditional", tol=1e-6).fit(X[train], y[train])
                assert search.scores_[f, i, j] == accuracy_score(y[test], model.predict(X[test]))
    assert np.array_equal(search.predict(X), search.best_estimator_.predict(X))


@EDGE
@pytest.mark.parametrize("weights", [None, np.arange(80) % 3])
def test_a_scorer_may_take_values_away_from_complete_data(weights):
    X, y = holes(n=80, share=0.0)
    cv = StratifiedKFold(2)

    def loses(model, X, y):
        return float(np.mean(model.predict(np.where(np.arange(5) < 2, np.nan, X)) == y))

    grid = {"Cs": [0.1, 1.0], "noises": [0.1], "missing": "conditional", "scoring": loses}
    search = DropoutSVCCV(**grid, cv=cv, tol=1e-6).fit(X, y, sample_weight=weights)
    for f, (train, test) in enumerate(cv.split(X, y)):
        for i, C in enumerate(grid["Cs"]):
            model = DropoutSVC(C, noise=0.1, missing="conditional", tol=1e-6)
            model.fit(X[train], y[train], None if weights is None else weights[train])
            assert search.scores_[f, i, 0] == loses(model, X[test], y[test])


@EDGE
def test_a_search_over_a_regression_and_a_path():
    X, y = holes(n=60)
    search = DropoutSVRCV(Cs=[0.1, 1.0], noises=[0.1, 0.3], cv=3, missing="conditional").fit(X, y)
    assert np.isfinite(search.predict(X)).all()
    path = marginout.path(DropoutSVC(missing="conditional", tol=1e-6), X, y, Cs=[1.0], noises=[0.3])
    alone = DropoutSVC(noise=0.3, missing="conditional", tol=1e-6).fit(X, y)
    np.testing.assert_allclose(path.objectives[0, 0], alone.objective_, rtol=1e-5)


def test_rows_of_weight_zero_are_not_there():
    X, y = holes(n=50)
    weights = np.ones(50)
    weights[30:] = 0.0
    X[30:] *= 7.0
    few = DropoutSVC(missing="conditional", tol=1e-7).fit(X[:30], y[:30])
    all_ = DropoutSVC(missing="conditional", tol=1e-7).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(all_.coef_, few.coef_, atol=1e-4)
    np.testing.assert_allclose(all_._law.mean, few._law.mean)


def test_a_law_of_low_rank_trains_too():
    X, y = holes(n=60, d=80, share=0.3)
    model = DropoutSVC(missing="conditional").fit(X, y)
    imputed = GaussianImputer().fit_transform(X)
    np.testing.assert_allclose(
        model.decision_function(X), imputed @ model.coef_[0] + model.intercept_, rtol=1e-8
    )


def test_what_is_refused_names_a_cure():
    X, y = holes()
    with pytest.raises(TypeError, match=r"give X\.toarray\(\)"):
        DropoutSVC(missing="conditional").fit(sp.csr_array(np.nan_to_num(X)), y)
    with pytest.raises(ValueError, match="transform X by a GaussianImputer"):
        DropoutSVC(missing="conditional").partial_fit(X, y, classes=[-1, 1])
    with pytest.raises(ValueError, match="missing='conditional' must be"):
        MCFClassifier(missing="conditional").fit(np.nan_to_num(X), y)
    late = DropoutSVC().fit(np.nan_to_num(X), y).set_params(missing="conditional")
    with pytest.raises(ValueError, match="fit DropoutSVC again"):
        late.predict(X)
    with pytest.raises(ValueError, match=r"Input X contains NaN.*GaussianImputer"):
        DropoutSVC().fit(X, y)


def test_corrupted_copies_with_holes():
    X, y = holes()
    explicit = ExplicitCorruptionClassifier(DropoutSVC(missing="conditional"), noise=Missing(0.3), n_copies=2)
    alone = DropoutSVC(missing="conditional")
    explicit.set_params(random_state=0).fit(X, y)  # all copies at once
    copies = np.vstack([Missing(0.3).corrupt(X, rng) for rng in _seeds(explicit, 2)])
    alone.fit(copies, np.tile(y, 2), np.full(80, 0.5))
    np.testing.assert_allclose(explicit.decision_function(X), alone.decision_function(X), rtol=1e-9)


def _seeds(explicit, count):
    """The generators of the copies."""
    seed = int(make_generator(explicit.random_state).integers(2**63))
    return [np.random.default_rng((seed, m)) for m in range(count)]


@pytest.mark.parametrize(
    "model",
    [
        DropoutSVC(missing="conditional"),
        DropoutSVC(missing="conditional", multi_class="pairwise"),
        DropoutLogisticRegression(missing="conditional", multi_class="ovr"),
        DropoutLogisticRegression(missing="conditional", multi_class="multinomial"),
        DropoutSVR(missing="conditional"),
        DropoutQuantileRegressor(0.3, missing="conditional"),
    ],
    ids=lambda model: f"{type(model).__name__}-{getattr(model, 'multi_class', '')}",
)
@pytest.mark.parametrize("classes", [2, 3])
def test_a_pipeline_of_scikit_learn_has_the_same_scores(model, classes):
    X, y = load_iris(return_X_y=True, as_frame=True)
    X, y = X[y < classes], y[y < classes]
    Z = X.mask(np.random.default_rng(0).random(X.shape) < 0.4)
    for train in X, Z:
        model.fit(train, y)
        plain = model.to_sklearn()
        assert plain[-1].__class__.__module__.startswith("sklearn.")
        assert plain.feature_names_in_.tolist() == X.columns.tolist()
        np.testing.assert_array_equal(plain.predict(Z), model.predict(Z))
        if hasattr(model, "decision_function"):
            np.testing.assert_allclose(plain.decision_function(Z), model.decision_function(Z), rtol=1e-12)
        again = pickle.loads(pickle.dumps(plain))
        np.testing.assert_array_equal(again.predict(Z), plain.predict(Z))
        nothing = X[:1] * np.nan
        np.testing.assert_allclose(plain[0].mean_, plain[0].transform(nothing)[0], rtol=1e-6)


def _bad(name):
    X, _ = holes()
    X[0, 0] = np.nan
    if name == "a row of nothing":
        X[5] = np.nan
    elif name == "a feature of nothing":
        X[:, 2] = np.nan
    elif name == "nothing":
        X[:] = np.nan
    elif name == "dependent features":
        X = np.hstack([X, X[:, :1], 2 * X[:, :2], np.ones((40, 1))])
    elif name == "fewer rows than features":
        X = np.hstack([X[:6] + k for k in range(3)])
    elif name == "two rows":
        X = X[:2]
    return X, np.arange(len(X)) % 2


@pytest.mark.parametrize("kind", LINEAR)
@pytest.mark.parametrize(
    "name",
    [
        *("a row of nothing", "a feature of nothing", "nothing", "dependent features"),
        *("fewer rows than features", "two rows"),
    ],
)
def test_data_that_say_little_are_fitted(kind, name):
    """Warnings are errors here."""
    X, y = _bad(name)
    model = kind(missing="conditional").fit(X, y)
    assert np.isfinite(model.predict(X).astype(float)).all()
    law = estimate(X).law
    alone = model.predict(np.full((1, X.shape[1]), np.nan))  # nothing known: the mean of all
    np.testing.assert_allclose(alone, model.predict(law.mean[None]), atol=1e-8)
    with pytest.raises(ValueError, match="infinity"):
        model.predict(np.where(np.isnan(X), np.inf, X))


@EDGE
def test_quantiles():
    X, y = holes(n=80)
    y = GaussianImputer().fit_transform(X) @ np.ones(5)
    options = {"missing": "conditional", "tol": 1e-7}
    model = DropoutQuantileRegressor([0.2, 0.8], noise=0.1, **options).fit(X, y)
    law = estimate(X).law
    np.testing.assert_allclose(model.predict(X), law.fill(X) @ model.coef_.T + model.intercept_, rtol=1e-8)
    search = DropoutQuantileRegressorCV([0.2, 0.8], Cs=[0.1, 1.0], noises=[0.1, 0.3], cv=3, **options).fit(
        X, y
    )
    assert np.isfinite(search.scores_).all()


def test_noise_that_the_data_bear():
    X, y = holes(n=80)
    auto = DropoutSVC(noise="auto", missing="conditional", tol=1e-7).fit(X, y)
    assert auto.noise_ > 0
    given = DropoutSVC(noise=auto.noise_, missing="conditional", tol=1e-7).fit(X, y)
    np.testing.assert_allclose(auto.objective_, given.objective_, rtol=1e-9)
    path = marginout.path(DropoutSVC(missing="conditional"), X, y, Cs=[1.0], noises=["auto"])
    assert path.noises == [auto.noise_]
    search = DropoutSVCCV([1.0], ["auto"], missing="conditional", cv=3).fit(X, y)
    assert search.noises_ == [auto.noise_]
    assert search.best_estimator_.noise_ == auto.noise_
    without = DropoutSVC(noise=0.0, missing="conditional", tol=1e-7).fit(X, y)
    assert auto.objective_ > without.objective_ * (1 + 1e-6)


def test_a_failed_fit_keeps_the_old_law():
    X, y = holes()
    model = DropoutSVC(missing="conditional").fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="C=-1"):
        model.set_params(C=-1).fit(X[:20] * 5, y[:20])
    assert np.array_equal(model.predict(X), before)
