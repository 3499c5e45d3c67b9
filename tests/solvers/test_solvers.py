"""Solvers against a conic solver, scikit-learn at zero noise, SciPy, enumeration of masks and one another.

Every problem here is small and random; its optimum comes from somewhere else. F is written
down a second time, from docs/mathematics.md, in plain NumPy (`Problem.value`) and in cvxpy (`Problem.conic`).
"""

from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import product

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from scipy.optimize import minimize
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, SVR, LinearSVC
from threadpoolctl import threadpool_limits

from marginout import blocks
from marginout._core.design.storage import make_design
from marginout.losses import EpsilonInsensitive, Hinge, SquaredHinge, logistic
from marginout.noise import Deletion, Dropout, Gaussian, Laplace, Poisson, Thinning
from marginout.solvers import SOLVERS, dual, irls, lbfgs, ncg, newton
from tests.paper import DropoutLogisticRegression, DropoutSVC, DropoutSVR
from tests.problems import EXPECTATIONS, in_shards, make_objective

TIGHT = {"tol": 1e-8, "max_iter": 5000}
ESTIMATORS = {"hinge": DropoutSVC, "epsilon": DropoutSVR, "logistic": DropoutLogisticRegression}
ESTIMATORS["squared"] = partial(DropoutSVC, loss="squared_hinge")
NOISES = {
    "dropout": lambda d, rng: Dropout(rng.uniform(0.05, 0.9)),
    "dropout-each": lambda d, rng: Dropout(rng.uniform(0, 0.9, d) * (np.arange(d) > 0)),
    "deletion": lambda d, rng: Deletion(rng.uniform(0.05, 0.9)),
    "deletion-each": lambda d, rng: Deletion(rng.uniform(0, 0.9, d)),
    "gaussian": lambda d, rng: Gaussian(rng.uniform(0.01, 2.0)),
    "gaussian-each": lambda d, rng: Gaussian(rng.uniform(0, 2.0, d)),
    "laplace": lambda d, rng: Laplace(rng.uniform(0.05, 1.0)),
    "laplace-each": lambda d, rng: Laplace(rng.uniform(0, 1.0, d)),
    "poisson": lambda d, rng: Poisson(),
    "thinning": lambda d, rng: Thinning(rng.uniform(0.05, 0.9, d)),
    "weak": lambda d, rng: Dropout(1e-3),
    "none": lambda d, rng: Dropout(0.0),
}


