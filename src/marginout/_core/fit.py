"""The one way from (X, y) to coef_: in memory, on blocks, on Dask and in searches.

    prepare   a block of examples is checked by itself: X becomes a design, y is looked at
    merge     what was seen of all blocks
    plan      noise, loss, targets and C, the same for all blocks
    shard     a block's part of F
    minimize  penalty + Σ shards, by a solver, to fitted attributes

`fit(X, y)` is the fit of one block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from marginout._core.design.groups import Grouping
from marginout._core.design.storage import Design
from marginout._core.interfaces import Array, Executor, Handles, Minimizer, Monitor, Result, Solution, Traits
from marginout._core.objective import Objective
from marginout._core.shard import Shard
from marginout._core.targets import Seen, Targets
from marginout._core.validation import (
    check_count,
    check_flag,
    check_real,
    check_sample_weight,
    check_solution,
    warn_user,
)
from marginout.losses import Loss
from marginout.noise import Noise
from marginout.noise._auto import Extent

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
    from sklearn.callback import with_callbacks as with_callbacks
except ImportError:  # scikit-learn < 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """An estimator that callbacks do not know."""

    def with_callbacks(method: Any) -> Any:
        return method


#: `tol` in units of the objective: a fit ends within this fraction of `tol`·F of the optimum.
TOL_UNIT = 0.1
#: What a fit finds, and what must be finite.
FITTED = "coef_", "intercept_", "objective_", "optimality_gap_", "objective_history_"


class Block(NamedTuple):
    """Checked examples: X as its design stores it, labels or targets, weights."""

    design: Design
    y: NDArray[Any]
    weights: Array

    def under(self, noise: Noise) -> Block:
        """The same block; its design may have been made without noise, before all blocks were seen."""
        return self._replace(design=self.design.under(noise))


class Summary(NamedTuple):
    """What the fit must know of a block, or of several."""

    n: int
    nnz: int
    d: int
    nbytes: int
    weight: float
    names: tuple[str, ...] | None
    seen: Seen
    #: Whether features lie far from zero.
    far: bool
    #: How much noise the rows bear, where the model asks.
    extent: Extent | None = None


class Plan(NamedTuple):
    """What every block must know to become a shard."""

    noise: Noise
    #: None for models whose loss is no function of two moments.
    loss: Loss | None
    targets: Targets
    fit_intercept: bool
    C: float

    def encode(self, y: NDArray[Any], weights: Array) -> tuple[Array, Array]:
        """Targets, (n, K), and C times the weight of each example, (n, 1) or (n, K)."""
        Y, weights = self.targets.encode(y, weights)
        return Y, self.C * weights


def prepare(model: Any, X: Any, y: Any, weights: Callable[[Any], Array]) -> tuple[Block, Summary]:
    """A block of examples, checked by the model's rules, and its summary.

    Sets: n_features_in_ and feature_names_in_ of the model.
    """
    checked = check(model, X, y, weights)
    model._learn_law(*checked)
    return describe(model, checked)


class Checked(NamedTuple):
    """Examples that follow the model's rules."""

    X: Any
    y: NDArray[Any]
    weights: Array


def check(model: Any, X: Any, y: Any, weights: Callable[[Any], Array]) -> Checked:
    """A block of examples by the model's rules.

    Sets: n_features_in_ and feature_names_in_ of the model.
    """
    X, y = model._validated_for_fit(X, y)
    return Checked(X, y, weights(X))


def describe(model: Any, checked: Checked) -> tuple[Block, Summary]:
    """A checked block and its summary, for a model that knows the laws of what is missing."""
    X, y, own = checked
    design = model._design(X, model._noise())
    y, seen = model._look(y, own)
    names = names_of(model)
    size = size_of(design.X)
    extent = Extent.of(design.X, own) if model._asks_for_noise() else None
    weight = float(own.sum())
    summary = Summary(design.n, design.nnz, design.d, size, weight, names, seen, design.far(), extent)
    return Block(design, y, own), summary


def names_of(model: Any) -> tuple[str, ...] | None:
    """The names of a model's features, if they have any."""
    return tuple(model.feature_names_in_) if hasattr(model, "feature_names_in_") else None


def size_of(X: Any) -> int:
    """Bytes of a dense or CSR X."""
    parts = [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]
    return sum(part.nbytes for part in parts)


def merge(summaries: Iterable[Summary | None]) -> Summary:
    """The summary of all blocks, empty ones apart, which must have the same features."""
    known = [(number, summary) for number, summary in enumerate(summaries) if summary is not None]
    if not known:
        raise ValueError("There is no example in any block: give at least one.")
    (start, first), *others = known
    total = first
    for number, other in others:
        check_alike(start, first, number, other)
        seen: Any = total.seen
        total = Summary(
            total.n + other.n,
            total.nnz + other.nnz,
            total.d,
            total.nbytes + other.nbytes,
            total.weight + other.weight,
            total.names,
            seen.merge(other.seen),
            total.far or other.far,
            None if total.extent is None or other.extent is None else total.extent.merge(other.extent),
        )
    check_weight(total.weight)
    return total


