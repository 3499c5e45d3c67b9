"""Estimators that choose C and the noise by cross-validation, in one search.

How to read a search: `scores_.mean(axis=0)` is a map over C (rows) and noise (columns), drawn by
:class:`marginout.plotting.ValidationMapDisplay`. A ridge that runs towards larger C and heavier
noise together means that noise does the regularising; a best rate of 0 that corruption does not help.
"""

from __future__ import annotations

from typing import Any

from marginout._models.linear import DropoutClassifier, DropoutRegressor
from marginout._search.problem import RATES
from marginout._search.search import GridEdgeWarning, Search
from marginout.estimators.logistic import DropoutLogisticRegression, LogisticProbabilities
from marginout.estimators.svm import DropoutSVC, DropoutSVR

__all__ = ["DropoutLogisticRegressionCV", "DropoutSVCCV", "DropoutSVRCV", "GridEdgeWarning"]


class DropoutSVCCV(Search, DropoutClassifier):
    r""":class:`DropoutSVC` with C and the noise chosen by cross-validation.

    Every cell of a grid over C and noise is fitted to every training set,

    .. math:: \min_{w, b}\; \tfrac12\|w\|^2 +
              C \sum_{n \in \text{fold}} s_n\, E\max(0,\; \ell - y_n(w\cdot\tilde x_n + b)),

    all in batches that share their passes over X, each solution starting from those before it;
    no fold copies X. Without noise this is a plain SVM. A best cell on the grid's edge brings
    a :class:`GridEdgeWarning`.

    Parameters
    ----------
    Cs : int or sequence of floats, default=10
        The values of C, or how many: upwards from the C below which w is negligible, three
        to every two powers of ten.
    noises : sequence of floats or noise models, default=(0, 0.1, ..., 0.9, 0.95)
        Dropout rates, or models from :mod:`marginout.noise`, or both.
    cv : int, splitter, iterable of splits or None, default=None
        As in :class:`sklearn.model_selection.GridSearchCV`; None is five folds, stratified.
    scoring : str, callable or None, default=None
        As in :class:`sklearn.model_selection.GridSearchCV`, one metric; None is accuracy.
    n_jobs : int, default=None
        Threads of the search; None is one. The result does not depend on it.
    refit : bool, default=True
        Whether to fit a model to all data with the chosen cell, at full tolerance.
    select : {"best", "one_se"}, default="best"
        The cell of the best mean score; or, of those within one standard error of it, the
        one of the heaviest noise, and among these of the smallest C.
    margin : float, default=1.0
        The margin ℓ.
    expectation : {"bound", "gaussian"}, default="bound"
        The paper's bound on the expected loss, or the expected loss of a normal score.
    fit_intercept : bool, default=True
        Whether to fit an offset.
    class_weight : dict, "balanced" or None, default=None
        As in :class:`DropoutSVC`; balanced in every training set by itself.
    missing : {"error", "deleted"}, default="error"
        What NaN or null in X means: an error, or a feature that is dead in this example. It adds
        nothing to the score; where the noise is unbiased, a share s of dead features (of groups,
        where the noise has groups) multiplies the others by 1/(1 − s), and under raw deletion they
        stay as they are, in training and prediction alike. The offset is never touched.
    tol : float, default=1e-3
        Tolerance of the refit, see :class:`DropoutSVC`; the search of large data stops at
        twice that.
    max_iter : int, default=1000
        Most iterations of each fit.
    verbose : int, default=0
        Print a line per fit.

    Attributes
    ----------
    C_ : float
    noise_ : float or noise model
        The chosen cell.
    best_score_ : float
        Its mean score.
    scores_ : array of shape (n_folds, n_Cs, n_noises)
        The score of every held-out fold in every cell.
    Cs_ : array of shape (n_Cs,)
        The values of C, ascending.
    noises_ : list of length n_noises
    cv_results_ : dict
        The same as columns of a table, one row per cell, as GridSearchCV gives it.
    best_index_ : int
        The chosen cell's row in it.
    best_params_ : dict
    best_estimator_ : DropoutSVC
        The model refitted to all data; its `coef_`, `intercept_`, `n_iter_`, `objective_`,
        `optimality_gap_` and `objective_history_` are attributes of the search, too.
    n_splits_ : int
    classes_ : array of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)
        When the features of X all have names.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from marginout import DropoutSVCCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = DropoutSVCCV(Cs=[0.01, 0.1, 1.0, 10.0], noises=[0.0, 0.2, 0.4]).fit(scale(X), y)
    >>> search.scores_.shape
    (5, 4, 3)
    """

    def __init__(
        self,
        Cs: Any = 10,
        noises: Any = RATES,
        *,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: bool = True,
        select: str = "best",
        margin: float = 1.0,
        expectation: str = "bound",
        fit_intercept: bool = True,
        class_weight: Any = None,
        missing: str = "error",
        tol: float = 1e-3,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.noises = noises
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.refit = refit
        self.select = select
        self.margin = margin
        self.expectation = expectation
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.missing = missing
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose

    def _model(self, C: float, noise: Any) -> DropoutSVC:
        return DropoutSVC(
            C,
            noise=noise,
            margin=self.margin,
            expectation=self.expectation,
            fit_intercept=self.fit_intercept,
            class_weight=self.class_weight,
            missing=self.missing,
            tol=self.tol,
            max_iter=self.max_iter,
        )


class DropoutLogisticRegressionCV(Search, LogisticProbabilities, DropoutClassifier):
    r""":class:`DropoutLogisticRegression` with C and the noise chosen by cross-validation.

    Every cell of a grid over C and noise is fitted to every training set,

    .. math:: \min_{w, b}\; \tfrac12\|w\|^2 +
              C \sum_{n \in \text{fold}} s_n\, E\log(1 + e^{-y_n(w\cdot\tilde x_n + b)}),

    all in batches that share their passes over X, each solution starting from those before it;
    no fold copies X. Without noise this is a plain logistic regression. A best cell on the grid's edge brings
    a :class:`GridEdgeWarning`.

    Parameters
    ----------
    Cs : int or sequence of floats, default=10
        The values of C, or how many: upwards from the C below which w is negligible, three
        to every two powers of ten.
    noises : sequence of floats or noise models, default=(0, 0.1, ..., 0.9, 0.95)
        Dropout rates, or models from :mod:`marginout.noise`, or both.
    cv : int, splitter, iterable of splits or None, default=None
        As in :class:`sklearn.model_selection.GridSearchCV`; None is five folds, stratified.
    scoring : str, callable or None, default=None
        As in :class:`sklearn.model_selection.GridSearchCV`, one metric; None is accuracy.
    n_jobs : int, default=None
        Threads of the search; None is one. The result does not depend on it.
    refit : bool, default=True
        Whether to fit a model to all data with the chosen cell, at full tolerance.
    select : {"best", "one_se"}, default="best"
        The cell of the best mean score; or, of those within one standard error of it, the
        one of the heaviest noise, and among these of the smallest C.
    expectation : {"bound", "gaussian"}, default="bound"
        The paper's bound on the expected loss, or the expected loss of a normal score.
    fit_intercept : bool, default=True
        Whether to fit an offset.
    class_weight : dict, "balanced" or None, default=None
        As in :class:`DropoutLogisticRegression`; balanced in every training set by itself.
    missing : {"error", "deleted"}, default="error"
        What NaN or null in X means: an error, or a feature that is dead in this example. It adds
        nothing to the score; where the noise is unbiased, a share s of dead features (of groups,
        where the noise has groups) multiplies the others by 1/(1 − s), and under raw deletion they
        stay as they are, in training and prediction alike. The offset is never touched.
    tol : float, default=1e-3
        Tolerance of the refit, see :class:`DropoutLogisticRegression`; the search of large data stops at
        twice that.
    max_iter : int, default=1000
        Most iterations of each fit.
    verbose : int, default=0
        Print a line per fit.

    Attributes
    ----------
    C_ : float
    noise_ : float or noise model
        The chosen cell.
    best_score_ : float
        Its mean score.
    scores_ : array of shape (n_folds, n_Cs, n_noises)
        The score of every held-out fold in every cell.
    Cs_ : array of shape (n_Cs,)
        The values of C, ascending.
    noises_ : list of length n_noises
    cv_results_ : dict
        The same as columns of a table, one row per cell, as GridSearchCV gives it.
    best_index_ : int
        The chosen cell's row in it.
    best_params_ : dict
    best_estimator_ : DropoutLogisticRegression
        The model refitted to all data; its `coef_`, `intercept_`, `n_iter_`, `objective_`,
        `optimality_gap_` and `objective_history_` are attributes of the search, too.
    n_splits_ : int
    classes_ : array of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)
        When the features of X all have names.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from marginout import DropoutLogisticRegressionCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = DropoutLogisticRegressionCV(Cs=[0.1, 1.0, 10.0], noises=[0.0, 0.2, 0.4]).fit(scale(X), y)
    >>> search.scores_.shape
    (5, 3, 3)
    """

    def __init__(
        self,
        Cs: Any = 10,
        noises: Any = RATES,
        *,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: bool = True,
        select: str = "best",
        expectation: str = "bound",
        fit_intercept: bool = True,
        class_weight: Any = None,
        missing: str = "error",
        tol: float = 1e-3,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.noises = noises
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.refit = refit
        self.select = select
        self.expectation = expectation
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.missing = missing
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose

    def _model(self, C: float, noise: Any) -> DropoutLogisticRegression:
        return DropoutLogisticRegression(
            C,
            noise=noise,
            expectation=self.expectation,
            fit_intercept=self.fit_intercept,
            class_weight=self.class_weight,
            missing=self.missing,
            tol=self.tol,
            max_iter=self.max_iter,
        )


class DropoutSVRCV(Search, DropoutRegressor):
    r""":class:`DropoutSVR` with C and the noise chosen by cross-validation.

    Every cell of a grid over C and noise is fitted to every training set,

    .. math:: \min_{w, b}\; \tfrac12\|w\|^2 +
              C \sum_{n \in \text{fold}} s_n\, E\max(0,\; |y_n - w\cdot\tilde x_n - b| - \varepsilon),

    all in batches that share their passes over X, each solution starting from those before it;
    no fold copies X. Without noise this is a plain SVR. A best cell on the grid's edge brings
    a :class:`GridEdgeWarning`.

    Parameters
    ----------
    Cs : int or sequence of floats, default=10
        The values of C, or how many: upwards from the C below which w is negligible, three
        to every two powers of ten.
    noises : sequence of floats or noise models, default=(0, 0.1, ..., 0.9, 0.95)
        Dropout rates, or models from :mod:`marginout.noise`, or both.
    cv : int, splitter, iterable of splits or None, default=None
        As in :class:`sklearn.model_selection.GridSearchCV`; None is five folds.
    scoring : str, callable or None, default=None
        As in :class:`sklearn.model_selection.GridSearchCV`, one metric; None is R².
    n_jobs : int, default=None
        Threads of the search; None is one. The result does not depend on it.
    refit : bool, default=True
        Whether to fit a model to all data with the chosen cell, at full tolerance.
    select : {"best", "one_se"}, default="best"
        The cell of the best mean score; or, of those within one standard error of it, the
        one of the heaviest noise, and among these of the smallest C.
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
    tol : float, default=1e-3
        Tolerance of the refit, see :class:`DropoutSVR`; the search of large data stops at
        twice that.
    max_iter : int, default=1000
        Most iterations of each fit.
    verbose : int, default=0
        Print a line per fit.

    Attributes
    ----------
    C_ : float
    noise_ : float or noise model
        The chosen cell.
    best_score_ : float
        Its mean score.
    scores_ : array of shape (n_folds, n_Cs, n_noises)
        The score of every held-out fold in every cell.
    Cs_ : array of shape (n_Cs,)
        The values of C, ascending.
    noises_ : list of length n_noises
    cv_results_ : dict
        The same as columns of a table, one row per cell, as GridSearchCV gives it.
    best_index_ : int
        The chosen cell's row in it.
    best_params_ : dict
    best_estimator_ : DropoutSVR
        The model refitted to all data; its `coef_`, `intercept_`, `n_iter_`, `objective_`,
        `optimality_gap_` and `objective_history_` are attributes of the search, too.
    n_splits_ : int
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)
        When the features of X all have names.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from marginout import DropoutSVRCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> search = DropoutSVRCV(Cs=[0.1, 1.0, 10.0, 100.0], noises=[0.0, 0.2, 0.4]).fit(scale(X), y)
    >>> search.scores_.shape
    (5, 4, 3)
    """

    def __init__(
        self,
        Cs: Any = 10,
        noises: Any = RATES,
        *,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: bool = True,
        select: str = "best",
        epsilon: float = 0.1,
        expectation: str = "bound",
        fit_intercept: bool = True,
        missing: str = "error",
        tol: float = 1e-3,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.noises = noises
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.refit = refit
        self.select = select
        self.epsilon = epsilon
        self.expectation = expectation
        self.fit_intercept = fit_intercept
        self.missing = missing
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose

    def _model(self, C: float, noise: Any) -> DropoutSVR:
        return DropoutSVR(
            C,
            noise=noise,
            epsilon=self.epsilon,
            expectation=self.expectation,
            fit_intercept=self.fit_intercept,
            missing=self.missing,
            tol=self.tol,
            max_iter=self.max_iter,
        )
