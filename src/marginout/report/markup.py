"""Write HTML elements. Anything that is not Raw is text, and is escaped."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence


class Raw(str):
    """Markup, which is not escaped again."""

    __slots__ = ()


#: Elements without content, of HTML and of SVG; SVG needs their slash.
VOID = {"input", "meta", "circle", "line", "polygon", "polyline", "rect"}


def text(content: object) -> str:
    """Escape text, unless it is markup. Control characters, which HTML forbids, become �."""
    if isinstance(content, Raw):
        return content
    clean = "".join(c if c >= " " or c in "\n\t" else "\ufffd" for c in str(content))
    clean = clean.encode("utf-8", "replace").decode("utf-8")  # lone surrogates
    return html.escape(clean, quote=True)


def tag(name: str, /, *content: object, **attributes: object) -> Raw:
    """Write one element. `class_` is class, `data_at` is data-at; True is a bare attribute, None is left out.

    >>> tag("p", "1 < 2", class_="note")
    '<p class="note">1 &lt; 2</p>'
    """
    parts = [name]
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            parts.append(key)
        elif value is not None and value is not False:
            parts.append(f'{key}="{text(value)}"')
    if name in VOID:
        return Raw(f"<{' '.join(parts)} />")
    return Raw(f"<{' '.join(parts)}>" + "".join(text(part) for part in content) + f"</{name}>")


def join(parts: Iterable[object], between: str = "") -> Raw:
    """Join elements."""
    return Raw(between.join(text(part) for part in parts))


def values(items: Iterable[object]) -> str:
    """JSON list that the script reads from an attribute."""
    return json.dumps(list(items), ensure_ascii=False)


def table(
    caption: str, header: Sequence[object], rows: Iterable[Sequence[object]], **attributes: object
) -> Raw:
    """Table with a caption; the first column heads the rows, and a wide table scrolls."""
    head = tag("tr", *(tag("th", cell, scope="col") for cell in header))
    body = [
        tag("tr", tag("th", row[0], scope="row"), *(c if _is_cell(c) else tag("td", c) for c in row[1:]))
        for row in rows
    ]
    made = tag(
        "table", tag("caption", tag("span", caption)), tag("thead", head), tag("tbody", *body), **attributes
    )
    return tag("div", made, class_="scroll", role="region", aria_label=caption, tabindex="0")


def _is_cell(content: object) -> bool:
    return isinstance(content, Raw) and content.startswith("<td")


def facts(pairs: Iterable[tuple[str, object]]) -> Raw:
    """List of names and values."""
    return tag(
        "dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs), class_="facts"
    )
