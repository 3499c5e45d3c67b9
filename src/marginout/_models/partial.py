"""`partial_fit` of classifiers and of regressors: checks of a part of a stream; `_learn` learns it."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable
from textwrap import indent
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, unique_labels

from marginout._core.fit import untouched_on_failure, with_callbacks
from marginout._core.interfaces import Array
from marginout._core.targets import Numbers, OneVsRest, Targets, check_targets, class_weights
from marginout._core.validation import check_sample_weight
from marginout._models.linear import DropoutClassifier, DropoutLinearModel, DropoutRegressor
from marginout.noise import Noise, resolve
from marginout.noise._auto import Extent

#: What classifiers and regressors say of `partial_fit`.
STREAM = """
After any number of calls, the objective that is approached is that of `fit` on all examples so far:
their expected loss with the noise integrated out, and the ridge. With ``noise="auto"``, a call
takes the rate that all examples so far bear, its own included: more calls change the noise of early
examples, whose effect fades, and not `noise_`. After `fit`, it is the rate of the fit.

A linear model has no learning rate, and how the stream is cut into calls does not matter. Its
`coef_` is updated in place: copy what must not change, by `model.coef_.copy()` or
`copy.copy(model)`. A model with a hidden layer makes one pass over the examples, in random order,
by its solver "stochastic".

Rows should come in random order, or in that of time, and not sorted by class or target. Examples
that come again count again. After `fit`, a stream starts from the fitted weights; the data of the
fit are not remembered and count no more.
"""

Method = TypeVar("Method", bound=Callable[..., Any])


def _explained(method: Method) -> Method:
    """The same method; STREAM is in its docstring, at the margin of its name."""
    if method.__doc__ is not None:  # python -OO has no docstrings
        method.__doc__ = re.sub(
            r"^( *)\{stream\}", lambda place: indent(STREAM.strip(), place[1]), method.__doc__, flags=re.M
        )
    return method


def _streams(model: Any) -> bool:
    """Whether there is a `partial_fit`, or an AttributeError that names the cure."""
    model._check_stream()
    return True


class Partial(DropoutLinearModel):
    """What both share."""

    # Of a fit: the rate, or what it was given.
    noise_: Any

    @abstractmethod
    def _check_stream(self) -> None:
        """Refuse parameters that no stream can have, with an AttributeError that names the cure."""

    @abstractmethod
    def _learn(
        self, X: Any, y: Any, Y: Array, weights: Array, own: Array, start: Array, targets: Targets
    ) -> None:
        """Take in validated X and y, with targets Y (n, K).

        `own` are the weights of the examples before those of their classes multiply them; `start` holds the
        offsets of a model without any.
        """

    #: What the stream has been like so far, where noise="auto" asks.
    _extent: Extent | None = None

    def _stream_noise(self, X: Any, weights: Array) -> Noise:
        """The noise; with noise="auto" what all examples so far bear, or that of the fit before them.

        Sets: _extent.
        """
        noise = self._noise()
        if not self._asks_for_noise():
            return noise
        if self._extent is None and isinstance(getattr(self, "noise_", None), float):
            return resolve(self.noise_)  # of a fit
        extent = Extent.of(self._without_missing(X, noise), weights)
        self._extent = extent if self._extent is None else self._extent.merge(extent)
        return self._noise_for(self._extent)


class PartialClassifier(Partial, DropoutClassifier):
    """A classifier that learns a part of a stream."""

    @available_if(_streams)  # type: ignore[untyped-decorator]
    @with_callbacks  # type: ignore[untyped-decorator]
    @_explained
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from the next examples of a stream, each of which is read once.

        {stream}

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The next examples. A linear model takes entries of a dense X that are 0 for absent, as in a
            sparse one.
        y : array-like of shape (n_samples,)
            Class labels.
        classes : array-like of shape (n_classes,), default=None
            All classes of the stream: needed in the first call, the same or left out later.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the examples, >= 0; each multiplies its example's loss.

        Returns
        -------
        self : object
            The fitted model.
        """
        with untouched_on_failure(self):
            first = not hasattr(self, "coef_")
            known = self._checked_classes(classes, first)
            X, y = self._validated(X, y, reset=first)
            check_classification_targets(y)
            own = check_sample_weight(sample_weight, X)
            labels = np.searchsorted(known, y).clip(max=len(known) - 1)
            strangers = np.unique(y[known[labels] != y])
            if len(strangers):
                raise ValueError(
                    f"y holds {strangers.tolist()[:5]}, which are not among classes={known.tolist()}: "
                    "the first call must name all classes of the stream."
                )
            targets = OneVsRest(known, self._weight_of_each(known)[:, None])
            Y, weights = targets.encode(y, own)
            self._learn(X, y, Y, weights[:, 0], own, np.zeros(targets.K), targets)
        return self

    def _checked_classes(self, classes: Any, first: bool) -> NDArray[Any]:
        """All classes, sorted: as given in the first call, as known later."""
        if classes is None:
            if first:
                raise ValueError("classes must be passed on the first call to partial_fit.")
            return self.classes_
        given = np.asarray(unique_labels(classes))
        if first and len(given) < 2:
            raise ValueError(f"classes={given.tolist()} must name at least two classes.")
        if not first and not np.array_equal(given, self.classes_):
            raise ValueError(
                f"classes={given.tolist()} is not the same as on the last call to partial_fit, "
                f"{self.classes_.tolist()}: pass the same classes, or None."
            )
        return given

    def _weight_of_each(self, classes: NDArray[Any]) -> Array:
        """The weight of every class."""
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} is not supported for partial_fit, which does not know "
                "the stream to come: pass a dict, for instance of what sklearn.utils.class_weight."
                "compute_class_weight('balanced', classes=classes, y=y) says of the labels y of a sample."
            )
        return class_weights(self.class_weight, classes)


class PartialRegressor(Partial, DropoutRegressor):
    """A regressor that learns a part of a stream."""

    @available_if(_streams)  # type: ignore[untyped-decorator]
    @with_callbacks  # type: ignore[untyped-decorator]
    @_explained
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from the next examples of a stream, each of which is read once.

        {stream}

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The next examples. A linear model takes entries of a dense X that are 0 for absent, as in a
            sparse one.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the examples, >= 0; each multiplies its example's loss.

        Returns
        -------
        self : object
            The fitted model.
        """
        with untouched_on_failure(self):
            first = not hasattr(self, "coef_")
            X, y = self._validated(X, y, y_numeric=True, reset=first)
            weights = check_sample_weight(sample_weight, X)
            targets = self._targets(Numbers.of(check_targets(y)), False, X.shape[1])
            Y, _ = targets.encode(check_targets(y), weights)
            if not first and np.atleast_2d(self.coef_).shape[0] != targets.K:
                raise ValueError(
                    f"The stream has {len(np.atleast_2d(self.coef_))} outputs, but these examples have "
                    f"{targets.K}: all calls must have the same targets; or start with a new model."
                )
            # Counted from the first target: y = 1e9 ± 1 is y = ±1.
            self._learn(X, y, Y, weights, weights, Y[np.argmax(weights > 0)], targets)
        return self
