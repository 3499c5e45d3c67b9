"""Logistic regression under feature noise."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import log_expit, logsumexp, ndtri
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from marginout._core.fit import weights_of
from marginout._core.gaussian import Law, pieces, score_covariances, score_variances
from marginout._core.interfaces import Array
from marginout._core.validation import check_option, set_parameters
from marginout._models.linear import DropoutLinearModel
from marginout._models.online.partial_fit import OnlineClassifier
from marginout.estimators._docstrings import documented
from marginout.estimators._export import export, filled_in, one_vs_rest
from marginout.losses import Loss, logistic
from marginout.noise import Noise

#: Points at which the softmax of normal scores is averaged: probabilities are wrong by about a fifth of a
#: hundredth, and by two hundredths at most.
POINTS = 128


def log_probabilities(scores: Array, softmax: bool) -> Array:
    """Logarithms of the class probabilities for scores; several have a logistic model each, or a softmax."""
    if scores.ndim == 1:
        return np.asarray(np.column_stack([log_expit(-scores), log_expit(scores)]))
    each = scores if softmax else log_expit(scores)
    return np.asarray(each - logsumexp(each, axis=1, keepdims=True))


@lru_cache(maxsize=4)
def _points(K: int) -> Array:
    """Points that stand for the standard normal law, (POINTS, K): Sobol's, scrambled."""
    from scipy.stats.qmc import Sobol  # which takes longer to import than a small fit

    return np.asarray(ndtri(Sobol(K, seed=np.random.default_rng(0)).random(POINTS)))


def _expected_softmax(scores: Array, covariance: Array) -> Array:
    """log E softmax(s) for s ~ N(scores, covariance), (n, K)."""
    K = scores.shape[1]
    jitter = 1e-10 * np.trace(covariance, axis1=1, axis2=2) + 1e-100
    root = np.linalg.cholesky(covariance + jitter[:, None, None] * np.eye(K))
    s = scores[:, None] + np.matmul(_points(K), root.transpose(0, 2, 1))
    s -= s.max(axis=2, keepdims=True)
    np.exp(s, out=s)
    s /= s.sum(axis=2, keepdims=True)
    return np.asarray(np.log(np.maximum(s.mean(axis=1), np.finfo(float).tiny)))


class LogisticProbabilities(DropoutLinearModel):
    """Class probabilities from scores."""

    multi_class_: str
    _indicator: bool

    def _has_softmax(self) -> bool:
        """Whether the probabilities of several classes are the softmax of their scores."""
        return self.multi_class_ != "ovr"

    def _log_probabilities(self, scores: Array) -> Array:
        """Logarithms of the probabilities of scores, (n, K)."""
        if self._indicator:
            return np.asarray(log_expit(scores))
        return log_probabilities(scores[:, 0] if scores.shape[1] == 1 else scores, self._has_softmax())

    def _expected(self, X: Any) -> Array:
        """Logarithms of the expected probabilities of validated X, in which values are missing.

        With the laws of several classes, Σ_c r_c E_c p(s): the expectation under each, in its share.
        """
        law, missing = self._fitted_law(), np.isnan(X).any(axis=1)
        some = self._log_probabilities(self._raw_scores(X[~missing]))
        out = np.empty((len(X), some.shape[1]))
        out[~missing] = some
        K = out.shape[1]
        for rows in pieces(np.flatnonzero(missing), len(law.laws) * X.shape[1] + K * (K + POINTS)):
            logs, filled = law.components(X[rows])
            each = [
                log_r[:, None] + self._softened(own, X[rows], self._raw_scores(means))
                for log_r, own, means in zip(logs.T, law.laws, filled, strict=True)
            ]
            out[rows] = logsumexp(each, axis=0)
        return out

    def _softened(self, law: Law, X: Any, scores: Array) -> Array:
        """Logarithms of the expected probabilities under one law, for scores with conditional means.

        For a normal score, E σ(s) ≈ σ(m/√(1 + πv/8)). Of a softmax of normal scores, the mean over points.
        """
        W = weights_of(self).T
        if W.shape[1] > 1 and self._has_softmax():
            return _expected_softmax(scores, score_covariances(law, X, W))
        soft = scores / np.sqrt(1.0 + np.pi / 8.0 * score_variances(law, X, W))
        return self._log_probabilities(soft)

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the class probabilities.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Examples.

        Returns
        -------
        log_probabilities : array of shape (n_samples, n_classes)
            One column per class or label, in the order of `classes_`.
        """
        if self.missing == "conditional":
            check_is_fitted(self)
            return self._expected(self._validated(X, reset=False))
        return self._log_probabilities(self._raw_scores(self._checked(X)))

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities: 1/(1 + exp(−score)), divided by their sum if the classes are several.

        Of a joint model of several classes (`multi_class` is not "ovr"), the softmax of the scores: its
        minimiser in expectation has scores log p(y|x), up to a constant, both for the pairwise and for the
        multinomial loss. In any case these are probabilities for X as it is: noise has a say in the weights
        alone. Of several labels, each has a probability of its own.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Examples.

        Returns
        -------
        probabilities : array of shape (n_samples, n_classes)
            One column per class, in the order of `classes_`.
        """
        return np.exp(self.predict_log_proba(X))


