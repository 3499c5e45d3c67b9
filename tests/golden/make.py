"""Golden results: what about 250 small fits find, on any version of the library.

    python tests/golden/make.py                          # run all cases, print a summary
    python tests/golden/make.py --out NEW.json           # and write the results
    python tests/golden/make.py --compare OLD.json       # and compare with those of another version
    python tests/golden/make.py --only latent            # cases whose name contains a text

It uses public names only, so that one copy of this file runs on two versions of the code: write the results
of the one, then `--compare` with the other, on the same machine. `test_golden.py` compares with
`objectives.json`, which another machine wrote.

A result holds `objective` (F, one number or several), `norm` (‖coef_‖), `scores` (the first three
predictions) and `n_iter`. The name of a case begins with its group:

    convex/   fits at a tolerance of 1e-11: the optimum, whatever the way to it
    stopped/  fits at the default tolerance, streams and copies: the way counts, up to rounding errors
    local/    models with a hidden layer, cut short on the way to one of several optima
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # before NumPy is imported
    for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[_name] = "1"
    sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

import marginout
from marginout import (
    DropoutSVRCV,
    ExplicitCorruptionClassifier,
    ExplicitCorruptionRegressor,
    FeatureDeletionSVC,
    MCFClassifier,
    MCFRegressor,
    blocks,
)
from marginout.noise import (
    BitSwap,
    Deletion,
    Dropout,
    Gaussian,
    GroupDeletion,
    GroupDropout,
    Laplace,
    Poisson,
    from_missing,
)
from tests.paper import (
    DropoutLogisticRegression,
    DropoutLogisticRegressionCV,
    DropoutSVC,
    DropoutSVCCV,
    DropoutSVR,
    LatentDropoutLogisticRegression,
    LatentDropoutSVC,
    LatentDropoutSVR,
)

Case = Callable[[], dict[str, Any]]

#: Of two runs on one machine: above this, `--compare` lists a case.
SAME = 1e-12
TIGHT = {"tol": 1e-11, "max_iter": 20_000}
#: Plain SVMs and SVRs by dual coordinate descent, whose progress is linear.
DUAL = {"tol": 1e-9, "max_iter": 20_000}
SVC, LR, SVR = DropoutSVC, DropoutLogisticRegression, DropoutSVR
LINEAR = {"svc": SVC, "lr": LR, "svr": SVR}
SEARCHES = {"svc": DropoutSVCCV, "lr": DropoutLogisticRegressionCV, "svr": DropoutSVRCV}
LATENT = {"svc": LatentDropoutSVC, "lr": LatentDropoutLogisticRegression, "svr": LatentDropoutSVR}
D = 6
GROUPS = np.array([0, 0, 1, 1, 1, 2])
RATES = np.linspace(0.05, 0.6, D)
NOISES = {
    "dropout": Dropout(0.3),
    "rates": Dropout(RATES),
    "deletion": Deletion(0.3),
    "gaussian": Gaussian(0.2),
    "laplace": Laplace(RATES),
    "poisson": Poisson(),
    "bitswap": BitSwap(0.1),
    "group dropout": GroupDropout(GROUPS, [0.2, 0.4, 0.0]),
    "group deletion": GroupDeletion(GROUPS, 0.3),
}


# --------------------------------------------------------------------------- data


def problem(model: Any, n: int = 60, d: int = D, n_classes: int = 3, bits: bool = False) -> tuple[Any, Any]:
    """X ≥ 0 and targets that suit a model, always the same."""
    rng = np.random.default_rng(n + d)
    X = rng.integers(0, 2, (n, d)).astype(float) if bits else rng.gamma(1.0, size=(n, d))
    scores = (X - X.mean()) @ rng.normal(size=(d, n_classes)) + 0.5 * rng.normal(size=(n, n_classes))
    if not is_classifier(model):
        return X, 3.0 + scores[:, 0]
    if n_classes == 2:
        return X, np.where(scores[:, 0] > 0.5, "yes", "no")
    return X, scores.argmax(axis=1)


def counts(model: Any, n: int = 150, d: int = 40, n_classes: int = 3) -> tuple[Any, Any]:
    """Sparse counts of Zipf-like words."""
    rng = np.random.default_rng(n + d)
    X = rng.poisson(4.0 / np.arange(2, d + 2), (n, d)).astype(float)
    scores = (X - X.mean(axis=0)) @ rng.normal(size=(d, n_classes)) + rng.normal(size=(n, n_classes))
    y = scores.argmax(axis=1) if is_classifier(model) else scores[:, 0]
    if is_classifier(model) and n_classes == 2:
        y = (scores[:, 0] > 0.5).astype(int)
    return sp.csr_array(X), y


def holes(X: Any) -> Any:
    """X with every seventh entry missing."""
    X = np.array(X)
    X.flat[::7] = np.nan
    return X


def weights(y: Any) -> Any:
    """Weights of the examples, some of them 0."""
    given = np.random.default_rng(5).gamma(2.0, 0.5, len(y))
    given[::10] = 0.0
    return given


# --------------------------------------------------------------------------- fits


def result(model: Any, X: Any, objective: Any = None) -> dict[str, Any]:
    """What is kept of a fitted model."""
    call = getattr(model, "decision_function", model.predict)
    objective = getattr(model, "objective_", None) if objective is None else objective
    coef = getattr(model, "coef_", None)
    n_iter = getattr(model, "n_iter_", None)
    return {
        "objective": [] if objective is None else np.ravel(objective).tolist(),
        "norm": None if coef is None else float(np.linalg.norm(coef)),
        "scores": np.ravel(call(X[:3])).astype(float)[:3].tolist(),
        "n_iter": None if n_iter is None else int(np.max(n_iter)),
    }


def fitted(model: Any, make: Any = problem, change: Any = None, weighted: bool = False, **data: Any) -> Any:
    """The result of one `fit`; `change` acts on X."""
    model = clone(model)
    X, y = make(model, **data)
    X = X if change is None else change(X)
    model.fit(X, y, sample_weight=weights(y)) if weighted else model.fit(X, y)
    return result(model, X)


def restarted(model: Any) -> dict[str, Any]:
    """The result of a fit that starts from that of half the data."""
    model = clone(model).set_params(warm_start=True)
    X, y = problem(model)
    return result(model.fit(X[:30], y[:30]).fit(X, y), X)


def streamed(model: Any, make: Any = problem, chunk: int = 25, **data: Any) -> dict[str, Any]:
    """The result of `partial_fit`, two passes over chunks; it has no objective."""
    model = clone(model)
    X, y = make(model, **data)
    first = {"classes": np.unique(y)} if is_classifier(model) else {}
    for _ in range(2):
        for i in range(0, len(y), chunk):
            model.partial_fit(X[i : i + chunk], y[i : i + chunk], **first)
    return result(model, X)


def in_blocks(model: Any, make: Any = problem, weighted: bool = False, **options: Any) -> dict[str, Any]:
    """The result of `blocks.fit`, on three blocks."""
    model = clone(model)
    X, y = make(model)
    cuts = [slice(0, 10), slice(10, 45), slice(45, None)]
    arrays = (X, y, weights(y)) if weighted else (X, y)
    return result(blocks.fit(model, [tuple(a[cut] for a in arrays) for cut in cuts], **options), X)


def on_dask() -> dict[str, Any]:
    """The results of fits on a cluster of one thread in this process, each on two blocks: all objectives."""
    import dask.array as da
    from distributed import Client

    import marginout.dask as clustered

    options = {"processes": False, "n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    models = [
        clustered.DropoutSVC(0.5, noise=0.3, loss="hinge", expectation="bound", **TIGHT),
        clustered.DropoutLogisticRegression(
            0.5, noise=0.3, expectation="gaussian", multi_class="ovr", **TIGHT
        ),
        clustered.DropoutLogisticRegression(noise=0.0, multi_class="ovr", **TIGHT),
        clustered.DropoutSVR(noise=NOISES["group dropout"], **TIGHT),
    ]
    with Client(**options):
        for model in models:
            X, y = problem(model)
            model.fit(*(da.from_array(a, chunks=(35, *a.shape[1:])) for a in (X, y, weights(y))))
    return result(model, X, [model.objective_ for model in models])


def along(model: Any, make: Any = problem, noises: Any = (0.0, 0.3, 0.6), **data: Any) -> dict[str, Any]:
    """The result of `path`: all objectives; scores are those of the last cell."""
    X, y = make(model, **data)
    found = marginout.path(clone(model), X, y, Cs=[0.03, 0.3, 3.0], noises=list(noises))
    scores = X[:3] @ found.coefs[-1, -1].T + found.intercepts[-1, -1]
    return {
        "objective": found.objectives.ravel().tolist(),
        "norm": float(np.linalg.norm(found.coefs)),
        "scores": np.ravel(scores)[:3].tolist(),
        "n_iter": None,
    }


def searched(model: Any, make: Any = problem, grouped: bool = False, **data: Any) -> dict[str, Any]:
    """The result of a search: F of the refit; scores are the chosen cell and its score."""
    model = clone(model)
    X, y = make(model, **data)
    model.fit(X, y, groups=np.arange(len(y)) % 5) if grouped else model.fit(X, y)
    found = result(model, X) if model.refit else {"objective": [], "norm": None, "n_iter": None}
    return {**found, "scores": [model.C_, float(model.best_index_), model.best_score_]}


def copied(model: Any) -> dict[str, Any]:
    """The result of a fit to corrupted copies, with F of the inner model where it has one."""
    model = clone(model)
    X, y = problem(model)
    model.fit(X, y)
    return {
        **result(model.estimator_, X),
        "scores": np.ravel(getattr(model, "decision_function", model.predict)(X[:3]))[:3].tolist(),
    }


# --------------------------------------------------------------------------- cases


def bits_of(noise: str) -> dict[str, Any]:
    """Flips are of bits."""
    return {"bits": noise == "bitswap"}


def linear_cases() -> Iterator[tuple[str, Case]]:
    """Estimators × noises × expectations, × solvers, × storage, × weights, × offsets, × missing entries."""
    for name, kind in LINEAR.items():
        for expectation in ("bound", "gaussian"):
            form = {"expectation": expectation, **TIGHT}
            # The preconditioner of a normal law is near the Hessian: a fit ends close to its tolerance.
            finer = {**form, "tol": 1e-12} if expectation == "gaussian" else form
            for noise, model in NOISES.items():
                yield (
                    f"convex/{name}, {noise}, {expectation}",
                    partial(fitted, kind(noise=model, **finer), **bits_of(noise)),
                )
            for solver in ("irls", "lbfgs", "ncg"):
                model = kind(0.5, noise=0.3, solver=solver, **form)
                yield f"convex/{name}, {solver}, {expectation}", partial(fitted, model, n_classes=2)
                model = kind(0.5, noise=NOISES["group dropout"], solver=solver, **form)
                yield f"convex/{name}, {solver}, groups, {expectation}", partial(fitted, model)
        base = kind(0.7, noise=0.3, **TIGHT)
        storage: dict[str, Any] = {
            "csr": sp.csr_array,
            "csr matrix": sp.csr_matrix,
            "float32": np.float32,
            "fortran": np.asfortranarray,
            "csr float32": lambda X: sp.csr_array(X.astype(np.float32)),
        }
        for form, change in storage.items():
            yield f"convex/{name}, {form}", partial(fitted, base, change=change)
        without = clone(base).set_params(fit_intercept=False)
        yield f"convex/{name}, no offset", partial(fitted, without)
        yield f"convex/{name}, no offset, csr", partial(fitted, without, counts)
        yield f"convex/{name}, sample weights", partial(fitted, base, weighted=True)
        yield f"convex/{name}, warm start", partial(restarted, base)
        yield f"convex/{name}, counts", partial(fitted, base, counts)
        yield f"convex/{name}, counts, ten classes", partial(fitted, base, counts, n_classes=10)
        yield (
            f"convex/{name}, counts, poisson",
            partial(fitted, clone(base).set_params(noise=Poisson()), counts),
        )
        yield (
            f"convex/{name}, counts, gaussian",
            partial(fitted, clone(base).set_params(noise=Gaussian(0.3)), counts),
        )
        yield f"convex/{name}, more features than examples", partial(fitted, base, n=20, d=30)
        yield (
            f"convex/{name}, far from zero",
            partial(fitted, clone(base).set_params(noise=0.0), change=lambda X: X + 1e3),
        )
        yield f"stopped/{name}, default tolerance", partial(fitted, kind(), n_classes=2)
        yield (
            f"stopped/{name}, default tolerance, counts",
            partial(fitted, kind(noise=0.2), counts, n_classes=10),
        )
        for noise in ("dropout", "deletion", "gaussian", "group dropout"):
            model = kind(noise=NOISES[noise], missing="deleted", **TIGHT)
            yield f"convex/{name}, missing, {noise}", partial(fitted, model, change=holes)
        model = kind(noise=from_missing(holes(problem(kind())[0])), **TIGHT)
        yield f"convex/{name}, noise from missing", partial(fitted, model)
        # Without noise: Newton's method where it is cheap, dual coordinate descent where a kink is left.
        for solver in ("auto", "lbfgs", "irls"):
            model = kind(noise=0.0, solver=solver, **TIGHT)
            yield f"convex/{name}, rate 0, {solver}", partial(fitted, model)
        plain = kind(0.01, noise=0.0, **(TIGHT if kind is LR else DUAL))
        yield f"convex/{name}, rate 0, large", partial(fitted, plain, counts, n=1000, d=200, n_classes=2)
        without = clone(plain).set_params(fit_intercept=False)
        yield (
            f"convex/{name}, rate 0, large, no offset",
            partial(fitted, without, counts, n=1000, d=200, n_classes=2),
        )
    for name, kind in (("svc", SVC), ("lr", LR)):
        for label, class_weight in (("balanced", "balanced"), ("dict", {0: 2.0, 1: 0.5, 2: 1.0})):
            for noise in (0.0, 0.3):
                model = kind(noise=noise, class_weight=class_weight, **TIGHT)
                yield f"convex/{name}, {label}, rate {noise}", partial(fitted, model, weighted=True)
    yield "convex/svc, margin", partial(fitted, SVC(noise=0.3, margin=0.3, **TIGHT))
    yield "convex/svr, epsilon", partial(fitted, SVR(noise=0.3, epsilon=0.0, **TIGHT))


def mcf_cases() -> Iterator[tuple[str, Case]]:
    """Losses × noises, two classes and three."""
    for loss in ("logistic", "quadratic", "exponential"):
        for noise, kind in NOISES.items():
            model = MCFClassifier(loss, 0.2, noise=kind, **TIGHT)
            data = {"n_classes": 2, **bits_of(noise)}
            yield f"convex/mcf {loss}, {noise}", partial(fitted, model, **data)
        base = MCFClassifier(loss, 0.2, noise=0.3, **TIGHT)
        yield f"convex/mcf {loss}, three classes", partial(fitted, base, weighted=True)
        yield f"convex/mcf {loss}, counts", partial(fitted, base, counts)
        yield (
            f"convex/mcf {loss}, missing",
            partial(fitted, clone(base).set_params(missing="deleted"), change=holes),
        )
        balanced = clone(base).set_params(class_weight="balanced", fit_intercept=False)
        yield f"convex/mcf {loss}, balanced, no offset", partial(fitted, balanced)
    for noise, kind in NOISES.items():
        model = MCFRegressor(noise=kind, **TIGHT)
        yield f"convex/mcf regressor, {noise}", partial(fitted, model, weighted=True, **bits_of(noise))
    yield "convex/mcf regressor, counts", partial(fitted, MCFRegressor(noise=0.3, **TIGHT), counts)


def deletion_cases() -> Iterator[tuple[str, Case]]:
    """FeatureDeletionSVC: the worst deletion instead of a random one."""

    def redundant(X: Any) -> Any:
        return np.hstack([X - 1.0] * 5)  # or w = 0 is the optimum

    for count in (1, 3):
        model = FeatureDeletionSVC(n_deletions=count, tol=1e-9, max_iter=200_000)
        yield f"convex/fdrop {count}", partial(fitted, model, change=redundant, n_classes=2)
        yield f"convex/fdrop {count}, three classes", partial(fitted, model, change=redundant, weighted=True)
        sparse = partial(fitted, model, change=lambda X: sp.csr_array(redundant(X)))
        yield f"convex/fdrop {count}, csr", sparse
    model = FeatureDeletionSVC(n_deletions=2, fit_intercept=False, class_weight="balanced", tol=1e-9)
    yield "convex/fdrop 2, balanced, no offset", partial(fitted, model, change=redundant)


def latent_cases() -> Iterator[tuple[str, Case]]:
    """Models with a hidden layer: activations × propagations, solvers, noises."""
    # Few iterations: on the way to a local optimum, rounding errors grow with every one.
    shape = {"n_hidden": 3, "random_state": 0, "max_iter": 12, "hidden_penalty": 0.3}
    for name, kind in LATENT.items():
        for activation in ("sigmoid", "tanh", "relu", "identity"):
            model = kind(noise=0.2, activation=activation, **shape)
            yield f"local/latent {name}, {activation}", partial(fitted, model)
        for option in ({"propagation": "gaussian"}, {"expectation": "gaussian"}, {"solver": "alternating"}):
            label = " ".join(next(iter(option.items())))
            yield f"local/latent {name}, {label}", partial(fitted, kind(noise=0.2, **shape, **option))
        for noise in ("deletion", "gaussian", "poisson", "bitswap", "group dropout"):
            model = kind(noise=NOISES[noise], **shape)
            yield f"local/latent {name}, {noise}", partial(fitted, model, n_classes=2, **bits_of(noise))
        model = kind(noise=0.2, missing="deleted", **shape)
        yield f"local/latent {name}, missing", partial(fitted, model, change=holes)
        yield f"local/latent {name}, counts", partial(fitted, kind(noise=0.2, **shape), counts, weighted=True)
        yield (
            f"local/latent {name}, two starts",
            partial(fitted, kind(noise=0.2, n_init=2, **shape), n_classes=2),
        )
        plain = kind(noise=0.0, fit_intercept=False, **shape)
        yield f"local/latent {name}, rate 0", partial(fitted, plain, n_classes=2)
    for name in ("svc", "lr"):
        model = LATENT[name](noise=0.2, shared=False, class_weight="balanced", **shape)
        yield f"local/latent {name}, units of its own", partial(fitted, model)


def stream_cases() -> Iterator[tuple[str, Case]]:
    """`partial_fit`."""
    for name, kind in LINEAR.items():
        for noise in ("dropout", "rates", "deletion", "gaussian", "poisson", "group dropout"):
            yield f"stopped/stream {name}, {noise}", partial(streamed, kind(noise=NOISES[noise]))
        yield f"stopped/stream {name}, rate 0", partial(streamed, kind(noise=0.0), n_classes=2)
        yield f"stopped/stream {name}, counts", partial(streamed, kind(noise=0.3), counts)
        model = kind(noise=0.3, expectation="gaussian")
        yield f"stopped/stream {name}, gaussian expectation", partial(streamed, model, n_classes=2)


def block_cases() -> Iterator[tuple[str, Case]]:
    """`blocks.fit` and Dask."""
    for name, kind in LINEAR.items():
        for rate in (0.0, 0.3):
            # Without noise, blocks of a kinked loss get as far as the last rounding of the kink.
            model = kind(0.5, noise=rate, **(TIGHT if rate or kind is LR else {"tol": 1e-6}))
            yield f"convex/blocks {name}, memory, rate {rate}", partial(in_blocks, model, storage="memory")
            yield f"convex/blocks {name}, disk, rate {rate}", partial(in_blocks, model, counts, weighted=True)
        model = kind(noise=NOISES["group dropout"], solver="lbfgs", **TIGHT)
        yield (
            f"convex/blocks {name}, groups, lbfgs",
            partial(in_blocks, model, storage="memory", weighted=True),
        )
        model = kind(noise=NOISES["gaussian"], expectation="gaussian", **TIGHT)
        yield f"convex/blocks {name}, gaussian", partial(in_blocks, model, storage="memory")
    yield "convex/dask", on_dask


def search_cases() -> Iterator[tuple[str, Case]]:
    """`path`, and searches over C and noise."""
    for name, kind in LINEAR.items():
        model = kind(**TIGHT)
        yield f"convex/path {name}", partial(along, model)
        yield f"convex/path {name}, counts", partial(along, model, counts, noises=(0.2, 0.5))
        groups = [NOISES["group dropout"], GroupDropout(GROUPS, 0.5)]
        yield (
            f"convex/path {name}, groups",
            partial(along, clone(model).set_params(expectation="gaussian"), noises=groups),
        )
        search = SEARCHES[name](Cs=[0.05, 0.5, 5.0], noises=[0.1, 0.3, 0.5], cv=3, **TIGHT)
        yield f"convex/search {name}", partial(searched, search)
        yield f"convex/search {name}, counts", partial(searched, search, counts, n_classes=2)
        mixed = clone(search).set_params(noises=[0.2, Gaussian(0.1), Poisson()])
        yield f"convex/search {name}, noises", partial(searched, mixed)
        grouped = clone(search).set_params(cv=GroupKFold(5), select="one_se", Cs=4)
        yield f"convex/search {name}, one standard error", partial(searched, grouped, grouped=True)
        plain = clone(search).set_params(noises=[0.0, 0.4], refit=False, tol=1e-3)
        yield f"stopped/search {name}, default tolerance", partial(searched, plain)


def copy_cases() -> Iterator[tuple[str, Case]]:
    """Explicit corruption."""
    for inner in (
        SVC(noise=0.0, tol=1e-8),
        LR(noise=0.1, **TIGHT),
        LogisticRegression(tol=1e-10, max_iter=1000),
    ):
        for flag in (False, True):
            model = ExplicitCorruptionClassifier(inner, noise=0.3, n_copies=3, blocks=flag, random_state=0)
            yield f"stopped/copies {type(inner).__name__}, {flag}", partial(copied, model)
    model = ExplicitCorruptionRegressor(
        SVR(noise=0.0, tol=1e-8), noise=Gaussian(0.1), n_copies=3, random_state=0
    )
    yield "stopped/copies DropoutSVR", partial(copied, model)


def cases() -> dict[str, Case]:
    """Every case by its name."""
    parts = (
        linear_cases,
        mcf_cases,
        deletion_cases,
        latent_cases,
        stream_cases,
        block_cases,
        search_cases,
        copy_cases,
    )
    named = [case for part in parts for case in part()]
    assert len({name for name, _ in named}) == len(named)
    return dict(named)


@contextmanager
def quiet() -> Iterator[None]:
    """No word about convergence, collapsed models or edges of grids: here only the numbers count."""
    with warnings.catch_warnings():
        for kind in (ConvergenceWarning, marginout.CollapsedModelWarning, marginout.GridEdgeWarning):
            warnings.simplefilter("ignore", kind)
        yield


def run(only: str = "") -> dict[str, dict[str, Any]]:
    """The results of all cases whose name contains a text."""
    with quiet():
        return {name: case() for name, case in cases().items() if only in name}


# --------------------------------------------------------------------------- comparison


def difference(one: Any, other: Any) -> float:
    """max |a − b| / max |b|, of two numbers or lists of them; inf where their number differs."""
    if one is None or other is None:
        return 0.0 if one is other else np.inf
    a, b = np.ravel(one), np.ravel(other)
    if a.shape != b.shape:
        return np.inf
    if not a.size or np.array_equal(a, b):
        return 0.0
    return float(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), np.finfo(float).tiny))


def compare(new: dict[str, Any], old: dict[str, Any]) -> int:
    """Print the largest differences; list, and count, the objectives that differ by more than 1e-12."""
    for label, names in (("missing here", set(old) - set(new)), ("new here", set(new) - set(old))):
        if names:
            print(f"{len(names)} cases are {label}: {', '.join(sorted(names))}")
    both = [name for name in new if name in old]
    for field in ("objective", "norm", "scores"):
        for group in ("convex", "stopped", "local"):
            far = {
                name: difference(new[name][field], old[name][field])
                for name in both
                if name.startswith(group)
            }
            if far:
                worst = max(far, key=far.__getitem__)
                print(f"{field:>9}, {group:<7}: largest relative difference {far[worst]:.1e} ({worst})")
    changed = {name: difference(new[name]["objective"], old[name]["objective"]) for name in both}
    changed = {name: value for name, value in changed.items() if value > SAME}
    moved = sum(new[name]["n_iter"] != old[name]["n_iter"] for name in both)
    print(
        f"{len(both)} cases compared; n_iter_ differs in {moved}, F by more than {SAME:g} in {len(changed)}"
    )
    for name, value in sorted(changed.items(), key=lambda item: -item[1]):
        steps = f"n_iter {old[name]['n_iter']} -> {new[name]['n_iter']}"
        print(f"  {value:.1e}  {name}: {old[name]['objective']} -> {new[name]['objective']} ({steps})")
    return len(changed)


def main() -> int:
    parser = argparse.ArgumentParser(description="Golden results of the library that is installed.")
    parser.add_argument("--out", type=Path, help="write the results to this file")
    parser.add_argument("--compare", type=Path, help="compare with the results in this file")
    parser.add_argument("--only", default="", help="only cases whose name contains this text")
    given = parser.parse_args()
    begin = time.process_time()
    found = run(given.only)
    print(f"{len(found)} cases in {time.process_time() - begin:.0f} s of CPU")
    if given.out:
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found))
        given.out.write_text(f"{{\n{lines}\n}}\n")
    if not given.compare:
        return 0
    old = json.loads(given.compare.read_text())
    return int(compare(found, {name: value for name, value in old.items() if given.only in name}) > 0)


if __name__ == "__main__":
    sys.exit(main())
