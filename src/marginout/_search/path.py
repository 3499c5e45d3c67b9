"""Solutions over a grid of C and noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from marginout._core.interfaces import Array
from marginout._core.validation import check_sample_weight
from marginout._search.chains import Part, walk
from marginout._search.problem import RATES, check_Cs, check_noises, pose

__all__ = ["Path", "path"]


@dataclass(frozen=True)
class Path:
    """Linear models over a grid of C and noise.

    Attributes
    ----------
    Cs : array of shape (n_Cs,)
        The values of C, in ascending order.
    noises : list of n_noises floats or noise models
        The noises, as they were given.
    coefs : array of shape (n_Cs, n_noises, n_problems, n_features)
        One problem for two classes or a regression, one per class for more.
    intercepts : array of shape (n_Cs, n_noises, n_problems)
        The offsets.
    objectives : array of shape (n_Cs, n_noises)
        F at each solution, summed over the one-vs-rest problems.
    gaps : array of shape (n_Cs, n_noises)
        Certificates: F exceeds its minimum by no more than this.
    converged : array of bool of shape (n_Cs, n_noises)
        Whether each fit reached its tolerance.
    classes : array of shape (n_classes,) or None
        Class labels; None of a regression.
    """

    Cs: Array
    noises: list[Any]
    coefs: Array
    intercepts: Array
    objectives: Array
    gaps: Array
    converged: NDArray[np.bool_]
    classes: NDArray[Any] | None


def path(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    Cs: Any = 10,
    noises: Any = RATES,
    sample_weight: Any = None,
    n_jobs: int | None = None,
) -> Path:
    r"""The solutions of an estimator over a grid of C and noise.

    .. math:: w(C, \mathrm{noise}) = \arg\min_{w, b}\; \tfrac12\|w\|^2 +
              C \sum_n s_n\, \varphi(m_n, v_n; y_n)

    Each is what the estimator's `fit` would find with that `C` and `noise`, to the same
    tolerance, but they start from one another and share the passes over X.

    Parameters
    ----------
    estimator : DropoutSVC, DropoutSVR or DropoutLogisticRegression
        Says the loss, the class weights, `tol` and the rest; its `C` and `noise` do not matter.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Training data.
    y : array-like of shape (n_samples,)
        Class labels or targets.
    Cs : int or sequence of floats, default=10
        The values of C, or how many: upwards from the C below which w is negligible, three
        to every two powers of ten.
    noises : sequence of floats or noise models, default=(0, 0.1, ..., 0.9, 0.95)
        Dropout rates, or models from :mod:`marginout.noise`.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the examples, >= 0; each multiplies its example's loss.
    n_jobs : int, default=None
        Threads; None is one. The result does not depend on it.

    Returns
    -------
    path : Path
        The solutions.

    Examples
    --------
    >>> import marginout
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> path = marginout.path(marginout.DropoutSVC(), scale(X), y, Cs=[0.01, 0.1], noises=[0.1, 0.5])
    >>> path.coefs.shape
    (2, 2, 1, 30)
    """
    if not getattr(estimator, "_fits_blocks", False):
        raise TypeError(
            f"estimator={estimator!r} must be a DropoutSVC, a DropoutSVR, a DropoutLogisticRegression or a "
            "DropoutQuantileRegressor."
        )
    model = clone(estimator)  # the estimator itself is not touched
    X, y = model._validated_for_fit(X, y)
    names = getattr(model, "feature_names_in_", None)
    weights = check_sample_weight(sample_weight, X)
    problem = pose(estimator, X, y, weights, [np.arange(len(y))])
    noises, models = check_noises(noises, X, weights, names, estimator.missing)
    Cs = check_Cs(Cs, problem)
    shape = len(Cs), len(noises)
    K = problem.Y.shape[1]
    coefs, intercepts = np.zeros((*shape, K, X.shape[1])), np.zeros((*shape, K))
    objectives, gaps, converged = np.zeros(shape), np.zeros(shape), np.zeros(shape, dtype=bool)

    def keep(parts: list[Part], _: tuple[Array, Array]) -> None:
        for part in parts:
            if part.error is not None:
                raise part.error
            cell = part.C, part.noise
            coefs[cell], intercepts[cell] = part.W.T, problem.targets.intercept(part.b)
            objectives[cell], gaps[cell] = part.value.sum(), part.gap.sum()
            converged[cell] = part.converged

    walk(problem, Cs, models, keep, n_jobs)
    return Path(Cs, noises, coefs, intercepts, objectives, gaps, converged, problem.targets.classes)
