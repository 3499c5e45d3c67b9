"""Support vector machines under feature noise: DropoutSVC and DropoutSVR."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import LinearSVC, LinearSVR

from marginout._core.validation import check_option, check_real
from marginout.estimators._online import OnlineClassifier, OnlineRegressor
from marginout.losses import EpsilonInsensitive, Hinge, Loss

Array = NDArray[np.float64]


class DropoutSVC(OnlineClassifier):
    r"""Linear support vector classifier trained under infinitely many corruptions of the data.

    It minimises

    .. math:: F(w, b) = \tfrac12\|w\|^2 + C \sum_n s_n\, E\max(0,\; \ell - y_n(w\cdot\tilde x_n + b)),

    where x̃ is the noisy example and the expectation, over all the noise, is replaced by
    its variational bound or by its value for a normal score. The offset b is neither
    corrupted nor regularised. Several classes are treated one-vs-rest, all in one batch.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss against the ridge, as in :class:`sklearn.svm.LinearSVC`.
    noise : float or noise model, default=0.5
        A dropout rate (the probability that a feature is deleted), or a model from
        :mod:`marginout.noise`. Without noise this is a plain SVM.
    margin : float, default=1.0
        The margin ℓ.
    expectation : {"bound", "gaussian"}, default="bound"
        The paper's bound on the expected loss, or the expected loss of a normal score,
        which is closer when many features share the work.
    fit_intercept : bool, default=True
        Whether to fit an offset.
    class_weight : dict, "balanced" or None, default=None
        A dict multiplies each example's weight by that of its class. "balanced" gives
        both sides of every one-vs-rest problem the same total weight; under heavy noise
        it keeps small classes from being given up.
    missing : {"error", "deleted"}, default="error"
        What NaN or null in X means: an error, or a feature that is dead in this example. It adds
        nothing to the score; where the noise is unbiased, a share s of dead features (of groups,
        where the noise has groups) multiplies the others by 1/(1 − s), and under raw deletion they
        stay as they are, in training and prediction alike. The offset is never touched.
    solver : {"auto", "irls", "lbfgs", "ncg"}, default="auto"
        "irls" is the paper's algorithm, "auto" is "ncg", nonlinear conjugate
        gradients. All reach the same optimum. Without noise, solvers for plain
        machines take over: dual coordinate descent or Newton's method; on blocks, Newton's
        method or L-BFGS on a loss rounded off less and less.
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
        F after every iteration (without noise: at every check of the duality gap).
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)
        When the features of X all have names.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from marginout import DropoutSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DropoutSVC(C=0.01, noise=0.3).fit(X / 16, y)
    >>> model.coef_.shape
    (10, 64)
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        noise: Any = 0.5,
        margin: float = 1.0,
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
        self.margin = margin
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
        margin = check_real("margin", self.margin, above=0)
        return Hinge(margin, check_option("expectation", self.expectation, ["bound", "gaussian"]))

    def to_sklearn(self) -> LinearSVC:
        """A fitted :class:`sklearn.svm.LinearSVC` with the same predictions."""
        return self._export(LinearSVC(loss="hinge", C=self.C, fit_intercept=self.fit_intercept))


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
    C : float, default=1.0
        Weight of the loss against the ridge, as in :class:`sklearn.svm.LinearSVR`.
    noise : float or noise model, default=0.5
        A dropout rate (the probability that a feature is deleted), or a model from
        :mod:`marginout.noise`. Without noise this is a plain SVR.
    epsilon : float, default=0.1
        Errors below ε cost nothing; in units of y.
    expectation : {"bound", "gaussian"}, default="bound"
        The paper's bound on the expected loss, or the expected loss of a normal score.
    fit_intercept : bool, default=True
        Whether to fit an offset.
    missing : {"error", "deleted"}, default="error"
        What NaN or null in X means: an error, or a feature that is dead in this example. It adds
        nothing to the score; where the noise is unbiased, a share s of dead features (of groups,
        where the noise has groups) multiplies the others by 1/(1 − s), and under raw deletion they
        stay as they are, in training and prediction alike. The offset is never touched.
    solver : {"auto", "irls", "lbfgs", "ncg"}, default="auto"
        "irls" is the paper's algorithm, "auto" is "ncg", nonlinear conjugate
        gradients. All reach the same optimum. Without noise, solvers for plain
        machines take over: dual coordinate descent or Newton's method; on blocks, Newton's
        method or L-BFGS on a loss rounded off less and less.
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
    coef_ : array of shape (n_features,)
    intercept_ : array of shape (1,)
    n_iter_ : int
    objective_ : float
        F at the solution.
    optimality_gap_ : float
        Certificate: `objective_` exceeds the minimum by no more than this.
    objective_history_ : array of shape (n_iterations,)
        F after every iteration (without noise: at every check of the duality gap).
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)
        When the features of X all have names.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from marginout import DropoutSVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> DropoutSVR(C=100.0, noise=0.1, epsilon=5.0).fit(X, y).coef_.shape
    (10,)
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        noise: Any = 0.5,
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
        self.C = C
        self.noise = noise
        self.epsilon = epsilon
        self.expectation = expectation
        self.fit_intercept = fit_intercept
        self.missing = missing
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.verbose = verbose

    def _loss(self, Y: Array) -> Loss:
        epsilon = check_real("epsilon", self.epsilon, least=0)
        expectation = check_option("expectation", self.expectation, ["bound", "gaussian"])
        return EpsilonInsensitive(epsilon, expectation, scale=float(np.ptp(Y)) or 1.0)

    def to_sklearn(self) -> LinearSVR:
        """A fitted :class:`sklearn.svm.LinearSVR` with the same predictions."""
        return self._export(LinearSVR(epsilon=self.epsilon, C=self.C, fit_intercept=self.fit_intercept))
