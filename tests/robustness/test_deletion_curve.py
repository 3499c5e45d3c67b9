"""Deletion curves against masks made by hand, brute force over deletions, and their own promises."""

from __future__ import annotations

import itertools
import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_diabetes, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import f1_score, make_scorer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC

import marginout
from marginout.noise import Deletion, Gaussian, Poisson
from marginout.robustness import DeletionCurve, corrupt, deletion_curve, deletions
from tests.paper import DropoutSVC, LatentDropoutSVC

DIGITS, DIGIT = load_digits(return_X_y=True)
DIGITS = DIGITS / 16
TRAIN, TEST = slice(0, 600), slice(600, 900)
RATES = [0.0, 0.3, 0.8]


class Recorder(ClassifierMixin, BaseEstimator):
    """A fixed model that keeps the data it is asked about, and refuses to be fitted again."""

    def __init__(self):
        self.seen_ = []
        self.classes_ = np.array([0, 1])

    def fit(self, X, y):
        raise AssertionError("fitted again")

    partial_fit = fit

    def predict(self, X):
        self.seen_.append(X)
        return np.zeros(X.shape[0], dtype=int)


@pytest.fixture(scope="module")
def svc():
    return LinearSVC(C=0.1).fit(DIGITS[TRAIN], DIGIT[TRAIN])


ONES = np.ones((200, 30))
HALF = np.arange(200) % 2


# --------------------------------------------------------------------------- corrupt


def test_corrupt_keeps_the_container():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    array = corrupt(ONES, Deletion(0.3), random_state=0)
    assert abs(array.mean() - 0.7) < 0.03
    assert_array_equal(corrupt(ONES, 0.5, random_state=1)[0, :3] % 2, 0)
    assert_array_equal(corrupt(sp.csc_array(ONES), Deletion(0.3), random_state=0).toarray(), array)
    names = [f"f{i}" for i in range(30)]
    frame = corrupt(pandas.DataFrame(ONES, columns=names, index=range(5, 205)), Deletion(0.3), random_state=0)
    assert list(frame.columns) == names
    assert_array_equal(frame.index, range(5, 205))
    assert_array_equal(frame.to_numpy(), array)
    frame = corrupt(polars.DataFrame(dict.fromkeys(names, np.ones(200))), Deletion(0.3), random_state=0)
    assert frame.columns == names
    assert_array_equal(frame.to_numpy(), array)
    assert corrupt(ONES.astype(int).tolist(), Gaussian(1.0), random_state=0).dtype == float


def test_corrupt_refuses_what_it_cannot_do():
    with pytest.raises(ValueError, match="noise needs X >= 0, but X holds -1"):
        corrupt(-ONES, Poisson())
    with pytest.raises(ValueError, match="noise=2 must be a dropout rate"):
        corrupt(ONES, 2)
    with pytest.raises(ValueError, match="1 dimensions, but must have two"):
        corrupt(ONES[0], 0.5)
    with pytest.raises(ValueError, match="which cannot be deleted"):
        corrupt(np.array([["a", "b"]]), 0.5)
    with pytest.raises(ValueError, match="random_state='a' must be None"):
        corrupt(ONES, 0.5, random_state="a")


# --------------------------------------------------------------------------- random deletions


@pytest.mark.parametrize("storage", [np.asarray, np.float32, np.asfortranarray, sp.csr_array, sp.csc_matrix])
def test_masks_are_random_nested_and_of_the_right_rate(storage):
    model, data = Recorder(), storage(ONES)
    before = data.copy()
    deletion_curve(model, data, HALF, RATES, 3, random_state=0)
    assert len(model.seen_) == 9
    masks = [seen.toarray() if sp.issparse(seen) else seen for seen in model.seen_]
    assert all(seen.dtype == data.dtype for seen in model.seen_)
    for repeat in range(3):
        nothing, some, most = masks[3 * repeat : 3 * repeat + 3]
        assert_array_equal(nothing, 1)
        assert abs(some.mean() - 0.7) < 0.03
        assert abs(most.mean() - 0.2) < 0.03
        assert np.all(most <= some)
    assert np.abs(masks[1] - masks[4]).max() == 1
    assert (data != before).sum() == 0


