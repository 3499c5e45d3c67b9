"""Logistic regression under feature noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, logsumexp
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import LabelBinarizer

from marginout._core.validation import check_option
from marginout.estimators._online import OnlineClassifier
from marginout.losses import Loss, logistic

Array = NDArray[np.float64]


class LogisticProbabilities:
    """Class probabilities from scores."""

    _scores: Callable[[Any], Array]

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the class probabilities.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        log_probabilities : array of shape (n_samples, n_classes)
        """
        scores = self._scores(X)
        if scores.ndim == 1:
            return np.asarray(np.column_stack([log_expit(-scores), log_expit(scores)]))
        each = log_expit(scores)
        return np.asarray(each - logsumexp(each, axis=1, keepdims=True))

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities: 1/(1 + exp(−score)), normalised over the classes when they are several.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        probabilities : array of shape (n_samples, n_classes)
        """
        return np.exp(self.predict_log_proba(X))


class DropoutLogisticRegression(LogisticProbabilities, OnlineClassifier):
    r"""Logistic regression trained under infinitely many corruptions of the data.

    It minimises

    .. math:: F(w, b) = \tfrac12\|w\|^2 + C \sum_n s_n\, E\log(1 + e^{-y_n(w\cdot\tilde x_n + b)}),

    where x̃ is the noisy example and the expectation, over all the noise, is replaced by
    its variational bound or by its value for a normal score. The offset b is neither
    corrupted nor regularised. Several classes are treated one-vs-rest, all in one batch.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss against the ridge, as in
        :class:`sklearn.linear_model.LogisticRegression`.
    noise : float or noise model, default=0.5
        A dropout rate (the probability that a feature is deleted), or a model from
        :mod:`marginout.noise`. Without noise this is plain logistic regression.
    expectation : {"bound", "gaussian"}, default="bound"
        The paper's bound on the expected loss, or the expected loss of a normal score
        (fast dropout).
    fit_intercept : bool, default=True
        Whether to fit an offset.
    class_weight : dict, "balanced" or None, default=None
        A dict multiplies each example's weight by that of its class. "balanced" gives
        both sides of every one-vs-rest problem the same total weight.
    missing : {"error", "deleted"}, default="error"
        What NaN or null in X means: an error, or a feature that is dead in this example. It adds
        nothing to the score; where the noise is unbiased, a share s of dead features (of groups,
        where the noise has groups) multiplies the others by 1/(1 − s), and under raw deletion they
        stay as they are, in training and prediction alike. The offset is never touched.
    solver : {"auto", "irls", "lbfgs", "ncg"}, default="auto"
        "irls" is the paper's algorithm, "auto" is "ncg", nonlinear conjugate
        gradients. All reach the same optimum. Without noise, small problems go to Newton's
        method whatever is said here.
    tol : float, default=1e-3
        The fit ends when the objective is estimated to be within tol/10 (relative) of its
        minimum; a factor of ten is left for the estimate to err.
    max_iter : int, default=1000
        Most iterations; reaching it warns, with the distance left.
    warm_start : bool, default=False
        Start from the last solution.
    verbose : int, default=0
        Print a line per iteration.

    Attributes
    ----------
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
    intercept_ : array of shape (1,) or (n_classes,)
    classes_ : array of shape (n_classes,)
    n_iter_ : int
    objective_ : float
        F at the solution, summed over the one-vs-rest problems.
    optimality_gap_ : float
        Certificate: `objective_` exceeds the minimum by no more than this.
    objective_history_ : array of shape (n_iterations,)
        F after every iteration.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)
        When the features of X all have names.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from marginout import DropoutLogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), DropoutLogisticRegression(noise=0.3)).fit(X, y)
    >>> model.predict_proba(X[:2]).shape
    (2, 2)
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        noise: Any = 0.5,
        expectation: str = "bound",
        fit_intercept: bool = True,
        class_weight: Any = None,
        missing: str = "error",
        solver: str = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.noise = noise
        self.expectation = expectation
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.missing = missing
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.verbose = verbose

    def _loss(self, Y: Array) -> Loss:
        return logistic(check_option("expectation", self.expectation, ["bound", "gaussian"]))

    def to_sklearn(self) -> LogisticRegression | OneVsRestClassifier:
        """A fitted scikit-learn model with the same predictions and probabilities.

        :class:`~sklearn.linear_model.LogisticRegression` for two classes, and a
        :class:`~sklearn.multiclass.OneVsRestClassifier` of them for more.
        """

        def plain() -> LogisticRegression:
            return LogisticRegression(C=self.C, fit_intercept=self.fit_intercept)

        whole = self._export(plain())
        if len(self.classes_) == 2:
            return whole
        model = OneVsRestClassifier(plain())
        model.estimators_ = []
        for coef, intercept in zip(self.coef_, self.intercept_, strict=True):
            one = self._export(plain())
            one.coef_, one.intercept_ = coef[None].copy(), np.array([intercept])
            one.classes_ = np.array([0, 1])
            model.estimators_.append(one)
        model.label_binarizer_ = LabelBinarizer(sparse_output=True).fit(self.classes_)
        model.classes_ = self.classes_.copy()
        model.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            model.feature_names_in_ = self.feature_names_in_
        return model
