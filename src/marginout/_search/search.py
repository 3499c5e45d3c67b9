"""The search over C and noise that the estimators of `cv` share: folds, scores, the choice."""

from __future__ import annotations

import time
from copy import copy
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from marginout._core.design.storage import linear_scores
from marginout._core.fit import FITTED, FitTask, untouched_on_failure, with_callbacks
from marginout._core.interfaces import Array
from marginout._core.missing import LINEAR_OPTIONS
from marginout._core.validation import check_count, check_flag, check_option, check_sample_weight, warn_user
from marginout._models.linear import DropoutLinearModel
from marginout._search.chains import Part, walk
from marginout._search.problem import Problem, check_Cs, check_noises, multiple, pose, training_laws
from marginout.noise import Noise, resolve

Rows = NDArray[np.intp]

#: The search stops this many times farther from the optimum than the refit, unless X has so few entries
#: that nothing is won. On Amazon's reviews a cell's mean score differs by 0.05 to 0.07 points from that of
#: a fit at `tol` (`benchmarks/results/search_summary.csv`).
LOOSE, FEW = 2.0, 100_000
#: Cells that a warning names.
NAMED = 5
#: What the refit leaves on the estimator.
REFITTED = *FITTED, "n_iter_"


class GridEdgeWarning(UserWarning):
    """The best cell of a grid lies on its edge: a better one may lie beyond."""


@dataclass
class Outcome:
    """Scores and seconds of all fits of a search, and which did not converge, (n_folds, n_Cs, n_noises).

    `failures` says, by (fold, C, noise), why a fit has no solution; its score is NaN.
    """

    scores: Array
    fit_time: Array
    score_time: Array
    late: NDArray[np.bool_]
    failures: dict[tuple[int, int, int], ValueError] = field(default_factory=dict)


