"""The displays draw what they are given, and matplotlib is imported only then."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from marginout import DeletionCurveDisplay
from marginout.robustness import deletion_curve

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

X, y = load_digits(return_X_y=True)
X = X / 16
TRAIN, TEST = slice(0, 500), slice(500, 700)
OPTIONS = {"rates": [0.0, 0.5, 0.9], "n_repeats": 3, "random_state": 0}


@pytest.fixture(scope="module")
def models():
    return LinearSVC().fit(X[TRAIN], y[TRAIN]), LogisticRegression(max_iter=1000).fit(X[TRAIN], y[TRAIN])


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def test_from_estimator_draws_mean_and_band(models):
    display = DeletionCurveDisplay.from_estimator(models[0], X[TEST], y[TEST], name="plain", **OPTIONS)
    curve = deletion_curve(models[0], X[TEST], y[TEST], **OPTIONS)
    assert display.figure_ is display.ax_.figure
    (line,) = display.lines_
    assert_allclose(line.get_xdata(), [0.0, 50.0, 90.0])
    assert_array_equal(line.get_ydata(), curve.mean)
    corners = display.bands_[0].get_paths()[0].vertices
    assert_allclose(corners[:, 1].max(), np.max(curve.mean + curve.std))
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["plain"]
    assert "random" in display.ax_.get_xlabel()
    assert display.ax_.get_ylabel() == "accuracy"


def test_from_estimators_shares_axes_and_numbers_names(models):
    _, ax = plt.subplots()
    display = DeletionCurveDisplay.from_estimators([*models, models[0]], X[TEST], y[TEST], ax=ax, **OPTIONS)
    assert display.ax_ is ax
    assert list(display.curves) == ["LinearSVC", "LogisticRegression", "LinearSVC 2"]
    assert_array_equal(display.lines_[0].get_ydata(), display.lines_[2].get_ydata())
    display = DeletionCurveDisplay.from_estimators(
        {"a": models[0], "b": models[1]}, X[TEST], y[TEST], **OPTIONS
    )
    assert list(display.curves) == ["a", "b"]


def test_from_curve_and_plot_again(models):
    curve = deletion_curve(models[0], X[TEST], y[TEST], [0.0, 0.02], kind="worst")
    display = DeletionCurveDisplay.from_curve(curve, color="red")
    assert display.bands_ == [None]
    assert display.lines_[0].get_color() == "red"
    first = display.ax_
    assert display.plot().ax_ is not first
    assert list(DeletionCurveDisplay.from_curve([curve, curve]).curves) == ["LinearSVC", "LinearSVC 2"]
    assert list(DeletionCurveDisplay.from_curve({"it": curve}).curves) == ["it"]


def test_rates_are_drawn_in_order(models):
    curve = deletion_curve(models[0], X[TEST], y[TEST], [0.5, 0.0], 2, random_state=0)
    line = DeletionCurveDisplay.from_curve(curve).lines_[0]
    assert list(line.get_xdata()) == [0.0, 50.0]
    assert list(line.get_ydata()) == list(curve.mean[::-1])


def test_bad_curves(models):
    with pytest.raises(TypeError, match="curve=3 must be a DeletionCurve"):
        DeletionCurveDisplay.from_curve(3)
    with pytest.raises(TypeError, match="from_estimator draws a single one"):
        DeletionCurveDisplay.from_estimators(models[0], X[TEST], y[TEST])
    with pytest.raises(TypeError, match="must be a DeletionCurve"):
        DeletionCurveDisplay({"a": 1})
    with pytest.raises(ValueError, match="curves is empty"):
        DeletionCurveDisplay.from_curve([])


def test_matplotlib_is_imported_only_when_drawing():
    code = "import sys, marginout; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
