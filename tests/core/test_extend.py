"""A penalty, a joint loss, a noise and a design, each written here against the interfaces alone."""

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from marginout._core import interfaces
from marginout._core.design.storage import make_design
from marginout._core.objective import Objective, dots
from marginout._core.penalties import Ridge
from marginout._core.shard import Shard
from marginout._core.targets import OneVsRest
from marginout._search.chains import walk
from marginout._search.problem import Problem, Training
from marginout.losses import Hinge, Logistic, Loss
from marginout.noise import Dropout, Gaussian, Noise
from marginout.solvers import lbfgs, ncg
from tests.paper import DropoutSVC
from tests.problems import in_shards

N, D = 60, 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D))
LABELS = np.argmax(X @ RNG.normal(size=(D, 3)) + RNG.normal(size=(N, 3)), axis=1)
SIGNS = np.where(LABELS == 0, 1.0, -1.0)[:, None]
BOTH = pytest.mark.parametrize("solver", [ncg, lbfgs], ids=["ncg", "lbfgs"])


# ------------------------------------------------------------------------------------------ a penalty


class ElasticNet:
    """½(1 − ρ)‖w‖² + ρ Σ√(w² + δ²), the second term within ρdδ of ρ‖w‖₁."""

    self_conjugate = False
    l1 = 0.0  # no part of it has a kink

    def __init__(self, ratio, width=1e-4):
        self.ratio, self.width = ratio, width

    def _root(self, W):
        return np.sqrt(W * W + self.width**2)

    def value(self, W):
        return 0.5 * (1 - self.ratio) * dots(W, W) + self.ratio * self._root(W).sum(axis=0)

    def gradient(self, W):
        return (1 - self.ratio) * W + self.ratio * W / self._root(W)

    def curvature(self, W):
        return 1 - self.ratio + self.ratio / self._root(W)

    def line(self, W, P):
        return ElasticLine(self, W, np.zeros_like(W) if P is None else P)

    def certificate(self, W, G, value):
        return 0.5 * dots(G, G) / (1 - self.ratio)  # strongly convex with modulus 1 − ρ


class ElasticLine:
    def __init__(self, penalty, W, P):
        self.penalty, self.W, self.P = penalty, W, P

    def expand(self, t):
        W, P, ratio = self.W + t * self.P, self.P, self.penalty.ratio
        bend = 1 - ratio + ratio * self.penalty.width**2 / self.penalty._root(W) ** 3
        return self.penalty.value(W), dots(self.penalty.gradient(W), P), dots(bend * P, P)


@BOTH
def test_an_elastic_net_is_a_class_of_its_own(solver):
    ratio, C = 0.6, 0.2
    shard = Shard(make_design(X, Dropout(0.3)), Logistic(), SIGNS, np.full((N, 1), C))
    objective = Objective.of(ElasticNet(ratio), shard, True)
    result = solver.solve(objective, np.zeros((D, 1)), np.zeros(1), tol=1e-7, max_iter=3000)
    kappa = 0.3 / 0.7

    def smooth(w, b):
        mean = X @ w + b
        half = 0.5 * np.sqrt(mean**2 + kappa * (X**2) @ w**2)
        return 0.5 * (1 - ratio) * w @ w + C * np.sum(np.logaddexp(half, -half) - 0.5 * SIGNS[:, 0] * mean)

    def split(u):  # w = p − q, p and q ≥ 0: the ℓ1 norm is their sum
        return smooth(u[:D] - u[D:-1], u[-1]) + ratio * u[:-1].sum()

    bounds = [(0, None)] * (2 * D) + [(None, None)]
    best = minimize(split, np.full(2 * D + 1, 0.1), bounds=bounds, options={"ftol": 1e-14, "gtol": 1e-9})
    assert best.fun <= result.value[0] * (1 + 1e-6)
    assert result.value[0] <= best.fun + ratio * D * 1e-4 + 1e-5
    assert result.value[0] - result.gap[0] <= best.fun + ratio * D * 1e-4
    assert_allclose(result.W[:, 0], best.x[:D] - best.x[D:-1], atol=5e-3)


# --------------------------------------------------------------------------------------- a joint loss


