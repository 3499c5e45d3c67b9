"""F, its gradient, its lines and its majoriser against finite differences and dense matrices."""

import numpy as np
import pytest
import scipy.sparse as sp

from marginout._core.design.storage import make_design
from marginout._core.objective import Objective
from marginout.losses import EpsilonInsensitive, Hinge, Logistic, LogisticGaussian, SquaredHinge
from marginout.noise import Deletion, Dropout
from tests.problems import LOSSES, make_noises, make_objective

N, D, K = 17, 5, 3
RATES = np.array([0.0, 0.2, 0.5, 0.8, 0.4])

NOISES = make_noises(RATES, RATES)
#: Without "none": the hinge then has no curvature in the offset, which cannot be divided by.
CURVED = {name: noise for name, noise in NOISES.items() if name != "none"}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
every_noise = pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
both_weights = pytest.mark.parametrize("own", [False, True], ids=["weights-n1", "weights-nK"])


def majorizer(objective, point):
    return objective.examples.majorizer(point.state[0])


def second_derivatives(objective, point):
    return objective.examples.second_derivatives(point.state[0])


#: Functions of an objective and a point.
VERBS = [
    lambda objective, point: objective.gradient(point)[0],
    lambda objective, point: objective.gradient(point)[1],
    Objective.curvature,
    majorizer,
    second_derivatives,
]


def numbers(point):
    """All numbers of a point."""
    return point.W, point.b, point.value, *point.state[0]


class Problem:
    """A random objective with the arrays that it was made of, and a point (W, b) to look at it from."""

    def __init__(self, loss, noise, own=True, fit_intercept=True, sparse=False, seed=0, **options):
        rng = np.random.default_rng(seed)
        self.X = rng.gamma(2.0, 0.5, size=(N, D)) * rng.integers(0, 2, (N, D))
        self.M, self.V = noise.mean(self.X), noise.var(self.X)
        classes = isinstance(loss, (Hinge, SquaredHinge, Logistic, LogisticGaussian))
        self.Y = rng.choice([-1.0, 1.0], (N, K)) if classes else rng.normal(size=(N, K))
        self.weights = rng.gamma(1.0, 2.0, size=(N, K if own else 1))
        self.weights[4] = 0.0
        design = make_design(sp.csr_array(self.X) if sparse else self.X, noise)
        self.loss = loss
        self.objective = make_objective(design, loss, self.Y, self.weights, fit_intercept, **options)
        self.W, self.b = rng.normal(size=(D, K)), rng.normal(size=K) * fit_intercept
        self.rng = rng

    def value(self, W, b):
        """F of docs/mathematics.md, from dense matrices, in NumPy."""
        m, v = self.M @ W + b, self.V @ (W * W)
        return 0.5 * np.sum(W * W, axis=0) + np.sum(self.weights * self.loss.value(m, v, self.Y), axis=0)

    def hessian(self, k):
        """∇²F of one problem in (w, b), assembled from docs/mathematics.md's formula for Hp."""
        w = self.W[:, k]
        m, v = self.M @ self.W + self.b, self.V @ (self.W * self.W)
        jet = self.loss.jet(m, v, self.Y)
        s = np.broadcast_to(self.weights, self.Y.shape)[:, k]
        dv, dmm, dmv, dvv = (s * getattr(jet, name)[:, k] for name in ("dv", "dmm", "dmv", "dvv"))
        M = np.column_stack([self.M, np.ones(N)])
        U = np.column_stack([2 * self.V * w, np.zeros(N)])
        cross = M.T @ (dmv[:, None] * U)
        curved = M.T @ (dmm[:, None] * M) + cross + cross.T + U.T @ (dvv[:, None] * U)
        return curved + np.diag(np.append(1 + 2 * self.V.T @ dv, 0.0))


def difference(function, h=1e-4):
    """d/dt at t = 0 by five points."""
    return (8 * (function(h) - function(-h)) - (function(2 * h) - function(-2 * h))) / (12 * h)


# -------------------------------------------------------------------------------- value and gradient


