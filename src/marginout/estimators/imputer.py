"""The conditional Gaussian as a transformer, in front of any model."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from marginout._core.fit import untouched_on_failure
from marginout._core.gaussian import estimate
from marginout._core.validation import check_count, check_flag, check_real, tidy, warn_user
from marginout.estimators._docstrings import documented

Array = NDArray[np.float64]


@documented
class GaussianImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Fill in what is missing with its conditional mean under a normal law of the features.

    With x ~ N(μ, Σ), where O is known and M is missing,

    .. math:: \hat x_M = \mu_M + \Sigma_{MO}\Sigma_{OO}^{-1}(x_O - \mu_O), \qquad
              S_M = \Sigma_{MM} - \Sigma_{MO}\Sigma_{OO}^{-1}\Sigma_{OM}.

    μ and Σ are estimated from complete rows or from rows that miss values. Rows that miss the same features
    share all that is expensive, and rows of many patterns are solved together. Features that depend on one
    another almost linearly gain most; of counts of words and other data that are mostly zeros, little can be
    expected.

    Parameters
    ----------
    rank : "auto" or int, default="auto"
        Σ = LLᵀ + D with D diagonal, and L of this rank. From the number of features on Σ is any matrix.
        "auto" does so for up to 64 features, and takes a rank of 64 for more.
    shrinkage : "auto" or float, default="auto"
        The weight ρ of the diagonal of Σ, 0 <= ρ < 1: as if n·ρ/(1 − ρ) more rows had been seen whose
        features do not depend on one another. "auto" is the estimate of Schäfer and Strimmer (2005), in which
        every pair of features uses the rows where both are known.
    add_indicator : bool, default=False
        Whether to add a column of zeros and ones for every feature that missed values in the fit: 1 where
        the value is missing.
    tol : float, default=1e-4
        Where expectation-maximisation is needed, it ends when a step gains less than this in the mean
        log-likelihood of a known value.
    max_iter : int, default=100
        Most of these steps. A fit that reaches it warns.

    Attributes
    ----------
    mean_ : array of shape (n_features,)
        μ. 0 of a feature of which nothing was known.
    shrinkage_ : float
        ρ.
    rank_ : int
        The rank of L.
    log_likelihood_ : array of shape (n_steps + 1,)
        The log-likelihood of the standardised data and of the rows that shrinkage adds, constants apart:
        at the start and after every step. It never falls.
    n_iter_ : int
        Steps of the fit.
    indicator_features_ : array of int
        The features that missed values in the fit.
    {n_features_in_}
    {feature_names_in_}

    See Also
    --------
    DropoutLogisticRegression : With ``missing="conditional"`` it uses the variances, too.

    Notes
    -----
    A feature that does not vary in the fit, or of which nothing was known, is filled in with its mean (or 0).
    A millionth of every feature's variance, at least, is its own: Σ is never singular.

    Categories: encode them one-hot, with NaN in all columns of a category that is missing. The columns of a
    category are filled in with what resembles probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from marginout import GaussianImputer
    >>> x = np.random.default_rng(0).normal(size=(1000, 1))
    >>> X = np.hstack([x, 2 * x])
    >>> imputer = GaussianImputer().fit(X)
    >>> imputer.transform([[1.0, np.nan]]).round(1)
    array([[1., 2.]])
    """

    def __init__(
        self,
        *,
        rank: Any = "auto",
        shrinkage: Any = "auto",
        add_indicator: bool = False,
        tol: float = 1e-4,
        max_iter: int = 100,
    ) -> None:
        self.rank = rank
        self.shrinkage = shrinkage
        self.add_indicator = add_indicator
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any = None) -> Self:
        """Estimate the law of the features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, in which NaN is missing.
        y : None
            Not used.

        Returns
        -------
        self : object
            The fitted imputer.
        """
        rank, shrinkage = self._checked_rank(), self._checked_shrinkage()
        tol, max_iter = check_real("tol", self.tol, above=0), check_count("max_iter", self.max_iter, 1)
        check_flag("add_indicator", self.add_indicator)
        with untouched_on_failure(self):
            X = self._validated(X, reset=True)
            found = estimate(X, rank, shrinkage, tol, max_iter)
        self._law, self.mean_, self.shrinkage_ = found.law, found.law.mean, found.shrinkage
        self.rank_, self.log_likelihood_ = found.law.rank, np.array(found.history)
        self.n_iter_ = max(1, len(found.history) - 1)
        self.indicator_features_ = np.flatnonzero(np.isnan(X).any(axis=0))
        if not found.converged:
            warn_user(
                f"GaussianImputer stopped at max_iter={max_iter}, where a step still gains "
                f"{found.history[-1] - found.history[-2]:.2g} of log-likelihood: raise max_iter or "
                f"tol={tol}.",
                ConvergenceWarning,
            )
        return self

    def transform(self, X: Any, return_variance: bool = False) -> Any:
        """Fill in conditional means.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, in which NaN is missing.
        return_variance : bool, default=False
            Whether to return the conditional variances, too.

        Returns
        -------
        X : array of shape (n_samples, n_features), or with the indicator's columns
            In float32 if X is.
        variance : array of shape (n_samples, n_features)
            The variance of every value that was missing, and 0 elsewhere. Only with `return_variance`.
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        filled = self._with_indicator(self._law.fill(X), X)
        return (filled, self._law.variances(X)) if return_variance else filled

    def sample(self, X: Any, n_draws: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Draw what is missing from its conditional law, for multiple imputation.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, in which NaN is missing.
        n_draws : int, default=1
            How many copies of X to draw.
        random_state : int, RandomState or None, default=None
            Seeds the draws.

        Returns
        -------
        X : array of shape (n_draws, n_samples, n_features)
            Copies of X, each with its own draws for NaN.
        """
        check_is_fitted(self)
        count = check_count("n_draws", n_draws, 1)
        X = self._validated(X, reset=False)
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31))
        return np.stack([self._law.draw(X, rng) for _ in range(count)])

    def covariance(self) -> Array:
        """Σ, the covariance of the features.

        Returns
        -------
        covariance : array of shape (n_features, n_features)
            LLᵀ + D.
        """
        check_is_fitted(self)
        return self._law.covariance()

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns that `transform` gives.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the features; None takes those of the fit.

        Returns
        -------
        names : array of str
            With `add_indicator`, ``missingindicator_`` and the name for the columns that are added.
        """
        check_is_fitted(self)
        names = super().get_feature_names_out(input_features)
        if not self.add_indicator:
            return np.asarray(names)
        added = [f"missingindicator_{names[i]}" for i in self.indicator_features_]
        return np.concatenate([names, np.array(added, dtype=object)])

    def _with_indicator(self, filled: NDArray[Any], X: NDArray[Any]) -> NDArray[Any]:
        if not check_flag("add_indicator", self.add_indicator):
            return filled
        return np.hstack([filled, np.isnan(X[:, self.indicator_features_]).astype(X.dtype)])

    def _validated(self, X: Any, reset: bool) -> NDArray[Any]:
        X = tidy(X)
        if sp.issparse(X):
            raise TypeError(
                "X is sparse, but conditional means are not: give X.toarray() if it fits into memory. For "
                "sparse data choose missing='deleted' of marginout's linear models."
            )
        options = {"dtype": [np.float64, np.float32], "ensure_all_finite": "allow-nan"}
        return np.asarray(validate_data(self, X, reset=reset, **options))

    def _checked_rank(self) -> int | None:
        if isinstance(self.rank, str) and self.rank == "auto":
            return None
        if not isinstance(self.rank, Integral) or isinstance(self.rank, bool) or self.rank < 1:
            raise ValueError(f"rank={self.rank!r} must be 'auto' or a whole number of at least 1.")
        return int(self.rank)

    def _checked_shrinkage(self) -> float | None:
        if isinstance(self.shrinkage, str) and self.shrinkage == "auto":
            return None
        number = isinstance(self.shrinkage, Real) and not isinstance(self.shrinkage, bool)
        if not number or not 0 <= float(self.shrinkage) < 1:
            raise ValueError(f"shrinkage={self.shrinkage!r} must be 'auto' or a number in [0, 1).")
        return float(self.shrinkage)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
