"""Fits of small, odd data end with finite numbers, or with an error that leaves nothing behind.

The examples are the same every time; MARGINOUT_FUZZ says how many of each estimator. `make sanitize` runs
more of them, with kernels that notice every read and write beyond an array.
"""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import is_classifier

from marginout import (
    DropoutLogisticRegression,
    DropoutLogisticRegressionCV,
    DropoutSVC,
    DropoutSVCCV,
    DropoutSVR,
    DropoutSVRCV,
    FeatureDeletionSVC,
    LatentDropoutLogisticRegression,
    LatentDropoutSVC,
    LatentDropoutSVR,
    MCFClassifier,
    MCFRegressor,
)
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
from tests.problems import EXPECTATIONS, SOLVERS, fitted_attributes

EXAMPLES = int(os.environ.get("MARGINOUT_FUZZ", "20"))

NOISES = [
    lambda d: 0.0,
    lambda d: 0.5,
    lambda d: Dropout(1e-12),
    lambda d: Dropout(0.999999999),
    lambda d: Dropout(np.linspace(0, 0.9, d)),
    lambda d: Deletion(0.5),
    lambda d: Gaussian(1.0),
    lambda d: Gaussian(1e-12),
    lambda d: Laplace(0.5),
    lambda d: Poisson(),
    lambda d: Thinning(0.3),
    lambda d: BitSwap(0.2),
    lambda d: GroupDropout(np.arange(d) // 2, 0.5),
    lambda d: GroupDeletion(np.arange(d) % 3, 0.5),
]
strengths = st.sampled_from([1e-8, 0.01, 1.0, 1e6])
flags = st.booleans()
noises = st.sampled_from(NOISES)
few = st.just(30)
linear = {
    "C": strengths, "noise": noises, "fit_intercept": flags, "max_iter": few,
    "expectation": st.sampled_from(EXPECTATIONS),
    "solver": st.sampled_from(["auto", *SOLVERS]),
}  # fmt: skip
hidden = {
    "C": strengths, "noise": noises, "fit_intercept": flags, "max_iter": st.just(5),
    "propagation": st.sampled_from(["taylor", "gaussian"]), "n_hidden": st.just(2),
    "random_state": st.just(0),
}  # fmt: skip
# Without noise, dual coordinate descent sweeps for long over columns of odd sizes.
search = {
    "noises": st.tuples(st.sampled_from(NOISES[1:])), "Cs": st.sampled_from([(1.0,), (0.01, 1e4)]),
    "cv": st.just(2), "max_iter": few,
}  # fmt: skip
#: What each estimator is fitted with.
PARAMETERS = {
    DropoutSVC: {**linear, "margin": st.sampled_from([0.01, 1.0])},
    DropoutLogisticRegression: linear,
    DropoutSVR: {**linear, "epsilon": st.sampled_from([0.0, 0.1])},
    MCFClassifier: {
        "loss": st.sampled_from(["logistic", "quadratic", "exponential"]),
        "C": strengths, "noise": noises, "fit_intercept": flags, "max_iter": few,
    },
    MCFRegressor: {"C": strengths, "noise": noises, "fit_intercept": flags, "max_iter": few},
    FeatureDeletionSVC: {
        "C": strengths, "n_deletions": st.integers(0, 3), "fit_intercept": flags, "max_iter": few,
    },
    DropoutSVCCV: search,
    DropoutLogisticRegressionCV: search,
    DropoutSVRCV: search,
    LatentDropoutSVC: hidden,
    LatentDropoutLogisticRegression: hidden,
    LatentDropoutSVR: hidden,
}  # fmt: skip


def in_full(X, times: int = 1):
    """CSR with all entries stored, zeros too, each in so many parts."""
    n, d = X.shape
    indices = np.tile(np.repeat(np.arange(d), times), n)
    data = np.repeat(X.ravel(), times) / X.dtype.type(times)
    return sp.csr_array((data, indices, np.arange(n + 1) * d * times), shape=X.shape)


def stale(X):
    """Rows that are longer than wide, and canonical by their flag."""
    X = in_full(X, 3)
    X.has_canonical_format = True
    return X


def long_indices(X):
    X = sp.csr_array(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def no_matrix(X):
    """An index that leads out of the matrix: to be refused."""
    X = in_full(X)
    X.indices[-1] = 2**30
    return X


STORAGES = [np.ascontiguousarray, np.asfortranarray, sp.csr_array, in_full, stale, long_indices, no_matrix]


@st.composite
def tables(draw):
    """X of few rows: normal, counts or booleans, of any size, perhaps a constant column, stored anyhow."""
    n, d = draw(st.sampled_from([1, 2, 5, 12])), draw(st.sampled_from([1, 3, 4, 9, 40]))
    kind = draw(st.sampled_from(["normal", "counts", "booleans"]))
    size = draw(st.sampled_from([1.0, 1.0, 1.0, 1e-310, 1e-160, 1e-40, 1e-9, 1e9, 1e30, 1e99, 1e150]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    X = rng.normal(size=(n, d)) if kind == "normal" else rng.poisson(0.7, size=(n, d)).astype(float)
    X = (X > 0).astype(float) if kind == "booleans" else X * size
    if draw(flags):
        X[:, 0] = draw(st.sampled_from([0.0, 1.0, size]))
    if draw(flags) and (np.abs(X) < 1e38).all():
        X = X.astype(np.float32)
    return draw(st.sampled_from(STORAGES))(X)


def fit_or_refuse(model, X, y) -> None:
    """Fit, and look for what is not finite; a refusal must be the library's own, and leave nothing."""
    refusal = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y)
    except ValueError as error:
        refusal = error
    if refusal is not None:
        assert not isinstance(refusal, np.linalg.LinAlgError)
        assert not fitted_attributes(model)
        return
    for name in "coef_", "intercept_", "objective_", "objective_history_":
        assert np.isfinite(getattr(model, name)).all(), name
    assert hasattr(model, "hidden_coef_") or np.isfinite(model.optimality_gap_)
    scores = model.decision_function(X) if is_classifier(model) else model.predict(X)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("estimator", PARAMETERS, ids=lambda estimator: estimator.__name__)
def test_every_fit_is_finite_or_refused(estimator):
    @settings(
        max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(
        tables(),
        st.fixed_dictionaries(PARAMETERS[estimator]),
        st.integers(0, 99),
        st.sampled_from([1.0, 1e-150, 1e90]),
    )
    def check(X, parameters, seed, size):
        n, d = X.shape
        for name in {"noise", "noises"} & set(parameters):
            make = parameters[name]
            parameters[name] = tuple(each(d) for each in make) if name == "noises" else make(d)
        rng = np.random.default_rng(seed)
        y = size * rng.normal(size=n)
        if is_classifier(estimator()):
            y = np.append([0, 1], rng.integers(0, 2 + seed % 4, size=n))[:n]
        fit_or_refuse(estimator(**parameters), X, y)

    check()


# --------------------------------------------------------------------------- what was NaN once

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 8))
Y = np.where(X[:, 0] > 0, 1, -1)


def test_stored_zeros_in_single_precision():
    """In float32 the smallest entry that may be divided by is 0 itself."""
    rows = in_full(np.where(RNG.random(X.shape) < 0.1, 0.0, X))
    exact = FeatureDeletionSVC(n_deletions=2).fit(rows, Y)
    single = FeatureDeletionSVC(n_deletions=2).fit(rows.astype(np.float32), Y)
    assert_allclose(single.objective_, exact.objective_, rtol=1e-4)
    dense = FeatureDeletionSVC(n_deletions=2).fit(rows.toarray(), Y)
    assert_allclose(exact.objective_, dense.objective_, rtol=1e-4)


@pytest.mark.parametrize("noise", [0.5, GroupDropout(np.arange(8) // 2, 0.5)], ids=repr)
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_tiny_features_without_an_offset(noise, storage):
    """Where scores vanish, w is the sum of the examples, each of slope −y."""
    model = DropoutSVC(noise=noise, loss="hinge", fit_intercept=False).fit(storage(1e-160 * X), Y)
    assert_allclose(model.coef_[0], 1e-160 * Y @ X, rtol=0.05)
    assert_allclose(model.objective_, len(X))


@pytest.mark.parametrize("model", [DropoutSVR(), DropoutSVC(), DropoutLogisticRegression()], ids=repr)
def test_a_stream_that_overflows_leaves_the_last_weights(model):
    y = Y if is_classifier(model) else X[:, 0]
    model.partial_fit(X, y, **({"classes": [-1, 1]} if is_classifier(model) else {}))
    before = model.coef_.copy(), model.intercept_.copy()
    model._stream.lines[:, 2:] = np.nan
    with pytest.raises(ValueError, match=r"no finite solution.*Scale the features"):
        model.partial_fit(X, y)
    assert_array_equal(model.coef_, before[0])
    assert_array_equal(model.intercept_, before[1])
    assert np.isfinite(model.partial_fit(X, y).coef_).all()  # a new stream from there


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_has_no_finite_solution_is_refused():
    """Squares of 1e99 are numbers, their products with one another are not; the last fit stays."""
    model = MCFRegressor(C=0.01, noise=0.0).fit(X, Y)
    before = vars(model).copy()
    with pytest.raises(ValueError, match=r"no finite solution.*C=0\.01.*MaxAbsScaler"):
        model.fit(1e99 * X[:2, :4], Y[:2])
    assert vars(model).keys() == before.keys()
    assert_array_equal(model.coef_, before["coef_"])
    assert model.n_features_in_ == 8
