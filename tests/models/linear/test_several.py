"""Several labels and several targets of an example: each as if it were alone, all in one batch."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor

import marginout
from tests.paper import DropoutLogisticRegression, DropoutSVC, DropoutSVR
from tests.problems import CLASSIFIERS, assert_same_attributes, fitted_attributes

RNG = np.random.default_rng(0)
X = RNG.gamma(1.0, size=(60, 8))
SCORES = (X - 1) @ RNG.normal(size=(8, 4)) + 0.3 * RNG.normal(size=(60, 4))
Y = (SCORES > [0.0, 0.5, -0.5, 1.0]).astype(int)
TIGHT = {"noise": 0.3, "tol": 1e-8}
FORMS = {"dense": X, "csr": sp.csr_array(X)}


@pytest.mark.parametrize("weight", [None, "balanced", {0: 1.0, 1: 3.0}], ids=str)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_each_label_is_a_problem_of_its_own(estimator, form, weight):
    weights = RNG.uniform(0.5, 2.0, 60)
    model = estimator(class_weight=weight, **TIGHT).fit(FORMS[form], Y, weights)
    assert_array_equal(model.classes_, np.arange(4))
    alone = [clone(model).fit(FORMS[form], Y[:, k], weights) for k in range(4)]
    assert_allclose(model.coef_, np.vstack([one.coef_ for one in alone]), atol=1e-4)
    assert_allclose(model.intercept_, np.hstack([one.intercept_ for one in alone]), atol=1e-4)
    assert_allclose(model.objective_, sum(one.objective_ for one in alone), rtol=1e-7)
    predicted = model.predict(X)
    assert predicted.shape == Y.shape
    assert_array_equal(predicted, np.column_stack([one.predict(X) for one in alone]))
    assert model.score(X, Y) == accuracy_score(Y, predicted)
    if estimator is DropoutLogisticRegression:
        expected = np.column_stack([one.predict_proba(X)[:, 1] for one in alone])
        assert_allclose(model.predict_proba(X), expected, atol=1e-4)
        assert_allclose(np.exp(model.predict_log_proba(X)), expected, atol=1e-4)


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_it_is_what_one_vs_rest_around_it_does(estimator):
    model = estimator(**TIGHT).fit(X, sp.csr_matrix(Y))
    around = OneVsRestClassifier(estimator(**TIGHT)).fit(X, Y)
    assert_array_equal(model.classes_, around.classes_)
    assert_array_equal(model.predict(X), around.predict(X))
    assert_allclose(model.decision_function(X), around.decision_function(X), atol=1e-3)
    plain = model.to_sklearn()
    assert plain.multilabel_
    assert_array_equal(plain.predict(X), model.predict(X))
    if estimator is DropoutLogisticRegression:
        assert_allclose(plain.predict_proba(X), model.predict_proba(X))
    assert_array_equal(clone(model).fit(X, Y.tolist()).predict(X), model.predict(X))
    other = pickle.loads(pickle.dumps(model))
    assert_array_equal(other.predict(X), model.predict(X))


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_a_label_that_does_not_vary_is_predicted_as_it_is(estimator):
    some = np.column_stack([np.zeros(60), Y[:, 0], np.ones(60)]).astype(int)
    with pytest.warns(UserWarning, match=r"The labels \[0, 2\] are the same for all examples"):
        model = estimator(**TIGHT).fit(X, some)
    assert_array_equal(model.predict(X)[:, [0, 2]], some[:, [0, 2]])
    assert_array_equal(model.predict(X)[:, 1], estimator(**TIGHT).fit(X, Y[:, 0]).predict(X))
    with pytest.raises(ValueError, match="have the same labels in y: give some that differ"):
        estimator().fit(X, some[:, [0, 2]])


def test_a_later_fit_to_classes_forgets_the_labels():
    model = DropoutLogisticRegression().fit(X, Y)
    label = SCORES.argmax(axis=1)
    model.fit(X, label)
    assert model.predict(X).shape == (60,)
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    model.fit(X, Y)
    before = fitted_attributes(model)
    with pytest.raises(ValueError, match="C=-1"):
        model.set_params(C=-1).fit(X, label)
    assert_same_attributes(model, before)
    assert model.predict(X).shape == Y.shape


def test_blocks_hold_labels_too():
    parts = [(X[:25], Y[:25]), (X[25:], Y[25:])]
    whole = DropoutSVC(**TIGHT).fit(X, Y)
    model = marginout.blocks.fit(DropoutSVC(**TIGHT), parts)
    assert_allclose(model.coef_, whole.coef_, atol=1e-4)
    assert_array_equal(model.predict(X), whole.predict(X))
    with pytest.raises(ValueError, match="y has 4 labels in one block and 3 in another"):
        marginout.blocks.fit(DropoutSVC(), [parts[0], (X[25:], Y[25:, :3])])


@pytest.mark.parametrize("parameters", [{}, {"l1_ratio": 0.5}, {"expectation": "gaussian"}], ids=str)
def test_each_target_is_a_problem_of_its_own(parameters):
    model = DropoutSVR(**TIGHT, **parameters).fit(X, SCORES)
    assert model.coef_.shape == (4, 8)
    around = MultiOutputRegressor(DropoutSVR(**TIGHT, **parameters)).fit(X, SCORES)
    assert_allclose(model.predict(X), around.predict(X), atol=1e-3)
    assert_allclose(model.score(X, SCORES), r2_score(SCORES, model.predict(X)))
    assert_allclose(model.to_sklearn().predict(X), model.predict(X))
    one = DropoutSVR(**TIGHT, **parameters).fit(X, SCORES[:, [0]])
    assert one.coef_.shape == (1, 8)
    assert one.predict(X).shape == (60, 1)
    assert_allclose(one.predict(X)[:, 0], around.predict(X)[:, 0], atol=1e-3)


def test_what_cannot_be_is_refused_with_a_cure():
    with pytest.raises(ValueError, match=r"joins classes.*several labels: set multi_class='ovr'"):
        DropoutSVC(multi_class="pairwise").fit(X, Y)
    with pytest.raises(ValueError, match=r"y has 4 columns, which must hold 0 or 1.*MultiOutputClassifier"):
        DropoutSVC().fit(X, Y + Y[:, [1, 2, 3, 0]])
    for model in (marginout.DropoutSVCCV(), marginout.LatentDropoutSVC(), marginout.MCFClassifier()):
        with pytest.raises(ValueError, match=r"fitted by DropoutSVC.*MultiOutputClassifier"):
            model.fit(X, Y)
    with pytest.raises(ValueError, match=r"a path takes one label.*MultiOutputClassifier"):
        marginout.path(DropoutSVC(), X, Y)
    model = DropoutSVC().fit(X, Y)
    with pytest.raises(AttributeError) as raised:
        model.partial_fit(X, Y[:, 0])
    assert "learns one label of each example" in str(raised.value.__cause__)