@dataclass
class Problem:
    """A random problem: data, noise, weights, C, a margin ℓ or width ε, with or without an offset."""

    loss: str
    noise_name: str
    fit_intercept: bool = True
    seed: int = 0
    expectation: str = "bound"
    shape: tuple[int, int] | None = None
    scale: np.ndarray | float = 1.0
    rng: np.random.Generator = field(init=False, repr=False)

    def __post_init__(self):
        rng = np.random.default_rng([self.seed, list(ESTIMATORS).index(self.loss), self.fit_intercept])
        n, d = self.shape or (int(rng.integers(8, 41)), int(rng.integers(2, 9)))
        self.X = rng.normal(size=(n, d))
        if self.noise_name == "poisson":
            self.X = np.abs(self.X) * rng.integers(0, 2, (n, d))
        if self.noise_name == "thinning":
            self.X = rng.poisson(1.5, (n, d)).astype(float)
        truth = rng.normal(size=d)
        score = self.X @ truth + 0.7 * rng.normal(size=n) + 0.5
        self.X = self.X * self.scale
        self.y = score if self.loss == "epsilon" else np.where(score > 0, 1.0, -1.0)
        if self.loss != "epsilon":
            self.y[:2] = -1.0, 1.0
        self.noise = NOISES[self.noise_name](d, rng)
        self.sample_weight = rng.gamma(2.0, 0.5, n)
        self.sample_weight[2] = 0.0
        self.C = float(10 ** rng.uniform(-1.5, 1.0))
        self.extra = {
            "hinge": {"margin": float(rng.uniform(0.3, 3.0))},
            "epsilon": {"epsilon": float(rng.choice([0.0, 0.1, 0.5]))},
            "logistic": {},
            "squared": {"margin": float(rng.uniform(0.3, 3.0))},
        }[self.loss]

    @cached_property
    def moments(self):
        """Means and variances of the corrupted data, dense."""
        return self.noise.mean(self.X), self.noise.var(self.X)

    def value(self, w, b):
        """F(w, b) of docs/mathematics.md."""
        M, V = self.moments
        loss = self.loss_value(M @ w + b, V @ (w * w))
        return 0.5 * w @ w + self.C * self.sample_weight @ loss

    def loss_value(self, m, v):
        """φ(m, v; y), written down once more."""
        if self.loss == "logistic":
            omega = np.sqrt(m * m + v)
            return np.logaddexp(0.5 * omega, -0.5 * omega) - 0.5 * self.y * m
        mean_abs = {"bound": lambda z: np.sqrt(z * z + v), "gaussian": lambda z: normal_abs(z, v)}
        expected = mean_abs[self.expectation]
        if self.loss == "squared":
            z = self.extra["margin"] - self.y * m
            return np.maximum(z, 0) ** 2 + v if self.expectation == "bound" else normal_square(z, v)
        if self.loss == "hinge":
            z = self.extra["margin"] - self.y * m
            return 0.5 * (z + expected(z))
        gap, epsilon = self.y - m, self.extra["epsilon"]
        return 0.5 * (expected(gap - epsilon) + expected(gap + epsilon)) - epsilon

    @cached_property
    def conic(self):
        """(optimal value, w, b) by cvxpy and Clarabel: norms are second-order cones."""
        M, V = self.moments
        w, b = cp.Variable(self.X.shape[1]), cp.Variable() if self.fit_intercept else 0.0
        m = M @ w + b
        deviations = cp.multiply(np.sqrt(V), np.ones((len(V), 1)) @ cp.reshape(w, (1, -1), order="C"))

        def radius(z):
            return cp.norm(cp.hstack([cp.reshape(z, (-1, 1), order="C"), deviations]), axis=1)

        constraints = []
        if self.loss == "hinge":
            z = self.extra["margin"] - cp.multiply(self.y, m)
            losses = 0.5 * (z + radius(z))
        elif self.loss == "squared":
            z = self.extra["margin"] - cp.multiply(self.y, m)
            losses = cp.square(cp.pos(z)) + V @ cp.square(w)
        elif self.loss == "epsilon":
            gap, epsilon = self.y - m, self.extra["epsilon"]
            losses = 0.5 * (radius(gap - epsilon) + radius(gap + epsilon)) - epsilon
        else:
            # log 2cosh(ω/2) = log(1 + e^ω) − ω/2 rises with ω ≥ 0: an upper bound on ω will do.
            omega = cp.Variable(len(V))
            constraints = [radius(m) <= omega]
            losses = cp.logistic(omega) - 0.5 * omega - 0.5 * cp.multiply(self.y, m)
        unit = max(1.0, 1.0 / self.C)  # Clarabel's tolerance is absolute, too: give F the size of 1
        goal = 0.5 * unit * cp.sum_squares(w) + unit * self.C * (self.sample_weight @ losses)
        program = cp.Problem(cp.Minimize(goal), constraints)
        program.solve(solver=cp.CLARABEL)  # to 1e-8, its default; it balks at less
        return program.value / unit, w.value, float(b.value) if self.fit_intercept else 0.0

    def estimator(self, **options):
        """The estimator of this problem, tight unless told otherwise."""
        return ESTIMATORS[self.loss](
            self.C,
            noise=self.noise,
            expectation=self.expectation,
            fit_intercept=self.fit_intercept,
            **{**self.extra, **TIGHT, **options},
        )

    def fit(self, sparse=False, **options):
        """The fitted estimator."""
        X = sp.csr_array(self.X) if sparse else self.X
        return self.estimator(**options).fit(X, self.y, sample_weight=self.sample_weight)

    def objective(self, shards=1):
        """The objective as the estimator would build it, for a direct call of a solver."""
        losses = {
            "hinge": lambda: Hinge(self.extra["margin"], self.expectation),
            "epsilon": lambda: EpsilonInsensitive(
                self.extra["epsilon"], self.expectation, scale=float(np.ptp(self.y))
            ),
            "logistic": lambda: logistic(self.expectation),
            "squared": lambda: SquaredHinge(self.extra["margin"], self.expectation),
        }
        weights, Y = (self.C * self.sample_weight)[:, None], self.y[:, None]
        return in_shards(shards, self.X, self.noise, losses[self.loss](), Y, weights, self.fit_intercept)

    def solve(self, solver, tol=1e-9, max_iter=5000, shards=1, **options):
        """The result of a direct call of a solver from zero."""
        W, b = np.zeros((self.X.shape[1], 1)), np.zeros(1)
        return solver(self.objective(shards), W, b, tol=tol, max_iter=max_iter, **options)


