"""`python -m benchmarks`: run the sections, print their tables, write their CSV files."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from benchmarks import report
from benchmarks.options import THREADS, Options
from benchmarks.problems import DATA, DataMissingError
from benchmarks.sections import SECTIONS, section


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
        "--threads",
        nargs="+",
        type=int,
        metavar="N",
        default=THREADS,
        help=f"thread counts of the sections that compare several ({', '.join(map(str, THREADS))})",
    )
    parser.add_argument(
        "--untimed", action="store_true", help="leave times out of `tables` and its kin, on a busy machine"
    )
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="FOLDER",
        help="keep finished cells of `latent` there, and run the others",
    )
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
        threads=arguments.threads,
        timed=not arguments.untimed,
        resume=arguments.resume,
    )
    # The numbers of a quick run mean nothing. They must not replace measured ones.
    folder = arguments.csv or (report.RESULTS / "quick" if arguments.quick else report.RESULTS)
    print(report.environment(), end="\n\n", flush=True)
    for name in arguments.only:
        start, before = time.perf_counter(), report.load()
        try:
            measured = section(name)(options)
        except DataMissingError as missing:
            print(f"== {name} skipped: {missing}\n", flush=True)
            continue
        print(f"== {name} ({time.perf_counter() - start:.0f} s)")
        report.show(measured)
        report.write(measured, name, folder)
        report.record(name, before, folder)


if __name__ == "__main__":
    main()
