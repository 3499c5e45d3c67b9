"""Fits to blocks against fits to all examples at once; other tests compare those with a conic solver."""

import bz2
import errno
import gzip
import os
import shlex
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from marginout import MCFClassifier, blocks
from marginout._blocks import checkpoint
from marginout._core.design.groups import Grouping
from marginout.noise import Deletion, Gaussian, GroupDropout
from tests.paper import DropoutLogisticRegression, DropoutSVC, DropoutSVCCV, DropoutSVR, LatentDropoutSVC

TIGHT = {"tol": 1e-11, "max_iter": 3000}
X, DIGITS = (part[:300] for part in load_digits(return_X_y=True))
X = X / 16
WEIGHTS = np.random.default_rng(0).gamma(2.0, 0.5, len(X))
WEIGHTS[100:140] = 0.0  # a block without weight
#: In memory "auto" would take another solver than on blocks: both end as near to the optimum, but not as one.
MODELS = {
    "two classes": (DropoutSVC(noise=0.3, solver="ncg", **TIGHT), DIGITS % 2),
    "balanced, several": (DropoutSVC(noise=Deletion(0.4), class_weight="balanced", **TIGHT), DIGITS),
    "dict, gaussian": (
        DropoutLogisticRegression(expectation="gaussian", class_weight={0: 2.0, 1: 1.0, 2: 0.5}, **TIGHT),
        DIGITS % 3,
    ),
    "names": (
        DropoutLogisticRegression(noise=0.8, solver="lbfgs", **TIGHT),
        np.array(["a", "b"])[DIGITS % 2],
    ),
    "additive": (DropoutSVC(0.1, noise=Gaussian(0.01), fit_intercept=False, **TIGHT), DIGITS % 2),
    "groups": (DropoutSVC(noise=GroupDropout(np.arange(64) // 8, 0.3), **TIGHT), DIGITS % 2),
    "regression": (DropoutSVR(10.0, noise=0.2, solver="ncg", **TIGHT), 1e3 + DIGITS),
}


def cut(X, y, *edges, weights=WEIGHTS):
    edges = [0, *edges, len(y)]
    return [(X[a:b], y[a:b], weights[a:b]) for a, b in pairwise(edges)]


def assert_same(model, whole):
    scale = np.abs(whole.coef_).max()
    assert_allclose(model.coef_, whole.coef_, atol=1e-6 * scale)
    assert_allclose(model.intercept_, whole.intercept_, rtol=1e-6, atol=1e-6 * scale)
    assert_allclose(model.objective_, whole.objective_, rtol=1e-9)
    assert model.optimality_gap_ <= 1e-6 * model.objective_
    if hasattr(whole, "classes_"):
        assert model.classes_.tolist() == whole.classes_.tolist()


@pytest.mark.parametrize("name", MODELS)
def test_blocks_have_the_optimum_of_the_whole(name):
    model, y = MODELS[name]
    whole = clone(model).fit(X, y, WEIGHTS)
    assert_same(blocks.fit(clone(model), iter(cut(X, y, 100, 140)), storage="memory"), whole)


@pytest.mark.parametrize(("storage", "n_jobs"), [("disk", None), ("memory", 2)])
@pytest.mark.parametrize("name", ["balanced, several", "regression"])
def test_stored_csr_and_threads(name, storage, n_jobs):
    model, y = MODELS[name]
    csr = sp.csr_array(X)
    fitted = blocks.fit(clone(model), cut(csr, y, 100, 140, 141), storage=storage, n_jobs=n_jobs)
    assert_same(fitted, clone(model).fit(X, y, WEIGHTS))


def test_chunking_does_not_matter():
    model, y = MODELS["two classes"]
    fits = [blocks.fit(clone(model), cut(X, y, *edges)) for edges in ((), (1,), range(50, 300, 50))]
    for fit in fits[1:]:
        assert_same(fit, fits[0])


@pytest.mark.parametrize("storage", ["disk", "memory"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.float32, np.bool_, "U3", object])
def test_classes_have_the_type_of_a_fit_in_memory(storage, dtype):
    y = (DIGITS % 2).astype(str if dtype is object else dtype).astype(dtype)
    whole = DropoutSVC().fit(X, y)
    fitted = blocks.fit(DropoutSVC(), [(X[:200], y[:200]), (X[200:], y[200:])], storage=storage)
    assert fitted.classes_.dtype == whole.classes_.dtype
    assert_array_equal(fitted.classes_, whole.classes_)
    assert fitted.predict(X).dtype == whole.predict(X).dtype


def test_classes_of_several_types_have_that_of_all_labels():
    for y in (DIGITS % 3).astype(np.int8), np.array(["a", "b", "a"])[DIGITS % 3]:
        other = y[200:].astype(np.int32 if y.dtype == np.int8 else "U9")
        fitted = blocks.fit(DropoutSVC(), [(X[:200], y[:200]), (X[200:], other)])
        assert fitted.classes_.dtype == np.concatenate([y, other]).dtype
        assert_array_equal(fitted.classes_, np.unique(y))


def test_missing_features_and_names():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(X.copy(), columns=[f"p{i}" for i in range(64)])
    table.iloc[::7, 20] = np.nan
    model = DropoutSVC(noise=0.3, missing="deleted", **TIGHT)
    whole = clone(model).fit(table, DIGITS % 2)
    parts = [(table.iloc[:200], DIGITS[:200] % 2), (table.iloc[200:], DIGITS[200:] % 2)]
    fitted = blocks.fit(clone(model), parts)
    assert_same(fitted, whole)
    assert fitted.feature_names_in_.tolist() == whole.feature_names_in_.tolist()


@pytest.mark.parametrize("model", [DropoutSVC(noise=0.0, tol=1e-3), DropoutSVR(noise=0.0, tol=1e-3)])
def test_plain_machines(model):
    y = DIGITS % 2 if isinstance(model, DropoutSVC) else DIGITS * 1.0
    whole = clone(model).set_params(tol=1e-7).fit(X, y)
    fitted = blocks.fit(clone(model), cut(X, y, 200, weights=np.ones(300)), storage="memory")
    excess = fitted.objective_ - whole.objective_
    assert -1e-6 * whole.objective_ <= excess <= fitted.optimality_gap_ <= 1e-3 * fitted.objective_
    assert fitted.n_iter_ < 100
    if isinstance(model, DropoutSVC):  # and that optimum is libsvm's
        libsvm = SVC(kernel="linear", C=1.0, tol=1e-6).fit(X, y)
        assert_allclose(fitted.decision_function(X), libsvm.decision_function(X), atol=0.1)


@pytest.mark.parametrize("d", [257, 300])
def test_plain_machines_are_exact_for_hundreds_of_features(d):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(400, d))
    y = (X @ rng.normal(size=d) + 0.5 * d**0.5 * rng.normal(size=400) > 0).astype(int)
    whole = DropoutSVC(noise=0.0, tol=1e-7, max_iter=10_000).fit(X, y)
    parts = [(X[:150], y[:150]), (X[150:], y[150:])]
    fitted = blocks.fit(DropoutSVC(noise=0.0, tol=1e-6), parts, storage="memory")
    assert_allclose(fitted.objective_, whole.objective_, rtol=1e-6)
    assert fitted.optimality_gap_ <= 1e-5 * fitted.objective_


def test_plain_machines_that_stand_still_are_not_called_solved(monkeypatch):
    """L-BFGS gets to some 1e-5 of the minimum, whatever tol says: then there is a warning."""
    monkeypatch.setattr("marginout.solvers.newton.NARROW_KINKED", 63)
    rng = np.random.default_rng(5)
    X = rng.normal(size=(400, 300))
    y = (X @ rng.normal(size=300) + 0.5 * 300**0.5 * rng.normal(size=400) > 0).astype(int)
    with pytest.warns(ConvergenceWarning, match="Stopped .* within .* of its minimum"):
        blocks.fit(DropoutSVC(noise=0.0, tol=1e-7, max_iter=5000), [(X, y)], storage="memory")


def test_plain_machines_of_many_features(monkeypatch):
    monkeypatch.setattr("marginout.solvers.newton.NARROW_KINKED", 63)
    y = DIGITS % 2
    whole = DropoutSVC(noise=0.0, tol=1e-7).fit(X, y)
    fitted = blocks.fit(DropoutSVC(noise=0.0), cut(X, y, 200, weights=np.ones(300)), storage="memory")
    assert_allclose(fitted.objective_, whole.objective_, rtol=1e-3)


@pytest.mark.parametrize("tol", [1e-8, 1e-10])
@pytest.mark.parametrize("edges", [(), (1, 100, 140), range(20, 300, 20)])
@pytest.mark.parametrize(
    ("model", "several"),
    [
        (DropoutLogisticRegression(noise=0.0), 2),
        (DropoutLogisticRegression(100.0, noise=0.0, fit_intercept=False), 3),
        (DropoutSVC(noise=0.0), 2),
    ],
)
def test_plain_machines_have_the_very_same_weights(model, several, edges, tol):
    y = DIGITS % several
    model = clone(model).set_params(tol=tol)
    whole = clone(model).fit(X, y, WEIGHTS)
    fitted = blocks.fit(clone(model), cut(sp.csr_array(X), y, *edges), storage="memory")
    assert_allclose(fitted.coef_, whole.coef_, atol=1e-6 * np.abs(whole.coef_).max())


@pytest.mark.parametrize("X", [X, sp.csr_array(X)], ids=["dense", "csr"])
@pytest.mark.parametrize(
    ("model", "y"), [(DropoutSVR(10.0), 100.0 + DIGITS), (DropoutSVC(), DIGITS % 3)], ids=["svr", "svc"]
)
def test_features_in_groups_take_as_many_iterations_as_in_memory(model, y, X, monkeypatch):
    """And so end at the same weights, closer to each other than either is to the optimum."""
    model = clone(model).set_params(noise=GroupDropout(np.arange(64) // 8, 0.3), tol=1e-8)
    whole = clone(model).fit(X, y, WEIGHTS)
    for edges in (), (1, 100, 140), range(20, 300, 20):
        fitted = blocks.fit(clone(model), cut(X, y, *edges), storage="memory")
        assert fitted.n_iter_ <= whole.n_iter_ + 2
        assert_allclose(fitted.coef_, whole.coef_, atol=1e-6 * np.abs(whole.coef_).max())
    # Of a sample of rows, blocks know other rows: another preconditioner, and another way to the optimum.
    monkeypatch.setattr("marginout._core.design.groups.SAMPLE", 10)
    assert Grouping(np.arange(64) // 8).step(300, 300 * 64) == 3
    model.set_params(tol=1e-10)
    whole = clone(model).fit(X, y, WEIGHTS)
    for edges in (), (1, 100, 140), range(20, 300, 20):
        fitted = blocks.fit(clone(model), cut(X, y, *edges), storage="memory")
        assert fitted.n_iter_ <= 1.5 * whole.n_iter_
        assert_allclose(fitted.objective_, whole.objective_, rtol=1e-10)
        # F is 1-strongly convex: either is no farther from the optimum than √(2 gap).
        apart = sum(np.sqrt(2 * each.optimality_gap_) for each in (fitted, whole))
        assert np.linalg.norm(fitted.coef_ - whole.coef_) <= apart


def test_files(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    y = DIGITS % 2
    model = DropoutSVC(noise=0.3, **TIGHT)
    whole = clone(model).fit(X, y)
    dump_svmlight_file(X, y, str(tmp_path / "a.svm"), zero_based=False)
    size = os.path.getsize(tmp_path / "a.svm") // 3
    assert_same(
        blocks.fit(clone(model), blocks.read_svmlight(tmp_path / "a.svm", 64, block_bytes=size)), whole
    )

    csr = sp.csr_array(X)
    shards = [tmp_path / "0.npz", tmp_path / "1.npz"]
    np.savez(shards[0], X=X[:200], y=y[:200])
    part = csr[200:]
    np.savez(shards[1], data=part.data, indices=part.indices, indptr=part.indptr, shape=part.shape, y=y[200:])
    assert_same(blocks.fit(clone(model), blocks.read_npz(shards)), whole)

    table = pd.DataFrame(X, columns=[f"p{i}" for i in range(64)]).assign(label=y, weight=1.0)
    table.to_parquet(tmp_path / "a.parquet")
    read = blocks.read_parquet([tmp_path / "a.parquet"], "label", sample_weight="weight", block_rows=110)
    assert_same(blocks.fit(clone(model), read), whole)


def test_memory_holds_one_block():
    """Forty blocks of 8 MB are fitted within the address space of eight more than one block leaves."""
    program = """
import resource, sys
import numpy as np
from marginout import DropoutSVC, blocks

def made(count):
    for i in range(count):
        rng = np.random.default_rng(i)
        X = rng.normal(size=(10_000, 100))
        yield X, X[:, 0] + rng.normal(size=10_000) > 0

def limited(count):
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 64 * 2**20,) * 2)
    return blocks.fit(DropoutSVC(1e-3, max_iter=3, tol=0.5), made(count)).coef_[0, 0]

blocks.fit(DropoutSVC(1e-3, max_iter=3, tol=0.5), made(1))  # libraries, threads and their stacks
print(limited(int(sys.argv[1])))
"""
    if not os.path.exists("/proc/self/statm"):
        pytest.skip("the limit is set by what /proc says is used already")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, "40"], capture_output=True, text=True, env=environment
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert float(run.stdout) > 0


def test_checkpoint_resumes(tmp_path, monkeypatch):
    model, y = MODELS["balanced, several"]
    model = clone(model).set_params(tol=1e-13)
    path = tmp_path / "fit.npz"
    whole = blocks.fit(clone(model), cut(X, y, 250))
    with pytest.warns(match="max_iter=6"):
        short = blocks.fit(clone(model).set_params(max_iter=6), cut(X, y, 250), checkpoint=tmp_path / "other")
    assert not (tmp_path / "other").exists()  # a fit that has ended needs none

    class StopError(Exception):
        pass

    write = checkpoint.Writer.__call__

    def break_after_six(self, iteration, value, left, solution):
        write(self, iteration, value, left, solution)
        if iteration == 6:
            raise StopError

    broken = clone(model)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.Writer, "__call__", break_after_six)
        with pytest.raises(StopError):
            blocks.fit(broken, cut(X, y, 250), checkpoint=path)
    assert not hasattr(broken, "coef_")
    with np.load(path) as saved:
        assert saved["iteration"] == 6
        assert saved["objective"] <= short.objective_ * (1 + 1e-9)
    resumed = blocks.fit(clone(model), cut(X, y, 250), checkpoint=path)
    assert_same(resumed, whole)
    assert resumed.n_iter_ < whole.n_iter_
    assert not path.exists()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "blocks is empty"),
        ([X], r"block 0 must be \(X, y\)"),
        ([(X, DIGITS), (X[:, :9], DIGITS)], "block 1 has 9 features but block 0 has 64"),
        ([(X, DIGITS), (X * np.nan, DIGITS)], "block 1: Input X contains NaN"),
        ([(X, DIGITS * 0)], "a classifier needs at least two"),
        ([(X, DIGITS, WEIGHTS[:9])], "block 0: sample_weight has shape"),
    ],
)
def test_bad_blocks(parts, message):
    with pytest.raises(ValueError, match=message):
        blocks.fit(DropoutSVC(), parts)


def test_bad_models(tmp_path):
    parts = [(X, DIGITS)]
    for model in (MCFClassifier(), LatentDropoutSVC(), DropoutSVCCV()):
        with pytest.raises(TypeError, match=f"{type(model).__name__} cannot be fitted to blocks"):
            blocks.fit(model, parts)
    with pytest.raises(ValueError, match="solver='irls' needs all examples"):
        blocks.fit(DropoutSVC(solver="irls"), parts)
    with pytest.raises(ValueError, match=r"solver='dual' must be one of 'auto', 'lbfgs', 'ncg', 'newton'\.$"):
        blocks.fit(DropoutSVC(solver="dual"), parts)
    (tmp_path / "junk").write_text("junk")
    with pytest.raises(ValueError, match="is no checkpoint"):
        blocks.fit(DropoutSVC(), parts, checkpoint=tmp_path / "junk")
    # Before any block is read:
    for model, options, message in (
        (DropoutSVC(), {"checkpoint": tmp_path / "no" / "file"}, "does not exist"),
        (DropoutSVC(), {"scratch": tmp_path / "no"}, "scratch=.* is no folder: make it"),
        (DropoutSVC(), {"every": 0}, "every=0"),
        (DropoutSVC(-1.0), {}, r"C=-1\.0"),
    ):
        with pytest.raises(ValueError, match=message):
            blocks.fit(model, iter(lambda: pytest.fail("a block was read"), None), **options)


@pytest.mark.parametrize("size", [1, 50, 1000, 2**26])
@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2"])
def test_svmlight_blocks_hold_every_line_once(tmp_path, suffix, size):
    """Blocks shorter than a line, and files whose size is not that of their text."""
    dump_svmlight_file(X[:40], DIGITS[:40], str(tmp_path / "a"), zero_based=False, comment="some digits")
    text = (tmp_path / "a").read_bytes().rstrip(b"\n")
    packed = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}[suffix](text)
    (tmp_path / f"b{suffix}").write_bytes(packed)
    parts = list(blocks.read_svmlight(tmp_path / f"b{suffix}", 64, block_bytes=size))
    assert_allclose(sp.vstack([part for part, _ in parts]).toarray(), X[:40])
    assert np.concatenate([y for _, y in parts]).tolist() == DIGITS[:40].tolist()


