"""One hidden layer under feature noise: classifiers, a regressor, and the layer as a transformer."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from marginout._activations import ACTIVATIONS
from marginout._design import linear_scores, make_design
from marginout._latent import PROPAGATIONS, LatentObjective, Net
from marginout._validation import check_count, check_features, check_flag, check_option, check_real
from marginout.estimators._base import DropoutClassifier, DropoutRegressor
from marginout.estimators._callbacks import FRAMES, FitTask
from marginout.estimators.logistic import LogisticProbabilities
from marginout.losses import EpsilonInsensitive, Hinge, Loss, logistic
from marginout.noise import resolve
from marginout.solvers.latent import SOLVERS, LatentResult

Array = NDArray[np.float64]

#: Largest C·Σs.
LARGEST_TOTAL = 1e300
#: Entries of data that are small.
MERGED_ENTRIES = 100_000
#: Entries of the hidden activations that are held at a time for scores.
BLOCK_ENTRIES = 1_000_000


@dataclass(frozen=True)
class HiddenUnits:
    """What hidden units respond to, strongest weight first.

    Attributes
    ----------
    units : array of shape (n_units,)
        Numbers of the units, columns of `transform`.
    weights : array of shape (n_units,)
        The units' weights in the score of `output`.
    examples : array of shape (n_units, n_examples)
        Rows of X that each unit responds to most, the strongest first.
    responses : array of shape (n_units, n_examples)
        The unit's activations there.
    classes : array of shape (n_classes,), or None without y
    class_means : array of shape (n_units, n_classes), or None without y
        The unit's mean activation on the examples of each class.
    """

    units: NDArray[np.intp]
    weights: Array
    examples: NDArray[np.intp]
    responses: Array
    classes: NDArray[Any] | None
    class_means: Array | None

    def select(self, rows: Any) -> HiddenUnits:
        """Some of the units, by their position."""
        return HiddenUnits(
            self.units[rows],
            self.weights[rows],
            self.examples[rows],
            self.responses[rows],
            self.classes,
            None if self.class_means is None else self.class_means[rows],
        )


class LatentModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin):  # type: ignore[misc]
    """What the models with a hidden layer share."""

    hidden_coef_: Array
    hidden_intercept_: Array

    def _minimize(self, X: Any, y: Any, Y: Array, weights: Array, known: dict[str, Any], start: bool) -> None:
        """Fit to validated X and targets Y (n, P); see :meth:`DropoutLinearModel._minimize`.

        Sets: known, hidden_coef_, hidden_intercept_, coef_, intercept_, n_iter_, objective_,
        objective_history_, all of them at the end.
        """
        X, Y, weights = merge_examples(X, Y, weights)
        tol, max_iter = check_real("tol", self.tol, above=0), check_count("max_iter", self.max_iter, 1)
        verbose = check_count("verbose", self.verbose, 0)
        solver = check_option("solver", self.solver, ["auto", *SOLVERS])
        solve = SOLVERS["joint" if solver == "auto" else solver]
        objectives = self._objectives(X, Y, weights)
        # What the noise adds to every example's mean is part of the solvers' hidden offsets.
        shift = self._shift(resolve(self.noise), X.shape[1], self.fit_intercept)
        starts = self._starts(objectives, start, shift)
        task = FitTask(self, max_iter * len(objectives) * len(starts), X, y)
        nets = list(starts[0])

        def attributes() -> dict[str, Any]:
            return {**known, **self._layers([net._replace(a=net.a - shift @ net.alpha) for net in nets])}

        results = []
        for k, objective in enumerate(objectives):

            def monitor(iteration: int, value: float, decrease: float, net: Net, k: int = k) -> bool:
                if verbose:
                    print(
                        f"problem {k}, iteration {iteration}: objective {value:.8g}, lately -{decrease:.1e}"
                    )
                nets[k] = net
                return task.iteration(attributes)

            tried = [
                solve(objective, nets_[k], tol=tol, max_iter=max_iter, monitor=monitor) for nets_ in starts
            ]
            best = min(tried, key=lambda result: result.value)
            results.append(best)
            nets[k] = best.net
        fitted = attributes()
        for name, value in fitted.items():
            setattr(self, name, value)
        self.n_iter_ = max(max(1, len(result.history)) for result in results)
        self.objective_ = float(sum(result.value for result in results))
        self.objective_history_ = _total_history(results)
        self._n_features_out = len(self.hidden_coef_)
        task.end(attributes)
        _warn(results, max_iter, stacklevel=2 + FRAMES)

    def _objectives(self, X: Any, Y: Array, weights: Array) -> list[LatentObjective]:
        """One objective for all outputs, or one for each that has a hidden layer of its own."""
        noise = resolve(self.noise)
        C = check_real("C", self.C, above=0)
        check_flag("warm_start", self.warm_start)
        if C * (weights.sum() / LARGEST_TOTAL) >= 1:
            raise ValueError(
                f"C={self.C!r} times the sum of the weights, {weights.sum():g}, overflows: lower C."
            )
        settings = (
            ACTIVATIONS[check_option("activation", self.activation, ACTIVATIONS)],
            check_option("propagation", self.propagation, PROPAGATIONS),
            self._loss(Y),
        )
        penalty = check_real("hidden_penalty", self.hidden_penalty, above=0)
        offsets = check_flag("fit_intercept", self.fit_intercept)
        design = make_design(check_features(X, noise), noise)
        columns = [slice(None)] if self._is_shared() else [slice(p, p + 1) for p in range(Y.shape[1])]
        return [
            LatentObjective(
                design,
                *settings,
                np.ascontiguousarray(Y[:, p]),
                C * (weights if weights.shape[1] == 1 else weights[:, p]),
                penalty,
                offsets,
            )
            for p in columns
        ]

    def _is_shared(self) -> bool:
        return check_flag("shared", getattr(self, "shared", True))

    def _starts(self, objectives: list[LatentObjective], allowed: bool, shift: Array) -> list[list[Net]]:
        """The last solution, if it is wanted and fits, or `n_init` random ones: a network per objective."""
        n_hidden = check_count("n_hidden", self.n_hidden, 1)
        n_init = check_count("n_init", self.n_init, 1)
        try:
            rng = check_random_state(self.random_state)
        except ValueError:
            raise ValueError(
                f"random_state={self.random_state!r} must be None, a whole number >= 0 or a RandomState."
            ) from None
        if self.warm_start and allowed and hasattr(self, "hidden_coef_"):
            last = self._last(objectives, n_hidden)
            if last is not None:
                return [[net._replace(a=net.a + shift @ net.alpha) for net in last]]
        return [[objective.start(n_hidden, rng) for objective in objectives] for _ in range(n_init)]

    def _last(self, objectives: list[LatentObjective], n_hidden: int) -> list[Net] | None:
        """The last solution as networks; None if it has another shape."""
        coef, units = np.atleast_2d(self.coef_), n_hidden * len(objectives)
        outputs = sum(objective.Y.shape[1] for objective in objectives)
        if self.hidden_coef_.shape != (units, objectives[0].design.d) or coef.shape != (outputs, units):
            return None
        intercept = np.atleast_1d(self.intercept_) - getattr(self, "_centre", 0.0)
        nets, p = [], 0
        for k, objective in enumerate(objectives):
            own, p = slice(p, p + objective.Y.shape[1]), p + objective.Y.shape[1]
            rows = slice(k * n_hidden, (k + 1) * n_hidden)
            parts = self.hidden_coef_[rows].T, self.hidden_intercept_[rows], coef[own, rows].T, intercept[own]
            nets.append(Net(*(np.array(part, dtype=np.float64, order="C") for part in parts)))
        return nets

    def _layers(self, nets: list[Net]) -> dict[str, Any]:
        """Networks as fitted attributes: one layer, whose outputs see only their own network's units."""
        coef = np.zeros((sum(len(net.b) for net in nets), sum(len(net.a) for net in nets)))
        p = k = 0
        for net in nets:
            K, P = net.W.shape
            coef[p : p + P, k : k + K] = net.W.T
            p, k = p + P, k + K
        return {
            "hidden_coef_": np.ascontiguousarray(np.hstack([net.alpha for net in nets]).T),
            "hidden_intercept_": np.concatenate([net.a for net in nets]),
            **self._attributes(coef.T, np.concatenate([net.b for net in nets])),
        }

    def _hidden_blocks(self, X: Any) -> Iterator[tuple[slice, Array]]:
        """Hidden activations of validated X, some rows at a time."""
        size = max(1, BLOCK_ENTRIES // len(self.hidden_coef_))
        activation = ACTIVATIONS[self.activation]
        alpha = np.ascontiguousarray(self.hidden_coef_.T)
        for i in range(0, X.shape[0], size):
            rows = slice(i, min(i + size, X.shape[0]))
            yield rows, activation(linear_scores(X[rows], alpha) + self.hidden_intercept_)

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)

    def _scores(self, X: Any) -> Array:
        X = self._checked(X)
        W = np.atleast_2d(self.coef_).T
        scores = np.empty((X.shape[0], W.shape[1]))
        for rows, G in self._hidden_blocks(X):
            scores[rows] = G @ W + self.intercept_
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def transform(self, X: Any) -> NDArray[Any]:
        """Hidden activations σ(α·x + a).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        G : array of shape (n_samples, n_units)
            float32 for float32 data. Scores are ``G @ coef_.T + intercept_``.
        """
        X = self._checked(X)
        G = np.empty((X.shape[0], len(self.hidden_coef_)), dtype=X.dtype)
        for rows, block in self._hidden_blocks(X):
            G[rows] = block
        return G

    def hidden_units(self, X: Any, y: Any = None, *, output: int = 0, n_examples: int = 6) -> HiddenUnits:
        """What the hidden units respond to: weights, most responsive examples, means by class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
            Labels, for the mean responses by class.
        output : int, default=0
            Which row of `coef_` to take the weights from, that is, which class of several.
            Units whose weight in it is exactly 0, those of other classes' layers, are left out.
        n_examples : int, default=6
            How many of the most responsive examples to name for each unit.

        Returns
        -------
        units : HiddenUnits
            Largest weight first.
        """
        G = self.transform(X)
        coef = np.atleast_2d(self.coef_)
        if check_count("output", output, 0) >= len(coef):
            raise ValueError(f"output={output!r} must be less than {len(coef)}, the number of outputs.")
        n_examples = min(check_count("n_examples", n_examples, 1), len(G))
        weights = coef[output]
        units = np.argsort(-weights, kind="stable")
        units = units[weights[units] != 0] if weights.any() else units
        examples = np.argsort(-G[:, units], axis=0, kind="stable")[:n_examples].T
        classes = means = None
        if y is not None:
            y = np.asarray(y)
            if y.shape != (len(G),):
                raise ValueError(
                    f"y has shape {y.shape} but X has {len(G)} examples: give one label for each."
                )
            classes = np.unique(y)
            means = np.column_stack([G[y == c][:, units].mean(axis=0) for c in classes])
        responses = np.take_along_axis(G[:, units].T, examples, axis=1)
        return HiddenUnits(units, weights[units], examples, responses, classes, means)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def merge_examples(X: Any, Y: Array, weights: Array) -> tuple[Any, Array, Array]:
    """Small data with equal examples merged, their weights added, and in an order of its own.

    F is not convex, so rounding can decide which minimum is found. Where it costs nothing, an
    example that is given twice is an example of double weight to the last bit.
    """
    n, d = X.shape
    if n * d > MERGED_ENTRIES:
        return X, Y, weights
    table = np.column_stack([X.toarray() if sp.issparse(X) else X, Y])
    some = weights.any(axis=1)
    table, which = np.unique(table[some], axis=0, return_inverse=True)
    merged = np.zeros((len(table), weights.shape[1]))
    np.add.at(merged, which.ravel(), weights[some])
    rows = np.ascontiguousarray(table[:, :d], dtype=X.dtype)
    return sp.csr_array(rows) if sp.issparse(X) else rows, np.ascontiguousarray(table[:, d:]), merged


