r"""`partial_fit` of the hidden layer: the stochastic solver on a stream, which has no end to prepare for.

After examples 1 … t the function is that of `fit` on these t examples. A call makes one pass over its
examples, in random order. The rate of Adam's steps rises for WARM_STEPS, and falls like 1/√step after STEPS.
The result is an average of the networks so far in which the weight of the s-th grows like s^FADING.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from marginout._core.fit import Plan
from marginout._core.targets import Targets
from marginout._core.validation import check_count, check_features, check_flag, check_real, check_solution
from marginout._models.latent.model import APPROXIMATIONS, STOCHASTIC, LatentModel, seed
from marginout._models.latent.objective import LatentObjective, Net
from marginout._models.latent.stochastic import (
    SEEDS,
    STEPS,
    WARM_STEPS,
    Adam,
    SampledLoss,
    Sampling,
    Single,
    Softmax,
    batches,
    decays,
    rates,
)
from marginout._models.partial import PartialClassifier, PartialRegressor

Array = NDArray[np.float64]

#: Exponent of the weights of the average: half of the weight is on the last tenth of the steps.
FADING = 6.0


class State(NamedTuple):
    """A network after a part of a stream: its parts, Adam's two memories of each, and their averages."""

    net: Single
    slopes: Single
    squares: Single
    mean: Single
    rates: list[float]
    steps: int

    @classmethod
    def at(cls, net: Net, rates: list[float]) -> State:
        """The beginning of a stream."""
        single = Single.of(net)
        return cls(single, single.zeros(), single.zeros(), Single.of(net), rates, 0)

    @classmethod
    def of(cls, stored: list[Any]) -> State:
        """A copy of what `store` gave."""
        net, slopes, squares, mean = (Single(*(part.copy() for part in each)) for each in stored[:4])
        return cls(net, slopes, squares, mean, *stored[4:])

    def store(self) -> list[Any]:
        """Lists, arrays and numbers, which every format can store."""
        return [*(list(each) for each in self[:4]), self.rates, self.steps]


def learn(
    objective: LatentObjective, state: State, sampling: Sampling, before: tuple[int, float]
) -> tuple[State, Net]:
    """One pass over the examples of an objective, after others: the state, and the averaged network."""
    with np.errstate(over="ignore", invalid="ignore"):
        loss = SampledLoss(objective, sampling, len(state.net.a), before)
        adam = Adam(state.net, state.rates, decays(objective, loss), loss.threads, state[1:3])
        adam.count = state.steps
        for rows in batches(loss, sampling.rng):
            loss.value_and_gradient(state.net, rows, int(sampling.rng.integers(SEEDS)), adam.slopes)
            step = adam.count + 1
            adam.step(min(1.0, step / WARM_STEPS) * min(1.0, float(np.sqrt(STEPS / step))))
            share = np.float32((FADING + 1) / (step + FADING))
            for mean, part in zip(state.mean, state.net, strict=True):
                mean += share * (part - mean)
    return state._replace(steps=adam.count), state.mean.double()


