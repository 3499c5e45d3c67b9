"""NaiveBayesScaler against the ratios of scikit-learn's naive Bayes."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from marginout import DropoutLogisticRegression, NaiveBayesScaler


def counts(n=40, d=12, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    return rng.poisson(0.7, size=(n, d)).astype(float), rng.permutation(np.arange(n) % classes)


@parametrize_with_checks([NaiveBayesScaler(), NaiveBayesScaler(alpha=0.1)])
def test_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("alpha", [1.0, 0.01])
def test_ratios_are_those_of_naive_bayes(classes, alpha):
    X, y = counts(classes=classes)
    scaler = NaiveBayesScaler(alpha=alpha).fit(X, y)
    for k, ratios in zip(range(classes)[-len(scaler.log_ratios_) :], scaler.log_ratios_, strict=True):
        bayes = MultinomialNB(alpha=alpha).fit(X, y == k)
        np.testing.assert_allclose(ratios, np.diff(bayes.feature_log_prob_, axis=0)[0], rtol=1e-12)
    wanted = scaler.log_ratios_[0] if classes == 2 else np.sqrt((scaler.log_ratios_**2).mean(axis=0))
    np.testing.assert_array_equal(scaler.scale_, wanted)
    np.testing.assert_allclose(scaler.transform(X), X * wanted)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_data_stay_sparse(index, dtype):
    X, y = counts()
    rows = sp.csr_array(X.astype(dtype))
    rows.indices, rows.indptr = rows.indices.astype(index), rows.indptr.astype(index)
    rows.data.flags.writeable = False
    scaler = NaiveBayesScaler().fit(rows, y)
    scaled = scaler.transform(rows)
    assert (scaled.format, scaled.dtype, scaled.nnz) == ("csr", dtype, rows.nnz)
    np.testing.assert_allclose(scaler.scale_, NaiveBayesScaler().fit(X, y).scale_, rtol=1e-6)
    np.testing.assert_allclose(scaled.toarray(), scaler.transform(X.astype(dtype)), rtol=1e-6)


def test_a_scale_for_every_class():
    X, y = counts(n=90, classes=3)
    model = OneVsRestClassifier(make_pipeline(NaiveBayesScaler(), DropoutLogisticRegression(noise=0.3)))
    model.fit(sp.csr_array(X), y)
    for part, k in zip(model.estimators_, range(3), strict=True):
        np.testing.assert_array_equal(part[0].scale_, NaiveBayesScaler().fit(X, y).log_ratios_[k])


def test_names_and_frames():
    pd = pytest.importorskip("pandas")
    X, y = counts(d=3)
    scaler = NaiveBayesScaler().set_output(transform="pandas").fit(pd.DataFrame(X, columns=list("abc")), y)
    assert list(scaler.transform(pd.DataFrame(X, columns=list("abc"))).columns) == ["a", "b", "c"]


def test_bad_input():
    X, y = counts()
    for alpha in (0, -1, np.nan, np.inf, "1", True):
        with pytest.raises(ValueError, match="alpha="):
            NaiveBayesScaler(alpha=alpha).fit(X, y)
    with pytest.raises(
        ValueError, match=r"Negative values in data passed to X: -1.*before features are centred"
    ):
        NaiveBayesScaler().fit(X - 1, y)
    with pytest.raises(ValueError, match="y has one class, 0"):
        NaiveBayesScaler().fit(X, np.zeros(len(X), dtype=int))
    with pytest.raises(ValueError, match="Unknown label type"):
        NaiveBayesScaler().fit(X, y + 0.5)
    with pytest.raises(ValueError, match="NaN"):
        NaiveBayesScaler().fit(np.where(X > 1, np.nan, X), y)
    with pytest.raises(ValueError, match="overflow"):
        NaiveBayesScaler().fit(1e200 * X, y)
    scaler = NaiveBayesScaler().fit(X, y)
    with pytest.raises(ValueError, match="Negative values"):
        scaler.transform(-X)


def test_a_fit_that_fails_leaves_the_last_one():
    X, y = counts()
    scaler = NaiveBayesScaler().fit(X, y)
    with pytest.raises(ValueError, match="one class"):
        scaler.fit(X[:, :3], np.zeros(len(X), dtype=int))
    np.testing.assert_array_equal(scaler.transform(X), X * scaler.scale_)
    fresh = NaiveBayesScaler()
    with pytest.raises(ValueError, match="one class"):
        fresh.fit(X, np.zeros(len(X), dtype=int))
    with pytest.raises(NotFittedError):
        fresh.transform(X)


def test_skops_and_onnx():
    X, y = counts()
    skops = pytest.importorskip("skops.io")
    from marginout.skops import trusted_types

    model = make_pipeline(NaiveBayesScaler(), DropoutLogisticRegression(noise=0.3)).fit(X, y)
    loaded = skops.loads(skops.dumps(model), trusted=trusted_types())
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")
    from skl2onnx import to_onnx

    import marginout.onnx

    marginout.onnx.register()
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-5)):
        rows = X.astype(dtype)
        graph = to_onnx(model, rows[:1], options={"zipmap": False}).SerializeToString()
        found = runtime.InferenceSession(graph).run(None, {"X": rows})[1]
        np.testing.assert_allclose(found, model.predict_proba(X), rtol=tolerance)
