"""The bases of the linear estimators: scikit-learn's contract around the one fit path."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from marginout._core.design.conditional import conditional_design
from marginout._core.design.storage import Design, linear_scores, make_design
from marginout._core.fit import (
    Block,
    CallbackSupportMixin,
    Plan,
    fit_in_memory,
    minimize,
    untouched_on_failure,
    with_callbacks,
)
from marginout._core.gaussian import ClassLaws, Law, learn
from marginout._core.interfaces import Array, Minimizer, Penalty, Solver
from marginout._core.joint import join
from marginout._core.missing import OPTIONS as MISSING
from marginout._core.missing import delete_missing, has_missing
from marginout._core.objective import Objective
from marginout._core.penalties import ElasticNet, Ridge
from marginout._core.shard import Shard
from marginout._core.targets import (
    Centred,
    Indicators,
    Labels,
    Numbers,
    OneVsRest,
    Seen,
    Targets,
    Together,
    check_targets,
    class_table,
)
from marginout._core.validation import check_features, check_option, check_real, check_shift, tidy
from marginout._models import several
from marginout._models.collapse import warn_if_collapsed
from marginout.losses import Loss
from marginout.noise import Noise, resolve
from marginout.noise._auto import Extent
from marginout.solvers import choose, named


class DropoutLinearModel(CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """What the linear models share."""

    coef_: Array
    intercept_: Array
    # For models that have no such parameter.
    missing = "error"
    l1_ratio = 0.0
    #: Whether F is a sum over blocks of examples that a solver minimises.
    _fits_blocks = False
    #: The noise of the fit. None in searches, in models stored by older versions, and in weights set by hand.
    _fitted_noise: Noise | None = None
    #: Whether `noise` may be "auto".
    _chooses_noise = False
    #: The normal law of the features, or those of the classes, of models with missing="conditional".
    _law: Law | ClassLaws | None = None
    #: What `missing` may be.
    _missing_options: tuple[str, ...] = MISSING

    @abstractmethod
    def _loss(self, Y: Array) -> Loss | None:
        """The loss that the parameters describe, for targets Y, of which it may ask the range.

        None if it is no function of a score's mean and variance.
        """

    @abstractmethod
    def _validated_for_fit(self, X: Any, y: Any) -> tuple[Any, Any]:
        """X and y to fit to, checked."""

    @abstractmethod
    def _look(self, y: Any, weights: Array) -> tuple[NDArray[Any], Seen]:
        """What the targets of a block are like."""

    @abstractmethod
    def _targets(self, seen: Any, fit_intercept: bool, d: int) -> Targets:
        """How y becomes targets, after a look at all of it and at d features."""

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data. Dense data in any memory order and CSR data, float32 or float64,
            are used as they are; other sparse formats, and large dense data of which three
            quarters or more are zeros, are converted to CSR first.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Class labels or targets. Several labels of an example are an indicator matrix of 0 and 1, dense
            or sparse, with a column for each label; several targets have a column each. Models with a
            search, a hidden layer or quantiles take one.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the examples, >= 0; each multiplies its example's loss.

        Returns
        -------
        self : object
            The fitted model.
        """
        with untouched_on_failure(self):
            fit_in_memory(self, X, y, sample_weight)
        return self

    def _loss_for(self, targets: Targets) -> Loss | None:
        """The loss for the problems that the targets stand for, which it may join."""
        return self._loss(targets.width)

    def _penalty(self) -> Penalty:
        """The penalty that the parameters describe."""
        ratio = check_real("l1_ratio", self.l1_ratio, least=0)
        if ratio > 1:
            raise ValueError(f"l1_ratio={self.l1_ratio!r} must be a number from 0 (the ridge) to 1 (ℓ1).")
        return ElasticNet(ratio) if ratio else Ridge()

    def _minimize(self, block: Block, plan: Plan) -> None:
        """Fit to one block.

        Sets: all fitted attributes, at the end.
        """
        Y, weights = plan.encode(block.y, block.weights)
        solve = self._problem(block.design, plan, Y, weights)
        minimize(self, solve, plan, block.design.d, {"X": block.design.X, "y": block.y})
        warn_if_collapsed(self, block.design.X, Y, weights, plan)

    def _problem(self, design: Design, plan: Plan, Y: Array, weights: Array) -> Minimizer:
        """What minimises the objective for targets, and for weights that C is part of."""
        assert plan.loss is not None
        shard = Shard.of(design, plan.loss, Y, weights)
        objective = Objective.of(self._penalty(), shard, plan.fit_intercept)
        return partial(self._minimizer(objective), objective)

    def _minimizer(self, objective: Objective) -> Solver:
        """What minimises an objective of these parameters."""
        return choose(self._checked_solver(), objective)

    def _checked_solver(self, in_one_place: bool = True) -> str:
        named(self.solver, in_one_place)  # for its check
        return str(self.solver)

    def _tells_apart(self, scores: Array) -> bool:
        """Whether scores, (n, K), stand for several classes."""
        return False

    def _sizes(self) -> dict[str, Any]:
        """The parameters that make a fit overflow where they are too large."""
        return {"C": self.C, "noise": self.noise}

    def _shift(self, noise: Noise, d: int, fit_intercept: bool) -> Array:
        """The constant part of the noisy features' mean: the solvers' offset contains w·shift."""
        return check_shift(noise, d, fit_intercept)

    def _asks_for_noise(self) -> bool:
        """Whether the noise is what the data bear."""
        return self._chooses_noise and isinstance(self.noise, str) and self.noise == "auto"

    def _taken(self, noise: Noise, kind: str = "ovr") -> dict[str, Any]:
        """What a fit says of its noise, and of how it took several classes: noise_."""
        if not self._chooses_noise:
            return {}
        return {"noise_": noise.rate if self._asks_for_noise() else self.noise}  # type: ignore[attr-defined]

    def _noise(self) -> Noise:
        """The noise model that is trained under, for features of the names that X had.

        With noise="auto", none: see `_noise_for`.
        """
        if self._asks_for_noise():
            return resolve(0.0)
        return resolve(self.noise).bind(getattr(self, "feature_names_in_", None))

    def _noise_for(self, extent: Extent | None) -> Noise:
        """The same once the data are seen."""
        return self._noise() if extent is None else resolve(extent.rate())

    def _validated(self, X: Any, y: Any = "no_validation", **options: Any) -> Any:
        """X, or X and y, as arrays of numbers; NaN are left in X where they mean something."""
        missing = check_option("missing", self.missing, list(self._missing_options))
        X = tidy(X)
        if missing == "conditional" and sp.issparse(X):
            raise TypeError(
                "missing='conditional' needs dense X, as conditional means are not sparse: give X.toarray(), "
                "or choose missing='deleted'."
            )
        try:
            return validate_data(
                self,
                X,
                y,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_all_finite=True if missing == "error" else "allow-nan",
                **options,
            )
        except ValueError as error:
            if str(error).startswith("y should be a 1d array"):
                raise ValueError(
                    f"{error} Several labels or targets are fitted by DropoutSVC, DropoutLogisticRegression "
                    "and DropoutSVR; or wrap the model in sklearn.multioutput.MultiOutputClassifier or "
                    "MultiOutputRegressor."
                ) from None
            if not str(error).startswith("Input X contains NaN"):
                raise
            raise ValueError(
                f"Input X contains NaN. {type(self).__name__}(missing='deleted') takes them for features "
                "that are dead; or fill them in, for instance with marginout.GaussianImputer."
            ) from None

    def _without_missing(self, X: Any, noise: Noise) -> Any:
        """Validated X with its NaN deleted, as the noise has it, or filled in with conditional means."""
        if self.missing == "conditional":
            return self._fitted_law().fill(X) if has_missing(X) else X
        return delete_missing(X, noise) if self.missing == "deleted" else X

    def _learn_law(self, X: Any, y: NDArray[Any], weights: Array) -> None:
        """Learn what validated X says of values that are missing.

        Sets: _law.
        """
        self._law = None
        if self.missing == "conditional":
            kept = weights > 0 if weights.any() else slice(None)
            kinds = self._kinds(y)
            self._law = learn(X[kept], None if kinds is None else kinds[kept])

    def _kinds(self, y: NDArray[Any]) -> NDArray[Any] | None:
        """What may tell rows of different laws apart: nothing."""
        return None

    def _design(self, X: Any, noise: Noise) -> Any:
        """The design of validated X to fit to."""
        if self.missing == "conditional":
            return conditional_design(X, noise, self._fitted_law().one)
        return make_design(check_features(self._without_missing(X, noise), noise), noise)

    def _fitted_law(self) -> Law | ClassLaws:
        if self._law is None:
            raise ValueError(
                f"missing='conditional' was set after the fit: fit {type(self).__name__} again, so that it "
                "knows how its features depend on one another."
            )
        return self._law

    def _checked(self, X: Any) -> Any:
        """X to predict for, validated, its NaN deleted as in the fit, whatever `noise` was set to since."""
        check_is_fitted(self)
        return self._without_missing(self._validated(X, reset=False), self._fitted_noise or self._noise())

    def _scores(self, X: Any) -> Array:
        scores = self._raw_scores(self._checked(X))
        return np.asarray(scores[:, 0] if scores.shape[1] == 1 else scores)

    def _raw_scores(self, X: Any) -> Array:
        """Scores of checked X, (n, K)."""
        if sp.issparse(self.coef_):
            scores = X @ self.coef_.T
            return np.asarray((scores.toarray() if sp.issparse(scores) else scores) + self.intercept_)
        return np.asarray(linear_scores(X, np.atleast_2d(self.coef_).T) + self.intercept_)

    def _needs_positive(self) -> bool:
        return isinstance(self.noise, Noise) and self.noise.positive_only

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self._needs_positive()
        tags.input_tags.allow_nan = self.missing != "error"
        tags.input_tags.sparse = self.missing != "conditional"
        return tags


