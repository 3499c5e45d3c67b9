"""`python -m benchmarks.readme`: write the tables of README and docs from the files in benchmarks/results.

A table is the text between `<!-- NAME -->` and `<!-- end -->`. Without its files a table is not changed.
"""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.tables import TABLES

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
#: Every page with numbers between marks.
PAGES = (README, *sorted((ROOT / "docs").glob("*.md")))
#: The text between two marks, each at the beginning of a line.
MARKED = re.compile(r"^<!-- (\w+) -->\n.*?\n<!-- end -->", re.DOTALL | re.MULTILINE)


def filled(text: str) -> str:
    """The text of a page with its tables made from the result files."""

    def replace(match: re.Match[str]) -> str:
        try:
            return f"<!-- {match[1]} -->\n{TABLES[match[1]]()}\n<!-- end -->"
        except FileNotFoundError:
            return match[0]

    return MARKED.sub(replace, text)


def main() -> None:
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