def test_rescaled_survivors_and_whole_numbers():
    model = Recorder()
    deletion_curve(model, 2 * np.ones((50, 4), dtype=int), HALF[:50], [0.0, 0.5, 1.0], 1, rescale=True)
    assert set(np.unique(model.seen_[1])) == {0.0, 4.0}
    assert not model.seen_[2].any()
    model = Recorder()
    deletion_curve(model, 2 * np.ones((50, 4), dtype=int), HALF[:50], [0.5], 1)
    assert model.seen_[0].dtype == int


def test_missing_values_can_be_deleted():
    model = Recorder()
    deletion_curve(model, np.full((50, 4), np.nan), HALF[:50], [0.5, 1.0], 1, random_state=0)
    assert 0.2 < np.isnan(model.seen_[0]).mean() < 0.8
    assert not model.seen_[1].any()


@pytest.mark.parametrize(
    "groups", [np.repeat(["a", "b", "c"], 10), [list(range(10)), range(10, 20), np.arange(20, 30)]]
)
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_groups_die_together(storage, groups):
    model = Recorder()
    deletion_curve(model, storage(ONES), HALF, [0.4], 2, kind="groups", groups=groups, random_state=0)
    for seen in model.seen_:
        blocks = (seen.toarray() if sp.issparse(seen) else seen).reshape(200, 3, 10)
        assert np.all(blocks == blocks[:, :, :1])
        assert abs(blocks.mean() - 0.6) < 0.1
        assert len(np.unique(blocks[:, :, 0], axis=0)) == 8


def test_groups_of_named_features():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ONES[:, :3], columns=["a", "b", "c"])
    model = Recorder()
    deletion_curve(model, frame, HALF, [0.5], 1, kind="groups", groups=[["c", "a"], ["b"]], random_state=0)
    assert_array_equal(model.seen_[0]["a"], model.seen_[0]["c"])
    assert np.any(model.seen_[0]["a"] != model.seen_[0]["b"])


def test_scores_are_those_of_the_scorer(svc):
    curve = deletion_curve(svc, DIGITS[TEST], DIGIT[TEST], RATES, 4, random_state=0)
    assert curve.scores.shape == (3, 4)
    assert_array_equal(curve.scores[0], svc.score(DIGITS[TEST], DIGIT[TEST]))
    by_hand = [svc.score(Deletion(0.3).corrupt(DIGITS[TEST], seed), DIGIT[TEST]) for seed in range(20)]
    assert abs(curve.mean[1] - np.mean(by_hand)) < 4 * np.std(by_hand)
    assert_allclose(curve.std, curve.scores.std(axis=1, ddof=1))
    named = deletion_curve(svc, DIGITS[TEST], DIGIT[TEST], RATES, 4, random_state=0, scoring="f1_macro")
    scorer = make_scorer(f1_score, average="macro")
    called = deletion_curve(svc, DIGITS[TEST], DIGIT[TEST], RATES, 4, random_state=0, scoring=scorer)
    assert_array_equal(named.scores, called.scores)
    assert np.abs(named.scores - curve.scores).max() > 0


def test_reproducible_whatever_the_number_of_jobs(svc):
    data = DIGITS[TEST], DIGIT[TEST], RATES, 3
    one = deletion_curve(svc, *data, random_state=5)
    assert_array_equal(one.scores, deletion_curve(svc, *data, random_state=5, n_jobs=2).scores)
    assert np.any(one.scores != deletion_curve(svc, *data, random_state=6).scores)


def test_forests_frames_and_no_second_fit():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    names = [f"pixel {i}" for i in range(64)]
    frame = pandas.DataFrame(DIGITS, columns=names)
    forest = RandomForestClassifier(20, random_state=0).fit(frame[TRAIN], DIGIT[TRAIN])
    state, values = pickle.dumps(forest), frame.copy()
    curve = deletion_curve(forest, frame[TEST], DIGIT[TEST], RATES, 2, random_state=0)
    assert pickle.dumps(forest) == state
    pandas.testing.assert_frame_equal(frame, values)
    assert curve.mean[0] > curve.mean[1] > curve.mean[2]
    model = LogisticRegression(max_iter=1000).fit(frame[TRAIN], DIGIT[TRAIN])
    one = deletion_curve(model, frame[TEST], DIGIT[TEST], RATES, 2, random_state=0)
    other = deletion_curve(model, polars.DataFrame(frame[TEST]), DIGIT[TEST], RATES, 2, random_state=0)
    assert_array_equal(one.scores, other.scores)


