"""Hidden layers for many examples: most of the way on a part of them, the rest on all."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone


class Grown(ClassifierMixin, BaseEstimator):
    """A model with a hidden layer, fitted to the first `rows` examples and then, from there, to all.

    F is a sum over examples. A part of them that weighs as much as all of them leads to the region of a
    minimum; `finish` iterations with all of them lead on.
    """

    def __init__(self, model: Any, C: float, rows: int, finish: int) -> None:
        self.model = model
        self.C = C
        self.rows = rows
        self.finish = finish

    def fit(self, X: Any, y: Any) -> Grown:
        self.classes_, count = np.unique(y), X.shape[0]
        self.model_ = clone(self.model).set_params(C=self.C)
        if count > self.rows:
            self.model_.set_params(C=self.C * count / self.rows, warm_start=True)
            self.model_.fit(X[: self.rows], y[: self.rows])
            self.model_.set_params(C=self.C, max_iter=self.finish)
        self.model_.fit(X, y)
        return self

    def predict(self, X: Any) -> Any:
        return self.model_.predict(X)

    def decision_function(self, X: Any) -> Any:
        return self.model_.decision_function(X)
