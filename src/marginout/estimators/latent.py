"""One hidden layer under feature noise: two classifiers and a regressor."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginout._core.targets import Centred, Numbers, Seen, Targets
from marginout._core.validation import check_option, check_real
from marginout._models.linear import DropoutClassifier, DropoutRegressor
from marginout.estimators._hidden import LatentModel
from marginout.estimators.logistic import LogisticProbabilities
from marginout.losses import EpsilonInsensitive, Hinge, Loss, logistic

Array = NDArray[np.float64]


class LatentDropoutSVC(LatentModel, DropoutClassifier):
    r"""Support vector classifier with one hidden layer, trained under infinitely many corruptions.

    Scores are w·σ(α·x + a) + b, and the fit minimises

    .. math:: F = \tfrac12\|w\|^2 + \tfrac\lambda2\|\alpha\|^2 +
              C \sum_n s_n\, E\,\max(0,\; \ell - y_n\,\mathrm{score}(\tilde x_n)),

    where the score is that of the noisy example x̃. Noise is carried through the hidden layer
    by `propagation`, and the expectation over the score is replaced by its variational bound
    or by its value for a normal score. Offsets are neither corrupted nor regularised. F is
    not convex: the fit finds a local minimum. Several
    classes are treated one-vs-rest.

    Parameters
    ----------
    n_hidden : int, default=20
        Hidden units for every class with ``shared=False``, or in all.
    C : float, default=1.0
        Weight of the loss against the ridges.
    noise : float or noise model, default=0.5
        A dropout rate (the probability that a feature is deleted), or a model from
        :mod:`marginout.noise`. Without noise this is a plain network.
    margin : float, default=1.0
        The margin ℓ.
    hidden_penalty : float, default=1.0
        The weight λ of ½‖α‖²; 1 is the paper's.
    activation : {"sigmoid", "tanh", "relu", "identity"}, default="sigmoid"
        σ; "sigmoid" is the paper's, and "identity" makes the model linear.
    propagation : {"taylor", "gaussian"}, default="taylor"
        How noise passes the hidden layer. "taylor", the paper's, expands σ at the mean of
        a unit's input: saturated units show no variance. "gaussian" takes the mean and
        variance of σ for a normal input, and takes up to about twice the time
        (`benchmarks/results/latent_time.csv`).
    expectation : {"bound", "gaussian"}, default="bound"
        The paper's bound on the expected loss, or the expected loss of a normal score.
    fit_intercept : bool, default=True
        Whether to fit the offsets a and b.
    shared : bool, default=True
        Whether all classes share one hidden layer, or each has a layer of `n_hidden` units
        of its own (the paper's one-vs-rest).
    class_weight : dict, "balanced" or None, default=None
        A dict multiplies each example's weight by that of its class. "balanced" gives
        both sides of every one-vs-rest problem the same total weight; under heavy noise
        it keeps small classes from being given up.
    missing : {"error", "deleted"}, default="error"
        What NaN or null in X means: an error, or a feature that is dead in this example. It adds
        nothing to the score; where the noise is unbiased, a share s of dead features (of groups,
        where the noise has groups) multiplies the others by 1/(1 − s), and under raw deletion they
        stay as they are, in training and prediction alike. The offset is never touched.
    solver : {"auto", "joint", "alternating"}, default="auto"
        "joint" is L-BFGS over all parameters, "alternating" the paper's coordinate descent:
        output weights in closed form, hidden weights by gradient steps. "auto" is "joint",
        which ends at a lower objective in the same time (`benchmarks/results/latent_summary.csv`).
    n_init : int, default=1
        Fits from as many random starts; the one of the lowest objective is kept.
    tol : float, default=1e-3
        The fit ends when ten iterations together lower the objective by less than this,
        relatively.
    max_iter : int, default=1000
        Most iterations; reaching it warns.
    warm_start : bool, default=False
        Start from the last solution.
    random_state : int, RandomState or None, default=None
        Draws the hidden weights to start from. The same seed gives the same bits.
    verbose : int, default=0
        Print a line per iteration.

    Attributes
    ----------
    hidden_coef_ : array of shape (n_units, n_features)
        α; `n_hidden` units, or with ``shared=False`` as many for every class of several,
        those of the first class first.
    hidden_intercept_ : array of shape (n_units,)
    coef_ : array of shape (1, n_units) or (n_classes, n_units)
        w; zero where a class does not see another's units.
    intercept_ : array of shape (1,) or (n_classes,)
    classes_ : array of shape (n_classes,)
    n_iter_ : int
    objective_ : float
        F at the solution, a local minimum.
    objective_history_ : array of shape (n_iterations,)
        The objective after every iteration. Kinks of the loss are rounded off at first, so
        early values are a little above F.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)
        When the features of X all have names.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from marginout import LatentDropoutSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LatentDropoutSVC(20, noise=0.3, random_state=0).fit(X[:300] / 16, y[:300])
    >>> model.coef_.shape, model.transform(X / 16).shape
    ((10, 20), (1797, 20))
    """

    def __init__(
        self,
        n_hidden: int = 20,
        C: float = 1.0,
        *,
        noise: Any = 0.5,
        margin: float = 1.0,
        hidden_penalty: float = 1.0,
        activation: str = "sigmoid",
        propagation: str = "taylor",
        expectation: str = "bound",
        fit_intercept: bool = True,
        shared: bool = True,
        class_weight: Any = None,
        missing: str = "error",
        solver: str = "auto",
        n_init: int = 1,
        tol: float = 1e-3,
        max_iter: int = 1000,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_hidden = n_hidden
        self.C = C
        self.noise = noise
        self.margin = margin
        self.hidden_penalty = hidden_penalty
        self.activation = activation
        self.propagation = propagation
        self.expectation = expectation
        self.fit_intercept = fit_intercept
        self.shared = shared
        self.class_weight = class_weight
        self.missing = missing
        self.solver = solver
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def _loss(self, Y: Array) -> Loss:
        margin = check_real("margin", self.margin, above=0)
        return Hinge(margin, check_option("expectation", self.expectation, ["bound", "gaussian"]))


class LatentDropoutLogisticRegression(LatentModel, LogisticProbabilities, DropoutClassifier):
    r"""Logistic regression on one hidden layer, trained under infinitely many corruptions.

    Scores are w·σ(α·x + a) + b, and the fit minimises

    .. math:: F = \tfrac12\|w\|^2 + \tfrac\lambda2\|\alpha\|^2 +
              C \sum_n s_n\, E\,\log(1 + e^{-y_n\,\mathrm{score}(\tilde x_n)}),

    where the score is that of the noisy example x̃. Noise is carried through the hidden layer
    by `propagation`, and the expectation over the score is replaced by its variational bound
    or by its value for a normal score. Offsets are neither corrupted nor regularised. F is
    not convex: the fit finds a local minimum. Several
    classes are treated one-vs-rest.

    Parameters
    ----------
    n_hidden : int, default=20
        Hidden units for every class with ``shared=False``, or in all.
    C : float, default=1.0
        Weight of the loss against the ridges.
    noise : float or noise model, default=0.5
        A dropout rate (the probability that a feature is deleted), or a model from
        :mod:`marginout.noise`. Without noise this is a plain network.
    hidden_penalty : float, default=1.0
        The weight λ of ½‖α‖²; 1 is the paper's.
    activation : {"sigmoid", "tanh", "relu", "identity"}, default="sigmoid"
        σ; "sigmoid" is the paper's, and "identity" makes the model linear.
    propagation : {"taylor", "gaussian"}, default="taylor"
        How noise passes the hidden layer. "taylor", the paper's, expands σ at the mean of
        a unit's input: saturated units show no variance. "gaussian" takes the mean and
        variance of σ for a normal input, and takes up to about twice the time
        (`benchmarks/results/latent_time.csv`).
    expectation : {"bound", "gaussian"}, default="bound"
        The paper's bound on the expected loss, or the expected loss of a normal score.
    fit_intercept : bool, default=True
        Whether to fit the offsets a and b.
    shared : bool, default=True
        Whether all classes share one hidden layer, or each has a layer of `n_hidden` units
        of its own (the paper's one-vs-rest).
    class_weight : dict, "balanced" or None, default=None
        A dict multiplies each example's weight by that of its class. "balanced" gives
        both sides of every one-vs-rest problem the same total weight; under heavy noise
        it keeps small classes from being given up.
    missing : {"error", "deleted"}, default="error"
        What NaN or null in X means: an error, or a feature that is dead in this example. It adds
        nothing to the score; where the noise is unbiased, a share s of dead features (of groups,
        where the noise has groups) multiplies the others by 1/(1 − s), and under raw deletion they
        stay as they are, in training and prediction alike. The offset is never touched.
    solver : {"auto", "joint", "alternating"}, default="auto"
        "joint" is L-BFGS over all parameters, "alternating" the paper's coordinate descent:
        output weights in closed form, hidden weights by gradient steps. "auto" is "joint",
        which ends at a lower objective in the same time (`benchmarks/results/latent_summary.csv`).
    n_init : int, default=1
        Fits from as many random starts; the one of the lowest objective is kept.
    tol : float, default=1e-3
        The fit ends when ten iterations together lower the objective by less than this,
        relatively.
    max_iter : int, default=1000
        Most iterations; reaching it warns.
    warm_start : bool, default=False
        Start from the last solution.
    random_state : int, RandomState or None, default=None
        Draws the hidden weights to start from. The same seed gives the same bits.
    verbose : int, default=0
        Print a line per iteration.

    Attributes
    ----------
    hidden_coef_ : array of shape (n_units, n_features)
        α; `n_hidden` units, or with ``shared=False`` as many for every class of several,
        those of the first class first.
    hidden_intercept_ : array of shape (n_units,)
    coef_ : array of shape (1, n_units) or (n_classes, n_units)
        w; zero where a class does not see another's units.
    intercept_ : array of shape (1,) or (n_classes,)
    classes_ : array of shape (n_classes,)
    n_iter_ : int
    objective_ : float
        F at the solution, a local minimum.
    objective_history_ : array of shape (n_iterations,)
        The objective after every iteration. Kinks of the loss are rounded off at first, so
        early values are a little above F.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)
        When the features of X all have names.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from marginout import LatentDropoutLogisticRegression
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LatentDropoutLogisticRegression(20, noise=0.3, random_state=0)
    >>> model.fit(X[:300] / 16, y[:300]).predict_proba(X[:2] / 16).shape
    (2, 10)
    """

    def __init__(
        self,
        n_hidden: int = 20,
        C: float = 1.0,
        *,
        noise: Any = 0.5,
        hidden_penalty: float = 1.0,
        activation: str = "sigmoid",
        propagation: str = "taylor",
        expectation: str = "bound",
        fit_intercept: bool = True,
        shared: bool = True,
        class_weight: Any = None,
        missing: str = "error",
        solver: str = "auto",
        n_init: int = 1,
        tol: float = 1e-3,
        max_iter: int = 1000,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_hidden = n_hidden
        self.C = C
        self.noise = noise
        self.hidden_penalty = hidden_penalty
        self.activation = activation
        self.propagation = propagation
        self.expectation = expectation
        self.fit_intercept = fit_intercept
        self.shared = shared
        self.class_weight = class_weight
        self.missing = missing
        self.solver = solver
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def _loss(self, Y: Array) -> Loss:
        return logistic(check_option("expectation", self.expectation, ["bound", "gaussian"]))


class LatentDropoutSVR(LatentModel, DropoutRegressor):
    r"""Support vector regression with one hidden layer, trained under infinitely many corruptions.

    Scores are w·σ(α·x + a) + b, and the fit minimises

    .. math:: F = \tfrac12\|w\|^2 + \tfrac\lambda2\|\alpha\|^2 +
              C \sum_n s_n\, E\,\max(0,\; |y_n - \mathrm{score}(\tilde x_n)| - \varepsilon),

    where the score is that of the noisy example x̃. Noise is carried through the hidden layer
    by `propagation`, and the expectation over the score is replaced by its variational bound
    or by its value for a normal score. Offsets are neither corrupted nor regularised. F is
    not convex: the fit finds a local minimum.

    Parameters
    ----------
    n_hidden : int, default=20
        Hidden units.
    C : float, default=1.0
        Weight of the loss against the ridges.
    noise : float or noise model, default=0.5
        A dropout rate (the probability that a feature is deleted), or a model from
        :mod:`marginout.noise`. Without noise this is a plain network.
    epsilon : float, default=0.1
        Errors below ε cost nothing; in units of y.
    hidden_penalty : float, default=1.0
        The weight λ of ½‖α‖²; 1 is the paper's.
    activation : {"sigmoid", "tanh", "relu", "identity"}, default="sigmoid"
        σ; "sigmoid" is the paper's, and "identity" makes the model linear.
    propagation : {"taylor", "gaussian"}, default="taylor"
        How noise passes the hidden layer. "taylor", the paper's, expands σ at the mean of
        a unit's input: saturated units show no variance. "gaussian" takes the mean and
        variance of σ for a normal input, and takes up to about twice the time
        (`benchmarks/results/latent_time.csv`).
    expectation : {"bound", "gaussian"}, default="bound"
        The paper's bound on the expected loss, or the expected loss of a normal score.
    fit_intercept : bool, default=True
        Whether to fit the offsets a and b.
    missing : {"error", "deleted"}, default="error"
        What NaN or null in X means: an error, or a feature that is dead in this example. It adds
        nothing to the score; where the noise is unbiased, a share s of dead features (of groups,
        where the noise has groups) multiplies the others by 1/(1 − s), and under raw deletion they
        stay as they are, in training and prediction alike. The offset is never touched.
    solver : {"auto", "joint", "alternating"}, default="auto"
        "joint" is L-BFGS over all parameters, "alternating" the paper's coordinate descent:
        output weights in closed form, hidden weights by gradient steps. "auto" is "joint",
        which ends at a lower objective in the same time (`benchmarks/results/latent_summary.csv`).
    n_init : int, default=1
        Fits from as many random starts; the one of the lowest objective is kept.
    tol : float, default=1e-3
        The fit ends when ten iterations together lower the objective by less than this,
        relatively.
    max_iter : int, default=1000
        Most iterations; reaching it warns.
    warm_start : bool, default=False
        Start from the last solution.
    random_state : int, RandomState or None, default=None
        Draws the hidden weights to start from. The same seed gives the same bits.
    verbose : int, default=0
        Print a line per iteration.

    Attributes
    ----------
    hidden_coef_ : array of shape (n_hidden, n_features)
        α
    hidden_intercept_ : array of shape (n_hidden,)
    coef_ : array of shape (n_hidden,)
        w
    intercept_ : array of shape (1,)
    n_iter_ : int
    objective_ : float
        F at the solution, a local minimum.
    objective_history_ : array of shape (n_iterations,)
        The objective after every iteration. Kinks of the loss are rounded off at first, so
        early values are a little above F.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)
        When the features of X all have names.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from marginout import LatentDropoutSVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> LatentDropoutSVR(5, noise=0.1, random_state=0).fit(scale(X), scale(y)).coef_.shape
    (5,)
    """

    def __init__(
        self,
        n_hidden: int = 20,
        C: float = 1.0,
        *,
        noise: Any = 0.5,
        epsilon: float = 0.1,
        hidden_penalty: float = 1.0,
        activation: str = "sigmoid",
        propagation: str = "taylor",
        expectation: str = "bound",
        fit_intercept: bool = True,
        missing: str = "error",
        solver: str = "auto",
        n_init: int = 1,
        tol: float = 1e-3,
        max_iter: int = 1000,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_hidden = n_hidden
        self.C = C
        self.noise = noise
        self.epsilon = epsilon
        self.hidden_penalty = hidden_penalty
        self.activation = activation
        self.propagation = propagation
        self.expectation = expectation
        self.fit_intercept = fit_intercept
        self.missing = missing
        self.solver = solver
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def _loss(self, Y: Array) -> Loss:
        epsilon = check_real("epsilon", self.epsilon, least=0)
        expectation = check_option("expectation", self.expectation, ["bound", "gaussian"])
        return EpsilonInsensitive(epsilon, expectation, scale=float(np.ptp(Y)) or 1.0)

    def _look(self, y: Any, weights: Array) -> tuple[NDArray[Any], Seen]:
        return y, Numbers.of(y[weights > 0])

    def _targets(self, seen: Any, fit_intercept: bool) -> Targets:
        # The middle of the range, not the median: F is not convex, and the number of times that an example
        # is given must not decide which minimum is found.
        return Centred(seen, 0.5 * seen.low + 0.5 * seen.high if fit_intercept else 0.0)