def check_alike(start: int, first: Any, number: int, other: Any) -> None:
    """Raise unless two blocks have the same features; `d` and `names` say which."""
    if other.d != first.d:
        raise ValueError(
            f"block {number} has {other.d} features but block {start} has {first.d}: "
            "all blocks must have the same."
        )
    if other.names != first.names:
        raise ValueError(
            f"block {number} has features of other names, or in another order, than block {start}."
        )


def check_weight(total: float) -> None:
    """Raise if there is no example of positive weight."""
    if total == 0:
        raise ValueError("sample_weight is zero for every example: at least one must be positive.")


def make_plan(model: Any, total: Summary) -> Plan:
    """What the blocks need to become shards."""
    noise = model._noise_for(total.extent)
    C = check_real("C", model.C, above=0)
    fit_intercept = check_flag("fit_intercept", model.fit_intercept)
    model._shift(noise, total.d, fit_intercept)  # for its check
    targets = model._targets(total.seen, fit_intercept, total.d)
    return Plan(noise, model._loss_for(targets), targets, fit_intercept, C)


def set_features(model: Any, total: Summary) -> None:
    """Sets: n_features_in_, and feature_names_in_ if there are names."""
    model.n_features_in_ = total.d
    if total.names is not None:
        model.feature_names_in_ = np.array(total.names, dtype=object)
    elif hasattr(model, "feature_names_in_"):
        del model.feature_names_in_


def make_shard(block: Block, plan: Plan) -> Shard:
    """A block's part of F."""
    assert plan.loss is not None
    return Shard.of(block.under(plan.noise).design, plan.loss, *plan.encode(block.y, block.weights))


def sum_of_shards(model: Any, executor: Executor, shards: Handles, total: Summary, plan: Plan) -> Objective:
    """F of examples in several shards."""
    _, coefficient, _, groups = plan.noise.moments(total.d)
    # Where rows miss values, features of several groups depend on one another.
    grouping = None if groups is None or model._law is not None else Grouping(groups)
    traits = Traits(total.n, total.d, total.nnz, not coefficient.any(), total.far, grouping)
    K, fit_intercept = plan.targets.K, plan.fit_intercept
    assert plan.loss is not None
    return Objective(model._penalty(), executor, shards, traits, plan.loss, K, fit_intercept)


@contextmanager
def untouched_on_failure(model: Any) -> Iterator[None]:
    """Put the fitted attributes back as they were if anything, Ctrl-C included, breaks the fit."""

    def fitted() -> dict[str, Any]:
        private = "_stream", "_extent", "_fitted_noise", "_law", "_indicator"
        return {name: v for name, v in vars(model).items() if name.endswith("_") or name in private}

    before = fitted()
    try:
        yield
    except BaseException:
        for name in fitted():
            delattr(model, name)
        vars(model).update(before)
        raise


def fit_in_memory(model: Any, X: Any, y: Any, sample_weight: Any) -> None:
    """Fit a model to one block.

    Sets: all fitted attributes, at the end.
    """
    block, total = prepare(model, X, y, lambda X: check_sample_weight(sample_weight, X))
    plan = make_plan(model, total)
    model._minimize(block.under(plan.noise), plan)


def minimize(
    model: Any,
    solve: Minimizer,
    plan: Plan,
    d: int,
    data: dict[str, Any],
    monitor: Monitor | None = None,
    begin: tuple[Array, Array] | None = None,
) -> None:
    """Minimise an objective in weights of shape (d, K).

    `data` is shown to callbacks, `monitor` watches the solver, which may `begin` where another ended.

    Sets: all fitted attributes, at the end.
    """
    tol = check_real("tol", model.tol, above=0)
    max_iter = check_count("max_iter", model.max_iter, 1)
    verbose = check_count("verbose", model.verbose, 0)
    shift, targets = model._shift(plan.noise, d, plan.fit_intercept), plan.targets
    taken = model._taken(plan.noise, targets.kind)
    task = FitTask(model, max_iter * targets.K, **data)

    def attributes(W: Array, b: Array) -> dict[str, Any]:
        return {**targets.attributes(W, b - shift @ W), **taken}

    def watch(iteration: int, value: float, left: float, solution: Solution) -> bool:
        if iteration == 0:  # the solver asks whether to stop, and has nothing new to show
            return False
        if verbose:
            print(f"iteration {iteration}: objective {value:.8g}, about {left:.1e} above its minimum")
        task.near(left / value if value > 0 else 0.0, TOL_UNIT * tol)
        stop = monitor is not None and bool(monitor(iteration, value, left, solution))
        return task.iteration(lambda: attributes(*solution())) or stop

    W, b = begin or _start(model, plan, d, shift)
    # With several problems a monitor costs threads, which is more than a bar is worth.
    heard = task.heard and targets.K == 1
    watched = watch if verbose or monitor or task.watched or heard else None
    result = solve(W, b, tol=TOL_UNIT * tol, max_iter=max_iter, monitor=watched)
    fitted = {
        **attributes(result.W, result.b),
        "objective_": float(result.value.sum()),
        "optimality_gap_": float(np.minimum(result.gap, result.value).sum()),  # F is never negative
        "objective_history_": np.array(result.history),
    }
    check_solution(model._sizes(), **{name: fitted[name] for name in FITTED})
    for name in "_stream", "_extent", "_indicator":  # of streams, of several labels: this is another model
        model.__dict__.pop(name, None)
    model.__dict__.update(fitted, _fitted_noise=plan.noise, n_iter_=result.n_iter)
    task.end(lambda: attributes(result.W, result.b))
    _warn_if_late(result, max_iter)


