"""The displays draw what they are given."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import scale

import marginout
from marginout import DropoutSVRCV
from marginout.noise import Gaussian
from tests.paper import DropoutSVC, DropoutSVCCV

matplotlib = pytest.importorskip("matplotlib", reason="the displays draw with matplotlib")
matplotlib.use("Agg")
from marginout.plotting import PathDisplay, ValidationMapDisplay  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::marginout.GridEdgeWarning")


@pytest.fixture(autouse=True)
def close():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


def test_validation_map_shows_errors_and_marks_the_chosen_cell():
    X, y = load_breast_cancer(return_X_y=True)
    search = DropoutSVCCV([0.01, 0.1, 1.0], [0.1, 0.4, 0.7, 0.9], cv=3, select="one_se").fit(scale(X), y)
    display = ValidationMapDisplay.from_estimator(search, annotate=True)
    assert_allclose(display.im_.get_array(), 1 - search.scores_.mean(axis=0))
    (j,), (i,) = display.marker_.get_data()
    assert search.Cs_[i] == search.C_
    assert search.noises_[j] == search.noise_
    assert [t.get_text() for t in display.ax_.get_xticklabels()] == ["0.1", "0.4", "0.7", "0.9"]
    assert len(display.ax_.texts) == 12
    with pytest.raises(NotFittedError):
        ValidationMapDisplay.from_estimator(DropoutSVCCV())


def test_validation_map_of_a_regression_shows_the_score_in_given_axes():
    import matplotlib.pyplot as plt

    X, y = load_diabetes(return_X_y=True)
    search = DropoutSVRCV([0.1, 1.0], [0.1, Gaussian(0.1)], cv=3).fit(scale(X), scale(y))
    axes = plt.subplots()[1]
    display = ValidationMapDisplay.from_estimator(search, ax=axes)
    assert display.ax_ is axes
    assert_allclose(display.im_.get_array(), search.scores_.mean(axis=0))
    assert display.name == "score"


def test_path_display_draws_the_largest_weights():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    display = PathDisplay.from_estimator(DropoutSVC(C=0.1), X, y, noises=[0.1, 0.5, 0.9], top=5)
    assert len(display.lines_) == 5
    W = display.path.coefs[0, :, 0]
    largest = np.abs(W).max(axis=0).argmax()
    line = display.lines_[0]
    assert line.get_label() == str(largest)
    assert_allclose(line.get_xdata(), [0.1, 0.5, 0.9])
    assert_allclose(line.get_ydata(), W[:, largest])
    path = marginout.path(DropoutSVC(), X, y, Cs=[0.01, 0.1], noises=[0.1, Gaussian(0.2)])
    names = load_breast_cancer().feature_names
    named = PathDisplay(path).plot(C=0, top=2, feature_names=names)
    assert named.lines_[0].get_label() in names
    assert [t.get_text() for t in named.ax_.get_xticklabels()] == ["0.1", "Gaussian(variance=0.2)"]
