"""Several labels or several targets of an example: a problem for each, all in one batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.multiclass import type_of_target

from marginout._core.interfaces import Array
from marginout._core.targets import Indicators, LabelsApart, Seen, Targets, check_targets
from marginout._core.validation import warn_user
from marginout._models.linear import DropoutClassifier, DropoutRegressor


class SeveralLabels(DropoutClassifier):
    """Classifiers that take an indicator matrix: whether an example has a label."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = self.multi_class in ("ovr", "auto")
        return tags

    def _validated_for_fit(self, X: Any, y: Any) -> tuple[Any, Any]:
        shape = _shape(y)
        if len(shape) != 2 or shape[1] == 1:
            return super()._validated_for_fit(X, y)
        X, y = self._validated(X, y, multi_output=True)
        if type_of_target(y) != "multilabel-indicator":
            raise ValueError(
                f"y has {y.shape[1]} columns, which must hold 0 or 1, whether an example has a label: for "
                "several questions with more answers, wrap the model in "
                "sklearn.multioutput.MultiOutputClassifier."
            )
        return X, y.toarray() if sp.issparse(y) else np.asarray(y)

    def _look(self, y: Any, weights: Array) -> tuple[NDArray[Any], Seen]:
        return (y, Indicators.of(y, weights)) if y.ndim == 2 else super()._look(y, weights)

    def _targets(self, seen: Any, fit_intercept: bool, d: int) -> Targets:
        if not seen.several:
            return super()._targets(seen, fit_intercept, d)
        if self._kind_for(0.0, d) != "ovr":  # "auto" is, where features outnumber examples
            raise ValueError(
                f"multi_class={self.multi_class!r} joins classes of which an example has one, but y is a "
                "matrix of several labels: set multi_class='ovr'."
            )
        targets = LabelsApart(seen, self.class_weight)
        if len(targets.constant):
            warn_user(
                f"The labels {targets.constant.tolist()[:5]} are the same for all examples of positive "
                "weight: they are predicted so, whatever X is.",
                UserWarning,
            )
        return targets

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the highest score, or 1 for every label of positive score, else 0.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Examples.

        Returns
        -------
        y : array of shape (n_samples,) or (n_samples, n_labels)
            Predicted classes, or an indicator matrix after a fit to one.
        """
        return (self._scores(X) > 0).astype(np.int64) if self._indicator else super().predict(X)

    def _several(self, scores: Array) -> bool:
        if not self._indicator:
            return super()._several(scores)
        return bool(np.any((scores > 0) != (scores[0] > 0)))


class SeveralTargets(DropoutRegressor):
    """Regression on one target or several."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _validated_for_fit(self, X: Any, y: Any) -> tuple[Any, Any]:
        if len(_shape(y)) != 2 or sp.issparse(y):
            return super()._validated_for_fit(X, y)
        X, y = self._validated(X, y, y_numeric=True, multi_output=True)
        return X, check_targets(y)


def _shape(y: Any) -> tuple[int, ...]:
    return tuple(y.shape if hasattr(y, "shape") else np.asarray(y).shape)