class Softmax(Loss):
    """log Σ exp(m_k) − m_y + ½ v̄, with v̄ a quarter of the variances: its outputs form one problem."""

    def __init__(self, outputs):
        self.outputs = outputs

    def _parts(self, m):
        shifted = m - m.max(axis=1, keepdims=True)
        p = np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True)
        return p, np.log(np.exp(shifted).sum(axis=1)) + m.max(axis=1)

    def jet(self, m, v, y):
        raise NotImplementedError  # only solvers for one output ask

    def majorizer(self, m, v, y):
        return np.full_like(m, 0.5)

    def fill_slopes(self, m, v, y, dm, dv):
        dm[...], dv[...] = self._parts(m)[0] - y, 0.125

    def add_expansion(self, plane, y, weights, sums):
        m, v = plane.moments()
        (p, top), R, s = self._parts(m), self.outputs, weights[:, :1]
        slope, a = p - y, plane.a
        dv, dvv = 2 * (plane.c + plane.t * plane.e), 2 * plane.e
        mean = (p * a).sum(axis=1, keepdims=True)
        sums[0] += (s * (top[:, None] / R - y * m + 0.125 * v)).sum(axis=0)
        sums[1] += (s * (slope * a + 0.125 * dv)).sum(axis=0)
        sums[2] += (s * slope).sum(axis=0)
        sums[3] += (s * (p * a * (a - mean) + 0.125 * dvv)).sum(axis=0)
        sums[4] += (s * p * (a - mean)).sum(axis=0)
        sums[5:] += (p * s).sum(axis=0) * np.eye(R) - (s * p).T @ p

    def add_majorizer(self, plane, y, weights, sums):
        s = 0.5 * weights[:, :1]
        sums[0] += (s * (plane.a**2 + plane.e)).sum(axis=0)
        sums[1] += (s * plane.a).sum(axis=0)
        sums[2:] += s.sum() * np.eye(self.outputs)


@BOTH
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_joint_loss_is_one_problem(solver, fit_intercept, shards):
    Y, C = np.eye(3)[LABELS], 0.5
    objective = in_shards(shards, X, Dropout(0.3), Softmax(3), Y, np.full((N, 1), C), fit_intercept)
    assert (objective.P, objective.K) == (1, 3)
    result = solver.solve(objective, np.zeros((D, 3)), np.zeros(3), tol=1e-9, max_iter=500)
    W, b = cp.Variable((D, 3)), cp.Variable((1, 3))
    scores = X @ W + (np.ones((N, 1)) @ b if fit_intercept else 0)
    variance = 0.3 / 0.7 * np.repeat((X**2).sum(axis=0)[:, None], 3, axis=1)
    noise = 0.125 * cp.sum(cp.multiply(variance, cp.square(W)))
    loss = cp.sum(cp.log_sum_exp(scores, axis=1)) - cp.sum(cp.multiply(Y, scores)) + noise
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(W) + C * loss))
    problem.solve(solver=cp.CLARABEL)
    assert result.value.shape == (1,)
    assert result.converged.all()
    assert_allclose(result.value[0], problem.value, rtol=1e-7)
    assert_allclose(result.W, W.value, atol=2e-4)
    assert result.value[0] - result.gap[0] <= problem.value * (1 + 1e-8)


@BOTH
def test_several_joint_problems_are_solved_side_by_side(solver):
    """Two weights C as two problems of three outputs each, against each alone."""
    Y = np.eye(3)[LABELS]
    design = make_design(X, Dropout(0.3))

    def solve(Y, weights):
        objective = Objective.of(Ridge(), Shard(design, Pair(3), Y, weights), True)
        start = np.zeros((D, Y.shape[1])), np.zeros(Y.shape[1])
        return solver.solve(objective, *start, tol=1e-10, max_iter=500)

    weights = np.repeat([[0.1, 2.0]], N, axis=0)
    both = solve(np.hstack([Y, Y]), np.repeat(weights, 3, axis=1))
    assert both.value.shape == (2,)
    for p in range(2):
        alone = solve(Y, np.repeat(weights[:, [p]], 3, axis=1))
        assert_allclose(both.value[p], alone.value[0], rtol=1e-8)
        assert_allclose(both.W[:, 3 * p : 3 * p + 3], alone.W, atol=1e-4)


class Pair(Softmax):
    """The same loss for any number of problems."""

    def _each(self, K):
        return [slice(i, i + self.outputs) for i in range(0, K, self.outputs)]

    def fill_slopes(self, m, v, y, dm, dv):
        for own in self._each(m.shape[1]):
            super().fill_slopes(m[:, own], v[:, own], y[:, own], dm[:, own], dv[:, own])

    def add_expansion(self, plane, y, weights, sums):
        for own in self._each(y.shape[1]):
            super().add_expansion(some(plane, own), y[:, own], weights[:, own], sums[:, own])

    def add_majorizer(self, plane, y, weights, sums):
        for own in self._each(y.shape[1]):
            super().add_majorizer(some(plane, own), y[:, own], weights[:, own], sums[:, own])


def some(plane, own):
    parts = (np.ascontiguousarray(part[..., own]) for part in plane[:7])
    return type(plane)(*parts, plane.floor)


# -------------------------------------------------------------------------------------------- a noise


