"""Noise models against enumeration of their events, quadrature, finite differences and sampling."""

import copy
import pickle

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from scipy import integrate, stats

from marginout.noise import BitSwap, Deletion, Dropout, Gaussian, Laplace, Noise, Poisson, Thinning, resolve
from tests.paper import DropoutSVC, DropoutSVCCV
from tests.problems import make_noises

X = np.array([[0.0, 1.5, 3.0], [2.0, 0.0, 0.25], [0.5, 4.0, 1.0], [7.0, 0.125, 0.0]])
RATES = np.array([0.0, 0.3, 0.9])
SPREADS = np.array([0.0, 0.2, 1.7])

NOISES = list(make_noises(RATES, SPREADS).values())
DELETING = [noise for noise in NOISES if isinstance(noise, (Dropout, Deletion))]
ADDITIVE = [noise for noise in NOISES if isinstance(noise, (Gaussian, Laplace))]
SPARSE = [sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.csc_array, sp.coo_array]


def label(value):
    """A readable test name for a noise model or a container."""
    if isinstance(value, Noise):
        parameters = (np.ndim(parameter) for parameter in vars(value).values())
        return type(value).__name__ + ("-each" if any(parameters) else "")
    return getattr(value, "__name__", None)


def outcomes(noise, x):
    """What a deleting noise may turn the entries x into, with probabilities: two lists."""
    rate = np.broadcast_to(noise.rate, np.shape(x))
    survivor = x / (1 - rate) if isinstance(noise, Dropout) else x
    return [np.zeros_like(x), survivor], [rate, 1 - rate]


def expectation(noise, function, x):
    """E function(x̃) of a deleting noise: the sum over its outcomes."""
    return sum(p * function(value) for value, p in zip(*outcomes(noise, x), strict=True))


def law(noise, x, d=0):
    """SciPy's distribution of the entry x in column d, for the noises that are not deletions."""
    if isinstance(noise, Poisson):
        return stats.poisson(x)
    if isinstance(noise, Gaussian):
        return stats.norm(x, np.sqrt(np.broadcast_to(noise.variance, 3)[d]))
    return stats.laplace(x, np.broadcast_to(noise.scale, 3)[d])


# ---------------------------------------------------------------------------------------- moments


@pytest.mark.parametrize("noise", DELETING, ids=label)
def test_moments_of_deletions_are_those_of_their_two_events(noise):
    """mean and var against the sum over {deleted, kept}."""
    mean = expectation(noise, lambda x: x, X)
    np.testing.assert_allclose(noise.mean(X), mean, rtol=1e-14)
    np.testing.assert_allclose(noise.var(X), expectation(noise, np.square, X) - mean**2, rtol=1e-12)


@pytest.mark.parametrize("noise", [*ADDITIVE, Poisson()], ids=label)
def test_moments_of_other_noises_are_those_of_scipys_distributions(noise):
    """mean and var against scipy.stats."""
    noisy = noise.var(X) > 0
    for n, d in np.argwhere(noisy):
        np.testing.assert_allclose(noise.mean(X)[n, d], law(noise, X[n, d], d).mean(), rtol=1e-14)
        np.testing.assert_allclose(noise.var(X)[n, d], law(noise, X[n, d], d).var(), rtol=1e-14)
    np.testing.assert_array_equal(noise.mean(X)[~noisy], X[~noisy])
    assert noisy.any()


@pytest.mark.parametrize("noise", NOISES, ids=label)
def test_moments_are_a_scale_a_coefficient_and_a_power_per_feature(noise):
    """The triple reproduces mean and var, is float64 and belongs to the caller."""
    scale, coefficient, power, groups = noise.moments(3)
    assert groups is None  # every feature by itself
    assert scale.shape == coefficient.shape == (3,)
    assert scale.dtype == coefficient.dtype == np.float64
    np.testing.assert_array_equal(scale * X, noise.mean(X))
    np.testing.assert_allclose(coefficient * (scale * X) ** power, noise.var(X), rtol=1e-15)
    before = noise.moments(3)
    scale += 1.0
    coefficient += 1.0
    np.testing.assert_array_equal(noise.moments(3).scale, before.scale)
    np.testing.assert_array_equal(noise.moments(3).coefficient, before.coefficient)