def _columns(y: Any) -> int:
    """How many columns y has; 0 if it is no matrix."""
    shape = tuple(y.shape if hasattr(y, "shape") else np.asarray(y).shape)
    return shape[1] if len(shape) == 2 else 0


class DropoutClassifier(ClassifierMixin, DropoutLinearModel):  # type: ignore[misc]
    """Classification."""

    classes_: NDArray[Any]
    # For models that have no such parameter.
    multi_class = "ovr"
    # How the fit took several classes; of models that have no such parameter, and before a fit.
    multi_class_: str = "ovr"
    #: Whether y may be an indicator matrix: whether an example has each of several labels.
    _takes_several = False
    #: Whether the last fit was to one: classes_ are then the numbers of its columns.
    _indicator = False
    #: What it may be. Nothing: the model itself says what its classes share.
    _multi_classes: tuple[str, ...] = ()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Counting noise drowns features of unit size: no promise about clean accuracy then.
        tags.classifier_tags.poor_score = tags.input_tags.positive_only
        tags.classifier_tags.multi_label = self._takes_several and self.multi_class in ("ovr", "auto")
        return tags

    def _validated_for_fit(self, X: Any, y: Any) -> tuple[Any, Any]:
        if self._takes_several and _columns(y) > 1:
            X, y = self._validated(X, y, multi_output=True)
            return X, several.checked_labels(y)
        X, y = self._validated(X, y)
        # Integers and words need no check, which takes as long as the fit of a small table; only a warning
        # where nearly every example has a class of its own.
        if y.dtype.kind not in "biuU" or 2 * len(np.unique(y)) > len(y):
            check_classification_targets(y)
        return X, y

    def _look(self, y: Any, weights: Array) -> tuple[NDArray[Any], Seen]:
        return y, (Indicators if y.ndim == 2 else Labels).of(y, weights)

    def _kinds(self, y: NDArray[Any]) -> NDArray[Any] | None:
        """The classes, if an example has one."""
        return y if y.ndim == 1 else None

    def _targets(self, seen: Any, fit_intercept: bool, d: int) -> Targets:
        if seen.several:
            return several.labels_apart(seen, self.class_weight, self.multi_class, self._kind_for(0.0, d))
        classes, counts = seen.classes()
        kind = self._kind_for(float(counts.sum()), d)
        kind = kind if len(classes) > 2 else "ovr"  # two classes are one problem in any case
        table = self._class_table(classes, counts, kind != "ovr")
        if kind == "ovr":
            return OneVsRest(classes, table)
        return Together(classes, table, kind)

    def _kind_for(self, n: float, d: int) -> str:
        """How several classes become problems, for examples of total weight n and d features."""
        options = list(self._multi_classes)
        return check_option("multi_class", self.multi_class, options) if options else "ovr"

    def _loss_for(self, targets: Targets) -> Loss | None:
        loss = super()._loss_for(targets)
        return loss if loss is None or targets.kind == "ovr" else join(targets.kind, loss, targets.K)

    def _class_table(self, classes: NDArray[Any], counts: Array, together: bool) -> Array:
        """The weight of an example of each class, whose examples have these total weights."""
        return class_table(self.class_weight, classes, counts, together)

    def decision_function(self, X: Any) -> Array:
        """Scores w·x + b: one per example for two classes, one per class for more.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Examples.

        Returns
        -------
        scores : array of shape (n_samples,) or (n_samples, n_classes)
            One per example for two classes, one per class for more.
        """
        return self._scores(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the highest score, or 1 for every label of positive score, else 0.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Examples.

        Returns
        -------
        y : array of shape (n_samples,) or (n_samples, n_labels)
            Predicted classes, or an indicator matrix after a fit to one.
        """
        scores = self._scores(X)
        if self._indicator:
            return (scores > 0).astype(np.int64)
        best = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[best])

    def _tells_apart(self, scores: Array) -> bool:
        apart = self._indicator or scores.shape[1] == 1
        best = scores > 0 if apart else scores.argmax(axis=1)
        return bool(np.any(best != best[0]))


class DropoutRegressor(RegressorMixin, DropoutLinearModel):  # type: ignore[misc]
    """Regression on one target, or on several."""

    #: Whether y may have a column for each of several targets.
    _takes_several = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Noise trades the score on clean data for that on corrupted data: no promise about the first.
        tags.regressor_tags.poor_score = True
        tags.target_tags.multi_output = self._takes_several
        return tags

    def _validated_for_fit(self, X: Any, y: Any) -> tuple[Any, Any]:
        wide = self._takes_several and _columns(y) > 0 and not sp.issparse(y)
        X, y = self._validated(X, y, y_numeric=True, multi_output=wide)
        return X, check_targets(y)

    def _look(self, y: Any, weights: Array) -> tuple[NDArray[Any], Seen]:
        return y, Numbers.of(y)

    def _targets(self, seen: Any, fit_intercept: bool, d: int) -> Targets:
        # The median: y = 1e9 ± 1 is y = ±1.
        return Centred(seen, seen.middle / seen.n if fit_intercept else 0.0)

    def predict(self, X: Any) -> Array:
        """Predicted targets w·x + b.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Examples.

        Returns
        -------
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Predicted targets, with as many axes as `coef_`.
        """
        scores = self._scores(X)
        return scores if np.ndim(self.coef_) == 1 else scores.reshape(len(scores), -1)

    def _score_of(self, y: Any, scores: Array, weights: Array | None) -> float:
        """What `score` gives for predictions of shape (n, K)."""
        return float(r2_score(y, scores, sample_weight=weights))