def normal_abs(z, v):
    """E|ζ| of ζ ~ N(z, v), v > 0."""
    s = np.sqrt(v)
    return z * (1 - 2 * norm.cdf(-z / s)) + 2 * s * norm.pdf(z / s)


def normal_square(z, v):
    """E max(0, ζ)² of ζ ~ N(z, v), v > 0."""
    s = np.sqrt(v)
    return (z * z + v) * norm.cdf(z / s) + z * s * norm.pdf(z / s)


@lru_cache
def problem(*args):
    """A problem, with its conic solution, built once for all tests that ask for it."""
    return Problem(*args)


ALL = list(product(ESTIMATORS, NOISES, [True, False]))
NOISY = [(loss, noise, offset) for loss, noise, offset in ALL if noise != "none"]
FEW = [case for case in NOISY if case[1] in ("dropout", "deletion-each", "gaussian", "poisson") and case[2]]
SHARDED = [case for case in NOISY if case[1] in ("dropout", "deletion-each", "gaussian", "poisson", "weak")]
each_problem = pytest.mark.parametrize(("loss", "noise", "offset"), ALL)


# ------------------------------------------------------------------------------------- the conic oracle


@each_problem
def test_optimum_is_the_conic_solvers(loss, noise, offset):
    """objective_ (tol=1e-8) against cvxpy + Clarabel's second-order cone programme, to a relative 1e-6."""
    p = problem(loss, noise, offset)
    optimum, w, b = p.conic
    model = p.fit()
    np.testing.assert_allclose(p.value(w, b), optimum, rtol=1e-6)
    np.testing.assert_allclose(model.objective_, optimum, rtol=1e-6)
    assert model.objective_ <= p.value(w, b) * (1 + 1e-8)
    np.testing.assert_allclose(np.ravel(model.coef_), w, atol=2e-3 * max(1.0, np.abs(w).max()))


@each_problem
def test_objective_is_f_at_the_solution(loss, noise, offset):
    """objective_ against F of docs/mathematics.md at (coef_, intercept_), and against its own history."""
    p = problem(loss, noise, offset)
    model = p.fit()
    np.testing.assert_allclose(
        model.objective_, p.value(np.ravel(model.coef_), model.intercept_[0]), rtol=1e-9
    )
    assert model.objective_history_[-1] == model.objective_
    assert offset or model.intercept_[0] == 0.0


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("loss", "noise", "offset"), NOISY)
def test_every_solver_reaches_the_conic_optimum(loss, noise, offset, solver):
    """irls, lbfgs and ncg, on sparse data, against Clarabel, to a relative 1e-6."""
    p = problem(loss, noise, offset)
    model = p.fit(sparse=True, solver=solver)
    np.testing.assert_allclose(model.objective_, p.conic[0], rtol=1e-6)


@pytest.mark.parametrize("m_step", ["cholesky", "woodbury", "cg"])
@pytest.mark.parametrize(("loss", "noise", "offset"), NOISY[::2] + NOISY[1::6])
def test_every_m_step_reaches_the_conic_optimum(loss, noise, offset, m_step):
    """The three forms of IRLS's M-step against Clarabel, to a relative 1e-6."""
    p = problem(loss, noise, offset)
    result = p.solve(irls.solve, m_step=m_step)
    assert result.converged.all()
    np.testing.assert_allclose(result.value[0], p.conic[0], rtol=1e-6)


# ---------------------------------------------------------------------------------------------- shards


@pytest.mark.parametrize("solver", [ncg, lbfgs], ids=["ncg", "lbfgs"])
@pytest.mark.parametrize("expectation", EXPECTATIONS)
@pytest.mark.parametrize(("loss", "noise", "offset"), SHARDED)
def test_three_shards_have_the_optimum_of_one(loss, noise, offset, expectation, solver):
    """ncg and lbfgs on examples in one shard in memory, and on the same in three that an executor adds up."""
    p = Problem(loss, noise, offset, expectation=expectation)
    one, three = (p.solve(solver.solve, shards=count) for count in (1, 3))
    assert p.objective(shards=3).rows is None  # no shard holds all examples
    for result in (one, three):  # lbfgs may stall before its estimate is small, where rounding hides descent
        assert result.converged.all() or result.gap[0] <= 1e-12 * result.value[0]
    np.testing.assert_allclose(three.value, one.value, rtol=1e-8)
    far = np.sqrt(2 * one.gap[0]) + np.sqrt(2 * three.gap[0])  # ‖Δw‖ ≤ √(2·gap) for each
    assert np.linalg.norm(three.W - one.W) <= far
    np.testing.assert_allclose(p.objective().point(three.W, three.b).value, one.value, rtol=1e-8)


