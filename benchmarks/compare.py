"""`python -m benchmarks.compare --base REV`: CPU times of the working tree (head) over those of REV (base).

    ratio of a cell    = least CPU time of head / least CPU time of base, over the rounds
    ratio of a section = geometric mean of the ratios of its cells

The cells of a section are its rows with a model of marginout. The rows of peers have the same code on both
sides: their ratio shows how far a ratio differs from 1 by chance.

Base and head are each installed in an environment of their own, with the same versions of all other
packages. Both run the benchmarks of the working tree, so that their rows are the same, in turn: base, head,
base, head. This module needs the standard library alone.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import time
import venv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.sections import SECTIONS

ROOT = Path(__file__).parents[1]
#: The sections that a change of the library is judged by.
DEFAULT = ("amazon", "reuters", "mnist", "search")
#: The factor by which a section of head may be slower than that of base.
LIMIT = 1.03
#: One of these is in the name of every model and function of marginout in the results.
OURS = ("Dropout", "MCF", "FeatureDeletion", "explicit", "deletion_curve")
#: Columns that name a cell in a text. Not all cells have all of them.
NAMES = ("problem", "words", "model", "C", "rate", "threads")
#: Columns that are equal on both sides. C and rate may differ: a search chooses them.
SAME = ("problem", "words", "model", "threads")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Cell:
    """A row of a section on both sides: the least CPU seconds over the rounds."""

    section: str
    name: str
    ours: bool
    base_s: float
    head_s: float

    @property
    def ratio(self) -> float:
        return self.head_s / self.base_s


@dataclass(frozen=True)
class Verdict:
    """The ratios of a section: geometric mean, worst cell, whether the mean is within LIMIT, and peers."""

    section: str
    cells: int
    ratio: float
    within: bool
    worst_ratio: float
    worst: str
    peers_ratio: float | None


def cells(section: str, base: Sequence[Path], head: Sequence[Path]) -> list[Cell]:
    """Join the folders of all rounds of base and of head by the rows of SECTION.csv.

    Rows without CPU time are left out.
    """
    rounds = [_rows(folder / f"{section}.csv") for folder in (*base, *head)]
    found = []
    for rows in _joined(section, rounds):
        if all(row["cpu_s"] for row in rows):
            seconds = [float(row["cpu_s"]) for row in rows]
            name = ", ".join(f"{column} {rows[0][column]}" for column in NAMES if rows[0][column])
            ours = any(word in rows[0]["model"] for word in OURS)
            found.append(Cell(section, name, ours, min(seconds[: len(base)]), min(seconds[len(base) :])))
    return found


def _joined(section: str, rounds: Sequence[list[dict[str, str]]]) -> Iterator[tuple[dict[str, str], ...]]:
    """The rows of all rounds side by side. The same benchmarks write the same rows in the same order."""
    if len({tuple(tuple(row[column] for column in SAME) for row in rows) for rows in rounds}) > 1:
        raise ValueError(f"The rows of {section}.csv are not the same in all rounds: nothing to compare.")
    yield from zip(*rounds, strict=True)


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def verdict(section: str, found: Iterable[Cell]) -> Verdict:
    """Summarise the cells of a section."""
    found = list(found)
    ours = [cell for cell in found if cell.ours]
    if not ours:
        raise ValueError(f"Section {section} has no CPU time of a model of marginout: nothing to compare.")
    peers = [cell.ratio for cell in found if not cell.ours]
    mean, worst = geometric_mean(cell.ratio for cell in ours), max(ours, key=lambda cell: cell.ratio)
    return Verdict(
        section=section,
        cells=len(ours),
        ratio=mean,
        within=mean <= LIMIT,
        worst_ratio=worst.ratio,
        worst=worst.name,
        peers_ratio=geometric_mean(peers) if peers else None,
    )


def told(verdict: Verdict) -> str:
    """The verdict as a line of text."""
    peers = f", peers {verdict.peers_ratio:.3f}" if verdict.peers_ratio is not None else ""
    return (
        f"{verdict.section}: head / base {verdict.ratio:.3f} over {verdict.cells} cells, "
        f"{'within' if verdict.within else 'NOT within'} {100 * (LIMIT - 1):.0f} %{peers}; "
        f"worst {verdict.worst_ratio:.3f}: {verdict.worst}"
    )


def store(path: Path, verdicts: Sequence[Verdict], found: Sequence[Cell]) -> None:
    """Write the verdicts to `path`, and the cells to a file beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, [asdict(each) for each in verdicts])
    ratios = [{**asdict(cell), "ratio": cell.ratio} for cell in found]
    _write(path.with_name(f"{path.stem}_cells.csv"), ratios)


