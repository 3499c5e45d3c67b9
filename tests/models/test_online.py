"""partial_fit: it approaches the batch optimum of the stream, whatever the noise, the loss and the chunks."""

from __future__ import annotations

import copy
import pickle
import warnings
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import HashingVectorizer

from marginout._core.design.storage import make_design
from marginout._models.online.stream import Stream
from marginout.losses import Quadratic
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
)
from tests.paper import DropoutLogisticRegression, DropoutSVC, DropoutSVR
from tests.problems import make_objective

CLASSIFIERS = [DropoutSVC, DropoutLogisticRegression]
ESTIMATORS = [*CLASSIFIERS, DropoutSVR]
D = 40


def stream(n, kind="binary", seed=0):
    """Counts of Zipf-like features, a few in every row, on different scales; labels or targets with noise."""
    rng = np.random.default_rng(seed)
    often = 1.0 / np.arange(2, D + 2)
    X = rng.poisson(3 * often, (n, D)) * np.geomspace(0.3, 3.0, D)
    score = (
        X @ (np.random.default_rng(9).normal(size=D) / np.geomspace(0.3, 3.0, D)) + rng.normal(size=n) - 0.5
    )
    if kind == "binary":
        return X, np.where(score > 0, "yes", "no")
    return X, (np.digitize(score, [-1.0, 1.0]) if kind == "multiclass" else 5.0 + score)


def kind_of(estimator):
    return "regression" if estimator is DropoutSVR else "binary"


def learn(model, X, y, chunk=None):
    """The model after one pass."""
    first = {} if isinstance(model, DropoutSVR) else {"classes": np.unique(y)}
    for i in range(0, len(y), chunk or len(y)):
        model.partial_fit(X[i : i + (chunk or len(y))], y[i : i + (chunk or len(y))], **first)
    return model


def objective(model, X, y, weights=None):
    """F of a model on data, by the code that `fit` minimises with, summed over the problems."""
    if isinstance(model, DropoutSVR):
        Y = y[:, None].astype(float)
    else:
        columns = model.classes_[1:] if len(model.classes_) == 2 else model.classes_
        Y = np.where(y[:, None] == columns, 1.0, -1.0)
    noise = model._noise()
    weights = model.C * (np.ones(len(y)) if weights is None else weights)[:, None]
    F = make_objective(make_design(X, noise), model._loss(Y), Y, weights, model.fit_intercept)
    W = np.atleast_2d(model.coef_).T
    return float(F.point(np.ascontiguousarray(W), model.intercept_ + noise.shift(X.shape[1]) @ W).value.sum())


def gap(model, X, y, weights=None):
    """By which fraction the stream's model is above the batch optimum."""
    with warnings.catch_warnings():  # its certificate may be loose without noise; its value is what counts
        warnings.simplefilter("ignore", ConvergenceWarning)
        best = clone(model).fit(X, y, sample_weight=weights)
    return objective(model, X, y, weights) / objective(best, X, y, weights) - 1


# --------------------------------------------------------------------------- the optimum


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("expectation", ["bound", "gaussian"])
@pytest.mark.parametrize("rate", [0.0, 0.5, 0.9])
def test_one_pass_comes_close_to_the_batch_optimum(estimator, expectation, rate):
    X, y = stream(20_000, kind_of(estimator))
    model = learn(estimator(C=0.01, noise=rate, expectation=expectation), X, y)
    assert 0 <= gap(model, X, y) < 0.02


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_more_of_the_stream_comes_closer(estimator):
    X, y = stream(60_000, kind_of(estimator))
    gaps = [gap(learn(estimator(C=1.0, noise=0.3), X[:n], y[:n]), X[:n], y[:n]) for n in (600, 6000, 60_000)]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 0.003


@pytest.mark.parametrize("C", [1e-6, 1e-3, 100.0])
def test_any_regularisation(C):
    X, y = stream(20_000)
    assert gap(learn(DropoutSVC(C=C), X, y), X, y) < 0.02


