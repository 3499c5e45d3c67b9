"""`noise="auto"`: the rule against its formula, and one answer however data are stored, cut or weighed."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from marginout import (
    DropoutLogisticRegression,
    DropoutSVC,
    DropoutSVCCV,
    DropoutSVR,
    LatentDropoutSVC,
    MCFClassifier,
    blocks,
    path,
)
from marginout.noise import Gaussian
from marginout.noise import _auto as auto
from marginout.noise._auto import Extent

RAW, Y = load_breast_cancer(return_X_y=True)
X = scale(RAW)
LINEAR = [DropoutSVC, DropoutLogisticRegression, DropoutSVR]


def rate(data, weights=None):
    return Extent.of(data, np.ones(data.shape[0]) if weights is None else weights).rate()


def by_formula(data, weights=None):
    """The rule in plain NumPy, without chunks and a sample of columns."""
    n = len(data) if weights is None else weights.sum()
    told = data.var(axis=0) > 1e-9 * (data**2).mean(axis=0)
    r = np.mean((data**2).mean(axis=0)[told] / data.var(axis=0)[told])
    kappa = min(1.0, (told.sum() / n) ** 1.5) / r
    return kappa / (1 + kappa)


def text(n=300, d=500, words=90, seed=0):
    rng = np.random.default_rng(seed)
    return sp.csr_array((rng.random((n, d)) < words / d).astype(float))


def with_empty_rows():
    data = text().toarray()
    data[::7] = 0.0
    return data


@pytest.mark.parametrize(
    "data",
    [
        X,
        RAW,
        text().toarray(),
        text(words=5).toarray(),
        with_empty_rows(),
        np.hstack([X, np.full((569, 1), 1e6)]),
    ],
    ids=["standardised", "raw", "text", "short", "empty rows", "constant"],
)
def test_the_rate_is_that_of_the_formula(data):
    """To two digits, dense and sparse, in float32."""
    wanted = by_formula(data)
    assert_allclose(rate(data), wanted, rtol=0.05)
    assert rate(sp.csr_array(data)) == rate(data)
    assert_allclose(rate(data.astype(np.float32)), wanted, rtol=0.05)


def test_chunks_and_a_sample_of_columns(monkeypatch):
    whole = rate(X), rate(text())
    monkeypatch.setattr(auto, "CHUNK", 1000)
    assert (rate(X), rate(text())) == whole
    monkeypatch.setattr(auto, "COLUMNS", 10)
    assert_allclose((rate(X), rate(text())), whole, rtol=0.1)


def test_half_for_more_features_than_examples_little_for_tables_and_none_far_from_zero():
    assert 0.45 <= rate(text(n=300, d=400, words=20)) <= 0.5
    assert 0.0004 <= rate(scale(RAW[:, :4])) <= 0.001
    assert rate(X[:20]) > 0.3
    assert rate(X + 1e6) < 1e-10
    assert rate(np.zeros((5, 3))) == rate(sp.csr_array((5, 3))) == rate(np.full((5, 3), 1e200)) == 0.0


def test_copies_of_features_bear_more_noise_and_constant_ones_change_nothing():
    """Two copies of a feature with noise 2κ have together what one has with κ; the power adds a little."""
    twice = rate(np.hstack([X, X]))
    assert twice / (1 - twice) == pytest.approx(2**1.5 * rate(X) / (1 - rate(X)), rel=0.1)
    assert rate(np.hstack([X, np.ones((569, 50)), np.zeros((569, 50))])) == rate(X)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_blocks_weights_and_copies_count_alike(storage):
    """Parts merge to the whole; a row of weight 2 is two rows, of weight 0 none."""
    data, ones = storage(X), np.ones(len(X))
    parts = [Extent.of(data[rows], ones[rows]) for rows in (slice(0, 7), slice(7, 300), slice(300, None))]
    assert parts[2].merge(parts[0]).merge(parts[1]).rate() == rate(data)
    weights = np.arange(len(X)) % 3
    assert rate(data, weights.astype(float)) == rate(storage(np.repeat(X, weights, axis=0)))


@pytest.mark.parametrize("estimator", LINEAR)
def test_a_fit_is_that_of_the_rate(estimator):
    """noise_ says which; in memory, sparse, on blocks, pickled; labels do not matter."""
    model = estimator(noise="auto").fit(X, Y)
    assert model.noise_ == rate(X)
    assert_array_equal(model.coef_, estimator(noise=model.noise_).fit(X, Y).coef_)
    assert estimator(noise="auto").fit(sp.csr_array(X), 1 - Y).noise_ == model.noise_
    halves = [(X[::2], Y[::2]), (X[1::2], Y[1::2])]
    for storage in ("disk", "memory"):
        cut = blocks.fit(estimator(noise="auto", tol=1e-8), halves, storage=storage)
        assert cut.noise_ == model.noise_
        assert_allclose(cut.coef_, estimator(noise="auto", tol=1e-8).fit(X, Y).coef_, atol=1e-4)
    again = pickle.loads(pickle.dumps(model))
    assert again.noise_ == model.noise_
    assert_array_equal(again.predict(X), model.predict(X))
    assert clone(model).noise == "auto"


def test_a_given_noise_is_repeated():
    assert DropoutSVC(noise=0.25).fit(X, Y).noise_ == 0.25
    assert DropoutSVC(noise=Gaussian(0.1)).fit(X, Y).noise_ == Gaussian(0.1)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("estimator", LINEAR)
def test_a_stream_takes_it_from_all_examples_so_far(estimator, storage):
    """However it is cut, single rows included; the result comes as close to that of a fit as one call."""
    data, weights = storage(X), np.arange(len(X)) % 4 / 2.0 + 0.5
    first = {} if estimator is DropoutSVR else {"classes": [0, 1]}
    fixed = estimator(noise=rate(data, weights))
    batch, whole = clone(fixed).fit(data, Y, sample_weight=weights), clone(fixed)
    whole.partial_fit(data, Y, sample_weight=weights, **first)
    for size in (1, 50, len(X)):
        model = estimator(noise="auto")
        for i in range(0, len(X), size):
            rows = slice(i, i + size)
            model.partial_fit(data[rows], Y[rows], sample_weight=weights[rows], **first)
            if i in (0, 100):
                assert model.noise_ == rate(data[: i + size], weights[: i + size])
        assert model.noise_ == rate(data, weights)
        scores = [data @ m.coef_.ravel() for m in (batch, whole, model)]
        alike = np.corrcoef(scores)[0]
        assert alike[2] > alike[1] - 0.02
    assert_array_equal(model.coef_, whole.coef_)


def test_a_stream_keeps_the_rate_of_a_fit_and_starts_anew_after_other_noise():
    fitted = DropoutSVC(noise="auto").fit(X, Y)
    assert fitted.partial_fit(RAW, Y).partial_fit(RAW[:1], Y[:1]).noise_ == rate(X)
    other = DropoutSVC(noise=Gaussian(0.1)).fit(X, Y).set_params(noise="auto")
    assert other.partial_fit(X[:100], Y[:100]).noise_ == rate(X[:100])
    assert other.fit(X, Y).partial_fit(X[:100], Y[:100]).noise_ == rate(X)


def test_weights_of_classes_and_calls_that_fail_do_not_count_in_a_stream():
    model = DropoutSVC(noise="auto", class_weight={0: 7.0}).partial_fit(X[:200], Y[:200], classes=[0, 1])
    assert model.noise_ == rate(X[:200])
    with pytest.raises(ValueError, match="y holds"):
        model.partial_fit(RAW, Y + 1)
    with pytest.raises(ValueError, match="C=-1"):
        model.set_params(C=-1).partial_fit(RAW, Y)
    with pytest.raises(ValueError, match="sample_weight"):
        model.set_params(C=1.0).partial_fit(RAW, Y, sample_weight=np.full(569, 1e250))
    again = pickle.loads(pickle.dumps(model))
    assert again.partial_fit(X[200:], Y[200:]).noise_ == rate(X)
    assert model.noise_ == rate(X[:200])


def test_holes_are_deleted_first():
    holes = X.copy()
    holes[::3, 4] = np.nan
    model = DropoutSVC(noise="auto", missing="deleted").fit(holes, Y)
    assert model.noise_ == rate(np.nan_to_num(holes))
    assert model.predict(holes).shape == (569,)


def test_a_hidden_layer_takes_it():
    model = LatentDropoutSVC(3, noise="auto", random_state=0, max_iter=5000).fit(X, Y)
    assert model.noise_ == rate(X)
    given = LatentDropoutSVC(3, noise=model.noise_, random_state=0, max_iter=5000).fit(X, Y)
    assert_array_equal(model.coef_, given.coef_)


def test_a_search_and_a_path_put_the_rate_in_the_grid():
    """Once: not if it is there already."""
    q = rate(X)
    search = DropoutSVCCV([0.01, 0.1, 1.0, 10.0], [0.0, "auto", 0.5]).fit(X, Y)
    assert search.noises_ == [0.0, q, 0.5]
    assert path(DropoutSVC(), X, Y, Cs=[0.1], noises=["auto", q]).noises == [q]


def test_who_does_not_choose_refuses():
    for model in (MCFClassifier(noise="auto"), DropoutSVC(noise="most")):
        with pytest.raises(ValueError, match="must be a dropout rate"):
            model.fit(X, Y)
    with pytest.raises(ValueError, match="must be a dropout rate"):
        path(DropoutSVC(), X, Y, Cs=[0.1], noises=["most"])
