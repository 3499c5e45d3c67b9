"""DropoutSVC, DropoutLogisticRegression, DropoutSVR and DropoutQuantileRegressor on Dask collections.

    from dask.distributed import Client
    from marginout.dask import DropoutSVC

    client = Client()                     # or the address of a scheduler
    model = DropoutSVC(C=0.1).fit(X, y)   # dask arrays, dask data frames, or lists of delayed blocks
    model.predict(X)                      # lazily

The solvers run here, on the driver; every evaluation is one task per block and a tree of sums. The
examples stay on the workers, and so do their scores. All of it comes from the graph of X and y by
pure functions, and nothing is scattered: what a dying worker takes with it is computed again.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import Any, Self
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from marginout import DropoutLogisticRegression as LocalLogisticRegression
from marginout import DropoutQuantileRegressor as LocalQuantileRegressor
from marginout import DropoutSVC as LocalSVC
from marginout import DropoutSVR as LocalSVR
from marginout._blocks.executors import add_up
from marginout._blocks.fit import (
    Glance,
    Waiting,
    block_rows,
    block_shard,
    block_weights,
    check_block,
    check_fit,
    describe_block,
    learn_laws,
    minimize_blocks,
    prepare_block,
    starts_of,
)
from marginout._core.fit import (
    Block,
    Plan,
    Summary,
    make_plan,
    merge,
    set_features,
    size_of,
    untouched_on_failure,
)
from marginout._core.gaussian import ClassLaws, Law, Rows
from marginout._core.interfaces import Array
from marginout._core.shard import Shard
from marginout._core.validation import warn_user

try:
    import dask.array as da
    from dask import delayed
    from dask.base import is_dask_collection
    from dask.delayed import Delayed
    from dask.sizeof import sizeof
    from distributed import Future, default_client

    from marginout._blocks.cluster import Cluster, on_block
except ImportError as error:
    raise ImportError("marginout.dask needs dask and distributed: pip install 'marginout[dask]'") from error

__all__ = ["DropoutLogisticRegression", "DropoutQuantileRegressor", "DropoutSVC", "DropoutSVR"]

#: Blocks below so many bytes cost more in tasks than in work.
SMALL_BLOCK = 2**20


# Dask takes a CSR array for a few bytes, and would hand it about as if it were.
@sizeof.register(Block)  # type: ignore[untyped-decorator]
def _block_size(block: Block) -> int:
    return size_of(block.design.X) + block.y.nbytes + block.weights.nbytes


@sizeof.register(Shard)  # type: ignore[untyped-decorator]
def _shard_size(shard: Any) -> int:
    return int(size_of(shard.design.X) + shard.Y.nbytes + shard.weights.nbytes)


def _summary(prepared: tuple[Block | None, Summary | None]) -> Summary | None:
    return prepared[1]


def _shard(prepared: tuple[Block, Summary], plan: Plan) -> Shard:
    return block_shard(prepared[0], plan)


def _is_distributed(X: Any) -> bool:
    return is_dask_collection(X) or (
        isinstance(X, (list, tuple)) and len(X) > 0 and all(isinstance(x, (Delayed, Future)) for x in X)
    )


def _parts(name: str, X: Any, like: Any = None) -> list[Any]:
    """The row blocks of a collection as delayed objects; rows cut as those of `like`, where both know."""
    if isinstance(X, (list, tuple)):
        return list(X)
    if isinstance(X, da.Array):
        if X.ndim == 2 and X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        if isinstance(like, da.Array) and X.shape[0] == like.shape[0] and X.chunks[0] != like.chunks[0]:
            X = X.rechunk({0: like.chunks[0]})
        return list(X.to_delayed().ravel())
    if hasattr(X, "to_delayed"):
        return list(X.to_delayed())
    raise TypeError(
        f"{name} is of type {type(X).__name__}, but must be a dask array, a dask data frame or series, or "
        "a list of delayed blocks, as X is."
    )


def _aligned(X: Any, y: Any, sample_weight: Any) -> list[list[Any]]:
    """The blocks of X, y and the weights, if any; as many of each."""
    given = {"X": X, "y": y} if sample_weight is None else {"X": X, "y": y, "sample_weight": sample_weight}
    parts = {name: _parts(name, part, X) for name, part in given.items()}
    for name, part in parts.items():
        if len(part) != len(parts["X"]):
            raise ValueError(f"{name} has {len(part)} blocks but X has {len(parts['X'])}: rechunk it.")
    return list(parts.values())


class DaskModel:
    """What the models on Dask collections share."""

    _law: Law | ClassLaws | None

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        every: int = 1,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : dask array, dask data frame, or list of delayed blocks
            Blocks of an array are dense or CSR. Anything else is fitted here, without Dask.
        y : of the same kind
            Labels or targets. Arrays are rechunked like X; otherwise there must be as many blocks.
        sample_weight : of the same kind, default=None
            Weights of the examples, >= 0.
        checkpoint : path, default=None
            Write where the fit stands to this file of the driver, in one piece or not at all, and
            begin there if it exists. It is removed when the fit has ended.
        every : int, default=1
            Iterations between two checkpoints.

        Returns
        -------
        self : object
            The fitted model.
        """
        if not _is_distributed(X):
            if checkpoint is not None:
                raise ValueError(
                    f"checkpoint={os.fspath(checkpoint)!r} needs X in blocks, but it is of type "
                    f"{type(X).__name__}: leave it None, or use marginout.blocks.fit."
                )
            return super().fit(X, y, sample_weight)  # type: ignore[misc, no-any-return]
        check_fit(self, checkpoint, every)
        with untouched_on_failure(self):
            parts = _aligned(X, y, sample_weight)
            cluster = Cluster(_client(), len(parts[0]))
            conditional = self.missing == "conditional"  # type: ignore[attr-defined]
            prepared = (self._conditional if conditional else self._prepared)(cluster, parts)
            summaries = cluster.results(cluster.submit(_summary, prepared))
            total = merge(summaries)
            prepared = cluster.keep(prepared, [summary is not None for summary in summaries])
            _advise(total, len(prepared), sum(cluster.client.nthreads().values()))
            set_features(self, total)
            plan = make_plan(self, total)
            work = [summary.nnz for summary in summaries if summary is not None]
            shards = cluster.settle(_shard, prepared, work, plan)
            del prepared
            minimize_blocks(self, cluster, shards, total, plan, checkpoint, every)
        return self

    def _prepared(self, cluster: Cluster, parts: list[list[Any]], task: Any = None) -> list[Any]:
        """Every block checked, on the workers: futures of (Block, Summary), or of what another task makes."""
        token, task = uuid4().hex, task or _prepare
        model, check = delayed(clone(self)), delayed(task, pure=False)
        name = task.__name__.strip("_")
        tasks = [
            check(model, i, *given, dask_key_name=f"marginout-{name}-{token}-{i}")
            for i, given in enumerate(zip(*parts, strict=True))
        ]
        return cluster.compute(tasks)

    def _conditional(self, cluster: Cluster, parts: list[list[Any]]) -> list[Any]:
        """The same for missing="conditional": the laws of what is missing are learnt of all blocks first.

        Sets: _law.
        """
        waiting = self._prepared(cluster, parts, _check)
        glances = cluster.results(cluster.submit(_glance, waiting))
        starts = starts_of(glances)
        waiting = cluster.keep(waiting, [glance is not None for glance in glances])
        model = [clone(self)] * len(waiting)
        self._law = learn_laws(cluster, cluster.submit(_rows, model, waiting, starts), glances)
        laws, numbers = [self._law] * len(waiting), list(cluster.numbers)
        return cluster.submit(_describe, model, laws, numbers, waiting)

    def predict(self, X: Any) -> Any:
        """Predicted classes or targets, lazily for Dask collections.

        Parameters
        ----------
        X : dask array, dask data frame, or list of delayed blocks
            Anything else is answered at once, without Dask.

        Returns
        -------
        y : dask array of shape (n_samples,)
            Predictions.
        """
        return self._lazily("predict", X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """The score of the model in memory, lazily for Dask collections.

        That is mean accuracy, R², or minus the mean pinball loss of all quantiles.

        Parameters
        ----------
        X : dask array, dask data frame, or list of delayed blocks
            Anything else is scored at once, without Dask.
        y : of the same kind
            True labels or targets.
        sample_weight : of the same kind, default=None
            Weights of the examples, >= 0.

        Returns
        -------
        score : float, delayed
            The score.
        """
        if not _is_distributed(X):
            return super().score(X, y, sample_weight)  # type: ignore[misc]
        self._check_features(X)
        return self._lazy_score(X, y, sample_weight)

    @abstractmethod
    def _lazy_score(self, *data: Any) -> Any:
        """The score of blocks of X, y and weights, delayed."""

    def _lazily(self, name: str, X: Any, several: bool = False) -> Any:
        local = getattr(super(), name)
        if not _is_distributed(X):
            return local(X)
        self._check_features(X)
        parts = _parts("X", X)
        classes = getattr(self, "classes_", None)
        dtype = np.dtype(np.float64) if several or classes is None else classes.dtype
        width = None
        if classes is None:
            width = len(self.coef_) if np.ndim(self.coef_) == 2 else None  # type: ignore[attr-defined]
        elif several and (len(classes) > 2 or "proba" in name):
            width = len(classes)
        shape = () if width is None else (width,)
        sizes = X.chunks[0] if isinstance(X, da.Array) else (np.nan,) * len(parts)
        model, call, nothing = delayed(_now(self)), delayed(_call), np.empty((0, *shape), dtype)
        blocks = [
            da.from_delayed(call(model, name, part, nothing), (size, *shape), dtype)
            for part, size in zip(parts, sizes, strict=True)
        ]
        return da.concatenate(blocks, allow_unknown_chunksizes=True)

    def _check_features(self, X: Any) -> None:
        """Refuse, now, what a fitted model would refuse of every block, as far as a collection tells."""
        check_is_fitted(self)
        row: Any = None
        if isinstance(X, da.Array) and not np.isnan(X.shape[1:]).any():
            row = np.zeros((1, *X.shape[1:]))
        elif hasattr(X, "columns"):
            row = type(X._meta)(np.zeros((1, len(X.columns))), columns=X.columns)
        if row is not None:
            self._validated(row, reset=False)  # type: ignore[attr-defined]


def _now(model: Any) -> Any:
    """The model as it is: a later fit must not change what was asked of this one."""
    other: Any = object.__new__(type(model))
    # Without the state of `partial_fit`, several times as large as the weights, which it writes to in place.
    other.__dict__.update({name: value for name, value in vars(model).items() if name != "_stream"})
    if "_stream" in vars(model):
        other.coef_ = model.coef_.copy()
    return other


def _call(model: Any, name: str, X: Any, nothing: NDArray[Any]) -> Any:
    """What a model says of a block; `nothing` of an empty one."""
    return getattr(model, name)(X) if X.shape[0] else nothing


def _prepare(model: Any, number: int, *given: Any) -> tuple[Block | None, Summary | None]:
    return on_block(prepare_block, number, model, number, *given)  # type: ignore[no-any-return]


def _check(model: Any, number: int, *given: Any) -> Waiting | None:
    return on_block(check_block, number, model, number, *given)  # type: ignore[no-any-return]


def _glance(waiting: Waiting | None) -> Glance | None:
    return None if waiting is None else waiting.glance


def _rows(model: Any, waiting: Waiting, start: int) -> Rows:
    return block_rows(model, waiting.checked, start)


def _describe(model: Any, law: Any, number: int, waiting: Waiting) -> tuple[Block, Summary]:
    return describe_block(model, law, number, waiting)


def _client() -> Any:
    try:
        return default_client()
    except ValueError as error:
        raise RuntimeError(
            "There is no Dask client: make one, for instance client = dask.distributed.Client()."
        ) from error


def _advise(total: Summary, count: int, threads: int) -> None:
    """Say so if the blocks are too small, or too few."""
    size = total.nbytes / count
    if size < SMALL_BLOCK and count > 4 * threads:
        warn_user(
            f"X has {count} blocks of {size / 2**20:.2g} MB for {threads} threads: handing out so many tasks "
            "takes longer than doing them. Rechunk to blocks of 64 MB or more.",
            UserWarning,
        )
    elif count < threads and size > 64 * SMALL_BLOCK:
        warn_user(
            f"X has {count} blocks for {threads} threads, which leaves some idle. Rechunk to at least one "
            "block for each.",
            UserWarning,
        )


class DaskClassifier(DaskModel):
    """What the classifiers share."""

    def decision_function(self, X: Any) -> Any:
        """Scores w·x + b, lazily for Dask collections.

        Parameters
        ----------
        X : dask array, dask data frame, or list of delayed blocks
            Anything else is answered at once, without Dask.

        Returns
        -------
        scores : dask array of shape (n_samples,) or (n_samples, n_classes)
            One per example for two classes, one per class for more.
        """
        return self._lazily("decision_function", X, several=True)

    def _lazy_score(self, *data: Any) -> Any:
        sums = _summed(_hits, [_now(self)], *data)
        return sums[0] / sums[1]


class DropoutSVC(DaskClassifier, LocalSVC):
    """:class:`marginout.DropoutSVC` on Dask collections: same parameters, same attributes, same optimum."""


class DropoutLogisticRegression(DaskClassifier, LocalLogisticRegression):
    """:class:`marginout.DropoutLogisticRegression` on Dask collections; see :class:`DropoutSVC`."""

    def predict_proba(self, X: Any) -> Any:
        """Class probabilities, lazily for Dask collections.

        Parameters
        ----------
        X : dask array, dask data frame, or list of delayed blocks
            Anything else is answered at once, without Dask.

        Returns
        -------
        probabilities : dask array of shape (n_samples, n_classes)
            One column per class, in the order of `classes_`.
        """
        return self._lazily("predict_proba", X, several=True)

    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of the class probabilities, lazily for Dask collections.

        Parameters
        ----------
        X : dask array, dask data frame, or list of delayed blocks
            Anything else is answered at once, without Dask.

        Returns
        -------
        log_probabilities : dask array of shape (n_samples, n_classes)
            One column per class, in the order of `classes_`.
        """
        return self._lazily("predict_log_proba", X, several=True)


class DropoutSVR(DaskModel, LocalSVR):
    """:class:`marginout.DropoutSVR` on Dask collections; see :class:`DropoutSVC`."""

    def _lazy_score(self, *data: Any) -> Any:
        totals = _summed(_totals, [], *data)
        mean = totals[1] / totals[0]
        return delayed(_r2)(_summed(_squares, [_now(self), mean], *data))


class DropoutQuantileRegressor(DaskModel, LocalQuantileRegressor):
    """:class:`marginout.DropoutQuantileRegressor` on Dask collections; see :class:`DropoutSVC`."""

    def _lazy_score(self, *data: Any) -> Any:
        sums = _summed(_pinball, [_now(self)], *data)
        return sums[0] / sums[1]


def _summed(count: Any, shared: list[Any], X: Any, y: Any, sample_weight: Any) -> Any:
    """Σ count(*shared, X, y, sample_weight) over the blocks, lazily."""
    carried, parts = [delayed(arg) for arg in shared], zip(*_aligned(X, y, sample_weight), strict=True)
    return delayed(add_up)([delayed(count)(*carried, *part) for part in parts])


def _hits(model: Any, X: Any, y: Any, sample_weight: Any = None) -> Array:
    """Σ s·[predicted right], Σ s."""
    y, weights = _paired(X, y, sample_weight)
    right = _call(model, "predict", X, np.empty(0)) == y
    return np.array([weights @ right, weights.sum()])


def _totals(X: Any, y: Any, sample_weight: Any = None) -> Array:
    """Σ s, Σ s·y."""
    y, weights = _paired(X, y, sample_weight)
    return np.array([weights.sum(), weights @ y])


def _squares(model: Any, mean: float, X: Any, y: Any, sample_weight: Any = None) -> Array:
    """Σ s·(y − mean)², Σ s·(y − predicted)²: y = 1e9 ± 1 leaves nothing of Σ s·y² − (Σ s·y)²/Σ s."""
    y, weights = _paired(X, y, sample_weight)
    residual = y - _call(model, "predict", X, np.empty(0))
    return np.array([weights @ (y - mean) ** 2, weights @ residual**2])


def _pinball(model: Any, X: Any, y: Any, sample_weight: Any = None) -> Array:
    """Σ s·(minus the pinball loss), Σ s."""
    y, weights = _paired(X, y, sample_weight)
    total = weights.sum()
    return np.array([total * LocalQuantileRegressor.score(model, X, y, weights) if total else 0.0, total])


def _paired(X: Any, y: Any, sample_weight: Any) -> tuple[NDArray[Any], Array]:
    """What a block of X is compared with: y, which may be a column, and the weights, one per example."""
    y = np.asarray(column_or_1d(y))
    check_consistent_length(X, y)
    return y, block_weights(sample_weight, X)


def _r2(squares: Array) -> float:
    """1 − residual / spread; of constant targets 1 if they are met and 0 if not, as in scikit-learn."""
    spread, residual = squares
    if spread == 0:
        return float(residual == 0)
    return float(1.0 - residual / spread)