def test_one_path_will_do_and_other_formats_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=X, y=DIGITS)
    assert_allclose(next(blocks.read_npz(str(path)))[0], X)
    csc = sp.csc_array(X[:64])
    np.savez(
        path, data=csc.data, indices=csc.indices, indptr=csc.indptr, shape=csc.shape, format=b"csc", y=DIGITS
    )
    with pytest.raises(ValueError, match="another format than CSR"):
        next(blocks.read_npz([path]))


def checkpointed(path, W, b):
    np.savez(path, W=W, b=b, classes=np.array(["0", "1"]))
    return path


def test_an_offset_of_a_checkpoint_is_not_kept_where_none_is_fitted(tmp_path):
    model = DropoutSVC(noise=0.3, fit_intercept=False, tol=1e-13, max_iter=3000)
    path = checkpointed(tmp_path / "fit.npz", np.ones((64, 1)), np.ones(1))
    fitted = blocks.fit(clone(model), cut(X, DIGITS % 2, 200), checkpoint=path)
    assert fitted.intercept_ == 0.0
    assert_same(fitted, clone(model).fit(X, DIGITS % 2, WEIGHTS))


def test_bad_checkpoints(tmp_path):
    path = tmp_path / "fit.npz"
    bad = [
        (np.full((64, 1), np.nan), np.zeros(1)),
        (np.zeros(64), np.zeros(1)),
        (np.zeros((64, 1)), np.zeros(3)),
    ]
    for W, b in bad:
        with pytest.raises(ValueError, match="is no checkpoint"):
            blocks.fit(DropoutSVC(), cut(X, DIGITS % 2), checkpoint=checkpointed(path, W, b))
    np.save(tmp_path / "array.npy", X)
    for content in (b"", (tmp_path / "array.npy").read_bytes()):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is no checkpoint"):
            blocks.fit(DropoutSVC(), cut(X, DIGITS % 2), checkpoint=path)


