"""Losses against mpmath, quadrature, enumeration of masks, and the inequalities that they promise."""

from itertools import pairwise, product

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from marginout import losses
from marginout._kernels import _expansions
from marginout.losses import (
    EpsilonInsensitive,
    Hinge,
    Logistic,
    LogisticGaussian,
    Loss,
    Pinball,
    Plane,
    Quadratic,
    SquaredHinge,
)
from marginout.noise import Deletion, Dropout

SCORES = np.array([-1e6, -300.0, -30.0, -3.0, -1.0, -0.2, -1e-8, 0.0, 1e-3, 0.5, 1.0, 2.5, 12.0, 80.0, 1e6])
VARIANCES = np.array([0.0, 1e-300, 1e-40, 1e-12, 1e-6, 1e-3, 0.1, 1.0, 7.0, 300.0, 1e5, 1e9, 1e12])
GRID = np.array(list(product(SCORES, VARIANCES)))

CLASSIFICATION = [
    Hinge(),
    Hinge(margin=2.5),
    Hinge(expectation="gaussian"),
    Hinge(margin=0.3, expectation="gaussian"),
    SquaredHinge(),
    SquaredHinge(margin=2.5),
    SquaredHinge(expectation="gaussian"),
    SquaredHinge(margin=0.3, expectation="gaussian"),
    Logistic(),
    LogisticGaussian(),
]
REGRESSION = [
    EpsilonInsensitive(0.1),
    EpsilonInsensitive(0.0),
    EpsilonInsensitive(1.0, expectation="gaussian"),
    EpsilonInsensitive(0.0, expectation="gaussian"),
    Pinball(0.2),
    Pinball(0.9, "gaussian"),
    Quadratic(),
]
CASES = [(loss, y) for loss in CLASSIFICATION for y in (-1.0, 1.0)]
CASES += [(loss, y) for loss in REGRESSION for y in (-0.75, 2.0)]


def gaussian(loss):
    """Whether a loss is the expectation of a normal score."""
    names = ("hinge", "tube", "logistic", "squared", "pinball")
    return loss.kernel is not None and any(loss.kernel.computes(name, "gaussian") for name in names)


def label(value):
    """A readable test name."""
    if not isinstance(value, losses.Loss):
        return None
    number = getattr(value, "margin", getattr(value, "epsilon", getattr(value, "quantiles", "")))
    return f"{type(value).__name__}{number}{'-gaussian' * gaussian(value)}"


CLOSED = [case for case in CASES if not isinstance(case[0], LogisticGaussian)]
INTEGRALS = [case for case in CASES if gaussian(case[0])]
cases = pytest.mark.parametrize(("loss", "y"), CASES, ids=label)


def jet(loss, m, v, y):
    """The jet at points given as plain numbers or arrays, asked for as solvers do: in one column."""
    m, v = np.broadcast_arrays(np.asarray(m, float), np.asarray(v, float))
    columns = (np.array(a).reshape(-1, 1) for a in (m, v, np.full(m.shape, float(y))))
    result = loss.jet(*columns)
    assert all(np.isfinite(part).all() and part.shape == (m.size, 1) for part in result)
    return losses.Jet(*(part.reshape(m.shape) for part in result))


def plain(loss, m, y):
    """The loss without noise."""
    if isinstance(loss, Hinge):
        return np.maximum(0.0, loss.margin - y * m)
    if isinstance(loss, SquaredHinge):
        return np.maximum(0.0, loss.margin - y * m) ** 2
    if isinstance(loss, EpsilonInsensitive):
        return np.maximum(0.0, np.abs(y - m) - loss.epsilon)
    if isinstance(loss, Pinball):
        (quantile,) = loss.quantiles
        return np.maximum(quantile * (y - m), (quantile - 1) * (y - m))
    if isinstance(loss, Quadratic):
        return 0.5 * (y - m) ** 2
    return np.logaddexp(0.0, -y * m)


def exact(loss, m, v, y):
    """φ(m, v; y) as docs/mathematics.md prints it, in mpmath's arithmetic."""
    if isinstance(loss, Hinge):
        z = loss.margin - y * m
        return (z + mean_abs(loss, z, v)) / 2
    if isinstance(loss, SquaredHinge):
        return mean_square(loss, loss.margin - y * m, v)
    if isinstance(loss, EpsilonInsensitive):
        low, high = y - m - loss.epsilon, y - m + loss.epsilon
        return (mean_abs(loss, low, v) + mean_abs(loss, high, v)) / 2 - loss.epsilon
    if isinstance(loss, Pinball):
        return mean_abs(loss, y - m, v) / 2 + (mp.mpf(float(loss.quantiles[0])) - 0.5) * (y - m)
    if isinstance(loss, Logistic):
        return mp.log(2 * mp.cosh(mp.sqrt(m * m + v) / 2)) - y * m / 2
    return ((y - m) ** 2 + v) / 2


def mean_abs(loss, z, v):
    """√(z² + v), or E|ζ| of a normal ζ, in mpmath's arithmetic."""
    if not gaussian(loss):
        return mp.sqrt(z * z + v)
    if v == 0 or z * z > 1500 * v:
        return abs(z)  # the rest is below exp(-750)
    s = mp.sqrt(v)
    return z * mp.erf(z / s / mp.sqrt(2)) + 2 * s * mp.npdf(z / s)


