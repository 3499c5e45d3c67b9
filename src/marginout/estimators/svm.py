"""Support vector machines under feature noise: DropoutSVC and DropoutSVR."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC, LinearSVR

from marginout._core.interfaces import Array
from marginout._core.validation import check_option, check_real, set_parameters
from marginout._models.online.partial_fit import OnlineClassifier, OnlineRegressor
from marginout.estimators._docstrings import documented
from marginout.estimators._export import export, filled_in, one_vs_rest
from marginout.losses import HINGES, EpsilonInsensitive, Loss


def hinge_loss(model: Any) -> Loss:
    """The loss of a support vector classifier, by its parameters loss, margin and expectation."""
    make = HINGES[check_option("loss", model.loss, list(HINGES))]
    margin = check_real("margin", model.margin, above=0)
    return make(margin, check_option("expectation", model.expectation, ["bound", "gaussian"]))


def tube_loss(model: Any, Y: Array) -> Loss:
    """The loss of a support vector regression, by its parameters epsilon and expectation, for targets Y."""
    epsilon = check_real("epsilon", model.epsilon, least=0)
    expectation = check_option("expectation", model.expectation, ["bound", "gaussian"])
    return EpsilonInsensitive(epsilon, expectation, scale=float(np.ptp(Y)) or 1.0)


@documented
class DropoutSVC(OnlineClassifier):
    r"""Linear support vector classifier trained under infinitely many corruptions of the data.

    It minimises

    .. math:: F(w, b) = \tfrac12\|w\|^2 + C \sum_n s_n\, E\,L(\ell - y_n(w\cdot\tilde x_n + b)),

    where L is the square of the hinge loss max(0, z), or itself, x̃ is the noisy example and the
    expectation, over all the noise, is replaced by its value for a normal score or by its
    variational bound. The offset b is neither corrupted nor regularised. Several classes are
    treated one-vs-rest, all in one batch, or as one problem (`multi_class`).

    Parameters
    ----------
    {C}
        As in :class:`sklearn.svm.LinearSVC`.
    {noise}
        Without noise this is a plain SVM.
    {l1_ratio}
    {loss}
    {margin}
    {svm.expectation}
        The former is closer when many features share the work.
    {fit_intercept}
    {class_weight}
        Under heavy noise it keeps small classes from being given up.
    multi_class : {"ovr", "pairwise"}, default="ovr"
        How several classes are told apart. "ovr" is one problem for each class against the rest.
        "pairwise" is one problem for all: the loss of an example is the sum over the other classes k
        of the loss of the difference of scores f_y − f_k, and its noise is that of the difference.
        Two classes are one problem in any case. With "pairwise", class_weight="balanced" gives all
        classes the same total weight, and `solver` cannot be "irls".
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
    {n_iter_}
    {classifier.objective_}
    {optimality_gap_}
    {objective_history_}
        Without noise: at every check of the duality gap.
    {n_features_in_}
    {feature_names_in_}

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from marginout import DropoutSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DropoutSVC(C=0.01, noise=0.3).fit(X / 16, y)
    >>> model.coef_.shape
    (10, 64)
    """

    # Of models that were stored before there was a choice.
    loss = "hinge"
    _multi_classes = ("ovr", "pairwise")
    _takes_several = True

    def __init__(
        self,
        C: float = 1.0,
        *,
        noise: Any = "auto",
        l1_ratio: float = 0.0,
        loss: str = "squared_hinge",
        margin: float = 1.0,
        expectation: str = "gaussian",
        fit_intercept: bool = True,
        class_weight: Any = None,
        multi_class: str = "ovr",
        missing: str = "error",
        solver: str = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        set_parameters(locals())

    def _loss(self, Y: Array) -> Loss:
        return hinge_loss(self)

    def to_sklearn(self) -> LinearSVC | OneVsRestClassifier | Pipeline:
        """A fitted LinearSVC, or one for each label, behind an imputer if ``missing="conditional"``."""

        def plain() -> LinearSVC:
            return LinearSVC(loss=self.loss, C=self.C, fit_intercept=self.fit_intercept)

        return filled_in(self, one_vs_rest(self, plain) if self._indicator else export(self, plain()))


@documented
class DropoutSVR(OnlineRegressor):
    r"""Linear support vector regression trained under infinitely many corruptions of the data.

    It minimises

    .. math:: F(w, b) = \tfrac12\|w\|^2 +
              C \sum_n s_n\, E\max(0,\; |y_n - w\cdot\tilde x_n - b| - \varepsilon),

    where x̃ is the noisy example and the expectation, over all the noise, is replaced by
    its variational bound or by its value for a normal score. The offset b is neither
    corrupted nor regularised.

    Parameters
    ----------
    {C}
        As in :class:`sklearn.svm.LinearSVR`.
    {noise}
        Without noise this is a plain SVR.
    {l1_ratio}
    {epsilon}
    {expectation}
    {fit_intercept}
    {linear.missing}
    {solver}
    {tol}
    {max_iter}
    {warm_start}
    {verbose}

    Attributes
    ----------
    {regressor.coef_}
    {regressor.intercept_}
    {noise_}
    {n_iter_}
    {regressor.objective_}
    {optimality_gap_}
    {objective_history_}
        Without noise: at every check of the duality gap.
    {n_features_in_}
    {feature_names_in_}

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from marginout import DropoutSVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> DropoutSVR(C=100.0, noise=0.1, epsilon=5.0).fit(X, y).coef_.shape
    (10,)
    """

    _takes_several = True

    def __init__(
        self,
        C: float = 1.0,
        *,
        noise: Any = "auto",
        l1_ratio: float = 0.0,
        epsilon: float = 0.1,
        expectation: str = "bound",
        fit_intercept: bool = True,
        missing: str = "error",
        solver: str = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        set_parameters(locals())

    def _loss(self, Y: Array) -> Loss:
        return tube_loss(self, Y)

    def to_sklearn(self) -> LinearSVR | Pipeline:
        """A fitted :class:`~sklearn.svm.LinearSVR`, behind an imputer if ``missing="conditional"``."""
        plain = LinearSVR(epsilon=self.epsilon, C=self.C, fit_intercept=self.fit_intercept)
        return filled_in(self, export(self, plain))
