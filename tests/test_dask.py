"""Fits on a local cluster against fits in memory, while workers die or not."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_digits

import marginout
from marginout import _checkpoint

dask = pytest.importorskip("dask", reason="dask is not installed")
# Workers are forked from a process that has all modules loaded: starting one again is cheap.
dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
distributed = pytest.importorskip("distributed", reason="distributed is not installed")
multiprocessing.get_context("forkserver").set_forkserver_preload(["distributed", "marginout.dask"])

import dask.array as da  # noqa: E402
from dask import delayed  # noqa: E402

from marginout.dask import DropoutLogisticRegression, DropoutSVC, DropoutSVR  # noqa: E402
from marginout.noise import Deletion  # noqa: E402

TIGHT = {"tol": 1e-11, "max_iter": 3000}
X, DIGITS = (part[:400] for part in load_digits(return_X_y=True))
X = X / 16
KILLS = 20
LOCAL = {
    DropoutSVC: marginout.DropoutSVC,
    DropoutSVR: marginout.DropoutSVR,
    DropoutLogisticRegression: marginout.DropoutLogisticRegression,
}


@contextmanager
def running(workers, **settings):
    """A client of a cluster of processes on this machine."""
    with (
        dask.config.set({f"distributed.{name}": value for name, value in settings.items()}),
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client():
    with running(1) as client:
        yield client


def in_memory(model, y, weights=None):
    return LOCAL[type(model)](**model.get_params()).fit(X, y, weights)


def assert_same(model, whole):
    scale = np.abs(whole.coef_).max()
    assert_allclose(model.coef_, whole.coef_, atol=1e-6 * scale)
    assert_allclose(model.intercept_, whole.intercept_, rtol=1e-6, atol=1e-6 * scale)
    assert_allclose(model.objective_, whole.objective_, rtol=1e-9)


class Killer(threading.Thread):
    """Kills a worker by SIGKILL now and then, KILLS times, each time that both are up."""

    def __init__(self, cluster, rng):
        super().__init__(daemon=True)
        self.cluster, self.rng, self.kills, self.enough = cluster, rng, 0, threading.Event()

    def run(self):
        while self.kills < KILLS and not self.enough.wait(self.rng.uniform(0.05, 1.0)):
            known = self.cluster.scheduler.workers
            pids = [nanny.pid for nanny in self.cluster.workers.values() if nanny.worker_address in known]
            if len(pids) == 2 and None not in pids:
                with suppress(ProcessLookupError):
                    os.kill(self.rng.choice(pids), signal.SIGKILL)
                    self.kills += 1


def test_killed_workers_change_nothing_but_time():
    y = DIGITS % 2
    model = DropoutSVC(noise=0.3, **TIGHT)
    whole = in_memory(model, y)
    table, labels = da.from_array(X, chunks=(100, 64)), da.from_array(y, chunks=100)
    fits = 0
    # More deaths per task than any cluster sees; and a busy machine may take long to start a worker again.
    settings = {"scheduler.allowed-failures": 50, "deploy.lost-worker-timeout": "1h"}
    with running(2, **settings) as client:
        killer = Killer(client.cluster, np.random.default_rng(1))
        killer.start()
        try:
            while killer.kills < KILLS:
                assert_same(clone(model).fit(table, labels), whole)
                fits += 1
        finally:
            killer.enough.set()
            killer.join()
    assert fits >= 1


@pytest.mark.parametrize(("workers", "rows"), [(1, 400), (2, 90), (4, 150)])
def test_the_optimum_of_the_whole(client, workers, rows):
    client.cluster.scale(workers)
    client.wait_for_workers(workers)
    y = da.from_array(DIGITS % 2, chunks=123)
    table = da.from_array(X, chunks=(rows, 30))
    csr = table.rechunk((rows, 64)).map_blocks(sp.csr_array, dtype=np.float64)
    model = DropoutSVC(noise=0.3, **TIGHT)
    assert_same(clone(model).fit(table, y), in_memory(model, DIGITS % 2))
    assert_same(clone(model).fit(csr, y), in_memory(model, DIGITS % 2))


def test_several_classes_and_weights(client):
    weights = np.random.default_rng(0).gamma(2.0, 0.5, len(X))
    model = DropoutLogisticRegression(noise=Deletion(0.4), class_weight="balanced", **TIGHT)
    whole = in_memory(model, DIGITS, weights)
    table = da.from_array(X, chunks=(150, 64))
    y, w = da.from_array(DIGITS, chunks=150), da.from_array(weights, chunks=150)
    model.fit(table, y, w)
    assert_same(model, whole)
    for name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        lazy = getattr(model, name)(table)
        assert isinstance(lazy, da.Array)
        assert lazy.shape == getattr(whole, name)(X).shape
        assert_allclose(lazy.compute(), getattr(whole, name)(X), atol=1e-5)
    assert_allclose(model.score(table, y, w).compute(), whole.score(X, DIGITS, weights))
    assert_allclose(model.score(X, DIGITS), whole.score(X, DIGITS))  # arrays are answered here


def test_delayed_blocks_and_frames(client):
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    y = 100.0 + DIGITS
    model = DropoutSVR(10.0, noise=0.2, tol=1e-13)  # its kinks are sharp: w is known to the root of F's error
    whole = in_memory(model, y)
    blocks = [delayed(X[:250]), delayed(X[250:])]
    targets = [delayed(y[:250]), delayed(y[250:])]
    model.fit(blocks, targets)
    assert_same(model, whole)
    assert_allclose(model.predict(blocks).compute(), whole.predict(X), rtol=1e-6)
    assert_allclose(model.score(blocks, targets).compute(), whole.score(X, y), rtol=1e-6)
    frame = pd.DataFrame(X, columns=[f"p{i}" for i in range(64)]).assign(y=y)
    frame = dd.from_pandas(frame, npartitions=3)
    named = clone(model).fit(frame.drop(columns="y"), frame["y"])
    assert_same(named, whole)
    assert named.feature_names_in_[3] == "p3"
    assert_allclose(named.predict(frame.drop(columns="y")).compute(), whole.predict(X), rtol=1e-6)


FIT = """
import sys
import time
import numpy as np
from sklearn.datasets import load_digits
from marginout import DropoutSVC, blocks