def test_regressors():
    X, y = load_diabetes(return_X_y=True)
    curve = deletion_curve(Ridge(0.1).fit(X, y), X, y, RATES, 3, random_state=0)
    assert curve.mean[0] > curve.mean[1] > curve.mean[2]
    assert "R²" in str(curve)


# --------------------------------------------------------------------------- pipelines

WORDS = ["good great fine", "bad awful poor", "great fine good good", "poor bad bad awful"] * 10
MOODS = np.array([1, 0, 1, 0] * 10)


class TextRecorder(Recorder):
    def predict(self, X):
        self.seen_.append(X)
        return np.zeros(X.shape[0] if hasattr(X, "shape") else len(X), dtype=int)


def test_features_die_before_or_after_a_step():
    """Counts die before tf-idf, whose rows stay of length one; or its outcome does, and they do not."""
    counts = CountVectorizer().fit_transform(WORDS)
    pipeline = make_pipeline(TfidfTransformer(), DropoutSVC()).fit(counts, MOODS)
    recorder = TextRecorder()
    pipeline.steps[-1] = ("last", recorder)
    deletion_curve(pipeline, counts, MOODS, [0.5], 1, random_state=0)
    lengths = sp.linalg.norm(recorder.seen_.pop(), axis=1)
    assert_allclose(lengths[lengths > 0], 1.0)
    for step in ("last", 1, -1):
        deletion_curve(pipeline, counts, MOODS, [0.5], 1, random_state=0, step=step)
        lengths = sp.linalg.norm(recorder.seen_.pop(), axis=1)
        assert lengths.min() < 0.9


def test_texts_lose_features_or_words():
    pipeline = make_pipeline(TfidfVectorizer(), DropoutSVC()).fit(WORDS, MOODS)
    before = list(WORDS)
    after = deletion_curve(pipeline, WORDS, MOODS, [0.0, 0.5, 1.0], 3, random_state=0)
    words = deletion_curve(pipeline, WORDS, MOODS, [0.0, 0.5, 1.0], 3, random_state=0, step="tfidfvectorizer")
    assert before == WORDS
    for curve in (after, words):
        assert curve.mean[0] == 1.0
        assert 0.5 < curve.mean[1] < 1.0
        assert curve.mean[2] == 0.5
    assert after.estimator_name == "DropoutSVC"
    recorder = TextRecorder()
    pipeline.steps[-1] = ("last", recorder)
    deletion_curve(pipeline, np.array(WORDS), MOODS, [0.5], 1, random_state=0, step=0)
    kept = recorder.seen_[0].toarray() > 0
    assert 0.3 < kept.sum() / (3 * 40) < 0.7


def test_a_word_dies_in_upper_and_lower_case_alike():
    texts = [f"Word{k} wOrd{k} word{k}" for k in range(40)]
    pipeline = make_pipeline(CountVectorizer(), DropoutSVC()).fit(texts, [0, 1] * 20)
    pipeline.steps[-1] = ("last", recorder := TextRecorder())
    deletion_curve(pipeline, texts, [0, 1] * 20, [0.5], 1, random_state=0, step=0)
    counts = recorder.seen_[0].toarray().sum(axis=1)
    assert set(counts) == {0, 3}


def test_groups_may_mix_names_and_numbers():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(DIGITS[TEST][:50], columns=[f"p{k}" for k in range(64)])
    model = LinearSVC(random_state=0).fit(frame, DIGIT[TEST][:50])
    mixed, plain = (
        deletion_curve(model, frame, DIGIT[TEST][:50], [0.5], 2, kind="groups", groups=groups, random_state=0)
        for groups in ([["p0", 1, "p2"], list(range(3, 64))], [[0, 1, 2], list(range(3, 64))])
    )
    assert_array_equal(mixed.scores, plain.scores)