@both_weights
@every_noise
@every_loss
def test_value_is_ridge_plus_weighted_loss(loss, noise, own):
    """F of all K problems at once against the dense formula."""
    p = Problem(loss, noise, own)
    for W, b in ((p.W, p.b), (np.zeros((D, K)), p.b), (1e3 * p.W, p.b)):
        point = p.objective.point(W, b)
        np.testing.assert_allclose(point.value, p.value(W, b), rtol=1e-10)
        np.testing.assert_allclose(point.state[0][0], p.M @ W + b, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(point.state[0][1], p.V @ (W * W) + p.objective.examples.floor, rtol=1e-12)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@both_weights
@every_noise
@every_loss
def test_gradient_is_a_finite_difference(loss, noise, own, sparse):
    """∇_w F and ∂F/∂b, entry by entry, against central differences of F."""
    p = Problem(loss, noise, own, sparse=sparse)
    point = p.objective.point(p.W, p.b)
    G, g = p.objective.gradient(point)
    assert G.shape == (D, K)
    for d in range(D):
        unit = np.eye(D)[:, [d]]
        slope = difference(lambda h, unit=unit: p.value(p.W + h * unit, p.b))
        np.testing.assert_allclose(G[d], slope, rtol=1e-8, atol=1e-8)
    slope = difference(lambda h: p.value(p.W, p.b + h))
    np.testing.assert_allclose(g, slope, rtol=1e-8, atol=1e-8)


@every_loss
def test_without_offset_there_is_no_offset_gradient(loss):
    """fit_intercept=False: zeros, whatever the scores say."""
    p = Problem(loss, Dropout(0.5), fit_intercept=False)
    np.testing.assert_array_equal(p.objective.gradient(p.objective.point(p.W, p.b))[1], np.zeros(K))


@pytest.mark.parametrize("rounding", [1e-10, 1e-3])
@pytest.mark.parametrize("loss", [Hinge(2.0), EpsilonInsensitive(0.2, scale=7.0)], ids=["hinge", "epsilon"])
def test_kinks_are_rounded_off_by_a_fraction_of_the_scale(loss, rounding):
    """Without noise F exceeds the plain one by at most ½ Σ s·(rounding·scale) for every kink."""
    p = Problem(loss, Dropout(0.0))
    rounded = p.objective.rounded(rounding)
    excess = rounded.point(p.W, p.b).value - p.value(p.W, p.b)
    kinks = 2 if isinstance(loss, EpsilonInsensitive) else 1
    assert np.all(excess >= -1e-12)
    assert np.all(excess <= 0.5 * kinks * rounding * loss.scale * np.sum(p.weights, axis=0) + 1e-12)
    assert rounded.examples.floor == (rounding * loss.scale) ** 2
    np.testing.assert_array_equal(rounded.examples.Y, p.Y)


# ------------------------------------------------------------------------------------------- Hessian


@pytest.mark.parametrize("noise", CURVED.values(), ids=CURVED)
@every_loss
def test_hessian_is_that_of_a_strongly_convex_function(loss, noise):
    """∇²F assembled: equal to differences of the gradient, PSD, and ≥ 1 with the offset optimised away."""
    p = Problem(loss, noise)

    def gradient(W, b):
        point = p.objective.point(W, b)
        return np.vstack(p.objective.gradient(point))

    for k in range(K):
        H = p.hessian(k)
        for d in range(D + 1):
            dW, db = np.zeros((D, K)), float(d == D)
            if d < D:
                dW[d, k] = 1.0
            column = difference(lambda h, dW=dW, db=db: gradient(p.W + h * dW, p.b + h * db))[:, k]
            np.testing.assert_allclose(H[:, d], column, rtol=1e-7, atol=1e-7)
        assert np.linalg.eigvalsh(H)[0] >= -1e-10 * np.abs(H).max()
        schur = H[:D, :D] - np.outer(H[:D, D], H[D, :D]) / H[D, D]
        assert np.linalg.eigvalsh(schur)[0] >= 1 - 1e-10 * np.abs(H).max()


@pytest.mark.parametrize("seed", range(6))
@every_loss
def test_f_is_convex_along_chords(loss, seed):
    """F at a midpoint lies below the mean of the ends, and below by ⅛‖w − w'‖², near and far."""
    p = Problem(loss, Dropout(RATES), seed=seed)
    for scale in (1e-3, 1.0, 1e3):
        W, b = p.W + scale * p.rng.normal(size=(D, K)), p.b + scale * p.rng.normal(size=K)
        ends = 0.5 * (p.value(W, b) + p.value(p.W, p.b))
        middle = p.value(0.5 * (W + p.W), 0.5 * (b + p.b))
        assert np.all(middle + np.sum((W - p.W) ** 2, axis=0) / 8 <= ends * (1 + 1e-12))


# ---------------------------------------------------------------------------------------- majoriser


@both_weights
@every_noise
@every_loss
def test_curvature_is_the_diagonal_of_a_matrix_of_the_loss_curvatures(loss, noise, own):
    """curvature() against diag(I + Mᵀ diag(a) M + diag(Vᵀa)), a = C·s·min(γ, 1/grain), formed densely.

    Under a normal law γ is ∂²φ/∂m² instead, or a share of the majoriser's.
    """
    p = Problem(loss, noise, own)
    point = p.objective.point(p.W, p.b)
    m, v = p.M @ p.W + p.b, p.V @ (p.W * p.W)
    gamma = p.loss.majorizer(m, v, p.Y)
    np.testing.assert_allclose(majorizer(p.objective, point), p.weights * gamma, rtol=1e-9)
    normal = p.loss.kernel is not None and p.loss.kernel.code % 2  # GAUSSIAN is 1
    if normal:
        gamma = np.maximum(p.loss.jet(m, v, p.Y).dmm, p.loss.kernel.share * gamma)
    a = p.weights * np.minimum(gamma, 1 / p.loss.grain)
    curvature = p.objective.curvature(point)
    for k in range(K):
        matrix = np.eye(D) + p.M.T @ (a[:, [k]] * p.M) + np.diag(p.V.T @ a[:, k])
        np.testing.assert_allclose(curvature[:, k], np.diag(matrix), rtol=1e-9 if normal else 1e-12)


@every_noise
@every_loss
def test_majoriser_lies_above_f(loss, noise):
    """F(w', b') below its quadratic at (w, b), with the matrix of IRLS bordered by the offset."""
    p = Problem(loss, noise)
    point = p.objective.point(p.W, p.b)
    (G, g), a = p.objective.gradient(point), majorizer(p.objective, point)
    for scale in (1e-2, 1.0, 30.0, 1e4):
        dW, db = scale * p.rng.normal(size=(D, K)), scale * p.rng.normal(size=K)
        scores = np.sum(a * (p.M @ dW + db) ** 2, axis=0) + np.sum(a * (p.V @ dW**2), axis=0)
        quadratic = 0.5 * (np.sum(dW * dW, axis=0) + scores)
        above = point.value + np.sum(G * dW, axis=0) + g * db + quadratic
        assert np.all(p.value(p.W + dW, p.b + db) <= above * (1 + 1e-12))


@both_weights
@every_loss
def test_second_derivative_is_that_of_the_loss_in_the_score(loss, own):
    """C·s·φ_mm against the jet."""
    p = Problem(loss, Dropout(0.5), own)
    point = p.objective.point(p.W, p.b)
    wanted = p.weights * loss.jet(*point.state[0], p.Y).dmm
    np.testing.assert_allclose(second_derivatives(p.objective, point), wanted, rtol=1e-14)


# --------------------------------------------------------------------------------------------- lines


@both_weights
@every_noise
@every_loss
def test_line_expands_f_in_step_and_offset(loss, noise, own):
    """Value, gradient and Hessian in (t, δ) against F and differences of it, K steps at once."""
    p = Problem(loss, noise, own)
    P, t, delta = p.rng.normal(size=(D, K)), p.rng.normal(size=K), p.rng.normal(size=K)
    line = p.objective.line(p.objective.point(p.W, p.b), P)

    def f(dt=0.0, dd=0.0):
        return p.value(p.W + (t + dt) * P, p.b + delta + dd)

    slope = line.expand(t, delta)
    np.testing.assert_allclose(slope.value, f(), rtol=1e-10)
    np.testing.assert_allclose(slope.dt, difference(lambda h: f(dt=h)), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(slope.db, difference(lambda h: f(dd=h)), rtol=1e-8, atol=1e-8)
    up = lambda h: line.expand(t + h, delta)  # noqa: E731
    across = lambda h: line.expand(t, delta + h)  # noqa: E731
    np.testing.assert_allclose(slope.dtt, difference(lambda h: up(h).dt), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(slope.dtb, difference(lambda h: up(h).db), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(slope.dtb, difference(lambda h: across(h).dt), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(slope.dbb, difference(lambda h: across(h).db), rtol=1e-7, atol=1e-7)


@every_loss
def test_line_majorises_with_the_same_matrix(loss):
    """majorize() against the quadratic form of the bordered IRLS matrix in (p, 1), at the trial step."""
    p = Problem(loss, Deletion(RATES))
    P, t, delta = p.rng.normal(size=(D, K)), p.rng.normal(size=K), p.rng.normal(size=K)
    dtt, dtb, dbb = p.objective.line(p.objective.point(p.W, p.b), P).majorize(t, delta)
    a = majorizer(p.objective, p.objective.point(p.W + t * P, p.b + delta))
    scores = p.M @ P
    np.testing.assert_allclose(dtt, np.sum(P * P, axis=0) + np.sum(a * (scores**2 + p.V @ P**2), axis=0))
    np.testing.assert_allclose(dtb, np.sum(a * scores, axis=0), rtol=1e-9)
    np.testing.assert_allclose(dbb, np.sum(a, axis=0), rtol=1e-9)


@every_loss
def test_moving_along_a_line_is_the_point_there(loss):
    """move() against a point made from X."""
    p = Problem(loss, Dropout(0.4))
    P, t, delta = p.rng.normal(size=(D, K)), p.rng.normal(size=K), p.rng.normal(size=K)
    start = p.objective.point(p.W, p.b)
    line = p.objective.line(start, P)
    moved = line.move(t, delta, line.expand(t, delta).value, np.zeros(K))
    there = p.objective.point(p.W + t * P, p.b + delta)
    for got, wanted in zip(numbers(moved), numbers(there), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-11)
    for got, wanted in zip(p.objective.gradient(moved), p.objective.gradient(there), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-11)
    np.testing.assert_array_equal(start.W, p.W)


@every_loss
def test_a_line_without_direction_moves_the_offset_alone(loss):
    """P = None against F as a function of the offset."""
    p = Problem(loss, Dropout(0.4))
    start = p.objective.point(p.W, p.b)
    line = p.objective.line(start, None)
    slope = line.expand(np.zeros(K), np.full(K, 0.3))
    np.testing.assert_allclose(slope.value, p.value(p.W, p.b + 0.3), rtol=1e-10)
    np.testing.assert_allclose(
        slope.db, difference(lambda h: p.value(p.W, p.b + 0.3 + h)), rtol=1e-8, atol=1e-8
    )
    np.testing.assert_array_equal(slope.dt, np.zeros(K))
    moved = line.move(np.zeros(K), np.full(K, 0.3), slope.value, np.zeros(K))
    np.testing.assert_array_equal(moved.W, p.W)
    np.testing.assert_array_equal(moved.b, p.b + 0.3)


# ------------------------------------------------------------------------------------ parts of a batch


@both_weights
@every_loss
def test_select_is_the_same_problems_alone(loss, own):
    """Value, gradient and curvature of some problems against those columns of the batch."""
    p = Problem(loss, Dropout(RATES), own)
    columns = np.array([2, 0])
    part, point = p.objective.select(columns), p.objective.point(p.W, p.b)
    some = p.objective.restrict(point, columns)
    assert part.K == 2
    again = part.point(np.ascontiguousarray(p.W[:, columns]), p.b[columns])
    for got, wanted in zip(numbers(some), numbers(again), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-13)
    for verb in VERBS:
        whole = verb(p.objective, point)[..., columns]
        np.testing.assert_allclose(verb(part, some), whole, rtol=1e-12, atol=1e-13)


@both_weights
@every_loss
def test_chunks_change_rounding_only(loss, own, monkeypatch):
    """Chunks of four rows against one chunk, in every verb."""
    whole = Problem(loss, Dropout(RATES), own)
    monkeypatch.setattr(loss, "chunk", 4 * K)
    parts = Problem(loss, Dropout(RATES), own)
    assert len(parts.objective.examples._chunks) > len(whole.objective.examples._chunks) == 1
    one, many = (p.objective.point(p.W, p.b) for p in (whole, parts))
    np.testing.assert_allclose(many.value, one.value, rtol=1e-13)
    P, t = np.ones((D, K)), np.full(K, 0.2)
    for verb in VERBS:
        got, wanted = verb(parts.objective, many), verb(whole.objective, one)
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-13)
    for got, wanted in zip(
        parts.objective.line(many, P).expand(t, t), whole.objective.line(one, P).expand(t, t), strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)
