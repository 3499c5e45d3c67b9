"""Write a page: a first screen with the main result, then sections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from marginout.report.markup import Raw, join, tag, text


@dataclass(frozen=True)
class Section:
    """A heading and the content under it."""

    title: str
    content: Raw


def page(title: str, lead: str, first: Raw, sections: Sequence[Section]) -> str:
    """Write an HTML file: `title` states the result, `lead` explains it, `first` shows it."""
    folder = files("marginout.report")
    style = (folder / "style.css").read_text("utf-8")
    script = (folder / "script.js").read_text("utf-8")
    head = join(
        [
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("title", title),
            Raw('<link rel="icon" href="data:,">'),
            Raw(f"<style>{style}</style>"),
        ],
        "\n",
    )
    hero = tag(
        "header",
        tag("p", "marginout", class_="brand"),
        tag("h1", title),
        tag("p", lead, class_="lead"),
        first,
    )
    body = [
        tag("section", tag("h2", section.title, id=f"s{i}"), section.content, aria_labelledby=f"s{i}")
        for i, section in enumerate(sections)
    ]
    main = tag("main", hero, *body)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{text(main)}\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )
