"""Text: the scoreboard, from the result file of the reproduction."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

import reproduction
from benchmarks.tables.parts import WIDTH
from reproduction.cells import Store
from reproduction.experiments import scoreboard as board
from reproduction.writing import Results

RESULTS = Path(reproduction.__file__).parent / "results"


def scoreboard() -> str:
    """The best pipeline with dropout beside the best plain one, set by set, and the mean."""
    found = _found()
    words = board.claim(found)
    return f"{board.summary(found)}\n\n{words[0].upper()}{words[1:]}"


def text_claim() -> str:
    """The mean in a sentence."""
    words = "[Texts](docs/text.md), where features, loss, C and rate are chosen by folds"
    return fill(f"{words}: {board.claim(_found())}", WIDTH)


def _found() -> dict[str, board.Sides | None]:
    results = Results.of(board.EXPERIMENT, Store(RESULTS))
    return {name: board.gather(results, name) for name in board.SETS}
