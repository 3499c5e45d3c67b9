"""Fits on a local cluster against fits in memory, while workers die or not."""

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_digits

import marginout
from marginout._blocks import checkpoint as _checkpoint
from marginout._blocks.fit import block_shard, prepare_block
from marginout._core.fit import make_plan, merge

dask = pytest.importorskip("dask", reason="dask is not installed")
distributed = pytest.importorskip("distributed", reason="distributed is not installed")

import dask.array as da  # noqa: E402
from dask import delayed  # noqa: E402
from dask.sizeof import sizeof  # noqa: E402
from distributed.cli import dask_worker  # noqa: E402

from marginout._blocks import cluster as _cluster  # noqa: E402
from marginout.dask import DropoutLogisticRegression, DropoutSVC, DropoutSVR  # noqa: E402
from marginout.noise import Deletion, GroupDropout  # noqa: E402

# Workers are forked from a process that has all modules loaded: starting one again is cheap.
dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["distributed.cli.dask_worker", "marginout.dask", "pytest", "sklearn.datasets"])

LIMIT = 240  # seconds of a test: a fit that waits for ever fails
KILLS = 7  # of each case
TIGHT = {"tol": 1e-13, "max_iter": 3000}  # of an error ε in F, √ε may be left in the weights
X, DIGITS = (part[:400] for part in load_digits(return_X_y=True))
# In the order of their classes: a block has few of them.
X, DIGITS = X[np.argsort(DIGITS, kind="stable")] / 16, np.sort(DIGITS)
WEIGHTS = np.random.default_rng(0).gamma(2.0, 0.5, len(X))
LOCAL = {
    DropoutSVC: marginout.DropoutSVC,
    DropoutSVR: marginout.DropoutSVR,
    DropoutLogisticRegression: marginout.DropoutLogisticRegression,
}
#: Models, targets and weights.
CASES = {
    "two classes": (DropoutSVC(noise=0.3, **TIGHT), DIGITS % 2, None),
    "three classes": (DropoutSVC(noise=Deletion(0.4), **TIGHT), DIGITS % 3, WEIGHTS),
    "ten classes": (
        DropoutLogisticRegression(noise=0.4, class_weight="balanced", **TIGHT),
        DIGITS,
        WEIGHTS,
    ),
    "gaussian": (DropoutLogisticRegression(noise=0.3, expectation="gaussian", **TIGHT), DIGITS % 2, None),
    "regression": (DropoutSVR(10.0, noise=0.2, tol=1e-13), 100.0 + DIGITS, WEIGHTS),
    "plain": (DropoutLogisticRegression(noise=0.0, **TIGHT), DIGITS % 3, WEIGHTS),
    "groups": (DropoutSVC(noise=GroupDropout(np.arange(64) // 8, 0.3), **TIGHT), DIGITS % 2, None),
}
#: Rows of the blocks, by the number of workers: some empty, some of one row, some of one class.
CHUNKS = {1: (40, 360), 2: (1, 0, 199, 150, 50), 4: (90, 90, 90, 90, 40)}


@pytest.fixture(autouse=True)
def limited():
    """An end to every test, whatever waits for whatever."""

    def late(*_):
        raise TimeoutError(f"the test takes more than {LIMIT} s")

    if not hasattr(signal, "SIGALRM"):  # Windows
        yield
        return
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@contextmanager
def running(workers, memory_limit="auto", **settings):
    """A client of a cluster of processes on this machine."""
    with (
        dask.config.set({f"distributed.{name}": value for name, value in settings.items()}),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=memory_limit,
            dashboard_address=":0",
            protocol="tcp://",
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client():
    with running(1) as client:
        yield client


def collected(y, weights, chunks):
    """X in CSR blocks, and y and the weights, as Dask collections."""
    csr = da.from_array(X, chunks=(chunks, 64)).map_blocks(sp.csr_array, dtype=np.float64)
    return csr, da.from_array(y, chunks=123), None if weights is None else da.from_array(weights, chunks=150)


def in_memory(model, y, weights=None):
    return LOCAL[type(model)](**model.get_params()).fit(X, y, weights)


def assert_same(model, whole):
    scale = np.abs(whole.coef_).max()
    assert_allclose(model.coef_, whole.coef_, atol=1e-6 * scale)
    assert_allclose(model.intercept_, whole.intercept_, rtol=1e-6, atol=1e-6 * scale)
    assert_allclose(model.objective_, whole.objective_, rtol=1e-9)


def work(scheduler):
    dask_worker.main([scheduler, "--no-nanny", "--nthreads", "1", "--no-dashboard"])


class Killer(threading.Thread):
    """Two workers without a nanny, one of which dies by SIGKILL now and then and is replaced: KILLS times.

    (A LocalCluster would close a nanny for good whose worker happens to be down fifteen seconds
    after it died an earlier time.)
    """

    def __init__(self, scheduler, rng):
        super().__init__(daemon=True)
        self.scheduler, self.rng, self.kills, self.enough = scheduler, rng, 0, threading.Event()
        self.workers = [self.start_worker(), self.start_worker()]

    def start_worker(self):
        worker = FORKS.Process(target=work, args=(self.scheduler.address,), daemon=True)
        worker.start()
        return worker

    def run(self):
        while self.kills < KILLS and not self.enough.wait(self.rng.uniform(0.05, 0.8)):
            if len(self.scheduler.workers) == 2:  # of whom it heard
                self.kills += 1
                index = self.rng.integers(2)
                self.workers[index].kill()
                self.workers[index].join()
                self.workers[index] = self.start_worker()

    def stop(self):
        self.enough.set()
        self.join()
        for worker in self.workers:
            worker.kill()
            worker.join()


@pytest.mark.parametrize("name", ["two classes", "ten classes", "regression"])
def test_killed_workers_change_nothing_but_time(name):
    model, y, weights = CASES[name]
    whole = in_memory(model, y, weights)
    fits = 0
    with running(0, **{"scheduler.allowed-failures": 50}) as client:  # more deaths than any cluster sees
        killer = Killer(client.cluster.scheduler, np.random.default_rng(len(name)))
        try:
            client.wait_for_workers(2, timeout=LIMIT / 2)
            killer.start()
            while killer.is_alive():
                assert_same(clone(model).fit(*collected(y, weights, 100)), whole)
                fits += 1
        finally:
            killer.stop()
    assert killer.kills == KILLS
    assert fits >= 1


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_the_laws_of_what_is_missing(client, share):
    """Rows that miss values, and complete ones; sums over the blocks of two workers, one block empty."""
    client.cluster.scale(2)
    client.wait_for_workers(2, timeout=LIMIT / 2)
    rng = np.random.default_rng(0)
    Z = np.where(rng.random(X.shape) < share, np.nan, X)[:, X.std(axis=0) > 0]
    y, weights, chunks = DIGITS % 3, WEIGHTS, CHUNKS[2]
    model = DropoutLogisticRegression(noise=0.2, missing="conditional", **TIGHT)
    whole = LOCAL[type(model)](**model.get_params()).fit(Z, y, weights)
    rows = da.from_array(Z, chunks=(chunks, 30))
    model.fit(rows, da.from_array(y, chunks=123), da.from_array(weights, chunks=150))
    assert_same(model, whole)
    assert_allclose(model._law.one.covariance(), whole._law.one.covariance(), atol=1e-9)
    punched = np.where(rng.random(Z.shape) < 0.4, np.nan, Z)
    found = model.predict_proba(da.from_array(punched, chunks=(100, 30))).compute()
    assert_allclose(found, whole.predict_proba(punched), atol=1e-6)


@pytest.mark.parametrize(
    ("workers", "name"),
    [
        (1, "three classes"),
        *((2, name) for name in CASES if name != "three classes"),
        (4, "regression"),
    ],
)
def test_the_optimum_of_the_whole(client, workers, name):
    client.cluster.scale(workers)
    client.wait_for_workers(workers, timeout=LIMIT / 2)
    model, y, weights = CASES[name]
    fitted = clone(model).fit(*collected(y, weights, CHUNKS[workers]))
    assert_same(fitted, in_memory(model, y, weights))


def _one_of(number, count):
    return np.eye(count)[number]


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 16, 17, 25, 64, 65, 73])
def test_a_tree_of_sums_counts_every_block_once(client, count):
    """Trees whose last group, on any level, is full, or has one part only."""
    executor = _cluster.Cluster(client, count)
    total = executor.sum(_one_of, [list(range(count))], count)
    np.testing.assert_array_equal(total, np.ones(count))


@pytest.mark.filterwarnings("ignore:X has 9 blocks")
def test_nine_blocks(client):
    model, y, weights = CASES["three classes"]
    fitted = clone(model).fit(*collected(y, weights, (45,) * 8 + (40,)))
    assert_same(fitted, in_memory(model, y, weights))


def test_long_weights_travel_by_themselves_and_anew_when_they_change(client, monkeypatch):
    """As those of more than 32,768 features do: here all of them, so that a small problem shows it."""
    monkeypatch.setattr(_cluster, "HEAVY", 0)
    model, y, weights = CASES["three classes"]
    assert_same(clone(model).fit(*collected(y, weights, 200)), in_memory(model, y, weights))


def test_dask_knows_the_size_of_a_block():
    block, summary = prepare_block(DropoutSVC(), 0, sp.csr_array(X), DIGITS % 2)
    shard = block_shard(block, make_plan(DropoutSVC(), merge([summary])))
    assert sizeof(block) > summary.nbytes > 8 * np.count_nonzero(X)
    assert sizeof(shard) > summary.nbytes


def test_fits_at_once_on_one_worker_keep_apart():
    """Blocks keep memory for their next scores; no fit, and no block, may find another's there."""
    names = ["two classes", "three classes", "two classes"]
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=4, processes=False, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster),
    ):

        def fit(name):
            model, y, weights = CASES[name]
            return clone(model).set_params(tol=0.05).fit(*collected(y, weights, 200)).coef_

        alone = [fit(name) for name in names]
        with ThreadPoolExecutor(len(names)) as pool:
            together = list(pool.map(fit, names))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


