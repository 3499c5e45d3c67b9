"""`python -m reproduction list | run NAME ... | run all | verify NAME ... | report | prepare`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from reproduction.cells import Store
from reproduction.data import DATA

HERE = Path(__file__).parent
RESULTS = HERE / "results"


def parse() -> argparse.Namespace:
    from reproduction.experiments import NAMES

    parser = argparse.ArgumentParser(
        prog="python -m reproduction",
        description="Run the tables and figures of the paper again.",
        epilog=f"Data are read from the folder in {DATA}. Cells without their data are skipped and named.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="list the experiments, and how many cells of each are finished")
    run = commands.add_parser("run", help="run the cells that are not finished; stop and resume at any time")
    run.add_argument("names", nargs="+", choices=[*NAMES, "all"], metavar="NAME", help="experiments, or all")
    run.add_argument("--quick", action="store_true", help="a tiny version of everything: does it run?")
    run.add_argument(
        "--part", type=_part, default=(1, 1), metavar="I/N", help="run every N-th cell from the I-th"
    )
    run.add_argument(
        "--results", type=Path, help="folder of the results (reproduction/results, quick: quick/)"
    )
    verify = commands.add_parser("verify", help="run finished cells again and compare their scores")
    verify.add_argument(
        "names", nargs="+", choices=[*NAMES, "all"], metavar="NAME", help="experiments, or all"
    )
    verify.add_argument(
        "--cells", type=int, default=3, metavar="N", help="cells per experiment, drawn at random (3)"
    )
    verify.add_argument("--seed", type=int, default=0, help="seed of the draw (0)")
    verify.add_argument("--results", type=Path, help="folder of the results (reproduction/results)")
    commands.add_parser("report", help="write REPORT.md and the figures from the results")
    prepare = commands.add_parser("prepare", help="write cifar10.npz: all 60,000 images of CIFAR-10")
    prepare.add_argument("source", type=Path, help="folder of the Python batches, or of the PNG sheets")
    prepare.add_argument("--to", type=Path, help="the file to write (cifar10.npz in the cache)")
    return parser.parse_args()


def _part(text: str) -> tuple[int, int]:
    try:
        number, count = (int(each) for each in text.split("/"))
        if not 1 <= number <= count:
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be I/N with 1 <= I <= N, such as 1/2.") from None
    return number, count


def main() -> int:
    arguments = parse()
    if arguments.command == "prepare":
        from reproduction.prepare import prepare

        prepare(arguments.source, arguments.to)
        return 0
    if arguments.command == "report":
        from reproduction.report import write

        write(Store(RESULTS), HERE)
        return 0
    from reproduction.experiments import NAMES, load

    if arguments.command == "list":
        for name in NAMES:
            experiment = load(name)
            cells = experiment.cells(False)
            done = len(cells) - Store(RESULTS).load(name, cells).count(None)
            print(f"{name:15}{experiment.where:27}{done:4} of {len(cells):3} cells  {experiment.title}")
        return 0
    from reproduction.runner import run, verify

    names = NAMES if "all" in arguments.names else arguments.names
    if arguments.command == "verify":
        store = Store(arguments.results or RESULTS)
        agreed = [verify(load(name), store, arguments.cells, arguments.seed) for name in names]
        return 0 if all(agreed) else 1
    # The numbers of a quick run mean nothing. They are kept apart from measured ones.
    folder = arguments.results or (RESULTS / "quick" if arguments.quick else RESULTS)
    finished = [run(load(name), Store(folder), arguments.quick, arguments.part) for name in names]
    return 0 if any(finished) else 1


if __name__ == "__main__":
    sys.exit(main())
