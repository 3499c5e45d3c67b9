"""Models and their peers behind one interface: make(C, rate) returns an estimator.

A peer also has the function that it minimises and an estimator that minimises it to a small tolerance, so
that its precision can be given with its time. All use C as scikit-learn does, ½‖w‖² + C·Σ loss. Plain peers
ignore the rate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.svm import LinearSVC, LinearSVR

from marginout import (
    DropoutLogisticRegression,
    DropoutSVC,
    DropoutSVR,
    ExplicitCorruptionClassifier,
    LatentDropoutSVC,
)

Make = Callable[[float, float], Any]

#: Options of a tight solve. Without noise, rounding keeps dual coordinate descent above 1e-9, so iterations
#: are limited: 3,000 bring its certificate below 1e-7.
TIGHT: dict[str, Any] = {"tol": 1e-9, "max_iter": 3000}
EPSILON = 0.1
#: The loss of the paper, and its expectation.
PAPER: dict[str, Any] = {"loss": "hinge", "expectation": "bound"}


@dataclass(frozen=True)
class Peer:
    """A name, a function that makes the estimator, and, where it is known, the objective.

    `objective(estimator, C, X, y)` is its value at a fit, `tight(C, rate)` makes an estimator that reaches
    its minimum, and `noisy` says whether the rate has an effect.
    """

    name: str
    make: Make
    objective: Callable[[Any, float, Any, Any], float] | None = None
    tight: Make | None = None
    noisy: bool = False


class ScaledSGD(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """SGDClassifier(loss="hinge") with the parameter C: alpha = 1/(C·n)."""

    def __init__(self, C: float = 1.0, random_state: Any = None) -> None:
        self.C = C
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        self.model_ = SGDClassifier(alpha=1 / (self.C * X.shape[0]), random_state=self.random_state).fit(X, y)
        self.coef_, self.intercept_ = self.model_.coef_, self.model_.intercept_
        self.classes_, self.n_iter_ = self.model_.classes_, self.model_.n_iter_
        return self

    def predict(self, X: Any) -> Any:
        return self.model_.predict(X)


class ExplicitCorruption(ExplicitCorruptionClassifier):
    """LinearSVC on corrupted copies of the data, which marginout replaces."""

    @property
    def n_iter_(self) -> Any:
        return self.estimator_.n_iter_


def _ours(estimator: Any, C: float, X: Any, y: Any) -> float:
    return float(estimator.objective_)


def _scores_and_signs(estimator: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Scores (n, K) and signs ±1 (n, K) of the one-vs-rest problems."""
    classes = estimator.classes_[1:] if len(estimator.classes_) == 2 else estimator.classes_
    return X @ estimator.coef_.T + estimator.intercept_, np.where(np.equal.outer(y, classes), 1.0, -1.0)


def _ridge(estimator: Any, offset: bool) -> float:
    """½‖w‖², plus ½b² if the peer regularises its offset."""
    return 0.5 * float(np.sum(estimator.coef_**2) + offset * np.sum(np.square(estimator.intercept_)))


def _hinge(estimator: Any, C: float, X: Any, y: Any, offset: bool) -> float:
    scores, signs = _scores_and_signs(estimator, X, y)
    return _ridge(estimator, offset) + C * float(np.maximum(0, 1 - signs * scores).sum())


def _squared_hinge(estimator: Any, C: float, X: Any, y: Any) -> float:
    scores, signs = _scores_and_signs(estimator, X, y)
    return _ridge(estimator, True) + C * float(np.square(np.maximum(0, 1 - signs * scores)).sum())


def _logistic(estimator: Any, C: float, X: Any, y: Any, offset: bool) -> float:
    scores, signs = _scores_and_signs(estimator, X, y)
    return _ridge(estimator, offset) + C * float(np.logaddexp(0, -signs * scores).sum())


def _insensitive(estimator: Any, C: float, X: Any, y: Any) -> float:
    errors = np.abs(y - X @ estimator.coef_ - estimator.intercept_)
    return _ridge(estimator, True) + C * float(np.maximum(0, errors - EPSILON).sum())


def _svc(C: float, rate: float, **more: Any) -> Any:
    return DropoutSVC(C, noise=rate, **{**PAPER, **more})


def _svr(C: float, rate: float, **more: Any) -> Any:
    return DropoutSVR(C, noise=rate, epsilon=EPSILON, **more)


def _lr(C: float, rate: float, **more: Any) -> Any:
    return DropoutLogisticRegression(C, noise=rate, multi_class="ovr", **more)


def _linear_svc(C: float, rate: float, **more: Any) -> Any:
    return LinearSVC(loss="hinge", C=C, **more)