class LatentStream(LatentModel):
    """`_learn` of the models with a hidden layer."""

    #: Of every network its state; the number of examples and the sum of their weights so far; the seed; what
    #: targets are counted from. Nothing of it is changed in place.
    _stream: dict[str, Any] | None = None

    def _learn(self, X: Any, Y: Array, weights: Array, own: Array, start: Array, targets: Targets) -> None:
        """Take in validated X with targets Y (n, P).

        Sets: classes_ if there are any, hidden_coef_, hidden_intercept_, coef_, intercept_, n_iter_, all of
        them at the end.
        """
        self._check_drawn(weights)
        noise, fit_intercept = self._stream_noise(X, own), check_flag("fit_intercept", self.fit_intercept)
        X = check_features(self._without_missing(X, noise), noise)
        self._shift(noise, X.shape[1], fit_intercept)  # for its check
        old = self._stream or {"examples": 0, "weight": 0.0, "centre": float(start[0]) * fit_intercept}
        Y = Y - old["centre"]
        plan = Plan(noise, self._loss(Y), targets, fit_intercept, check_real("C", self.C, above=0))
        softmax = self._takes_softmax(STOCHASTIC, Y.shape[1])
        loss = Softmax() if softmax else None
        objectives = self._objectives(X, Y, weights[:, None], plan)
        if self._stream is None:
            old |= self._begin(objectives, plan, old["centre"], loss)
        self._check_shape(objectives, old["states"])
        states = [State.of(stored) for stored in old["states"]]
        draws = np.random.default_rng([*old["seed"], states[0].steps])
        sampling = Sampling(noise, float(self.hidden_noise), draws, loss)
        before = old["examples"], old["weight"] * plan.C
        pairs = zip(objectives, states, strict=True)
        learnt = [learn(objective, state, sampling, before) for objective, state in pairs]
        found = self._layers([net._replace(b=net.b + old["centre"]) for _, net in learnt], plan)
        check_solution(self._sizes(), **{name: value for name, value in found.items() if name != "classes_"})
        for name in "objective_", "objective_history_":
            self.__dict__.pop(name, None)  # of an earlier fit
        new = {
            "states": [state.store() for state, _ in learnt],
            "examples": old["examples"] + len(Y),
            "weight": old["weight"] + float(weights.sum()),
        }
        self.__dict__.update(
            found, **self._kind(softmax), _fitted_noise=noise, **self._taken(noise), n_iter_=1
        )
        self._stream = old | new

    def _begin(
        self, objectives: list[LatentObjective], plan: Plan, centre: float, loss: Softmax | None
    ) -> dict[str, Any]:
        """The seed, and the states to start from: of the fitted networks, or of random ones."""
        rng, n_hidden = self._generator(), check_count("n_hidden", self.n_hidden, 1)
        nets = self._last(objectives, n_hidden, plan) if hasattr(self, "coef_") else None
        if nets is None:
            nets = [objective.start(n_hidden, rng) for objective in objectives]
        else:
            nets = [net._replace(b=net.b - centre) for net in nets]
        states = []
        for objective, net in zip(objectives, nets, strict=True):
            sampling = Sampling(plan.noise, 0.0, np.random.default_rng(0), loss)
            rate = rates(objective, net, SampledLoss(objective, sampling, len(net.a)))
            states.append(State.at(net, rate).store())
        return {"seed": seed(rng), "states": states}

    def _check_drawn(self, weights: Array) -> None:
        """Refuse a bad rate of hidden noise, and weights all zero."""
        self._check_sampled(STOCHASTIC)
        if not weights.any():
            raise ValueError("sample_weight is zero for every example: at least one must be positive.")

    def _check_shape(self, objectives: list[LatentObjective], states: list[Any]) -> None:
        """Refuse another number of units, or of layers, than the stream began with."""
        units = [len(stored[0][1]) for stored in states]
        if units != [self.n_hidden] * len(objectives):
            raise ValueError(
                f"n_hidden={self.n_hidden!r} in {len(objectives)} layers is not what this stream began with, "
                f"{units}: keep n_hidden and shared, or start with a new model (sklearn.base.clone)."
            )


def _draws(model: Any) -> bool:
    """Whether the parameters are those of drawn examples, or an AttributeError that names the cure."""
    if model.solver not in ("auto", STOCHASTIC):
        raise AttributeError(
            f"partial_fit draws examples, which solver={model.solver!r} does not do: set solver='auto' or "
            "'stochastic'. Or fit to all examples at once."
        )
    for name, default in APPROXIMATIONS.items():
        if getattr(model, name) != default:
            raise AttributeError(
                f"partial_fit draws what {name}={getattr(model, name)!r} approximates: leave it at "
                f"{default!r}. Or fit to all examples at once."
            )
    return True


class StreamClassifier(PartialClassifier):
    """`partial_fit` for classifiers with a hidden layer."""

    @available_if(_draws)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from the next examples of a stream: one pass over them by the solver "stochastic".

        The function that is approached is that of `fit` on all examples so far. With ``noise="auto"``, a call
        takes the rate that all examples so far bear; after `fit`, that of the fit. Rows should come in random
        order, or in that of time, and not sorted by class. Examples that come again count again.
        After `fit`, a stream starts from the fitted network; the data of the fit are not remembered.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The next examples.
        y : array-like of shape (n_samples,)
            Class labels.
        classes : array-like of shape (n_classes,), default=None
            All classes of the stream: needed in the first call, the same or left out later.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the examples, >= 0; each multiplies its example's loss.

        Returns
        -------
        self : object
            The fitted model.
        """
        return self._take(X, y, classes, sample_weight)


class StreamRegressor(PartialRegressor):
    """`partial_fit` for regressors with a hidden layer."""

    @available_if(_draws)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from the next examples of a stream: one pass over them by the solver "stochastic".

        The function that is approached is that of `fit` on all examples so far. With ``noise="auto"``, a call
        takes the rate that all examples so far bear; after `fit`, that of the fit. Rows should come in random
        order, or in that of time, and not sorted by target. Examples that come again count again.
        After `fit`, a stream starts from the fitted network; the data of the fit are not remembered.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The next examples.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the examples, >= 0; each multiplies its example's loss.

        Returns
        -------
        self : object
            The fitted model.
        """
        return self._take(X, y, sample_weight)