@pytest.mark.parametrize("noise", NOISES, ids=label)
def test_moments_accept_rows_integers_and_lists(noise):
    """mean and var of one row, of integers and of lists are those of the float matrix."""
    counts = np.array([[0, 1, 3], [2, 0, 5]])
    for method in (noise.mean, noise.var):
        np.testing.assert_array_equal(method(counts), method(counts.astype(float)))
        np.testing.assert_array_equal(method(counts.tolist()), method(counts.astype(float)))
        np.testing.assert_array_equal(method(counts[0]), method(counts.astype(float))[0])


# --------------------------------------------------------------------------------- log-MGF


@pytest.mark.parametrize("t", [-3.0, -0.4, 0.0, 0.1, 2.0])
@pytest.mark.parametrize("noise", DELETING, ids=label)
def test_log_mgf_of_deletions_is_that_of_their_two_events(noise, t):
    """log_mgf against the logarithm of a sum over {deleted, kept}."""
    exact = np.log(expectation(noise, lambda x: np.exp(t * x), X))
    np.testing.assert_allclose(noise.log_mgf(t, X), exact, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("t", [-1.1, -0.3, 0.0, 0.2, 1.2])
@pytest.mark.parametrize("noise", [Gaussian(0.7), Laplace(0.7)], ids=label)
def test_log_mgf_of_additive_noise_is_an_integral(noise, t):
    """log_mgf against adaptive quadrature of exp(t·x)·density."""
    for x in X[2]:
        density = law(noise, x).pdf
        integral = sum(
            integrate.quad(lambda u, pdf=density: np.exp(t * u) * pdf(u), *half, epsabs=0, epsrel=1e-12)[0]
            for half in [(x - 200, x), (x, x + 200)]
        )
        np.testing.assert_allclose(noise.log_mgf(t, x), np.log(integral), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("t", [-2.0, 0.0, 0.5, 3.0])
def test_log_mgf_of_poisson_is_a_series(t):
    """log_mgf against the sum over counts."""
    counts = np.arange(800)
    for x in [0.25, 1.0, 7.0]:
        series = np.exp(stats.poisson(x).logpmf(counts) + t * counts).sum()
        np.testing.assert_allclose(Poisson().log_mgf(t, x), np.log(series), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("noise", NOISES, ids=label)
def test_log_mgf_has_the_moments_for_derivatives(noise):
    """log_mgf'(0) = mean and log_mgf''(0) = var, by central differences."""
    h = 1e-4
    above, at, below = (noise.log_mgf(t, X) for t in (h, 0.0, -h))
    np.testing.assert_allclose(at, 0.0, atol=1e-15)
    np.testing.assert_allclose((above - below) / (2 * h), noise.mean(X), rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose((above + below) / h**2, noise.var(X), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("noise", NOISES, ids=label)
def test_log_mgf_broadcasts(noise):
    """A vector t against one feature each, and one t against a matrix."""
    t = np.array([-0.3, 0.1, 0.5])
    assert noise.log_mgf(t, X).shape == X.shape
    each = [noise.log_mgf(np.full(3, s), X)[:, d] for d, s in enumerate(t)]
    np.testing.assert_array_equal(noise.log_mgf(t, X), np.column_stack(each))


def test_log_mgf_of_laplace_is_infinite_where_it_diverges():
    """+inf from |t| = 1/scale on, and the right value just inside."""
    noise = Laplace(0.5)
    np.testing.assert_array_equal(noise.log_mgf(np.array([-3.0, -2.0, 2.0, 2.5, 1e6]), 1.0), np.inf)
    inside = 2.0 * (1 - 1e-9)
    exact = inside - mpmath.log(1 - mpmath.mpf(0.5 * inside) ** 2)
    np.testing.assert_allclose(noise.log_mgf(inside, 1.0), float(exact), rtol=1e-8)
    each = Laplace([0.0, 0.5, 1.0]).log_mgf(1.5, np.ones(3))
    np.testing.assert_array_equal(np.isinf(each), [False, False, True])


@pytest.mark.parametrize("noise", [Dropout(0.4), Deletion(0.4)], ids=label)
def test_log_mgf_of_deletions_does_not_overflow(noise):
    """t·x of ±1e6 against the leading term of the logarithm."""
    z = 1e6 / (0.6 if isinstance(noise, Dropout) else 1.0)
    np.testing.assert_allclose(noise.log_mgf(1e3, 1e3), z + np.log(0.6), rtol=1e-15)
    np.testing.assert_allclose(noise.log_mgf(-1e3, 1e3), np.log(0.4), rtol=1e-15)


@pytest.mark.parametrize("t", [-1e3, 1e3])
def test_log_mgf_of_an_absent_feature_is_that_of_a_constant(t):
    """x = 0 stays 0 under multiplicative and counting noise: log E exp(t·0) = 0 for every t."""
    for noise in (Dropout(0.4), Deletion(0.4), Poisson()):
        np.testing.assert_array_equal(noise.log_mgf(t, np.zeros(3)), np.zeros(3))


# --------------------------------------------------------------------------------- corrupted copies


@pytest.mark.parametrize("noise", NOISES, ids=label)
def test_corruption_has_the_promised_mean_and_variance(noise):
    """Sample moments of 20000 copies of three rows, within 4 standard errors."""
    rows, copies = X[1:], 20_000
    sample = noise.corrupt(np.repeat(rows[None], copies, axis=0).reshape(-1, 3), rng=7)
    sample = sample.reshape(copies, 3, 3)
    mean, var = noise.mean(rows), noise.var(rows)
    assert np.all(np.abs(sample.mean(axis=0) - mean) <= 4.0 * np.sqrt(var / copies) + 1e-12)
    squares = (sample - mean) ** 2
    error = squares.std(axis=0) / np.sqrt(copies)
    assert np.all(np.abs(squares.mean(axis=0) - var) <= 4.0 * error + 1e-12)


@pytest.mark.parametrize("noise", DELETING, ids=label)
def test_deletion_yields_only_its_two_outcomes_and_independent_features(noise):
    """Every entry is one of two values; features are deleted independently of each other."""
    x = np.array([2.0, -1.5, 0.5])
    sample = noise.corrupt(np.tile(x, (40_000, 1)), rng=3)
    (deleted, kept), (rate, _) = outcomes(noise, x)
    assert np.all((sample == deleted) | np.isclose(sample, kept, rtol=1e-15, atol=0))
    gone = (sample == 0).astype(float)
    covariance = np.cov(gone.T) - np.diag(rate * (1 - rate))
    assert np.all(np.abs(covariance) <= 4.0 * 0.25 / np.sqrt(len(sample)))


@pytest.mark.parametrize("noise", NOISES, ids=label)
def test_corruption_is_reproducible_and_leaves_the_input_alone(noise):
    """One seed, one copy; another seed, another; a generator advances; X is unchanged."""
    data = np.tile(X, (50, 1))
    before = data.copy()
    data.flags.writeable = False
    once = noise.corrupt(data, rng=0)
    np.testing.assert_array_equal(once, noise.corrupt(data, rng=0))
    np.testing.assert_array_equal(once, noise.corrupt(data, rng=np.random.default_rng(0)))
    np.testing.assert_array_equal(data, before)
    assert not np.shares_memory(once, data)
    if noise.var(X).any():
        generator = np.random.default_rng(0)
        first, second = (noise.corrupt(data, rng=generator) for _ in range(2))
        assert np.any(first != second)
        assert np.any(once != noise.corrupt(data, rng=1))
        assert np.any(noise.corrupt(data) != noise.corrupt(data))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
@pytest.mark.parametrize("noise", NOISES, ids=label)
def test_corruption_keeps_floats_and_turns_integers_into_float64(noise, dtype):
    """float32 stays float32, whole numbers become float64, for dense and sparse data."""
    wanted = dtype if np.dtype(dtype).kind == "f" else np.float64
    data = np.round(X).astype(dtype)
    assert noise.corrupt(data, rng=0).dtype == wanted
    assert noise.corrupt(sp.csr_array(data), rng=0).dtype == wanted


@pytest.mark.parametrize("container", SPARSE, ids=label)
@pytest.mark.parametrize("noise", [*DELETING, Poisson()], ids=label)
def test_sparse_data_stay_sparse(noise, container):
    """CSR of the same flavour, no new non-zeros, the input's bits unchanged, the right outcomes."""
    data = container(np.tile(X, (300, 1)))
    before = data.copy()
    noisy = noise.corrupt(data, rng=0)
    assert sp.issparse(noisy)
    assert noisy.format == "csr"
    assert isinstance(noisy, sp.sparray) == isinstance(data, sp.sparray)
    assert noisy.shape == data.shape
    assert noisy.nnz <= data.nnz
    for name in ("data", "indices", "indptr"):
        if hasattr(before, name):
            np.testing.assert_array_equal(getattr(data, name), getattr(before, name))
            assert not np.shares_memory(getattr(noisy, name), getattr(data, name))
    mean, var = noise.mean(X), noise.var(X)
    sample = noisy.toarray().reshape(300, *X.shape)
    assert np.all(np.abs(sample.mean(axis=0) - mean) <= 4.0 * np.sqrt(var / 300) + 1e-12)
    assert np.all(sample[:, X == 0] == 0)


@pytest.mark.parametrize("noise", DELETING, ids=label)
def test_sparse_duplicates_are_one_feature(noise):
    """An entry stored in two pieces is deleted as one: 1 + 2 gives 0 or 3 (scaled), never 1 or 2."""
    pieces = sp.csr_array((np.tile([1.0, 2.0], 500), np.ones(1000, int), np.arange(0, 1001, 2)), (500, 3))
    column = noise.corrupt(pieces, rng=0).toarray()[:, 1]
    assert set(np.round(column, 10)) <= set(np.round(noise.corrupt(np.tile(3.0, (500, 3)), 1)[:, 1], 10))


@pytest.mark.parametrize("container", SPARSE, ids=label)
@pytest.mark.parametrize("noise", ADDITIVE, ids=label)
def test_additive_noise_makes_sparse_data_dense(noise, container):
    """The same copy as that of the dense matrix."""
    noisy = noise.corrupt(container(X), rng=0)
    assert isinstance(noisy, np.ndarray)
    np.testing.assert_array_equal(noisy, noise.corrupt(X, rng=0))


def test_poisson_refuses_negative_data():
    """The message shows the offending value, for dense and sparse data."""
    for data in (X - 0.5, sp.csr_array(X - 0.5)):
        with pytest.raises(ValueError, match=r"X >= 0.*-0\.5"):
            Poisson().corrupt(data)
    assert Poisson.positive_only
    assert not Dropout.positive_only


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("length", [2, 4])
@pytest.mark.parametrize("kind", [Dropout, Deletion, Gaussian, Laplace, Thinning])
def test_corruption_refuses_parameters_of_another_length(kind, length, container):
    """One value per feature means just that, whatever X is stored in."""
    with pytest.raises(ValueError, match=rf"{length} values.*3 features"):
        kind(np.full(length, 0.5)).corrupt(container(X), rng=0)


# --------------------------------------------------------------------------------- parameters

NAMES = {Dropout: "rate", Thinning: "rate", Deletion: "rate", Gaussian: "variance", Laplace: "scale"}
NEVER = [-0.1, np.nan, np.inf, -np.inf, "a", "0.5", True, None, 1j, object(), {}, [], [[0.1, 0.2]]]
NEVER += [[0.1, -0.1], [0.1, np.nan], ["0.5"], [True, False], np.bool_(False)]


@pytest.mark.parametrize("value", NEVER, ids=lambda value: "object" if type(value) is object else repr(value))
@pytest.mark.parametrize("kind", NAMES)
def test_impossible_parameters_are_refused_by_name(kind, value):
    """The message names the class, the parameter and the value."""
    with pytest.raises(ValueError, match=rf"{kind.__name__}\({NAMES[kind]}=") as caught:
        kind(value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("value", [1.0, 1, 1.5, [0.1, 1.0]], ids=repr)
@pytest.mark.parametrize("kind", [Dropout, Deletion])
def test_a_rate_stays_below_one(kind, value):
    """A feature that is always deleted has no unbiased form."""
    with pytest.raises(ValueError, match=r"rate must be a number in \[0, 1\)"):
        kind(value)


@pytest.mark.parametrize("kind", NAMES)
def test_one_value_per_feature_is_checked_against_the_features(kind):
    """The message says how many there are of each."""
    for ask in (kind([0.1, 0.2]).moments, lambda d: kind([0.1, 0.2]).mean(np.ones((2, d)))):
        with pytest.raises(ValueError, match=rf"{NAMES[kind]}.*2 values but X has 3 features"):
            ask(3)


@pytest.mark.parametrize("kind", NAMES)
def test_parameters_are_kept_as_a_float_or_a_private_vector(kind):
    """Numbers become float; vectors are copied and read-only, also after copying and pickling."""
    name, given = NAMES[kind], np.array([0.1, 0.2])
    for number in (0, np.float32(0.25), np.array(0.25), np.int64(0)):
        assert type(getattr(kind(number), name)) is float
    noise = kind(given)
    given[0] = 0.7
    for same in (noise, copy.copy(noise), copy.deepcopy(noise), pickle.loads(pickle.dumps(noise))):
        np.testing.assert_array_equal(getattr(same, name), [0.1, 0.2])
        with pytest.raises(ValueError, match="read-only"):
            getattr(same, name)[0] = 0.9
        with pytest.raises(AttributeError):
            setattr(same, name, 0.9)


@pytest.mark.parametrize("noise", NOISES, ids=label)
def test_copies_are_equal_and_hash_alike(noise):
    """copy, deepcopy, pickle and a rebuild from the repr equal the original."""
    rebuilt = eval(repr(noise), {**vars(np), **{k.__name__: k for k in (*NAMES, Poisson)}})
    for same in (copy.copy(noise), copy.deepcopy(noise), pickle.loads(pickle.dumps(noise)), rebuilt):
        assert same == noise
        assert hash(same) == hash(noise)
        assert repr(same) == repr(noise)
        np.testing.assert_array_equal(same.corrupt(X, rng=0), noise.corrupt(X, rng=0))


def test_equality_means_the_same_model_with_the_same_parameters():
    """Other classes, other values and other lengths differ; -0 and 0 do not, nor do their hashes."""
    assert Dropout(0.5) == Dropout(0.5)
    assert Dropout([0.1, 0.2]) == Dropout(np.array([0.1, 0.2]))
    different = [
        Dropout(0.5),
        Deletion(0.5),
        Dropout(0.4),
        Dropout([0.5]),
        Dropout([0.5, 0.5]),
        Gaussian(0.5),
    ]
    different += [Laplace(0.5), Thinning(0.5), Poisson(), 0.5, None]
    assert all((a == b) == (i == j) for i, a in enumerate(different) for j, b in enumerate(different))
    assert len(set(different)) == len(different)
    assert Dropout(0.0) == Dropout(-0.0)
    assert hash(Dropout(0.0)) == hash(Dropout(-0.0))


def test_resolve_takes_a_rate_or_a_model():
    """A number is a dropout rate; a model is itself; anything else is refused by name."""
    assert resolve(0.3) == Dropout(0.3)
    assert resolve(np.float32(0.5)) == Dropout(0.5)
    assert resolve(0) == Dropout(0.0)
    for noise in NOISES:
        assert resolve(noise) is noise
    assert resolve(None) == Dropout(0.0)
    for wrong in (1.0, -0.1, np.nan, "dropout", True, [0.1], Dropout):
        with pytest.raises(ValueError, match="noise="):
            resolve(wrong)


# ------------------------------------------------------------------------------ tilted means


@pytest.mark.parametrize(
    "noise", [*NOISES, BitSwap(0.3), BitSwap(RATES), Thinning(0.3), Thinning(RATES)], ids=label
)
def test_tilted_mean_is_the_derivative_of_log_mgf(noise):
    """By central differences, and equal to the mean at t = 0."""
    data = (X > 1).astype(float) if isinstance(noise, BitSwap) else X
    np.testing.assert_allclose(noise.tilted_mean(0.0, data), noise.mean(data), rtol=1e-14, atol=1e-15)
    for t in (-0.5, 0.0, 0.3):
        slope = (noise.log_mgf(t + 1e-5, data) - noise.log_mgf(t - 1e-5, data)) / 2e-5
        np.testing.assert_allclose(noise.tilted_mean(t, data), slope, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "noise", [Dropout(0.5), Deletion(RATES), Thinning(RATES), BitSwap(0.1), BitSwap(0.0)], ids=label
)
def test_tilted_mean_is_finite_for_huge_scores(noise):
    data = np.ones((2, 3))
    assert np.isfinite(noise.tilted_mean(1e4, data)).all()
    assert np.isfinite(noise.tilted_mean(-1e4, data)).all()


@pytest.mark.parametrize(
    "noise", [Gaussian(SPREADS), Laplace(0.7), Poisson(), Thinning(RATES), BitSwap(RATES)], ids=label
)
def test_affine_log_mgf_is_affine(noise):
    assert noise.affine_mgf
    points = np.array([[0.0] * 3, [1.0] * 3]) if isinstance(noise, BitSwap) else X
    at = [noise.log_mgf(0.4, np.full(3, value)) for value in (0.0, 1.0)]
    np.testing.assert_allclose(noise.log_mgf(0.4, points), at[0] + points * (at[1] - at[0]), rtol=1e-12)


# --------------------------------------------------------------------------------- thinned counts

COUNTS = np.array([[0, 1, 3], [2, 0, 1], [40, 7, 0], [5, 12, 2]])
THINNINGS = [Thinning(0.3), Thinning(RATES), Thinning(0.0)]


def all_thinned(noise, function):
    """E function(x̃) of every count: the sum over all numbers of tokens that can be left."""
    kept = np.broadcast_to(1 - np.asarray(noise.rate), COUNTS.shape)
    left = np.arange(COUNTS.max() + 1)
    mass = stats.binom(COUNTS[..., None], kept[..., None]).pmf(left)
    return np.sum(mass * function(left / kept[..., None]), axis=-1)


@pytest.mark.parametrize("noise", THINNINGS, ids=repr)
def test_thinning_has_the_moments_and_the_log_mgf_of_all_its_outcomes(noise):
    mean = all_thinned(noise, lambda x: x)
    np.testing.assert_allclose(noise.mean(COUNTS), mean, rtol=1e-12)
    variance = all_thinned(noise, lambda x: (x - COUNTS[..., None]) ** 2)
    np.testing.assert_allclose(noise.var(COUNTS), variance, rtol=1e-10, atol=1e-14)
    for t in (-1.0, -0.1, 0.0, 0.05, 0.4):
        exact = np.log(all_thinned(noise, lambda x, t=t: np.exp(t * x)))
        np.testing.assert_allclose(noise.log_mgf(t, COUNTS), exact, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("rate", [0.3, 0.9])
def test_thinning_of_single_tokens_is_dropout(rate):
    t = np.array([-3.0, 0.2, 1.0])
    for method in ("log_mgf", "tilted_mean"):
        thinned, dropped = (getattr(kind(rate), method)(t, [0.0, 1.0, 1.0]) for kind in (Thinning, Dropout))
        np.testing.assert_allclose(thinned, dropped, rtol=1e-13)


@pytest.mark.parametrize("storage", [np.asarray, *SPARSE], ids=label)
@pytest.mark.parametrize("noise", THINNINGS, ids=repr)
def test_thinned_copies_have_the_mean_and_variance_and_hold_whole_tokens(noise, storage):
    copies = 20_000
    data = storage(np.tile(COUNTS, (copies, 1)))
    before = data.copy()
    sample = noise.corrupt(data, 0)
    assert sp.issparse(sample) == sp.issparse(data)
    sample = (sample.toarray() if sp.issparse(sample) else sample).reshape(copies, *COUNTS.shape)
    tokens = sample * (1 - np.asarray(noise.rate))
    np.testing.assert_allclose(tokens, np.rint(tokens), atol=1e-12)
    assert np.all(tokens.round() <= COUNTS)
    mean, var = noise.mean(COUNTS), noise.var(COUNTS)
    assert np.all(np.abs(sample.mean(axis=0) - mean) <= 4 * np.sqrt(var / copies) + 1e-12)
    squares = (sample - mean) ** 2
    error = squares.std(axis=0) / np.sqrt(copies)
    assert np.all(np.abs(squares.mean(axis=0) - var) <= 4 * error + 1e-12)
    np.testing.assert_array_equal((storage(np.tile(COUNTS, (copies, 1))) != before).sum(), 0)
    again = noise.corrupt(data, 0)
    np.testing.assert_array_equal(again.toarray() if sp.issparse(again) else again, sample.reshape(-1, 3))


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("value", [0.5, -1.0, np.nan, np.inf, 2.0**60])
def test_thinning_needs_counts(value, storage):
    with pytest.raises(ValueError, match=r"needs counts, 0, 1, 2.*but X holds") as caught:
        Thinning(0.3).corrupt(storage([[1.0, value]]))
    assert f"X holds {value:g}: choose another noise" in str(caught.value)


# --------------------------------------------------------------------------------- bit swaps

BITS = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]])


@pytest.mark.parametrize("noise", [BitSwap(0.3), BitSwap(RATES), BitSwap(0.0)], ids=label)
def test_bit_swap_moments_and_log_mgf_are_those_of_its_two_events(noise):
    rate = np.broadcast_to(noise.rate, BITS.shape)
    mean = rate * (1 - BITS) + (1 - rate) * BITS
    np.testing.assert_allclose(noise.mean(BITS), mean, atol=1e-15)
    np.testing.assert_allclose(noise.var(BITS), mean * (1 - mean), atol=1e-15)
    for t in (-2.0, 0.0, 0.7):
        exact = np.log(rate * np.exp(t * (1 - BITS)) + (1 - rate) * np.exp(t * BITS))
        np.testing.assert_allclose(noise.log_mgf(t, BITS), exact, atol=1e-14)


@pytest.mark.parametrize("storage", [np.asarray, *SPARSE], ids=label)
def test_bit_swaps_flip_at_their_rates_and_stay_sparse(storage, monkeypatch):
    monkeypatch.setattr("marginout.noise._features.FLIP_BLOCK", 1000)  # several blocks of rows
    data = np.tile(BITS, (2000, 1))
    noise = BitSwap(np.array([0.0, 0.1, 0.6]))
    stored = storage(data)
    flipped = noise.corrupt(stored, 0)
    assert sp.issparse(flipped) == sp.issparse(stored)
    if sp.issparse(flipped):
        assert flipped.format == "csr"
        assert flipped.nnz == flipped.sum()
        flipped = flipped.toarray()
    changed = (flipped != data).mean(axis=0)
    assert changed[0] == 0
    np.testing.assert_allclose(changed, noise.rate, atol=4 * np.sqrt(0.25 / len(data)))
    np.testing.assert_array_equal((storage(data) != stored).sum(), 0)


def test_bit_swaps_refuse_other_numbers_and_rates():
    with pytest.raises(ValueError, match="needs features of 0 and 1, but X holds 2"):
        BitSwap(0.1).corrupt(np.array([[0.0, 2.0]]))
    with pytest.raises(ValueError, match="needs features of 0 and 1, but X holds 3"):
        BitSwap(0.1).corrupt(sp.csr_array([[0.0, 3.0]]))
    with pytest.raises(ValueError, match="has 2 values but X has 3 features"):
        BitSwap([0.1, 0.2]).corrupt(sp.csr_array(BITS))
    with pytest.raises(ValueError, match=r"rate must be a number in \[0, 1\)"):
        BitSwap(1.0)
    assert pickle.loads(pickle.dumps(BitSwap([0.1, 0.2]))) == BitSwap([0.1, 0.2])


@pytest.mark.parametrize("noise", [Dropout(0.5), Deletion(0.5)])
def test_missing_and_infinite_values_can_be_deleted(noise):
    for value in (np.nan, np.inf):
        X = noise.corrupt(np.full((20, 20), value), 0)
        assert 0.3 < np.mean(X == 0) < 0.7


def test_none_is_no_noise():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    none, zero = (DropoutSVC(noise=noise).fit(X, y) for noise in (None, 0.0))
    np.testing.assert_array_equal(none.coef_, zero.coef_)
    none, zero = (
        DropoutSVCCV(Cs=[0.1, 1.0], noises=[noise, 0.5], cv=2).fit(X, y).scores_ for noise in (None, 0.0)
    )
    np.testing.assert_array_equal(none, zero)


def test_a_sequence_of_rates_names_the_noise_to_take():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    for rates in ([0.1, 0, 0.3], np.array([0.1, 0.0, 0.3])):
        with pytest.raises(ValueError, match=r"is a sequence: give marginout.noise.Dropout\(rates\)"):
            DropoutSVC(noise=rates).fit(X, y)
        DropoutSVC(noise=Dropout(rates)).fit(X, y)  # the cure
