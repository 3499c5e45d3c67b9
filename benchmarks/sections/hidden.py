"""One hidden layer trained by drawn noise: the stochastic solver, the same network in PyTorch, MLPClassifier.

PyTorch is not imported by other sections: it comes with the extra `bench`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neural_network import MLPClassifier

from benchmarks import problems
from benchmarks.measure import Entry, Outcome, race
from benchmarks.options import Options
from benchmarks.peers import Peer
from benchmarks.problems import DataMissingError, Problem
from benchmarks.report import Report, Row, row
from benchmarks.sections.latent import first_digits
from marginout import LatentDropoutLogisticRegression
from marginout.noise import Dropout

#: Passes over the examples, and examples of a batch, of all models.
EPOCHS, BATCH = 30, 128
#: Rate of input dropout.
RATE = 0.4
#: Share of the training digits that are held out to choose parameters: the last ones.
HELD = 0.2
#: PyTorch's and MLPClassifier's learning rates to choose from, the peak of a cycle for PyTorch.
LEARNING_RATES = (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2)
#: Factors of our learning rate to choose from. Users cannot set it: 1 is what they get.
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
#: Rates of dropout of the inputs, and of the hidden units, for all digits.
RATES, HIDDEN_RATES = (0.2, 0.3, 0.4), (0.0, 0.5)


class TorchNetwork(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Input dropout, one hidden layer of ReLU, softmax: Adam with a one-cycle rate, as PyTorch has them."""

    def __init__(
        self,
        n_hidden: int = 128,
        *,
        noise: float = RATE,
        learning_rate: float = 2e-3,
        random_state: int = 0,
    ) -> None:
        self.n_hidden = n_hidden
        self.noise = noise
        self.learning_rate = learning_rate
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(self.random_state)
        self.classes_, labels = np.unique(y, return_inverse=True)
        data, truth = torch.from_numpy(np.ascontiguousarray(X, np.float32)), torch.from_numpy(labels)
        self.model_ = model = torch.nn.Sequential(
            torch.nn.Dropout(self.noise),
            torch.nn.Linear(data.shape[1], self.n_hidden),
            torch.nn.ReLU(),
            torch.nn.Linear(self.n_hidden, len(self.classes_)),
        )
        optimizer = torch.optim.Adam(model.parameters(), lr=self.learning_rate)
        steps = -(-len(data) // BATCH)
        cycle = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, max_lr=self.learning_rate, epochs=EPOCHS, steps_per_epoch=steps
        )
        loss = torch.nn.CrossEntropyLoss()
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(data)).split(BATCH):
                optimizer.zero_grad()
                loss(model(data[rows]), truth[rows]).backward()
                optimizer.step()
                cycle.step()
        model.eval()
        self.n_iter_ = EPOCHS
        return self

    def predict(self, X: Any) -> Any:
        import torch

        with torch.no_grad():
            scores = self.model_(torch.from_numpy(np.ascontiguousarray(X, np.float32)))
        return self.classes_[scores.argmax(dim=1).numpy()]


class OurNetwork(LatentDropoutLogisticRegression):
    """The same network of ours, with a factor of its learning rate, which users cannot set."""

    def __init__(
        self, n_hidden: int = 128, *, noise: float = RATE, factor: float = 1.0, random_state: int = 0
    ) -> None:
        super().__init__(
            n_hidden,
            noise=noise,
            activation="relu",
            solver="stochastic",
            max_iter=EPOCHS,
            random_state=random_state,
        )
        self.factor = factor

    def fit(self, X: Any, y: Any) -> Self:
        from marginout._models.latent import stochastic

        names = "HIDDEN_RATE", "OFFSET_RATE", "OUTPUT_RATE", "LEVEL_RATE"
        before = {name: getattr(stochastic, name) for name in names}
        try:
            for name, value in before.items():
                setattr(stochastic, name, self.factor * value)
            super().fit(X, y)
        finally:
            for name, value in before.items():
                setattr(stochastic, name, value)
        return self


def run(options: Options) -> Report:
    """The first 10,000 digits of MNIST, by the number of units: times and errors, one thread."""
    report = Report()
    _needs_torch()
    digits = first_digits(options)
    for K in options.few((128, 60, 256, 800)):
        _compare(report, digits, 4 if options.quick else K, options)
    return report


