"""One hidden layer under feature noise: two classifiers and a regressor."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from marginout._core.interfaces import Array
from marginout._core.targets import Centred, Numbers, Seen, Targets
from marginout._core.validation import check_option, set_parameters
from marginout._models.latent.stream import LatentStream
from marginout._models.partial import PartialClassifier, PartialRegressor
from marginout.estimators._docstrings import documented
from marginout.estimators.logistic import LogisticProbabilities
from marginout.estimators.svm import hinge_loss, tube_loss
from marginout.losses import Loss, logistic


@documented
class LatentDropoutSVC(LatentStream, PartialClassifier):
    r"""Support vector classifier with one hidden layer, trained under infinitely many corruptions.

    Scores are w·σ(α·x + a) + b, and the fit minimises

    .. math:: F = \tfrac12\|w\|^2 + \tfrac\lambda2\|\alpha\|^2 +
              C \sum_n s_n\, E\,L(\ell - y_n\,\mathrm{score}(\tilde x_n)),

    where L is the hinge loss max(0, z) or its square, and the score is that of the noisy
    example x̃. Noise is carried through the hidden layer by `propagation`, and the expectation
    over the score is replaced by its variational bound or by its value for a normal score.
    Offsets are neither corrupted nor regularised. F is not convex: the fit finds a local
    minimum. Several classes are treated one-vs-rest.

    Parameters
    ----------
    {latent.n_hidden}
    {latent.C}
    {latent.noise}
    loss : {"hinge", "squared_hinge"}, default="hinge"
        L(z) = max(0, z), the paper's, or its square, which is smooth.
    {margin}
    {latent.hidden_penalty}
    {latent.hidden_noise}
    {latent.activation}
    {latent.propagation}
    {expectation}
    {latent.fit_intercept}
    {latent.shared}
    {class_weight}
        Under heavy noise it keeps small classes from being given up.
    {missing}
    {latent.solver}
    {latent.n_init}
    {latent.tol}
    {latent.max_iter}
    {warm_start}
    {latent.random_state}
    {verbose}

    Attributes
    ----------
    {latent.hidden_coef_}
    {latent.hidden_intercept_}
    {latent.coef_}
    {classifier.intercept_}
    {classifier.classes_}
    {noise_}
    {n_iter_}
    {latent.objective_}
    {latent.objective_history_}
    {n_features_in_}
    {feature_names_in_}

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from marginout import LatentDropoutSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LatentDropoutSVC(20, noise=0.3, random_state=0).fit(X[:300] / 16, y[:300])
    >>> model.coef_.shape, model.transform(X / 16).shape
    ((10, 20), (1797, 20))
    """

    # Of models that were stored before there was a choice.
    loss = "hinge"

    def __init__(
        self,
        n_hidden: int = 20,
        C: float = 1.0,
        *,
        noise: Any = "auto",
        loss: str = "hinge",
        margin: float = 1.0,
        hidden_penalty: float = 1.0,
        hidden_noise: float = 0.0,
        activation: str = "sigmoid",
        propagation: str = "taylor",
        expectation: str = "bound",
        fit_intercept: bool = True,
        shared: bool = True,
        class_weight: Any = None,
        missing: str = "error",
        solver: str = "auto",
        n_init: int = 1,
        tol: float = 1e-3,
        max_iter: int = 1000,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        set_parameters(locals())

    def _loss(self, Y: Array) -> Loss:
        return hinge_loss(self)


@documented
class LatentDropoutLogisticRegression(LatentStream, LogisticProbabilities, PartialClassifier):
    r"""Logistic regression on one hidden layer, trained under infinitely many corruptions.

    Scores are w·σ(α·x + a) + b, and the fit minimises

    .. math:: F = \tfrac12\|w\|^2 + \tfrac\lambda2\|\alpha\|^2 +
              C \sum_n s_n\, E\,\log(1 + e^{-y_n\,\mathrm{score}(\tilde x_n)}),

    where the score is that of the noisy example x̃. Noise is carried through the hidden layer
    by `propagation`, and the expectation over the score is replaced by its variational bound
    or by its value for a normal score. Offsets are neither corrupted nor regularised. F is
    not convex: the fit finds a local minimum. Several classes are treated one-vs-rest.

    Parameters
    ----------
    {latent.n_hidden}
    {latent.C}
    {latent.noise}
    {latent.hidden_penalty}
    {latent.hidden_noise}
    {latent.activation}
    {latent.propagation}
    {expectation}
    {latent.fit_intercept}
    {latent.shared}
    multi_class : {"auto", "ovr", "multinomial"}, default="auto"
        "ovr" is a logistic loss for each class against the rest. "multinomial" is −log p of an
        example's class, with p the softmax of all scores; the solver "stochastic" has it. "auto"
        is "multinomial" where the solver has it and the classes share a layer.
    {class_weight}
        Under heavy noise it keeps small classes from being given up.
    {missing}
    {latent.solver}
    {latent.n_init}
    {latent.tol}
    {latent.max_iter}
    {warm_start}
    {latent.random_state}
    {verbose}

    Attributes
    ----------
    {latent.hidden_coef_}
    {latent.hidden_intercept_}
    {latent.coef_}
    {classifier.intercept_}
    {classifier.classes_}
    {noise_}
    multi_class_ : {"ovr", "multinomial"}
        What the fit took. The probabilities of "multinomial" are the softmax of the scores, those of "ovr"
        are 1/(1 + exp(−score)) divided by their sum.
    {n_iter_}
    {latent.objective_}
    {latent.objective_history_}
    {n_features_in_}
    {feature_names_in_}

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from marginout import LatentDropoutLogisticRegression
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LatentDropoutLogisticRegression(20, noise=0.3, random_state=0)
    >>> model.fit(X[:300] / 16, y[:300]).predict_proba(X[:2] / 16).shape
    (2, 10)
    """

    # For models stored by older versions.
    multi_class = "auto"
    multi_class_ = "ovr"

    def __init__(
        self,
        n_hidden: int = 20,
        C: float = 1.0,
        *,
        noise: Any = "auto",
        hidden_penalty: float = 1.0,
        hidden_noise: float = 0.0,
        activation: str = "sigmoid",
        propagation: str = "taylor",
        expectation: str = "bound",
        fit_intercept: bool = True,
        shared: bool = True,
        multi_class: str = "auto",
        class_weight: Any = None,
        missing: str = "error",
        solver: str = "auto",
        n_init: int = 1,
        tol: float = 1e-3,
        max_iter: int = 1000,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        set_parameters(locals())

    def _takes_softmax(self, solver: str, P: int) -> bool:
        kind = check_option("multi_class", self.multi_class, ["auto", "ovr", "multinomial"])
        able = solver == "stochastic" and self._is_shared()
        if kind == "multinomial" and not able:
            raise ValueError(
                "multi_class='multinomial' needs solver='stochastic' and shared=True, but solver="
                f"{self.solver!r} and shared={self.shared!r}: change them, or set multi_class='ovr'."
            )
        return able and kind != "ovr" and P > 1

    def _kind(self, softmax: bool) -> dict[str, Any]:
        return {"multi_class_": "multinomial" if softmax else "ovr"}

    def _has_softmax(self) -> bool:
        return self.multi_class_ == "multinomial"

    def _loss(self, Y: Array) -> Loss:
        return logistic(check_option("expectation", self.expectation, ["bound", "gaussian"]))


@documented
class LatentDropoutSVR(LatentStream, PartialRegressor):
    r"""Support vector regression with one hidden layer, trained under infinitely many corruptions.

    Scores are w·σ(α·x + a) + b, and the fit minimises

    .. math:: F = \tfrac12\|w\|^2 + \tfrac\lambda2\|\alpha\|^2 +
              C \sum_n s_n\, E\,\max(0,\; |y_n - \mathrm{score}(\tilde x_n)| - \varepsilon),

    where the score is that of the noisy example x̃. Noise is carried through the hidden layer
    by `propagation`, and the expectation over the score is replaced by its variational bound
    or by its value for a normal score. Offsets are neither corrupted nor regularised. F is
    not convex: the fit finds a local minimum.

    Parameters
    ----------
    n_hidden : int, default=20
        Number of hidden units.
    {latent.C}
    {latent.noise}
    {epsilon}
    {latent.hidden_penalty}
    {latent.hidden_noise}
    {latent.activation}
    {latent.propagation}
    {expectation}
    {latent.fit_intercept}
    {missing}
    {latent.solver}
    {latent.n_init}
    {latent.tol}
    {latent.max_iter}
    {warm_start}
    {latent.random_state}
    {verbose}

    Attributes
    ----------
    hidden_coef_ : array of shape (n_hidden, n_features)
        Hidden weights α.
    hidden_intercept_ : array of shape (n_hidden,)
        Hidden offsets a.
    coef_ : array of shape (n_hidden,)
        Weights w.
    {regressor.intercept_}
    {noise_}
    {n_iter_}
    {latent.objective_}
    {latent.objective_history_}
    {n_features_in_}
    {feature_names_in_}

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from marginout import LatentDropoutSVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> LatentDropoutSVR(5, noise=0.1, random_state=0).fit(scale(X), scale(y)).coef_.shape
    (5,)
    """

    def __init__(
        self,
        n_hidden: int = 20,
        C: float = 1.0,
        *,
        noise: Any = "auto",
        epsilon: float = 0.1,
        hidden_penalty: float = 1.0,
        hidden_noise: float = 0.0,
        activation: str = "sigmoid",
        propagation: str = "taylor",
        expectation: str = "bound",
        fit_intercept: bool = True,
        missing: str = "error",
        solver: str = "auto",
        n_init: int = 1,
        tol: float = 1e-3,
        max_iter: int = 1000,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        set_parameters(locals())

    def _loss(self, Y: Array) -> Loss:
        return tube_loss(self, Y)

    def _look(self, y: Any, weights: Array) -> tuple[NDArray[Any], Seen]:
        return y, Numbers.of(y[weights > 0])

    def _targets(self, seen: Any, fit_intercept: bool, d: int) -> Targets:
        # The middle of the range, not the median: F is not convex, and the number of times that an example
        # is given must not decide which minimum is found.
        return Centred(seen, 0.5 * seen.low + 0.5 * seen.high if fit_intercept else 0.0)