def test_texts_that_are_cleaned_before_they_are_vectorised():
    clean = FunctionTransformer(lambda texts: [text.upper() for text in texts])
    pipeline = make_pipeline(clean, CountVectorizer(), DropoutSVC()).fit(WORDS, MOODS)
    after = deletion_curve(pipeline, WORDS, MOODS, [0.0, 0.5], 2, random_state=0)
    named = deletion_curve(pipeline, WORDS, MOODS, [0.0, 0.5], 2, random_state=0, step="dropoutsvc")
    assert_array_equal(after.scores, named.scores)
    words = deletion_curve(pipeline, WORDS, MOODS, [0.0, 0.5, 1.0], 2, random_state=0, step="countvectorizer")
    assert words.mean[0] == 1.0
    assert words.mean[2] == 0.5


def test_steps_that_work_in_place_leave_the_input_alone():
    X = DIGITS[TEST].copy()
    pipeline = make_pipeline(StandardScaler(copy=False), LinearSVC(C=0.01)).fit(X.copy(), DIGIT[TEST])
    for parameters in ({}, {"step": 1}, {"kind": "worst"}):
        deletion_curve(pipeline, X, DIGIT[TEST], [0.0, 0.5], 1, **parameters)
        assert_array_equal(X, DIGITS[TEST])


def test_entries_stored_in_parts_die_as_one():
    X = sp.csr_matrix((np.ones(400), np.tile([0, 0, 1, 1], 100), np.arange(0, 401, 4)), shape=(100, 2))
    recorder = Recorder()
    deletion_curve(recorder, X, np.arange(100) % 2, [0.5], 1, random_state=0)
    assert_array_equal(np.unique(recorder.seen_[0].toarray()), [0.0, 2.0])
    assert X.nnz == 400


def test_missing_values_of_pandas():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": pd.array([1, None] * 20, dtype="Int64"), "b": np.arange(40)})
    recorder = Recorder()
    deletion_curve(recorder, frame, np.arange(40) % 2, [0.0], 1)
    assert_array_equal(recorder.seen_[0]["a"], [1.0, np.nan] * 20)
    assert_array_equal(recorder.seen_[0]["b"], np.arange(40))


# --------------------------------------------------------------------------- the worst case


def worst_margin(W, b, x, y, K):
    """The smallest margin that is left by any deletion of up to K features."""
    best = np.inf
    for k in range(K + 1):
        for gone in itertools.combinations(range(len(x)), k):
            scores = W @ np.where(np.isin(np.arange(len(x)), gone), 0.0, x) + b
            best = min(best, scores[y] - np.delete(scores, y).max())
    return best


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_worst_deletions_are_those_of_brute_force(n_classes, storage, monkeypatch):
    monkeypatch.setattr(deletions, "WORST_BLOCK", 60)  # several blocks
    rng = np.random.default_rng(0)
    X = rng.normal(size=(25, 6)) * (rng.random((25, 6)) < 0.8)
    y = rng.integers(0, n_classes, 25)
    model = LogisticRegression(C=10.0).fit(X, y)
    W, b = model.coef_, model.intercept_
    if n_classes == 2:
        W, b = np.vstack([0 * W, W]), np.array([0.0, b[0]])
    recorder = LinearRecorder(model)
    rates = [0.0, 0.2, 0.5]
    curve = deletion_curve(recorder, storage(X), y, rates, 7, kind="worst", random_state=0)
    assert curve.scores.shape == (3, 1)
    recorder.seen_.pop(0)  # the check that the model is linear
    for rate, seen in zip(rates, recorder.seen_, strict=True):
        seen = seen.toarray() if sp.issparse(seen) else seen
        for n in range(25):
            K = int(np.floor(rate * np.count_nonzero(X[n]) + 0.5))
            assert np.count_nonzero(seen[n] != X[n]) <= K
            scores = W @ seen[n] + b
            margin = scores[y[n]] - np.delete(scores, y[n]).max()
            assert_allclose(margin, worst_margin(W, b, X[n], y[n], K), atol=1e-12)


