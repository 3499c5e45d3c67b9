"""Run the cells of an experiment that are not finished; run finished cells again to check them."""

from __future__ import annotations

import random
import time
import warnings
from statistics import mean

from reproduction.cells import Experiment, Result, Settings, Store
from reproduction.data import DataMissingError

#: Results that a repetition must give again: scores as fractions of all test examples, relative distances.
SCORES = "cv_score", "test_score", "test_errors", "validation_errors", "fixed_point", "reduction"
#: Largest difference of a score on another machine, where a few examples on a boundary may change sides. With
#: a hidden layer the objective has many minima, and rounding may decide between them.
SPREAD, HIDDEN_SPREAD = 0.002, 0.01


def run(experiment: Experiment, store: Store, quick: bool = False, part: tuple[int, int] = (1, 1)) -> bool:
    """Run the cells of a part that are not finished. True if all of them are finished now.

    Cells whose data are missing are skipped with a message. Part (i, n) is every n-th cell from the i-th on,
    for n processes side by side.
    """
    cells = experiment.cells(quick)[part[0] - 1 :: part[1]]
    done = store.load(experiment.name, cells)
    seconds = [record["seconds"] for record in done if record is not None]
    todo = [settings for settings, record in zip(cells, done, strict=True) if record is None]
    print(f"== {experiment.name} ({experiment.where}): {len(todo)} of {len(cells)} cells to run", flush=True)
    missing: dict[str, int] = {}
    for number, settings in enumerate(todo, 1):
        start = time.perf_counter()
        try:
            result = _measured(experiment, settings)
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


def _measured(experiment: Experiment, settings: Settings) -> Result:
    with warnings.catch_warnings():
        # Chosen C at the edge of a grid and fits that stop early are part of the results; see `protocol`.
        warnings.simplefilter("ignore")
        return experiment.measure(settings)


def verify(experiment: Experiment, store: Store, count: int, seed: int) -> bool:
    """Run `count` finished cells again, drawn at random. True if all give the same scores."""
    cells = experiment.cells(False)
    records = zip(cells, store.load(experiment.name, cells), strict=True)
    done = [
        (settings, record["result"])
        for settings, record in records
        if record and set(SCORES) & record["result"].keys()
    ]
    drawn = random.Random(seed).sample(done, min(count, len(done)))
    print(f"== {experiment.name} ({experiment.where}): {len(drawn)} of {len(done)} cells again", flush=True)
    agreed = True
    for settings, kept in drawn:
        gap = difference(kept, _measured(experiment, settings))
        same = gap <= (HIDDEN_SPREAD if "K" in settings else SPREAD)
        agreed &= same
        print(f"{'same' if same else 'DIFFERS'} to {gap:.4f}: {describe(settings)}", flush=True)
    return agreed


def difference(kept: Result, found: Result) -> float:
    """Largest difference between two results of a cell over their SCORES."""
    pairs = [(_flat(kept[name]), _flat(found[name])) for name in SCORES if name in kept]
    return max(abs(a - b) for old, new in pairs for a, b in zip(old, new, strict=True))


def _flat(scores: float | list[float]) -> list[float]:
    return scores if isinstance(scores, list) else [scores]


def describe(settings: Settings) -> str:
    """The short settings of a cell in one line."""
    short = (f"{name}={value}" for name, value in settings.items() if isinstance(value, (str, int, float)))
    return " ".join(short)


def duration(seconds: float) -> str:
    """A time as text: 12 s, 3 min, 1.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