def _squared_svc(C: float, rate: float, **more: Any) -> Any:
    return LinearSVC(C=C, **more)


def _linear_svr(C: float, rate: float, **more: Any) -> Any:
    return LinearSVR(C=C, epsilon=EPSILON, **more)


def _plain_lr(C: float, rate: float, **more: Any) -> Any:
    return LogisticRegression(C=C, solver="lbfgs", **{"max_iter": 1000, **more})


def _liblinear_lr(C: float, rate: float, dual: bool, **more: Any) -> Any:
    return LogisticRegression(C=C, solver="liblinear", dual=dual, **{"max_iter": 1000, **more})


# liblinear has its own stopping rule. With these options it ends within about 1e-6 of its optimum.
_LIBLINEAR: dict[str, Any] = {"tol": 1e-7, "max_iter": 100_000, "random_state": 0}
_TIGHT_SVC = partial(_svc, **TIGHT)
_TIGHT_SVR = partial(_svr, **TIGHT)
_TIGHT_LR = partial(_lr, **TIGHT)
_TIGHT_LINEAR_SVC = partial(_linear_svc, **_LIBLINEAR)
_TIGHT_SQUARED_SVC = partial(_squared_svc, **_LIBLINEAR)
_TIGHT_LIBLINEAR_LR = partial(_liblinear_lr, dual=False, **_LIBLINEAR)
_TIGHT_LINEAR_SVR = partial(_linear_svr, **_LIBLINEAR)
_TIGHT_PLAIN_LR = partial(_plain_lr, tol=1e-9, max_iter=100_000)


def _plain_hinge(C: float, rate: float) -> Any:
    return _svc(C, 0.0, **TIGHT)


SVC = Peer("DropoutSVC", _svc, _ours, _TIGHT_SVC, noisy=True)
SVC_IRLS = Peer("DropoutSVC irls", partial(_svc, solver="irls"), _ours, _TIGHT_SVC, noisy=True)
SVC_LBFGS = Peer("DropoutSVC lbfgs", partial(_svc, solver="lbfgs"), _ours, _TIGHT_SVC, noisy=True)
LR = Peer("DropoutLR", _lr, _ours, _TIGHT_LR, noisy=True)
LR_IRLS = Peer("DropoutLR irls", partial(_lr, solver="irls"), _ours, _TIGHT_LR, noisy=True)
LR_LBFGS = Peer("DropoutLR lbfgs", partial(_lr, solver="lbfgs"), _ours, _TIGHT_LR, noisy=True)
SVR = Peer("DropoutSVR", _svr, _ours, _TIGHT_SVR, noisy=True)
LINEAR_SVC = Peer("LinearSVC", _linear_svc, partial(_hinge, offset=True), _TIGHT_LINEAR_SVC)
LINEAR_SVR = Peer("LinearSVR", _linear_svr, _insensitive, _TIGHT_LINEAR_SVR)
SQUARED_SVC = Peer("LinearSVC squared hinge", _squared_svc, _squared_hinge, _TIGHT_SQUARED_SVC)
PLAIN_LR = Peer("LogisticRegression", _plain_lr, partial(_logistic, offset=False), _TIGHT_PLAIN_LR)
PRIMAL_LR, DUAL_LR = (
    Peer(
        f"LogisticRegression liblinear{name}",
        partial(_liblinear_lr, dual=dual),
        partial(_logistic, offset=True),
        _TIGHT_LIBLINEAR_LR,
    )
    for name, dual in (("", False), (" dual", True))
)
LATENT_MEMORY = Peer(
    "LatentDropoutSVC 60, 3 iterations",
    lambda C, rate: LatentDropoutSVC(60, C, noise=rate, solver="joint", max_iter=3),
    noisy=True,
)
SGD = Peer("SGDClassifier", lambda C, rate: ScaledSGD(C), partial(_hinge, offset=False), _plain_hinge)

PEERS = {
    peer.name: peer
    for peer in (
        SVC,
        SVC_IRLS,
        SVC_LBFGS,
        LR,
        LR_IRLS,
        LR_LBFGS,
        SVR,
        LINEAR_SVC,
        LINEAR_SVR,
        SQUARED_SVC,
        PLAIN_LR,
        PRIMAL_LR,
        DUAL_LR,
        SGD,
        LATENT_MEMORY,
    )
}


def explicit(n_copies: int) -> Peer:
    """Explicit corruption with `n_copies` copies. Its time includes the making of the copies."""

    def make(C: float, rate: float) -> Any:
        return ExplicitCorruption(LinearSVC(loss="hinge", C=C), noise=rate, n_copies=n_copies)

    return Peer(f"explicit M={n_copies}", make, noisy=True)
