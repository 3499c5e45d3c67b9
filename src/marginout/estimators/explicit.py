"""Explicit corruption: any estimator, trained on sampled corrupted copies of the data."""

from __future__ import annotations

import inspect
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MetaEstimatorMixin,
    RegressorMixin,
    clone,
    is_classifier,
    is_regressor,
)
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    get_routing_for_object,
    process_routing,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from marginout._core.fit import untouched_on_failure
from marginout._core.interfaces import Array
from marginout._core.validation import (
    check_count,
    check_features,
    check_flag,
    check_sample_weight,
    make_generator,
    set_parameters,
    tidy,
)
from marginout.estimators._docstrings import documented
from marginout.noise import Noise, resolve


def _delegates(name: str) -> Any:
    """Make a method available if the wrapped estimator has it; the fitted one is asked if there is one."""

    def check(self: Any) -> bool:
        getattr(self.estimator_ if hasattr(self, "estimator_") else self.estimator, name)
        return True

    return available_if(check)


def _routes_metadata() -> bool:
    return bool(get_config()["enable_metadata_routing"])


class _ExplicitCorruption(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the classifier and the regressor."""

    def __init__(
        self,
        estimator: Any,
        *,
        noise: Any = 0.5,
        n_copies: int = 16,
        blocks: bool = True,
        random_state: Any = None,
    ) -> None:
        set_parameters(locals())

    # `sample_weight` is not in the signature: scikit-learn would take it for a promise that a weight of two
    # equals an example given twice, but two examples are never corrupted in the same way.
    def fit(self, X: Any, y: Any, **params: Any) -> Self:
        """Fit a clone of the estimator to the corrupted copies.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data. Sparse data stay sparse, unless the noise is additive.
        y : array-like of shape (n_samples,)
            Targets.
        **params : dict
            `sample_weight`, one number >= 0 per example (each copy gets 1/M of it), where the estimator
            takes it, and other metadata for the estimator's `fit` or `partial_fit`. They are routed where
            metadata routing is enabled. Arrays of one entry per example are repeated for every copy.

        Returns
        -------
        self : object
            The fitted model.
        """
        noise = resolve(self.noise)
        n_copies = check_count("n_copies", self.n_copies, 1)
        generator = make_generator(self.random_state)
        method = self._check_estimator()
        with untouched_on_failure(self):
            numeric = is_regressor(self)
            X, y = validate_data(self, tidy(X), y, y_numeric=numeric, **self._accepted())
            if not numeric:
                check_classification_targets(y)
            noise = noise.bind(getattr(self, "feature_names_in_", None))
            check_features(np.nan_to_num(X) if not sp.issparse(X) and self._takes_nan() else X, noise)
            noise.check_lengths(X.shape[1])
            params = self._route(params, method)
            name, given = self._weights_name(method), params.pop("sample_weight", None)
            weights = check_sample_weight(given, X) / n_copies
            if not numeric:
                _check_classes(y, weights)
            if name is not None:
                params[name] = weights
            elif given is not None:
                raise ValueError(
                    f"estimator={self.estimator!r} takes no sample_weight in {method}: leave sample_weight "
                    "out, or choose an estimator that supports it."
                )
            seed = int(generator.integers(2**63))
            model = self._seeded(generator)
            copies = _Copies(X, noise, n_copies, seed)
            train = _train_in_blocks if method == "partial_fit" else _train_on_all
            train(model, copies, y, params)
        self.estimator_ = model
        return self

    def _check_estimator(self) -> str:
        """The name of the method that trains; raise if the estimator does not suit."""
        estimator = self.estimator
        if isinstance(estimator, type) or not hasattr(estimator, "fit"):
            raise TypeError(f"estimator={estimator!r} must be an estimator, such as LogisticRegression().")
        if not (is_regressor if is_regressor(self) else is_classifier)(estimator):
            raise ValueError(
                f"estimator={estimator!r} does not suit {type(self).__name__}: give a classifier to "
                "ExplicitCorruptionClassifier and a regressor to ExplicitCorruptionRegressor."
            )
        check_flag("blocks", self.blocks)
        return self._method()

    def _weights_name(self, method: str) -> str | None:
        """What the estimator calls the weights of examples, if it takes any; a pipeline's last step may."""
        name, estimator = "sample_weight", self.estimator
        if _routes_metadata() and isinstance(estimator, Pipeline):
            return name if get_routing_for_object(estimator).consumes(method, [name]) else None
        while isinstance(estimator, Pipeline):
            step, estimator = estimator.steps[-1]
            name = name.replace("sample_weight", f"{step}__sample_weight")
        return name if "sample_weight" in inspect.signature(getattr(estimator, method)).parameters else None

    def _method(self) -> str:
        """`partial_fit`, where copies are given one by one; the laws of missing="conditional" need all."""
        streams = self.blocks and hasattr(self.estimator, "partial_fit")
        waits = streams and self.estimator.get_params(deep=False).get("missing") == "conditional"
        return "partial_fit" if streams and not waits else "fit"

    def _route(self, params: dict[str, Any], method: str) -> dict[str, Any]:
        """The metadata for the estimator: all, or where routing is enabled those that it requests."""
        if params and _routes_metadata():
            return dict(process_routing(self, "fit", **params).estimator[method])
        return dict(params)

    def _seeded(self, generator: np.random.Generator) -> Any:
        """A clone; if this model has a random state, every random_state of None in it is given a seed."""
        model = clone(self.estimator)
        if self.random_state is None:
            return model
        seeds = {
            name: int(generator.integers(2**31))
            for name, value in sorted(model.get_params(deep=True).items())
            if value is None and (name == "random_state" or name.endswith("__random_state"))
        }
        return model.set_params(**seeds)

    def get_metadata_routing(self) -> MetadataRouter:
        """The metadata routing of this object: all metadata go to the method that trains the estimator.

        Returns
        -------
        routing : MetadataRouter
            What the wrapped estimator asks for.
        """
        mapping = MethodMapping().add(caller="fit", callee=self._method())
        return MetadataRouter(owner=self).add(estimator=self.estimator, method_mapping=mapping)

    def _call(self, method: str, X: Any) -> NDArray[Any]:
        check_is_fitted(self)
        X = validate_data(self, tidy(X), reset=False, **self._accepted())
        return np.asarray(getattr(self.estimator_, method)(X))

    def _accepted(self) -> dict[str, Any]:
        """What X may be: it may hold NaN if the copies do, or if the estimator takes NaN."""
        formats = False if getattr(self.noise, "writes_nan", False) else "csr"
        finite = "allow-nan" if self._takes_nan() else True
        return {"accept_sparse": formats, "dtype": [np.float64, np.float32], "ensure_all_finite": finite}

    def _takes_nan(self) -> bool:
        """Whether the noise writes NaN, or the estimator takes it, of a pipeline the first step."""
        first = self.estimator
        while isinstance(first, Pipeline):
            first = next((step for _, step in first.steps if step not in (None, "passthrough")), first[-1])
        tags = get_tags(first).input_tags if hasattr(first, "fit") else None
        return bool(getattr(self.noise, "writes_nan", False) or (tags is not None and tags.allow_nan))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predictions of the fitted estimator.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Examples.

        Returns
        -------
        y : array of shape (n_samples,)
            Predicted classes or targets.
        """
        return self._call("predict", X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
        tags.input_tags.positive_only = bool(getattr(self.noise, "positive_only", False))
        tags.input_tags.allow_nan = self._takes_nan()
        return tags


@documented
class ExplicitCorruptionClassifier(ClassifierMixin, _ExplicitCorruption):  # type: ignore[misc]
    r"""Any classifier, trained on M sampled corrupted copies of the data.

    With x̃ the noisy example and loss the estimator's, it minimises

    .. math:: \sum_n \frac{s_n}{M} \sum_{m=1}^{M} \mathrm{loss}(y_n, \tilde x_{nm})

    instead of the expected loss that the rest of the library minimises, and tends to it as M grows.

    Parameters
    ----------
    estimator : classifier
        Any classifier; it is cloned, never changed. One whose `fit` takes a `sample_weight`, or a pipeline
        that ends with one, gives each copy the weight 1/M. Others see M times as many examples.
    {corrupted.noise}
    {copies.n_copies}
    {copies.blocks}
    {copies.random_state}

    Attributes
    ----------
    estimator_ : classifier
        The fitted clone.
    {classifier.classes_}
    {n_features_in_}
    {feature_names_in_}

    Notes
    -----
    Estimators that average the loss over the examples and do not divide by the sum of their
    weights, such as :class:`~sklearn.linear_model.SGDClassifier`, have a ridge that is M times heavier if all
    weights are 1/M: divide their `alpha` by M.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from marginout import ExplicitCorruptionClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> plain = LogisticRegression(max_iter=1000)
    >>> model = ExplicitCorruptionClassifier(plain, noise=0.3, n_copies=4, random_state=0).fit(X / 16, y)
    >>> bool(model.score(X / 16, y) > 0.9)
    True
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # A few noisy copies, perhaps each seen once: no promise about clean accuracy.
        tags.classifier_tags.poor_score = True
        return tags

    @property
    def classes_(self) -> NDArray[Any]:
        """The class labels."""
        check_is_fitted(self, "estimator_")
        return np.asarray(self.estimator_.classes_)

    @_delegates("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Array:
        """Scores of the fitted estimator.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Examples.

        Returns
        -------
        scores : array of shape (n_samples,) or (n_samples, n_classes)
            One per example for two classes, one per class for more.
        """
        return self._call("decision_function", X)

    @_delegates("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Class probabilities of the fitted estimator.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Examples.

        Returns
        -------
        probabilities : array of shape (n_samples, n_classes)
            One column per class, in the order of `classes_`.
        """
        return self._call("predict_proba", X)

    @_delegates("predict_log_proba")  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the class probabilities of the fitted estimator.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Examples.

        Returns
        -------
        log_probabilities : array of shape (n_samples, n_classes)
            One column per class, in the order of `classes_`.
        """
        return self._call("predict_log_proba", X)


@documented
class ExplicitCorruptionRegressor(RegressorMixin, _ExplicitCorruption):  # type: ignore[misc]
    r"""Any regressor, trained on M sampled corrupted copies of the data.

    With x̃ the noisy example and loss the estimator's, it minimises

    .. math:: \sum_n \frac{s_n}{M} \sum_{m=1}^{M} \mathrm{loss}(y_n, \tilde x_{nm}).

    Parameters
    ----------
    estimator : regressor
        Any regressor; it is cloned, never changed. One whose `fit` takes a `sample_weight`, or a pipeline
        that ends with one, gives each copy the weight 1/M. Others see M times as many examples.
    {corrupted.noise}
    {copies.n_copies}
    {copies.blocks}
    {copies.random_state}

    Attributes
    ----------
    estimator_ : regressor
        The fitted clone.
    {n_features_in_}
    {feature_names_in_}

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from marginout import ExplicitCorruptionRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> ExplicitCorruptionRegressor(Ridge(), noise=0.1, random_state=0).fit(X, y).predict(X).shape
    (442,)
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Noise trades the score on clean data for that on corrupted data: no promise about the first.
        tags.regressor_tags.poor_score = True
        return tags


def _check_classes(y: Any, weights: Array) -> None:
    """Raise if there are no two classes to tell apart."""
    present = np.unique(y[weights > 0])
    if len(present) < 2:
        raise ValueError(
            f"y has examples of positive sample_weight in one class only ({present[0]!r}): a classifier "
            "needs at least two classes."
        )


class _Copies:
    """The corrupted copies of X, each with a seed of its own."""

    def __init__(self, X: Any, noise: Noise, count: int, seed: int) -> None:
        self._X, self._noise, self.count, self._seed = X, noise, count, seed
        self.n = X.shape[0]

    def copy(self, m: int) -> Any:
        X = self._noise.corrupt(self._X, np.random.default_rng((self._seed, m)))
        if sp.issparse(X):
            X.eliminate_zeros()  # deleted entries need no memory
        return X

    def all(self) -> Any:
        first = self.copy(0)
        if sp.issparse(first):
            return sp.vstack([first, *(self.copy(m) for m in range(1, self.count))], format="csr")
        whole = np.empty((self.count * self.n, first.shape[1]), dtype=first.dtype)
        for m in range(self.count):
            whole[m * self.n : (m + 1) * self.n] = first if m == 0 else self.copy(m)
        return whole

    def repeat(self, value: Any) -> Any:
        """Repeat a value of one entry per example for every copy; return other values as they are."""
        if np.ndim(value) == 0 or np.shape(value)[0] != self.n:
            return value
        if sp.issparse(value):
            return sp.vstack([value] * self.count, format="csr")
        return np.concatenate([np.asarray(value)] * self.count)


def _train_on_all(model: Any, copies: _Copies, y: Any, params: dict[str, Any]) -> None:
    repeated = {name: copies.repeat(value) for name, value in params.items()}
    model.fit(copies.all(), copies.repeat(y), **repeated)


def _train_in_blocks(model: Any, copies: _Copies, y: Any, params: dict[str, Any]) -> None:
    if is_classifier(model):
        params = {**params, "classes": np.unique(y)}
    for m in range(copies.count):
        model.partial_fit(copies.copy(m), y, **params)
