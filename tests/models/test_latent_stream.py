"""`partial_fit` of models with a hidden layer."""

from __future__ import annotations

import copy
import pickle
import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import check_estimator

from marginout import LatentDropoutLogisticRegression, LatentDropoutSVC, LatentDropoutSVR
from marginout._core.fit import heard
from marginout._models.latent import stream
from marginout.noise import Gaussian, GroupDropout

ESTIMATORS = [LatentDropoutSVC, LatentDropoutLogisticRegression, LatentDropoutSVR]


def problem(estimator, n: int = 300, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    scores = np.column_stack([X[:, 0], X[:, 1], 0.5 * X[:, 2] ** 2])
    return X, scores.argmax(axis=1) if is_classifier(estimator()) else scores.sum(axis=1)


def make(estimator, **more):
    return estimator(**{"n_hidden": 8, "noise": 0.1, "C": 10.0, "random_state": 0, **more})


def learn(model, X, y, size: int = 100, passes: int = 1, **more):
    """Learn the examples part by part."""
    known = {"classes": np.unique(y)} if is_classifier(model) else {}
    for _ in range(passes):
        for i in range(0, len(y), size):
            model.partial_fit(X[i : i + size], y[i : i + size], **known, **more)
    return model


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_many_passes_come_close_to_the_fit(estimator):
    X, y = problem(estimator)
    new, truth = problem(estimator, seed=1)
    fitted = make(estimator, solver="stochastic").fit(X, y).score(new, truth)
    assert learn(make(estimator), X, y, passes=100).score(new, truth) > fitted - 0.04


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_digits_are_learnt(kind):
    X, y = load_digits(return_X_y=True)
    X = kind(X / 16)
    model = learn(LatentDropoutLogisticRegression(noise=0.1, random_state=0), X[:1200], y[:1200], passes=10)
    assert model.score(X[1200:], y[1200:]) > 0.88  # a linear model: 0.91


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_average_is_the_formula(estimator, monkeypatch):
    """Weights of the s-th network are proportional to s(s + 1)…(s + FADING − 1), and add up to 1."""
    nets, X, y = [], *problem(estimator)

    class Watched(stream.Adam):
        def step(self, rate):
            super().step(rate)
            nets.append(np.concatenate([part.copy() for part in self._parts[0]]))

    monkeypatch.setattr(stream, "Adam", Watched)
    model = learn(make(estimator), X, y, size=150)
    s = np.arange(1, len(nets) + 1)[:, None]
    weights = np.prod(s + np.arange(stream.FADING), axis=1)
    mean = np.average(nets, axis=0, weights=weights)
    found = np.concatenate([model.hidden_coef_.T.ravel(), model.hidden_intercept_])
    assert len(nets) == 10
    assert_allclose(found, mean[: len(found)], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_same_seed_gives_the_same_bits(estimator):
    X, y = problem(estimator)
    first, second = (learn(make(estimator), X, y) for _ in range(2))
    assert_array_equal(first.hidden_coef_, second.hidden_coef_)
    other = learn(make(estimator, random_state=1), X, y)
    assert not np.array_equal(first.hidden_coef_, other.hidden_coef_)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))]
)
def test_a_copy_goes_on_by_itself(estimator, duplicate):
    X, y = problem(estimator)
    model = learn(make(estimator), X[:100], y[:100])
    other, before = duplicate(model), model.hidden_coef_.copy()
    learn(other, X[100:], y[100:]) if not is_classifier(model) else other.partial_fit(X[100:], y[100:])
    assert_array_equal(model.hidden_coef_, before)
    model.partial_fit(X[100:200], y[100:200]).partial_fit(X[200:], y[200:])
    assert not np.array_equal(model.hidden_coef_, before)


def test_skops_stores_a_stream():
    skops = pytest.importorskip("skops.io")
    from marginout.skops import trusted_types

    X, y = problem(LatentDropoutSVC)
    model = learn(make(LatentDropoutSVC), X[:200], y[:200])
    other = skops.loads(skops.dumps(model), trusted=trusted_types())
    assert_array_equal(
        model.partial_fit(X[200:], y[200:]).hidden_coef_, other.partial_fit(X[200:], y[200:]).hidden_coef_
    )


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_stream_goes_on_from_a_fit_and_a_fit_forgets_it(estimator):
    X, y = problem(estimator)
    model = make(estimator).fit(X, y)
    before, coef = model.score(X, y), model.hidden_coef_.copy()
    learn(model, X[:50], y[:50], size=50)
    assert not np.array_equal(model.hidden_coef_, coef)
    assert abs(model.score(X, y) - before) < 0.1
    assert not hasattr(model, "objective_")
    again = model.fit(X, y)
    assert "_stream" not in vars(again)
    assert_array_equal(again.hidden_coef_, coef)


