"""The one fit path of the linear estimators: validate, design, objective, solver, attributes."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import shorten
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from marginout._design import linear_scores, make_design
from marginout._missing import OPTIONS as MISSING
from marginout._missing import delete_missing
from marginout._objective import Objective
from marginout._tables import tidy
from marginout._validation import (
    check_count,
    check_features,
    check_flag,
    check_option,
    check_real,
    check_sample_weight,
    check_size,
    check_solution,
)
from marginout.estimators._callbacks import FRAMES, CallbackSupportMixin, FitTask, with_callbacks
from marginout.losses import Loss
from marginout.noise import Noise, resolve
from marginout.solvers import SOLVERS, Monitor, Solution, Solver, choose

Array = NDArray[np.float64]

#: Scores are the same if they differ by less than this share of the margin, or of y's interquartile range.
NEGLIGIBLE = 0.01
#: By less than this they differ by rounding errors only, whatever classes they stand for.
ROUNDING = 1e-12
#: Rows whose scores are looked at before those of all.
GLANCE = 100
#: `tol` in units of the objective: a fit ends within this fraction of `tol`·F of the optimum.
TOL_UNIT = 0.1
#: What a fit finds, and what must be finite.
FITTED = "coef_", "intercept_", "objective_", "optimality_gap_", "objective_history_"


class CollapsedModelWarning(UserWarning):
    """A fitted model predicts the same for all training data, whatever their features.

    Its scores differ by less than 1 % of the margin, or, of a regression, of y's interquartile range. That is
    the optimum of too much noise, too small a C, classes of very unequal size, or features that say nothing
    about y; it comes without noise, too. Not meant are X or y that do not vary: nothing can be learnt from
    them. Fits on blocks and on Dask do not ask.
    """


class DropoutLinearModel(CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """What the linear models share."""

    coef_: Array
    intercept_: Array
    #: For models that have no such parameter.
    missing = "error"
    #: The noise of the fit. None in searches, in models stored by older versions, and in weights set by hand.
    _fitted_noise: Noise | None = None

    @abstractmethod
    def _loss(self, Y: Array) -> Loss:
        """The loss that the parameters describe, for targets Y."""

    def _minimize(self, X: Any, y: Any, Y: Array, weights: Array, known: dict[str, Any], start: bool) -> None:
        """Fit to validated X and targets Y (n, K), made of y, with weights (n, 1) or (n, K).

        `known` holds the fitted attributes that are settled already, `start` says whether
        the last solution may be started from.

        Sets: known, coef_, intercept_, n_iter_, objective_, optimality_gap_,
        objective_history_, all of them at the end.
        """
        noise = self._noise()
        C = check_real("C", self.C, above=0)
        fit_intercept = check_flag("fit_intercept", self.fit_intercept)
        self._shift(noise, X.shape[1], fit_intercept)
        X = check_features(self._without_missing(X, noise), noise)
        objective = self._objective(X, noise, Y, C * weights, fit_intercept)
        self._run(objective, (X.shape[1], Y.shape[1]), {"X": X, "y": y}, known, start)
        self._warn_if_collapsed(X, Y, weights, stacklevel=2 + FRAMES)

    def _run(
        self,
        objective: Any,
        shape: tuple[int, int],
        data: dict[str, Any],
        known: dict[str, Any],
        start: bool,
        monitor: Monitor | None = None,
        begin: tuple[Array, Array] | None = None,
        frames: int = 1 + FRAMES,
    ) -> None:
        """Minimise an objective in weights of shape (d, K); see :meth:`_minimize`.

        `data` is shown to callbacks, `monitor` watches the solver, which may `begin` where another ended;
        `frames` above this one is the line that warnings point at.
        """
        tol = check_real("tol", self.tol, above=0)
        max_iter = check_count("max_iter", self.max_iter, 1)
        verbose = check_count("verbose", self.verbose, 0)
        check_flag("warm_start", self.warm_start)
        solve = self._solver(objective)
        noise = self._noise()
        shift = self._shift(noise, shape[0], self.fit_intercept)
        task = FitTask(self, max_iter * shape[1], **data)

        def attributes(W: Array, b: Array) -> dict[str, Any]:
            return {**known, **self._attributes(W, b - shift @ W)}

        def watch(iteration: int, value: float, left: float, solution: Solution) -> bool:
            if verbose:
                print(f"iteration {iteration}: objective {value:.8g}, about {left:.1e} above its minimum")
            task.near(left / value if value > 0 else 0.0, TOL_UNIT * tol)
            stop = monitor is not None and bool(monitor(iteration, value, left, solution))
            return task.iteration(lambda: attributes(*solution())) or stop

        W, b = self._start(*shape, start)
        W, b = begin or (W, b + shift @ W)
        # With several problems a monitor costs threads, which is more than a bar is worth.
        heard = task.heard and shape[1] == 1
        watched = watch if verbose or monitor or task.watched or heard else None
        result = solve(objective, W, b, tol=TOL_UNIT * tol, max_iter=max_iter, monitor=watched)
        fitted = {
            **attributes(result.W, result.b),
            "objective_": float(result.value.sum()),
            "optimality_gap_": float(np.minimum(result.gap, result.value).sum()),  # F is never negative
            "objective_history_": np.array(result.history),
        }
        check_solution(self.C, self.noise, **{name: fitted[name] for name in FITTED})
        for name, value in fitted.items():
            setattr(self, name, value)
        self.__dict__.pop("_stream", None)  # of `partial_fit`: this is another model
        self._fitted_noise = noise
        self.n_iter_ = result.n_iter
        task.end(lambda: attributes(result.W, result.b))
        result.warn(max_iter, stacklevel=2 + frames)

    def _warn_if_collapsed(self, X: Any, Y: Array, weights: Array, stacklevel: int) -> None:
        """Say that the features do not matter to a fitted model, though X and Y vary, and what helps.

        Where classes are of unequal size, or noise is heavy, w = 0 can be the optimum of a loss with a kink.
        """
        used = np.asarray(weights.any(axis=1))
        scale = float(self._loss(Y).scale) if hasattr(self, "classes_") else _width(Y[used])
        some = slice(None, None, 1 + X.shape[0] // GLANCE)
        for part, rows in ((X[some], some), (X, slice(None))):
            scores = self._raw_scores(part)[used[rows]]
            spread = float(np.ptp(scores, axis=0).max()) if len(scores) else 0.0
            if spread >= NEGLIGIBLE * scale or (spread >= ROUNDING * scale and self._several(scores)):
                return
        if not (_varies(X if used.all() else X[used]) and _varies(Y[used])):
            return
        what = f"scores of the training data differ by {spread:.1e} only"
        if hasattr(self, "classes_"):
            what += (
                ", and all are taken for one class" if not self._several(scores) else ", by rounding errors"
            )
        cures = [f"lower n_deletions={self.n_deletions}"] if hasattr(self, "n_deletions") else []
        if self._noise().moments(X.shape[1]).coefficient.any():
            cures.append(f"lower noise={shorten(repr(self.noise), 60, placeholder=' …')}")
        if getattr(self, "class_weight", self) is None:
            cures.append("set class_weight='balanced'")
        if hasattr(self, "epsilon"):
            cures.append(f"lower epsilon={self.epsilon!r}")
        cures += ["scale the features", f"or raise C={self.C!r} if it is small"]
        warnings.warn(
            f"The model has collapsed: its {what}. To make the features count, {', '.join(cures)}.",
            CollapsedModelWarning,
            stacklevel=stacklevel + 1,
        )

    def _several(self, scores: Array) -> bool:
        """Whether scores, (n, K), stand for several classes."""
        return False

    def _objective(self, X: Any, noise: Noise, Y: Array, weights: Array, fit_intercept: bool) -> Any:
        """The function to minimise, for checked X and weights that C is part of."""
        return Objective(make_design(X, noise), self._loss(Y), Y, weights, fit_intercept)

    def _solver(self, objective: Any) -> Solver:
        """What minimises it."""
        return choose(check_option("solver", self.solver, ["auto", *SOLVERS]), objective)

    def _shift(self, noise: Noise, d: int, fit_intercept: bool) -> Array:
        """The constant part of the noisy features' mean: the solvers' offset contains w·shift."""
        shift = noise.shift(d)
        if shift.any() and not fit_intercept:
            raise ValueError(
                f"{noise!r} moves the mean of every example by a constant, which only an offset can take "
                "up: fit_intercept=False must be True."
            )
        return shift

    def _attributes(self, W: Array, b: Array) -> dict[str, Any]:
        """The solution as fitted attributes."""
        return {"coef_": np.ascontiguousarray(W.T), "intercept_": b}

    def _start(self, d: int, K: int, allowed: bool) -> tuple[Array, Array]:
        """Zeros, or the last solution when `warm_start` asks for it and it fits."""
        if self.warm_start and allowed and hasattr(self, "coef_"):
            coef, intercept = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)
            if coef.shape == (K, d):
                b = np.array(intercept, np.float64) if self.fit_intercept else np.zeros(K)
                return np.array(coef.T, np.float64, order="C"), b
        return np.zeros((d, K)), np.zeros(K)

    @contextmanager
    def _untouched_on_failure(self) -> Iterator[None]:
        """Put the fitted attributes back as they were if anything, Ctrl-C included, breaks the fit."""

        def fitted() -> dict[str, Any]:
            private = "_stream", "_centre", "_fitted_noise"
            return {name: v for name, v in vars(self).items() if name.endswith("_") or name in private}

        before = fitted()
        try:
            yield
        except BaseException:
            for name in fitted():
                delattr(self, name)
            for name, value in before.items():
                setattr(self, name, value)
            raise

    def _noise(self) -> Noise:
        """The noise model that is trained under, for features of the names that X had."""
        return resolve(self.noise).bind(getattr(self, "feature_names_in_", None))

    def _validated(self, X: Any, y: Any = "no_validation", **options: Any) -> Any:
        """X, or X and y, as arrays of numbers; NaN are left in X where they mean something."""
        missing = check_option("missing", self.missing, MISSING)
        try:
            return validate_data(
                self,
                tidy(X),
                y,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_all_finite="allow-nan" if missing == "deleted" else True,
                **options,
            )
        except ValueError as error:
            if not str(error).startswith("Input X contains NaN"):
                raise
            raise ValueError(
                f"Input X contains NaN. {type(self).__name__}(missing='deleted') takes them for features "
                "that are dead; or fill them in, for instance with sklearn.impute.SimpleImputer."
            ) from None

    def _without_missing(self, X: Any, noise: Noise) -> Any:
        """Validated X with its NaN deleted, as the noise has it."""
        return delete_missing(X, noise) if self.missing == "deleted" else X

    def _checked(self, X: Any) -> Any:
        """X to predict for, validated, its NaN deleted as in the fit, whatever `noise` was set to since."""
        check_is_fitted(self)
        return self._without_missing(self._validated(X, reset=False), self._fitted_noise or self._noise())

    def _scores(self, X: Any) -> Array:
        scores = self._raw_scores(self._checked(X))
        return np.asarray(scores[:, 0] if scores.shape[1] == 1 else scores)

    def _raw_scores(self, X: Any) -> Array:
        """Scores of checked X, (n, K)."""
        return np.asarray(linear_scores(X, np.atleast_2d(self.coef_).T) + self.intercept_)

    def _export(self, model: Any) -> Any:
        """Give a scikit-learn model this one's fitted attributes."""
        check_is_fitted(self)
        names = "coef_", "intercept_", "classes_", "n_features_in_", "feature_names_in_"
        for name in names:
            if hasattr(self, name):
                value = getattr(self, name)
                setattr(model, name, value.copy() if isinstance(value, np.ndarray) else value)
        model.n_iter_ = np.array([self.n_iter_]) if isinstance(model, LogisticRegression) else self.n_iter_
        return model

    def _needs_positive(self) -> bool:
        return bool(getattr(self.noise, "positive_only", False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = self._needs_positive()
        tags.input_tags.allow_nan = self.missing == "deleted"
        return tags


def _width(Y: Array) -> float:
    """The interquartile range of targets, which a few outliers do not change; where it is 0, the range."""
    if not Y.size:
        return 0.0
    low, high = np.quantile(Y, [0.25, 0.75])
    return float(high - low or np.ptp(Y))


def _varies(X: Any) -> bool:
    """Whether the rows of X differ."""
    least, most = X.min(axis=0), X.max(axis=0)
    return bool((least != most).nnz) if sp.issparse(X) else bool(np.any(least != most))


def encode(y: Any, weights: Array) -> tuple[NDArray[Any], NDArray[np.intp], Array]:
    """Classes, each example's class, and the signs ±1 of the one-vs-rest problems, (n, K)."""
    classes, labels = np.unique(y, return_inverse=True)
    counts = np.bincount(labels, weights, len(classes))
    if np.count_nonzero(counts) < 2:
        raise ValueError(
            "y has examples of positive weight in one class only "
            f"({classes[counts > 0].tolist()[0]!r}): a classifier needs at least two classes."
        )
    columns = [1] if len(classes) == 2 else range(len(classes))
    return classes, labels, np.column_stack([np.where(labels == k, 1.0, -1.0) for k in columns])


class DropoutClassifier(ClassifierMixin, DropoutLinearModel):  # type: ignore[misc]
    """Classification, one-vs-rest in one batch."""

    classes_: NDArray[Any]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Counting noise drowns features of unit size: no promise about clean accuracy then.
        tags.classifier_tags.poor_score = tags.input_tags.positive_only
        return tags

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data. Dense data in any memory order and CSR data, float32 or float64,
            are used as they are; other sparse formats, and large dense data of which three
            quarters or more are zeros, are converted to CSR first.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the examples, >= 0; each multiplies its example's loss.

        Returns
        -------
        self : object
        """
        with self._untouched_on_failure():
            X, y = self._validated(X, y)
            check_classification_targets(y)
            weights = check_sample_weight(sample_weight, X)
            classes, labels, Y = encode(y, weights)
            start = np.array_equal(getattr(self, "classes_", ()), classes)
            weights = self._class_weights(classes, labels, Y, weights)
            self._minimize(X, y, Y, weights, {"classes_": classes}, start)
        return self

    def _class_weights(self, classes: Any, labels: Any, Y: Array, weights: Array) -> Array:
        """Example weights times class weights: (n, 1), or (n, K) when each problem is balanced."""
        if isinstance(self.class_weight, str):
            check_option("class_weight", self.class_weight, ["balanced"])
            total, positive = weights.sum(), weights @ (Y > 0)
            sides = np.array([weights @ (Y < 0), positive])
            each = total / (2 * np.where(sides > 0, sides, total))  # an empty side weighs nothing anyway
            return np.asarray(np.where(Y > 0, each[1], each[0]) * weights[:, None])
        if self.class_weight is None:
            return weights[:, None]
        if not isinstance(self.class_weight, dict):
            raise ValueError(f"class_weight={self.class_weight!r} must be a dict, 'balanced' or None.")
        for weight in self.class_weight.values():
            try:
                check_real("weight", weight, least=0)
            except ValueError as error:
                raise ValueError(f"class_weight={self.class_weight!r}: {error}") from None
        each = compute_class_weight(self.class_weight, classes=classes, y=classes[labels])
        if np.count_nonzero(np.bincount(labels, weights * each[labels], len(classes))) < 2:
            raise ValueError(
                f"class_weight={self.class_weight!r} leaves examples of positive weight in one class only: "
                "a classifier needs at least two classes."
            )
        return np.asarray((weights * each[labels])[:, None])

    def decision_function(self, X: Any) -> Array:
        """Scores w·x + b: one per example for two classes, one per class for more.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        scores : array of shape (n_samples,) or (n_samples, n_classes)
        """
        return self._scores(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the highest score.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        y : array of shape (n_samples,)
        """
        scores = self._scores(X)
        best = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[best])

    def _several(self, scores: Array) -> bool:
        best = scores[:, 0] > 0 if scores.shape[1] == 1 else scores.argmax(axis=1)
        return bool(np.any(best != best[0]))


def check_targets(y: Any) -> Array:
    """Targets of a regression as float64, finite and not too large."""
    targets: Array = np.array(y, dtype=np.float64)
    if not np.isfinite(targets).all():
        raise ValueError("Input y contains NaN or infinity.")
    check_size("y", float(targets.min()), float(targets.max()))
    return targets


class DropoutRegressor(RegressorMixin, DropoutLinearModel):  # type: ignore[misc]
    """Regression on one target."""

    _centre = 0.0

    def _attributes(self, W: Array, b: Array) -> dict[str, Any]:
        return {"coef_": W[:, 0].copy(), "intercept_": b + self._centre}

    def _start(self, d: int, K: int, allowed: bool) -> tuple[Array, Array]:
        W, b = super()._start(d, K, allowed)
        return W, b - self._centre if W.any() else b

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Noise trades the score on clean data for that on corrupted data: no promise about the first.
        tags.regressor_tags.poor_score = True
        return tags

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data. Dense data in any memory order and CSR data, float32 or float64,
            are used as they are; other sparse formats, and large dense data of which three
            quarters or more are zeros, are converted to CSR first.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the examples, >= 0; each multiplies its example's loss.

        Returns
        -------
        self : object
        """
        with self._untouched_on_failure():
            X, y = self._validated(X, y, y_numeric=True)
            weights = check_sample_weight(sample_weight, X)
            y = check_targets(y)
            # Targets are counted from their median, which the offset makes up for: y = 1e9 ± 1 is y = ±1.
            self._centre = float(np.median(y)) if self.fit_intercept else 0.0
            self._minimize(X, y, (y - self._centre)[:, None], weights[:, None], {}, start=True)
        return self

    def predict(self, X: Any) -> Array:
        """Predicted targets w·x + b.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        y : array of shape (n_samples,)
        """
        return self._scores(X)
