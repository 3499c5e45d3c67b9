"""`loss="squared_hinge"` of the support vector classifiers, wherever a model can be fitted."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC

from marginout import GridEdgeWarning, blocks, path
from marginout.noise import GroupDropout
from tests.models.test_online import gap, learn
from tests.paper import DropoutSVC, DropoutSVCCV, LatentDropoutSVC
from tests.problems import EXPECTATIONS, SOLVERS, make_noises

X, Y = load_iris(return_X_y=True)
X = scale(X)
SQUARED = {"loss": "squared_hinge", "noise": 0.3}


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_without_noise_c_means_what_it_means_to_linear_svc(storage):
    """The same coefficients for the same C; liblinear's ridge on the offset is made negligible."""
    for C in (0.01, 1.0):
        theirs = LinearSVC(C=C, dual=False, tol=1e-10, intercept_scaling=1e4, max_iter=100_000).fit(X, Y)
        ours = DropoutSVC(C, loss="squared_hinge", noise=0.0, tol=1e-9).fit(storage(X), Y)
        assert_allclose(ours.coef_, theirs.coef_, atol=2e-5)
        assert_allclose(ours.intercept_, theirs.intercept_, atol=2e-5)


def test_the_bound_is_a_ridge_on_every_feature():
    """With φ = max(0, z)² + v the noise is a ridge of 1 + 2C·Σ V_d: LinearSVC on scaled features."""
    y, rate, C = Y > 0, 0.3, 0.5
    y[60:] = False
    ridge = np.sqrt(1 + 2 * C * (rate / (1 - rate) * X**2).sum(axis=0))
    theirs = LinearSVC(C=C, dual=False, tol=1e-10, intercept_scaling=1e4, max_iter=100_000).fit(X / ridge, y)
    ours = DropoutSVC(C, loss="squared_hinge", noise=rate, tol=1e-9).fit(X, y)
    assert_allclose(ours.coef_, theirs.coef_ / ridge, atol=1e-5)


@pytest.mark.parametrize("expectation", EXPECTATIONS)
def test_blocks_sparse_and_single_precision_data_find_the_same(expectation):
    model = DropoutSVC(**SQUARED, expectation=expectation, tol=1e-8)
    whole = model.fit(X, Y)
    cut = blocks.fit(
        DropoutSVC(**SQUARED, expectation=expectation, tol=1e-8), [(X[::2], Y[::2]), (X[1::2], Y[1::2])]
    )
    sparse = DropoutSVC(**SQUARED, expectation=expectation, tol=1e-8).fit(sp.csr_array(X), Y)
    single = DropoutSVC(**SQUARED, expectation=expectation, tol=1e-8).fit(X.astype(np.float32), Y)
    for other, accuracy in ((cut, 1e-4), (sparse, 1e-4), (single, 1e-3)):
        assert_allclose(other.coef_, whole.coef_, atol=accuracy)


NOISES = make_noises(np.array([0.1, 0.2, 0.3, 0.4]), np.ones(4))
NOISES["groups"] = GroupDropout([0, 0, 1, 1], 0.3)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("expectation", EXPECTATIONS)
def test_under_every_noise_solvers_agree(noise, expectation):
    """To 1e-6 of F; the Gaussian value is below the bound."""
    options = {"loss": "squared_hinge", "noise": NOISES[noise], "tol": 1e-7, "max_iter": 5000}
    values = [
        DropoutSVC(expectation=expectation, solver=solver, **options).fit(np.abs(X), Y).objective_
        for solver in SOLVERS
    ]
    assert_allclose(values, values[0], rtol=1e-6)
    bound = DropoutSVC(**options).fit(np.abs(X), Y).objective_
    assert values[0] <= bound * (1 + 1e-6)


@pytest.mark.parametrize("expectation", EXPECTATIONS)
@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_a_stream_comes_close_to_the_fit(expectation, rate):
    rng = np.random.default_rng(0)
    data = rng.normal(size=(20_000, 30))
    y = (data @ rng.normal(size=30) + 3 * rng.normal(size=20_000) > 0).astype(int)
    model = DropoutSVC(0.01, loss="squared_hinge", noise=rate, expectation=expectation)
    assert 0 <= gap(learn(model, data, y), data, y) < 0.02


def test_a_search_and_a_path_fit_it():
    """Their cells are the models' own, in batches."""
    search = DropoutSVCCV([0.1, 1.0, 1e3], [0.0, 0.3], loss="squared_hinge", tol=1e-8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        search.fit(X, Y)
    alone = DropoutSVC(search.C_, loss="squared_hinge", noise=search.noise_, tol=1e-8).fit(X, Y)
    assert_array_equal(search.coef_, alone.coef_)
    found = path(DropoutSVC(loss="squared_hinge", tol=1e-8), X, Y, Cs=[0.1, 1.0], noises=[0.3])
    alone = DropoutSVC(1.0, **SQUARED, tol=1e-8).fit(X, Y)
    assert_allclose(found.coefs[1, 0], alone.coef_, atol=1e-4)


def test_the_export_says_which_loss():
    """to_sklearn gives a LinearSVC of the same loss and predictions."""
    for loss in ("hinge", "squared_hinge"):
        model = DropoutSVC(loss=loss, noise=0.1).fit(X, Y)
        plain = model.to_sklearn()
        assert plain.loss == loss
        assert_array_equal(plain.predict(X), model.predict(X))


@pytest.mark.parametrize("expectation", EXPECTATIONS)
@pytest.mark.parametrize("solver", ["joint", "alternating"])
def test_a_hidden_layer_takes_it(expectation, solver):
    """The linear layer of a latent model at rest is worse than what the fit ends at."""
    model = LatentDropoutSVC(
        5, 10.0, **SQUARED, expectation=expectation, solver=solver, random_state=0, max_iter=200
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, Y)
    assert model.objective_history_[-1] < 0.5 * model.objective_history_[0]
    assert model.score(X, Y) > 0.9


@pytest.mark.parametrize("model", [DropoutSVC, DropoutSVCCV, LatentDropoutSVC])
def test_another_word_is_refused(model):
    with pytest.raises(ValueError, match=r"loss='logistic'.*squared_hinge"):
        model(loss="logistic").fit(X, Y)


def test_a_model_stored_before_there_was_a_choice_has_the_hinge():
    model = DropoutSVC(noise=0.3).fit(X, Y)
    state = {name: value for name, value in vars(model).items() if name != "loss"}
    older = DropoutSVC.__new__(DropoutSVC)
    older.__dict__.update(state)
    older = pickle.loads(pickle.dumps(older))
    assert older.loss == "hinge"
    assert_array_equal(older.fit(X, Y).coef_, DropoutSVC(noise=0.3, loss="hinge").fit(X, Y).coef_)
