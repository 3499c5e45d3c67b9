"""Marginalised corrupted features (van der Maaten, Chen, Tyree, Weinberger, 2013)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC
from sklearn.utils.metaestimators import available_if

from marginout._core.design.storage import Design
from marginout._core.fit import Plan
from marginout._core.interfaces import Array, Minimizer, Objective, Solver
from marginout._core.targets import class_table
from marginout._core.validation import check_option, set_parameters
from marginout._models.linear import DropoutClassifier, DropoutRegressor
from marginout._models.mcf import least_squares, solver
from marginout._models.mcf.cumulants import Coding
from marginout._models.mcf.objective import MgfObjective
from marginout.estimators._docstrings import documented
from marginout.estimators._export import export
from marginout.estimators.logistic import log_probabilities
from marginout.losses import Loss, Quadratic
from marginout.noise import Noise

LOSSES = "logistic", "quadratic", "exponential"


def _is_logistic(model: Any) -> bool:
    if model.loss != "logistic":
        raise AttributeError(f"probabilities need loss='logistic'; this model has loss={model.loss!r}.")
    return True


@documented
class MCFClassifier(DropoutClassifier):
    r"""Linear classifier that minimises an expected loss under feature noise, or an upper bound of it.

    It minimises ½‖W‖² + C Σ s_n ℓ_n, where, with x̃ the noisy example, ℓ is

    .. math::

        \text{quadratic:}\quad & \tfrac12 E(y - w\cdot\tilde x - b)^2 \\
        \text{exponential:}\quad & E\,e^{-y(w\cdot\tilde x + b)} \\
        \text{logistic:}\quad & \log\bigl(1 + E\,e^{-y(w\cdot\tilde x + b)}\bigr)
        \;\ge\; E \log\bigl(1 + e^{-y(w\cdot\tilde x + b)}\bigr).

    Several classes are treated as by the method's authors: the logistic loss by the joint bound
    :math:`\log\sum_k E\,e^{(w_k-w_y)\cdot\tilde x + b_k - b_y}`, the quadratic one by least
    squares on one-hot targets, the exponential one by one-vs-rest with targets 1 and
    −1/(n_classes − 1). The offset is neither corrupted nor regularised.

    Parameters
    ----------
    loss : {"logistic", "quadratic", "exponential"}, default="logistic"
        The loss ℓ.
    {C}
        The authors often used no ridge: a large C.
    {corrupted.noise}
        The authors' own code uses :class:`~marginout.noise.Deletion`.
    {fit_intercept}
    class_weight : dict, "balanced" or None, default=None
        A dict multiplies each example's weight by that of its class; "balanced" gives every
        class the same total weight.
    {missing}
    {tol}
    {max_iter}
    {warm_start}
    {verbose}

    Attributes
    ----------
    {classifier.coef_}
    {classifier.intercept_}
    {classifier.classes_}
    {n_iter_}
    objective_ : float
        The objective at the solution.
    {optimality_gap_}
    objective_history_ : array of shape (n_iterations,)
        The objective after every iteration.
    {n_features_in_}
    {feature_names_in_}

    Notes
    -----
    The quadratic loss has a closed form, by Cholesky, Woodbury's identity or conjugate
    gradients, whichever is cheapest. The others need the noise's moment generating function;
    that of :class:`~marginout.noise.Laplace` noise of scale β exists for weights below 1/β only (for
    several classes, differences of weights), and the solution respects that.

    References
    ----------
    L. van der Maaten, M. Chen, S. Tyree, K. Weinberger, *Learning with Marginalized Corrupted
    Features*, ICML 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from marginout import MCFClassifier
    >>> from marginout.noise import Deletion
    >>> X, y = load_digits(return_X_y=True)
    >>> model = MCFClassifier("quadratic", C=100.0, noise=Deletion(0.5)).fit(X / 16, y)
    >>> model.coef_.shape
    (10, 64)
    """

    def __init__(
        self,
        loss: str = "logistic",
        C: float = 1.0,
        *,
        noise: Any = 0.5,
        fit_intercept: bool = True,
        class_weight: Any = None,
        missing: str = "error",
        tol: float = 1e-3,
        max_iter: int = 1000,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        set_parameters(locals())

    def _loss(self, Y: Array) -> Loss | None:
        return Quadratic() if check_option("loss", self.loss, LOSSES) == "quadratic" else None

    def _problem(self, design: Design, plan: Plan, Y: Array, weights: Array) -> Minimizer:
        loss, several = self.loss, Y.shape[1] > 1
        if plan.loss is not None:
            return super()._problem(design, plan, (Y + 1) / 2 if several else Y, weights)
        weights = np.ascontiguousarray(weights[:, 0])
        if loss == "logistic" and several:
            codings = [Coding(Y.argmax(axis=1).astype(np.int64), np.ones((Y.shape[1],) * 2), True)]
        else:
            # Class 1 is the positive one, whose target is 1; t = −y·w.
            rest = 1.0 / (Y.shape[1] - 1) if several else 1.0
            codings = [Coding((y > 0).astype(np.int64), np.array([[rest], [-1.0]]), False) for y in Y.T]
        objectives = [
            MgfObjective(self._penalty(), design, plan.noise, coding, weights, loss, plan.fit_intercept)
            for coding in codings
        ]
        return partial(solver.solve, objectives)

    def _minimizer(self, objective: Objective) -> Solver:
        return least_squares.solve

    def _shift(self, noise: Noise, d: int, fit_intercept: bool) -> Array:
        return super()._shift(noise, d, fit_intercept) if self.loss == "quadratic" else np.zeros(d)

    def _class_table(self, classes: NDArray[Any], counts: Array, together: bool) -> Array:
        # "balanced" gives every class the same total weight, whatever the loss.
        return class_table(self.class_weight, classes, counts, together=True)

    @available_if(_is_logistic)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the class probabilities; for the logistic loss only.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Examples.

        Returns
        -------
        log_probabilities : array of shape (n_samples, n_classes)
            One column per class, in the order of `classes_`.
        """
        return log_probabilities(self._scores(X), softmax=True)

    @available_if(_is_logistic)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Class probabilities, the softmax of the scores; for the logistic loss only.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Examples.

        Returns
        -------
        probabilities : array of shape (n_samples, n_classes)
            One column per class, in the order of `classes_`.
        """
        return np.asarray(np.exp(self.predict_log_proba(X)))

    def to_sklearn(self) -> LogisticRegression | LinearSVC:
        """A fitted scikit-learn model with the same predictions.

        Returns
        -------
        model : LogisticRegression or LinearSVC
            :class:`~sklearn.linear_model.LogisticRegression`, with the same probabilities, for the logistic
            loss, and :class:`~sklearn.svm.LinearSVC` for the others.
        """
        model = LogisticRegression if self.loss == "logistic" else LinearSVC
        return export(self, model(C=self.C, fit_intercept=self.fit_intercept))


@documented
class MCFRegressor(DropoutRegressor):
    r"""Least squares under feature noise, in closed form.

    It minimises

    .. math:: F(w, b) = \tfrac12\|w\|^2 + C \sum_n s_n\, \tfrac12 E(y_n - w\cdot\tilde x_n - b)^2,

    where x̃ is the noisy example: ridge regression whose penalty adapts to every feature's
    variance, :math:`w_d^2 (1 + C \sum_n s_n V_{nd})`. The offset is neither corrupted nor regularised.

    Parameters
    ----------
    {C}
        :class:`sklearn.linear_model.Ridge` has alpha = 1/C.
    {corrupted.noise}
        Without noise this is ridge regression.
    {fit_intercept}
    {missing}
    tol : float, default=1e-3
        The fit ends when the objective is within tol/10 (relative) of its minimum.
    max_iter : int, default=1000
        Most refinements of the solution.
    {warm_start}
        Of use where conjugate gradients solve the system.
    verbose : int, default=0
        Print a line per refinement.

    Attributes
    ----------
    {regressor.coef_}
    {regressor.intercept_}
    {n_iter_}
    {regressor.objective_}
    {optimality_gap_}
    objective_history_ : array of shape (n_iterations,)
        F after every refinement.
    {n_features_in_}
    {feature_names_in_}

    References
    ----------
    L. van der Maaten, M. Chen, S. Tyree, K. Weinberger, *Learning with Marginalized Corrupted
    Features*, ICML 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from marginout import MCFRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> MCFRegressor(C=100.0, noise=0.1).fit(X, y).coef_.shape
    (10,)
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        noise: Any = 0.5,
        fit_intercept: bool = True,
        missing: str = "error",
        tol: float = 1e-3,
        max_iter: int = 1000,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        set_parameters(locals())

    def _loss(self, Y: Array) -> Loss:
        return Quadratic()

    def _minimizer(self, objective: Objective) -> Solver:
        return least_squares.solve

    def to_sklearn(self) -> Ridge:
        """A fitted :class:`sklearn.linear_model.Ridge` with the same predictions."""
        return export(self, Ridge(alpha=1 / self.C, fit_intercept=self.fit_intercept))
