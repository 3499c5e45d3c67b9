"""Run the cells of an experiment that have not been run: stop it at any moment, start it again."""

from __future__ import annotations

import time
import warnings
from statistics import mean

from reproduction.cells import Experiment, Settings, Store
from reproduction.data import DataMissingError


def run(experiment: Experiment, store: Store, quick: bool = False, part: tuple[int, int] = (1, 1)) -> bool:
    """Whether the cells of this part are now all finished; missing data are named and passed over.

    Part (i, n) is every n-th cell from the i-th on, for as many processes side by side.
    """
    cells = experiment.cells(quick)[part[0] - 1 :: part[1]]
    store.sweep(experiment.name)
    done = [store.load(experiment.name, settings) for settings in cells]
    seconds = [record["seconds"] for record in done if record is not None]
    todo = [settings for settings, record in zip(cells, done, strict=True) if record is None]
    print(f"== {experiment.name} ({experiment.where}): {len(todo)} of {len(cells)} cells to run", flush=True)
    missing: dict[str, int] = {}
    for number, settings in enumerate(todo, 1):
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                # Edges of grids and fits that stop early are part of the results; see `protocol`.
                warnings.simplefilter("ignore")
                result = experiment.measure(settings)
        except DataMissingError as error:
            missing[str(error)] = missing.get(str(error), 0) + 1
            continue
        seconds.append(time.perf_counter() - start)
        store.save(experiment.name, settings, result, seconds[-1])
        left = mean(seconds) * (len(todo) - number)
        words = f"[{number}/{len(todo)}] {describe(settings)} ({seconds[-1]:.1f} s)"
        print(f"{words}, about {duration(left)} left", flush=True)
    for message, count in missing.items():
        print(f"== {experiment.name}: {count} cells skipped: {message}", flush=True)
    return not missing


def describe(settings: Settings) -> str:
    """The short settings of a cell in a line."""
    short = (f"{name}={value}" for name, value in settings.items() if isinstance(value, (str, int, float)))
    return " ".join(short)


def duration(seconds: float) -> str:
    """12 s, 3 min, 1.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
