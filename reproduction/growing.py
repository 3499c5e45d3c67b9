"""Fit hidden layers to many examples: most iterations on a part of them, the last ones on all."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone


class Grown(ClassifierMixin, BaseEstimator):
    """A model with a hidden layer, fitted to the first of `parts` parts of the examples, then to all.

    F is a sum over examples. A part of them, with C multiplied so that it has the weight of all of them,
    leads near a minimum. `finish` iterations with all examples continue from there.
    """

    def __init__(self, model: Any, C: float, parts: int, finish: int) -> None:
        self.model = model
        self.C = C
        self.parts = parts
        self.finish = finish

    def fit(self, X: Any, y: Any) -> Grown:
        self.classes_, rows = np.unique(y), X.shape[0] // self.parts
        if len(np.unique(y[:rows])) < len(self.classes_):
            raise ValueError(f"The first of parts={self.parts} parts lacks a class: shuffle, or lower parts.")
        self.model_ = clone(self.model).set_params(C=self.C * X.shape[0] / rows, warm_start=True)
        self.model_.fit(X[:rows], y[:rows])
        self.model_.set_params(C=self.C, max_iter=self.finish).fit(X, y)
        return self

    def predict(self, X: Any) -> Any:
        return self.model_.predict(X)

    def decision_function(self, X: Any) -> Any:
        return self.model_.decision_function(X)