def test_dense_blocks_of_some_columns(client):
    model, y, _ = CASES["two classes"]
    fitted = clone(model).fit(da.from_array(X, chunks=(150, 30)), da.from_array(y, chunks=123))
    assert_same(fitted, in_memory(model, y))


def test_predictions_are_lazy(client):
    model, y, weights = CASES["ten classes"]
    model = clone(model).fit(*collected(y, weights, 200))
    whole = in_memory(model, y, weights)
    table, y, weights = collected(y, weights, 150)
    for name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        lazy = getattr(model, name)(table)
        assert isinstance(lazy, da.Array)
        assert lazy.shape == getattr(whole, name)(X).shape
        assert_allclose(lazy.compute(), getattr(whole, name)(X), atol=1e-5)
    assert_allclose(model.score(table, y, weights).compute(), whole.score(X, DIGITS, WEIGHTS))
    assert_allclose(model.score(X, DIGITS), whole.score(X, DIGITS))  # arrays are answered here


def frozen(X, y):
    """A block as it comes from another worker, read-only; entries in disorder, and some of them twice."""
    X = sp.csr_array(X)
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    parts = [np.concatenate([part[::-1]] * 2) for part in (X.data / 2, rows, X.indices)]
    order = np.argsort(parts[1], kind="stable")
    X = sp.csr_array((parts[0][order], parts[2][order], 2 * X.indptr), shape=X.shape)
    for array in (X.data, X.indices, X.indptr, y):
        array.flags.writeable = False
    return X, y.copy() if y.base is not None else y