@pytest.mark.parametrize("classes", [["2", "3"], ["0", "2"], ["1", "0"], []])
def test_a_checkpoint_of_other_classes_is_refused(tmp_path, classes):
    """Of the same shape: its weights would lead to the optimum of this fit, but it is not of this fit."""
    path = tmp_path / "fit.npz"
    np.savez(path, W=np.zeros((64, 1)), b=np.zeros(1), classes=np.array(classes, dtype=str))
    with pytest.raises(ValueError, match=r"or other classes: name another file, or remove it\."):
        blocks.fit(DropoutSVC(), cut(X, DIGITS % 2), checkpoint=path)
    assert path.exists()


@pytest.mark.parametrize(("d", "K"), [(63, 1), (64, 2)])
def test_a_checkpoint_of_another_shape_is_refused(tmp_path, d, K):
    path = checkpointed(tmp_path / "fit.npz", np.zeros((d, K)), np.zeros(K))
    message = f"of a fit with {d} features and {K} problems, this one has 64 and 1"
    with pytest.raises(ValueError, match=message):
        blocks.fit(DropoutSVC(), cut(X, DIGITS % 2), checkpoint=path)


def test_a_checkpoint_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    model = DropoutSVC()
    with pytest.raises(OSError, match="No space left"):
        blocks.fit(model, cut(X, DIGITS % 2), scratch=tmp_path, checkpoint=tmp_path / "fit.npz")
    assert not list(tmp_path.iterdir())
    assert not hasattr(model, "coef_")