def _warn_if_late(result: Result, max_iter: int) -> None:
    """Say how far from the optimum a fit stopped, and what helps, if it did not converge."""
    late = ~result.converged
    if not late.any():
        return
    worst = float(np.max(result.gap[late] / np.maximum(result.value[late], np.finfo(float).tiny)))
    when = f"at max_iter={max_iter}" if result.n_iter >= max_iter else "where F would not fall any further"
    where = f" in {late.sum()} of {late.size} one-vs-rest problems" if late.size > 1 else ""
    warn_user(
        f"Stopped {when}{where}; the objective is within {worst:.1e} of its "
        "minimum (relative, an upper bound). Scale the features, raise max_iter, lower C, or "
        "raise tol.",
        ConvergenceWarning,
    )


def weights_of(model: Any) -> Array:
    """`coef_` as an array, (K, d), if it is stored as a CSR matrix too."""
    coef = model.coef_
    return np.atleast_2d(coef.toarray() if sp.issparse(coef) else coef)


def _start(model: Any, plan: Plan, d: int, shift: Array) -> tuple[Array, Array]:
    """Zeros, or the last solution if `warm_start` asks for it and it fits."""
    K = plan.targets.K
    if check_flag("warm_start", getattr(model, "warm_start", False)) and plan.targets.suits(model):
        coef, intercept = weights_of(model), np.atleast_1d(model.intercept_)
        if coef.shape == (K, d):
            W = np.array(coef.T, np.float64, order="C")
            b = plan.targets.offset(np.array(intercept, np.float64)) if W.any() else intercept
            return W, np.asarray(b + shift @ W if plan.fit_intercept else np.zeros(K))
    return np.zeros((d, K)), np.zeros(K)


#: Told the name of what a fit is made of, "cell" or "iteration", and the share of it that is done.
Listener = Callable[[str, float], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def heard(listener: Listener) -> Iterator[None]:
    """Within the block, fits tell the listener how far they are, whatever scikit-learn's version."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


class FitTask:
    """A fit and its iterations, as callbacks see them."""

    def __init__(self, estimator: Any, max_iter: int, X: Any, y: Any) -> None:
        self._estimator, self._data = estimator, {"X": X, "y": y}
        self._context = None
        self._listener, self._cells, self._done, self._share = _listener.get(), max_iter, 0, 0.0
        self._first, self._part = math.inf, 0
        if hasattr(estimator, "_init_callback_context"):
            self._context = estimator._init_callback_context(max_subtasks=max_iter)
            self._context.call_on_fit_task_begin(estimator=estimator, **self._data)

    @property
    def watched(self) -> bool:
        """Whether there is a callback that wants to hear of iterations."""
        return self._context is not None and bool(getattr(self._estimator, "_skl_callbacks", None))

    @property
    def heard(self) -> bool:
        """Whether a listener wants to hear how far the fit is."""
        return self._listener is not None

    def cell(self) -> None:
        """Tell the listener that one more of equal parts is done."""
        self._done += 1
        if self._listener is not None:
            self._listener("cell", self._done / self._cells)

    def near(self, distance: float, goal: float, part: int = 0, parts: int = 1) -> None:
        """Tell the listener how far the fit, one part after the other, is.

        In each part the distance that is left falls geometrically to the goal, about.
        """
        if self._listener is None or not (0 < distance < math.inf and goal > 0):
            return
        if part != self._part or self._first == math.inf:
            self._first, self._part = max(distance, 2 * goal), part
        share = math.log(self._first / distance) / math.log(self._first / goal)
        self.reach((part + min(max(share, 0.0), 0.99)) / parts)

    def reach(self, share: float) -> None:
        """Tell the listener that this share of the fit is done."""
        self._share = max(self._share, share)
        if self._listener is not None:
            self._listener("iteration", self._share)

    def iteration(self, attributes: Callable[[], dict[str, Any]] | None, name: str = "iteration") -> bool:
        """Report one more iteration, or another part of the fit; whether a callback asks to stop.

        Parts that leave no model behind have no attributes.
        """
        if self._context is None or not self.watched:
            return False
        task = self._context.subcontext(task_name=name)
        task.call_on_fit_task_begin(estimator=self._estimator, **self._data)
        return bool(
            task.call_on_fit_task_end(
                estimator=self._estimator, reconstruction_attributes=attributes, **self._data
            )
        )

    def end(self, attributes: Callable[[], dict[str, Any]]) -> None:
        """Report the end of the fit."""
        if self._context is not None:
            self._context.call_on_fit_task_end(
                estimator=self._estimator, reconstruction_attributes=attributes, **self._data
            )