def test_targets_without_noise_are_met():
    """Residuals that vanish do not set the weights swinging."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50_000, 50))
    y = X @ rng.normal(size=50)
    model = DropoutSVR(noise=0.0)
    for i in range(0, len(y), 5000):
        model.partial_fit(X[i : i + 5000], y[i : i + 5000])
        assert i < 10_000 or np.abs(model.predict(X) - y).mean() < 0.1


def test_a_state_of_another_layout_is_refused():
    X, y = stream(50)
    model = learn(DropoutSVC(), X, y)
    model._stream.lines = np.ascontiguousarray(model._stream.lines[:, :6])
    with pytest.raises(ValueError, match="another version of marginout"):
        model.partial_fit(X, y)


NOISES = [
    Deletion(0.4), Gaussian(0.5), Laplace(np.linspace(0, 1, D)), Poisson(), Dropout(np.linspace(0, 0.9, D)),
    GroupDropout(np.arange(D) // 4, 0.4),
]  # fmt: skip


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
@pytest.mark.parametrize("estimator", [DropoutLogisticRegression, DropoutSVR])
def test_every_noise(estimator, noise):
    X, y = stream(20_000, kind_of(estimator))
    assert gap(learn(estimator(C=0.01, noise=noise), X, y), X, y) < 0.02


def test_thinned_counts():
    X, y = stream(20_000)
    X = np.rint(X / np.geomspace(0.3, 3.0, D))
    assert gap(learn(DropoutSVC(C=0.01, noise=Thinning(0.4)), X, y), X, y) < 0.02


def test_flipped_bits_move_the_offset():
    X, y = stream(20_000)
    X = (X > 0).astype(float)
    assert gap(learn(DropoutSVC(C=0.01, noise=BitSwap(0.1)), X, y), X, y) < 0.02


def test_scales_of_features_and_targets_do_not_matter():
    """Without noise and ridge worth speaking of, rescaled data give the rescaled model."""
    X, y = stream(3000, "regression")
    plain = learn(DropoutSVR(C=1e30, noise=0.3), X, y)
    factors = np.geomspace(1e-4, 1e4, D)
    scaled = learn(DropoutSVR(C=1e30, noise=0.3), X * factors, y)
    assert_allclose(scaled.coef_ * factors, plain.coef_, rtol=1e-6)
    far = learn(DropoutSVR(C=1e30, noise=0.3, epsilon=1e4), X, 1e9 + 1e5 * y)
    near = learn(DropoutSVR(C=1e30, noise=0.3), X, y)
    assert_allclose(far.coef_ / 1e5, near.coef_, rtol=1e-5)
    margin = learn(DropoutSVC(C=1e30, margin=7.0), X, y > 5)
    assert_allclose(margin.coef_, 7 * learn(DropoutSVC(C=1e30), X, y > 5).coef_, rtol=1e-6)


def test_the_first_step_follows_the_gradient_over_all_masks():
    """At w ≠ 0, the mean step over the masks of a normal score's loss is that of its expectation.

    The kernel's slopes are read off a step made tiny (an example of weight 1e-9), and compared with
    differences of the expected loss that `losses` computes.
    """
    rng = np.random.default_rng(0)
    x, w, b = rng.normal(size=5), rng.normal(size=5), 0.3
    for estimator, expectation in product(ESTIMATORS, ("bound", "gaussian")):
        model = estimator(noise=0.4, expectation=expectation)
        Y, noise, tiny = np.array([[1.0]]), model._noise(), 1e-9
        loss = model._loss(Y)
        state = Stream(w[:, None], np.array([b]), noise)
        state.lines[:, 4], state.lines[:, 0], state.lines[:, 1] = 1.0, 1.0, 1.0
        state.learn(x[None], noise, loss, Y, np.array([tiny]), 1e9, True)
        F = make_objective(make_design(x[None], noise), loss, Y, np.ones((1, 1)), True)
        point = F.point(w[:, None], np.array([b]))
        dm, dv = F.examples.slopes(point.state[0])
        pulled = F.examples.design.pullback(point.W, dm, dv)[:, 0]
        assert_allclose((w - state.lines[:5, 2]) / tiny, pulled, rtol=1e-4, atol=1e-6)
        assert_allclose((b - state.lines[5, 2]) / tiny, dm[0, 0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("K", [1, 2])
@pytest.mark.parametrize(
    ("noise", "groups"),
    [
        (Dropout(0.3), [0, 1, 2, 3, 4]),
        (Deletion([0.1, 0.2, 0.3, 0.4, 0.5]), [0, 1, 2, 3, 4]),
        (GroupDropout([0, 0, 1, 1, 2], 0.3), [0, 0, 1, 1, 2]),
        (GroupDropout([0, 0, 1, 1, 2], [0.1, 0.7, 0.3]), [0, 0, 1, 1, 2]),
        (GroupDeletion([0, 1, 0, 1, 1], [0.2, 0.6]), [0, 1, 0, 1, 1]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_hinge_slopes_by_enumeration(noise, groups, K):
    """∂/∂w of E|ζ|'s bound, √E[ζ²], with E over all masks of the groups."""
    rng = np.random.default_rng(1)
    x, W, b, tiny = rng.normal(size=5), rng.normal(size=(5, K)), np.array([-0.2, 0.4])[:K], 1e-9
    y, rate = np.array([1.0, -1.0])[:K], np.ones(max(groups) + 1) * noise.rate
    masks = np.array(list(product([0.0, 1.0], repeat=len(rate))))
    probability = (rate ** (1 - masks) * (1 - rate) ** masks).prod(axis=1)
    kept = masks / (1 - rate) if isinstance(noise, (Dropout, GroupDropout)) else masks

    def loss(w, k):
        zeta = 1 - y[k] * ((kept[:, groups] * x) @ w + b[k])
        return 0.5 * (probability @ zeta + np.sqrt(probability @ zeta**2))

    model = DropoutSVC(noise=noise)
    state = Stream(W, b, noise)
    state.lines[:, 4::5], state.lines[:, 0], state.lines[:, 1] = 1.0, 1.0, 1.0
    state.learn(x[None], noise, model._loss(None), y[None], np.array([tiny]), 1e9, True)
    for k in range(K):
        up, down = (np.array([loss(W[:, k] + h * e, k) for e in np.eye(5)]) for h in (1e-6, -1e-6))
        moved = (W[:, k] - state.lines[:5, 2 + 5 * k]) / tiny
        assert_allclose(moved, (up - down) / 2e-6, rtol=1e-4, atol=1e-6)