TOO_LARGE = """
import os, resource, sys
import numpy as np
from marginout import DropoutSVC, blocks

def made():
    rng = np.random.default_rng(0)
    for _ in range(10):
        X = rng.normal(size=(1000, 100))
        yield X, X[:, 0] > 0

folder, limit = sys.argv[1], int(sys.argv[2])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
model = DropoutSVC()
try:
    blocks.fit(model, made(), scratch=folder)
except OSError as error:
    print(error.errno, error, os.listdir(folder), hasattr(model, "coef_"), sep="|")
"""


@pytest.mark.parametrize("reason", ["full", "limited"])
def test_a_scratch_folder_without_room_is_named(tmp_path, reason):
    """A disk of 3 MB, mounted for one process; a process whose files may not be larger than half a block."""
    if not sys.platform.startswith("linux"):
        pytest.skip("mounts and limits are Linux's")
    command = [sys.executable, "-c", TOO_LARGE, str(tmp_path), str(400_000 if reason == "limited" else 0)]
    if reason == "full":
        mounted = f"mount -t tmpfs -o size=3m none {shlex.quote(str(tmp_path))}"
        unshared = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
        try:
            subprocess.run([*unshared, mounted], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("this user may not mount a disk")
        command = [*unshared, f"{mounted} && exec {shlex.join(command)}"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    number, message, left, fitted = run.stdout.strip().split("|")
    assert int(number) == (errno.ENOSPC if reason == "full" else errno.EFBIG)
    assert f"scratch folder {str(tmp_path)!r} has no room" in message
    assert "scratch=" in message
    assert "TMPDIR" in message
    assert (left, fitted) == ("[]", "False")


def test_weights_and_labels_of_all_blocks():
    with pytest.raises(ValueError, match="zero for every example"):
        blocks.fit(DropoutSVR(), cut(X, DIGITS, 100, weights=np.zeros(300)))
    with pytest.raises(TypeError, match="labels of several types"):
        blocks.fit(DropoutSVC(), [(X, DIGITS), (X, DIGITS.astype(str))])
