"""`partial_fit` of the linear models: validate a part of a stream, learn it, set the attributes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from marginout._core.fit import weights_of
from marginout._core.interfaces import Array
from marginout._core.missing import LINEAR_OPTIONS
from marginout._core.targets import Targets
from marginout._core.validation import (
    LARGEST,
    check_features,
    check_flag,
    check_real,
    check_solution,
)
from marginout._models.online.stream import Stream
from marginout._models.partial import Partial, PartialClassifier, PartialRegressor
from marginout._models.sparse import SparseWeights


class Online(Partial):
    """What classifiers and regressors share: the stream, and the weights that follow from it."""

    _stream: Stream | None = None
    _fits_blocks = True
    _chooses_noise = True
    _missing_options = LINEAR_OPTIONS

    def __copy__(self) -> Self:
        """Copy the stream and coef_ too: `partial_fit` writes to them in place."""
        other = type(self).__new__(type(self))
        other.__dict__.update(vars(self))
        if self._stream is not None:
            other._stream, other.coef_ = deepcopy(self._stream), self.coef_.copy()
        return other

    def _check_stream(self) -> None:
        if self.l1_ratio:
            raise AttributeError(
                f"partial_fit has the ridge alone: l1_ratio={self.l1_ratio!r} must be 0. Or fit to all "
                "examples at once."
            )

    def _learn(
        self, X: Any, y: Any, Y: Array, weights: Array, own: Array, start: Array, targets: Targets
    ) -> None:
        """Take in validated X with targets Y (n, K).

        Sets: classes_ if there are any, coef_, intercept_, n_iter_. Nothing fails once the stream has moved,
        but for the check that it is finite. Weights of features that X does not hold are not touched, and
        coef_ is not copied: for a million features and ten classes that would take longer than the rest.
        """
        if self.missing == "conditional":
            raise ValueError(
                "partial_fit cannot take missing='conditional', as the law of the features is not known "
                "before all examples are: transform X by a GaussianImputer, or choose missing='deleted'."
            )
        C = self._checked_C(weights)
        noise, fit_intercept = self._stream_noise(X, own), check_flag("fit_intercept", self.fit_intercept)
        d, K = X.shape[1], Y.shape[1]
        shift = self._shift(noise, d, fit_intercept)
        X = check_features(self._without_missing(X, noise), noise)
        loss = self._loss(Y)
        assert loss is not None
        stream = self._stream
        if stream is None or stream.broken:
            W, b = np.zeros((d, K)), start
            if hasattr(self, "coef_"):  # after `fit`
                W, b = np.array(weights_of(self).T), self.intercept_
            b = b + shift @ W if fit_intercept else np.zeros(K)
            stream = Stream(W, b, noise)
        stream.learn(X, noise, loss, Y, weights, C, fit_intercept)
        features, new, offset = stream.solution(X, C)
        try:
            check_solution({"C": C, "noise": noise}, coef_=new, intercept_=offset)
        except ValueError:
            stream.broken = True  # coef_ and intercept_ stay: from these the next call starts a new stream
            raise
        if self._stream is not stream:
            self.__dict__.update(targets.attributes(W, b), n_iter_=1)
            for name in "objective_", "optimality_gap_", "objective_history_":
                self.__dict__.pop(name, None)  # of an earlier fit
            self._stream = stream
        self._fitted_noise = noise
        self.__dict__.update(self._taken(noise))
        if sp.issparse(self.coef_):  # `sparsify` was called
            self.coef_ = weights_of(self)
        coef = np.atleast_2d(self.coef_)
        coef[:, features] = new.T
        self.intercept_ = offset - coef @ shift if fit_intercept else np.zeros(K)

    def _checked_C(self, weights: Array) -> float:
        """C; it and the weights must be such that their squares, and quotients, are finite."""
        used = weights[weights > 0]
        if len(used) and not 1 / LARGEST <= used.min() <= used.max() <= LARGEST:
            raise ValueError(
                f"sample_weight, times class_weight, reaches from {used.min():g} to {used.max():g}: in a "
                f"stream, weights must be 0, or from {1 / LARGEST:g} to {LARGEST:g}. Change C instead."
            )
        C = check_real("C", self.C, above=0)
        if C < 1 / LARGEST:
            raise ValueError(
                f"C={self.C!r} must be at least {1 / LARGEST:g} in a stream, which divides by it: raise C."
            )
        return C


class OnlineClassifier(SparseWeights, Online, PartialClassifier):
    """`partial_fit` for classifiers: one problem per class."""

    def _check_stream(self) -> None:
        if self.multi_class not in ("ovr", "auto") or self.multi_class_ != "ovr":
            raise AttributeError(
                f"partial_fit learns one problem per class: multi_class={self.multi_class!r} must be 'ovr'. "
                "Or fit to blocks of examples, with marginout.blocks."
            )
        if self._indicator:
            raise AttributeError(
                "partial_fit learns one label of each example, but the model was fitted to several: fit a "
                "clone, or wrap one in sklearn.multioutput.MultiOutputClassifier."
            )
        super()._check_stream()


class OnlineRegressor(Online, PartialRegressor):
    """`partial_fit` for regressors."""
