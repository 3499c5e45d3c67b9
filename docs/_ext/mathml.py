"""Formulas as MathML, made when the pages are built: reading them needs no script and no network."""

from __future__ import annotations

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def _mathml(tex: str, display: str) -> str:
    if r"\\" in tex:
        tex = rf"\begin{{align*}}{tex}\end{{align*}}"
    return str(convert(tex, display=display))


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(_mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def visit_block(self: HTML5Translator, node: nodes.math_block) -> None:
    self.body.append(f'<div class="formula" tabindex="0">{_mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