def test_read_only_blocks(client):
    model, y, _ = CASES["three classes"]
    blocks = [delayed(frozen, nout=2)(X[rows], y[rows]) for rows in (slice(0, 130), slice(130, 400))]
    table, labels = zip(*blocks, strict=True)
    assert_same(clone(model).fit(list(table), list(labels)), in_memory(model, y))


def test_the_noise_that_the_data_bear_is_that_of_all_blocks(client):
    """noise="auto", with either hinge; blocks of one row and of one class count too."""
    for loss in ("hinge", "squared_hinge"):
        model = DropoutSVC(noise="auto", loss=loss, **TIGHT)
        fitted = clone(model).fit(*collected(DIGITS % 3, WEIGHTS, CHUNKS[2]))
        whole = in_memory(model, DIGITS % 3, WEIGHTS)
        assert fitted.noise_ == whole.noise_ > 0
        np.testing.assert_allclose(fitted.objective_, whole.objective_, rtol=1e-10)


def test_delayed_blocks(client):
    model, y, _ = CASES["two classes"]
    blocks, labels = [delayed(X[:250]), delayed(X[250:])], [delayed(y[:250]), delayed(y[250:])]
    model = clone(model).fit(blocks, labels)
    whole = in_memory(model, y)
    assert_same(model, whole)
    assert model.predict(blocks).compute().tolist() == whole.predict(X).tolist()
    assert model.score(blocks, labels).compute() == whole.score(X, y)


