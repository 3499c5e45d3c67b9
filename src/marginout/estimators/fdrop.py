"""The SVM for the worst deletion of features (FDROP, Globerson & Roweis, 2006)."""

from __future__ import annotations

from functools import partial
from typing import Any

from sklearn.svm import LinearSVC

from marginout._core.design.storage import Design
from marginout._core.fit import Plan
from marginout._core.interfaces import Array, Minimizer
from marginout._core.validation import check_count, set_parameters
from marginout._models.fdrop.solver import DeletionProblem, solve
from marginout._models.linear import DropoutClassifier
from marginout.estimators._docstrings import documented
from marginout.estimators._export import export
from marginout.losses import Hinge, Loss
from marginout.noise import Deletion, Noise


@documented
class FeatureDeletionSVC(DropoutClassifier):
    r"""Linear support vector classifier for the worst deletion of up to K features of each example.

    It minimises

    .. math:: F(w, b) = \tfrac12\|w\|^2 + C \sum_n s_n \max\bigl(0,\;
              1 - y_n(w\cdot x_n + b) + s_K(y_n w\circ x_n)\bigr),

    where s_K is the sum of the K largest positive entries: the loss of score if an adversary who knows w
    deletes K features of every example. The offset b is neither deleted nor regularised. Several classes
    are treated one-vs-rest.

    Parameters
    ----------
    {C}
        As in :class:`sklearn.svm.LinearSVC`.
    n_deletions : int, default=1
        The number K of features that may be deleted, from 0 (a plain SVM) to n_features.
    {fit_intercept}
    {class_weight}
    missing : {"error", "deleted"}, default="error"
        What NaN or null in X means. "error" refuses it. "deleted" takes it for a feature that is
        dead in this example, in training and in prediction: it adds nothing to the score.
    tol : float, default=1e-3
        The fit ends when the duality gap is at most tol/10 of the objective; small problems are
        solved better than that.
    max_iter : int, default=10000
        Most sweeps over the examples; reaching it warns, with the distance left. The number needed grows
        about as C: for a large C raise max_iter, or tol.
    verbose : int, default=0
        Print a line whenever the duality gap is computed.

    Attributes
    ----------
    {classifier.coef_}
    {classifier.intercept_}
    {classifier.classes_}
    n_iter_ : int
        Sweeps over the examples.
    {classifier.objective_}
    optimality_gap_ : float
        Certificate, a duality gap: `objective_` exceeds the minimum by no more than this.
    objective_history_ : array
        F whenever the duality gap was computed.
    {n_features_in_}
    {feature_names_in_}

    Notes
    -----
    The dual is solved by coordinate descent over the examples. Besides X, as CSR, it keeps one number for
    every non-zero entry of X and every problem that is being solved, one per thread.

    References
    ----------
    A. Globerson, S. Roweis, *Nightmare at Test Time: Robust Learning by Feature Deletion*, ICML 2006.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from marginout import FeatureDeletionSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> FeatureDeletionSVC(C=0.1, n_deletions=3).fit(scale(X), y).coef_.shape
    (1, 30)
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        n_deletions: int = 1,
        fit_intercept: bool = True,
        class_weight: Any = None,
        missing: str = "error",
        tol: float = 1e-3,
        max_iter: int = 10_000,
        verbose: int = 0,
    ) -> None:
        set_parameters(locals())

    def _loss(self, Y: Array) -> Loss:
        return Hinge()

    def _noise(self) -> Noise:
        """None: nothing is averaged over, the worst case is taken."""
        return Deletion(0.0)

    def _problem(self, design: Design, plan: Plan, Y: Array, weights: Array) -> Minimizer:
        X = design.X
        n_deletions = check_count("n_deletions", self.n_deletions, 0)
        if n_deletions > X.shape[1]:
            raise ValueError(
                f"n_deletions={n_deletions} must be at most the number of features, n_features={X.shape[1]}."
            )
        if n_deletions == 0:
            return super()._problem(design, plan, Y, weights)
        problem = DeletionProblem.of(X, Y, weights, n_deletions, plan.fit_intercept, self._penalty())
        return partial(solve, problem)

    def _sizes(self) -> dict[str, Any]:
        return {"C": self.C, "n_deletions": self.n_deletions}

    def _checked_solver(self, in_one_place: bool = True) -> str:
        return "auto"

    def _needs_positive(self) -> bool:
        return False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # The better of two features is the one that is deleted: accuracy on clean data may be poor.
        tags.classifier_tags.poor_score = True
        return tags

    def to_sklearn(self) -> LinearSVC:
        """A fitted :class:`sklearn.svm.LinearSVC` with the same predictions."""
        return export(self, LinearSVC(loss="hinge", C=self.C, fit_intercept=self.fit_intercept))
