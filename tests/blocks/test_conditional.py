"""missing="conditional" on blocks against a fit to all rows at once."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.preprocessing import scale

from marginout import DropoutLogisticRegression, DropoutQuantileRegressor, DropoutSVC, DropoutSVR, blocks
from marginout._core.gaussian import ClassLaws, Law, estimate
from marginout.noise import GroupDropout

OPTIONS = {"missing": "conditional", "solver": "ncg", "tol": 1e-11, "max_iter": 3000}
EDGES = 0, 90, 90, 130, 131, 300  # a block without rows, one of a single row


def data(load, share, seed=0):
    X, y = (part[:300] for part in load(return_X_y=True))
    X = scale(X[:, X.std(axis=0) > 0])
    rng = np.random.default_rng(seed)
    weights = rng.gamma(2.0, 0.5, len(y))
    weights[90:130] = 0.0  # a block without weight
    return np.where(rng.random(X.shape) < share, np.nan, X), y, weights


def cut(*arrays):
    return [tuple(part[a:b] for part in arrays) for a, b in pairwise(EDGES)]


def assert_same(model, whole, X):
    assert_allclose(model._law.one.covariance(), whole._law.one.covariance(), atol=1e-9)
    assert_allclose(model._law.one.mean, whole._law.one.mean, atol=1e-9)
    assert_allclose(model.objective_, whole.objective_, rtol=1e-9)
    size = np.abs(whole.coef_).max()
    assert_allclose(model.coef_, whole.coef_, atol=1e-5 * size)
    punched = np.where(np.random.default_rng(9).random(X.shape) < 0.4, np.nan, X)
    model.coef_, model.intercept_ = whole.coef_, whole.intercept_  # what differs now is the law
    assert type(model._law) is type(whole._law)
    scores = getattr(whole, "decision_function", whole.predict)(punched)
    assert_allclose(getattr(model, "decision_function", model.predict)(punched), scores, atol=1e-8)


CASES = {
    "any law": (DropoutSVC(1.0, noise=0.2, **OPTIONS), load_breast_cancer, 0.2),
    "complete rows, laws of classes": (
        DropoutLogisticRegression(0.1, noise=0.1, **OPTIONS),
        load_digits,
        0.0,
    ),
    "laws of classes": (DropoutLogisticRegression(0.1, noise=0.1, **OPTIONS), load_digits, 0.2),
    "a noise that the data bear": (DropoutLogisticRegression(0.1, **OPTIONS), load_breast_cancer, 0.1),
    "groups": (DropoutSVC(noise=GroupDropout(np.arange(30) // 3, 0.3), **OPTIONS), load_breast_cancer, 0.2),
    "regression": (DropoutSVR(1.0, noise=0.2, **OPTIONS), load_breast_cancer, 0.2),
    "quantiles": (DropoutQuantileRegressor([0.3, 0.7], noise=0.2, **OPTIONS), load_breast_cancer, 0.1),
}


@pytest.mark.parametrize("storage", ["memory", "disk"])
@pytest.mark.parametrize("name", CASES)
def test_blocks_have_the_law_and_the_optimum_of_the_whole(name, storage):
    model, load, share = CASES[name]
    X, y, weights = data(load, share)
    if name in ("regression", "quantiles"):
        y = np.nan_to_num(X) @ np.ones(X.shape[1])
    whole = clone(model).fit(X, y, weights)
    assert isinstance(whole._law, ClassLaws if "laws of classes" in name else (Law, ClassLaws))
    assert_same(blocks.fit(clone(model), iter(cut(X, y, weights)), storage=storage), whole, X)


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_a_law_of_low_rank(share):
    X, y, weights = data(load_digits, share)
    X = np.hstack([X, X[:, ::2] + np.random.default_rng(1).normal(size=X[:, ::2].shape)])
    model = DropoutSVC(0.1, noise=0.2, **OPTIONS)
    whole = clone(model).fit(X, y % 2, weights)
    assert whole._law.rank == 64
    assert_same(blocks.fit(clone(model), cut(X, y % 2, weights)), whole, X)


def test_names_are_kept_and_compared():
    X, y, _ = data(load_breast_cancer, 0.1)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    labels = np.array(["a", "b"], dtype=object)[y]
    model = blocks.fit(DropoutSVC(missing="conditional"), cut(frame, labels))
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    assert set(model.predict(frame)) == {"a", "b"}
    with pytest.raises(ValueError, match="block 1 has features of other names"):
        blocks.fit(DropoutSVC(missing="conditional"), [(frame, y), (frame[frame.columns[::-1]], y)])
    with pytest.raises(ValueError, match="block 1 has 29 features but block 0 has 30"):
        blocks.fit(DropoutSVC(missing="conditional"), [(X, y), (X[:, 1:], y)])


def test_what_is_refused():
    X, y, weights = data(load_breast_cancer, 0.1)
    model = DropoutSVC(missing="conditional").fit(X, y)
    law = model._law
    with pytest.raises(ValueError, match="sample_weight is zero for every example"):
        blocks.fit(model, cut(X, y, 0 * weights))
    with pytest.raises(ValueError, match="no example in any block"):
        blocks.fit(model, [(X[:0], y[:0])])
    with pytest.raises(ValueError, match="give at least one"):
        blocks.fit(model, [])
    with pytest.raises(ValueError, match=r"block 1: .*infinity"):
        blocks.fit(model, [(X, y), (np.full_like(X, np.inf), y)])
    with pytest.raises(ValueError, match="too large to square"):
        blocks.fit(model, [(X, y), (X * 1e200, y)])
    assert model._law is law  # untouched


def test_a_model_without_holes_forgets_the_law():
    X, y, _ = data(load_breast_cancer, 0.0)
    model = DropoutSVC(missing="conditional").fit(X, y).set_params(missing="error")
    assert blocks.fit(model, cut(X, y))._law is None


def test_sums_over_parts_are_those_of_the_whole():
    """Expectation-maximisation on parts, step by step."""
    from marginout._core.gaussian.estimate import Rows, estimate_from

    X, _, _ = data(load_digits, 0.3)
    for features in (20, 61):
        Z = X[:, :features] if features == 20 else np.hstack([X, X[:, :10] ** 2])
        parts = [Rows(Z[a:b]) for a, b in pairwise(EDGES)]

        def add_up(task, *args, parts=parts):
            results = [task(rows, *args) for rows in parts]
            return tuple(sum(each) for each in zip(*results, strict=True))

        whole, found = estimate(Z), estimate_from(add_up)
        assert len(whole.history) > 3
        assert_allclose(found.history, whole.history, rtol=1e-10)
        assert_allclose(found.law.covariance(), whole.law.covariance(), atol=1e-9)
