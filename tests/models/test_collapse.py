"""A model that the features do not matter to says so, and names cures that work."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from marginout import CollapsedModelWarning, FeatureDeletionSVC, MCFClassifier, MCFRegressor
from tests.paper import DropoutLogisticRegression, DropoutSVC, DropoutSVCCV, DropoutSVR, LatentDropoutSVC

#: Elsewhere the warning is ignored: many tests fit data from which nothing can be learnt.
pytestmark = pytest.mark.filterwarnings("error")

RNG = np.random.default_rng(0)
#: A survey: standardised answers that say a little about a rare yes.
X = RNG.normal(size=(400, 8))
SIGNAL = 0.4 * X[:, :3].sum(axis=1) + RNG.normal(size=400)
Y = (SIGNAL > 0.8).astype(int)

COLLAPSED = [
    (DropoutSVC(), Y),
    (DropoutSVC(noise=0.0), Y),
    (DropoutSVC(expectation="gaussian"), Y),
    (DropoutSVC(margin=10.0), Y),
    (DropoutSVC(), np.where(SIGNAL > 1.0, "a", np.where(SIGNAL > -1.0, "b", "c"))),
    (DropoutLogisticRegression(C=1e-6), Y),
    (FeatureDeletionSVC(n_deletions=2), Y),
    (MCFClassifier(C=1e-6), Y),
    (LatentDropoutSVC(noise=0.9, random_state=0), Y),
    (DropoutSVCCV(Cs=[1.0], noises=[0.5]), Y),
    (DropoutSVR(epsilon=5.0), SIGNAL),
    (MCFRegressor(C=1e-6), SIGNAL),
]


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(("model", "y"), COLLAPSED, ids=[f"{model}" for model, _ in COLLAPSED])
def test_a_collapsed_model_warns(model, y, store):
    with pytest.warns(CollapsedModelWarning, match="The model has collapsed"):
        model.fit(store(X), y)
    predicted = model.predict(X)
    assert np.ptp(predicted) < 0.01 * np.ptp(y) if y is SIGNAL else len(set(predicted)) == 1


@pytest.mark.parametrize(
    ("model", "said", "cured"),
    [
        (DropoutSVC(), "set class_weight='balanced'", {"class_weight": "balanced"}),
        (
            FeatureDeletionSVC(n_deletions=6, class_weight="balanced"),
            "lower n_deletions=6",
            {"n_deletions": 0},
        ),
        (DropoutLogisticRegression(C=1e-6), "raise C=1e-06", {"C": 1.0}),
        (DropoutSVR(epsilon=5.0), "lower epsilon=5.0", {"epsilon": 0.1}),
        (DropoutSVC(noise=0.99, class_weight={1: 3.0}), "lower noise=0.99", {"noise": 0.3}),
    ],
    ids=str,
)
def test_the_cures_work(model, said, cured):
    y = SIGNAL if isinstance(model, DropoutSVR) else Y
    with pytest.warns(CollapsedModelWarning, match=said):
        model.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(**cured).fit(X, y)


def test_scaling_is_a_cure():
    with pytest.warns(CollapsedModelWarning, match="scale the features"):
        DropoutLogisticRegression().fit(1e-3 * X, Y)
    DropoutLogisticRegression().fit(X, Y)


def test_no_false_alarm():
    """Nothing to learn from, tiny scores that tell classes apart, a class that is given up, a rare row."""
    even = (np.median(SIGNAL) < SIGNAL).astype(int)
    DropoutSVC().fit(np.zeros_like(X), Y)
    DropoutSVC().fit(np.ones_like(X), Y)
    DropoutSVC().fit(sp.csr_array(X.shape), Y)
    DropoutSVR().fit(X, np.ones(len(X)))
    model = DropoutLogisticRegression(C=1e-9, fit_intercept=False).fit(X, even)
    assert np.abs(model.coef_).max() < 1e-6
    assert model.score(X, even) > 0.6
    three = np.where(SIGNAL > 1.9, 2, even)
    assert len(set(DropoutSVC(noise=0.1).fit(X, three).predict(X))) == 2
    # One row of 5,000 that is not in the sample which is looked at first.
    rare = sp.csr_array(([100.0, 1.0], ([1, 2], [0, 0])), shape=(5000, 1))
    DropoutSVC(C=100.0, noise=0.0).fit(rare, np.arange(5000) == 1)


def test_weights_of_zero_do_not_count():
    """Rows without weight neither hide a collapse nor make one."""
    weights = np.r_[np.ones(400), np.zeros(1)]
    with pytest.warns(CollapsedModelWarning):
        DropoutSVC().fit(np.vstack([X, 1e12 * np.ones(8)]), np.r_[Y, 1], sample_weight=weights)
    weights = np.zeros(400)
    weights[3] = 1.0
    DropoutSVR().fit(X, SIGNAL, sample_weight=weights)


def test_the_warning_points_at_the_call():
    with pytest.warns(CollapsedModelWarning) as caught:
        DropoutSVC().fit(X, Y)
    assert caught[0].filename == __file__


def test_a_regression_is_judged_by_the_width_of_its_targets():
    """Whatever their unit, and whatever one outlier does to their range."""
    target = X @ np.arange(1.0, 9.0)
    for unit in (1e-6, 1.0, 1e6):
        assert MCFRegressor(noise=0.1).fit(X, unit * target).score(X, unit * target) > 0.9
        with pytest.warns(CollapsedModelWarning):
            MCFRegressor(C=1e-9, noise=0.9).fit(X, unit * target)
    target[0] = 1e5
    assert DropoutSVR(noise=0.1).fit(X, target).score(X[1:], target[1:]) > 0.9
