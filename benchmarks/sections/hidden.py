"""One hidden layer trained by drawn noise: the stochastic solver, the same network in PyTorch, MLPClassifier.

PyTorch is not imported by other sections: it comes with the extra `bench`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
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
#: Training digits behind those that are learnt, on which learning rates are chosen.
HELD = 10_000
#: PyTorch's and MLPClassifier's learning rates to choose from, the peak of a cycle for PyTorch. Users of ours
#: cannot choose one.
LEARNING_RATES = (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2)


class TorchNetwork(BaseEstimator):  # type: ignore[misc]
    """Input dropout, a hidden layer of ReLU, softmax or squares: PyTorch's Adam with a one-cycle rate."""

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
        data, truth, outputs = _tensor(X), torch.from_numpy(labels), len(self.classes_)
        loss: Any = torch.nn.CrossEntropyLoss()
        if y.dtype.kind == "f":
            self.classes_, truth, outputs = None, torch.from_numpy(y.astype(np.float32))[:, None], 1
            loss = torch.nn.MSELoss()
        self.model_ = model = torch.nn.Sequential(
            torch.nn.Dropout(self.noise),
            torch.nn.Linear(data.shape[1], self.n_hidden),
            torch.nn.ReLU(),
            torch.nn.Linear(self.n_hidden, outputs),
        )
        optimizer = torch.optim.Adam(model.parameters(), lr=self.learning_rate)
        steps = -(-len(data) // BATCH)
        cycle = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, max_lr=self.learning_rate, epochs=EPOCHS, steps_per_epoch=steps
        )
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
            scores = self.model_(_tensor(X))
        return scores[:, 0].numpy() if self.classes_ is None else self.classes_[scores.argmax(dim=1).numpy()]

    def score(self, X: Any, y: Any) -> float:
        """Accuracy, or R²."""
        found = self.predict(X)
        if self.classes_ is not None:
            return float(np.mean(found == y))
        return 1 - float(np.mean((y - found) ** 2) / np.var(y))


def _tensor(X: Any) -> Any:
    import torch

    return torch.from_numpy(np.ascontiguousarray(X.toarray() if sp.issparse(X) else X, np.float32))


def needs_torch() -> None:
    """Skip the section where PyTorch is not installed."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise DataMissingError(
            "PyTorch is not installed: pip install torch --index-url https://download.pytorch.org/whl/cpu"
        ) from None


def run(options: Options) -> Report:
    """The first 10,000 digits of MNIST, by the number of units: times and errors, one thread."""
    needs_torch()
    report, digits = Report(), first_digits(options)
    others, n = problems.mnist(), len(digits.y)
    held = slice(n, n + len(digits.y) if options.quick else n + HELD)
    part = replace(digits, X_test=others.X[held], y_test=others.y[held])
    for K in options.few((128, 60, 256, 800)):
        _compare(report, digits, part, 4 if options.quick else K, options.slow_repeats)
    return report


def _compare(report: Report, problem: Problem, part: Problem, K: int, repeats: int) -> None:
    """Choose the learning rates of the others on held-out digits; then fit to the same digits, in turn."""
    makes: dict[str, Callable[[float], Any]] = {
        f"PyTorch, {K} units": lambda value: TorchNetwork(K, learning_rate=value),
        f"MLPClassifier, {K} units": lambda value: MLPClassifier(
            (K,), batch_size=BATCH, learning_rate_init=value, max_iter=EPOCHS, n_iter_no_change=EPOCHS
        ),
    }
    chosen = []
    for name, make in makes.items():
        noisy = not name.startswith("MLP")
        trials = [Peer(name, lambda C, rate, v=value, m=make: m(v), noisy=noisy) for value in LEARNING_RATES]
        found = race(part, [Entry(trial, 1.0, RATE) for trial in trials], 1)
        best = int(np.argmin([sum(errors(part, outcome)) for outcome in found]))
        report.summary[f"{problem.name}, {name}: learning rate, chosen"] = LEARNING_RATES[best]
        chosen.append(trials[best])
    name = f"LatentDropoutLR, {K} units"
    ours = Peer(name, lambda C, rate: digit_network(K, C, rate), noisy=True)
    outcomes = race(problem, [Entry(peer, 1.0, RATE) for peer in (chosen[0], ours, chosen[1])], repeats)
    for outcome in outcomes:
        report.rows += damaged_rows(problem, outcome, outcomes[0])
    torch, mine = (errors(problem, outcome) for outcome in outcomes[:2])
    report.summary[f"{problem.name}, {K} units: CPU time / PyTorch's"] = (
        outcomes[1].cpu_time / outcomes[0].cpu_time
    )
    for what, own, theirs in zip(("whole", "half deleted"), mine, torch, strict=True):
        report.summary[f"{problem.name}, {K} units: error / PyTorch's, {what}"] = own / theirs


def digit_network(K: int, C: float, rate: float) -> Any:
    """Ours, as users have it."""
    return LatentDropoutLogisticRegression(K, C, noise=rate, activation="relu", solver="stochastic")


def _damaged(problem: Problem) -> Iterator[Problem]:
    """The problem with whole test images, and with half of their pixels deleted; survivors count twice."""
    yield problem
    half = Dropout(0.5).corrupt(problem.X_test, 0)
    yield replace(problem, name=f"{problem.name}, half deleted", X_test=half)


def damaged_rows(problem: Problem, outcome: Outcome, against: Outcome | None = None) -> list[Row]:
    """The rows of an outcome on whole and on half-deleted images."""
    return [row(test, outcome, against) for test in _damaged(problem)]


def errors(problem: Problem, outcome: Outcome) -> list[float]:
    """Mean test errors on whole and on half-deleted images."""
    return [line.test_error or 0.0 for line in damaged_rows(problem, outcome)]
