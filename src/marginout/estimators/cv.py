"""Estimators that choose C and the noise by cross-validation, in one search.

How to read a search: `scores_.mean(axis=0)` is a map over C (rows) and noise (columns), drawn by
:class:`marginout.plotting.ValidationMapDisplay`. A ridge that runs towards larger C and heavier
noise together means that noise does the regularising; a best rate of 0 that corruption does not help.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from marginout._core.validation import set_parameters
from marginout._models.linear import DropoutClassifier, DropoutRegressor
from marginout._search.search import GridEdgeWarning, Search
from marginout.estimators._docstrings import documented
from marginout.estimators.logistic import DropoutLogisticRegression, LogisticProbabilities
from marginout.estimators.svm import DropoutSVC, DropoutSVR

__all__ = ["DropoutLogisticRegressionCV", "DropoutSVCCV", "DropoutSVRCV", "GridEdgeWarning"]


@documented
class DropoutSVCCV(Search, DropoutClassifier):
    r""":class:`DropoutSVC` with C and the noise chosen by cross-validation.

    Every cell of a grid over C and noise is fitted to every training set,

    .. math:: \min_{w, b}\; \tfrac12\|w\|^2 +
              C \sum_{n \in \text{fold}} s_n\, E\,L(\ell - y_n(w\cdot\tilde x_n + b)),

    where L is the square of the hinge loss max(0, z), or itself, all in batches that share their passes
    over X, each solution starting from those before it; no fold copies X. Without noise this
    is a plain SVM. A best cell on the grid's edge brings a :class:`GridEdgeWarning`.

    Parameters
    ----------
    {search.Cs}
    {search.noises}
    {search.cv}
        None is five folds, stratified.
    {search.scoring}
        None is accuracy.
    {search.n_jobs}
    {search.refit}
    {search.select}
    {l1_ratio}
    {loss}
    {margin}
    {svm.expectation}
    {fit_intercept}
    {search.class_weight}
    multi_class : str or list of str, default="ovr"
        As in :class:`DropoutSVC`, or several values to choose from, such as ["ovr", "pairwise"]: each
        is searched over the same grid and folds, and that of the best mean score is taken. On images
        whose pixels are deleted "pairwise" does better, on text "ovr".
    {linear.missing}
    {search.tol}
    {search.max_iter}
    {search.verbose}

    Attributes
    ----------
    {search.attributes}
    {search.multi_class_}
    {search.multi_class_scores_}
    {classifier.classes_}
    {n_features_in_}
    {feature_names_in_}

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

    _kind = DropoutSVC
    # Of models that were stored before there was a choice.
    loss = "hinge"

    def __init__(
        self,
        Cs: Any = 10,
        noises: Any = "auto",
        *,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: bool = True,
        select: str = "best",
        l1_ratio: float = 0.0,
        loss: str = "squared_hinge",
        margin: float = 1.0,
        expectation: str = "gaussian",
        fit_intercept: bool = True,
        class_weight: Any = None,
        multi_class: str | Sequence[str] = "ovr",
        missing: str = "error",
        tol: float = 1e-3,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        set_parameters(locals())


@documented
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
    {search.Cs}
    {search.noises}
    {search.cv}
        None is five folds, stratified.
    {search.scoring}
        None is accuracy.
    {search.n_jobs}
    {search.refit}
    {search.select}
    {l1_ratio}
    {expectation}
    {fit_intercept}
    {search.class_weight}
    multi_class : str or list of str, default="auto"
        As in :class:`DropoutLogisticRegression`, or several values to choose from, such as
        ["ovr", "multinomial"]: each is searched over the same grid and folds, and that of the best mean
        score is taken. "auto" is decided once, by all examples; it is "ovr" if a training set of `cv`
        lacks a class.
    {linear.missing}
    {search.tol}
    {search.max_iter}
    {search.verbose}

    Attributes
    ----------
    {search.attributes}
    {search.multi_class_}
    {search.multi_class_scores_}
    {classifier.classes_}
    {n_features_in_}
    {feature_names_in_}

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

    _kind = DropoutLogisticRegression

    def __init__(
        self,
        Cs: Any = 10,
        noises: Any = "auto",
        *,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: bool = True,
        select: str = "best",
        l1_ratio: float = 0.0,
        expectation: str = "bound",
        fit_intercept: bool = True,
        class_weight: Any = None,
        multi_class: str | Sequence[str] = "auto",
        missing: str = "error",
        tol: float = 1e-3,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        set_parameters(locals())


@documented
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
    {search.Cs}
    {search.noises}
    {search.cv}
        None is five folds.
    {search.scoring}
        None is R².
    {search.n_jobs}
    {search.refit}
    {search.select}
    {l1_ratio}
    {epsilon}
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
    >>> from marginout import DropoutSVRCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> search = DropoutSVRCV(Cs=[0.1, 1.0, 10.0, 100.0], noises=[0.0, 0.2, 0.4]).fit(scale(X), y)
    >>> search.scores_.shape
    (5, 4, 3)
    """

    _kind = DropoutSVR

    def __init__(
        self,
        Cs: Any = 10,
        noises: Any = "auto",
        *,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: bool = True,
        select: str = "best",
        l1_ratio: float = 0.0,
        epsilon: float = 0.1,
        expectation: str = "bound",
        fit_intercept: bool = True,
        missing: str = "error",
        tol: float = 1e-3,
        max_iter: int = 1000,
        verbose: int = 0,
    ) -> None:
        set_parameters(locals())
