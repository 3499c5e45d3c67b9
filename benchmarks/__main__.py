"""`python -m benchmarks`: run the sections, print their tables, write their CSV files."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from benchmarks.options import Options
from benchmarks.problems import DATA, DataMissingError
from benchmarks.report import RESULTS, environment, load, record, show, write
from benchmarks.sections import SECTIONS


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="marginout beside its peers.",
        epilog=f"Real data are read from the folder in {DATA}; sections without theirs are skipped.",
    )
    parser.add_argument("--only", nargs="+", choices=SECTIONS, metavar="SECTION", default=list(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="a tiny version of everything, in a minute")
    parser.add_argument("--repeats", type=int, help="fits per entry (5, quick: 1)")
    parser.add_argument("--slow-repeats", type=int, help="the same where a fit takes seconds (3, quick: 1)")
    parser.add_argument(
        "--csv", type=Path, help="folder for the CSV files (benchmarks/results, quick: its quick/)"
    )
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    options = Options(
        repeats=arguments.repeats or (1 if arguments.quick else 5),
        slow_repeats=arguments.slow_repeats or (1 if arguments.quick else 3),
        quick=arguments.quick,
    )
    # A quick run's numbers mean nothing and must not replace measured ones.
    folder = arguments.csv or (RESULTS / "quick" if arguments.quick else RESULTS)
    print(environment(), end="\n\n", flush=True)
    for name in arguments.only:
        start, before = time.perf_counter(), load()
        try:
            report = SECTIONS[name](options)
        except DataMissingError as missing:
            print(f"== {name} skipped: {missing}\n", flush=True)
            continue
        print(f"== {name} ({time.perf_counter() - start:.0f} s)")
        show(report)
        write(report, name, folder)
        record(name, before, folder)


if __name__ == "__main__":
    main()