def run_large(options: Options) -> Report:
    """All digits of MNIST, 800 units: rates chosen on the last sixth of the training digits."""
    report, K = Report(), 8 if options.quick else 800
    problem = problems.mnist().thin(options.rows(300))
    n = len(problem.y) * 5 // 6
    part = _without_test(problem, n)
    threads = options.threads[-1]

    def make(rate: float, hidden: float, epochs: int) -> Peer:
        def network(C: float, rate: float) -> Any:
            return LatentDropoutLogisticRegression(
                K, C, noise=rate, hidden_noise=hidden, activation="relu", max_iter=epochs
            )

        return Peer(f"LatentDropoutLR {K}, {hidden:g} of the units dropped", network, noisy=True)

    trials: dict[tuple[float, float], float] = {}
    for rate in options.few(RATES):
        for hidden in HIDDEN_RATES:

            def trial(rate: float = rate, hidden: float = hidden) -> dict[str, Any]:
                (outcome,) = race(part, [Entry(make(rate, hidden, 10), 1.0, rate, threads)], 1)
                return asdict(replace(row(part, outcome), problem="mnist, held-out digits, 10 epochs"))

            cell = {"rate": rate, "hidden_noise": hidden, "units": K, "threads": threads}
            line = Row(**options.cell("hidden_large", cell, trial))
            report.rows.append(line)
            trials[rate, hidden] = line.test_error or 0.0
    rate, hidden = min(trials, key=lambda key: trials[key])
    (outcome,) = race(problem, [Entry(make(rate, hidden, EPOCHS), 1.0, rate, threads)], 1)
    report.rows += _rows(problem, outcome, None)
    report.summary["rate of the inputs, chosen"] = rate
    report.summary["rate of the units, chosen"] = hidden
    return report


def _needs_torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        raise DataMissingError(
            "PyTorch is not installed: pip install torch --index-url https://download.pytorch.org/whl/cpu"
        ) from None


def _compare(report: Report, problem: Problem, K: int, options: Options) -> None:
    """Choose the learning rates on held-out digits; then fit to all, in turn."""
    part = _without_test(problem, int((1 - HELD) * len(problem.y)))
    makes: dict[str, tuple[Callable[[float], Any], Sequence[float]]] = {
        f"PyTorch, {K} units": (lambda value: TorchNetwork(K, learning_rate=value), LEARNING_RATES),
        f"LatentDropoutLR, {K} units": (lambda value: OurNetwork(K, factor=value), FACTORS),
        f"MLPClassifier, {K} units": (
            lambda value: MLPClassifier(
                (K,), batch_size=BATCH, learning_rate_init=value, max_iter=EPOCHS, n_iter_no_change=EPOCHS
            ),
            LEARNING_RATES,
        ),
    }
    peers = []
    for name, (make, values) in makes.items():
        noisy = not name.startswith("MLP")
        trials = [Peer(name, lambda C, rate, m=make, v=value: m(v), noisy=noisy) for value in values]
        found = race(part, [Entry(trial, 1.0, RATE) for trial in trials], 1)
        errors = [sum(_errors(part, outcome)) for outcome in found]
        best = int(np.argmin(errors))
        report.summary[f"{problem.name}, {name}: learning rate, or factor of ours, chosen"] = values[best]
        peers.append(trials[best])
    outcomes = race(problem, [Entry(peer, 1.0, RATE) for peer in peers], options.slow_repeats)
    for outcome in outcomes:
        report.rows += _rows(problem, outcome, outcomes[0])
    torch, ours = (_errors(problem, outcome) for outcome in outcomes[:2])
    report.summary[f"{problem.name}, {K} units: CPU time / PyTorch's"] = (
        outcomes[1].cpu_time / outcomes[0].cpu_time
    )
    for what, mine, theirs in zip(("whole", "half deleted"), ours, torch, strict=True):
        report.summary[f"{problem.name}, {K} units: error / PyTorch's, {what}"] = mine / theirs


def _without_test(problem: Problem, n: int) -> Problem:
    """The first n training examples, and the others to validate."""
    X, y = problem.X, problem.y
    return Problem(problem.name, X[:n], y[:n], X[n:], y[n:])


def _damaged(problem: Problem) -> Iterator[Problem]:
    """The problem with whole test images, and with half of their pixels deleted; survivors count twice."""
    yield problem
    half = Dropout(0.5).corrupt(problem.X_test, 0)
    yield replace(problem, name=f"{problem.name}, half deleted", X_test=half)


def _rows(problem: Problem, outcome: Outcome, against: Outcome | None) -> list[Row]:
    return [row(test, outcome, against) for test in _damaged(problem)]


def _errors(problem: Problem, outcome: Outcome) -> list[float]:
    """Mean test errors on whole and on half-deleted images."""
    return [line.test_error or 0.0 for line in _rows(problem, outcome, None)]
