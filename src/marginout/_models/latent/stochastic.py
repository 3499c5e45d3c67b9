r"""The stochastic solver of the hidden layer: minibatches, sampled noise, Adam, single precision.

It minimises the function whose approximation `joint` minimises,

    F(α, a, W, b) = ½‖W‖² + ½·hidden_penalty·‖α‖² + C Σ_n s_n E φ(score(x̃_n); y_n),

with the expectation over the noise itself: a batch draws x̃ anew, so that its gradient is unbiased, and there
is no error of Taylor's expansion. The marginalised F costs d·K flops for each example and output; a draw
costs what the clean example costs, or less where features are deleted.

In units of C Σs, a batch B has the value

    f_B = (½‖W‖² + ½·hidden_penalty·‖α‖²)/(C Σs) + 1/|B| Σ_{n ∈ B} ω_n φ(score(x̃_n); y_n),   ω_n = s_n n/Σs.

The rate of Adam's steps rises for WARM_STEPS, then falls to zero in a straight line. `epochs` says how many
there are: what small data need is a number of steps, what large data need is a number of passes. Steps are
measured in units of each layer at the start, so that they do not depend on the scale of X or y.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marginout._core.threads import worker_threads
from marginout._kernels import _stochastic
from marginout._models.latent.batches import Floats, Rows, deletion, make_batches
from marginout._models.latent.objective import LatentObjective, Net
from marginout._models.latent.solvers import LatentResult, Monitor
from marginout.noise import Dropout, Noise

Array = NDArray[np.float64]

#: Examples of a batch, at most.
BATCH = 128
#: Batches of an epoch, at least, where there are so many examples. Of 4 and of 16, F at the end is lower with
#: 4, in as many steps: by 1 to 3 % under noise (digits, breast cancer, diabetes), by 5 to 40 % without.
BATCHES = 4
#: Examples of a batch, at least, where there are so many.
LEAST_BATCH = 32
#: Steps in which the rate rises to its peak.
WARM_STEPS = 100
#: Peak of the rate: for the hidden weights in units of their deviation at the start, for the output weights
#: in those of the loss over the deviation of a unit and the root of the number of units, for the output
#: offsets in units of the loss's scale. Chosen by F at the end for small data (kitchen and dvd reviews,
#: digits, breast cancer, diabetes), and by errors on 2,000 of MNIST's training digits that 8,000 others
#: predict. With half of the first two F is 1 to 8 % higher, but 9 % lower with 128 relu units; these errors
#: stay within their standard error of 0.5 %.
HIDDEN_RATE, OUTPUT_RATE, LEVEL_RATE = 0.12, 0.15, 0.02
#: Units beyond which the first two fall like 1/√units. Errors on 30,000 of MNIST's training digits, which the
#: first 10,000 predict (three seeds, deviations up to .03): 256 units 2.93 % without that, 2.81 % with it,
#: 2.94 % with 64 in place of 128; 800 units 2.74 % and 2.72 %, and F is 12 % lower with it.
WIDE = 128
#: Peak of the rate for the hidden offsets; the unit is the deviation of an input of a unit at the start.
OFFSET_RATE = 0.04
#: Adam's memories of slopes and of their squares.
BETA, BETA2 = 0.9, 0.999
#: What Adam adds to the root of the squares.
EPSILON = 1e-8
#: Passes over the examples, and steps, at least, where `tol` is TOL.
EPOCHS, STEPS, TOL = 30, 1000, 1e-3
#: Drawn examples, at least, of which F at the end is a mean.
DRAWN = 10_000
#: Numbers of a seed.
SEEDS = 1 << 63


class Softmax:
    """−log p of the example's class, p = softmax of all scores; targets are ±1, as in one-vs-rest."""

    scale = 1.0

    def jet(self, m: Array, v: Array, y: Array) -> tuple[Array, Array]:
        """Value, (n, 1), and slope, (n, P)."""
        m = m - m.max(axis=1, keepdims=True)
        e = np.exp(m)
        total = e.sum(axis=1, keepdims=True)
        own = y > 0
        return np.log(total) - np.sum(m, axis=1, keepdims=True, where=own), e / total - own


class Sampling(NamedTuple):
    """What is drawn, and the loss of it; None is the objective's own."""

    noise: Noise
    hidden_noise: float
    rng: np.random.Generator
    loss: Softmax | None = None


class Single(NamedTuple):
    """A network, slopes or moments in single precision."""

    alpha: Floats
    a: Floats
    W: Floats
    b: Floats

    @classmethod
    def of(cls, net: Net) -> Single:
        return cls(*(np.array(part, np.float32, order="C") for part in net))

    def zeros(self) -> Single:
        return Single(*(np.zeros_like(part) for part in self))

    def double(self) -> Net:
        return Net(*(part.astype(np.float64) for part in self))


