"""One module per section, each with `run(options) -> Report`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.options import Options
    from benchmarks.report import Report

#: Module and function of each section, in the order of a full run.
SECTIONS = {
    "bundled": "bundled.run",
    "amazon": "amazon.run",
    "explicit": "explicit.run",
    "competitors": "competitors.run",
    "reuters": "reuters.run",
    "mnist": "mnist.run",
    "sparse": "sparse.run",
    "hotel": "hotel.run",
    "scaling": "scaling.run",
    "memory": "memory.run",
    "files": "files.run",
    "cluster": "cluster.run",
    "search": "search.run",
    "choice": "choice.run",
    "choice_classes": "choice.run_classes",
    "choice_joint": "choice.run_joint",
    "tables": "tables.run",
    "tables_development": "tables.run_development",
    "tables_search": "tables.run_search",
    "tables_search_development": "tables.run_search_development",
    "lost_columns": "lost.run_columns",
    "lost_pixels": "lost.run_pixels",
    "latent": "latent.run",
    "latent_time": "latent_time.run",
    "hidden": "hidden.run",
    "hidden_large": "hidden_large.run",
    "hidden_text": "hidden_text.run",
}


def section(name: str) -> Callable[[Options], Report]:
    """Import the function of a section.

    Sections that do not run are not imported: some of them use private modules of marginout, which another
    revision (`benchmarks.compare`) may lack.
    """
    module, function = SECTIONS[name].split(".")
    run: Callable[[Options], Report] = getattr(import_module(f"{__name__}.{module}"), function)
    return run
