"""Fitted models as those of scikit-learn with the same predictions: `to_sklearn`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils.validation import check_is_fitted

from marginout._core.fit import weights_of
from marginout.estimators.imputer import GaussianImputer

#: Attributes that both have.
SHARED = "coef_", "intercept_", "classes_", "n_features_in_", "feature_names_in_"


def export(fitted: Any, model: Any) -> Any:
    """Give a model of scikit-learn the attributes of a fitted one of ours."""
    check_is_fitted(fitted)
    for name in SHARED:
        if hasattr(fitted, name):
            value = getattr(fitted, name)
            value = weights_of(fitted) if sp.issparse(value) else value
            setattr(model, name, value.copy() if isinstance(value, np.ndarray) else value)
    n_iter = fitted.n_iter_
    model.n_iter_ = np.array([n_iter]) if isinstance(model, LogisticRegression) else n_iter
    return model


def filled_in(fitted: Any, model: Any) -> Any:
    """The exported model; with missing="conditional", behind an imputer that has the laws of the fit.

    It has the scores of the fitted one. Probabilities do not soften.
    """
    if fitted.missing != "conditional":
        return model
    imputer = GaussianImputer()
    law = fitted._fitted_law()
    imputer._law, imputer.mean_, imputer.rank_ = law, law.mean, law.rank
    imputer.indicator_features_ = np.empty(0, dtype=np.intp)
    imputer.n_features_in_ = fitted.n_features_in_
    if hasattr(fitted, "feature_names_in_"):
        imputer.feature_names_in_ = fitted.feature_names_in_
        for part in (model, *getattr(model, "estimators_", ())):
            del part.feature_names_in_  # what the imputer gives has no names
    return make_pipeline(imputer, model)


def one_vs_rest(fitted: Any, plain: Callable[[], Any]) -> OneVsRestClassifier:
    """A fitted model as one plain model for each class, or for each label."""
    model = OneVsRestClassifier(plain())
    model.estimators_ = []
    for coef, intercept in zip(weights_of(fitted), fitted.intercept_, strict=True):
        one = export(fitted, plain())
        one.coef_, one.intercept_ = coef[None].copy(), np.array([intercept])
        one.classes_ = np.array([0, 1])
        model.estimators_.append(one)
    labels = np.eye(len(fitted.classes_), dtype=int) if fitted._indicator else fitted.classes_
    model.label_binarizer_ = LabelBinarizer(sparse_output=True).fit(labels)
    model.classes_ = fitted.classes_.copy()
    # scikit-learn's has none of its own. Tools that read weights find them here, as in the other models.
    model.coef_, model.intercept_ = weights_of(fitted).copy(), fitted.intercept_.copy()
    model.n_features_in_ = fitted.n_features_in_
    if hasattr(fitted, "feature_names_in_"):
        model.feature_names_in_ = fitted.feature_names_in_
    return model