@pytest.mark.parametrize("dtype", [np.int8, object])
def test_classes_have_the_type_of_a_fit_in_memory(client, dtype):
    y = (DIGITS % 2).astype(str if dtype is object else dtype).astype(dtype)
    model = DropoutSVC().fit(da.from_array(X, chunks=(200, 64)), da.from_array(y, chunks=200))
    assert model.classes_.dtype == dtype
    assert model.predict(da.from_array(X, chunks=(200, 64))).compute().dtype == dtype


def test_data_frames(client):
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    model, y, _ = CASES["regression"]
    table = pd.DataFrame(X, columns=[f"p{i}" for i in range(64)]).assign(y=y)
    frame = dd.from_pandas(table, npartitions=4)
    frame, table = frame[frame["y"] < 107], table[table["y"] < 107]  # which leaves the last part empty
    features, targets = frame.drop(columns="y"), frame["y"]
    model = clone(model).fit(features, targets)
    whole = LOCAL[DropoutSVR](**model.get_params()).fit(table.drop(columns="y"), table["y"])
    assert_same(model, whole)
    assert model.feature_names_in_.tolist() == whole.feature_names_in_.tolist()
    assert_allclose(model.predict(features).compute(), whole.predict(table.drop(columns="y")), rtol=1e-6)
    assert_allclose(
        model.score(features, targets).compute(), whole.score(table.drop(columns="y"), table["y"]), rtol=1e-6
    )


FIT = """
import sys
import time
import numpy as np
from sklearn.datasets import load_digits
from marginout import DropoutSVC, blocks
from marginout._blocks import checkpoint

write = checkpoint.Writer.__call__

def slowly(self, *state):
    write(self, *state)
    print(state[0], flush=True)
    time.sleep(0.2)

checkpoint.Writer.__call__ = slowly
X, y = load_digits(return_X_y=True)
parts = [(X[:200] / 16, y[:200] % 2), (X[200:400] / 16, y[200:400] % 2)]
blocks.fit(DropoutSVC(noise=0.3, tol=1e-11, max_iter=3000), parts, checkpoint=sys.argv[1])
"""


def test_a_killed_fit_goes_on(client, tmp_path):
    """A driver is killed in mid-fit; a fit on the cluster begins where it stood."""
    path = tmp_path / "fit.npz"
    driver = subprocess.Popen([sys.executable, "-c", FIT, str(path)], stdout=subprocess.PIPE, text=True)
    for line in driver.stdout:
        if int(line) == 5:
            driver.kill()
            break
    driver.wait()
    driver.stdout.close()
    with np.load(path) as saved:
        assert saved["iteration"] >= 5
    y = DIGITS % 2
    model = DropoutSVC(noise=0.3, tol=1e-13)
    table, labels = da.from_array(X, chunks=(200, 64)), da.from_array(y, chunks=200)
    resumed = clone(model).fit(table, labels, checkpoint=path, every=3)
    assert_same(resumed, in_memory(model, y))
    whole = in_memory(clone(model).set_params(solver="ncg"), y)  # what blocks are solved by
    assert resumed.n_iter_ < whole.n_iter_
    assert not path.exists()


def out_of_memory(block):
    return Greedy()


class Greedy:
    """A block that does not fit."""

    shape = (10, 64)

    def __array__(self, *args, **options):
        raise MemoryError("1 TB")


def missing(block):
    return np.load("no such file.npy")


def test_errors_name_the_block_and_the_cure(client):
    blocks, y = [delayed(X[:200]), delayed(X[200:])], [delayed(DIGITS[:200]), delayed(DIGITS[200:])]
    with pytest.raises(ValueError, match="block 1: Input X contains NaN"):
        DropoutSVC().fit([blocks[0], delayed(X[200:] * np.nan)], y)
    with pytest.raises(ValueError, match="y has 2 blocks but X has 1: rechunk it"):
        DropoutSVC().fit([delayed(X)], y)
    with pytest.raises(TypeError, match="y is of type ndarray"):
        DropoutSVC().fit([delayed(X)], DIGITS)
    with pytest.raises(ValueError, match="no example in any block"):
        DropoutSVC().fit([delayed(X[:0])], [delayed(DIGITS[:0])])
    with pytest.raises(MemoryError, match=r"block 1 does not fit into its worker's memory \(1 TB\).*smaller"):
        DropoutSVC().fit([blocks[0], delayed(out_of_memory)(X)], y)
    with pytest.raises(FileNotFoundError, match="no such file"):
        DropoutSVC().fit([blocks[0], delayed(missing)(X)], y)