# --------------------------------------------------------------------------- chunks, storage, weights


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_chunks_do_not_matter(estimator):
    X, y = stream(300, kind_of(estimator))
    whole = learn(estimator(), X, y)
    for chunk in (1, 7, 100):
        assert_array_equal(learn(estimator(), X, y, chunk).coef_, whole.coef_)


@pytest.mark.parametrize("noise", [0.5, Gaussian(0.3), GroupDropout(np.arange(D) // 4)], ids=["d", "a", "g"])
@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_storage_does_not_matter(noise, kind):
    X, y = stream(1000, kind)
    plain = learn(DropoutSVC(noise=noise), X, y, 100)
    wide = sp.csr_matrix(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    frozen = X.copy()
    frozen.flags.writeable = False
    for other in (sp.csr_matrix(X), sp.csr_array(X), sp.csc_matrix(X), wide, np.asfortranarray(X), frozen):
        chunks = other.tocsr() if sp.issparse(other) else other
        assert_array_equal(learn(DropoutSVC(noise=noise), chunks, y, 100).coef_, plain.coef_)
    single = learn(DropoutSVC(noise=noise), X.astype(np.float32), y, 100)
    assert_allclose(single.coef_, plain.coef_, rtol=1e-4, atol=1e-5)


def test_classes_are_learnt_one_against_the_rest():
    X, y = stream(5000, "multiclass")
    model = learn(DropoutSVC(C=0.1), X, y)
    for label, coef, intercept in zip(model.classes_, model.coef_, model.intercept_, strict=True):
        alone = learn(DropoutSVC(C=0.1), X, y == label)
        assert_allclose(coef, alone.coef_[0], rtol=1e-10)
        assert_allclose(intercept, alone.intercept_[0], rtol=1e-10)


def test_many_features_of_which_few_are_met():
    rng = np.random.default_rng(0)
    places = rng.integers(300, size=3000), rng.integers(100_000, size=3000)
    X = sp.csr_array((rng.random(3000), places), shape=(300, 100_000))
    y = rng.integers(2, size=300)
    whole = learn(DropoutSVC(), X, y)
    assert_array_equal(learn(DropoutSVC(), X, y, 10).coef_, whole.coef_)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_weights(estimator):
    X, y = stream(20_000, kind_of(estimator))
    weights = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    first = {} if estimator is DropoutSVR else {"classes": np.unique(y)}
    model = estimator(C=0.01).partial_fit(X, y, **first, sample_weight=weights)
    assert gap(model, X, y, weights) < 0.02
    kept = weights > 0
    same = estimator(C=0.01).partial_fit(X[kept], y[kept], **first, sample_weight=weights[kept])
    assert_array_equal(same.coef_, model.coef_)
    scaled = estimator(C=0.01 / 8).partial_fit(X, y, **first, sample_weight=8 * weights)
    assert_allclose(scaled.coef_, model.coef_, rtol=1e-9)


def test_class_weight():
    X, y = stream(2000)
    weights = np.where(y == "yes", 3.0, 1.0)
    model = learn(DropoutSVC(class_weight={"yes": 3.0, "no": 1.0}), X, y)
    assert_array_equal(model.coef_, DropoutSVC().partial_fit(X, y, ["no", "yes"], weights).coef_)
    with pytest.raises(ValueError, match="compute_class_weight"):
        learn(DropoutSVC(class_weight="balanced"), X, y)
    with pytest.raises(ValueError, match="class_weight"):
        learn(DropoutSVC(class_weight={"yes": -3.0, "no": 1.0}), X, y)


def test_offset():
    X, y = stream(2000)
    assert learn(DropoutSVC(fit_intercept=False), X, y).intercept_[0] == 0
    assert gap(learn(DropoutSVC(C=0.1, fit_intercept=False), X, y), X, y) < 0.05
    model = DropoutSVR(fit_intercept=True).partial_fit(np.zeros((50, 2)), np.full(50, 3.5))
    assert_allclose(model.predict(np.zeros((1, 2))), 3.5)


def test_missing_entries():
    X, y = stream(2000)
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    model = learn(DropoutSVC(missing="deleted"), holes, y)
    assert gap(model, model._without_missing(holes, model._noise()), y) < 0.05
    with pytest.raises(ValueError, match="missing='deleted'"):
        learn(DropoutSVC(), holes, y)


# --------------------------------------------------------------------------- the contract


def test_classes_are_needed_once():
    X, y = stream(100)
    model = DropoutSVC()
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="at least two"):
        model.partial_fit(X, y, classes=["yes"])
    with pytest.raises(ValueError, match="not among classes"):
        model.partial_fit(X, y, classes=["no", "perhaps"])
    assert not hasattr(model, "n_features_in_")
    model.partial_fit(X[:1], y[:1], classes=["yes", "no", "perhaps"]).partial_fit(X, y)
    assert_array_equal(model.classes_, ["no", "perhaps", "yes"])
    with pytest.raises(ValueError, match="not the same as on the last call"):
        model.partial_fit(X, y, classes=["no", "yes"])


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_bad_input_changes_nothing(estimator):
    X, y = stream(200, kind_of(estimator))
    model = learn(estimator(), X, y)
    before = copy.deepcopy(model)
    for bad in (
        lambda: model.partial_fit(X[:, :3], y),
        lambda: model.partial_fit(X * np.nan, y),
        lambda: model.partial_fit(X, y[:5]),
        lambda: model.partial_fit(X, y, sample_weight=-np.ones(len(y))),
        lambda: clone(model).set_params(noise=Poisson()).partial_fit(-X, y),
        lambda: clone(model).set_params(C=-1.0).partial_fit(X, y),
    ):
        with pytest.raises(ValueError):  # noqa: PT011, each has a message of its own, tested elsewhere
            bad()
    assert vars(model).keys() == vars(before).keys()
    assert_array_equal(model._stream.lines, before._stream.lines)
    assert_array_equal(model.partial_fit(X, y).coef_, before.partial_fit(X, y).coef_)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_copies_go_on_by_themselves(estimator):
    X, y = stream(400, kind_of(estimator))
    whole = learn(estimator(), X, y)
    half = learn(estimator(), X[:200], y[:200])
    for copied in (pickle.loads(pickle.dumps(half)), copy.deepcopy(half), copy.copy(half)):
        assert_array_equal(copied.partial_fit(X[200:], y[200:]).coef_, whole.coef_)
        assert_array_equal(half.coef_, learn(estimator(), X[:200], y[:200]).coef_)
    kept = copy.copy(half)
    assert_array_equal(half.partial_fit(X[200:], y[200:]).coef_, whole.coef_)
    assert_array_equal(kept.coef_, learn(estimator(), X[:200], y[:200]).coef_)
    assert vars(kept).keys() == vars(half).keys()
    assert_array_equal(learn(clone(whole), X, y).coef_, whole.coef_)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_fit_and_partial_fit(estimator):
    X, y = stream(400, kind_of(estimator))
    model = learn(estimator(), X, y)
    assert_array_equal(model.fit(X, y).coef_, estimator().fit(X, y).coef_)
    before = model.coef_.copy()
    some = X * (np.arange(D) < 3)
    model.partial_fit(some, y)
    assert_array_equal(model.coef_.ravel()[3:], before.ravel()[3:])
    assert np.all(model.coef_.ravel()[:3] != before.ravel()[:3])
    assert not hasattr(model, "objective_")
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :3], y)
    assert model.to_sklearn().coef_.shape == model.coef_.shape


def test_text_as_it_comes():
    vectorizer = HashingVectorizer(n_features=2**12)
    model = DropoutSVC(C=1.0)
    for i in range(200):
        texts = [f"good film number {i}, great fun", f"bad film number {i}, a great pity"]
        model.partial_fit(vectorizer.transform(texts), [1, 0], classes=[0, 1])
    assert_array_equal(model.predict(vectorizer.transform(["fun and good", "a bad pity"])), [1, 0])


# --------------------------------------------------------------------------- what may change, what may be odd


@pytest.mark.parametrize("unit", [1.0, 1e3, 1e6])
def test_targets_of_any_unit(unit):
    """ε far below the targets: the first target, met exactly, says nothing of their scale."""
    X, y = stream(20_000, "regression")
    assert gap(learn(DropoutSVR(C=1e3 / unit, noise=0.3), X, unit * y), X, unit * y) < 0.02
    y[0] = 1e6
    assert abs(learn(DropoutSVR(noise=0.3), X, y).predict(X).mean() - y[1:].mean()) < 0.2


def test_parameters_may_change_between_calls():
    X, y = stream(2000)
    row = sp.csr_matrix(X[:1] * (np.arange(D) < 3))
    for change in ({"C": 1e-3}, {"noise": 0.1}, {"noise": Gaussian(0.5)}, {"fit_intercept": False}):
        dense, sparse = (learn(DropoutSVC(), X, y).set_params(**change) for _ in range(2))
        assert_array_equal(
            dense.partial_fit(row.toarray(), y[:1]).coef_, sparse.partial_fit(row, y[:1]).coef_
        )
        assert_array_equal(dense.intercept_, sparse.intercept_)
    assert dense.intercept_[0] == 0


@pytest.mark.parametrize("change", [(Gaussian(2.0), 0.1), (0.1, Gaussian(2.0))], ids=["leave", "enter"])
def test_the_spread_of_additive_noise_is_that_of_now(change):
    X, y = stream(2000)
    model = learn(DropoutSVC(C=0.1, noise=change[0]), X, y).set_params(noise=change[1])
    for _ in range(3):
        model.partial_fit(X, y)
    spread = 2.0 * np.sum(model._stream.lines[:D, 6] ** 2) if change[0] == 0.1 else 0.0
    assert_allclose(model._stream.sums[1], spread, rtol=1e-9)


def test_examples_without_weight_change_nothing():
    X, y = stream(500)
    model = DropoutSVC().fit(X, y)
    coef, intercept = model.coef_.copy(), model.intercept_.copy()
    model.set_params(class_weight={"no": 0.0, "yes": 1.0}).partial_fit(X[y == "no"], y[y == "no"])
    assert_array_equal(model.coef_, coef)
    assert_array_equal(model.intercept_, intercept)


@pytest.mark.parametrize("weight", [1e200, 1e-200])
def test_weights_that_overflow(weight):
    X, y = stream(20)
    with pytest.raises(ValueError, match="sample_weight"):
        DropoutSVC().partial_fit(X, y, ["no", "yes"], np.full(20, weight))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_ridge_that_overflows(estimator):
    X, y = stream(100, kind_of(estimator))
    model = estimator(C=1e-310)
    with pytest.raises(ValueError, match=r"C=1e-310 must be at least 1e-100 in a stream.*raise C"):
        learn(model, X, y)
    assert not hasattr(model, "coef_")
    assert np.isfinite(learn(estimator(C=1e-100), X, y).coef_).all()


@pytest.mark.parametrize("expectation", ["bound", "gaussian"])
@pytest.mark.parametrize("size", [1e6, 1e30, 1e100])
@pytest.mark.parametrize("at", [0, 200])
def test_rare_huge_targets(expectation, size, at):
    X, y = stream(1000, "regression")
    y[at::300] = size
    y[at + 150 :: 300] = -size
    model = learn(DropoutSVR(expectation=expectation), X, y, chunk=50)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.intercept_).all()
    assert np.isfinite(model._stream.lines).all()


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_indices_that_lead_out_of_the_data(method):
    X, y = stream(20)
    for name, value in ("indices", D), ("indices", -1), ("indptr", 10**6):
        bad = sp.csr_matrix(X)
        getattr(bad, name)[5] = value
        with pytest.raises(ValueError, match="CSR"):
            getattr(DropoutSVC(), method)(bad, y, *([["no", "yes"]] if method == "partial_fit" else []))