@documented
class DropoutLogisticRegression(LogisticProbabilities, OnlineClassifier):
    r"""Logistic regression trained under infinitely many corruptions of the data.

    It minimises

    .. math:: F(w, b) = \tfrac12\|w\|^2 + C \sum_n s_n\, E\log(1 + e^{-y_n(w\cdot\tilde x_n + b)}),

    where x̃ is the noisy example and the expectation, over all the noise, is replaced by
    its variational bound or by its value for a normal score. The offset b is neither
    corrupted nor regularised. Several classes are treated one-vs-rest, all in one batch,
    or as one problem (`multi_class`).

    Parameters
    ----------
    {C}
        As in :class:`sklearn.linear_model.LogisticRegression`.
    {noise}
        Without noise this is plain logistic regression.
    {l1_ratio}
    {expectation}
        The latter is known as fast dropout.
    {fit_intercept}
    {class_weight}
    multi_class : {"auto", "ovr", "pairwise", "multinomial"}, default="auto"
        How several classes are told apart. "ovr" is one problem for each class against the rest,
        "pairwise" is one problem for all, as in :class:`DropoutSVC`.
        "multinomial" is one problem for all, too: the loss is log Σ_k exp(m_k − m_y + ½v_k), with
        m_k − m_y and v_k the mean and the variance of f_k − f_y; an upper bound of the expected loss
        of normal scores, whatever `expectation` says. Without noise it is multinomial logistic
        regression. "auto" is "multinomial" where the examples outnumber the features, as in most
        tables, and "ovr" elsewhere, as in text; and with l1_ratio above 0 or the solvers "irls", which
        knows "ovr" alone, and "newton", which does not know "pairwise".
    {linear.missing}
    {solver}
    {tol}
    {max_iter}
    {warm_start}
    {verbose}

    Attributes
    ----------
    {classifier.coef_}
    {classifier.intercept_}
    {classifier.classes_}
    {noise_}
    multi_class_ : {"ovr", "pairwise", "multinomial"}
        `multi_class` of the fit.
    {n_iter_}
    {classifier.objective_}
    {optimality_gap_}
    {objective_history_}
    {n_features_in_}
    {feature_names_in_}

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

    _multi_classes = ("auto", "ovr", "pairwise", "multinomial")
    _takes_several = True

    def __init__(
        self,
        C: float = 1.0,
        *,
        noise: Any = "auto",
        l1_ratio: float = 0.0,
        expectation: str = "bound",
        fit_intercept: bool = True,
        class_weight: Any = None,
        multi_class: str = "auto",
        missing: str = "error",
        solver: str = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        set_parameters(locals())

    def _kind_for(self, n: float, d: int) -> str:
        kind = super()._kind_for(n, d)
        if kind != "auto":
            return kind
        apart = n <= d or self.l1_ratio or self.solver in ("irls", "newton")
        return "ovr" if apart else "multinomial"

    def _taken(self, noise: Noise, kind: str = "ovr") -> dict[str, Any]:
        return {**super()._taken(noise, kind), "multi_class_": kind}

    def _loss(self, Y: Array) -> Loss:
        return logistic(check_option("expectation", self.expectation, ["bound", "gaussian"]))

    def to_sklearn(self) -> LogisticRegression | OneVsRestClassifier | Pipeline:
        """A fitted scikit-learn model with the same predictions and probabilities.

        Returns
        -------
        model : LogisticRegression or OneVsRestClassifier
            :class:`~sklearn.linear_model.LogisticRegression` for two classes, and for a joint model
            of more. A :class:`~sklearn.multiclass.OneVsRestClassifier` of them for more, one-vs-rest,
            and for several labels: probabilities of a LogisticRegression of several classes are a
            softmax, which these are not. It has `coef_` and `intercept_`, too. With
            ``missing="conditional"``, a pipeline of a :class:`~marginout.GaussianImputer` and that
            model: the same scores, but its probabilities do not soften.
        """

        def plain() -> LogisticRegression:
            return LogisticRegression(C=self.C, fit_intercept=self.fit_intercept)

        check_is_fitted(self)
        if not self._indicator and (len(self.classes_) == 2 or self._has_softmax()):
            return filled_in(self, export(self, plain()))
        return filled_in(self, one_vs_rest(self, plain))