def mean_square(loss, z, v):
    """max(0, z)² + v, or E max(0, ζ)² of a normal ζ, in mpmath's arithmetic."""
    if not gaussian(loss):
        return max(z, 0) ** 2 + v
    if v == 0 or z * z > 1500 * v:
        return z * z + v if z > 0 else mp.mpf(0)
    s = mp.sqrt(v)
    return (z * z + v) * mp.ncdf(z / s) + z * s * mp.npdf(z / s)


# ---------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(("loss", "y"), CLOSED, ids=label)
def test_value_is_the_formula_at_high_precision(loss, y):
    """value against 400 or more digits of mpmath, to a relative 1e-12 even where everything cancels."""
    grid = GRID[:: 2 if gaussian(loss) else 1]
    with mp.workdps(400 if gaussian(loss) else 700):
        wanted = [float(exact(loss, mp.mpf(m), mp.mpf(v), mp.mpf(y))) for m, v in grid]
    got = jet(loss, *grid.T, y).value
    # Below √LEAST_RADIUS nothing is promised: a variance of 1e-300 may count as none.
    # Far beyond the kink the squared hinge is a difference: its relative error grows with z²/v, here to 300.
    accuracy = 1e-14 * 300 if isinstance(loss, SquaredHinge) and gaussian(loss) else 1e-12
    np.testing.assert_allclose(got, wanted, rtol=accuracy, atol=1e-99 if epsilon_free(loss) else 1e-15)
    np.testing.assert_allclose(loss.value(*grid.T, np.full(len(grid), y)), got, rtol=1e-14)


def epsilon_free(loss):
    """Whether the arguments of the absolute values are exact on the grid."""
    return not isinstance(loss, EpsilonInsensitive) or loss.epsilon in (0.0, 1.0)


def normal_mean(function, m, s, kinks):
    """E function(m + s·ξ), ξ ~ N(0, 1), by adaptive quadrature between the kinks."""
    edges = sorted({-38.0, -6.0, -2.0, 0.0, 2.0, 6.0, 38.0, *np.clip((np.asarray(kinks) - m) / s, -38, 38)})
    return sum(
        integrate.quad(
            lambda x: function(m + s * x) * np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi),
            *edge,
            epsabs=1e-13,
            epsrel=1e-12,
            limit=200,
        )[0]
        for edge in pairwise(edges)
    )


@pytest.mark.parametrize(("loss", "y"), INTEGRALS, ids=label)
def test_gaussian_value_is_an_integral(loss, y):
    """value against quadrature of the plain loss times the normal density, to 1e-8 and better."""
    points = np.array(
        list(product([-300.0, -8.0, -1.3, 0.0, 0.4, 3.0, 40.0], [1e-8, 1e-2, 0.5, 9.0, 1e3, 1e6]))
    )
    kinks = {
        Hinge: lambda: [loss.margin * y],
        SquaredHinge: lambda: [loss.margin * y],
        EpsilonInsensitive: lambda: [y - loss.epsilon, y + loss.epsilon],
        Pinball: lambda: [y],
        LogisticGaussian: lambda: [-40.0, -5.0, 0.0, 5.0, 40.0],
    }[type(loss)]()
    wanted = [normal_mean(lambda s: plain(loss, s, y), m, np.sqrt(v), kinks) for m, v in points]
    np.testing.assert_allclose(jet(loss, *points.T, y).value, wanted, rtol=1e-9, atol=2e-10)


@pytest.mark.parametrize(
    ("m", "v"), [(0.0, 1e-12), (1.5, 0.3), (-4.0, 25.0), (60.0, 1e3), (5.0, 1e12), (-1e6, 1e12), (12.0, 0.0)]
)
def test_logistic_gaussian_is_accurate_in_every_derivative(m, v):
    """All six parts against mpmath: φ_v = ½E f'', φ_mv = ½E f''', φ_vv = ¼E f'''' of f = log(1 + e^-s)."""
    expected = [softplus_mean(mp.mpf(-m), mp.mpf(v), order) for order in range(5)]
    wanted = [expected[0], -expected[1], expected[2] / 2, expected[2], -expected[3] / 2, expected[4] / 4]
    got = jet(LogisticGaussian(), [m], [v], 1.0)
    np.testing.assert_allclose(np.ravel(got), np.array(wanted, float), rtol=1e-9, atol=5e-9)


def softplus_mean(z, v, order):
    """E of a derivative of log(1 + e^ζ), ζ ~ N(z, v): the kinked part in closed form, the rest integrated."""
    s = mp.sqrt(v)
    sigmoid = lambda u: 1 / (1 + mp.exp(-u))  # noqa: E731
    slope = lambda u: sigmoid(u) * sigmoid(-u)  # noqa: E731
    smooth = [
        lambda u: mp.log1p(mp.exp(-abs(u))),
        lambda u: -mp.sign(u) * sigmoid(-abs(u)),
        slope,
        lambda u: slope(u) * (1 - 2 * sigmoid(u)),
        lambda u: slope(u) * (1 - 6 * slope(u)),
    ][order]
    if v == 0:
        return smooth(z) + [max(z, 0), mp.mpf(z > 0), 0, 0, 0][order]
    kinked = [lambda: z * mp.ncdf(z / s) + s * mp.npdf(z / s), lambda: mp.ncdf(z / s)]
    edges = sorted(
        [e for e in (-60, -20, -6, -2, 2, 6, 20, 60) if abs(e - z) < 12 * s or s > 1] + [mp.mpf(0)]
    )
    edges = sorted({*edges, *[z + s * j for j in (-12, -5, -2, 0, 2, 5, 12) if abs(z + s * j) < 60]})
    integral = mp.quad(lambda u: smooth(u) * mp.npdf((u - z) / s) / s, edges)
    return integral + (kinked[order]() if order < 2 else 0)