def _total_history(results: list[LatentResult]) -> Array:
    """F of all problems together after as many iterations of each."""
    length = max(len(result.history) for result in results)
    padded = [[*r.history, *([r.value] * (length - len(r.history)))] for r in results]
    return np.asarray(np.sum(padded, axis=0))


def _warn(results: list[LatentResult], max_iter: int, stacklevel: int) -> None:
    """Say how fast F was still falling where a fit stopped at `max_iter`, and what helps."""
    late = [result.decrease for result in results if not result.converged]
    if late:
        where = f" in {len(late)} of {len(results)} problems" if len(results) > 1 else ""
        pace = f"; ten iterations still lowered the objective by {max(late):.1e}, relatively"
        warnings.warn(
            f"Stopped at max_iter={max_iter}{where}{pace if np.isfinite(max(late)) else ''}. Scale the "
            "features, raise max_iter, lower C, or raise tol.",
            ConvergenceWarning,
            stacklevel=stacklevel + 1,
        )


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
        variance of σ for a normal input, which is closer to the truth and costs a little more.
    expectation : {"bound", "gaussian"}, default="bound"
        The paper's bound on the expected loss, or the expected loss of a normal score.
    fit_intercept : bool, default=True
        Whether to fit the offsets a and b.
    shared : bool, default=True
        Whether all classes share one hidden layer, or each has a layer of `n_hidden` units
        of its own (the paper's one-vs-rest). For as many units in all, sharing is faster
        and errs less (scikit-learn's digits, 40 units: 2.6 % against 3.8 %).
    class_weight : dict, "balanced" or None, default=None
        A dict multiplies each example's weight by that of its class. "balanced" gives
        both sides of every one-vs-rest problem the same total weight; under heavy noise
        it keeps small classes from being given up.
    solver : {"auto", "joint", "alternating"}, default="auto"
        "joint" is L-BFGS over all parameters, "alternating" the paper's coordinate descent:
        output weights in closed form, hidden weights by gradient steps. "auto" is "joint",
        which is faster and ends lower.
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
    objective_history_ : array of shape (n_iter_,)
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
        variance of σ for a normal input, which is closer to the truth and costs a little more.
    expectation : {"bound", "gaussian"}, default="bound"
        The paper's bound on the expected loss, or the expected loss of a normal score.
    fit_intercept : bool, default=True
        Whether to fit the offsets a and b.
    shared : bool, default=True
        Whether all classes share one hidden layer, or each has a layer of `n_hidden` units
        of its own (the paper's one-vs-rest). For as many units in all, sharing is faster
        and errs less (scikit-learn's digits, 40 units: 2.6 % against 3.8 %).
    class_weight : dict, "balanced" or None, default=None
        A dict multiplies each example's weight by that of its class. "balanced" gives
        both sides of every one-vs-rest problem the same total weight; under heavy noise
        it keeps small classes from being given up.
    solver : {"auto", "joint", "alternating"}, default="auto"
        "joint" is L-BFGS over all parameters, "alternating" the paper's coordinate descent:
        output weights in closed form, hidden weights by gradient steps. "auto" is "joint",
        which is faster and ends lower.
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
    objective_history_ : array of shape (n_iter_,)
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
        variance of σ for a normal input, which is closer to the truth and costs a little more.
    expectation : {"bound", "gaussian"}, default="bound"
        The paper's bound on the expected loss, or the expected loss of a normal score.
    fit_intercept : bool, default=True
        Whether to fit the offsets a and b.
    solver : {"auto", "joint", "alternating"}, default="auto"
        "joint" is L-BFGS over all parameters, "alternating" the paper's coordinate descent:
        output weights in closed form, hidden weights by gradient steps. "auto" is "joint",
        which is faster and ends lower.
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
    objective_history_ : array of shape (n_iter_,)
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

    def _minimize(self, X: Any, y: Any, Y: Array, weights: Array, known: dict[str, Any], start: bool) -> None:
        # Targets are counted from the middle of their range: no rounding, and no say for the
        # number of times that an example is given.
        if self.fit_intercept:
            some = y[weights[:, 0] > 0]
            self._centre = float(0.5 * some.min() + 0.5 * some.max())
        super()._minimize(X, y, (y - self._centre)[:, None], weights, known, start)
