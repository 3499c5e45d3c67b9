"""One module per section, each with `run(options) -> Report`."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.options import Options
from benchmarks.report import Report
from benchmarks.sections import (
    amazon,
    bundled,
    choice,
    cluster,
    competitors,
    explicit,
    files,
    hotel,
    latent,
    latent_time,
    memory,
    mnist,
    reuters,
    scaling,
    search,
)

SECTIONS: dict[str, Callable[[Options], Report]] = {
    "bundled": bundled.run,
    "amazon": amazon.run,
    "explicit": explicit.run,
    "competitors": competitors.run,
    "reuters": reuters.run,
    "mnist": mnist.run,
    "hotel": hotel.run,
    "scaling": scaling.run,
    "memory": memory.run,
    "files": files.run,
    "cluster": cluster.run,
    "search": search.run,
    "choice": choice.run,
    "choice_classes": choice.run_classes,
    "latent": latent.run,
    "latent_time": latent_time.run,
}
