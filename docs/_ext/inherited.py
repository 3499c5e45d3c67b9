"""Docstrings that are inherited from scikit-learn: labels of its own pages become plain text."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

#: :ref:`text <label>` and :term:`text`; the label stands on pages that cannot be looked up without a network.
LABEL = re.compile(r":(?:ref|term):`([^`<]+?)\s*(?:<[^`]*>)?`")


def plain(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    if (getattr(obj, "__module__", None) or "").startswith("sklearn."):
        lines[:] = LABEL.sub(r"\1", "\n".join(lines)).split("\n")


def setup(app: Sphinx) -> dict[str, bool]:
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", plain)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
