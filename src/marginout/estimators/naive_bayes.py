"""The log-count ratios of naive Bayes as scales of the features."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from marginout._core.fit import untouched_on_failure
from marginout._core.validation import check_real, check_size, tidy
from marginout.estimators._docstrings import documented

Array = NDArray[np.float64]


@documented
class NaiveBayesScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Multiply every feature by how much more often one class has it than the others.

    Of a class k, the log-count ratios are those of naive Bayes (Wang and Manning, 2012):

    .. math:: r_k = \log\frac{p_k / \lVert p_k\rVert_1}{q_k / \lVert q_k\rVert_1}, \qquad
              p_k = \alpha + \sum_{n: y_n = k} x_n, \quad q_k = \alpha + \sum_{n: y_n \neq k} x_n.

    Two classes have opposite ratios, and features are multiplied by those of the second. Of several classes,
    features are multiplied by the root mean square of the ratios. In front of a linear model this is a
    different penalty for every weight: a word that tells the classes apart is cheap to use.

    Parameters
    ----------
    alpha : float, default=1.0
        What is added to every count, above 0. The larger, the less rare features count.

    Attributes
    ----------
    scale_ : array of shape (n_features,)
        What features are multiplied by.
    log_ratios_ : array of shape (n_classes, n_features), or (1, n_features) with two classes
        r, one row per class. Two classes have one row, that of the second.
    classes_ : array of shape (n_classes,)
        The classes, sorted.
    {n_features_in_}
    {feature_names_in_}

    Notes
    -----
    It suits text: counts of words, or better, whether a word occurs (``CountVectorizer(binary=True)``). A
    sparse X stays sparse. With several classes, ``OneVsRestClassifier(make_pipeline(NaiveBayesScaler(),
    DropoutSVC()))`` has a scale of its own for every class, at the cost of one fit each.

    References
    ----------
    S. Wang and C. D. Manning. Baselines and bigrams: simple, good sentiment and topic classification.
    ACL 2012.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> from sklearn.pipeline import make_pipeline
    >>> from marginout import DropoutLogisticRegression, NaiveBayesScaler
    >>> texts = ["good film", "a good plot", "bad film", "a bad plot"]
    >>> model = make_pipeline(CountVectorizer(binary=True), NaiveBayesScaler(), DropoutLogisticRegression())
    >>> model.fit(texts, [1, 1, 0, 0]).predict(["a good show"])
    array([1])
    """

    def __init__(self, *, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def fit(self, X: Any, y: Any) -> Self:
        """Count the features of every class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Counts, or 0 and 1: not negative.
        y : array-like of shape (n_samples,)
            Labels of at least two classes.

        Returns
        -------
        self : object
            The fitted scaler.
        """
        alpha = check_real("alpha", self.alpha, above=0)
        with untouched_on_failure(self):
            X, y = validate_data(self, tidy(X), y, accept_sparse="csr", dtype=[np.float64, np.float32])
            check_classification_targets(y)
            classes, labels = np.unique(column_or_1d(y, warn=True), return_inverse=True)
            if len(classes) < 2:
                raise ValueError(
                    f"y has one class, {classes.tolist()[0]!r}: ratios need examples of two or more."
                )
            self._check_counts(X)
            member = sp.csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))))
            counts = np.asarray((member @ X.astype(np.float64)).toarray() if sp.issparse(X) else member @ X)
        ratios = _log_ratios(counts, alpha)
        self.classes_ = classes
        self.log_ratios_ = ratios[1:] if len(classes) == 2 else ratios
        self.scale_ = ratios[1] if len(classes) == 2 else np.sqrt((ratios**2).mean(axis=0))
        return self

    def transform(self, X: Any) -> Any:
        """Multiply the features by their scales.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Examples.

        Returns
        -------
        X : array or CSR matrix of shape (n_samples, n_features)
            In float32 if X is.
        """
        check_is_fitted(self)
        options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
        X = validate_data(self, tidy(X), reset=False, **options)
        self._check_counts(X)
        scale = self.scale_.astype(X.dtype)
        if not sp.issparse(X):
            return X * scale
        scaled = X.copy()
        scaled.data *= scale[X.indices]
        return scaled

    def _check_counts(self, X: Any) -> None:
        values = X.data if sp.issparse(X) else X
        if not values.size:
            return
        low, high = float(values.min()), float(values.max())
        if low < 0:
            raise ValueError(
                f"Negative values in data passed to X: {low:g}. NaiveBayesScaler needs counts, or 0 and 1: "
                "put it directly after the vectorizer, before features are centred."
            )
        check_size("X", low, high)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _log_ratios(counts: Array, alpha: float) -> Array:
    """r of every class from the sums of its examples."""
    p = alpha + counts
    q = alpha + np.maximum(counts.sum(axis=0) - counts, 0)
    of_class, of_others = (np.log(part / part.sum(axis=1, keepdims=True)) for part in (p, q))
    return np.asarray(of_class - of_others)
