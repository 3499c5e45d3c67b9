"""Test errors with half, or three quarters, of the pixels deleted: `python -m benchmarks.mnist_deletion`.

The data are the first 10,000 training digits and all test digits of MNIST, from the folder in
MARGINOUT_DATA. For each deletion rate, all parameters are chosen on the last 2,000 training digits with as
many pixels deleted. Every model has the same choices: with or without an offset, remaining pixels unchanged
or rescaled by 1/(1 − rate), one-vs-rest SVMs with or without balanced classes, and C from a grid of half
decades that is extended where its outermost value is best. The chosen model is then fitted to all 10,000
digits and tested on the test digits.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from benchmarks import problems
from benchmarks.problems import Problem
from benchmarks.report import RESULTS, read_lines, write_lines
from marginout import DropoutSVC, FeatureDeletionSVC, MCFClassifier
from marginout.noise import Deletion, Dropout
from marginout.robustness import corrupt

RATES = 0.5, 0.75
TRAIN = 10_000
#: What happens to the remaining pixels of a test digit, and the noise with this effect.
EVENTS = {"as they are": Deletion, "rescaled": Dropout}
#: Models without knowledge of deletions. Ours are compared with the best of them on the held-out digits.
PLAIN = "LinearSVC", "LogisticRegression"

#: Held-out digits with deleted pixels, and their classes, by rate and by what happens to remaining pixels.
HeldOut = dict[tuple[float, str], tuple[list[Any], Any]]


@dataclass(frozen=True)
class Choice:
    """A model, what happens to remaining pixels, error on held-out digits, k of C = 10^(k/2).

    `edge` says whether k is at an end of the grid.
    """

    model: Any
    survivors: str
    error: float
    k: int
    edge: bool = False

    def words(self) -> str:
        """The chosen parameters as text."""
        model = self.model
        words = [f"C = {model.C:.2g}", "offset" if model.fit_intercept else "no offset"]
        words += ["survivors rescaled"] * (self.survivors == "rescaled")
        words += [repr(model.noise)] if "noise" in model.get_params() else []
        words += [f"n_deletions={model.n_deletions}"] if hasattr(model, "n_deletions") else []
        words += ["balanced"] if getattr(model, "class_weight", None) else []
        return ", ".join(words)


def candidates() -> dict[str, tuple[list[Any], int]]:
    """The models without C, and the smallest k of each grid in half decades: C = 10^(k/2)."""
    noises = [kind(rate) for kind in EVENTS.values() for rate in RATES]
    offsets, weights = (True, False), (None, "balanced")
    return {
        "LinearSVC": (
            [
                LinearSVC(dual=False, fit_intercept=offset, class_weight=weight)
                for offset, weight in product(offsets, weights)
            ],
            -8,
        ),
        "LogisticRegression": (
            [LogisticRegression(fit_intercept=offset, max_iter=1000) for offset in offsets],
            -6,
        ),
        "FeatureDeletionSVC": (
            [
                FeatureDeletionSVC(n_deletions=K, fit_intercept=offset, class_weight=weight, tol=1e-2)
                for K, offset, weight in product((1, 5), offsets, weights)
            ],
            -8,
        ),
        "DropoutSVC": (
            [
                DropoutSVC(noise=noise, loss="hinge", fit_intercept=offset, class_weight=weight)
                for noise, offset, weight in product(noises, offsets, weights)
            ],
            -6,
        ),
        "DropoutSVC, pairwise": (
            [
                DropoutSVC(noise=noise, loss="hinge", multi_class="pairwise", fit_intercept=offset)
                for noise, offset in product(noises, offsets)
            ],
            -6,
        ),
        "MCFClassifier, quadratic": (
            [
                MCFClassifier("quadratic", noise=noise, fit_intercept=offset)
                for noise, offset in product(noises, offsets)
            ],
            -4,
        ),
        "MCFClassifier, logistic": (
            [MCFClassifier(noise=noise, fit_intercept=offset) for noise, offset in product(noises, offsets)],
            -2,
        ),
    }


@dataclass(frozen=True)
class Size:
    """Held-out examples, masks, values of C in a grid, and how many more it may get at each end."""

    held_out: int = 2_000
    masks: int = 5
    values: int = 7
    more: int = 4


def damaged(X: Any, rate: float, survivors: str, masks: int, seed: int) -> list[Any]:
    """X with pixels deleted, once per mask. The masks do not depend on `survivors`."""
    event = EVENTS[survivors](rate)
    return [corrupt(X, event, np.random.default_rng((seed, mask))) for mask in range(masks)]


def wrong(model: Any, copies: list[Any], y: Any) -> NDArray[np.float64]:
    """Share of the copies of each example that are predicted wrongly."""
    return np.asarray(np.mean([model.predict(X) != y for X in copies], axis=0))


def search(models: list[Any], least: int, X: Any, y: Any, held_out: HeldOut, size: Size) -> list[Choice]:
    """The best choice for each rate. The grid of C is extended where its outermost value is best."""
    best: dict[float, Choice] = {}
    tried: set[int] = set()
    wanted = set(range(least, least + size.values))
    bounds = range(least - size.more, least + size.values + size.more)
    while wanted:
        for k, model in product(sorted(wanted), models):
            fitted = clone(model).set_params(C=10 ** (k / 2)).fit(X, y)
            for rate, survivors in product(RATES, EVENTS):
                copies, truth = held_out[rate, survivors]
                error = float(wrong(fitted, copies, truth).mean())
                if rate not in best or (error, k) < (best[rate].error, best[rate].k):
                    best[rate] = Choice(fitted, survivors, error, k)
        tried |= wanted
        beyond = {min(tried): min(tried) - 1, max(tried): max(tried) + 1}
        wanted = {beyond[choice.k] for choice in best.values() if choice.k in beyond} & set(bounds)
    return [replace(best[rate], edge=best[rate].k in beyond) for rate in RATES]


def stored_choices(name: str, lines: list[dict[str, str]]) -> list[Choice]:
    """The choices of a model that stored lines name, one for each rate."""
    found = []
    for rate in RATES:
        line = next(line for line in lines if line["model"] == name and float(line["deleted"]) == rate)
        C = float(line["C"])
        tried = (
            Choice(clone(model).set_params(C=C), survivors, float(line["held_out_error"]), 0)
            for model, survivors in product(candidates()[name][0], EVENTS)
        )
        found.append(next(choice for choice in tried if choice.words() == line["chosen"]))
    return found


def run(
    problem: Problem, size: Size, only: Sequence[str] = (), stored: Sequence[dict[str, str]] = ()
) -> Iterator[dict[str, Any]]:
    """Test error, error on the held-out digits, and chosen parameters of every model and rate.

    With `only`, choices of the plain models are those of stored lines, and of the others these alone are run.
    """
    X, y, last = problem.X, problem.y, len(problem.y) - size.held_out
    held_out = {
        (rate, survivors): (damaged(X[last:], rate, survivors, size.masks, 0), y[last:])
        for rate, survivors in product(RATES, EVENTS)
    }
    plain: dict[float, list[tuple[float, str, NDArray[np.float64]]]] = {rate: [] for rate in RATES}
    for name, (models, least) in candidates().items():
        if only and name not in (*only, *PLAIN):
            continue
        known = only and name not in only
        if known:
            choices = stored_choices(name, list(stored))
        else:
            choices = search(models, least, X[:last], y[:last], held_out, size)
        for rate, choice in zip(RATES, choices, strict=True):
            final = clone(choice.model).fit(X, y)
            copies = damaged(problem.X_test, rate, choice.survivors, size.masks, 1)
            errors = wrong(final, copies, problem.y_test)
            line = {
                "model": name,
                "deleted": rate,
                "test_error": float(errors.mean()),
                "standard_error": _standard_error(errors),
                "held_out_error": choice.error,
                "C": final.C,
                "edge": choice.edge,
                "chosen": choice.words(),
            }
            if name in PLAIN:
                plain[rate].append((choice.error, name, errors))
            else:
                _, peer, base = min(plain[rate], key=lambda found: found[0])
                gain = base - errors
                mean, half = float(gain.mean()), 1.96 * _standard_error(gain)
                line |= {"peer": peer, "less": mean, "less_low": mean - half, "less_high": mean + half}
            if not known:
                yield line


def _standard_error(values: NDArray[np.float64]) -> float:
    """Standard error of the mean over test examples. The masks of one example are averaged first."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="scikit-learn's digits: does it run?")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[name for name in candidates() if name not in PLAIN],
        metavar="MODEL",
        default=[],
        help="run these models, compare them with the stored choices of the plain ones, and keep other lines",
    )
    parser.add_argument("--csv", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", ConvergenceWarning)
    size = Size(held_out=40, masks=1, values=2, more=0) if options.quick else Size()
    if options.quick:
        problem = problems.bundled("digits").thin(150)
    else:
        mnist = problems.mnist()
        problem = Problem("mnist", mnist.X[:TRAIN], mnist.y[:TRAIN], mnist.X_test, mnist.y_test)
    stored = read_lines("mnist_deletion", options.csv) if options.only else []
    found = []
    for line in run(problem, size, options.only, stored):
        found.append(line)
        print(
            f"{line['model']:26}{line['deleted']:5.0%}{100 * line['test_error']:7.2f} ± "
            f"{100 * line['standard_error']:.2f}   {line['chosen']}{'  (edge)' * line['edge']}",
            flush=True,
        )
    lines = [line for line in stored if line["model"] not in options.only] + found
    order = list(candidates())
    write_lines(sorted(lines, key=lambda line: order.index(line["model"])), "mnist_deletion", options.csv)


if __name__ == "__main__":
    main()
