"""`python -m benchmarks.readme`: write the tables of README and docs from the files in benchmarks/results.

A table stands between `<!-- NAME -->` and `<!-- end -->`. A table whose files are missing stays as it is.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev

from scipy.stats import t

from benchmarks.report import RESULTS

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
#: Every page with numbers between marks.
PAGES = (README, *sorted((ROOT / "docs").glob("*.md")))
DOMAINS = ("books", "dvd", "electronics", "kitchen")
#: What stands between marks at the beginning of their lines.
MARKED = re.compile(r"^<!-- (\w+) -->\n.*?\n<!-- end -->", re.DOTALL | re.MULTILINE)

Rows = list[dict[str, str]]


def rows(section: str) -> Rows:
    """The rows of a section's CSV file."""
    with (RESULTS / f"{section}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def summary(section: str) -> dict[str, float]:
    """The headline numbers of a section."""
    return {row["measure"]: float(row["value"]) for row in rows(f"{section}_summary")}


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def percent(row: dict[str, str]) -> str:
    return f"{100 * float(row['test_error']):.1f}"


def amazon() -> str:
    """Time over the peer's by rate, and the distance from the optimum."""
    numbers = summary("amazon")
    rates = ["0.0", "0.05", "0.1", "0.3", "0.5", "0.7", "0.9"]

    def line(name: str, pair: str, measure: str, form: str) -> list[str]:
        values = [
            numbers[f"{pair}, {what}: {measure}"] for what in (*(f"rate {r}" for r in rates), "rates 0.3-0.9")
        ]
        *cells, last = (format(value, form).replace("e-0", "e-") for value in values)
        return [name, *cells, f"**{last}**"]

    svc, lr, time, distance = (
        "DropoutSVC / LinearSVC",
        "DropoutLR / LogisticRegression",
        "time ratio",
        "max suboptimality",
    )
    return table(
        ["dropout rate", *(f"{float(rate):g}" for rate in rates), "0.3 to 0.9"],
        [
            line('DropoutSVC / LinearSVC(loss="hinge"), time', svc, time, ".2f"),
            line("distance from the optimum", svc, distance, ".0e"),
            line("DropoutLogisticRegression / LogisticRegression, time", lr, time, ".2f"),
            line("distance from the optimum", lr, distance, ".0e"),
        ],
    )


def classes() -> str:
    """Many classes, on one and two threads."""
    reuters, mnist = summary("reuters"), summary("mnist")

    def pair(threads: int) -> str:
        ratios = [
            mnist[f"DropoutSVC on {threads}, rate {rate} / LinearSVC: time ratio"] for rate in (0.5, 0.3)
        ]
        return " / ".join(f"{ratio:.2f}" for ratio in ratios)

    return table(
        ["", "one thread", "two threads"],
        [
            [
                "Reuters-21578, 58 classes, 5,946 × 18,933 CSR, rate 0.5, C of 0.01, 0.1, 1",
                *(f"{reuters[f'DropoutSVC on {n} / LinearSVC: time ratio']:.2f}" for n in (1, 2)),
            ],
            ["MNIST, 10 classes, 60,000 × 784 dense float32, C = 0.01, rate 0.5 / 0.3", pair(1), pair(2)],
        ],
    )


def choice() -> str:
    """Test errors with everything chosen by cross-validation."""
    found = rows("choice")
    names = list(dict.fromkeys(row["problem"] for row in found))
    plain, ours = (
        [row for row in found if row["model"] == model]
        for model in ("GridSearchCV(LinearSVC)", "DropoutSVCCV")
    )
    reduction = summary("choice")["Amazon: mean relative reduction of GridSearchCV(LinearSVC)'s error"]
    lines = [
        ['LinearSVC(loss="hinge"), C chosen', *map(percent, plain)],
        ["DropoutSVCCV, C and rate chosen", *map(percent, ours)],
        ["rate chosen", *(f"{float(row['rate']):g}" for row in ours)],
    ]
    text = f"Mean relative reduction of the error on the four Amazon domains: {100 * reduction:.1f} %."
    return f"{table(['test error, %', *names], lines)}\n\n{text}"


def search() -> str:
    """The time of a search over C and rate, over that of one over C alone."""
    found = {(row["model"], row["problem"]): row["ratio_to_peer"] for row in rows("search")}
    models = {
        "DropoutSVCCV, rates 0.1 to 0.8": "DropoutSVCCV",
        "DropoutSVCCV, rate 0 in place of 0.1": "DropoutSVCCV, rate 0 too",
        "GridSearchCV(DropoutSVC), rates 0.1 to 0.8": "GridSearchCV(DropoutSVC)",
    }
    body = [
        [text, *(f"{float(found[model, name]):.2f}" for name in DOMAINS)] for text, model in models.items()
    ]
    return table(["time / GridSearchCV(LinearSVC)", *DOMAINS], body)


def latent() -> str:
    """MNIST as pixels die, one hidden layer beside none."""
    found = {(row["model"], row["problem"]): row for row in rows("latent")}
    models = {
        "LinearSVC, C = 0.01": "LinearSVC",
        "DropoutSVC, rate 0.5, balanced, Gaussian": "DropoutSVC",
        "LatentDropoutLogisticRegression, no noise": "LatentDropoutLR 60, no noise",
        "LatentDropoutLogisticRegression, rate 0.2": "LatentDropoutLR 60, then noise 0.2",
    }
    shares = ["0%", "10%", "20%", "30%", "40%", "50%"]
    body = [
        [text, *(percent(found[model, f"mnist 10000, {share} deleted"]) for share in shares)]
        for text, model in models.items()
    ]
    return table(["deleted", *(share.replace("%", " %") for share in shares)], body)


def digits() -> str:
    """scikit-learn's digits: one hidden layer beside its peers."""
    found = rows("latent")

    def error(model: str, problem: str) -> str:
        return next(percent(row) for row in found if (row["model"], row["problem"]) == (model, problem))

    def best(start: str) -> str:
        own = [row for row in found if row["model"].startswith(start) and row["problem"] == "digits"]
        return min(own, key=lambda row: float(row["test_error"]))["model"]

    models = {
        "LinearSVC at its best C": best("LinearSVC C="),
        "MLPClassifier, 60 units": "MLPClassifier 60",
        "LatentDropoutSVC, 60 units, no noise": "LatentDropoutSVC K=60 taylor, noise 0",
        "the same, noise 0.1, Gaussian propagation": "LatentDropoutSVC K=60 gaussian, noise 0.1",
    }
    body = [
        [text, error(model, "digits"), error(model, "digits, half deleted")] for text, model in models.items()
    ]
    return table(["test error, %", "clean", "half of the pixels deleted"], body)


def deletion() -> str:
    """MNIST, everything chosen with as many pixels deleted."""
    found = rows("mnist_deletion")
    models = list(dict.fromkeys(row["model"] for row in found))
    errors = {(row["model"], row["rate"]): row for row in found}
    body = []
    for rate in dict.fromkeys(row["rate"] for row in found):
        own = [percent(errors[model, rate]) for model in models]
        least = min(own, key=float)
        body.append(
            [f"{float(rate):.0%}".replace("%", " %"), *(f"**{e}**" if e == least else e for e in own)]
        )
    return table(["pixels deleted", *models], body)


def missing() -> str:
    """Whole measurements lost at prediction time: mean errors, and differences with their intervals."""
    found: dict[tuple[str, str], list[float]] = {}
    for row in rows("missing_groups"):
        found.setdefault((row["model"], row["lost"]), []).append(100 * float(row["test_error"]))
    models, lost = (list(dict.fromkeys(key[i] for key in found)) for i in (0, 1))
    head = [f"{count} of 10 lost" for count in lost]
    errors = table(
        ["test error, %", *head],
        [[model, *(f"{fmean(found[model, count]):.2f}" for count in lost)] for model in models],
    )
    svm, logistic = "DropoutSVCCV, group noise", "DropoutLogisticRegressionCV, group noise"
    pairs = [
        (svm, "LinearSVC, mean imputation"),
        (svm, "DropoutSVCCV, no noise"),
        (logistic, "LogisticRegression, mean imputation"),
        (logistic, "LogisticRegression, KNNImputer"),
        (logistic, "HistGradientBoosting, ten copies with losses"),
    ]

    def interval(ours: str, peer: str, count: str) -> str:
        gains = [b - a for a, b in zip(found[ours, count], found[peer, count], strict=True)]
        # Folds share training data: the variance of Nadeau and Bengio, a test fold being 1/4 of the rest.
        half = t.ppf(0.975, len(gains) - 1) * stdev(gains) * (1 / len(gains) + 1 / 4) ** 0.5
        return signed(fmean(gains), fmean(gains) - half, fmean(gains) + half)

    differences = table(
        ["first less than second, points [95 %]", *head],
        [[f"{ours} / {peer}", *(interval(ours, peer, count) for count in lost)] for ours, peer in pairs],
    )
    return f"{errors}\n\n{differences}"


def signed(mean: float, low: float, high: float) -> str:
    """A difference and its interval, with minus signs as in print."""
    return f"{mean:.1f} [{low:.1f}, {high:.1f}]".replace("-", "−")


def blocks() -> str:
    """Fits from files and on workers over the fit in memory."""
    files, cluster = summary("files"), summary("cluster")
    return table(
        ["", "time / fit in memory"],
        [
            [
                "96 npz files (3.7 GB), from files to a model, in an address space of a quarter of that",
                f"{files['from files to a model, time / in memory']:.1f} with reading on both sides, "
                f"{files['the same / the fit in memory alone']:.1f} without it in memory",
            ],
            [
                "two Dask workers against two threads, 100 million non-zeros",
                f"{cluster['two workers, time / two threads in memory']:.1f} "
                f"(CPU time {cluster['the same, CPU time of all processes']:.1f})",
            ],
        ],
    )


TABLES: dict[str, Callable[[], str]] = {
    made.__name__: made
    for made in (amazon, classes, choice, search, latent, digits, deletion, blocks, missing)
}


def filled(text: str) -> str:
    """A page with its tables as the result files have them."""

    def replace(match: re.Match[str]) -> str:
        try:
            return f"<!-- {match[1]} -->\n{TABLES[match[1]]()}\n<!-- end -->"
        except FileNotFoundError:
            return match[0]

    return MARKED.sub(replace, text)


def main() -> None:
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