# ------------------------------------------------------------------------------- the normal expectation


def normal_reference(p):
    """The minimum of F for normal scores, by SciPy's BFGS on formulas in the deviation s = √v."""
    M, V = p.moments
    nodes = np.linspace(-9, 9, 1201)
    masses = norm.pdf(nodes) * (nodes[1] - nodes[0])

    def loss(m, s):
        """φ, ∂φ/∂m and ∂φ/∂s."""
        if p.loss == "logistic":
            scores = m[:, None] + s[:, None] * nodes
            slopes = -p.y[:, None] / (1 + np.exp(p.y[:, None] * scores))
            values = np.logaddexp(0, -p.y[:, None] * scores)
            return values @ masses, slopes @ masses, (slopes * nodes) @ masses
        if p.loss == "hinge":
            z = p.extra["margin"] - p.y * m
            return z * norm.cdf(z / s) + s * norm.pdf(z / s), -p.y * norm.cdf(z / s), norm.pdf(z / s)
        if p.loss == "squared":
            z = p.extra["margin"] - p.y * m
            slope = 2 * (z * norm.cdf(z / s) + s * norm.pdf(z / s))
            return normal_square(z, s * s), -p.y * slope, 2 * s * norm.cdf(z / s)
        over, under = p.y - m - p.extra["epsilon"], m - p.y - p.extra["epsilon"]
        value = sum(z * norm.cdf(z / s) + s * norm.pdf(z / s) for z in (over, under))
        return value, norm.cdf(under / s) - norm.cdf(over / s), norm.pdf(over / s) + norm.pdf(under / s)

    def f(wb):
        w, b = wb[:-1], wb[-1] * p.fit_intercept
        s = np.sqrt(V @ (w * w) + 1e-18)
        value, dm, ds = (p.C * p.sample_weight * part for part in loss(M @ w + b, s))
        gradient = w + M.T @ dm + w * (V.T @ (ds / s))
        return 0.5 * w @ w + value.sum(), np.append(gradient, dm.sum() * p.fit_intercept)

    start = np.append(0.1 * np.ones(M.shape[1]), 0.0)
    return minimize(f, start, jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 2000}).fun


@pytest.mark.parametrize(("loss", "noise", "offset"), [case for case in NOISY if case[1] != "weak"][::2])
def test_normal_expectation_reaches_the_minimum(loss, noise, offset):
    """irls, lbfgs and ncg with expectation="gaussian" against SciPy on a function of its own, to 1e-7."""
    p = Problem(loss, noise, offset, expectation="gaussian")
    wanted = normal_reference(p)
    for solver in SOLVERS:
        model = p.fit(solver=solver)
        np.testing.assert_allclose(model.objective_, wanted, rtol=1e-7, err_msg=solver)


# ------------------------------------------------------------------------------------------ promises


@pytest.mark.parametrize("expectation", EXPECTATIONS)
@pytest.mark.parametrize("m_step", ["cholesky", "woodbury", "cg"])
@pytest.mark.parametrize(("loss", "noise", "offset"), NOISY[::3])
def test_irls_never_goes_up(loss, noise, offset, m_step, expectation):
    """F after every iteration of a majorise-minimise method, with 1e-12 for rounding."""
    p = Problem(loss, noise, offset, seed=1, expectation=expectation)
    history = np.array(p.solve(irls.solve, m_step=m_step, max_iter=200).history)
    assert history[0] <= p.objective().point(np.zeros((p.X.shape[1], 1)), np.zeros(1)).value[0] * (1 + 1e-12)
    assert np.all(np.diff(history) <= 1e-12 * history[:-1])


