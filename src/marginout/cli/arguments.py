"""Parse the arguments of the command. Imports argparse and nothing heavy: `--help` must be fast."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from marginout.cli.errors import EXIT_CODES

#: Formats, and the suffixes of their files.
FORMATS = {
    "csv": [".csv"],
    "tsv": [".tsv", ".tab"],
    "xlsx": [".xlsx", ".xlsm"],
    "parquet": [".parquet", ".pq"],
    "feather": [".feather", ".arrow"],
    "json": [".json"],
    "jsonl": [".jsonl", ".ndjson"],
    "svmlight": [".svmlight", ".libsvm", ".svm"],
    "npz": [".npz"],
}
MODELS = "svm", "logistic", "quantile", "mcf", "latent-svm", "latent-logistic"
#: Rows that `stress` and `compare` use by default; the latter fits hundreds of models.
ROWS, COMPARED = 20_000, 5_000

ABOUT = """\
Linear models for features that are noisy, scarce, or dead by the time the model runs.

DATA is a file of CSV, TSV, Excel (xlsx, its first sheet), Parquet, Feather, JSON (an array of objects, or
lines), svmlight/libsvm or NumPy npz (CSR as data, indices, indptr, shape, or a dense X; labels y), plain or
compressed with gzip, xz, bzip2 or zip; - is standard input, with --format.
In tables every column but the target is a feature: numbers are scaled, words of few kinds are categories,
long strings are text, dates become days, year, hour, month and weekday, and what only names or counts rows
is left out. --numeric, --categorical and --text say what a column is, --drop and --only which are used."""

EXAMPLES = """\
examples:
  marginout demo
  marginout fit reviews.jsonl.xz --target label --text text --cv --out reviews.model
  marginout score reviews.model new.jsonl.xz
  marginout predict reviews.model - --format jsonl < new.jsonl > answers.csv
  marginout stress reviews.model new.jsonl.xz --out report.html
  marginout compare reviews.jsonl.xz --target label --text text"""


class _Parser(argparse.ArgumentParser):
    """A parser that prints an error in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {' '.join(message.split())} (see {self.prog} --help)\n")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of one call, and keep `argv` for model files and reports."""
    return _parser().parse_args(argv, argparse.Namespace(argv=list(argv)))


def _parser() -> _Parser:
    plain = argparse.RawDescriptionHelpFormatter
    parser = _Parser(
        prog="marginout", description=ABOUT, epilog=f"{EXAMPLES}\n\n{EXIT_CODES}", formatter_class=plain
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)

    def command(
        name: str, text: str, json: str = "print one JSON object for machines"
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text, epilog=EXIT_CODES, formatter_class=plain)
        sub.add_argument("--json", action="store_true", help=json)
        sub.add_argument("--quiet", action="store_true", help="no progress and no notes")
        sub.add_argument("--debug", action="store_true", help="print a traceback when something fails")
        return sub

    demo = command("demo", "train on digits, delete pixels, and write a report of what is left")
    demo.add_argument("--out", default="marginout-demo.html", metavar="FILE", help="report (%(default)s)")
    _seed(demo)
    _fit(command("fit", "train a model and save it"))
    predict = command("predict", "predict with a saved model", "print JSON lines: one object per row")
    _model(predict)
    _data(predict)
    _strict(predict)
    predict.add_argument("--out", default="-", metavar="FILE", help="CSV of predictions (standard output)")
    predict.add_argument("--scores", action="store_true", help="add the scores of the classes")
    predict.add_argument(
        "--probabilities", action="store_true", help="add the probabilities of the classes (logistic models)"
    )
    predict.add_argument(
        "--expected-score",
        action="store_true",
        help="add the share of the row's cells that is missing, and the score to expect there (models fitted "
        "with this option)",
    )
    predict.add_argument("--id", metavar="COL", help="put this column before the others")
    score = command("score", "score a saved model on labelled data")
    _model(score)
    _labelled(score)
    _strict(score)
    _stress(command("stress", "show how a saved model degrades as its features die"))
    info = command("info", "describe a saved model")
    _model(info)
    info.add_argument("--top", type=_count, default=10, metavar="N", help="features to list (%(default)s)")
    _compare(command("compare", "cross-validate LinearSVC, LogisticRegression and marginout side by side"))
    return parser