class LinearRecorder(ClassifierMixin, BaseEstimator):
    def __init__(self, model):
        self.model, self.seen_ = model, []
        self.coef_, self.intercept_, self.classes_ = model.coef_, model.intercept_, model.classes_

    def fit(self, X, y):
        raise AssertionError("fitted again")

    def predict(self, X):
        self.seen_.append(X)
        return self.model.predict(X)


def test_the_worst_case_keeps_no_copy_of_the_data_per_rate(svc, monkeypatch):
    monkeypatch.setattr(deletions, "WORST_BLOCK", 10_000)
    X, y = DIGITS[TEST], DIGIT[TEST]
    peaks = []
    for count in (1, 40):
        tracemalloc.start()
        deletion_curve(svc, X, y, np.linspace(0.1, 0.5, count), kind="worst")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 15 * X.nbytes


def test_worst_deletions_of_a_regressor():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 6)), rng.normal(size=20)
    model = LinearRegression().fit(X, y)
    curve = deletion_curve(model, X, y, [0.5], kind="worst", scoring="neg_mean_squared_error")
    residuals = [
        max(
            abs(model.coef_ @ np.where(np.isin(np.arange(6), gone), 0.0, x) + model.intercept_ - target)
            for k in range(4)
            for gone in itertools.combinations(range(6), k)
        )
        for x, target in zip(X, y, strict=True)
    ]
    assert_allclose(curve.mean[0], -np.mean(np.square(residuals)))


def test_the_worst_case_of_a_pipeline_is_that_of_its_last_step():
    pipeline = make_pipeline(StandardScaler(with_mean=False), LinearSVC(C=0.01))
    pipeline.fit(DIGITS[TRAIN], DIGIT[TRAIN])
    rates = [0.02, 0.05]
    whole = deletion_curve(pipeline, DIGITS[TEST], DIGIT[TEST], rates, kind="worst")
    scaled = pipeline[:-1].transform(DIGITS[TEST])
    part = deletion_curve(pipeline[-1], scaled, DIGIT[TEST], rates, kind="worst")
    assert_array_equal(whole.scores, part.scores)
    random = deletion_curve(pipeline, DIGITS[TEST], DIGIT[TEST], rates, random_state=0)
    assert np.all(whole.mean < random.mean)


# --------------------------------------------------------------------------- the result


def test_the_curve_prints_and_becomes_a_frame(svc):
    curve = deletion_curve(svc, DIGITS[TEST], DIGIT[TEST], RATES, 3, random_state=0)
    lines = str(curve).splitlines()
    assert lines[0] == "LinearSVC: accuracy, random deletion, 3 repeats"
    assert lines[1].split() == ["rate", "mean", "std", "min", "max"]
    assert [float(value) for value in lines[3].split()][:2] == [0.3, round(curve.mean[1], 4)]
    assert repr(curve) == str(curve)
    frame = curve.to_frame()
    assert list(frame.columns) == ["rate", "mean", "std", "min", "max"]
    assert_array_equal(frame["mean"], curve.mean)
    assert isinstance(pickle.loads(pickle.dumps(curve)), DeletionCurve)


def test_the_worst_case_of_a_pipeline_of_one_step_and_of_targets_in_a_column(svc):
    X, y = DIGITS[TEST], DIGIT[TEST]
    plain = deletion_curve(svc, X, y, RATES, kind="worst")
    assert_array_equal(deletion_curve(Pipeline([("a", svc)]), X, y, RATES, kind="worst").scores, plain.scores)
    assert_array_equal(deletion_curve(svc, X, y[:, None], RATES, kind="worst").scores, plain.scores)
    ridge = Ridge().fit(X, y)
    flat = deletion_curve(ridge, X, y, RATES, kind="worst")
    assert_array_equal(deletion_curve(ridge, X, y[:, None], RATES, kind="worst").scores, flat.scores)


# --------------------------------------------------------------------------- bad input

