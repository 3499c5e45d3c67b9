"""The tables of README and docs by name, each made from the files in benchmarks/results."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.tables import choice, deletion, lost, panel, sparse, text, times

TABLES: dict[str, Callable[[], str]] = {
    made.__name__: made
    for made in (
        times.price,
        times.amazon,
        times.amazon_rates,
        times.amazon_peers,
        times.classes,
        times.small,
        times.growth,
        times.search,
        times.search_memory,
        sparse.sparse,
        sparse.sparse_sets,
        times.hidden,
        times.drawn,
        times.drawn_large,
        times.drawn_text,
        times.blocks,
        panel.panel,
        panel.panel_halves,
        panel.panel_searches,
        choice.choice,
        choice.choice_joint,
        choice.choice_sets,
        choice.choice_pairs,
        deletion.latent,
        deletion.digits,
        deletion.deletion,
        deletion.missing,
        lost.lost_columns,
        lost.lost_pixels,
        lost.holes,
        text.scoreboard,
        text.text_claim,
    )
}