def test_a_fit_that_fails_keeps_the_stream():
    X, y = stream(500)
    model = learn(DropoutSVC(max_iter=1), X, y)
    before = copy.deepcopy(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        with pytest.raises(ConvergenceWarning):
            model.fit(X, y)
    assert_array_equal(model.partial_fit(X, y).coef_, before.partial_fit(X, y).coef_)


def test_a_stream_that_was_stored_before_goes_on():
    """Streams of earlier versions do not say whether they have broken down, and had another module."""
    X, y = np.eye(4), np.array([0, 1, 0, 1])
    model, same = (DropoutSVC().partial_fit(X, y, classes=[0, 1]) for _ in range(2))
    assert "broken" not in vars(model._stream)
    stored = pickle.dumps(model, protocol=0)
    here, there = b"marginout._models.online.stream\nStream", b"marginout.solvers.online\nStream"
    assert stored.count(here) == 1
    for pickled in (stored, stored.replace(here, there)):
        again = copy.deepcopy(same)
        assert_array_equal(pickle.loads(pickled).partial_fit(X, y).coef_, again.partial_fit(X, y).coef_)


def test_a_loss_that_the_kernel_does_not_know():
    state = Stream(np.zeros((3, 1)), np.zeros(1), Dropout(0.5))
    with pytest.raises(TypeError, match="Quadratic cannot be learnt online"):
        state.learn(np.eye(3), Dropout(0.5), Quadratic(), np.ones((3, 1)), np.ones(3), 1.0, True)
