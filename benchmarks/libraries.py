"""Linear classifiers of Snap ML and of liblinear in threads, with the interface of scikit-learn.

Snap ML is in the extra `bench` where it has wheels. liblinear-multicore has none and needs a C++ compiler:
`pip install liblinear-multicore`. Each is imported where it is used.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

SNAP, MULTICORE = "snapml", "liblinear"
#: liblinear's numbers of its solvers: duals of both hinges, the primal of logistic regression, its default.
SOLVERS = {"hinge": 3, "squared_hinge": 1, "log_loss": 0}


def missing(package: str) -> str:
    """Why the models of a library are left out; an empty text if it is there."""
    return "" if find_spec(package) else f"the package {package} is not installed"


class TwoClasses(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A linear classifier for two classes."""

    def predict(self, X: Any) -> Any:
        return self.classes_[(X @ self.coef_[0] + self.intercept_ > 0).astype(int)]


class SnapModel(TwoClasses):
    """Snap ML's support vector machine (hinge) or logistic regression: ½‖w‖² + ½b² + C Σ loss."""

    def __init__(
        self, loss: str = "hinge", C: float = 1.0, threads: int = 1, random_state: int | None = None
    ) -> None:
        self.loss = loss
        self.C = C
        self.threads = threads
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        import snapml

        make = snapml.SupportVectorMachine if self.loss == "hinge" else snapml.LogisticRegression
        self.classes_, labels = np.unique(y, return_inverse=True)
        model = make(
            regularizer=1 / self.C, n_jobs=self.threads, fit_intercept=True, random_state=self.random_state
        )
        model.fit(X, labels)
        self.coef_, self.intercept_ = np.atleast_2d(model.coef_), np.ravel(model.intercept_)
        self.n_iter_ = np.max(model.n_iter_)
        return self


class MulticoreModel(TwoClasses):
    """liblinear with several threads (liblinear-multicore), two classes: ½‖w‖² + ½b² + C Σ loss.

    Its tolerances are its own defaults.
    """

    def __init__(self, loss: str = "hinge", C: float = 1.0, threads: int = 1) -> None:
        self.loss = loss
        self.C = C
        self.threads = threads

    def fit(self, X: Any, y: Any) -> Self:
        from liblinear.liblinearutil import parameter, problem, train

        self.classes_, labels = np.unique(y, return_inverse=True)
        options = f"-s {SOLVERS[self.loss]} -c {self.C!r} -B 1 -m {self.threads} -q"
        model = train(problem(labels.astype(float), X, bias=1), parameter(options))
        w, b = model.get_decfun()
        sign = 1.0 if model.get_labels()[0] == 1 else -1.0
        self.coef_, self.intercept_ = sign * np.array([w]), sign * np.array([b])
        self.n_iter_ = 0  # it does not say
        return self
