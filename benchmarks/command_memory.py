"""Measure the peak memory of the command on a large svmlight file: `python -m benchmarks.command_memory`.

A file of 1 GB is written to a temporary folder. `marginout fit`, `score` and `predict` then each run in a
new process, whose peak resident memory is its VmHWM (Linux). Results are written to
benchmarks/results/command_memory.csv.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.report import RESULTS

#: Features, entries per row, and rows of the part that is repeated. An entry takes about 12.5 bytes.
FEATURES, ENTRIES, ROWS = 20_000, 50, 16_000
#: Code that runs the command and prints its own peak memory, in kB.
CHILD = """
import re, sys
from marginout.cli import main
code = main(sys.argv[1:])
print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1], file=sys.stderr)
sys.exit(code)
"""


def part() -> bytes:
    """Rows of svmlight with labels by a linear rule and some noise."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal(FEATURES)
    lines = []
    for _ in range(ROWS):
        indices = np.sort(rng.choice(FEATURES, ENTRIES, replace=False))
        values = rng.random(ENTRIES).round(4)
        label = 1 if weights[indices] @ values + rng.standard_normal() > 0 else -1
        entries = " ".join(f"{i + 1}:{v:.4f}" for i, v in zip(indices, values, strict=True))
        lines.append(f"{label} {entries}\n")
    return "".join(lines).encode()


def peak(arguments: list[str]) -> float:
    """Peak resident memory of one command, in GB."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments], check=True, capture_output=True, text=True
    )
    return int(done.stderr.split()[-1]) * 1024 / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=float, default=1.0, help="GB of the file")
    parser.add_argument("--csv", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args()
    rows = part()
    with tempfile.TemporaryDirectory() as folder:
        data, model = str(Path(folder, "data.svm")), str(Path(folder, "one.model"))
        repeats = max(1, round(options.size * 1e9 / len(rows)))
        with open(data, "wb") as file:
            for _ in range(repeats):
                file.write(rows)
        found = {
            "the file": repeats * len(rows) / 1e9,
            "the data in memory (CSR, float64)": repeats * ROWS * ENTRIES * 12 / 1e9,
            "fit": peak(["fit", data, "--out", model, "--quiet"]),
            "score": peak(["score", model, data, "--quiet"]),
            "predict": peak(["predict", model, data, "--out", str(Path(folder, "out.csv")), "--quiet"]),
        }
    with (options.csv / "command_memory.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(
            [["what", "GB"], *([what, f"{size:.2f}"] for what, size in found.items())]
        )
    for what, size in found.items():
        print(f"{what}: {size:.2f} GB")


if __name__ == "__main__":
    main()