class Slow(DropoutSVC):
    def _run(self, *args):
        write = args[5]

        def watch(*state):
            write(*state)
            print(state[0], flush=True)
            time.sleep(0.2)
        super()._run(*args[:5], watch, *args[6:])

X, y = load_digits(return_X_y=True)
parts = [(X[:200] / 16, y[:200] % 2), (X[200:400] / 16, y[200:400] % 2)]
blocks.fit(Slow(noise=0.3, tol=1e-11, max_iter=3000), parts, checkpoint=sys.argv[1])
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
    whole = in_memory(model, y)
    assert_same(resumed, whole)
    assert resumed.n_iter_ < whole.n_iter_
    assert not path.exists()


def die(block):
    os._exit(1)


def test_errors_name_the_block_and_the_cure(client):
    y = [delayed(DIGITS[:200]), delayed(DIGITS[200:])]
    with pytest.raises(ValueError, match="block 1: Input X contains NaN"):
        DropoutSVC().fit([delayed(X[:200]), delayed(X[200:] * np.nan)], y)
    with pytest.raises(ValueError, match="y has 2 blocks but X has 1: rechunk it"):
        DropoutSVC().fit([delayed(X)], y)
    with pytest.raises(TypeError, match="y is of type ndarray"):
        DropoutSVC().fit([delayed(X)], DIGITS)
    with (
        pytest.warns(UserWarning, match=r"Rechunk to blocks of 64 MB"),
        pytest.raises(ValueError, match=r"C=-1\.0 must be"),
    ):
        DropoutSVC(-1.0).fit(da.from_array(X, chunks=(20, 64)), da.from_array(DIGITS, chunks=20))


def test_a_block_that_kills_its_workers_is_named():
    bad = [delayed(X), delayed(die)(X)]
    with (
        running(1, **{"scheduler.allowed-failures": 0}),
        pytest.raises(RuntimeError, match=r"ended several workers.*smaller blocks"),
    ):
        DropoutSVC().fit(bad, [delayed(DIGITS)] * 2)


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


def test_without_dask_the_message_says_how_to_install_it():
    program = "import sys; sys.modules['dask'] = None; import marginout; import marginout.dask"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "pip install 'marginout[dask]'" in run.stderr
