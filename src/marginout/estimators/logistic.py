"""Logistic regression under feature noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import log_expit, logsumexp
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.validation import check_is_fitted

from marginout._core.fit import weights_of
from marginout._core.gaussian import score_variances
from marginout._core.interfaces import Array
from marginout._core.validation import check_option, set_parameters
from marginout._models.linear import DropoutLinearModel
from marginout._models.online.partial_fit import OnlineClassifier
from marginout.estimators._docstrings import documented
from marginout.estimators._export import export, one_vs_rest
from marginout.losses import Loss, logistic
from marginout.noise import Noise


def log_probabilities(scores: Array, softmax: bool) -> Array:
    """Logarithms of the class probabilities for scores; several have a logistic model each, or a softmax."""
    if scores.ndim == 1:
        return np.asarray(np.column_stack([log_expit(-scores), log_expit(scores)]))
    each = scores if softmax else log_expit(scores)
    return np.asarray(each - logsumexp(each, axis=1, keepdims=True))


class LogisticProbabilities(DropoutLinearModel):
    """Class probabilities from scores."""

    multi_class_: str
    _indicator: bool

    def _has_softmax(self) -> bool:
        """Whether the probabilities of several classes are the softmax of their scores."""
        return self.multi_class_ != "ovr"

    def _softened(self, X: Any) -> Array:
        """Scores of which the logistic function is the expected probability where values are missing.

        For a normal score, E σ(s) ≈ σ(m/√(1 + πv/8)). Of a softmax, 1/p_k = Σ_j exp(s_j − s_k), and each
        difference is divided likewise.
        """
        scores = self._scores(X)
        if self.missing != "conditional":
            return scores
        law, X, W = self._fitted_law(), self._validated(X, reset=False), weights_of(self).T

        def soft(m: Array, W: Array) -> Array:
            return np.asarray(m / np.sqrt(1.0 + np.pi / 8.0 * score_variances(law, X, W)))

        if scores.ndim == 1:
            return soft(scores[:, None], W)[:, 0]
        if not self._has_softmax():
            return soft(scores, W)
        each = [soft(scores - own[:, None], W - w[:, None]) for own, w in zip(scores.T, W.T, strict=True)]
        return -np.column_stack([logsumexp(one, axis=1) for one in each])

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
        scores = self._softened(X)
        return log_expit(scores) if self._indicator else log_probabilities(scores, self._has_softmax())

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
        tables, and "ovr" elsewhere, as in text; and with l1_ratio above 0 or the solvers "irls" and
        "newton", which know "ovr" alone.
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

    def to_sklearn(self) -> LogisticRegression | OneVsRestClassifier:
        """A fitted scikit-learn model with the same predictions and probabilities.

        Returns
        -------
        model : LogisticRegression or OneVsRestClassifier
            :class:`~sklearn.linear_model.LogisticRegression` for two classes, and for a joint model
            of more. A :class:`~sklearn.multiclass.OneVsRestClassifier` of them for more, one-vs-rest,
            and for several labels.
        """

        def plain() -> LogisticRegression:
            return LogisticRegression(C=self.C, fit_intercept=self.fit_intercept)

        check_is_fitted(self)
        if not self._indicator and (len(self.classes_) == 2 or self._has_softmax()):
            return export(self, plain())
        return one_vs_rest(self, plain)