@cases
def test_value_without_variance_is_the_plain_loss(loss, y):
    """v = 0, and the limit v → 0 with an error of the order of √v."""
    m = np.concatenate([SCORES, np.linspace(-4, 4, 41)])
    accuracy = 2e-10 if isinstance(loss, LogisticGaussian) else 1e-14
    wanted = plain(loss, m, y)
    for v in (0.0, 1e-300, 1e-30):
        np.testing.assert_allclose(jet(loss, m, v, y).value, wanted, rtol=accuracy, atol=accuracy)
    np.testing.assert_allclose(jet(loss, m, 1e-12, y).value, wanted, rtol=1e-6, atol=1e-6)


# ----------------------------------------------------------------------------------- derivatives


@pytest.mark.parametrize(("loss", "y"), CLOSED, ids=label)
def test_derivatives_are_those_of_the_formula(loss, y):
    """The five derivatives against differences taken with 80 or more digits, in units of the local scale."""
    points = [(m, v) for m, v in GRID if v >= 1e-40 and abs(m) <= 1e3]
    if gaussian(loss):
        points = [(m, v) for m, v in points[::3] if v >= 1e-12]
    elif isinstance(loss, SquaredHinge):  # without a second derivative at z = 0
        points = [(m, v) for m, v in points if loss.margin != y * m]
    got = jet(loss, *np.transpose(points), y)
    with mp.workdps(
        150 if isinstance(loss, (Hinge, EpsilonInsensitive, Pinball)) and not gaussian(loss) else 80
    ):
        wanted = np.array([derivatives(loss, mp.mpf(m), mp.mpf(v), mp.mpf(y)) for m, v in points])
    # φ_m, φ_mm and φ_vv are differences of numbers of the size of 1, of φ_v and of φ_v/v.
    dv, v = wanted[:, 1], np.transpose(points)[1]
    slack = dict(zip(losses.Jet._fields[1:], (1.0, 0.0, 4 * dv, 0.0, dv / v), strict=True))
    for name, column in zip(slack, wanted.T, strict=True):
        error = np.abs(getattr(got, name) - column)
        assert np.all(error <= 1e-11 * np.abs(column) + 1e-15 * slack[name] + 1e-40), name


def derivatives(loss, m, v, y):
    """(φ_m, φ_v, φ_mm, φ_mv, φ_vv) by mpmath's differences in variables scaled to the kink's width."""
    z = [loss.margin - y * m] if isinstance(loss, (Hinge, SquaredHinge)) else [y - m]
    if isinstance(loss, EpsilonInsensitive):
        z = [y - m - loss.epsilon, y - m + loss.epsilon]
    width = mp.sqrt(v) if gaussian(loss) else min(mp.sqrt(u * u + v) for u in z)
    width = mp.mpf(1) if isinstance(loss, (Logistic, Quadratic)) else width
    height = v if isinstance(loss, (Hinge, SquaredHinge, EpsilonInsensitive, Pinball)) else max(v, mp.mpf(1))
    scaled = lambda a, b: exact(loss, m + width * a, v + height * b, y)  # noqa: E731
    orders = [(1, 0), (0, 1), (2, 0), (1, 1), (0, 2)]
    return [
        float(mp.diff(scaled, (0, 0), order) / (width ** order[0] * height ** order[1])) for order in orders
    ]


