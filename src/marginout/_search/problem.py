"""A grid of C and noise, and the problem that its cells have in common: what a search asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from marginout._core.design.conditional import ConditionalDesign
from marginout._core.design.storage import Design, make_design
from marginout._core.fit import TOL_UNIT
from marginout._core.gaussian import ClassLaws, Law, estimate, learn
from marginout._core.interfaces import Array, Penalty
from marginout._core.missing import delete_missing, has_missing
from marginout._core.targets import Targets
from marginout._core.validation import check_count, check_features, check_flag, check_real
from marginout.losses import Loss
from marginout.noise import Noise, resolve
from marginout.noise._auto import Extent

#: The rates of a path when nothing is said.
RATES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
#: The noises of a default grid beside none: the rates of so many times the variance κ that the data bear.
MULTIPLES = (1.0, 4.0, 16.0)
#: The heaviest of them. On long texts, which bear a rate of 0.5, heavier ones are worse than none.
HEAVIEST = 0.8
#: At the smallest C of a default grid the scores are about this fraction of the loss's scale.
NEGLIGIBLE = 0.1
#: Steps of a default grid per power of ten.
PER_DECADE = 1.5


class Training(NamedTuple):
    """A training set: its columns of Y, and a weight (n, 1) or (n, columns) for every row, 0 if left out."""

    columns: NDArray[np.intp]
    weights: Array


@dataclass
class Problem:
    """What the cells of a grid have in common."""

    X: Any
    Y: Array
    targets: Targets
    trainings: Sequence[Training]
    loss: Loss
    penalty: Penalty
    fit_intercept: bool
    solver: str
    tol: float
    max_iter: int
    certified: bool  # whether gaps must be certificates
    #: The law of the features of every training set, where NaN is filled in by it.
    laws: list[Law | ClassLaws] | None = None

    def __post_init__(self) -> None:
        self._complete = not has_missing(self.X)
        self._deleted: dict[bytes, Any] = {}

    def deleted(self, noise: Noise) -> Any:
        """X without what is missing, as the noise has it: one for all noises that agree."""
        if self._complete:
            return self.X
        rule = b"" if self.laws is not None else noise.shares(self.X.shape[1]).tobytes()
        if rule not in self._deleted:
            filled = self.laws is not None  # by 0 here
            self._deleted[rule] = np.nan_to_num(self.X) if filled else delete_missing(self.X, noise)
        return self._deleted[rule]

    def design(self, base: Design, noise: Noise, training: int) -> Any:
        """The design of a training set, of that of X without what is missing."""
        if self.laws is None:
            return base
        return ConditionalDesign(self.X, noise, self.laws[training].one, base)

    def seen(self, noise: Noise, training: int) -> Any:
        """X as a model of a training set scores it."""
        return self.deleted(noise) if self.laws is None else self.laws[training].fill(self.X)


def pose(
    estimator: Any,
    X: Any,
    y: Any,
    weights: Array,
    rows: Sequence[NDArray[np.intp]],
    loose: float | None = None,
) -> Problem:
    """The problem of an estimator on validated data.

    `rows` holds the training rows of every training set; none of them is copied. X is stored as a
    design stores it, once for all noises. A `loose` search stops so many times farther from the
    optimum than a fit, and does without certificates.
    """
    conditional = estimator.missing == "conditional" and has_missing(X)
    X = X if conditional else make_design(X, resolve(0.0)).X
    estimator = clone(estimator)
    fit_intercept = check_flag("fit_intercept", estimator.fit_intercept)
    y, seen = estimator._look(y, weights)
    if seen.several:
        raise ValueError(
            "y is a matrix of several labels, but a search or a path takes one label of each example: wrap "
            "the search in sklearn.multioutput.MultiOutputClassifier, or search with GridSearchCV."
        )
    laws = training_laws(X, estimator._kinds(y), weights, rows) if conditional else None
    targets = estimator._targets(seen, fit_intercept, X.shape[1])
    Y, _ = targets.encode(y, weights)
    trainings = []
    for kept in rows:
        own = np.zeros_like(weights)
        own[kept] = weights[kept]
        if not own.any():
            raise ValueError("sample_weight is zero for every example of a training set: weigh some of them.")
        if targets.classes is None:
            trainings.append(Training(np.arange(targets.K), own[:, None]))
        else:
            trainings.append(_classes_of(estimator, targets, y, own))
    tol = (loose or 1.0) * TOL_UNIT * check_real("tol", estimator.tol, above=0)
    max_iter = check_count("max_iter", estimator.max_iter, 1)
    return Problem(
        X,
        Y,
        targets,
        trainings,
        estimator._loss_for(targets),
        estimator._penalty(),
        fit_intercept,
        estimator._checked_solver(),
        tol,
        max_iter,
        loose is None,
        laws,
    )


def training_laws(
    X: Any, kinds: NDArray[Any] | None, weights: Array, rows: Sequence[NDArray[np.intp]]
) -> list[Law | ClassLaws]:
    """The laws of the features of every training set, by the rows that weigh anything."""
    used = [kept[weights[kept] > 0] for kept in rows]
    return [learn(X[kept], None if kinds is None else kinds[kept]) for kept in used]


def _classes_of(estimator: Any, targets: Any, y: NDArray[Any], own: Array) -> Training:
    """A training set of the classes that it holds, with class weights of its own."""
    classes, together = targets.classes, targets.kind != "ovr"
    labels = np.searchsorted(classes, y)
    counts = np.bincount(labels, own, len(classes))
    present = counts > 0
    if np.count_nonzero(present) < 2:
        raise ValueError(
            f"A training set of cv holds one class only ({classes[present].tolist()[0]!r}): use a "
            "splitter that keeps all classes in every fold, such as StratifiedKFold, or fewer folds."
        )
    columns = np.flatnonzero(present) if len(classes) > 2 else np.arange(1)
    if together and len(columns) < len(classes):
        raise ValueError(
            f"A training set of cv has no example of {classes[~present].tolist()[:5]}, but "
            f"multi_class={estimator.multi_class!r} takes all classes as one problem: use a splitter that "
            "keeps all classes in every fold, such as StratifiedKFold, fewer folds, or multi_class='ovr'."
        )
    table = estimator._class_table(classes, counts, together)
    if table.shape[1] > 1:
        table = table[:, columns]
    return Training(columns, own[:, None] * table[labels])


def check_noises(
    noises: Any, X: Any, weights: Array, names: Any = None, missing: str = "error"
) -> tuple[list[Any], list[Noise]]:
    """The noises of a grid as given, and the models they stand for, checked against X."""
    if isinstance(noises, str) and noises == "auto":
        rate = _rate_of(X, weights, missing)
        shift = 0.25 if multiple(rate, max(MULTIPLES)) > HEAVIEST else 1.0
        noises = list(dict.fromkeys([0.0, *(multiple(rate, shift * factor) for factor in MULTIPLES)]))
    if isinstance(noises, (str, Noise)) or not isinstance(noises, Iterable):
        raise ValueError(
            f"noises={noises!r} must be 'auto', or a sequence of dropout rates or noise models, such as "
            "[0.0, 0.3, 0.6]."
        )
    given = [noise if isinstance(noise, Noise) else _plain(noise) for noise in noises]
    given = _without_auto(given, X, weights, missing)
    if not given:
        raise ValueError("noises=[] is empty: give at least one dropout rate or noise model.")
    models = []
    for noise in given:
        try:
            models.append(resolve(noise).bind(names))
        except ValueError as error:
            raise ValueError(f"noises={noises!r}: {error}") from None
        check_features(delete_missing(X, models[-1]), models[-1])
        models[-1].moments(X.shape[1])  # for its check of the parameters' lengths
    return given, models


def _without_auto(noises: list[Any], X: Any, weights: Array, missing: str) -> list[Any]:
    """The noises with the rate that the data bear in place of "auto", unless it is there already."""
    if not any(isinstance(noise, str) and noise == "auto" for noise in noises):
        return noises
    rate = _rate_of(X, weights, missing)
    found: list[Any] = []
    for noise in noises:
        if not (isinstance(noise, str) and noise == "auto"):
            found.append(noise)
        elif rate not in noises and rate not in found:
            found.append(rate)
    return found


def _rate_of(X: Any, weights: Array, missing: str) -> float:
    """The rate that the data bear."""
    if missing == "conditional" and has_missing(X):
        X = estimate(X[weights > 0]).law.fill(X)
    return Extent.of(delete_missing(X, resolve(0.0)), weights).rate()


def multiple(rate: float, factor: float) -> float:
    """The dropout rate of `factor` times the variance κ = q/(1 − q), to two digits of q or of 1 − q."""
    if factor == 1.0:
        return rate
    kappa = factor * rate / (1.0 - rate)
    q = kappa / (1.0 + kappa)
    return float(f"{q:.2g}") if q < 0.9 else 1.0 - float(f"{1.0 / (1.0 + kappa):.2g}")


def _plain(noise: Any) -> Any:
    return float(noise) if isinstance(noise, np.floating) else noise


def check_Cs(Cs: Any, problem: Problem) -> Array:
    """The values of C in ascending order; a number asks for so many of a grid that fits the data."""
    if isinstance(Cs, Integral) and not isinstance(Cs, bool):
        count = check_count("Cs", Cs, 1)
        return np.asarray(smallest_C(problem) * 10.0 ** (np.arange(count) / PER_DECADE))
    if isinstance(Cs, str) or not isinstance(Cs, Iterable):
        raise ValueError(f"Cs={Cs!r} must be a sequence of positive numbers, or how many to try.")
    values = [check_real(f"Cs={Cs!r}: C", C, above=0) for C in Cs]
    if not values:
        raise ValueError("Cs=[] is empty: give at least one value of C, or how many to try.")
    if len(set(values)) < len(values):
        raise ValueError(f"Cs={Cs!r} holds a value twice: give each once.")
    return np.sort(values)


def smallest_C(problem: Problem) -> float:
    """The C below which w is negligible.

    For C → 0, w is C times a fixed vector g: the sum of the examples pulling at it, both
    sides pulling equally as the offset balances them. At this C the scores that g makes
    deviate from their mean by NEGLIGIBLE times the loss's scale. Under an ℓ1 penalty ρ‖w‖₁, w is 0 up to
    C = ρ/max|g|, and this is the C.
    """
    training = problem.trainings[0]
    weights = np.broadcast_to(training.weights, (len(problem.Y), len(training.columns)))
    Y = problem.Y[:, training.columns]
    up, down = np.where(Y > 0, weights, 0.0), np.where(Y < 0, weights, 0.0)
    pulls = np.minimum(up.sum(axis=0), down.sum(axis=0))
    pull = pulls * (up / np.maximum(up.sum(axis=0), 1e-300) - down / np.maximum(down.sum(axis=0), 1e-300))
    plain = resolve(0.0)
    design = problem.design(make_design(problem.deleted(plain), plain), plain, 0)
    g = design.pullback(np.zeros((design.d, Y.shape[1])), pull, np.zeros_like(pull))
    with np.errstate(over="ignore", invalid="ignore"):
        spread = float(design.apply(g).std(axis=0).max())
    if not 0 < spread < np.inf:
        return 1e-3
    exact = NEGLIGIBLE * problem.loss.scale / spread
    if problem.penalty.l1:
        exact = max(exact, problem.penalty.l1 / float(np.abs(g).max()))
    return float(10.0 ** (np.floor(PER_DECADE * np.log10(exact)) / PER_DECADE))
