"""Docstrings: numpydoc finds what it asks for, shared paragraphs are in place, and each is shared."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate

import marginout
from marginout.estimators import _docstrings
from marginout.estimators._docstrings import PARAGRAPHS, PLACE, documented
from marginout.noise import Noise

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


# --------------------------------------------------------------------------- numpydoc

#: What holds of every docstring.
ALWAYS = {
    "GL02": "closing quotes stand in the line after a text of several lines",
    "GL03": "no double blank lines",
    "GL05": "no tabs",
    "GL06": "no unknown sections",
    "GL07": "sections are in numpydoc's order",
    "GL08": "there is a docstring",
    "SS01": "there is a summary",
    "SS03": "the summary ends with a period",
    "SS04": "the summary does not begin with a space",
    "SS06": "the summary fits in a line",
}
#: What also holds of those for users. Left out: a summary may begin with a formula or a plural (SS02, SS05),
#: a value that is returned has a name before its type (RT02), and not everything has an extended summary, an
#: example or something to see (ES01, EX01, SA01).
FOR_USERS = {
    "PR01": "all parameters are documented",
    "PR02": "and no others",
    "PR03": "in the order of the signature",
    "PR04": "with a type",
    "PR05": "which does not end with a period",
    "PR06": "and has Python's name",
    "PR07": "with a description",
    "PR08": "which begins with a capital letter",
    "PR09": "and ends with a period",
    "PR10": "with a space before the colon",
    "RT01": "what is returned is documented",
    "RT03": "with a description",
    "RT04": "which begins with a capital letter",
    "RT05": "and ends with a period",
    "YD01": "and what is yielded",
}
MODULES = ["", "blocks", "dask", "losses", "noise", "onnx", "plotting", "robustness", "skops"]


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of a class, as functions, where their docstrings are written."""
    for name in dir(kind):
        value = inspect.getattr_static(kind, name)
        value = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        value = inspect.unwrap(value) if callable(value) else value
        documented_above = value.__doc__ is None and any(
            inspect.getattr_static(base, name, value).__doc__ for base in kind.__mro__
        )
        ours = inspect.isfunction(value) and value.__module__.startswith("marginout")
        if ours and not name.startswith("_") and not documented_above:
            yield name, value


def public_objects() -> Iterator[tuple[str, Any]]:
    """Public classes and functions of the library, and members of these classes."""
    for short in MODULES:
        if short == "dask" and find_spec("distributed") is None:
            continue
        module = import_module(f"marginout.{short}".rstrip("."))
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                yield f"{module.__name__}.{name}", value
            if inspect.isclass(value):
                yield from ((f"{module.__name__}.{name}.{key}", each) for key, each in members(value))


OBJECTS = dict(public_objects())


def is_record(value: Any) -> bool:
    """Whether it is a class that holds results: its parameters are its attributes."""
    holds = inspect.isclass(value) and (hasattr(value, "_fields") or is_dataclass(value))
    return holds and not issubclass(value, Noise)


def checks(name: str, value: Any) -> set[str]:
    """The checks that are on for an object."""
    noise = name.startswith("marginout.noise.")
    # A loss, and a method of a noise, answers a question of the solvers: its summary is a formula.
    if name.startswith("marginout.losses.") or (noise and name.count(".") > 2):
        return set(ALWAYS)
    on = ALWAYS.keys() | FOR_USERS.keys()
    if inspect.isclass(value):
        # A class on Dask has the parameters of the one that it is derived from.
        inherits = "Parameters" not in value.__doc__ and "__init__" not in vars(value)
        return on - {"PR01"} if inherits or is_record(value) else on
    short = value.__doc__.count("\n") == 0 and list(inspect.signature(value).parameters) == ["self"]
    return on - {"RT01"} if short else on  # the summary is what it returns


@pytest.mark.parametrize("name", OBJECTS)
def test_numpydoc(name):
    on = checks(name, OBJECTS[name])
    assert [error for error in validate(name)["errors"] if error[0] in on] == []


@pytest.mark.parametrize("name", [name for name, value in OBJECTS.items() if inspect.isclass(value)])
def test_attributes_have_descriptions(name):
    """Those of a record are its fields, and perhaps some properties."""
    documented_ones = NumpyDocString(inspect.getdoc(OBJECTS[name]))["Attributes"]
    assert [each.name for each in documented_ones if not each.desc] == []
    if is_record(OBJECTS[name]) and not name.startswith("marginout.losses."):
        names = {each.name for each in documented_ones}
        assert set(inspect.signature(OBJECTS[name]).parameters) <= names
