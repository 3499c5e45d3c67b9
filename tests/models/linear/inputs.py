"""What tests of bad, odd and extreme input share.

Never a crash, a hang, a RuntimeWarning (pytest turns warnings into errors here), a NaN, changed input,
or half a fit: after an error no attribute ending with an underscore exists.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.base import is_classifier

from tests.problems import CLASSIFIERS, ESTIMATORS, fitted_attributes

N, D = 30, 4
_RNG = np.random.default_rng(0)
X = np.round(_RNG.normal(size=(N, D)), 3)
X.flags.writeable = False
TARGET = X @ [1.0, 2.0, 0.0, -1.0] + 0.1 * _RNG.normal(size=N)
TARGET.flags.writeable = False
LABELS = (X[:, 0] + 0.3 * _RNG.normal(size=N) > 0.2).astype(int)
LABELS.flags.writeable = False

each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS)
each_classifier = pytest.mark.parametrize("estimator", CLASSIFIERS)


def targets(estimator):
    """Targets that suit an estimator."""
    return LABELS if is_classifier(estimator()) else TARGET


def snapshot(value):
    """A copy to compare with later; objects inside of arrays are the same objects."""
    return value.copy() if isinstance(value, np.ndarray) else copy.deepcopy(value)


def assert_unchanged(value, before) -> None:
    if sp.issparse(value):
        assert (value.shape, value.dtype, value.format) == (before.shape, before.dtype, before.format)
        for name in {"data", "indices", "indptr", "offsets"} & set(dir(value)):
            assert_array_equal(getattr(value, name), getattr(before, name))
    elif isinstance(value, np.ndarray):
        assert (value.dtype, value.shape) == (before.dtype, before.shape)
        if value.dtype == object:
            assert all(a is b for a, b in zip(value.flat, before.flat, strict=True))
        else:
            assert_array_equal(value, before)
    else:
        assert type(value) is type(before)


def refused(model, data, y, match: str, sample_weight=None) -> None:
    """The fit is refused with a message, leaves no trace on the model and none on the input."""
    given = data, y, sample_weight
    before = [snapshot(value) for value in given]
    with pytest.raises((ValueError, TypeError), match=match):
        model.fit(data, y, sample_weight=sample_weight)
    assert fitted_attributes(model) == {}
    for value, old in zip(given, before, strict=True):
        assert_unchanged(value, old)


def accepted(model, data, y, sample_weight=None):
    """The fit warns of nothing, leaves the input alone, and is finite through and through."""
    given = data, y, sample_weight
    before = [snapshot(value) for value in given]
    model.fit(data, y, sample_weight=sample_weight)
    for value, old in zip(given, before, strict=True):
        assert_unchanged(value, old)
    for name in "coef_", "intercept_", "objective_", "objective_history_":
        assert np.isfinite(getattr(model, name)).all(), name
    assert not np.isnan(model.optimality_gap_)
    scores = model.decision_function(data) if is_classifier(model) else model.predict(data)
    assert np.isfinite(scores).all()
    return model


def spoiled(values, value, at: int = 3):
    """A writeable copy with one bad entry."""
    values = np.array(values, dtype=float)
    values.flat[at] = value
    return values