@dataclass(frozen=True, eq=False, repr=False)
class Speckle(Noise):
    """x̃ = x·(1 ± spread), each sign with probability ½: E x̃ = x, Var x̃ = spread²·x²."""

    spread: float

    def _form(self):
        return 1.0, self.spread**2, 2

    def log_mgf(self, t, x):
        return t * x + np.log(np.cosh(t * x * self.spread))

    def tilted_mean(self, t, x):
        return x * (1 + self.spread * np.tanh(t * x * self.spread))

    def _sample(self, x, columns, rng):
        return x * (1 + self.spread * rng.choice([-1.0, 1.0], x.shape))


@BOTH
def test_a_noise_is_a_class_of_its_own(solver):
    """Against a conic solver on the bound with the variance by enumeration of both signs."""
    noise, C = Speckle(0.7), 0.3
    model = DropoutSVC(C, noise=noise, tol=1e-8, solver=solver.__name__.split(".")[-1]).fit(X, SIGNS[:, 0])
    draws = [X * (1 + sign * noise.spread) for sign in (-1, 1)]
    variance = np.mean([(draw - X) ** 2 for draw in draws], axis=0)
    w, b = cp.Variable(D), cp.Variable()
    z = 1 - cp.multiply(SIGNS[:, 0], X @ w + b)
    deviations = cp.multiply(np.sqrt(variance), np.ones((N, 1)) @ cp.reshape(w, (1, D), order="C"))
    root = cp.norm(cp.hstack([cp.reshape(z, (N, 1), order="C"), deviations]), 2, axis=1)
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + 0.5 * C * cp.sum(z + root)))
    problem.solve(solver=cp.CLARABEL)
    assert_allclose(model.objective_, problem.value, rtol=1e-6)


# ------------------------------------------------------------------------------------------- a design


class LowRank(interfaces.Design):
    """X = A B of low rank, never formed, with additive noise of variance κ on every feature."""

    noiseless = False

    def __init__(self, A, B, kappa):
        self.A, self.B, self.kappa = A, B, kappa
        (self.n, _), (_, self.d) = A.shape, B.shape
        self.nnz = A.size + B.size

    def apply(self, W):
        return self.A @ (self.B @ W)

    def line(self, W, P):
        ones = np.ones((self.n, 1))
        return self.apply(P), ones * self.kappa * dots(W, P), ones * self.kappa * dots(P, P)

    def pullback(self, W, dm, dv):
        return self.B.T @ (self.A.T @ dm) + 2 * self.kappa * W * dv.sum(axis=0)

    def diagonal(self, a):
        grams = [(self.A.T * each) @ self.A for each in a.T]
        squares = np.column_stack([np.einsum("rd,rs,sd->d", self.B, gram, self.B) for gram in grams])
        return squares, self.kappa * np.ones((self.d, 1)) * a.sum(axis=0)


@BOTH
def test_a_design_is_a_class_of_its_own(solver):
    """Against the library's own design of the same matrix, formed."""
    A, B = RNG.normal(size=(N, 2)), RNG.normal(size=(2, 30))
    results = []
    for design in LowRank(A, B, 0.04), make_design(A @ B, Gaussian(0.04)):
        objective = Objective.of(Ridge(), Shard(design, Hinge(), SIGNS, np.ones((N, 1))), True)
        results.append(solver.solve(objective, np.zeros((30, 1)), np.zeros(1), tol=1e-9, max_iter=500))
    assert_allclose(results[0].value, results[1].value, rtol=1e-9)
    assert_allclose(results[0].W, results[1].W, atol=1e-5)


def test_a_search_walks_over_joint_problems():
    """Every C of a grid, for two noises and two training sets in one batch, against fits of its own."""
    Y, noises, Cs = np.eye(3)[LABELS], [Dropout(0.1), Dropout(0.4)], np.array([0.01, 0.1, 1.0])
    rows = [np.arange(0, 50), np.arange(10, N)]
    trainings = [Training(np.arange(3), np.isin(np.arange(N), own)[:, None] * 1.0) for own in rows]
    targets = OneVsRest(np.arange(3), np.ones((3, 1)))
    problem = Problem(X, Y, targets, trainings, Pair(3), Ridge(), True, "auto", 1e-9, 500, True)
    seen = []
    walk(problem, Cs, noises, lambda parts, _: seen.extend(parts), n_jobs=None)
    assert len(seen) == 12
    for part in seen:
        assert part.value.shape == (1,)
        weights = Cs[part.C] * np.repeat(trainings[part.training].weights, 3, axis=1)
        shard = Shard(make_design(X, noises[part.noise]), Pair(3), Y, weights)
        start = np.zeros((D, 3)), np.zeros(3)
        alone = ncg.solve(Objective.of(Ridge(), shard, True), *start, tol=1e-9, max_iter=500)
        assert_allclose(part.value, alone.value, rtol=1e-7)
        assert_allclose(part.W, alone.W, atol=1e-3)
