"""Docstrings: shared paragraphs are in place, and each is shared."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from pathlib import Path

import pytest

import marginout
from marginout.estimators import _docstrings
from marginout.estimators._docstrings import PARAGRAPHS, PLACE, documented

PUBLIC = {name: getattr(marginout, name) for name in marginout.__all__}
HERE = Path(_docstrings.__file__)
ESTIMATORS = {name: kind for name, kind in PUBLIC.items() if inspect.isclass(kind) and hasattr(kind, "fit")}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_paragraphs_are_in_place(name):
    """What Python shows of a class has the text of every paragraph that its source names."""
    kind = ESTIMATORS[name]
    named = PLACE.findall(inspect.getsource(kind))
    assert named
    assert not PLACE.search(kind.__doc__)
    shown = inspect.getdoc(kind)
    for _, group, key in named:
        assert PARAGRAPHS[group][key] in shown


def sources():
    return [path.read_text() for path in HERE.parent.glob("*.py") if path != HERE]


def test_every_paragraph_is_shared():
    """One that a single docstring names, or none, stands in the wrong place."""
    used = Counter((group, key) for source in sources() for _, group, key in PLACE.findall(source))
    once = [f"{group}.{key}" for group, keys in PARAGRAPHS.items() for key in keys if used[group, key] < 2]
    assert once == []


def test_no_paragraph_stands_twice():
    entry = re.compile(r"^    \w+ : .*\n(?:        .+\n)+", re.MULTILINE)
    entries = Counter(text for source in sources() for text in entry.findall(source))
    assert [text for text, count in entries.items() if count > 1] == []


def test_a_name_that_there_is_not_is_an_error():
    with pytest.raises(KeyError, match="mising"):
        documented(type("Model", (), {"__doc__": "A model.\n\n    {mising}\n"}))
    assert documented(type("Model", (), {})).__doc__ is None  # python -OO
