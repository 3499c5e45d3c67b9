"""Readers of svmlight, npz and Parquet: one implementation for `marginout.blocks` and for the command."""

import io

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.datasets import load_svmlight_file

from marginout import blocks
from marginout._blocks import readers


def svmlight(path, text, n_features=3, **options):
    path.write_text(text)
    return list(blocks.read_svmlight(path, n_features, **options))


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
@pytest.mark.parametrize("base", [0, 1])
def test_svmlight_is_what_scikit_learn_reads(tmp_path, monkeypatch, piece, base):
    monkeypatch.setattr(readers, "PIECE", piece)
    rng = np.random.default_rng(0)
    lines = ["# a comment"]
    for row in range(60):
        columns = np.sort(rng.choice(40, row % 9, replace=False)) + base
        cells = [f"{c}:{v!r}" for c, v in zip(columns, rng.normal(size=len(columns)).tolist(), strict=True)]
        lines.append(f"{rng.integers(-1, 2):+d} qid:3 {' '.join(cells)} # note")
    text = "\n".join(lines)
    X, y = load_svmlight_file(io.BytesIO(text.encode()), n_features=40, zero_based=base == 0)
    parts = svmlight(tmp_path / "a.svm", text, 40, zero_based=base == 0, block_bytes=500)
    assert len(parts) > 3
    assert_array_equal(sp.vstack([part for part, _ in parts]).toarray(), X.toarray())
    assert_array_equal(np.concatenate([labels for _, labels in parts]), y)


def test_svmlight_may_hold_nan_for_models_that_take_it(tmp_path):
    ((X, y),) = svmlight(tmp_path / "a.svm", "1 1:nan 3:2\n-1 2:inf\n")
    assert_array_equal(X.toarray(), [[np.nan, 0, 2], [0, np.inf, 0]])
    assert y.tolist() == [1, -1]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("1 1:2\n1 2:x 3:1\n", {}, r"a.svm': line 2: '2:x' is not index:value"),
        ("1 1:2\n# no row\n1 2:1\n1:1\n", {"block_bytes": 1}, r"a.svm': line 4: '1:1' is not a number"),
        ("1 0:2\n", {}, "a feature has the number 0: set zero_based=True"),
        ("1 4:2\n", {}, "it has the feature number 4, counted from 1, but n_features=3: raise it"),
        ("1 3:2\n", {"zero_based": True}, "feature number 3, counted from 0, but n_features=3: raise it"),
        ("1 4294967296:2\n", {}, "the index 4294967296 is larger than 2147483647"),
        ("1 1.5:2\n", {}, "'1.5:2' is not index:value"),
        ("1 1:2\n", {"n_features": 0}, "n_features=0 must be"),
        ("1 1:2\n", {"zero_based": "auto"}, "zero_based='auto' must be True or False"),
        ("1 1:2\n", {"block_bytes": 0}, "block_bytes=0 must be"),
    ],
)
def test_svmlight_that_is_wrong(tmp_path, text, options, message):
    with pytest.raises(ValueError, match=message):
        svmlight(tmp_path / "a.svm", text, **options)


def test_npz_of_images_and_of_whole_numbers(tmp_path):
    images = np.arange(24).reshape(2, 3, 4)
    np.savez(tmp_path / "a.npz", X=images, y=[0, 1], sample_weight=[1.0, 2.0])
    ((X, y, weights),) = blocks.read_npz(tmp_path / "a.npz")
    assert X.dtype == np.float64
    assert_array_equal(X, images.reshape(2, 12))
    assert y.tolist() == [0, 1]
    assert weights.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": [0, 1], "Z": [1]}, "it holds y, Z, but features are read from X or data, indices"),
        ({"X": [[1.0], [2.0]]}, "it holds X, but no y: add the targets as y"),
        ({"X": [["a"], ["b"]], "y": [0, 1]}, "the features are of type <U1: they must be numbers"),
        ({"X": np.array([[None]]), "y": [0]}, "it is no npz of plain arrays"),
        (
            {"data": [1.0], "indices": [7], "indptr": [0, 1], "shape": [1, 2], "y": [0]},
            "data, indices, indptr and shape make no CSR matrix",
        ),
    ],
)
def test_npz_that_is_wrong(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ValueError, match=f"a.npz': {message}"):
        next(blocks.read_npz(tmp_path / "a.npz"))


def test_npz_that_is_none(tmp_path):
    np.save(tmp_path / "a.npy", np.ones(3))
    with pytest.raises(ValueError, match="it is a single array, not an npz"):
        next(blocks.read_npz(tmp_path / "a.npy"))
    (tmp_path / "b.npz").write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(ValueError, match="it is no npz of plain arrays"):
        next(blocks.read_npz(tmp_path / "b.npz"))
    with pytest.raises(FileNotFoundError):
        next(blocks.read_npz(tmp_path / "none.npz"))


def test_parquet_in_blocks_is_the_whole_table(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    table = pd.DataFrame({"a": np.arange(10.0), "b": list("xyxyxyxyxy"), "y": np.arange(10) % 2})
    table.to_parquet(tmp_path / "a.parquet")
    (whole,) = readers.parquet_frames(str(tmp_path / "a.parquet"))
    pd.testing.assert_frame_equal(whole, table)
    parts = list(blocks.read_parquet(tmp_path / "a.parquet", "y", block_rows=4))
    assert [len(y) for _, y in parts] == [4, 4, 2]
    pd.testing.assert_frame_equal(pd.concat([X for X, _ in parts], ignore_index=True), table[["a", "b"]])
    with pytest.raises(ValueError, match="block_rows=0 must be"):
        next(blocks.read_parquet(tmp_path / "a.parquet", "y", block_rows=0))
