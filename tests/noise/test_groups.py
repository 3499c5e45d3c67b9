"""Features that die together, against all ways in which groups can die, a conic solver, and differences."""

from __future__ import annotations

import cProfile
import pickle
import warnings
from collections import deque
from itertools import product

import cvxpy as cp
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from marginout import GridEdgeWarning, MCFClassifier, MCFRegressor, path
from marginout._core.design.groups import GroupCsrDesign, GroupDenseDesign, GroupSums
from marginout._core.design.storage import make_design
from marginout._core.penalties import Ridge
from marginout._models.latent.activations import ACTIVATIONS
from marginout._models.latent.objective import LatentObjective, Net
from marginout._models.mcf import least_squares
from marginout._models.mcf.cumulants import Coding
from marginout._models.mcf.objective import MgfObjective
from marginout.losses import EpsilonInsensitive, Hinge, Quadratic, logistic
from marginout.noise import Deletion, Dropout, GroupDeletion, GroupDropout, feature_groups, from_missing
from marginout.noise.grouping import resolve_groups
from marginout.solvers import irls, ncg
from tests.paper import DropoutSVC, DropoutSVCCV, DropoutSVR, LatentDropoutSVC
from tests.problems import ESTIMATORS, EXPECTATIONS, SOLVERS, make_objective

N, D, G = 40, 12, 4
GROUPS = np.array([0, 1, 2, 0, 1, 3, 0, 1, 3, 3, 0, 2])
RATES = np.array([0.5, 0.2, 0.0, 0.7])
NOISES = [GroupDropout(GROUPS, RATES), GroupDeletion(GROUPS, RATES), GroupDropout(GROUPS, 0.4)]
STORAGES = [np.asarray, np.asfortranarray, sp.csr_array, lambda X: sp.csr_array(X.astype(np.float32))]


def data(n: int = N, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, D)), 2) * (rng.random((n, D)) < 0.7)
    X = X.astype(np.float32).astype(np.float64)
    return X, np.where(X @ rng.normal(size=D) + rng.normal(size=n) > 0, 1, -1)


def events(noise):
    """(probability, factor of every feature) of all ways in which the groups can die."""
    rate = np.broadcast_to(noise.rate, G)
    scale = 1 / (1 - rate) if isinstance(noise, GroupDropout) else np.ones(G)
    for alive in product([0, 1], repeat=G):
        alive = np.array(alive)
        yield float(np.prod(np.where(alive, 1 - rate, rate))), (alive * scale)[GROUPS]


def law(noise, X, w):
    """Probabilities (events,) and scores (events, n) of the corrupted examples."""
    pairs = list(events(noise))
    return np.array([p for p, _ in pairs]), np.array([(X * factor) @ w for _, factor in pairs])


# ------------------------------------------------------------------------------------------- the design