def test_warnings_point_at_the_call(client):
    table, y = da.from_array(X, chunks=(20, 64)), da.from_array(DIGITS % 2, chunks=20)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DropoutSVC(max_iter=1).fit(table, y)
        marginout.blocks.fit(marginout.DropoutSVC(max_iter=1), [(X, DIGITS % 2)])
        marginout.DropoutSVC(max_iter=1).fit(X, DIGITS % 2)
    small, *late = caught
    assert "Rechunk to blocks of 64 MB" in str(small.message)
    assert len(late) == 3
    assert {warning.filename for warning in caught} == {__file__}


def test_a_cluster_without_workers_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr(_cluster, "PATIENCE", 0.2)
    with running(0), pytest.raises(RuntimeError, match=r"has had no worker for 1 s.* block 0 .*more of it"):
        DropoutSVC().fit([delayed(X)], [delayed(DIGITS)])


def test_the_score_of_a_regression_is_that_of_scikit_learn(client):
    """Targets far from zero, and constant ones."""
    rows = [slice(0, 250), slice(250, 400)]
    blocks = [delayed(X[part]) for part in rows]
    model = DropoutSVR(noise=0.1).fit(X, DIGITS + 1e9)
    for y in (DIGITS + 1e9, np.full(400, 3.0)):
        lazy = model.score(
            blocks, [delayed(y[part]) for part in rows], [delayed(WEIGHTS[part]) for part in rows]
        )
        assert_allclose(lazy.compute(), model.score(X, y, WEIGHTS), rtol=1e-6)


@pytest.mark.parametrize("model", [DropoutSVC(), DropoutSVR(), DropoutLogisticRegression()])
def test_targets_in_a_column_are_scored_as_in_memory(model):
    y = DIGITS % 2
    model = clone(model).fit(X, y)
    table = da.from_array(X, chunks=(150, 64))
    labels, weights = da.from_array(y[:, None], chunks=150), da.from_array(WEIGHTS, chunks=150)
    with dask.config.set(scheduler="threads"):
        score = model.score(table, labels, weights).compute()
        assert_allclose(score, model.score(X, y[:, None], WEIGHTS), rtol=1e-12)
        for bad in ((da.hstack([labels, labels]),), (labels, weights[:, None]), (labels[1:],)):
            arrays = [part.compute() for part in bad]
            with pytest.raises((ValueError, TypeError)):  # scikit-learn's, by its version
                model.score(X, *arrays)
            with pytest.raises(ValueError, match=r"shape|inconsistent"):
                model.score(table, *bad).compute()


@pytest.mark.parametrize("model", [DropoutSVC(), DropoutSVR(), DropoutLogisticRegression()])
def test_features_that_do_not_fit_are_refused_at_once(model):
    """In the same words as in memory, before anything is computed."""
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    table, y = pd.DataFrame(X, columns=[f"p{i}" for i in range(64)]), DIGITS % 2
    cases = (X, X[:, :9]), (table, table.iloc[:, :9]), (table, table.rename(columns={"p3": "other"}))
    names = [name for name in ("predict", "decision_function", "predict_proba") if hasattr(model, name)]
    for good, bad in cases:
        model = clone(model).fit(good, y)
        lazy = da.from_array(bad, chunks=200) if bad is cases[0][1] else dd.from_pandas(bad, npartitions=2)
        with pytest.raises(ValueError, match="feature") as told:
            model.predict(bad)
        for name in names:
            with pytest.raises(ValueError, match=re.escape(str(told.value))):
                getattr(model, name)(lazy)
        with pytest.raises(ValueError, match=re.escape(str(told.value))):
            model.score(lazy, da.from_array(y, chunks=200))
    with pytest.raises(ValueError, match="Expected 2D array"):
        clone(model).fit(X, y).predict(da.from_array(X[:, 0], chunks=200))


def test_regressors_have_no_decision_function():
    assert not hasattr(DropoutSVR(), "decision_function")


def test_unknown_features_are_refused_when_they_are_seen():
    model = DropoutSVC().fit(X, DIGITS % 2)
    lazy = model.predict([delayed(X[:, :9])])
    with pytest.raises(ValueError, match="X has 9 features"), dask.config.set(scheduler="threads"):
        lazy.compute()