class Search(DropoutLinearModel):
    """The search that the three estimators share; it has an estimator for every cell, and is none of them."""

    _missing_options = LINEAR_OPTIONS

    #: The class of the cells' estimators. It has all parameters of the search that are not its own.
    _kind: type[Any]

    def _model(self, C: float, noise: Any, multi_class: str) -> Any:
        """The estimator of one cell: the parameters that it shares with the search are the search's."""
        model, own = self._kind(C=C, noise=noise), self.get_params(deep=False)
        shared = set(own) & set(model.get_params(deep=False)) - {"verbose"}
        model.set_params(**{name: own[name] for name in shared})
        return model.set_params(multi_class=multi_class) if self._chooses_multi_class() else model

    def _chooses_multi_class(self) -> bool:
        return "multi_class" in self.get_params(deep=False)

    def _ways(self, y: NDArray[Any], weights: Array, d: int, folds: list[tuple[Rows, Rows]]) -> list[str]:
        """The values of multi_class to choose from; for "auto" what it stands for, the same in all folds."""
        if not self._chooses_multi_class():
            return ["ovr"]
        given = self.get_params(deep=False)["multi_class"]
        ways, options = [given] if isinstance(given, str) else given, self._kind._multi_classes
        if not (isinstance(ways, (list, tuple)) and ways and all(way in options for way in ways)):
            raise ValueError(
                f"multi_class={given!r} must be one of {', '.join(map(repr, options))}, or a list of them to "
                "choose from."
            )
        K = len(np.unique(y))
        if K <= 2:  # one problem in any case
            return ["ovr" if ways[0] == "auto" else ways[0]]
        usual = "ovr"
        if "auto" in ways and all(len(np.unique(y[rows][weights[rows] > 0])) == K for rows, _ in folds):
            usual = self._model(1.0, 0.0, "auto")._kind_for(float(weights.sum()), d)
        return list(dict.fromkeys(usual if way == "auto" else way for way in ways))

    @property
    def partial_fit(self) -> Any:
        """No attribute of a search: an AttributeError that names the cure."""
        raise AttributeError(
            f"{type(self).__name__} has no partial_fit: choose C and the noise on a first part of the stream "
            "by fit, then call partial_fit of best_estimator_."
        )

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose C and the noise by cross-validation, and fit the model with them.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data. Dense data in any memory order and CSR data, float32 or float64,
            are used as they are; other sparse formats are converted to CSR first.
        y : array-like of shape (n_samples,)
            Class labels or targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the examples, >= 0; each multiplies its example's loss and, where the
            scorer takes weights, its share in the score of its fold.
        groups : array-like of shape (n_samples,), default=None
            Groups of examples, for splitters that keep them together.

        Returns
        -------
        self : object
            The fitted model.
        """
        with untouched_on_failure(self):
            classify = is_classifier(self)
            X, y = self._validated(X, y, y_numeric=not classify)
            if classify:
                check_classification_targets(y)
            weights = check_sample_weight(sample_weight, X)
            select = check_option("select", self.select, ["best", "one_se"])
            refit = check_flag("refit", self.refit)
            verbose = check_count("verbose", self.verbose, 0)
            names = getattr(self, "feature_names_in_", None)
            noises, models = check_noises(self.noises, X, weights, names, self.missing)
            strengths = _strengths(models, X.shape[1], select)
            folds = self._folds(X, y, groups)
            ways = self._ways(y, weights, X.shape[1], folds)
            loose = LOOSE if X.size > FEW else 1.0
            outcomes: list[Outcome] = []
            for way in ways:
                model = self._model(1.0, noises[0], way)
                problem = pose(model, X, y, weights, [train for train, _ in folds], loose)
                if not outcomes:  # one grid for all
                    Cs = check_Cs(self.Cs, problem)
                    task = FitTask(self, len(ways) * len(folds) * len(Cs) * len(noises), X, y)
                score = Scorer(self.scoring, model, problem, X, y, sample_weight, folds, models)
                outcomes.append(_search(problem, Cs, models, score, self.n_jobs, verbose, task))
            if problem.targets.classes is not None:
                self.classes_ = problem.targets.classes
            way, outcome = self._best_way(ways, outcomes)
            self._choose(outcome, Cs, noises, strengths)
            if refit:
                # X has lost its names: a noise that speaks of them must know them by now.
                noise = self.noise_.bind(names) if isinstance(self.noise_, Noise) else self.noise_
                self.best_estimator_ = self._model(self.C_, noise, way).fit(X, y, sample_weight)
                for name in REFITTED:
                    setattr(self, name, getattr(self.best_estimator_, name))
                self._law = self.best_estimator_._law
            task.end(lambda: {name: value for name, value in vars(self).items() if name.endswith("_")})
            self._warn(outcome, strengths)
        return self

    def _folds(self, X: Any, y: Any, groups: Any) -> list[tuple[Rows, Rows]]:
        """Train and test rows of every split."""
        if groups is not None:
            check_consistent_length(X, y, groups)
        rows = np.arange(len(y))
        splits = check_cv(self.cv, y, classifier=is_classifier(self)).split(X, y, groups)
        folds = [(rows[np.asarray(train)], rows[np.asarray(test)]) for train, test in splits]
        if not folds:
            raise ValueError(f"cv={self.cv!r} makes no split: give a splitter, or at least one fold.")
        for number, (train, test) in enumerate(folds):
            if not (len(train) and len(test)):
                raise ValueError(f"cv={self.cv!r}: split {number} has no training or no test examples.")
        return folds

    def _best_way(self, ways: list[str], outcomes: list[Outcome]) -> tuple[str, Outcome]:
        """The value of multi_class whose best cell has the best mean score, the first of equals.

        Sets: multi_class_, multi_class_scores_, if there is such a parameter.
        """
        means = [outcome.scores.mean(axis=0) for outcome in outcomes]
        best = [float(np.nanmax(mean)) if not np.isnan(mean).all() else -np.inf for mean in means]
        chosen = int(np.argmax(best))
        if self._chooses_multi_class():
            self.multi_class_ = ways[chosen]
            self.multi_class_scores_ = dict(zip(ways, best, strict=True))
        return ways[chosen], outcomes[chosen]

    def _choose(self, outcome: Outcome, Cs: Array, noises: list[Any], strengths: Array) -> None:
        """Sets: scores_, cv_results_, Cs_, noises_, and the chosen cell."""
        means = outcome.scores.mean(axis=0)
        if np.isnan(means).all():
            if outcome.failures:
                raise next(iter(outcome.failures.values()))
            raise ValueError(f"scoring={self.scoring!r} is NaN in every cell: there is nothing to choose by.")
        i, j = np.unravel_index(np.nanargmax(means), means.shape)
        self._best = int(i), int(j)
        if self.select == "one_se":
            folds = len(outcome.scores)
            error = outcome.scores[:, i, j].std(ddof=1) / np.sqrt(folds) if folds > 1 else 0.0
            near = np.argwhere(means >= means[i, j] - error)
            i, j = min(near, key=lambda cell: (-strengths[cell[1]], cell[0]))
        self.scores_, self.Cs_, self.noises_ = outcome.scores, Cs, noises
        self.C_, self.noise_, self.n_splits_ = float(Cs[i]), noises[j], len(outcome.scores)
        self.best_index_ = int(i * len(noises) + j)
        self.best_score_ = float(means[i, j])
        self.cv_results_ = _cv_results(outcome, Cs, noises)
        self.best_params_ = dict(self.cv_results_["params"][self.best_index_])

    def _warn(self, outcome: Outcome, strengths: Array) -> None:
        """Say where the grid was too small, or fits were cut short or failed, and what helps."""
        _warn_of_failures(outcome, self.Cs_, self.noises_)
        if outcome.late.any():
            warn_user(
                f"{outcome.late.sum()} of {outcome.late.size} fits of the search stopped at "
                f"max_iter={self.max_iter}. Scale the features, raise max_iter, or leave out the largest Cs.",
                ConvergenceWarning,
            )
        means, (i, j) = outcome.scores.mean(axis=0), self._best
        last = len(self.Cs_) - 1
        if last and i in (0, last) and means[i, j] > means[1 if i == 0 else last - 1, j]:
            side, more = ("smallest", "smaller") if i == 0 else ("largest", "larger")
            warn_user(
                f"The best C={self.Cs_[i]:.3g} is the {side} of the grid: a {more} one may do better. "
                f"Extend Cs that way, for instance by {self.Cs_[i] * (0.1 if i == 0 else 10):.3g}.",
                GridEdgeWarning,
            )
        order = np.argsort(strengths, kind="stable")
        place = int(np.flatnonzero(order == j)[0])
        if len(order) > 1 and place in (0, len(order) - 1) and strengths[j] > 0:
            neighbour = order[1 if place == 0 else place - 1]
            if means[i, j] > means[i, neighbour]:
                side, more = ("lightest", "lighter") if place == 0 else ("heaviest", "heavier")
                best, instance = self.noises_[j], ""
                if isinstance(best, float):
                    instance = f", for instance by {multiple(best, 0.25 if place == 0 else 4.0):.4g}"
                warn_user(
                    f"The best noise {best!r} is the {side} of the grid: a {more} one may do better. "
                    f"Extend noises that way{instance}.",
                    GridEdgeWarning,
                )

    def _noise(self) -> Noise:
        return resolve(self.noise_).bind(getattr(self, "feature_names_in_", None))

    def _scores(self, X: Any) -> Array:
        self._check_refitted()
        return super()._scores(X)

    def _check_refitted(self) -> None:
        if hasattr(self, "scores_") and not hasattr(self, "coef_"):
            raise AttributeError("refit=False: there is no model to predict with. Fit with refit=True.")
        check_is_fitted(self)

    def _needs_positive(self) -> bool:
        noises = self.noises if isinstance(self.noises, (list, tuple)) else ()
        return any(getattr(noise, "positive_only", False) for noise in noises)

    def to_sklearn(self) -> Any:
        """The refitted model as a plain scikit-learn one with the same predictions."""
        self._check_refitted()
        best = copy(self.best_estimator_)
        if hasattr(self, "feature_names_in_"):  # cells are fitted to arrays
            best.feature_names_in_ = self.feature_names_in_
        return best.to_sklearn()


def _strengths(models: list[Noise], d: int, select: str) -> Array:
    """How heavy each noise is: its mean coefficient. Only noises of one kind can be compared."""
    strengths = np.array([model.moments(d).coefficient.mean() for model in models])
    kinds = {type(model).__name__ for model, strength in zip(models, strengths, strict=True) if strength > 0}
    if len(kinds) > 1:
        if select == "one_se":
            raise ValueError(
                "select='one_se' prefers the heaviest noise, but noises of several kinds "
                f"({', '.join(sorted(kinds))}) cannot be compared: give noises of one kind, or select='best'."
            )
        return np.zeros(len(models))  # no edges either
    return strengths


def _search(
    problem: Problem,
    Cs: Array,
    models: list[Noise],
    score: Scorer,
    n_jobs: int | None,
    verbose: int,
    task: FitTask,
) -> Outcome:
    """Fit and score all training sets in all cells."""
    shape = len(problem.trainings), len(Cs), len(models)
    scores, fit_time, score_time = (np.full(shape, np.nan) for _ in range(3))
    outcome = Outcome(scores, fit_time, score_time, np.zeros(shape, dtype=bool))
    lock = Lock()

    def visit(parts: list[Part], solution: tuple[Array, Array]) -> None:
        begin = time.perf_counter()
        values = score(parts, *solution)
        each = (time.perf_counter() - begin) / len(parts)
        with lock:
            for part, value in zip(parts, values, strict=True):
                cell = part.training, part.C, part.noise
                scores[cell], fit_time[cell], score_time[cell] = value, part.seconds, each
                if part.error is not None:
                    outcome.failures[cell] = part.error
                outcome.late[cell] = not part.converged and part.error is None
                task.iteration(None, "cell")
                task.cell()
                if verbose:
                    noise = models[part.noise]
                    print(f"fold {part.training}, C={Cs[part.C]:.3g}, {noise}: score {value:.4f}")

    walk(problem, Cs, models, visit, n_jobs)
    return outcome


def _warn_of_failures(outcome: Outcome, Cs: Array, noises: list[Any]) -> None:
    """Name the cells that have no solution."""
    cells = sorted({(i, j) for _, i, j in outcome.failures})
    if not cells:
        return
    named = [f"C={Cs[i]:.3g} with noise={noises[j]!r}" for i, j in cells[:NAMED]]
    more = [f"and {len(cells) - NAMED} more"] if len(cells) > NAMED else []
    warn_user(
        f"{len(outcome.failures)} of {outcome.scores.size} fits of the search have no finite solution in "
        f"double precision; their score is NaN: {', '.join(named + more)}. Scale the features (and targets), "
        "or leave these cells out.",
        FitFailedWarning,
    )


def _cv_results(outcome: Outcome, Cs: Array, noises: list[Any]) -> dict[str, Any]:
    """The table that GridSearchCV would give for the same grid."""
    folds = len(outcome.scores)
    table: dict[str, Any] = {}
    for name, seconds in (("fit", outcome.fit_time), ("score", outcome.score_time)):
        table[f"mean_{name}_time"] = seconds.mean(axis=0).ravel()
        table[f"std_{name}_time"] = seconds.std(axis=0).ravel()
    values = np.empty(len(noises), dtype=object)
    values[:] = noises
    floats = all(isinstance(noise, float) for noise in noises)
    column = np.tile(values, len(Cs)).astype(float) if floats else np.tile(values, len(Cs))
    table["param_C"] = np.ma.masked_array(np.repeat(Cs, len(noises)), False)
    table["param_noise"] = np.ma.masked_array(column, np.zeros(len(column), dtype=bool))
    table["params"] = [{"C": float(C), "noise": noise} for C in Cs for noise in noises]
    scores = outcome.scores.reshape(folds, -1)
    for fold in range(folds):
        table[f"split{fold}_test_score"] = scores[fold]
    table["mean_test_score"], table["std_test_score"] = scores.mean(axis=0), scores.std(axis=0)
    low = np.nanmin(table["mean_test_score"]) - 1 if np.isfinite(table["mean_test_score"]).any() else 0.0
    filled = np.nan_to_num(table["mean_test_score"], nan=low)
    table["rank_test_score"] = rankdata(-filled, method="min").astype(np.int32)
    return table


class Scorer:
    """The scores of solutions on the rows that their training sets leave out."""

    def __init__(
        self,
        scoring: Any,
        model: Any,
        problem: Problem,
        X: Any,
        y: Any,
        sample_weight: Any,
        folds: list[tuple[Rows, Rows]],
        models: list[Noise],
    ) -> None:
        self._models = models
        self._scorer = None if scoring is None else check_scoring(model, scoring)
        self._model, self._problem, self._X, self._y = model, problem, X, y
        self._weights = None if sample_weight is None else check_sample_weight(sample_weight, X)
        self._tests = [test for _, test in folds]
        self._laws = problem.laws
        if self._scorer is not None and model.missing == "conditional" and self._laws is None:
            # X is complete, but the scorer may take values away.
            weights = np.ones(len(y)) if self._weights is None else self._weights
            self._laws = training_laws(X, model._kinds(y), weights, [train for train, _ in folds])
        self._classes = problem.targets.classes
        self._weighted = self._weights is not None

    def __call__(self, parts: list[Part], W: Array, b: Array) -> list[float]:
        if self._scorer is not None:
            return [float("nan") if part.error else self._custom(part) for part in parts]
        # The noises of a batch are of one kind, and agree on what is missing.
        # Those whose training sets fill in X by laws of their own have one training set.
        X = self._problem.seen(self._models[parts[0].noise], parts[0].training)
        scores, intercept = linear_scores(X, W), self._problem.targets.intercept
        edges = np.cumsum([0] + [len(part.b) for part in parts])
        return [
            self._default(part, scores[self._tests[part.training], low:high] + intercept(part.b))
            for part, low, high in zip(parts, edges[:-1], edges[1:], strict=True)
        ]

    def _default(self, part: Part, scores: Array) -> float:
        """What the estimator's `score` gives, such as the accuracy."""
        test = self._tests[part.training]
        weights = self._weights[test] if self._weights is not None else None
        if part.error is not None or (weights is not None and not weights.any()):
            return float("nan")
        y = self._y[test]
        if self._classes is None:
            return float(self._model._score_of(y, scores, weights))
        if scores.shape[1] == 1:
            predicted = self._classes[(scores[:, 0] > 0).astype(np.intp)]
        else:
            predicted = self._classes[self._problem.trainings[part.training].columns[scores.argmax(axis=1)]]
        return float(np.average(predicted == y, weights=weights))

    def _custom(self, part: Part) -> float:
        """A scorer's verdict on a model made of the solution."""
        test = self._tests[part.training]
        model = self._model.__class__(**{**self._model.get_params(), "noise": self._models[part.noise]})
        if self._classes is None:
            model.__dict__.update(self._problem.targets.attributes(part.W, part.b))
        else:
            coef, intercept = part.W.T.copy(), self._problem.targets.intercept(part.b)
            present = self._problem.trainings[part.training].columns
            model.classes_ = self._classes if len(self._classes) == 2 else self._classes[present]
            last = slice(-1, None) if len(model.classes_) == 2 else slice(None)
            model.coef_, model.intercept_ = coef[last], intercept[last]
        if self._laws is not None:
            model._law = self._laws[part.training]
        model.n_features_in_ = self._X.shape[1]
        vars(model).update(model._taken(self._models[part.noise], self._problem.targets.kind))
        X, y = self._X[test], self._y[test]
        assert self._scorer is not None
        if self._weighted and self._weights is not None:
            try:
                return float(self._scorer(model, X, y, sample_weight=self._weights[test]))
            except TypeError:  # a scorer that takes no weights
                self._weighted = False
        return float(self._scorer(model, X, y))