@pytest.mark.parametrize("stop", [{"tol": 1.0}, {"tol": 1e-2}, {"max_iter": 1}, {"max_iter": 3}], ids=repr)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("loss", "noise", "offset"), ALL[::2] + ALL[1::8])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_optimality_gap_is_a_certificate(loss, noise, offset, solver, stop):
    """optimality_gap_ ≥ objective_ − F at the conic solution, wherever a fit stops, however early."""
    p = problem(loss, noise, offset)
    above_the_minimum = p.value(*p.conic[1:])
    model = p.fit(solver=solver, **stop)
    assert model.optimality_gap_ >= model.objective_ - above_the_minimum - 1e-9 * model.objective_


@pytest.mark.parametrize("tol", [1e-3, 1e-5])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("loss", "noise", "offset"), NOISY)
def test_tolerance_is_kept(loss, noise, offset, solver, tol):
    """Within tol of the minimum, relatively: tol/10 is estimated, and the estimate may err tenfold."""
    p = problem(loss, noise, offset)
    model = p.fit(solver=solver, tol=tol)
    assert model.objective_ <= p.conic[0] * (1 + tol + 1e-7)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("loss", "noise", "offset"), FEW)
def test_a_solution_is_where_a_fit_ends(loss, noise, offset, solver):
    """Started from the optimum a solver stays there; n_iter_ counts what the history holds."""
    p = problem(loss, noise, offset)
    model = p.fit(solver=solver, warm_start=True)
    assert len(model.objective_history_) == model.n_iter_ <= model.max_iter
    first = model.objective_
    model.fit(p.X, p.y, sample_weight=p.sample_weight)
    assert model.n_iter_ <= 2
    assert model.objective_ <= first * (1 + 1e-12)


@pytest.mark.parametrize("solver", [*SOLVERS.values(), newton.solve, dual.solve])
@pytest.mark.parametrize("loss", ["hinge", "epsilon"])
def test_a_solver_repeats_its_bits(loss, solver):
    """The same call twice: the same weights, offset and history, to the last bit."""
    p = Problem(loss, "none" if solver in (newton.solve, dual.solve) else "dropout", seed=6)
    first, second = (p.solve(solver, tol=1e-6) for _ in range(2))
    np.testing.assert_array_equal(first.W, second.W)
    np.testing.assert_array_equal(first.b, second.b)
    assert first.history == second.history


@pytest.mark.parametrize("solver", SOLVERS.values())
def test_a_monitor_sees_every_iteration_and_may_stop(solver):
    """It is told F and the current solution, whose F is that; a true answer ends the fit."""
    p = Problem("hinge", "dropout", seed=7)
    seen = []

    def monitor(iteration, value, left, solution):
        W, b = solution()
        seen.append((iteration, value, p.value(W[:, 0], b[0])))
        return iteration == 3

    result = p.solve(solver, monitor=monitor)
    iterations, values, again = np.transpose(seen)
    np.testing.assert_array_equal(iterations, [1, 2, 3])
    assert result.n_iter == 3
    assert result.value[0] <= values[-1] * (1 + 1e-12)  # the offset is settled at the end
    if solver is newton.solve:  # it tells F with its kink smoothed, an upper bound
        assert (again <= values).all()
        values = again
    np.testing.assert_allclose(values, again, rtol=1e-9)
    np.testing.assert_allclose(result.value[0], values[-1], rtol=1e-6)


@pytest.mark.parametrize("kind", ["dropout-each", "deletion-each"])
@pytest.mark.parametrize("loss", ESTIMATORS)
def test_bound_lies_above_the_loss_over_all_masks(loss, kind):
    """objective_ ≥ ½‖w‖² + C Σ s·E loss at the fitted model, E by enumeration of all 2^D masks."""
    p = Problem(loss, kind, seed=3, shape=(30, 8))
    model = p.fit()
    w, b = np.ravel(model.coef_), model.intercept_[0]
    rate = p.noise.rate
    masks = np.array(list(product([0.0, 1.0], repeat=8)))
    probability = np.prod(np.where(masks, 1 - rate, rate), axis=1)
    survivors = 1 / (1 - rate) if kind.startswith("dropout") else np.ones(8)
    scores = (p.X * survivors * w) @ masks.T + b
    plain = {
        "hinge": lambda: np.maximum(0, p.extra["margin"] - p.y[:, None] * scores),
        "epsilon": lambda: np.maximum(0, np.abs(p.y[:, None] - scores) - p.extra["epsilon"]),
        "logistic": lambda: np.logaddexp(0, -p.y[:, None] * scores),
        "squared": lambda: np.maximum(0, p.extra["margin"] - p.y[:, None] * scores) ** 2,
    }[loss]()
    expected = 0.5 * w @ w + p.C * p.sample_weight @ (plain @ probability)
    assert expected < model.objective_
    assert model.objective_ < 2 * expected