class Space(NamedTuple):
    """Buffers of a batch: pre-activations, activations, what is left of them, slopes, scores, and a spare."""

    A: Floats
    G: Floats
    left: Floats
    slopes: Floats
    M: Floats
    spare: Floats

    @classmethod
    def of(cls, size: int, K: int, P: int) -> Space:
        return cls(*(np.empty((size, width), np.float32) for width in (K, K, K, K, P, K)))

    def rows(self, size: int) -> Space:
        return Space(*(part[:size] for part in self))


class SampledLoss:
    """1/|B| Σ_{n ∈ B} ω_n φ(score(x̃_n); y_n) of the module's docstring, and its gradient.

    Of a stream, the examples before these have a number and a sum of weights: ω and Σs are those of all.
    """

    def __init__(
        self, objective: LatentObjective, sampling: Sampling, K: int, before: tuple[int, float] = (0, 0.0)
    ) -> None:
        self.loss: Any = sampling.loss or objective.loss
        self.Y, self.floor = objective.Y, objective.floor
        self.activation, self.fit_intercept = objective.activation, objective.fit_intercept
        self.n, P = self.Y.shape
        self.total = before[1] + float(objective.weights.sum()) / objective.weights.shape[1]
        self.omega = objective.weights * ((before[0] + self.n) / self.total)
        self.size = batch_size(self.n)
        design = objective.design
        self.threads = worker_threads(design.nnz * self.size // self.n * K)  # they meet after every batch
        self.batches = make_batches(design.X, sampling.noise, self.size, self.threads)
        self._space = Space.of(self.size, K, P)
        self._every = np.arange(self.size)
        self._deletion = deletion(Dropout(sampling.hidden_noise), 1) if sampling.hidden_noise else None

    def value(self, net: Single, rows: Rows, seed: int) -> float:
        """The loss of the rows, for the draws of a seed."""
        value, _ = self._jet(self._forward(net, rows, seed), rows)
        return float(np.sum(self.omega[rows] * value)) / len(rows)

    def value_and_gradient(self, net: Single, rows: Rows, seed: int, out: Single) -> float:
        """The same, with its gradient in `out`; slopes of offsets that are not fitted stay as they are."""
        s = self._forward(net, rows, seed)
        value, slope = self._jet(s, rows)
        weights = self.omega[rows]
        np.multiply(slope, weights / len(rows), out=s.M, casting="same_kind")
        np.matmul(s.left.T, s.M, out=out.W)
        np.matmul(s.M, net.W.T, out=s.slopes)
        self._delete(s.slopes, seed, s.slopes)
        self.activation.pull(s.A, s.G, s.slopes, s.spare)
        if self.fit_intercept:
            s.M.sum(axis=0, out=out.b)
            s.slopes.sum(axis=0, out=out.a)
        self.batches.backward(s.slopes, out.alpha)
        return float(np.sum(weights * value)) / len(rows)

    def _forward(self, net: Single, rows: Rows, seed: int) -> Space:
        """Scores of x̃, and what led to them."""
        s = self._space.rows(len(rows))
        self.batches.load(rows, seed)
        self.batches.forward(net.alpha, s.A)
        np.add(s.A, net.a, out=s.A)
        self.activation.fill(s.A, s.G)
        if self._deletion is None:
            s = s._replace(left=s.G)
        self._delete(s.G, seed, s.left)
        np.matmul(s.left, net.W, out=s.M)
        np.add(s.M, net.b, out=s.M)
        return s

    def _delete(self, units: Floats, seed: int, out: Floats) -> None:
        """Delete hidden units of every example, and multiply the others; the same ones for the same seed."""
        if self._deletion is not None:
            every = self._every[: len(units)]
            _stochastic.dense_batch(units, every, *self._deletion, SEEDS + seed, out, self.threads)

    def _jet(self, s: Space, rows: Rows) -> tuple[Array, Array]:
        m = s.M.astype(np.float64)
        value, slope, *_ = self.loss.jet(m, np.full_like(m, self.floor), self.Y[rows])
        return value, slope


class Adam:
    """Adam's steps for every part of a network, at its own rate and with its own penalty."""

    def __init__(
        self,
        net: Single,
        rates: list[float],
        decays: list[float],
        threads: int,
        memory: tuple[Single, Single] | None = None,
    ) -> None:
        self.slopes = net.zeros()
        parts = net, self.slopes, *(memory or (net.zeros(), net.zeros()))
        self._parts = [[each.reshape(-1) for each in part] for part in parts]
        self._rates, self._decays, self._threads, self.count = rates, decays, threads, 0

    def step(self, rate: float) -> None:
        """Go on by the slopes, at a rate in units of the peak."""
        self.count += 1
        root = np.sqrt(1 - BETA2**self.count)
        rate *= root / (1 - BETA**self.count)
        for w, g, m, v, peak, decay in zip(*self._parts, self._rates, self._decays, strict=True):
            _stochastic.adam(w, g, m, v, rate * peak, BETA, BETA2, EPSILON * root, decay, self._threads)


def batch_size(n: int) -> int:
    """Examples of a batch."""
    return min(n, max(LEAST_BATCH, min(BATCH, n // BATCHES)))


def batch_count(n: int) -> int:
    """Batches of an epoch."""
    return -(-n // batch_size(n))


def epochs(n: int, tol: float) -> int:
    """Epochs of a fit: EPOCHS or STEPS, whichever is more, in inverse proportion to √tol."""
    return max(1, int(min(np.ceil(max(EPOCHS, STEPS / batch_count(n)) * np.sqrt(TOL / tol)), 2**62)))


def rate(step: int, steps: int) -> float:
    """The rate of one of so many steps, counted from 0, in units of the peak."""
    return min(1.0, (step + 1) / WARM_STEPS) * (1 - step / steps)


def rates(objective: LatentObjective, net: Net, loss: SampledLoss) -> list[float]:
    """Peaks of the rates of every part of a network, in its units at the start."""
    unit = float(np.sqrt(np.mean(np.square(net.alpha))))
    # The unit of scores is the loss's scale, and less where some targets lie far from the others.
    spread = float(np.sqrt(np.mean(np.square(loss.Y))) / np.abs(loss.Y).max(initial=1e-300))
    scale = loss.loss.scale * spread
    output = OUTPUT_RATE * scale / (objective.activation.deviation() * float(np.sqrt(len(net.a))))
    narrow = min(1.0, float(np.sqrt(WIDE / len(net.a))))
    return [narrow * HIDDEN_RATE * unit, narrow * OFFSET_RATE, narrow * output, LEVEL_RATE * scale]


def decays(objective: LatentObjective, loss: SampledLoss) -> list[float]:
    """The penalties of every part of a network, in units of C Σs."""
    return [objective.hidden_penalty / loss.total, 0.0, 1 / loss.total, 0.0]


def batches(loss: SampledLoss, rng: np.random.Generator) -> list[Rows]:
    """All examples in random order, in batches of about equal size."""
    return np.array_split(rng.permutation(loss.n), batch_count(loss.n))


def objective_value(net: Single, loss: SampledLoss, decays: list[float], mean_loss: float) -> float:
    """F of a network with a mean loss, about: the penalties are added."""
    squares = sum(
        0.5 * decay * float(np.vdot(part, part)) for part, decay in zip(net, decays, strict=True) if decay
    )
    return float(loss.total * (mean_loss + squares))


class Training:
    """A network in training: its loss, its optimiser, and F in the terms of LatentObjective."""

    def __init__(self, objective: LatentObjective, net: Net, sampling: Sampling) -> None:
        self.net, self.rng = Single.of(net), sampling.rng
        self.loss = loss = SampledLoss(objective, sampling, len(net.a))
        self.decays = decays(objective, loss)
        self.adam = Adam(self.net, rates(objective, net, loss), self.decays, loss.threads)

    def epoch(self, count: int) -> float:
        """One of `count` passes over the examples, in random order; about F."""
        total = 0.0
        for rows in batches(self.loss, self.rng):
            seed = int(self.rng.integers(SEEDS))
            total += len(rows) * self.loss.value_and_gradient(self.net, rows, seed, self.adam.slopes)
            self.adam.step(rate(self.adam.count, count * self.steps))
        return self._complete(total / self.loss.n)

    @property
    def steps(self) -> int:
        """Batches of an epoch."""
        return batch_count(self.loss.n)

    def value(self) -> float:
        """F, as a mean over new draws of every example."""
        draws = -(-DRAWN // self.loss.n)
        parts = np.array_split(np.arange(self.loss.n), self.steps)
        losses = [
            len(rows) * self.loss.value(self.net, rows, int(self.rng.integers(SEEDS)))
            for _ in range(draws)
            for rows in parts
        ]
        return self._complete(sum(losses) / (draws * self.loss.n))

    def _complete(self, mean_loss: float) -> float:
        """F of a mean loss, penalties included."""
        value = objective_value(self.net, self.loss, self.decays, mean_loss)
        if not np.isfinite(value):
            raise ValueError(
                f"The fit diverges: the objective is {value:g}. Scale the features, and in a regression y "
                "(with sklearn.preprocessing.StandardScaler), lower C, or set solver='joint'."
            )
        return value


def stochastic(
    objective: LatentObjective,
    net: Net,
    *,
    count: int,
    monitor: Monitor | None = None,
    sampling: Sampling,
) -> LatentResult:
    """Adam on batches of drawn examples, for `count` epochs."""
    result = LatentResult(net, np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        training = Training(objective, net, sampling)
        while len(result.history) < count and not result.stopped:
            result.history.append(training.epoch(count))
            if monitor is not None:
                now = training.net.double()
                result.stopped = bool(monitor(len(result.history), result.history[-1], result.decrease, now))
        result.net, result.value = training.net.double(), training.value()
    result.converged = True
    return result