class _Version(argparse.Action):
    """Print the version, which is looked up only when asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *rest: object) -> NoReturn:
        import marginout

        print(f"marginout {marginout.__version__}")
        parser.exit(0)


def _fit(sub: argparse.ArgumentParser) -> None:
    _labelled(sub)
    _columns(sub)
    sub.add_argument("--out", required=True, metavar="MODEL", help="file to save the model in")
    sub.add_argument("--model", choices=MODELS, default="svm", help="kind of model (%(default)s)")
    sub.add_argument(
        "--noise",
        metavar="NOISE",
        help="RATE of dropout, or KIND:VALUE with dropout, deletion, gaussian, laplace, poisson, thinning or "
        "bitswap; auto: the rate of dropout that the data bear; with --cv also KIND, or several values with "
        "commas between (auto; with --cv a grid; 0.5 with --model mcf and --missing deleted)",
    )
    sub.add_argument(
        "--C",
        type=_positives,
        metavar="C",
        help="weight of the loss; with --cv several, with commas between (1; with --cv a grid)",
    )
    sub.add_argument("--cv", action="store_true", help="choose C and the noise by cross-validation")
    sub.add_argument(
        "--folds",
        type=_folds,
        default=5,
        metavar="N",
        help="folds of --cv and --expected-score (%(default)s)",
    )
    sub.add_argument(
        "--expected-score",
        action="store_true",
        help="tables: measure, on folds, the score by the share of a row's cells that is missing",
    )
    sub.add_argument(
        "--expectation",
        choices=("bound", "gaussian"),
        help="see DropoutSVC (classification with svm: gaussian, others: bound)",
    )
    sub.add_argument(
        "--loss",
        choices=("hinge", "squared_hinge"),
        help="classification with svm or latent-svm: see DropoutSVC (squared_hinge, latent-svm: hinge)",
    )
    sub.add_argument(
        "--missing",
        choices=("imputed", "deleted", "conditional"),
        default="imputed",
        help="empty cells and missing columns: filled in; or dead features, with a noise that deletes whole "
        "columns; or what the other numbers and categories of the row say of them (%(default)s)",
    )
    sub.add_argument(
        "--quantile",
        type=_quantiles,
        metavar="Q",
        help="with --model quantile: the share of targets below the prediction; several, with commas "
        "between, are a column each (0.5)",
    )
    sub.add_argument("--balanced", action="store_true", help="give all classes the same weight")
    sub.add_argument("--hidden", type=_count, default=20, metavar="N", help="units of latent-* (%(default)s)")
    sub.add_argument(
        "--scale", action="store_true", help="svmlight, npz: divide features by their largest value"
    )
    sub.add_argument(
        "--epsilon", type=_positive, metavar="E", help="regression: errors that cost nothing (0.1)"
    )
    sub.add_argument("--tol", type=_positive, metavar="TOL", help="tolerance of the fit (0.001)")
    sub.add_argument("--max-iter", type=_count, metavar="N", help="most iterations of the fit (1000)")
    _seed(sub)


def _stress(sub: argparse.ArgumentParser) -> None:
    _model(sub)
    _labelled(sub)
    _strict(sub)
    sub.add_argument("--out", metavar="FILE", help="HTML report to write")
    sub.add_argument(
        "--train", metavar="DATA", help="training data for the models at other rates (half of DATA)"
    )
    sub.add_argument(
        "--train-where", action="append", default=[], metavar="COL=VALUE", help="like --where, for --train"
    )
    sub.add_argument("--no-refit", action="store_true", help="do not try other rates")
    sub.add_argument(
        "--repeats", type=_count, default=5, metavar="N", help="draws of dead features (%(default)s)"
    )
    sub.add_argument(
        "--fail-below",
        type=_number,
        metavar="SCORE",
        help="end with exit code 7 if the score is below SCORE with the share of --at deleted",
    )
    sub.add_argument(
        "--at", type=_share, metavar="SHARE", help="share of the features for --fail-below, from 0 to 1 (0.5)"
    )
    _rows(sub, ROWS)
    _seed(sub)


def _compare(sub: argparse.ArgumentParser) -> None:
    _labelled(sub)
    _columns(sub)
    sub.add_argument("--out", metavar="FILE", help="HTML report to write")
    sub.set_defaults(missing="imputed")  # `fit` alone has the option
    sub.add_argument("--folds", type=_folds, default=5, metavar="N", help="outer folds (%(default)s)")
    sub.add_argument(
        "--scale", action="store_true", help="svmlight, npz: divide features by their largest value"
    )
    _rows(sub, COMPARED)
    _seed(sub)


def _strict(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--strict", action="store_true", help="refuse DATA that lack a column of the model")


def _model(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("model", metavar="MODEL", help="file written by marginout fit")


def _data(sub: argparse.ArgumentParser) -> None:
    sub.set_defaults(id=None)  # `predict` alone has the option
    group = sub.add_argument_group("data")
    group.add_argument("data", metavar="DATA", help="file, or - for standard input")
    group.add_argument("--format", choices=FORMATS, help="format of DATA (by its name)")
    group.add_argument("--target", metavar="COL", help="column, or array of an npz, to predict")
    group.add_argument(
        "--where", action="append", default=[], metavar="COL=VALUE", help="use only rows where COL is VALUE"
    )
    group.add_argument("--encoding", default="utf-8-sig", metavar="NAME", help="of CSV and TSV (utf-8)")
    group.add_argument(
        "--delimiter", metavar="CHAR", help="between the columns of a CSV (found from its first rows)"
    )
    group.add_argument(
        "--decimal", choices=(".", ","), help="mark before the decimals of strings (found from the columns)"
    )


def _labelled(sub: argparse.ArgumentParser) -> None:
    """Add the options of data with targets."""
    _data(sub)
    sub.add_argument(
        "--drop-unlabelled",
        action="store_true",
        help="leave out rows without a target, or with an infinite one",
    )


def _columns(sub: argparse.ArgumentParser) -> None:
    group = sub.add_argument_group("columns (several: repeat, or put commas between)")
    for name, text in (
        ("text", "columns of text: words, marks and their pairs, by tf-idf"),
        ("categorical", "columns of categories, for OneHotEncoder"),
        ("numeric", "columns of numbers, imputed and scaled"),
        ("drop", "columns to leave out"),
        ("only", "columns to use, beside those named above; all others are left out"),
    ):
        group.add_argument(f"--{name}", action="append", default=[], metavar="COL", help=text)
    group.add_argument(
        "--task",
        choices=("classification", "regression"),
        help="kind of the target (found from its values)",
    )


def _rows(sub: argparse.ArgumentParser, rows: int) -> None:
    sub.add_argument(
        "--rows",
        type=_whole,
        default=rows,
        metavar="N",
        help="use at most N rows, drawn at random; 0: all (%(default)s)",
    )


def _seed(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--seed", type=_whole, default=0, metavar="N", help="seed of all random choices (%(default)s)"
    )


def _whole(text: str) -> int:
    return _at_least(text, 0)


def _count(text: str) -> int:
    return _at_least(text, 1)


def _folds(text: str) -> int:
    return _at_least(text, 2)


def _at_least(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if not least <= value < 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from {least} to 2**32 - 1")
    return value


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not abs(value) < 1e100:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number")
    return value


def _share(text: str) -> float:
    value = _number(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number from 0 to 1")
    return value


def _positive(text: str) -> float:
    values = _positives(text)
    if len(values) > 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be one number above 0")
    return values[0]


def _quantiles(text: str) -> list[float]:
    values = [_number(part) for part in text.split(",")]
    if not all(0 < value < 1 for value in values):
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a number between 0 and 1, or several with commas between"
        )
    return values


def _positives(text: str) -> list[float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = [0.0]
    if not all(0 < value < 1e100 for value in values):
        raise argparse.ArgumentTypeError(f"{text!r} must be a number above 0, or several with commas between")
    return values
