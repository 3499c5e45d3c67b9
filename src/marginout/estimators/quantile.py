"""Quantile regression under feature noise, alone and with a search over C and noise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import QuantileRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_consistent_length, column_or_1d

from marginout._core.interfaces import Array
from marginout._core.targets import Centred, Numbers, Seen, Targets
from marginout._core.validation import check_option, check_sample_weight, set_parameters
from marginout._models.linear import DropoutLinearModel, DropoutRegressor
from marginout._models.online.partial_fit import OnlineRegressor
from marginout._search.search import Search
from marginout.estimators._docstrings import documented
from marginout.estimators._export import export, filled_in
from marginout.losses import Loss, Pinball


def check_quantiles(quantile: Any) -> Array:
    """Quantiles between 0 and 1, (K,)."""
    try:
        values = np.array(quantile, dtype=np.float64) if _are_numbers(quantile) else np.array([np.nan])
    except (TypeError, ValueError):
        values = np.array([np.nan])
    if values.ndim > 1 or not values.size or not np.all((values > 0) & (values < 1)):
        raise ValueError(
            f"quantile={quantile!r} must be a number between 0 and 1, or a list of such numbers, as "
            "in [0.1, 0.9]."
        )
    return np.atleast_1d(values)


def _are_numbers(quantile: Any) -> bool:
    return np.asarray(quantile).dtype.kind in "fiu"


class QuantilePredictions(DropoutLinearModel):
    """What the model and its search share: what quantiles are asked for, and the score."""

    quantile: Any
    #: What `score` returns, in tables and on axes.
    _score_name = "−pinball loss"

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Minus the mean pinball loss of the predictions, the mean over all quantiles: 0 is the best.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Examples.
        y : array-like of shape (n_samples,)
            True targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the examples, >= 0.

        Returns
        -------
        score : float
            −mean of τ·max(0, Δ) + (1 − τ)·max(0, −Δ), Δ = y − prediction.
        """
        scores = self._scores(X)
        scores = scores.reshape(len(scores), -1)
        y = np.asarray(column_or_1d(y), dtype=np.float64)
        check_consistent_length(scores, y)
        weights = None if sample_weight is None else check_sample_weight(sample_weight, scores)
        return self._score_of(y, scores, weights)

    def _score_of(self, y: Any, scores: Array, weights: Array | None) -> float:
        error = y[:, None] - scores
        loss = np.maximum(self._quantiles() * error, (self._quantiles() - 1) * error).mean(axis=1)
        return -float(np.average(loss, weights=weights))

    def _quantiles(self) -> Array:
        return check_quantiles(self.quantile)


