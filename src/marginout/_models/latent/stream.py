r"""`partial_fit` of the hidden layer: the stochastic solver on a stream, which has no end to prepare for.

After examples 1 … t the function is that of `fit` on these t examples. A call makes one pass over its
examples, in random order. The rate of Adam's steps rises for WARM_STEPS, and falls like 1/√step after STEPS.
The result is an average of the networks so far in which the weight of the s-th grows like s^FADING. Callbacks
hear of every batch; one that asks to stop ends the pass, and the examples that are left count as learnt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marginout._core.fit import FitTask, Plan
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
    batch_count,
    batches,
    decays,
    objective_value,
    rates,
)

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


#: Called after every batch with the state; a true answer ends the pass.
Watch = Callable[[State], bool]


def learn(
    objective: LatentObjective,
    state: State,
    sampling: Sampling,
    before: tuple[int, float],
    watch: Watch,
) -> tuple[State, float]:
    """One pass over the examples of an objective, after others: the state, and F with the loss of these."""
    total, seen = 0.0, 0
    with np.errstate(over="ignore", invalid="ignore"):
        loss = SampledLoss(objective, sampling, len(state.net.a), before)
        penalties = decays(objective, loss)
        adam = Adam(state.net, state.rates, penalties, loss.threads, state[1:3])
        adam.count = state.steps
        for rows in batches(loss, sampling.rng):
            seed = int(sampling.rng.integers(SEEDS))
            total += len(rows) * loss.value_and_gradient(state.net, rows, seed, adam.slopes)
            seen += len(rows)
            step = adam.count + 1
            adam.step(min(1.0, step / WARM_STEPS) * min(1.0, float(np.sqrt(STEPS / step))))
            share = np.float32((FADING + 1) / (step + FADING))
            for mean, part in zip(state.mean, state.net, strict=True):
                mean += share * (part - mean)
            state = state._replace(steps=adam.count)
            if watch(state):
                break
        return state, objective_value(state.net, loss, penalties, total / seen)


class LatentStream(LatentModel):
    """`partial_fit` of the models with a hidden layer: one pass of the stochastic solver."""

    #: Of every network its state; the number of examples and the sum of their weights so far; the seed; what
    #: targets are counted from. Nothing of it is changed in place.
    _stream: dict[str, Any] | None = None

    def _check_stream(self) -> None:
        if self.solver not in ("auto", STOCHASTIC):
            raise AttributeError(
                f"partial_fit draws examples, which solver={self.solver!r} does not do: set solver='auto' or "
                "'stochastic'. Or fit to all examples at once."
            )
        for name, default in APPROXIMATIONS.items():
            if getattr(self, name) != default:
                raise AttributeError(
                    f"partial_fit draws what {name}={getattr(self, name)!r} approximates: leave it at "
                    f"{default!r}. Or fit to all examples at once."
                )

    def _learn(
        self, X: Any, y: Any, Y: Array, weights: Array, own: Array, start: Array, targets: Targets
    ) -> None:
        """Take in validated X and y, with targets Y (n, P).

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
        verbose = check_count("verbose", self.verbose, 0)
        parts = len(objectives) * batch_count(len(Y))
        task = FitTask(self, parts, X, y)

        def layers() -> dict[str, Any]:
            """What the averages of the networks, which change in place, are now."""
            nets = [state.mean.double() for state in states]
            return self._layers([net._replace(b=net.b + old["centre"]) for net in nets], plan)

        for k, objective in enumerate(objectives):
            begun = states[k].steps

            def watch(state: State, done: int = k * batch_count(len(Y)) - begun) -> bool:
                task.reach((done + state.steps) / parts)
                return task.iteration(layers)

            states[k], value = learn(objective, states[k], sampling, before, watch)
            if verbose:
                print(f"problem {k}, {before[0] + len(Y)} examples: objective about {value:.8g}")
        found = layers()
        check_solution(self._sizes(), **{name: value for name, value in found.items() if name != "classes_"})
        for name in "objective_", "objective_history_":
            self.__dict__.pop(name, None)  # of an earlier fit
        new = {
            "states": [state.store() for state in states],
            "examples": old["examples"] + len(Y),
            "weight": old["weight"] + float(weights.sum()),
        }
        self.__dict__.update(
            found, **self._kind(softmax), _fitted_noise=noise, **self._taken(noise), n_iter_=1
        )
        self._stream = old | new
        task.end(layers)

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