@pytest.mark.parametrize("solver", [*SOLVERS, "auto"])
@pytest.mark.parametrize("loss", ESTIMATORS)
@pytest.mark.parametrize("noise", ["dropout", "none"])
def test_stopping_early_warns(loss, noise, solver):
    """max_iter=1 at a tight tol: the warning names max_iter and says how far F is from its minimum."""
    p = problem(loss, noise, True, 2)  # where no loss is its own quadratic model
    if solver in ("newton", "auto") and noise == "dropout" and loss in ("logistic", "squared"):
        model = p.fit(solver=solver, max_iter=1)  # two steps are enough, and the certificate says so
        assert model.optimality_gap_ <= model.tol * model.objective_
        return
    with pytest.warns(ConvergenceWarning, match=r"max_iter=1\b.*within .* of its minimum"):
        model = p.fit(solver=solver, max_iter=1)
    assert model.n_iter_ == 1


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("expectation", EXPECTATIONS)
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_a_batch_is_its_problems_one_by_one(loss, expectation, solver):
    """Ten one-vs-rest problems in one batch against ten fits of two classes each."""
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(80, 6)), rng.integers(0, 10, 80)
    options = {**TIGHT, "noise": 0.3, "expectation": expectation, "solver": solver}
    batch = ESTIMATORS[loss](**options).fit(X, labels)
    single = [ESTIMATORS[loss](**options).fit(X, labels == k) for k in range(10)]
    np.testing.assert_allclose(batch.objective_, sum(model.objective_ for model in single), rtol=1e-8)
    np.testing.assert_allclose(batch.coef_, np.vstack([model.coef_ for model in single]), atol=1e-3)


# ------------------------------------------------------------------------------------------ zero noise


def sklearn_optimum(p):
    """scikit-learn's solution of the plain problem, and F there."""
    options = {"C": p.C, "kernel": "linear", "tol": 1e-9, "cache_size": 50}
    if p.loss == "logistic":
        model = LogisticRegression(C=p.C, solver="newton-cholesky", tol=1e-12, fit_intercept=p.fit_intercept)
        scale = 1.0
    elif p.loss == "squared":
        # liblinear regularises the offset, here by 1e-8 of it.
        scale = p.extra["margin"]
        model = LinearSVC(C=p.C, dual=False, tol=1e-10, intercept_scaling=1e4, max_iter=10_000)
    elif p.loss == "hinge":
        # libsvm's margin is 1: a margin ℓ is a C of C/ℓ and weights of 1/ℓ.
        scale = p.extra["margin"]
        model = SVC(**{**options, "C": p.C / scale})
    else:
        model, scale = SVR(epsilon=p.extra["epsilon"], **options), 1.0
    model.fit(p.X, p.y, sample_weight=p.sample_weight)
    return p.value(scale * np.ravel(model.coef_), scale * float(np.ravel(model.intercept_)[0]))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("loss", ESTIMATORS)