@cases
def test_derivatives_are_differences_of_the_jet_itself(loss, y):
    """Each derivative against a central difference, of fourth order, of the part below it."""
    m, v = (a.ravel() for a in np.meshgrid(np.linspace(-4.3, 4.1, 13), [0.05, 0.4, 1.0, 6.0, 50.0]))
    got = jet(loss, m, v, y)
    along_m = difference(lambda h: jet(loss, m + h, v, y), 1e-3 * np.sqrt(v))
    along_v = difference(lambda h: jet(loss, m, v + h, y), 1e-3 * v)
    for name, wanted in {
        "dm": along_m.value,
        "dv": along_v.value,
        "dmm": along_m.dm,
        "dmv": along_m.dv,
        "dvv": along_v.dv,
    }.items():
        np.testing.assert_allclose(getattr(got, name), wanted, rtol=2e-8, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(got.dmv, along_v.dm, rtol=2e-8, atol=1e-9)


def difference(function, h):
    """d/dh at 0 of a jet, by five points."""
    weights = {1: 2 / 3, -1: -2 / 3, 2: -1 / 12, -2: 1 / 12}
    parts = [[c * part / h for part in function(k * h)] for k, c in weights.items()]
    return losses.Jet(*(sum(column) for column in zip(*parts, strict=True)))


@cases
def test_the_loss_is_convex_and_rises_with_the_variance(loss, y):
    """φ_v ≥ 0, φ_mm ≥ 0, and the Hessian in (m, √v) is positive semi-definite, up to rounding."""
    m, v = GRID[GRID[:, 1] >= 1e-40].T
    _, _, dv, dmm, dmv, dvv = jet(loss, m, v, y)
    assert np.all(dv >= 0)
    rounding = 1e-14 * (dv + np.abs(dmm))
    assert np.all(dmm >= -rounding)
    s = np.sqrt(v)
    dms, dss = 2 * s * dmv, 2 * dv + 4 * v * dvv
    rounding = 1e-14 * (dv + v * np.abs(dvv))
    assert np.all(dss >= -rounding)
    lowest = 0.5 * (dmm + dss) - np.hypot(0.5 * (dmm - dss), dms)
    assert np.all(lowest >= -1e-13 * (np.abs(dmm) + np.abs(dms) + dv + v * np.abs(dvv)))


@cases
def test_extremes_are_finite_and_silent(loss, y):
    """Scores to ±1e6, variances to 1e12 and to nothing, at the kink too: no NaN, inf or warning."""
    kink = np.array([1.0, 2.5, 0.3, -0.75, 2.0, y + 0.1, y - 0.1, y + 1.0, y - 1.0, -1.0])
    m, v = (a.ravel() for a in np.meshgrid(np.concatenate([SCORES, kink, [1e-200, -1e-160]]), VARIANCES))
    with np.errstate(all="raise", under="ignore"):
        jet(loss, m, v, y)
        gamma = loss.majorizer(m, v, np.full_like(m, y))
    assert np.all(np.isfinite(gamma))
    assert np.all(gamma >= 0)


@pytest.mark.parametrize("loss", [*CLASSIFICATION, *REGRESSION], ids=label)
def test_jets_take_any_shape_and_memory_order(loss):
    """(n, K) arrays, in C, Fortran and strided order, read-only, against their columns one by one."""
    rng = np.random.default_rng(0)
    given = rng.normal(size=(7, 3)), rng.random((7, 3)), rng.choice([-1.0, 1.0], (7, 3))
    columns = [[a[:, k] for a in given] for k in range(3)]
    wanted = [np.column_stack(parts) for parts in zip(*(loss.jet(*c) for c in columns), strict=True)]
    gamma = np.column_stack([loss.majorizer(*c) for c in columns])
    for arrange in (np.ascontiguousarray, np.asfortranarray, lambda a: np.repeat(a, 2, axis=1)[:, ::2]):
        arrays = [arrange(a) for a in given]
        for array in arrays:
            array.flags.writeable = False
        for got, part in zip(loss.jet(*arrays), wanted, strict=True):
            np.testing.assert_allclose(got, part, rtol=1e-13, atol=1e-16)
        np.testing.assert_allclose(loss.majorizer(*arrays), gamma, rtol=1e-13)


@pytest.mark.parametrize("expectation", ["bound", "gaussian"])
@pytest.mark.parametrize("K", [1, 2, 3, 40, 150, 300])  # in compiled blocks of 256 numbers
def test_every_output_has_its_quantile(K, expectation):
    """(n, K) scores of K quantiles, in all compiled loops, against a loss of one quantile for each column."""
    rng = np.random.default_rng(K)
    quantiles = rng.uniform(0.01, 0.99, K)
    loss = Pinball(quantiles, expectation)
    m, y, a, c = rng.normal(size=(4, 9, K))
    v, e, weights = rng.gamma(1.0, size=(3, 9, K))
    t, delta = 0.1 * rng.random((2, K))
    plane = Plane(m, v, a, 0.1 * c * np.sqrt(v * e), e, t, delta, 1e-20)
    sums, gammas = np.zeros((6, K)), np.zeros((3, K))
    loss.add_expansion(plane, y, weights, sums)
    loss.add_majorizer(plane, y, weights, gammas)
    dm, dv = np.empty_like(m), np.empty_like(m)
    loss.fill_slopes(m, v, y, dm, dv)
    whole, gamma = np.array(loss.jet(m, v, y)), loss.majorizer(m, v, y)
    for k in range(K):
        own = slice(k, k + 1)
        one = loss.select(np.array([k]))
        assert one.quantiles == quantiles[own]
        columns = [np.ascontiguousarray(x[:, own]) for x in (m, v, y)]
        np.testing.assert_allclose(whole[:, :, own], one.jet(*columns), rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(gamma[:, own], one.majorizer(*columns), rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(
            np.array([dm, dv])[:, :, own], one.jet(*columns)[1:3], rtol=1e-12, atol=1e-15
        )
        line = Plane(*(np.ascontiguousarray(x[..., own]) for x in plane[:7]), 1e-20)
        alone = np.zeros((6, 1)), np.zeros((3, 1))
        for add, wanted in zip((Loss.add_expansion, Loss.add_majorizer), alone, strict=True):
            add(one, line, columns[2], np.ascontiguousarray(weights[:, own]), wanted)
        np.testing.assert_allclose(sums[:, own], alone[0], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(gammas[:, own], alone[1], rtol=1e-12, atol=1e-12)


# ------------------------------------------------------------------------------------ inequalities


@pytest.mark.parametrize("y", [-1.0, 1.0])
@pytest.mark.parametrize(
    ("bound", "normal"),
    [
        (Hinge(1.5), Hinge(1.5, "gaussian")),
        (SquaredHinge(1.5), SquaredHinge(1.5, "gaussian")),
        (EpsilonInsensitive(0.5), EpsilonInsensitive(0.5, "gaussian")),
        (Pinball(0.3), Pinball(0.3, "gaussian")),
        (Logistic(), LogisticGaussian()),
    ],
    ids=label,
)
def test_bound_lies_above_gaussian_lies_above_plain(bound, normal, y):
    """φ_bound ≥ φ_gaussian ≥ φ(m, 0): the bound is one, and Jensen holds."""
    m, v = GRID.T
    accuracy = 2e-10 if isinstance(normal, LogisticGaussian) else 1e-15
    upper, middle, lower = jet(bound, m, v, y).value, jet(normal, m, v, y).value, plain(normal, m, y)
    assert np.all(upper >= middle - accuracy * (1 + np.abs(middle)))
    assert np.all(middle >= lower - accuracy * (1 + np.abs(lower)))


@pytest.mark.parametrize("kind", [Dropout, Deletion])
@pytest.mark.parametrize(("loss", "y"), [case for case in CASES if not gaussian(case[0])], ids=label)
def test_bound_lies_above_the_expectation_over_all_masks(loss, y, kind):
    """φ against Σ over 2^D masks of probability × plain loss; equal for the squared error."""
    rng = np.random.default_rng(11)
    for D in (1, 2, 5, 10):
        noise = kind(rng.uniform(0, 0.95, D))
        masks = np.array(list(product([0.0, 1.0], repeat=D)))
        probability = np.prod(np.where(masks, 1 - noise.rate, noise.rate), axis=1)
        survivors = 1 / (1 - noise.rate) if kind is Dropout else 1.0
        for scale in (0.1, 1.0, 20.0):
            x, w, b = rng.normal(size=D), scale * rng.normal(size=D), rng.normal()
            m, v = noise.mean(x) @ w + b, noise.var(x) @ w**2
            mean = probability @ plain(loss, (masks * survivors * x) @ w + b, y)
            value = float(jet(loss, m, v, y).value)
            assert value >= mean - 1e-12 * (1 + mean)
            if isinstance(loss, Quadratic):
                np.testing.assert_allclose(value, mean, rtol=1e-11)


@cases
def test_majorizer_lies_above_the_loss_everywhere(loss, y):
    """φ(w') ≤ φ(w) + ∇φ·(w'−w) + ½γ[(m'−m)² + ΣV(w'−w)²], for w' near, far and on the other side."""
    rng = np.random.default_rng(5)
    n, d = 40_000, 3
    mu = rng.normal(size=(n, d)) * 10 ** rng.uniform(-2, 1, (n, 1))
    V = rng.random((n, d)) * 10 ** rng.uniform(-12, 2, (n, 1)) * rng.integers(0, 2, (n, d))
    w, b = rng.normal(size=(n, d)) * 10 ** rng.uniform(-4, 2, (n, 1)), rng.normal(size=n)
    step, shift = rng.normal(size=(n, d)) * 10 ** rng.uniform(-4, 5, (n, 1)), rng.normal(size=n)
    shift *= 10 ** rng.uniform(-4, 4, n)
    turned = rng.random(n) < 0.25
    step[turned], shift[turned] = -2 * w[turned], -2 * b[turned]
    m, v = np.sum(mu * w, axis=1) + b, np.sum(V * w * w, axis=1)
    m1, v1 = np.sum(mu * (w + step), axis=1) + b + shift, np.sum(V * (w + step) ** 2, axis=1)
    at, there = jet(loss, m, v, y), jet(loss, m1, v1, y).value
    linear = at.dm * (np.sum(mu * step, axis=1) + shift) + at.dv * np.sum(2 * V * w * step, axis=1)
    square = (np.sum(mu * step, axis=1) + shift) ** 2 + np.sum(V * step**2, axis=1)
    quadratic = 0.5 * loss.majorizer(m, v, np.full(n, y)) * square
    above = at.value + linear + quadratic - there
    assert np.all(above >= -1e-12 * (at.value + np.abs(linear) + quadratic + there + np.abs(m1)))


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(
    z=st.floats(-50, 50),
    s=st.floats(0, 50),
    dz=st.floats(-100, 100),
    along=st.floats(-100, 100),
    across=st.floats(0, 100),
)
def test_majorizer_holds_in_the_worst_directions(z, s, dz, along, across):
    """The same in the three directions there are: the mean, along the deviations and across them."""
    v, v1 = s * s, (s + along) ** 2 + across**2
    for loss, y in CASES:
        at, there = jet(loss, z, v, y), jet(loss, z + dz, v1, y).value
        tangent = at.value + at.dm * dz + at.dv * 2 * s * along
        gamma = loss.majorizer(np.array(z), np.array(v), np.array(y))
        quadratic = 0.5 * gamma * (dz**2 + along**2 + across**2)
        assert there <= tangent + quadratic + 1e-12 * (1 + abs(tangent) + quadratic + there), label(loss)


def test_the_bounds_curvature_cannot_be_smaller():
    """The majoriser touches the loss again at the mirror image z → −z: any smaller γ would cut it."""
    z, v = np.array([0.3, -2.0, 5.0]), np.array([0.2, 1.0, 9.0])
    hinge, y = Hinge(1.0), np.ones(3)
    at, there = hinge.jet(1 - z, v, y), hinge.jet(1 + z, v, y)
    step = 2 * z
    touching = at.value + at.dm * step + 0.5 * hinge.majorizer(1 - z, v, y) * step**2
    np.testing.assert_allclose(touching, there.value, rtol=1e-14)
    m, ys = np.array([0.3, -2.0, 5.0]), np.ones(3)
    at, there = Logistic().jet(m, v, ys), Logistic().jet(-m, v, ys)
    touching = at.value - 2 * m * at.dm + 2 * Logistic().majorizer(m, v, ys) * m**2
    np.testing.assert_allclose(touching, there.value, rtol=1e-14)


def test_the_squared_bound_cannot_be_smaller():
    """Two values, one of them ever rarer and farther off, have moments z and v and reach max(0, z)² + v."""
    for z, v in [(-2.0, 3.0), (-0.1, 0.5), (0.0, 1.0), (0.7, 4.0), (3.0, 0.2)]:
        bound = SquaredHinge(0.0).value(*(np.array([x]) for x in (-z, v, 1.0)))[0]
        reached = []
        for p in (1e-2, 1e-4, 1e-6, 1e-8):  # z − s√(p/(1−p)) with 1 − p, z + s√((1−p)/p) with p
            far = np.sqrt((1 - p) / p)
            low, high = z - np.sqrt(v) / far, z + np.sqrt(v) * far
            reached.append((1 - p) * max(0, low) ** 2 + p * max(0, high) ** 2)
        assert np.all(np.array(reached) <= bound * (1 + 1e-9))
        np.testing.assert_allclose(reached[-1], bound, rtol=2e-3)


def test_the_gaussian_curvature_is_the_largest_eigenvalue():
    """GAUSSIAN_CURVATURE against the maximum over r of the Hessian of ½h², h = s·E|r + ξ|, by differences."""

    def half_square(z, u1, u2):
        s = mp.sqrt(u1 * u1 + u2 * u2)
        return (z * mp.erf(z / s / mp.sqrt(2)) + 2 * s * mp.npdf(z / s)) ** 2 / 2

    def largest(r):
        order = [[(2, 0, 0), (1, 1, 0), (1, 0, 1)], [(1, 1, 0), (0, 2, 0), (0, 1, 1)]]
        order.append([(1, 0, 1), (0, 1, 1), (0, 0, 2)])
        hessian = [[float(mp.diff(half_square, (r, 1, 0), o)) for o in row] for row in order]
        return np.linalg.eigvalsh(hessian)[-1]

    with mp.workdps(40):
        coarse = [largest(mp.mpf(r)) for r in np.linspace(0, 6, 25)]
        near = [largest(mp.mpf(r)) for r in (1.6, 1.615, 1.63)]
    constant = _expansions.GAUSSIAN_CURVATURE
    assert max(coarse + near) <= constant * (1 + 1e-12)
    np.testing.assert_allclose(near[1], constant, rtol=1e-6)
    assert near[1] == max(near)


# ------------------------------------------------------------------------------------------ the rest


@pytest.mark.parametrize("expectation", ["bound", "gaussian"])
def test_the_box_is_the_dual_of_the_plain_loss(expectation):
    """weight·φ(m, 0; y) = max over β in [low, high] of β(target − m) − ε|β|, attained at an end or at 0."""
    rng = np.random.default_rng(0)
    m, weights, signs = 3 * rng.normal(size=200), rng.random(200), rng.choice([-1.0, 1.0], 200)
    values = rng.normal(size=200)
    for loss, y in ((Hinge(1.7, expectation), signs), (EpsilonInsensitive(0.4, expectation), values)):
        assert loss.kinked
        target, epsilon, low, high, soft = loss.box(y, weights)
        assert not soft.any()
        corners = [beta * (target - m) - epsilon * np.abs(beta) for beta in (low, np.zeros(200), high)]
        np.testing.assert_allclose(weights * plain(loss, m, y), np.max(corners, axis=0), atol=1e-14)


def test_the_box_of_the_squared_hinge_is_half_a_line():
    """weight·max(0, z)² = max over β in the box of β(target − m) − ½·soft·β²."""
    rng = np.random.default_rng(0)
    m, weights, y = 3 * rng.normal(size=200), rng.random(200), rng.choice([-1.0, 1.0], 200)
    weights[:5] = 0.0, 5e-324, 1e-310, 1e-12, 1e12
    loss = SquaredHinge(1.7)
    target, epsilon, low, high, soft = loss.box(y, weights)
    beta = np.clip(np.divide(target - m, soft, out=np.zeros(200), where=soft > 0), low, high)
    np.testing.assert_allclose(
        beta * (target - m) - 0.5 * soft * beta**2, weights * plain(loss, m, y), atol=1e-14
    )
    assert epsilon == 0
    assert loss.boxed
    assert not loss.kinked
    assert np.all(low[:3] == high[:3])


@pytest.mark.parametrize("loss", [Logistic(), LogisticGaussian(), Quadratic()], ids=label)
def test_other_losses_have_no_box(loss):
    """They say so, and by name."""
    assert not loss.boxed
    with pytest.raises(TypeError, match=type(loss).__name__):
        loss.box(np.ones(2), np.ones(2))


def test_logistic_names_the_two_expectations():
    """The factory gives the bound or the normal expectation."""
    assert isinstance(losses.logistic("bound"), Logistic)
    assert isinstance(losses.logistic("gaussian"), LogisticGaussian)
    given = np.array([0.3, -2.0]), np.array([0.0, 1.5]), np.array([1.0, -1.0])
    np.testing.assert_array_equal(Logistic("gaussian").jet(*given), LogisticGaussian().jet(*given))
    for unknown in (lambda: losses.logistic("exact"), lambda: Hinge(expectation="exact")):
        with pytest.raises(KeyError, match="exact"):
            unknown()


@pytest.mark.parametrize("loss", [*CLASSIFICATION, *REGRESSION], ids=label)
def test_a_kernel_names_the_formula(loss):
    """One name under one expectation, or none for a loss that compiled code does not know."""
    if isinstance(loss, Quadratic):
        assert loss.kernel is None
        return
    known = [name for name in _expansions.CODES if loss.kernel.computes(*name)]
    names = {Hinge: "hinge", EpsilonInsensitive: "tube", SquaredHinge: "squared", Pinball: "pinball"}
    name = names.get(type(loss), "logistic")
    assert known == [(name, "gaussian" if gaussian(loss) else "bound")]


def test_the_kolmogorov_rule_integrates_its_moments():
    """E 4K² = π²/3 is the variance of the logistic distribution, E(4K²)² a third of its fourth moment."""
    nodes, weights = losses._kolmogorov_rule()
    assert np.all(weights > 0)
    np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-14)
    np.testing.assert_allclose(weights @ nodes, np.pi**2 / 3, rtol=1e-9)
    np.testing.assert_allclose(weights @ nodes**2, 7 * np.pi**4 / 15 / 3, rtol=1e-8)


# --------------------------------------------------------------------------- compiled loops


COMPILED = [
    Hinge(1.3),
    Hinge(1.3, "gaussian"),
    EpsilonInsensitive(0.2),
    EpsilonInsensitive(0.2, "gaussian"),
    SquaredHinge(1.3),
    SquaredHinge(1.3, "gaussian"),
    Logistic(),
    LogisticGaussian(),
]


def on_a_plane(n, K, own_weights):
    """A plane, targets ±1 and weights, of many sizes and with scores without variance."""
    rng = np.random.default_rng(n + 100 * K)
    m, a, c = (rng.normal(scale=10.0 ** rng.uniform(-3, 2), size=(n, K)) for _ in range(3))
    e = rng.uniform(size=(n, K)) * 10.0 ** rng.uniform(-6, 2)
    v = np.where(rng.random((n, K)) < 0.3, 0.0, rng.uniform(size=(n, K)))
    y = np.where(rng.random((n, K)) < 0.5, 1.0, -1.0)
    plane = Plane(m, v, a, 1e-3 * c, e, rng.normal(size=K), rng.normal(size=K), 1e-20)
    return plane, y, rng.uniform(size=(n, K if own_weights else 1))


@pytest.mark.parametrize("loss", COMPILED, ids=label)
@pytest.mark.parametrize("K", [1, 2, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("n", [1, 3, 4, 9, 50])
@pytest.mark.parametrize("own_weights", [False, True])
def test_compiled_loops_agree_with_the_jet(loss, K, n, own_weights):
    """Sums and slopes in one loop are those of `jet`, for any number of problems and examples."""
    check_loops(loss, *on_a_plane(n, K, own_weights))


@pytest.mark.parametrize("loss", COMPILED, ids=label)
@pytest.mark.parametrize(("n", "K"), [(1001, 1), (400, 3), (90, 12), (5, 255), (5, 256), (3, 257), (2, 600)])
@pytest.mark.parametrize("own_weights", [False, True])
def test_compiled_loops_over_several_blocks(loss, K, n, own_weights):
    """The same for more examples, or problems, than one block of the loops holds."""
    check_loops(loss, *on_a_plane(n, K, own_weights))


def check_loops(loss, plane, y, weights):
    n, K = y.shape
    fused, plain = np.zeros((6, K)), np.zeros((6, K))
    loss.add_expansion(plane, y, weights, fused)
    Loss.add_expansion(loss, plane, y, weights, plain)
    scale = np.maximum(np.abs(plain), 1e-12 * (np.abs(plain).max() or 1.0))
    np.testing.assert_allclose(fused / scale, plain / scale, rtol=1e-9, atol=1e-9)
    fused, plain = np.zeros((3, K)), np.zeros((3, K))
    loss.add_majorizer(plane, y, weights, fused)
    Loss.add_majorizer(loss, plane, y, weights, plain)
    np.testing.assert_allclose(fused, plain, rtol=1e-11, atol=1e-11 * np.abs(plain).max())
    mean, variance = plane.moments()
    fused, plain = np.empty((2, 2, n, K))
    loss.fill_slopes(mean, variance, y, *fused)
    Loss.fill_slopes(loss, mean, variance, y, *plain)
    np.testing.assert_allclose(fused, plain, rtol=1e-12, atol=4e-16)


@pytest.mark.parametrize("loss", COMPILED, ids=label)
def test_compiled_loops_do_not_write_to_what_they_are_given(loss):
    """Read-only arrays are taken."""
    plane, y, weights = on_a_plane(50, 2, True)
    for array in (y, weights, *plane[:7]):
        array.flags.writeable = False
    loss.add_expansion(plane, y, weights, np.zeros((6, 2)))
    loss.add_majorizer(plane, y, weights, np.zeros((3, 2)))
    loss.fill_slopes(*plane.moments(), y, np.empty((50, 2)), np.empty((50, 2)))


@pytest.mark.parametrize("loss", COMPILED, ids=label)
def test_compiled_loops_over_nothing(loss):
    """No example, no sum."""
    plane, y, weights = on_a_plane(0, 3, False)
    sums = np.full((6, 3), 2.0)
    loss.add_expansion(plane, y, weights, sums)
    loss.add_majorizer(plane, y, weights, sums[:3])
    loss.fill_slopes(*plane.moments(), y, np.empty((0, 3)), np.empty((0, 3)))
    assert np.all(sums == 2.0)


@pytest.mark.parametrize("K", [1, 3])
def test_plane_moments(K):
    """m + t·a + δ and max(v + 2t·c + t²·e, floor) against NumPy."""
    rng = np.random.default_rng(0)
    m, v, a, c, e = rng.normal(size=(5, 50, K))
    t, delta = rng.normal(size=(2, K))
    mean, variance = Plane(m, v, a, c, e, t, delta, 0.25).moments()
    np.testing.assert_allclose(mean, m + t * a + delta, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(variance, np.maximum(v + 2 * t * c + t * t * e, 0.25), rtol=1e-13)
    assert (variance == 0.25).any()


class Given(Loss):
    """A loss whose jet and majoriser are given arrays."""

    def __init__(self, jet, gamma):
        self.given, self.gamma = losses.Jet(*jet), gamma

    def jet(self, m, v, y):
        return self.given

    def majorizer(self, m, v, y):
        return self.gamma


@pytest.mark.parametrize(("K", "own"), [(1, False), (1, True), (3, False), (3, True)])
def test_a_loss_without_compiled_loops_has_the_chain_rule(K, own):
    """The sums that follow from a jet and a majoriser, term by term; they are added to what is there."""
    rng = np.random.default_rng(0)
    arrays, gamma, y, weights = rng.normal(size=(11, 50, K)), *rng.normal(size=(3, 50, K))
    (value, dm, dv, dmm, dmv, dvv, m, v, a, c, e), weights = arrays, weights[:, : K if own else 1]
    t, delta = rng.normal(size=(2, K))
    loss, plane = Given(arrays[:6], gamma), Plane(m, v, a, c, e, t, delta, 0.0)
    r = 2 * (c + t * e)
    terms = [value, dm * a + dv * r, dm, dmm * a * a + 2 * dmv * a * r + dvv * r * r + 2 * dv * e]
    terms += [dmm * a + dmv * r, dmm]
    sums = np.full((6, K), 2.0)
    loss.add_expansion(plane, y, weights, sums)
    np.testing.assert_allclose(sums - 2.0, [np.sum(weights * term, axis=0) for term in terms], rtol=1e-11)
    terms, sums = [gamma * (a * a + e), gamma * a, gamma], np.full((3, K), -1.0)
    loss.add_majorizer(plane, y, weights, sums)
    np.testing.assert_allclose(sums + 1.0, [np.sum(weights * term, axis=0) for term in terms], rtol=1e-11)


# --------------------------------------------------------------------------- normal scores


def abs_gaussian(z, v):
    """E|ζ| − |z| and the derivatives z, v, zz, zv, vv of E|ζ|, ζ ~ N(z, v): twice those of a hinge loss."""
    z, v = np.broadcast_arrays(np.asarray(z, float), np.asarray(v, float))
    loss, y = Hinge(0.0, "gaussian"), -np.ones(z.shape)
    left, here = loss.jet(-np.abs(z), v, y), loss.jet(z, v, y)  # max(0, ζ) at −|z| is the excess alone
    return 2 * left.value, 2 * here.dm - 1, *(2 * part for part in here[2:])


def test_normal_parts_are_those_of_mpmath():
    """All six parts over the whole range of z/√v: errors grow as those of exp(−z²/2v) do, and no faster."""
    r = np.concatenate([[0.0, 1e-300, 1e-17, 1e-9, 1e-4, 0.03], np.linspace(0.1, 37.5, 150)])
    r = np.concatenate([-r[::-1], r])
    for s in (2.0**-30, 1.0, 2.0**20):
        wanted = []
        with mp.workdps(40):
            for x in map(mp.mpf, r):
                density, below = mp.npdf(x), mp.ncdf(-abs(x))
                excess = 2 * s * (density - abs(x) * below)
                slope = mp.sign(x) * (1 - 2 * below)
                even = [density / s, 2 * density / s, -x * density / s**2, (x * x - 1) * density / (2 * s**3)]
                wanted.append([float(part) for part in (excess, slope, *even)])
        got, wanted = np.array(abs_gaussian(r * s, np.full(r.shape, s * s))), np.transpose(wanted)
        rounding = 2e-16 * (10 + r * r) * np.abs(wanted) + 1e-300
        rounding[1] = 1e-15
        assert np.all(np.abs(got - wanted) <= rounding)


def test_normal_parts_beyond_the_density():
    """Where the density vanishes E|ζ| is |z|, exactly; NaN stays NaN; nothing is an answer to nothing."""
    z = np.array([1e-3, 38.0, 1e6, 1e300, np.inf])
    for v in (0.0, 1e-300, 1e-12, 1.0):
        excess, dz, *rest = abs_gaussian(np.where(z > 40 * np.sqrt(v), z, 1e3), np.array(v))
        assert np.all(dz == 1)
        assert not np.any([excess, *rest])
    for pair in ((np.nan, 1.0), (1.0, np.nan), (np.nan, 0.0)):
        assert np.isnan(abs_gaussian(*map(np.array, pair))).all()
    assert all(part.shape == (0, 3) for part in abs_gaussian(np.empty((0, 3)), np.empty((0, 3))))


def test_normal_parts_broadcast_and_do_not_depend_on_their_neighbours():
    """The same bits for an element wherever it stands: in a vector or in what is left over."""
    rng = np.random.default_rng(0)
    z, v = 10 ** rng.uniform(-3, 2, (40, 1)) * rng.choice([-1, 1], (40, 1)), 10 ** rng.uniform(-3, 2, 3)
    whole = np.array(abs_gaussian(z, v))
    assert whole.shape == (6, 40, 3)
    for start, stop in ((0, 1), (1, 8), (3, 40), (39, 40)):
        np.testing.assert_array_equal(abs_gaussian(z[start:stop], v), whole[:, start:stop])
    for k in range(3):
        np.testing.assert_array_equal(abs_gaussian(z[:, 0], v[k]), whole[:, :, k])
