"""The base of the estimators with a hidden layer: their fit, and the layer as a transformer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from marginout._core.design.storage import Design, linear_scores, make_design
from marginout._core.fit import Block, FitTask, Plan
from marginout._core.validation import (
    check_count,
    check_flag,
    check_option,
    check_real,
    check_solution,
    warn_user,
)
from marginout._models.collapse import warn_if_collapsed
from marginout._models.latent.activations import ACTIVATIONS
from marginout._models.latent.objective import PROPAGATIONS, LatentObjective, Net
from marginout._models.latent.solvers import SOLVERS, LatentResult, Solver
from marginout._models.latent.stochastic import Sampling, Softmax, epochs, stochastic
from marginout.noise import Noise
from marginout.solvers._progress import total_history

Array = NDArray[np.float64]

#: Multiplications of a pass of `joint`, about: non-zeros × units × (1 + outputs). Beyond, "auto" draws
#: examples. With 20 units `joint` takes half of the time for 256 × 30 or 198 × 10 (0.1e6 to 0.3e6), five
#: times as long on reviews (5e6), ten times on digits (12e6).
SAMPLED_WORK = 1e6
#: The solver that draws examples.
STOCHASTIC = "stochastic"
#: Parameters of what it does not approximate, and their defaults.
APPROXIMATIONS = {"propagation": "taylor", "expectation": "bound"}
#: Largest C·Σs: beyond, F overflows.
LARGEST_TOTAL = 1e300
#: Entries of X, zeros included, up to which equal examples are merged.
MERGED_ENTRIES = 100_000
#: Hidden activations in memory at a time, for scores.
BLOCK_ENTRIES = 1_000_000


@dataclass(frozen=True)
class HiddenUnits:
    """Hidden units in the order of their weights, and the examples that they respond to.

    Attributes
    ----------
    units : array of shape (n_units,)
        Numbers of the units, columns of `transform`.
    weights : array of shape (n_units,)
        The units' weights in the score of `output`.
    examples : array of shape (n_units, n_examples)
        Rows of X that each unit responds to most, the strongest first.
    responses : array of shape (n_units, n_examples)
        The unit's activations there.
    classes : array of shape (n_classes,), or None without y
    class_means : array of shape (n_units, n_classes), or None without y
        The unit's mean activation on the examples of each class.
    """

    units: NDArray[np.intp]
    weights: Array
    examples: NDArray[np.intp]
    responses: Array
    classes: NDArray[Any] | None
    class_means: Array | None

    def select(self, rows: Any) -> HiddenUnits:
        """Some of the units, by position."""
        return HiddenUnits(
            self.units[rows],
            self.weights[rows],
            self.examples[rows],
            self.responses[rows],
            self.classes,
            None if self.class_means is None else self.class_means[rows],
        )


class LatentModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin):  # type: ignore[misc]
    """Base of the models with a hidden layer, beside a classifier or regressor of `_models.linear`."""

    hidden_coef_: Array
    hidden_intercept_: Array
    _chooses_noise = True
    # For models stored by older versions.
    hidden_noise = 0.0

    def _minimize(self, block: Block, plan: Plan) -> None:
        """Fit to one block.

        Sets: classes_ if there are any, hidden_coef_, hidden_intercept_, coef_, intercept_, n_iter_,
        objective_, objective_history_, all of them at the end.
        """
        noise = plan.noise
        X, Y, weights = merge_examples(block.design.X, *plan.targets.encode(block.y, block.weights))
        tol, max_iter = check_real("tol", self.tol, above=0), check_count("max_iter", self.max_iter, 1)
        verbose = check_count("verbose", self.verbose, 0)
        solver = self._solver(block.design, noise, Y.shape[1])
        softmax, draws = self._takes_softmax(solver, Y.shape[1]), solver == STOCHASTIC
        if draws:
            max_iter = min(max_iter, epochs(len(Y), tol))
        objectives = self._objectives(X, Y, joint_weights(Y, weights) if softmax else weights, plan)
        # Noise may shift the mean of every example. The solvers' hidden offsets contain the shift, unless the
        # examples are drawn.
        shift = self._shift(noise, X.shape[1], self.fit_intercept)
        rng = self._generator()
        starts = self._starts(objectives, plan, shift, rng)
        if draws:
            sampling = Sampling(
                noise,
                float(self.hidden_noise),
                np.random.default_rng(seed(rng)),
                Softmax() if softmax else None,
            )
            solve: Solver = partial(stochastic, count=max_iter, sampling=sampling)
            starts = [[net._replace(a=net.a - shift @ net.alpha) for net in nets] for nets in starts]
            shift = np.zeros_like(shift)
        else:
            solve = partial(SOLVERS[solver], tol=tol, max_iter=max_iter)
        task = FitTask(self, max_iter * len(objectives) * len(starts), X, block.y)
        nets = list(starts[0])

        def layers() -> dict[str, Any]:
            return self._layers([net._replace(a=net.a - shift @ net.alpha) for net in nets], plan)

        results = []
        for k, objective in enumerate(objectives):

            def monitor(iteration: int, value: float, decrease: float, net: Net, k: int = k) -> bool:
                if draws:
                    task.reach((k + iteration / max_iter) / len(objectives))
                else:
                    task.near(decrease, tol, k, len(objectives))
                if verbose:
                    print(
                        f"problem {k}, iteration {iteration}: objective {value:.8g}, lately -{decrease:.1e}"
                    )
                nets[k] = net
                return task.iteration(layers)

            tried = [solve(objective, nets_[k], monitor=monitor) for nets_ in starts]
            best = min(tried, key=lambda result: result.value)
            results.append(best)
            nets[k] = best.net
        values = [result.value for result in results]
        found = {
            **layers(),
            "objective_": float(sum(values)),
            "objective_history_": np.array(total_history([r.history for r in results], values)),
        }
        check_solution(self._sizes(), **{name: value for name, value in found.items() if name != "classes_"})
        found.update(self._kind(softmax))
        n_iter = max(max(1, len(result.history)) for result in results)
        for name in "_stream", "_extent":  # of `partial_fit`: this is another model
            self.__dict__.pop(name, None)
        self.__dict__.update(found, _fitted_noise=noise, **self._taken(noise), n_iter_=n_iter)
        task.end(layers)
        _warn(results, max_iter)
        warn_if_collapsed(self, X, Y, weights, plan)

    def _solver(self, design: Design, noise: Noise, P: int) -> str:
        """The solver that `solver` stands for."""
        solver = check_option("solver", self.solver, ["auto", *SOLVERS, STOCHASTIC])
        if solver == "auto":
            work = design.nnz * check_count("n_hidden", self.n_hidden, 1) * (1 + P)
            asked = self.propagation != "taylor" or self.expectation != "bound"
            draws = not asked and work > SAMPLED_WORK and is_drawn(noise, design.d)
            solver = STOCHASTIC if draws or self.hidden_noise else "joint"
        self._check_sampled(solver)
        return solver

    def _check_sampled(self, solver: str) -> None:
        """Refuse what a solver does not know."""
        rate = self.hidden_noise
        if not isinstance(rate, Real) or isinstance(rate, bool) or not 0 <= rate < 1:
            raise ValueError(f"hidden_noise={rate!r} must be a dropout rate in [0, 1).")
        if solver != STOCHASTIC:
            if rate:
                raise ValueError(
                    f"hidden_noise={self.hidden_noise!r} is drawn, which solver={solver!r} does not do: set "
                    "solver='stochastic', or hidden_noise=0."
                )
            return
        for name, default in APPROXIMATIONS.items():
            if getattr(self, name) != default:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} approximates an expectation, which solver='stochastic' "
                    f"draws: leave it at {default!r}, or set solver='joint'."
                )

    def _takes_softmax(self, solver: str, P: int) -> bool:
        """Whether all classes have one loss together."""
        return False

    def _kind(self, softmax: bool) -> dict[str, Any]:
        """What else a fit has found out."""
        return {}

    def _objectives(self, X: Any, Y: Array, weights: Array, plan: Plan) -> list[LatentObjective]:
        """One objective for all outputs, or one for each that has a hidden layer of its own."""
        C = plan.C
        assert plan.loss is not None
        if C * (weights.sum() / LARGEST_TOTAL) >= 1:
            raise ValueError(
                f"C={self.C!r} times the sum of the weights, {weights.sum():g}, overflows: lower C."
            )
        settings = (
            ACTIVATIONS[check_option("activation", self.activation, ACTIVATIONS)],
            check_option("propagation", self.propagation, PROPAGATIONS),
            plan.loss,
        )
        penalty = check_real("hidden_penalty", self.hidden_penalty, above=0)
        design = make_design(X, plan.noise)
        columns = [slice(None)] if self._is_shared() else [slice(p, p + 1) for p in range(Y.shape[1])]
        return [
            LatentObjective(
                design,
                *settings,
                np.ascontiguousarray(Y[:, p]),
                C * (weights if weights.shape[1] == 1 else weights[:, p]),
                penalty,
                plan.fit_intercept,
            )
            for p in columns
        ]

    def _is_shared(self) -> bool:
        return check_flag("shared", getattr(self, "shared", True))

    def _generator(self) -> np.random.RandomState:
        """What all random numbers of a fit are drawn from."""
        try:
            rng: np.random.RandomState = check_random_state(self.random_state)
        except ValueError:
            raise ValueError(
                f"random_state={self.random_state!r} must be None, a whole number >= 0 or a RandomState."
            ) from None
        return rng

    def _starts(
        self, objectives: list[LatentObjective], plan: Plan, shift: Array, rng: np.random.RandomState
    ) -> list[list[Net]]:
        """The last solution, if `warm_start` asks for it and its shape fits, or `n_init` random ones."""
        n_hidden = check_count("n_hidden", self.n_hidden, 1)
        n_init = check_count("n_init", self.n_init, 1)
        if check_flag("warm_start", self.warm_start) and plan.targets.suits(self):
            last = self._last(objectives, n_hidden, plan)
            if last is not None:
                return [[net._replace(a=net.a + shift @ net.alpha) for net in last]]
        return [[objective.start(n_hidden, rng) for objective in objectives] for _ in range(n_init)]

    def _last(self, objectives: list[LatentObjective], n_hidden: int, plan: Plan) -> list[Net] | None:
        """The last solution as networks, without offsets if none are fitted; None if its shape is another."""
        coef, units = np.atleast_2d(self.coef_), n_hidden * len(objectives)
        outputs = sum(objective.Y.shape[1] for objective in objectives)
        if self.hidden_coef_.shape != (units, objectives[0].design.d) or coef.shape != (outputs, units):
            return None
        keep = float(self.fit_intercept)
        intercept = keep * plan.targets.offset(np.atleast_1d(self.intercept_))
        offsets = keep * self.hidden_intercept_
        nets, p = [], 0
        for k, objective in enumerate(objectives):
            own, p = slice(p, p + objective.Y.shape[1]), p + objective.Y.shape[1]
            rows = slice(k * n_hidden, (k + 1) * n_hidden)
            parts = self.hidden_coef_[rows].T, offsets[rows], coef[own, rows].T, intercept[own]
            nets.append(Net(*(np.array(part, dtype=np.float64, order="C") for part in parts)))
        return nets

    def _layers(self, nets: list[Net], plan: Plan) -> dict[str, Any]:
        """Networks as fitted attributes: one layer, in which an output has weights for its own units only."""
        coef = np.zeros((sum(len(net.b) for net in nets), sum(len(net.a) for net in nets)))
        p = k = 0
        for net in nets:
            K, P = net.W.shape
            coef[p : p + P, k : k + K] = net.W.T
            p, k = p + P, k + K
        return {
            "hidden_coef_": np.ascontiguousarray(np.hstack([net.alpha for net in nets]).T),
            "hidden_intercept_": np.concatenate([net.a for net in nets]),
            **plan.targets.attributes(coef.T, np.concatenate([net.b for net in nets])),
        }

    def _hidden_blocks(self, X: Any) -> Iterator[tuple[slice, Array]]:
        """Hidden activations of validated X, some rows at a time, with the slice of these rows."""
        size = max(1, BLOCK_ENTRIES // len(self.hidden_coef_))
        activation = ACTIVATIONS[self.activation]
        alpha = np.ascontiguousarray(self.hidden_coef_.T)
        for i in range(0, X.shape[0], size):
            rows = slice(i, min(i + size, X.shape[0]))
            yield rows, activation(linear_scores(X[rows], alpha) + self.hidden_intercept_)

    def _raw_scores(self, X: Any) -> Array:
        W = np.atleast_2d(self.coef_).T
        scores = np.empty((X.shape[0], W.shape[1]))
        for rows, G in self._hidden_blocks(X):
            scores[rows] = G @ W + self.intercept_
        return scores

    @property
    def _n_features_out(self) -> int:
        """The number of hidden units, from which scikit-learn makes their names."""
        return len(self.hidden_coef_)

    def transform(self, X: Any) -> NDArray[Any]:
        """Hidden activations σ(α·x + a).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Examples.

        Returns
        -------
        G : array of shape (n_samples, n_units)
            Of type float32 for float32 data. Scores are ``G @ coef_.T + intercept_``.
        """
        return self._hidden(X)

    def _hidden(self, X: Any) -> NDArray[Any]:
        """The result of `transform` as an array, whatever `set_output` asks for."""
        X = self._checked(X)
        G = np.empty((X.shape[0], len(self.hidden_coef_)), dtype=X.dtype)
        for rows, block in self._hidden_blocks(X):
            G[rows] = block
        return G

    def hidden_units(self, X: Any, y: Any = None, *, output: int = 0, n_examples: int = 6) -> HiddenUnits:
        """Describe the hidden units: weights, the examples of the largest response, mean responses by class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Examples to look for.
        y : array-like of shape (n_samples,), default=None
            Labels, for the mean responses by class.
        output : int, default=0
            The row of `coef_` that gives the weights: the class, if there are several.
            Units whose weight in it is exactly 0, those of other classes' layers, are left out.
        n_examples : int, default=6
            Number of examples for each unit, those of its largest responses.

        Returns
        -------
        units : HiddenUnits
            Largest weight first.
        """
        G = self._hidden(X)
        coef = np.atleast_2d(self.coef_)
        if check_count("output", output, 0) >= len(coef):
            raise ValueError(f"output={output!r} must be less than {len(coef)}, the number of outputs.")
        n_examples = min(check_count("n_examples", n_examples, 1), len(G))
        weights = coef[output]
        units = np.argsort(-weights, kind="stable")
        units = units[weights[units] != 0] if weights.any() else units
        examples = np.argsort(-G[:, units], axis=0, kind="stable")[:n_examples].T
        classes = means = None
        if y is not None:
            y = np.asarray(y)
            if y.shape != (len(G),):
                raise ValueError(
                    f"y has shape {y.shape} but X has {len(G)} examples: give one label for each."
                )
            classes = np.unique(y)
            means = np.column_stack([G[y == c][:, units].mean(axis=0) for c in classes])
        responses = np.take_along_axis(G[:, units].T, examples, axis=1)
        return HiddenUnits(units, weights[units], examples, responses, classes, means)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def is_drawn(noise: Noise, d: int) -> bool:
    """Whether examples of this noise can be drawn, of features that are 0."""
    try:
        noise.corrupt(np.zeros((1, d)), 0)
    except NotImplementedError:
        return False
    return True


def merge_examples(X: Any, Y: Array, weights: Array) -> tuple[Any, Array, Array]:
    """Merge equal examples of small data: add their weights, and sort them.

    F is not convex, so rounding can decide which minimum is found. Where data are small, an example that is
    given twice equals one of double weight to the last bit.
    """
    n, d = X.shape
    if n * d > MERGED_ENTRIES:
        return X, Y, weights
    table = np.column_stack([X.toarray() if sp.issparse(X) else X, Y])
    some = weights.any(axis=1)
    table, which = np.unique(table[some], axis=0, return_inverse=True)
    merged = np.zeros((len(table), weights.shape[1]))
    np.add.at(merged, which.ravel(), weights[some])
    rows = np.ascontiguousarray(table[:, :d], dtype=X.dtype)
    return sp.csr_array(rows) if sp.issparse(X) else rows, np.ascontiguousarray(table[:, d:]), merged


def seed(rng: np.random.RandomState) -> list[int]:
    """The seed of a generator of its own for what a fit draws."""
    return [int(part) for part in rng.randint(2**31, size=2)]


def joint_weights(Y: Array, weights: Array) -> Array:
    """Weights for one loss of all classes, (n, 1), from those of every one-vs-rest problem.

    "balanced" gives a class half of the weight in its own problem, and one part of P in a joint one.
    """
    P = Y.shape[1]
    return weights if weights.shape[1] == 1 else np.sum(weights, axis=1, keepdims=True, where=Y > 0) * (2 / P)


def _warn(results: list[LatentResult], max_iter: int) -> None:
    """Say how fast F was still falling where a fit stopped at `max_iter`, and what helps."""
    late = [result.decrease for result in results if not result.converged]
    if late:
        where = f" in {len(late)} of {len(results)} problems" if len(results) > 1 else ""
        pace = f"; ten iterations still lowered the objective by {max(late):.1e}, relatively"
        warn_user(
            f"Stopped at max_iter={max_iter}{where}{pace if np.isfinite(max(late)) else ''}. Scale the "
            "features, raise max_iter, lower C, or raise tol.",
            ConvergenceWarning,
        )
