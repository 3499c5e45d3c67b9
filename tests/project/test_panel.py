"""The panel of tables: halves that nothing moves, folds that leak nothing, and differences that are right."""

from zlib import crc32

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from benchmarks import panel
from benchmarks.options import Options
from benchmarks.panel import DEVELOPMENT, HELD_OUT, SEEN, TABLES, TEXTS, Table, half
from benchmarks.problems import DataMissingError
from benchmarks.sections import tables

IRIS = next(table for table in TABLES if table.name == "iris")
DIABETES = next(table for table in TABLES if table.name == "diabetes")


def test_the_half_of_a_data_set_follows_from_its_name():
    names = [each.name for each in (*TABLES, *TEXTS)]
    assert len(set(names)) == len(names)
    assert set(names) >= SEEN
    for name in names:
        assert half(name) == (DEVELOPMENT if name in SEEN or crc32(name.encode()) % 2 == 0 else HELD_OUT)
    for part in (DEVELOPMENT, HELD_OUT):
        regressions = [table.regression for table in panel.of(TABLES, part)]
        assert sum(regressions) >= 7
        assert len(regressions) - sum(regressions) >= 12
        assert len(panel.of(TEXTS, part)) >= 5


@pytest.mark.parametrize("table", [IRIS, DIABETES], ids=["classes", "numbers"])
def test_folds_are_scaled_by_their_training_part(table):
    splits = table.splits(folds=5, rows=100)
    assert sum(len(split.y_test) for split in splits) == 100
    for split in splits:
        np.testing.assert_allclose(split.X.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(split.X.std(axis=0), 1)
        assert np.abs(split.X_test.mean(axis=0)).max() > 1e-3
        if table.regression:
            np.testing.assert_allclose([split.y.mean(), split.y.std()], [0, 1], atol=1e-12)


def test_a_package_that_is_missing_is_named():
    with pytest.raises(DataMissingError, match=r"no_such_package is needed: pip install '\.\[bench\]'"):
        Table("t", "no_such_package", "t.csv", "y").splits()


def test_differences_are_those_of_accuracy_and_of_r2():
    """A peer that is known: the same rows, wrong or not, and squared errors over those of the mean."""
    report = tables._panel(DEVELOPMENT, tables.CLASSIFIERS, {}, {}, Options(quick=True, timed=False))
    rows = {(row.problem, row.model, row.peer): row for row in report.rows}
    ours, peer = rows["iris", "DropoutSVC", None], rows["iris", "LinearSVC", None]
    apart = rows["iris", "DropoutSVC", "LinearSVC"]
    assert apart.difference == pytest.approx(100 * (peer.test_error - ours.test_error))
    assert apart.low <= apart.difference <= apart.high
    assert rows["tables", "DropoutSVC", "LinearSVC"].difference == pytest.approx(apart.difference)
    assert all(row.cpu_s is None and row.cpu_ratio_to_peer is None for row in report.rows)
    splits = DIABETES.splits()
    result = tables._race({"ridge": (Ridge, ())}, splits)["ridge"]
    models = [Ridge().fit(split.X, split.y) for split in splits]
    errors = [(m.predict(s.X_test) - s.y_test) ** 2 for m, s in zip(models, splits, strict=True)]
    shares = [len(s.y_test) * np.mean(e) / np.mean(s.y_test**2) for e, s in zip(errors, splits, strict=True)]
    assert result.costs.mean() == pytest.approx(sum(shares) / 442)


def test_the_balanced_error_weighs_classes_alike():
    result = tables.Result(np.array([1.0, 0, 0, 0, 1, 0]), np.array([0, 1, 1, 1, 1, 1]), 0.0, False)
    assert result.balanced() == pytest.approx((1 + 1 / 5) / 2)
