"""Fitted models as those of scikit-learn with the same predictions: `to_sklearn`."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from marginout._core.fit import weights_of

#: Attributes that both have.
SHARED = "coef_", "intercept_", "classes_", "n_features_in_", "feature_names_in_"


def export(fitted: Any, model: Any) -> Any:
    """Give a model of scikit-learn the attributes of a fitted one of ours."""
    check_is_fitted(fitted)
    if fitted.missing == "conditional":
        raise ValueError(
            "to_sklearn() has no counterpart of missing='conditional': put a GaussianImputer in front of "
            "a model with missing='error', and export the fitted model."
        )
    for name in SHARED:
        if hasattr(fitted, name):
            value = getattr(fitted, name)
            value = weights_of(fitted) if sp.issparse(value) else value
            setattr(model, name, value.copy() if isinstance(value, np.ndarray) else value)
    n_iter = fitted.n_iter_
    model.n_iter_ = np.array([n_iter]) if isinstance(model, LogisticRegression) else n_iter
    return model
