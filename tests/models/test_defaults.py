"""The defaults of the library: what they are, and what multi_class="auto" stands for."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale

import marginout
from marginout import DropoutLogisticRegression, DropoutSVC, DropoutSVCCV, blocks
from marginout.noise._auto import Extent

RAW, Y = load_iris(return_X_y=True)
X = scale(RAW)
NOISY = ("SVC", "SVR", "LogisticRegression", "QuantileRegressor")
HIDDEN = ("LatentDropoutSVC", "LatentDropoutSVR", "LatentDropoutLogisticRegression")


@pytest.mark.parametrize("name", [*(f"Dropout{kind}" for kind in NOISY), *HIDDEN])
def test_the_noise_is_what_the_data_bear(name):
    assert getattr(marginout, name)().noise == "auto"


@pytest.mark.parametrize("kind", [DropoutSVC, DropoutSVCCV])
def test_the_loss_is_that_of_linear_svc(kind):
    assert (kind().loss, kind().expectation) == ("squared_hinge", "gaussian")


def test_a_fit_names_its_choices():
    model = DropoutLogisticRegression().fit(X, Y)
    assert model.noise_ == Extent.of(X, np.ones(150)).rate() > 0
    assert model.multi_class_ == "multinomial"
    assert DropoutSVC().fit(X, Y).noise_ == model.noise_
    plain = LogisticRegression().fit(X, Y)
    assert abs(model.score(X, Y) - plain.score(X, Y)) <= 0.02


def test_logistic_regression_is_joint_where_examples_outnumber_features():
    """By the total weight of the examples; dense, sparse and on blocks alike."""
    wide = np.hstack([X[::40]] * 2)
    labels = Y[::40]
    for data, y, kind in ((X, Y, "multinomial"), (wide, labels, "ovr")):
        for made in (data, sp.csr_array(data)):
            assert DropoutLogisticRegression().fit(made, y).multi_class_ == kind
    repeated = DropoutLogisticRegression().fit(wide, labels, sample_weight=np.full(4, 3.0))
    assert repeated.multi_class_ == "multinomial"
    cut = blocks.fit(DropoutLogisticRegression(), [(X[::2], Y[::2]), (X[1::2], Y[1::2])])
    assert cut.multi_class_ == "multinomial"
    for options in ({"solver": "irls"}, {"solver": "newton"}, {"l1_ratio": 0.5}):
        assert DropoutLogisticRegression(**options).fit(X, Y).multi_class_ == "ovr"
    assert DropoutLogisticRegression().fit(X, Y == 1).multi_class_ == "ovr"


def test_it_learns_from_streams_unless_a_fit_was_joint():
    stream = DropoutLogisticRegression().partial_fit(X, Y, classes=[0, 1, 2])
    assert stream.multi_class_ == "ovr"
    same = DropoutLogisticRegression(multi_class="ovr").partial_fit(X, Y, classes=[0, 1, 2])
    assert_array_equal(stream.coef_, same.coef_)
    assert not hasattr(DropoutLogisticRegression().fit(X, Y), "partial_fit")