def test_a_stream_does_not_change_what_was_asked_before():
    y = DIGITS % 2
    model = DropoutSVC(noise=0.3).partial_fit(X[:200], y[:200], classes=[0, 1])
    scores, before = model.decision_function(da.from_array(X, chunks=(200, 64))), model.decision_function(X)
    model.partial_fit(X[200:], y[200:])
    with dask.config.set(scheduler="threads"):
        assert_allclose(scores.compute(), before)


def test_a_later_fit_does_not_change_what_was_asked_before():
    y = DIGITS % 2
    model = DropoutSVC(noise=0.3).fit(X, y)
    table, labels = da.from_array(X, chunks=(200, 64)), da.from_array(y, chunks=200)
    predicted, score, before = model.predict(table), model.score(table, labels), model.predict(X)
    model.fit(X, 1 - y)
    with dask.config.set(scheduler="threads"):
        assert predicted.compute().tolist() == before.tolist()
        assert score.compute() == np.mean(before == y)


def test_arrays_have_no_checkpoints(tmp_path):
    with pytest.raises(ValueError, match="needs X in blocks"):
        DropoutSVC().fit(X, DIGITS, checkpoint=tmp_path / "fit.npz")


def die(block):
    os._exit(1)


def test_a_block_that_kills_its_workers_is_named():
    bad = [delayed(X), delayed(die)(X)]
    with (
        running(1, **{"scheduler.allowed-failures": 0}),
        pytest.raises(RuntimeError, match=r"Several workers ended over blocks? .*smaller blocks"),
    ):
        DropoutSVC().fit(bad, [delayed(DIGITS)] * 2)


def grow(block, block_info=None):
    """The first block as it is; of the second, more than its worker may hold, until that one is gone."""
    if block_info[0]["chunk-location"] == (1, 0):
        hoard = []
        while True:
            hoard.append(np.ones(2**21))
            time.sleep(0.01)
    return block


def test_a_block_that_takes_all_memory_is_named():
    """Nannies end workers that exceed their limit. The other block is suspected if it was there, too."""
    table, labels = da.from_array(X, chunks=(200, 64)), da.from_array(DIGITS, chunks=200)
    table = table.map_blocks(grow, dtype=np.float64)
    model = DropoutSVC()
    with (
        running(2, memory_limit="400 MiB", **{"scheduler.allowed-failures": 0}),
        pytest.raises(RuntimeError, match=r"ended over blocks? (0, )?1 .*memory.*smaller blocks"),
    ):
        model.fit(table, labels)
    assert not hasattr(model, "coef_")


def fail(block):
    raise ValueError("no such block")


def test_a_block_that_fails_is_not_kept_back_by_others(monkeypatch):
    monkeypatch.setattr(_cluster, "PATIENCE", 1.0)
    blocks = [delayed(fail)(X), delayed(time.sleep)(LIMIT)]
    with running(2), pytest.raises(ValueError, match="no such block"):
        DropoutSVC().fit(blocks, [delayed(DIGITS)] * 2)


def test_a_lost_scheduler_is_named(tmp_path, monkeypatch):
    path, write = tmp_path / "fit.npz", _checkpoint.Writer.__call__
    with running(1) as client:

        def lose(self, iteration, *state):
            write(self, iteration, *state)
            if iteration == 3:
                client.cluster.close()

        monkeypatch.setattr(_checkpoint.Writer, "__call__", lose)
        with pytest.raises(RuntimeError, match=r"lost.*checkpoint=path"):
            DropoutSVC(**TIGHT).fit([delayed(X)], [delayed(DIGITS % 2)], checkpoint=path)
    with np.load(path) as saved:
        assert saved["iteration"] == 3


def test_lost_data_that_were_scattered_are_named(tmp_path, monkeypatch):
    write = _checkpoint.Writer.__call__
    with running(1) as client:

        def lose(self, iteration, *state):
            write(self, iteration, *state)
            if iteration == 3:
                (nanny,) = client.cluster.workers.values()
                os.kill(nanny.pid, signal.SIGKILL)

        monkeypatch.setattr(_checkpoint.Writer, "__call__", lose)
        scattered = client.scatter([X, DIGITS % 2])
        with pytest.raises(RuntimeError, match=r"Scattered data died with their worker"):
            DropoutSVC(**TIGHT).fit(scattered[:1], scattered[1:], checkpoint=tmp_path / "fit.npz")


def test_without_dask_the_message_says_how_to_install_it():
    program = "import sys; sys.modules['dask'] = None; import marginout; import marginout.dask"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "pip install 'marginout[dask]'" in run.stderr