@documented
class DropoutQuantileRegressor(QuantilePredictions, OnlineRegressor):
    r"""Linear quantile regression trained under infinitely many corruptions of the data.

    For each quantile τ it minimises

    .. math:: F(w, b) = \tfrac12\|w\|^2 + C \sum_n s_n\, E\rho_\tau(y_n - w\cdot\tilde x_n - b), \qquad
              \rho_\tau(\Delta) = \max(\tau\Delta, (\tau - 1)\Delta),

    where x̃ is the noisy example and the expectation, over all the noise, is replaced by a bound, or by its
    value for a normal score. The offset b is neither corrupted nor regularised. Several quantiles are solved
    in one batch.

    Without noise, and with an offset, the share τ of the training targets lies below the prediction, but for
    examples that are met exactly. With noise this share lies below the *noisy* prediction, on average, and
    intervals between two quantiles are wider. The mean prediction over the training data, weighted by
    `sample_weight`, does not fall as τ rises, whatever the noise, up to `tol`. Of a single example this is
    not guaranteed: where predictions cross, ``np.sort(model.predict(X), axis=1)`` puts them in the order of
    an ascending `quantile`, with a smaller loss.

    Parameters
    ----------
    {quantile}
    {C}
        :class:`sklearn.linear_model.QuantileRegressor` has ‖w‖₁ and a mean instead of the ridge and a sum.
    {noise}
        Without noise this is plain quantile regression with a ridge.
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
    coef_ : array of shape (n_features,) or (n_quantiles, n_features)
        Weights w, one row for each of a sequence of quantiles.
    intercept_ : array of shape (1,) or (n_quantiles,)
        Offsets b.
    {noise_}
    {n_iter_}
    objective_ : float
        F at the solution, summed over the quantiles.
    {optimality_gap_}
    {objective_history_}
        Without noise: at every check of the duality gap.
    {n_features_in_}
    {feature_names_in_}

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from marginout import DropoutQuantileRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = DropoutQuantileRegressor([0.1, 0.5, 0.9], C=100.0, noise=0.1).fit(X, y)
    >>> model.predict(X).shape
    (442, 3)
    """

    def __init__(
        self,
        quantile: Any = 0.5,
        C: float = 1.0,
        *,
        noise: Any = "auto",
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
        expectation = check_option("expectation", self.expectation, ["bound", "gaussian"])
        return Pinball(self._quantiles(), expectation, scale=float(np.ptp(Y)) or 1.0)

    def _look(self, y: Any, weights: Array) -> tuple[NDArray[Any], Seen]:
        # The weighted median: an example of weight 2 counts as two do, and one of weight 0 as none.
        some = np.flatnonzero(weights > 0) if weights.any() else np.arange(len(y))
        order = some[np.argsort(y[some])]
        below = np.cumsum(weights[order])
        median = y[order[np.searchsorted(below, 0.5 * below[-1])]]
        return y, replace(Numbers.of(y[some]), middle=np.array([median * len(some)]))

    def _targets(self, seen: Any, fit_intercept: bool, d: int) -> Targets:
        quantiles = self._quantiles()
        outputs = len(quantiles) if isinstance(self.quantile, Iterable) else None
        return Centred(seen, seen.middle / seen.n if fit_intercept else 0.0, outputs)

    def to_sklearn(self) -> QuantileRegressor | Pipeline:
        """A fitted QuantileRegressor of scikit-learn, behind an imputer if ``missing="conditional"``."""
        if isinstance(self.quantile, Iterable):
            raise ValueError(
                f"quantile={self.quantile!r}: scikit-learn's QuantileRegressor has one quantile. Fit a model "
                "for each of them, with a number as quantile."
            )
        model = export(self, QuantileRegressor(quantile=self.quantile, fit_intercept=self.fit_intercept))
        model.intercept_ = float(model.intercept_[0])
        return filled_in(self, model)


@documented
class DropoutQuantileRegressorCV(QuantilePredictions, Search, DropoutRegressor):
    r""":class:`DropoutQuantileRegressor` with C and the noise chosen by cross-validation.

    Every cell of a grid over C and noise is fitted to every training set,

    .. math:: \min_{w, b}\; \tfrac12\|w\|^2 +
              C \sum_{n \in \text{fold}} s_n\, E\rho_\tau(y_n - w\cdot\tilde x_n - b),

    all in batches that share their passes over X, each solution starting from those before it;
    no fold copies X. All quantiles have the same C and noise. A best cell on the grid's edge brings
    a :class:`GridEdgeWarning`.

    Parameters
    ----------
    {quantile}
    {search.Cs}
    {search.noises}
    {search.cv}
        None is five folds.
    {search.scoring}
        None is minus the mean pinball loss of all quantiles.
    {search.n_jobs}
    {search.refit}
    {search.select}
    {expectation}
    {fit_intercept}
    {linear.missing}
    {search.tol}
    {search.max_iter}
    {search.verbose}

    Attributes
    ----------
    {search.attributes}
    {n_features_in_}
    {feature_names_in_}

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from marginout import DropoutQuantileRegressorCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> search = DropoutQuantileRegressorCV([0.1, 0.9], Cs=[1.0, 10.0, 100.0], noises=[0.0, 0.2])
    >>> search = search.fit(scale(X), y)
    >>> search.scores_.shape
    (5, 3, 2)
    """

    _kind = DropoutQuantileRegressor

    def __init__(
        self,
        quantile: Any = 0.5,
        Cs: Any = 10,
        noises: Any = "auto",
        *,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: bool = True,
        select: str = "best",
        expectation: str = "bound",
        fit_intercept: bool = True,
        missing: str = "error",
        tol: float = 1e-3,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        set_parameters(locals())