@pytest.mark.parametrize("K", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("noise", NOISES, ids=["dropout", "deletion", "one rate"])
def test_moments_are_those_of_all_masks(noise, storage, K):
    """Means, variances and covariances of scores, by enumeration."""
    X, _ = data()
    rng = np.random.default_rng(K)
    W, P = rng.normal(size=(D, K)), rng.normal(size=(D, K))
    design = make_design(storage(X), noise)
    mean, cross, square = design.line(W, P)
    for k in range(K):
        p, at_w = law(noise, X, W[:, k])
        _, at_p = law(noise, X, P[:, k])
        middle = p @ at_p
        np.testing.assert_allclose(mean[:, k], middle, atol=1e-12)
        np.testing.assert_allclose(square[:, k], p @ at_p**2 - middle**2, atol=1e-12)
        np.testing.assert_allclose(cross[:, k], p @ (at_w * at_p) - (p @ at_w) * middle, atol=1e-12)
    again = design.moments(W)
    np.testing.assert_allclose(again[1], design.line(W, W)[2], atol=1e-12)


@pytest.mark.parametrize("many", [False, True], ids=["few groups", "more groups than entries"])
@pytest.mark.parametrize("K", [1, 3, 4])
def test_pullback_is_the_adjoint(K, many):
    """Σ dm·m + dv·v has the gradient that differences show, for rows of few and of many entries."""
    X, _ = data(60)
    X = X * (np.random.default_rng(1).random(X.shape) < (0.15 if many else 1.0))
    groups = np.repeat(np.arange(6), 2)
    rng = np.random.default_rng(2)
    W, dm, dv = rng.normal(size=(D, K)), rng.normal(size=(60, K)), rng.normal(size=(60, K))
    for storage in STORAGES:
        design = make_design(storage(X), GroupDeletion(groups, 0.3))

        def value(W, design=design):
            mean, variance = design.moments(W)
            return float((dm * mean + dv * variance).sum())

        gradient = design.pullback(W, dm, dv)
        step = 1e-6
        for at in np.ndindex(D, K):
            E = np.zeros((D, K))
            E[at] = step
            difference = (value(W + E) - value(W - E)) / (2 * step)
            assert gradient[at] == pytest.approx(difference, abs=1e-6, rel=1e-7)


def blocks_of(design, a):
    """The preconditioner I + Mᵀdiag(a)M + Var, without what lies between groups."""
    ones = np.ones((design.d, a.shape[1]))
    return design.grouping.preconditioner(ones, sum(design.diagonal(a)), design.group_grams(a, 1), None)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("noise", NOISES, ids=["dropout", "deletion", "one rate"])
def test_matrices_are_second_moments(noise, storage):
    """gram, diagonal and preconditioner against sums over all masks."""
    X, _ = data(200)
    a = np.random.default_rng(0).random((200, 2))
    wanted = np.zeros((2, D, D))
    for p, factor in events(noise):
        M = X * factor
        wanted += p * np.stack([M.T @ (each[:, None] * M) for each in a.T])
    design = make_design(storage(X), noise)
    for k in range(2):
        # Gram and variance share a group's block: E x̃x̃ᵀ is all of it within a group.
        A = design.gram(a[:, k])
        np.testing.assert_allclose(A, wanted[k], atol=1e-4 if design.X.dtype == np.float32 else 1e-10)
    squares, variance = design.diagonal(a)
    np.testing.assert_allclose((squares + variance).T, np.einsum("kdd->kd", wanted), rtol=1e-6)
    g = np.random.default_rng(1).normal(size=(D, 2))
    same = GROUPS[:, None] == GROUPS
    for k in range(2):
        s = np.linalg.solve(np.eye(D) + np.where(same, wanted[k], 0.0), g[:, k])
        np.testing.assert_allclose(blocks_of(design, a).solve(g)[:, k], s, rtol=1e-6, atol=1e-12)
    heavier = blocks_of(design.with_factors(np.array([1.0, 2.0])), a).select(np.array([0]))
    np.testing.assert_allclose(heavier.solve(g[:, :1]), blocks_of(design, a).solve(g)[:, :1])


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(("single", "grouped"), [(Dropout, GroupDropout), (Deletion, GroupDeletion)])
def test_groups_of_one_are_no_groups(storage, single, grouped):
    """The same bits as with independent noise, and the group kernels agree to rounding."""
    X, y = data(80)
    rates = np.linspace(0.0, 0.8, D)
    plain = DropoutSVC(noise=single(rates)).fit(storage(X), y)
    group = DropoutSVC(noise=grouped(np.arange(D), rates)).fit(storage(X), y)
    np.testing.assert_array_equal(plain.coef_, group.coef_)
    one, other = make_design(storage(X), single(rates)), storage(X)
    two = (GroupCsrDesign if sp.issparse(other) else GroupDenseDesign)(other, _Alone(grouped, rates))
    rng = np.random.default_rng(0)
    W, P, a = rng.normal(size=(D, 3)), rng.normal(size=(D, 3)), rng.random((80, 3))
    for left, right in zip(one.line(W, P), two.line(W, P), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(one.pullback(W, a, a), two.pullback(W, a, a), rtol=1e-12, atol=1e-12)


class _Alone:
    """Groups of one that insist on being groups."""

    def __init__(self, kind, rates):
        self._noise = kind(np.arange(D), rates)

    def moments(self, n_features):
        return self._noise.moments(n_features)._replace(groups=np.arange(n_features))


# ------------------------------------------------------------------------------------------- the losses


@pytest.mark.parametrize("noise", NOISES, ids=["dropout", "deletion", "one rate"])
def test_objectives_against_all_masks(noise):
    """The quadratic loss is exact, the others are bounds on the expectation over all masks."""
    X, y = data()
    w, b, C = np.random.default_rng(3).normal(size=(D, 1)), np.array([0.3]), 0.7
    probabilities, scores = law(noise, X, w[:, 0])
    scores = scores + b
    Y = y[:, None].astype(float)
    losses = [
        (Quadratic(), 0.5 * (y - scores) ** 2),
        (Hinge(1.0, "bound"), np.maximum(0, 1 - y * scores)),
        (logistic("bound"), np.logaddexp(0, -y * scores)),
        (EpsilonInsensitive(0.1, "bound", scale=1.0), np.maximum(0, np.abs(y - scores) - 0.1)),
    ]
    for loss, values in losses:
        objective = make_objective(make_design(X, noise), loss, Y, np.full((N, 1), C), True)
        truth = 0.5 * float(w[:, 0] @ w[:, 0]) + C * float((probabilities @ values).sum())
        value = float(objective.point(w, b).value[0])
        if isinstance(loss, Quadratic):
            assert value == pytest.approx(truth, rel=1e-12)
        else:
            assert truth < value < 1.5 * truth


def conic(X, y, noise, C, problem):
    """The optimum of the bound by an interior-point method."""
    rate = np.broadcast_to(noise.rate, G)
    scale = np.ones(G) if isinstance(noise, GroupDropout) else 1 - rate
    M = X * scale[GROUPS]
    w, b = cp.Variable(D), cp.Variable()
    parts = [np.sqrt(r / (1 - r)) * (M[:, g == GROUPS] @ w[g == GROUPS]) for g, r in enumerate(rate)]

    def plus(z):
        return 0.5 * (z + cp.norm(cp.vstack([z, *parts]), axis=0))

    score = M @ w + b
    loss = (
        plus(1 - cp.multiply(y, score)) if problem == "svc" else plus(y - score - 0.1) + plus(score - y - 0.1)
    )
    F = 0.5 * cp.sum_squares(w) + C * cp.sum(loss)
    options = dict.fromkeys(["tol_gap_abs", "tol_gap_rel", "tol_feas"], 1e-9)
    return cp.Problem(cp.Minimize(F)).solve(solver="CLARABEL", **options)


@pytest.mark.parametrize("solver", ["auto", "irls", "lbfgs", "ncg"])
@pytest.mark.parametrize("noise", NOISES, ids=["dropout", "deletion", "one rate"])
def test_conic_optimum(noise, solver):
    """DropoutSVC and DropoutSVR to 1e-6 of a conic solver, whatever the storage."""
    X, y = data(60)
    target = 2 * X[:, 0] - X[:, 5] + 0.1 * y
    for storage in (np.asarray, sp.csr_array):
        svc = DropoutSVC(C=0.5, noise=noise, solver=solver, tol=1e-7).fit(storage(X), y)
        assert svc.objective_ == pytest.approx(conic(X, y, noise, 0.5, "svc"), rel=1e-6)
        svr = DropoutSVR(C=0.5, noise=noise, solver=solver, tol=1e-7).fit(storage(X), target)
        assert svr.objective_ == pytest.approx(conic(X, target, noise, 0.5, "svr"), rel=1e-6)


@pytest.mark.parametrize("expectation", EXPECTATIONS)
@pytest.mark.parametrize("model", ESTIMATORS)
def test_solvers_agree(model, expectation):
    """Three roads to one optimum, each with a certificate."""
    X, y = data(80, seed=4)
    fits = [
        model(C=0.3, noise=NOISES[1], expectation=expectation, solver=solver, tol=1e-6).fit(X, y)
        for solver in SOLVERS
    ]
    best = min(fit.objective_ for fit in fits)
    for fit in fits:
        assert fit.objective_ == pytest.approx(best, rel=1e-6)


def test_least_squares_in_every_form():
    """The closed form equals the normal equations of all masks; Woodbury's is refused."""
    X, y = data(50)
    noise = NOISES[1]
    model = MCFRegressor(C=2.0, noise=noise).fit(X, y)
    A, r = np.zeros((D + 1, D + 1)), np.zeros(D + 1)
    for p, factor in events(noise):
        M = np.column_stack([X * factor, np.ones(len(X))])
        A += 2.0 * p * M.T @ M
        r += 2.0 * p * M.T @ y
    A[range(D), range(D)] += 1.0
    exact = np.linalg.solve(A, r)
    np.testing.assert_allclose([*model.coef_, *model.intercept_], exact, rtol=1e-6, atol=1e-9)
    objective = make_objective(
        make_design(X, noise), Quadratic(), y[:, None] * 1.0, np.full((50, 1), 2.0), True
    )
    start = np.zeros((D, 1)), np.zeros(1)
    by_cg = least_squares.solve(objective, *start, tol=1e-9, max_iter=50, form="cg")
    np.testing.assert_allclose(by_cg.W[:, 0], exact[:D], atol=1e-5)
    for solve, form in ((least_squares.solve, {"form": "woodbury"}), (irls.solve, {"m_step": "woodbury"})):
        with pytest.raises(ValueError, match="corrupted in groups"):
            solve(objective, *start, tol=1e-6, max_iter=5, **form)


def test_wide_data_go_round_woodbury():
    """More features than examples: "auto" finds a form that knows groups."""
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(20, 90)), np.arange(90) // 3
    y = np.sign(X[:, 0] + X[:, 1])
    fits = [
        DropoutSVC(noise=GroupDropout(groups, 0.5), solver=s, tol=1e-6).fit(X, y) for s in ("irls", "ncg")
    ]
    assert fits[0].objective_ == pytest.approx(fits[1].objective_, rel=1e-6)


def test_blocks_save_iterations():
    """Features that repeat each other within groups: the preconditioner knows."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(600, 8))
    X = np.repeat(Z, 4, axis=1) + 0.1 * rng.normal(size=(600, 32))
    y = np.sign(Z[:, 0] - Z[:, 3] + 0.5 * rng.normal(size=600))
    noise = GroupDropout(np.repeat(np.arange(8), 4), 0.5)
    for storage in (np.asarray, sp.csr_array):
        objective = make_objective(
            make_design(storage(X), noise), Hinge(), y[:, None], np.ones((600, 1)), True
        )
        result = ncg.solve(objective, np.zeros((32, 1)), np.zeros(1), tol=1e-6, max_iter=200)
        assert result.converged.all()
        assert result.n_iter < 25


# ------------------------------------------------------------------------------------------- searches


def test_path_and_search_share_designs():
    """Cells of group noises are what single fits find; kinds of groups are not mixed up."""
    X, y = data(120, seed=5)
    other = np.roll(GROUPS, 3)
    noises = [GroupDropout(GROUPS, 0.3), GroupDropout(GROUPS, 0.6), GroupDropout(other, 0.3), 0.3, NOISES[1]]
    cells = path(DropoutSVC(tol=1e-6), sp.csr_array(X), y, Cs=[0.1, 1.0], noises=noises)
    for i, C in enumerate([0.1, 1.0]):
        for j, noise in enumerate(noises):
            single = DropoutSVC(C, noise=noise, tol=1e-6).fit(X, y)
            assert cells.objectives[i, j] == pytest.approx(single.objective_, rel=1e-6)
    search = DropoutSVCCV([0.01, 0.1, 1.0], [GroupDropout(GROUPS, q) for q in (0.1, 0.3, 0.5)], cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        search.fit(X, y)
    assert search.noise_ in search.noises_


# ------------------------------------------------------------------------------------------- other models


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("noise", NOISES, ids=["dropout", "deletion", "one rate"])
@pytest.mark.parametrize("loss", ["logistic", "exponential"])
def test_mgf_objectives_are_those_of_all_masks(loss, noise, storage):
    """E exp(−y·score) by enumeration; gradients by differences; three classes for the joint loss."""
    X, y = data()
    three = loss == "logistic"
    classes = (np.arange(N) % 3 if three else (y > 0) * 1).astype(np.int64)
    K = 3 if three else 1
    a = np.ones((3, 3)) if three else np.array([[1.0], [-1.0]])
    design = make_design(storage(X), noise)
    objective = MgfObjective(Ridge(), design, noise, Coding(classes, a, three), np.full(N, 0.5), loss, False)
    W = 0.3 * np.random.default_rng(0).normal(size=(D, K))
    point = objective.point(W, np.zeros(K))
    total = 0.0
    for n in range(N):
        c = classes[n]
        T = a[c] * W - W[:, [c]] if three else a[c] * W
        expected = sum(p * np.exp((X[n] * factor) @ T) for p, factor in events(noise))
        total += 0.5 * (np.log(expected.sum()) if three else expected[0])
    assert point.value == pytest.approx(0.5 * (W**2).sum() + total, rel=1e-9)
    G = objective.gradient(point)
    for at in np.ndindex(D, K):
        E = np.zeros((D, K))
        E[at] = 1e-6
        up, down = (objective.point(W + sign * E, np.zeros(K)).value for sign in (1, -1))
        assert G[at] == pytest.approx((up - down) / 2e-6, abs=1e-6)


@pytest.mark.parametrize("loss", ["logistic", "quadratic", "exponential"])
def test_mcf_fits(loss):
    """A certificate, for two classes and three."""
    X, y = data(80)
    for labels in (y, np.arange(80) % 3):
        model = MCFClassifier(loss, C=0.1, noise=NOISES[1], tol=1e-5).fit(sp.csr_array(X), labels)
        assert model.optimality_gap_ < 1e-3 * model.objective_


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("propagation", ["taylor", "gaussian"])
@pytest.mark.parametrize("noise", NOISES[:2], ids=["dropout", "deletion"])
def test_hidden_layer(noise, propagation, storage):
    """The covariance of hidden inputs by enumeration, and gradients by differences."""
    X, y = data()
    rng = np.random.default_rng(0)
    Y = np.column_stack([y, -y, np.roll(y, 1)]).astype(float)
    design = make_design(storage(X), noise)
    objective = LatentObjective(
        design, ACTIVATIONS["tanh"], propagation, logistic("bound"), Y, np.full((N, 1), 0.3), 1.0, True
    )
    net = Net(0.4 * rng.normal(size=(D, 4)), rng.normal(size=4), rng.normal(size=(4, 3)), rng.normal(size=3))
    pairs = list(events(noise))
    for n in (0, 7):
        inputs = np.array([(X[n] * factor) @ net.alpha for _, factor in pairs])
        p = np.array([p for p, _ in pairs])
        mean = p @ inputs
        cov = (inputs - mean).T @ (p[:, None] * (inputs - mean))
        block = objective.inputs.block(slice(n, n + 1), objective.inputs.scaled(net.alpha))
        A, S = block.inputs(True)
        np.testing.assert_allclose(A[0], mean, atol=1e-12)
        np.testing.assert_allclose(S[0], np.diag(cov), atol=1e-12)
        np.testing.assert_allclose(block.covariance()[0], cov, atol=1e-12)
        u = rng.normal(size=4)
        v, T = block.spread(u[None, None])
        np.testing.assert_allclose(v[0, 0], u @ cov @ u)
        np.testing.assert_allclose(T[0, 0], cov @ u, atol=1e-12)
    _, gradient = objective.value_and_gradient(net)
    x, g = net.pack(), gradient.pack()
    for i in range(len(x)):
        E = np.zeros_like(x)
        E[i] = 1e-5
        up, down = (objective.value(net.unpack(x + sign * E)) for sign in (1, -1))
        assert g[i] == pytest.approx((up - down) / 2e-5, abs=2e-6, rel=1e-5)


def test_latent_fit_under_group_noise():
    X, y = data(80)
    for solver in ("joint", "alternating"):
        model = LatentDropoutSVC(3, noise=NOISES[0], random_state=0, solver=solver, max_iter=2000).fit(X, y)
        assert np.isfinite(model.objective_)
        assert model.score(X, y) > 0.6


# ------------------------------------------------------------------------------------------- who is in which


FRAME = pd.DataFrame({"age": [20.0, 30.0, 40.0], "job": ["a", "b", "a"], "town": ["x", "y", "z"]})


def test_names_and_prefixes():
    """A data frame's columns, and what a ColumnTransformer makes of them."""
    names = ["age", "job_a", "job_b", "job"]
    numbers, labels = resolve_groups({"who": "age", "what": ["job_"], "exact": "job"}, 4, names)
    assert labels == ["who", "what", "exact"]
    np.testing.assert_array_equal(numbers, [0, 1, 1, 2])
    encoder = ColumnTransformer([("n", StandardScaler(), ["age"]), ("c", OneHotEncoder(), ["job", "town"])])
    encoder.fit(FRAME)
    groups = feature_groups(encoder, {"age": "n__age", "job": "c__job_", "town": "c__town_"})
    assert groups.tolist() == ["age", "job", "job", "town", "town", "town"]
    frame = pd.DataFrame(data()[0], columns=[f"a{i}" if i < 5 else f"b{i}" for i in range(D)])
    named = DropoutSVC(noise=GroupDropout([["a"], ["b"]], 0.3)).fit(frame, data()[1])
    numbered = DropoutSVC(noise=GroupDropout(np.arange(D) >= 5, 0.3)).fit(frame, data()[1])
    np.testing.assert_array_equal(named.coef_, numbered.coef_)


WRONG = [
    (lambda: GroupDropout([[0, 1], [1, 2]]).moments(3), r"groups overlap: feature 1 is in groups 0 and 1"),
    (lambda: GroupDropout([[0, 1]]).moments(3), "groups do not cover all features: 1 are in none"),
    (lambda: GroupDropout([0, 1]).moments(3), r"groups has shape \(2,\) but X has 3 features"),
    (
        lambda: GroupDropout([["a"], ["b"]]).moments(3),
        "names feature 'a'.* X has no names: give a data frame",
    ),
    (
        lambda: GroupDropout([["a"], ["c"]]).bind(["a", "b"]),
        r"groups\[1\] names feature 'c', which X does not",
    ),
    (lambda: GroupDropout({"s": [0, 7]}).moments(3), r"groups\['s'\] names feature 7, which X does not have"),
    (lambda: GroupDropout([[0], []]), r"groups\[1\] is empty"),
    (lambda: GroupDropout(3), "must be one label per feature, or a list"),
    (lambda: GroupDropout([None, 1]).moments(2), "that of feature 0 is None"),
    *(
        (lambda groups=groups: GroupDropout(groups), "must be one label per feature, or a list.* of one type")
        for groups in (
            np.array(3),
            np.zeros((2, 2)),
            np.array([1, "a"], dtype=object),
            [object(), object()],
            [{"a": 0}, {"b": 1}],
            {0, 1},
            iter([0, 1]),
            deque([[0], [1, 2]]),
            pl.Series([[0, 1], [2]]),
            pd.DataFrame({"a": [0, 1]}),
        )
    ),
    (lambda: GroupDropout([[0, [1]], [2]]).moments(3), r"groups\[0\] names feature \[1\], which X does not"),
    (lambda: GroupDropout({"a": None, "b": [0, 1]}).moments(2), r"groups\['a'\] names feature None"),
    (lambda: GroupDropout([0, 1], 1.0), r"rate must be a number in \[0, 1\), or one such number per group"),
    (lambda: GroupDropout([0, 1, 1], [0.1, 0.2, 0.3]), "rate=...\\) has 3 values but there are 2 groups"),
]


@pytest.mark.parametrize(("act", "match"), WRONG)
def test_what_is_wrong_with_groups(act, match):
    with pytest.raises(ValueError, match=match):
        act()


@pytest.mark.parametrize("noise", [*NOISES, GroupDeletion({"a": [0, 2], "b": 1}, [0.1, 0.2])])
def test_noises_are_values(noise):
    """Equal to copies, hashable, readable, frozen."""
    copy = pickle.loads(pickle.dumps(noise))
    assert copy == noise
    assert hash(copy) == hash(noise)
    assert noise != GroupDropout([0, 1])
    assert repr(noise).startswith(type(noise).__name__ + "(groups=")


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("noise", NOISES[:2], ids=["dropout", "deletion"])
def test_sampling_has_the_moments(noise, storage):
    """Groups live or die as one, and their mean and variance are those stated."""
    X = np.tile(np.arange(1.0, D + 1), (20_000, 1))
    Z = noise.corrupt(storage(X), 0)
    Z = Z.toarray() if sp.issparse(Z) else Z
    for g in range(G):
        alive = Z[:, g == GROUPS] != 0
        assert np.all(alive == alive[:, :1])
        assert alive[:, 0].mean() == pytest.approx(1 - RATES[g], abs=0.02)
    np.testing.assert_allclose(Z.mean(axis=0), noise.mean(X[:1])[0], rtol=0.05)
    np.testing.assert_allclose(Z.var(axis=0), noise.var(X[:1])[0], rtol=0.1, atol=1e-12)


def test_numbers_are_places_and_labels_are_never_missing():
    """Integer column names are no names, as in scikit-learn: a number is a feature's place everywhere."""
    frame = pd.DataFrame(np.ones((8, 4)), columns=[3, 2, 1, 0])
    np.testing.assert_array_equal(from_missing(frame, [[0], [1, 2, 3]]).numbers(4), [0, 1, 1, 1])
    for labels in (["a", "a", np.nan, "b"], ["a", None], pd.array(["a", pd.NA], dtype="string")):
        with pytest.raises(ValueError, match="groups do not cover all features"):
            GroupDropout(labels)


def test_thousands_of_tiny_groups_are_a_few_arrays():
    """What an iteration asks of a dense X takes as many calls for 1,000 groups as for 50."""
    rng = np.random.default_rng(0)

    def calls(count: int) -> int:
        design = make_design(rng.normal(size=(40, 2 * count)), GroupDropout(np.arange(2 * count) // 2, 0.5))
        W, a = rng.normal(size=(2 * count, 1)), np.ones((40, 1))
        with cProfile.Profile() as profile:
            blocks_of(design, a).solve(W)
            design.line(W, W)
            design.pullback(W, a, a)
        return sum(entry.callcount for entry in profile.getstats())

    assert calls(1000) < 1.5 * calls(50)


@pytest.mark.parametrize("largest", [3, 80])
def test_sums_of_groups_of_any_sizes(largest):
    rng = np.random.default_rng(0)
    groups = rng.permutation(
        np.concatenate([np.arange(40), rng.integers(40, size=30), np.zeros(largest - 1, int)])
    )
    X, W, D = (
        rng.normal(size=(7, len(groups))),
        rng.normal(size=(len(groups), 3)),
        rng.normal(size=(7, 40, 3)),
    )
    sums = GroupSums(X, groups)
    member = np.eye(40)[groups]
    np.testing.assert_allclose(
        sums.forward(slice(0, 7), W), np.einsum("nd,dk,dg->ngk", X, W, member), atol=1e-12
    )
    G = np.zeros_like(W)
    sums.backward(slice(0, 7), D, G)
    np.testing.assert_allclose(G, np.einsum("nd,ngk,dg->dk", X, D, member), atol=1e-12)