def test_zero_noise_is_scikit_learn(loss, seed):
    """F at SVC's, SVR's and LogisticRegression's solution against objective_, to a relative 1e-6."""
    p = Problem(loss, "none", seed=seed)
    np.testing.assert_allclose(p.fit().objective_, sklearn_optimum(p), rtol=1e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("solver", [newton.solve, dual.solve], ids=["newton", "dual"])
@pytest.mark.parametrize("loss", ["hinge", "epsilon", "squared"])
def test_both_zero_noise_solvers_reach_the_optimum(loss, solver, offset, seed):
    """newton and dual, called directly, against the conic optimum, to 1e-6, by their own gap too."""
    p = problem(loss, "none", offset, seed)
    result = p.solve(solver, tol=1e-7, max_iter=100_000)
    assert result.converged.all()
    np.testing.assert_allclose(result.value[0], p.conic[0], rtol=1e-6)
    assert result.gap[0] <= 1e-6 * result.value[0]
    np.testing.assert_allclose(result.value[0], p.value(result.W[:, 0], result.b[0]), rtol=1e-8)


@pytest.mark.parametrize(("shift", "tol"), [(1e4, 1e-6), (1e5, 1e-3)])
@pytest.mark.parametrize("loss", ESTIMATORS)
def test_zero_noise_does_not_mind_a_large_mean(loss, shift, tol):
    """F is that of centred features, to 1e-6, in memory and on blocks: the offset follows the weights."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 10))
    y = X @ rng.normal(size=10) + 1.5 * rng.normal(size=300)
    if loss != "epsilon":
        y = (y > 0).astype(int)
    model = ESTIMATORS[loss](noise=0.0, tol=tol)
    centred, there = clone(model).fit(X, y), clone(model).fit(X + shift, y)
    np.testing.assert_allclose(there.objective_, centred.objective_, rtol=1e-6)
    assert there.optimality_gap_ <= tol * there.objective_
    assert there.n_iter_ <= 100
    parts = [(X[:100] + shift, y[:100]), (X[100:] + shift, y[100:])]
    cut = blocks.fit(clone(model), parts, storage="memory")
    np.testing.assert_allclose(cut.objective_, centred.objective_, rtol=1e-6)
    assert cut.n_iter_ < 100


def test_newton_does_not_call_it_solved_after_a_number_of_steps(monkeypatch):
    """A line search that hardly moves: every stage takes all of its steps, and there is a warning."""

    def creep(line, precision):
        t = np.full(line.objective.K, 1e-3)
        delta = np.zeros_like(t)
        slope = line.expand(t, delta)
        return line.move(t, delta, slope.value, delta)

    monkeypatch.setattr(newton, "compiled", lambda objective: False)
    monkeypatch.setattr(newton, "minimize_line", creep)
    for loss in ESTIMATORS:
        with pytest.warns(ConvergenceWarning, match="within .* of its minimum"):
            Problem(loss, "none", seed=1).fit(tol=1e-6, max_iter=1000)


@pytest.mark.parametrize("loss", ["hinge", "epsilon", "squared"])
def test_dual_solves_sparse_dense_and_strided_data_alike(loss):
    """The same sweeps, bit for bit up to rounding, over CSR, C, Fortran and strided rows."""
    p = Problem(loss, "none", seed=2, shape=(40, 6))
    optimum = p.conic[0]
    wide = np.zeros((80, 12))
    wide[::2, ::2] = p.X
    for X in (sp.csr_array(p.X), np.asfortranarray(p.X), wide[::2, ::2]):
        for dtype in (np.float64, np.float32):
            p.X = X.astype(dtype) if dtype is np.float32 else X
            result = p.solve(dual.solve, tol=1e-6, max_iter=100_000)
            np.testing.assert_allclose(result.value[0], optimum, rtol=2e-6)


# --------------------------------------------------------------------------------------- hard corners


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("noise", ["dropout", "gaussian", "none"])
@pytest.mark.parametrize("loss", ESTIMATORS)
def test_badly_scaled_features_converge(loss, noise, solver):
    """Features from 1e-6 to 1e6, default tol and max_iter: no warning, and tol from the conic optimum."""
    p = Problem(loss, noise, seed=4, shape=(40, 7), scale=10.0 ** np.arange(-6, 7, 2))
    model = p.fit(solver=solver, tol=1e-3, max_iter=1000)
    best = min(p.value(*p.conic[1:]), p.fit(tol=1e-7).objective_)
    assert model.objective_ <= best * (1 + model.tol)


@pytest.mark.parametrize("C", [1e-6, 1e6])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", ESTIMATORS)
def test_extreme_ridge(loss, solver, C):
    """C from 1e-6 to 1e6 against Clarabel."""
    p = Problem(loss, "dropout", seed=5, shape=(30, 5))
    p.C = C
    model = p.fit(solver=solver, tol=1e-6)
    np.testing.assert_allclose(model.objective_, p.conic[0], rtol=1e-6)


def test_newton_does_not_depend_on_the_threads_of_blas():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 150))
    Y = np.where(X[:, :1] + rng.normal(size=(600, 1)) > 0, 1.0, -1.0)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            F = make_objective(make_design(X, Dropout(0.0)), Hinge(1.0), Y, np.ones((600, 1)), True)
            found.append(newton.solve(F, np.zeros((150, 1)), np.zeros(1), **TIGHT))
    assert_array_equal(found[0].W, found[1].W)