BAD = [
    ({"rates": ["0.5"]}, "must be numbers in"),
    ({"scoring": ["accuracy"]}, "must be one scorer"),
    ({"kind": "groups", "groups": [{0, 1}, {1, 2}] + [{3}] * 62}, "groups overlap"),
    (
        {"kind": "groups", "groups": [None] + [1] * 63},
        "not cover all features: that of feature 0 is None",
    ),
    ({"kind": "groups", "groups": [np.nan] + [1] * 63}, "not cover all features: that of feature 0 is"),
    ({"rates": [1.5]}, r"rates=\[1.5\] must be numbers in \[0, 1\]"),
    ({"rates": [-0.1]}, "must be numbers in"),
    ({"rates": []}, "at least one of them"),
    ({"rates": ["a"]}, "must be numbers in"),
    ({"rates": [np.nan]}, "must be numbers in"),
    ({"n_repeats": 0}, "n_repeats=0 must be a whole number >= 1"),
    ({"kind": "all"}, "kind='all' must be one of 'random', 'worst', 'groups'"),
    ({"rescale": 1}, "rescale=1 must be True or False"),
    ({"random_state": -1}, "random_state=-1 must be None"),
    ({"scoring": "nonsense"}, "nonsense"),
    ({"step": "clf"}, "step='clf' needs a pipeline"),
    ({"groups": np.zeros(64)}, "must be None for kind='random'"),
    ({"kind": "groups"}, "groups=None must be given for kind='groups'"),
    ({"kind": "groups", "groups": np.zeros(3)}, r"groups has shape \(3,\) but X has 64 features"),
    ({"kind": "groups", "groups": [[0, 1], [1, 2]]}, "groups overlap: feature .*1.* is in groups 0 and 1"),
    ({"kind": "groups", "groups": [[0, 1], [2, 3]]}, "groups do not cover all features: 60 are in none"),
    ({"kind": "groups", "groups": [[0, 64]]}, "names feature .*64.*, which X does not have"),
    ({"kind": "groups", "groups": [["a"]]}, "names feature .*'a'.*, which X does not have"),
]


@pytest.mark.parametrize(
    ("parameters", "match"), BAD, ids=lambda value: value if isinstance(value, str) else ""
)
def test_bad_parameters(svc, parameters, match):
    with pytest.raises(ValueError, match=match):
        deletion_curve(svc, DIGITS[TEST], DIGIT[TEST], **parameters)


def test_bad_models_and_data(svc):
    X, y = DIGITS[TEST], DIGIT[TEST]
    with pytest.raises(NotFittedError):
        deletion_curve(LinearSVC(), X, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        deletion_curve(svc, X[:-1], y)
    forest = RandomForestClassifier(2, random_state=0).fit(X, y)
    latent = LatentDropoutSVC(3, noise=0.0, random_state=0, tol=0.1).fit(X, y)
    with pytest.raises(ValueError, match=r"needs a linear model.*3 weights a row for 64 features"):
        deletion_curve(latent, X, y, kind="worst")
    with pytest.raises(ValueError, match="needs a linear model"):
        deletion_curve(forest, X, y, kind="worst")
    pairs = SVC(kernel="linear").fit(X[y < 3], y[y < 3])  # three classes, three pairs of them
    with pytest.raises(ValueError, match="of one row per class"):
        deletion_curve(pairs, X[y < 3], y[y < 3], kind="worst")
    with pytest.raises(ValueError, match="none of the model's classes"):
        deletion_curve(svc, X, y + 1, kind="worst")
    pipeline = make_pipeline(StandardScaler(), LinearSVC(C=0.01)).fit(X, y)
    with pytest.raises(ValueError, match="step='nothing' must be the name or the number of a step"):
        deletion_curve(pipeline, X, y, step="nothing")
    with pytest.raises(ValueError, match="step=0 must be None or the last step"):
        deletion_curve(pipeline, X, y, step=0, kind="worst")
    texts = make_pipeline(TfidfVectorizer(), LinearSVC()).fit(WORDS, MOODS)
    with pytest.raises(ValueError, match="rescale=True needs numbers, but X are texts"):
        deletion_curve(texts, WORDS, MOODS, step=0, rescale=True)


def test_pickles_of_results_name_the_package():
    """Results stored when `marginout.robustness` was one module are found by that name."""
    for name in ("DeletionCurve", "GroupImpact"):
        stored = f"cmarginout.robustness\n{name}\n.".encode()
        assert pickle.loads(stored) is getattr(marginout.robustness, name)
