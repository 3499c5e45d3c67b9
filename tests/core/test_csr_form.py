"""CSR matrices that are not what their flags say, or no matrices: nothing reads or writes beyond them."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier

from marginout import ExplicitCorruptionClassifier, FeatureDeletionSVC, MCFClassifier
from marginout._core.validation import canonical, tidy
from marginout._kernels import _passes
from marginout.blocks import fit as fit_blocks
from marginout.noise import Dropout, GroupDropout
from tests.paper import DropoutLogisticRegression, DropoutSVC, DropoutSVCCV, DropoutSVR, LatentDropoutSVC

N, D, TIMES = 40, 6, 5
GROUPS = np.arange(D) // 3
RNG = np.random.default_rng(0)
X = RNG.poisson(1.0, size=(N, D)).astype(float)
SCORES = (X - 1.0) @ RNG.normal(size=D) + 0.1 * RNG.normal(size=N)
LABELS = (SCORES > 0).astype(int)

MODELS = [
    DropoutSVC(noise=GroupDropout(GROUPS, 0.3)),
    DropoutSVC(noise=0.3),
    DropoutSVC(noise=0.0),
    DropoutSVR(noise=GroupDropout(GROUPS, 0.3)),
    DropoutLogisticRegression(noise=0.3, solver="irls"),
    DropoutSVCCV(Cs=(0.1, 1.0), noises=(0.1, 0.3, 0.5), cv=2),
    MCFClassifier("logistic"),
    MCFClassifier("exponential", noise=GroupDropout(GROUPS, 0.3)),
    FeatureDeletionSVC(n_deletions=2),
    LatentDropoutSVC(n_hidden=2, max_iter=5, random_state=0, noise=GroupDropout(GROUPS, 0.3)),
]
each_model = pytest.mark.parametrize("model", MODELS, ids=repr)


def target(model):
    return LABELS if is_classifier(model) else SCORES


def parts(X, times: int = TIMES):
    """X as a CSR matrix whose every entry is stored in equal parts, its rows longer than wide."""
    n, d = X.shape
    indices = np.tile(np.repeat(np.arange(d), times), n)
    data = np.repeat(X.ravel(), times) / times
    return sp.csr_array((data, indices, np.arange(n + 1) * d * times), shape=X.shape)


def stale(X):
    """The same, for a canonical matrix by its flags."""
    broken = parts(X)
    broken.has_canonical_format = True
    assert broken.has_canonical_format
    assert np.diff(broken.indptr).max() > X.shape[1]
    return broken


@each_model
@pytest.mark.filterwarnings("ignore:Stopped at max_iter", "ignore:The best")
def test_flags_are_not_trusted(model):
    """Rows in parts, longer than any buffer of n_features, are the rows of their sums."""
    sparse, y = stale(X), target(model)
    before = copy.deepcopy(sparse)
    fitted, wanted = clone(model).fit(sparse, y), clone(model).fit(sp.csr_array(X), y)
    assert_allclose(fitted.coef_, wanted.coef_, rtol=1e-9)
    scores = "decision_function" if is_classifier(model) else "predict"
    assert_allclose(getattr(fitted, scores)(sparse), getattr(wanted, scores)(X), rtol=1e-9)
    for name in "data", "indices", "indptr":
        assert_array_equal(getattr(sparse, name), getattr(before, name))


@pytest.mark.parametrize("model", MODELS[:4], ids=repr)
def test_flags_are_not_trusted_in_streams_and_blocks(model):
    y = target(model)
    classes = {"classes": [0, 1]} if is_classifier(model) else {}
    stream, wanted = (clone(model).partial_fit(given, y, **classes) for given in (stale(X), X))
    assert_allclose(stream.coef_, wanted.coef_, rtol=1e-9)
    blocks = fit_blocks(clone(model), [(stale(X[:20]), y[:20]), (stale(X[20:]), y[20:])])
    assert_allclose(
        blocks.coef_, fit_blocks(clone(model), [(X[:20], y[:20]), (X[20:], y[20:])]).coef_, rtol=1e-9
    )


def spoil(name, change):
    def make():
        broken = sp.csr_array(X)
        array = getattr(broken, name).copy()
        setattr(broken, name, change(array))
        return broken

    return make


def with_entry(at, value):
    def change(array):
        array[at] = value
        return array

    return change


BROKEN = {
    "an index beyond": spoil("indices", with_entry(3, D)),
    "an index far beyond": spoil("indices", with_entry(3, 2**30)),
    "a negative index": spoil("indices", with_entry(3, -1)),
    "indptr falls": spoil("indptr", with_entry(3, 0)),
    "indptr leaves the arrays": spoil("indptr", with_entry(-1, 10 * N * D)),
    "indptr leaves and comes back": spoil("indptr", with_entry(3, 10 * N * D)),
    "indptr starts late": spoil("indptr", with_entry(0, 2)),
    "indptr is short": spoil("indptr", lambda indptr: indptr[:-1]),
    "indptr is empty": spoil("indptr", lambda indptr: indptr[:0]),
    "data are short": spoil("data", lambda data: data[:-1]),
    "indices are short": spoil("indices", lambda indices: indices[:-1]),
}


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("wide", [np.int32, np.int64])
def test_what_is_no_matrix_is_refused(broken, wide):
    given = BROKEN[broken]()
    given.indices, given.indptr = given.indices.astype(wide), given.indptr.astype(wide)
    with pytest.raises(ValueError, match="no valid CSR matrix"):
        canonical(given)


@each_model
@pytest.mark.filterwarnings("ignore:Stopped at max_iter", "ignore:The best")
def test_no_model_reads_beyond_a_matrix(model):
    y = target(model)
    fitted = clone(model).fit(X, y)
    for broken in ("an index far beyond", "indptr leaves and comes back"):
        with pytest.raises(ValueError, match="no valid CSR matrix"):
            clone(model).fit(BROKEN[broken](), y)
        with pytest.raises(ValueError, match="no valid CSR matrix"):
            fitted.predict(BROKEN[broken]())


def test_explicit_copies_read_nothing_beyond_a_matrix():
    model = ExplicitCorruptionClassifier(DropoutSVC(noise=0.0), noise=0.3, n_copies=2, random_state=0)
    with pytest.raises(ValueError, match="no valid CSR matrix"):
        model.fit(BROKEN["an index far beyond"](), LABELS)
    with pytest.raises(ValueError, match="no valid CSR matrix"):
        model.fit(X, LABELS).predict(BROKEN["an index far beyond"]())


@pytest.mark.parametrize("wide", [np.int32, np.int64])
def test_sound_matrices_are_not_copied(wide):
    given = sp.csr_array(X)
    given.indices, given.indptr = given.indices.astype(wide), given.indptr.astype(wide)
    assert canonical(given) is given
    assert tidy(given) is given


@pytest.mark.parametrize("wide", [np.int32, np.int64])
def test_order_within_rows_of_any_length(wide):
    """Empty rows and rows of one entry: what falls from one row to the next is in order."""
    rng = np.random.default_rng(0)
    for trial in range(300):
        lengths = rng.integers(0, 4, size=6) * rng.integers(0, 2, size=6)
        rows = [rng.choice(9, size=k, replace=bool(trial % 2)) for k in lengths]
        rows = [np.sort(row) if trial % 3 else row for row in rows]
        indices = np.concatenate(rows).astype(wide)
        indptr = np.cumsum([0, *lengths]).astype(wide)
        ascend = all((np.diff(row) > 0).all() for row in rows)
        assert _passes.csr_form(indices, indptr, 9, len(indices)) == (True, ascend)
        inside = not (indices > 7).any()
        assert _passes.csr_form(indices, indptr, 8, len(indices))[0] == inside


@pytest.mark.parametrize("kinds", [(np.int32, np.int64), (np.int64, np.int32), (np.int16, np.int16)])
def test_indices_of_any_kind(kinds):
    given = sp.csr_array(X)
    given.indices, given.indptr = given.indices.astype(kinds[0]), given.indptr.astype(kinds[1])
    made = canonical(given)
    assert made.indices.dtype == made.indptr.dtype == np.int64
    assert_array_equal(made.toarray(), X)
    assert given.indices.dtype == kinds[0]


def test_room_behind_the_last_entry_and_strides():
    given, sound = sp.csr_array(X), sp.csr_array(X)
    given.data = np.repeat(np.append(given.data, [7.0, 7.0]), 2)[::2]
    given.indices = np.append(given.indices, np.array([2**30, -1], given.indices.dtype))
    made = canonical(given)
    for name in "data", "indices", "indptr":
        assert_array_equal(getattr(made, name), getattr(sound, name))
        assert getattr(made, name).flags.c_contiguous


def shorten(stream, name):
    if name == "features":
        stream.lines = stream.lines[:-2].copy()
    elif name == "sums":
        stream.sums = stream.sums[:3].copy()
    elif name == "problems":
        stream.lines, stream.sums = stream.lines[:, :-5].copy(), stream.sums[:, :-1].copy()
    elif name == "groups":
        stream.moments = stream.moments._replace(groups=stream.moments.groups[:-1])
    elif name == "group":
        groups = stream.moments.groups.copy()
        groups[0] = 10**6
        stream.moments = stream.moments._replace(groups=groups)
    else:
        stream.moments = stream.moments._replace(**{name: getattr(stream.moments, name)[:-1]})


@pytest.mark.parametrize("name", ["features", "sums", "problems", "scale", "coefficient", "groups", "group"])
def test_a_shorter_state_of_a_stream_is_refused(name):
    """A file may hold anything: the kernel would follow it out of its arrays."""
    y = np.arange(N) % 3
    noise = (
        GroupDropout(GROUPS, [0.2, 0.3]) if name.startswith("group") else Dropout(np.linspace(0.1, 0.5, D))
    )
    model = DropoutSVC(noise=noise).partial_fit(X, y, classes=[0, 1, 2])
    before = model.coef_.copy()
    shorten(model._stream, name)
    with pytest.raises(ValueError, match="state of this stream has arrays of shapes"):
        model.partial_fit(X, y)
    assert_array_equal(model.coef_, before)