@pytest.mark.parametrize("noise", [0.0, "auto", Gaussian(0.2), GroupDropout([0, 0, 1, 1, 2], 0.3)], ids=repr)
@pytest.mark.parametrize(
    "more", [{}, {"shared": False}, {"hidden_noise": 0.3}, {"fit_intercept": False}], ids=repr
)
def test_every_noise_and_option_learns(noise, more):
    X, y = problem(LatentDropoutSVC)
    model = learn(make(LatentDropoutSVC, noise=noise, **more), X, y, passes=3)
    assert np.isfinite(model.coef_).all()
    assert model.score(X, y) > 0.45
    if "fit_intercept" in more:
        assert not model.intercept_.any()
        assert not model.hidden_intercept_.any()


def test_targets_far_from_zero_are_learnt():
    X, y = problem(LatentDropoutSVR)
    near, far = (learn(make(LatentDropoutSVR), X, y + shift, passes=3) for shift in (0.0, 1e6))
    assert_allclose(far.predict(X) - 1e6, near.predict(X), atol=1e-3)


def test_weights_and_class_weights_count():
    X, y = problem(LatentDropoutSVC)
    plain = learn(make(LatentDropoutSVC), X, y, size=300)
    heavy = make(LatentDropoutSVC).partial_fit(X, y, [0, 1, 2], sample_weight=np.where(y == 0, 50.0, 1.0))
    by_class = learn(make(LatentDropoutSVC, class_weight={0: 50.0}), X, y, size=300)
    assert_array_equal(heavy.hidden_coef_, by_class.hidden_coef_)
    assert np.mean(heavy.predict(X) == 0) > np.mean(plain.predict(X) == 0)
    scaled = make(LatentDropoutSVC, C=1.0).partial_fit(X, y, [0, 1, 2], sample_weight=np.full(len(y), 10.0))
    assert_allclose(scaled.hidden_coef_, plain.hidden_coef_, rtol=1e-4)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_call_that_is_interrupted_leaves_the_last_one(estimator, monkeypatch):
    X, y = problem(estimator)
    model = learn(make(estimator), X[:100], y[:100])
    alone = learn(make(estimator), X[:100], y[:100]).partial_fit(X[100:], y[100:])
    step, calls = stream.Adam.step, []

    def interrupt(self, rate):
        calls.append(rate)
        if len(calls) == 2:
            raise KeyboardInterrupt
        step(self, rate)

    with monkeypatch.context() as patch:
        patch.setattr(stream.Adam, "step", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X[100:], y[100:])
    assert_array_equal(model.partial_fit(X[100:], y[100:]).hidden_coef_, alone.hidden_coef_)


class Caller:
    """A scikit-learn callback that counts batches, and answers the end of the second."""

    def __init__(self, answer=lambda fitted: False):
        self.answer, self.events, self.models = answer, [], []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        self.events.append(f"{context.task_name} {len(X)} {len(y)}")
        if context.task_name != "iteration":
            return False
        self.models.append(fitted_estimator.coef_)
        return context.task_id == 1 and self.answer(fitted_estimator)


@pytest.fixture
def callbacks():
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since 1.9")


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_callbacks_see_every_batch(estimator, callbacks):
    X, y = problem(estimator)
    model, caller = learn(make(estimator), X[:100], y[:100]), Caller()
    plain = learn(make(estimator), X[:100], y[:100]).partial_fit(X[100:], y[100:])
    model.set_callbacks(caller).partial_fit(X[100:], y[100:])
    assert caller.events == ["setup", *["iteration 200 200"] * 4, "fit 200 200", "teardown"]
    assert_array_equal(caller.models[-1], model.coef_)
    assert not np.array_equal(caller.models[0], model.coef_)
    assert_array_equal(model.hidden_coef_, plain.hidden_coef_)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_callback_ends_the_pass(estimator, callbacks):
    X, y = problem(estimator)
    caller = Caller(lambda fitted: True)
    model = learn(make(estimator).set_callbacks(caller), X, y, size=300)
    assert len(caller.models) == 2
    assert_array_equal(caller.models[-1], model.coef_)
    model.set_callbacks().partial_fit(X, y)  # goes on
    assert not np.array_equal(caller.models[-1], model.coef_)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_ctrl_c_in_a_callback_leaves_the_last_one(estimator, callbacks):
    X, y = problem(estimator)
    model = learn(make(estimator), X[:100], y[:100])
    alone = learn(make(estimator), X[:100], y[:100]).partial_fit(X[100:], y[100:])
    before = {name: value for name, value in vars(model).items() if name.endswith("_")}

    def press_ctrl_c(fitted):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.set_callbacks(Caller(press_ctrl_c)).partial_fit(X[100:], y[100:])
    after = {name: value for name, value in vars(model).items() if name.endswith("_")}
    assert all(after[name] is before[name] for name in before)
    assert_array_equal(model.set_callbacks().partial_fit(X[100:], y[100:]).hidden_coef_, alone.hidden_coef_)


