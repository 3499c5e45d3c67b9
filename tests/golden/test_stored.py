"""Models that released versions have stored: each still loads, predicts the same, and goes on.

To add a version, on its release: ``make test-oldest``, then
``.venv-oldest/bin/python tests/golden/store.py``, and commit the folder that it writes. The folders of
versions before stay as they are.
"""

from __future__ import annotations

import json
import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import InconsistentVersionWarning

import marginout
from marginout.skops import trusted_types

pd = pytest.importorskip("pandas")
skops_io = pytest.importorskip("skops.io")

from .store import answers, as_input, stem  # noqa: E402

FOLDERS = sorted(path.parent for path in Path(__file__).parent.glob("*/expected.json"))
STORED = {folder: json.loads((folder / "expected.json").read_text()) for folder in FOLDERS}
MODELS = [
    pytest.param(folder, name, id=f"{folder.name}-{name}")
    for folder in FOLDERS
    for name in STORED[folder]["models"]
]
in_python = pytest.mark.parametrize(
    ("folder", "name"), [case for case in MODELS if not case.values[1].startswith("command")]
)
by_command = pytest.mark.parametrize(
    ("folder", "name"), [case for case in MODELS if case.values[1].startswith("command")]
)


def assert_says(model, expected, said="answers"):
    """Its answers to the stored input are the stored ones, to rounding errors."""
    found = answers(model, as_input(expected["X"], expected["names"]))
    assert found.keys() == expected[said].keys()
    for method, values in expected[said].items():
        if isinstance(values[0], str):
            assert_array_equal(found[method], values)
        else:
            assert_allclose(found[method], values, rtol=1e-12, atol=1e-12, err_msg=method)


def assert_lives(model, expected):
    """It predicts as it did, can be cloned and shown, and a stream goes on as it did."""
    assert_says(model, expected)
    assert repr(clone(model)) == repr(model)
    if "more" in expected:
        X, y = as_input(expected["X"], expected["names"]), np.array(expected["more"])
        assert_says(model.partial_fit(X, y), expected, "answers after")


def minor(version):
    """1.7.2 as (1, 7)."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def skip_if_newer(folder, package, installed):
    """A file of a package's newer version need not load in an older one."""
    written = STORED[folder]["versions"][package]
    if minor(installed) < minor(written):
        pytest.skip(f"written with {package} {written}, this is {installed}")


def test_there_is_a_folder():
    assert FOLDERS


# scikit-learn marks only its own objects with a version, and store.py lets none of them into a pickle:
# there is no warning to ignore.
@in_python
def test_pickles_of_before(folder, name):
    model = pickle.loads((folder / f"{stem(name)}.pkl").read_bytes())
    assert_lives(model, STORED[folder]["models"][name])


@in_python
def test_skops_files_of_before(folder, name):
    skip_if_newer(folder, "skops", pytest.importorskip("skops").__version__)
    model = skops_io.load(folder / f"{stem(name)}.skops", trusted=trusted_types())
    assert_lives(model, STORED[folder]["models"][name])


@by_command
def test_models_of_the_command_of_before(folder, name):
    skip_if_newer(folder, "skops", pytest.importorskip("skops").__version__)
    skip_if_newer(folder, "scikit-learn", sklearn.__version__)
    with warnings.catch_warnings():
        # They hold objects of scikit-learn, too; it warns of another version, and so does the command.
        warnings.simplefilter("ignore", InconsistentVersionWarning)
        warnings.filterwarnings("ignore", ".*: fitted with", UserWarning)
        pipeline = marginout.load(folder / f"{stem(name)}.model")
    written = STORED[folder]["versions"]["scikit-learn"]
    if "imputed" in name and minor(written) != minor(sklearn.__version__):
        pytest.skip(
            f"it loads; a SimpleImputer of scikit-learn {written} need not work in {sklearn.__version__}"
        )
    assert_says(pipeline, STORED[folder]["models"][name])