def _write(path: Path, lines: Sequence[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def install(source: Path, folder: Path, constraints: Path | None = None) -> Path:
    """Build `source` in a new environment in `folder`; return the path of its Python."""
    venv.create(folder, with_pip=True, symlinks=os.name != "nt")
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    more = ["-c", str(constraints)] if constraints else []
    _call([python, "-m", "pip", "install", "--quiet", *more, f"{source}[bench]"], source)
    found = Path(_call([python, "-c", "import marginout; print(marginout.__file__)"], ROOT).strip())
    if not found.resolve().is_relative_to(folder.resolve()):
        sys.exit(f"{python} imports marginout from {found}, not from its own environment.")
    return python


def packages(python: Path) -> str:
    """The versions of all packages of an environment but marginout, as constraints of pip."""
    lines = _call([python, "-m", "pip", "freeze"], ROOT).splitlines()
    return "\n".join(line for line in lines if not line.startswith("marginout ")) + "\n"


@contextmanager
def revision(name: str, folder: Path) -> Iterator[Path]:
    """Check a revision out in `folder`, as a worktree of git that is removed at the end."""
    _call(["git", "worktree", "add", "--quiet", "--detach", folder, name], ROOT)
    try:
        yield folder
    finally:
        _call(["git", "worktree", "remove", "--force", folder], ROOT)


def measure(python: Path, section: str, folder: Path, arguments: argparse.Namespace) -> bool:
    """Run a section of the working tree's benchmarks with the marginout of an environment.

    False if the data of the section are missing.
    """
    options = ["--only", section, "--csv", str(folder), "--threads", str(arguments.threads)]
    options += ["--quick"] if arguments.quick else []
    start = time.perf_counter()
    text = _call([python, "-m", "benchmarks", *options], ROOT, arguments.threads)
    skipped = [line for line in text.splitlines() if line.startswith(f"== {section} skipped")]
    print(*skipped, f"{section}, {folder.name} ({time.perf_counter() - start:.0f} s)", sep="\n", flush=True)
    return not skipped


def _call(command: Sequence[str | Path], folder: Path, threads: int = 1) -> str:
    """Run a command and return its output. If it fails, the comparison ends with that output."""
    # PYTHONPATH could bring another marginout into both environments.
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables |= dict.fromkeys(THREADS, str(threads))
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env=variables, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def in_turn(
    section: str, base: Path, head: Path, folder: Path, arguments: argparse.Namespace
) -> list[Cell] | None:
    """Run a section with the Pythons of base and head in turn; None if its data are missing."""
    numbers = range(1, arguments.rounds + 1)
    bases, heads = ([folder / f"{side}-{number}" for number in numbers] for side in ("base", "head"))
    for at_base, at_head in zip(bases, heads, strict=True):
        for python, to in ((base, at_base), (head, at_head)):
            if not measure(python, section, to, arguments):
                return None
    return cells(section, bases, heads)


def compare(base: Path, head: Path, folder: Path, arguments: argparse.Namespace) -> list[Verdict]:
    """Run and judge all sections; the files are written after each of them."""
    found: list[Cell] = []
    verdicts: list[Verdict] = []
    for section in arguments.sections:
        own = in_turn(section, base, head, folder, arguments)
        if own is not None:
            found += own
            verdicts.append(verdict(section, own))
            store(arguments.csv, verdicts, found)
    return verdicts


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare",
        description="CPU times of the working tree (head) over those of another revision (base).",
    )
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"sections ({' '.join(DEFAULT)})")
    parser.add_argument("--base", required=True, metavar="REV", help="a revision of git")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each section on each side (2)")
    parser.add_argument("--threads", type=int, default=1, help="threads of each fit (1)")
    parser.add_argument("--quick", action="store_true", help="a tiny version: does it run?")
    parser.add_argument(
        "--csv",
        type=Path,
        default=ROOT / "build" / "bench-compare.csv",
        help="file for the ratios of sections (build/bench-compare.csv); those of cells go to *_cells.csv",
    )
    arguments = parser.parse_args(words)
    arguments.sections = arguments.sections or list(DEFAULT)
    unknown = set(arguments.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}; the sections are {', '.join(SECTIONS)}")
    return arguments


def main() -> int:
    arguments = parse()
    with TemporaryDirectory(prefix="bench-compare-") as name:
        folder = Path(name)
        with revision(arguments.base, folder / "source") as source:
            print(f"building the working tree and {arguments.base} ...", flush=True)
            head = install(ROOT, folder / "head")
            (folder / "constraints.txt").write_text(packages(head), encoding="utf-8")
            base = install(source, folder / "base", folder / "constraints.txt")
        verdicts = compare(base, head, folder / "runs", arguments)
    print(*map(told, verdicts), sep="\n")
    if arguments.quick:
        print("A quick run: its numbers mean nothing.")
    # A section that was skipped is not known to be within the limit.
    within = [each.section for each in verdicts if each.within or arguments.quick]
    return 0 if within == arguments.sections else 1


if __name__ == "__main__":
    sys.exit(main())