@pytest.mark.parametrize("shared", [True, False])
def test_a_listener_hears_the_share_that_is_learnt(shared):
    X, y = problem(LatentDropoutSVC)
    shares = []
    with heard(lambda name, share: shares.append((name, share))):
        make(LatentDropoutSVC, shared=shared).partial_fit(X, y, [0, 1, 2])
    batches = 4 if shared else 12
    assert {name for name, _ in shares} == {"iteration"}
    assert_allclose([share for _, share in shares], np.arange(1, batches + 1) / batches)


@pytest.mark.parametrize("shared", [True, False])
def test_verbose_prints_f_of_the_stream(shared, capsys):
    """Losses are those before each step: in the first batch of the offsets 2f − 1, f a class's frequency."""
    X, y = problem(LatentDropoutSVC, 30)
    model = make(LatentDropoutSVC, shared=shared, verbose=1).partial_fit(X, y, [0, 1, 2])
    lines = capsys.readouterr().out.splitlines()
    said = [
        float(re.fullmatch(rf"problem {k}, 30 examples: objective about (.*)", line)[1])
        for k, line in enumerate(lines)
    ]
    assert len(said) == (1 if shared else 3)
    squares = 0.5 * np.sum(model.coef_**2) + 0.5 * np.sum(model.hidden_coef_**2)
    f = np.bincount(y) / 30
    assert_allclose(sum(said), squares + 10.0 * 30 * np.sum(4 * f * (1 - f)), rtol=1e-4)
    model.set_params(verbose=0).partial_fit(X, y)
    assert not capsys.readouterr().out


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_warm_start_goes_on_from_a_stream(estimator):
    X, y = problem(estimator)
    model = learn(make(estimator, solver="stochastic"), X, y, passes=20)
    warm = copy.copy(model).set_params(warm_start=True, max_iter=1).fit(X, y)
    cold = copy.copy(model).set_params(max_iter=1).fit(X, y)
    assert warm.objective_ < 0.9 * cold.objective_


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"hidden_noise": 1.0}, "hidden_noise=1.0"),
        ({"C": -1.0}, "C=-1.0"),
        ({"n_hidden": 9}, "keep n_hidden and shared"),
        ({"shared": False}, "keep n_hidden and shared"),
        ({"class_weight": "balanced"}, "class_weight='balanced' is not supported"),
    ],
)
def test_bad_parameters_are_named_and_change_nothing(change, match):
    X, y = problem(LatentDropoutSVC)
    model = learn(make(LatentDropoutSVC), X, y)
    before = model.hidden_coef_.copy()
    with pytest.raises(ValueError, match=re.escape(match)):
        model.set_params(**change).partial_fit(X, y)
    assert_array_equal(model.hidden_coef_, before)
    learn(clone(make(LatentDropoutSVC)), X, y)  # the cure of another shape


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"solver": "joint"}, "set solver='auto' or 'stochastic'"),
        ({"solver": "alternating"}, "set solver='auto' or 'stochastic'"),
        ({"solver": "none"}, "solver='none'"),
        ({"propagation": "gaussian"}, "leave it at 'taylor'"),
        ({"expectation": "gaussian"}, "leave it at 'bound'"),
    ],
)
def test_only_what_draws_examples_learns_from_a_stream(change, match):
    X, y = problem(LatentDropoutSVC)
    model = learn(make(LatentDropoutSVC), X, y)
    before = model.hidden_coef_.copy()
    model.set_params(**change)
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match="partial_fit") as caught:
        model.partial_fit(X, y)
    assert match in str(caught.value.__cause__)
    assert_array_equal(model.hidden_coef_, before)


@pytest.mark.parametrize(
    ("X", "y", "weight", "match"),
    [
        (np.ones((3, 4)), [0, 1, 2], None, "4 features"),
        (np.ones((3, 5)), [0, 1, 7], None, "are not among classes"),
        (np.full((3, 5), np.nan), [0, 1, 2], None, "NaN"),
        (np.ones((3, 5)), [0, 1, 2], [0, 0, 0], "sample_weight is zero"),
        (1e60 * np.ones((3, 5)), [0, 1, 2], None, "."),
    ],
)
def test_bad_data_are_refused_and_change_nothing(X, y, weight, match):
    data, labels = problem(LatentDropoutSVC)
    model = learn(make(LatentDropoutSVC), data, labels)
    before = model.hidden_coef_.copy()
    with pytest.raises(ValueError, match=match):
        model.partial_fit(X, y, sample_weight=weight)
    assert_array_equal(model.hidden_coef_, before)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_checks_of_scikit_learn_pass_for_the_stochastic_solver(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator(3, max_iter=20, solver="stochastic"), on_fail=None, on_skip=None)
    assert [result["check_name"] for result in results if result["status"] == "failed"] == []
