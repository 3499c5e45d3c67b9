"""`python -m benchmarks.readme`: write the tables of README and docs from the files in benchmarks/results.

A table stands between `<!-- NAME -->` and `<!-- end -->`. A table whose files are missing stays as it is.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from textwrap import fill

from scipy.stats import t

from benchmarks.problems import DOMAINS, WORDS
from benchmarks.report import RESULTS

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
#: Every page with numbers between marks.
PAGES = (README, *sorted((ROOT / "docs").glob("*.md")))
TFIDF = WORDS[-1]
#: Characters of a line of text.
WIDTH = 120
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


def price() -> str:
    """What a fit costs beside a plain one."""
    numbers = summary("amazon")
    texts = [numbers[f"DropoutSVC, {words}, rates 0.3-0.9: CPU time ratio"] for words in WORDS]
    worst = max(numbers[f"DropoutSVC, {words}, all rates: largest CPU time ratio"] for words in WORDS)
    ours = ("DropoutSVC", "DropoutSVR")
    tables, hotels = (
        [float(row["cpu_ratio_to_peer"]) for row in rows(section) if row["model"] in ours]
        for section in ("bundled", "hotel")
    )
    return fill(
        f"The price is about that of one plain fit: {min(texts):.1f} to {max(texts):.1f} times LinearSVC's "
        "time on 2,000 reviews, by how words are counted (rates 0.3 to 0.9; worst cell of all rates "
        f"{worst:.1f}), up to {max(tables):.1f} times on tables of a few hundred rows, {min(hotels):.1f} to "
        f"{max(hotels):.1f} times LinearSVR's on 2,500 reviews, by C and rate.",
        WIDTH,
    )


#: How our models are called in the results of `amazon`, and the names of the classes.
PAIRS = {"DropoutSVC": "DropoutSVC", "DropoutLR": "DropoutLogisticRegression"}
SOLVERS = {
    "DropoutSVC": ("LinearSVC", "LinearSVC squared hinge"),
    "DropoutLR": ("LogisticRegression", "LogisticRegression liblinear", "LogisticRegression liblinear dual"),
}


def amazon() -> str:
    """Time over that of the fastest peer: heavy noise, the worst cell, little noise, chosen parameters."""
    numbers = summary("amazon")
    measures = (
        "rates 0.3-0.9: CPU time ratio",
        "rates 0.3-0.9: largest CPU time ratio",
        "rate 0.05: CPU time ratio",
        "all rates: largest CPU time ratio",
        "chosen: CPU time ratio",
    )
    body = [
        [f"{name}, {words}", *(f"{numbers[f'{model}, {words}, {measure}']:.1f}" for measure in measures)]
        for model, name in PAIRS.items()
        for words in WORDS
    ]
    head = ["time / fastest peer", "rates 0.3 to 0.9", "worst of these", "rate 0.05", "worst of all rates"]
    distance = max(numbers[f"{model}, {words}: max suboptimality"] for model in PAIRS for words in WORDS)
    text = f"On books our fits are at most {distance:.0e} above the optimum, relatively.".replace("e-0", "e-")
    return f"{table([*head, 'each at its chosen C and rate'], body)}\n\n{text}"


def amazon_rates() -> str:
    """Time over that of the fastest peer, by rate."""
    numbers = summary("amazon")
    rates = ["0.0", "0.05", "0.1", "0.3", "0.5", "0.7", "0.9"]
    body = [
        [
            f"{name}, {words}",
            *(f"{numbers[f'{model}, {words}, rate {rate}: CPU time ratio']:.2f}" for rate in rates),
            f"{numbers[f'{model}, {words}, rates 0.3-0.9: wall time ratio']:.2f}",
        ]
        for model, name in PAIRS.items()
        for words in WORDS
    ]
    return table(["dropout rate", *(f"{float(rate):g}" for rate in rates), "0.3 to 0.9, by the clock"], body)


def amazon_peers() -> str:
    """Time over that of every peer."""
    numbers = summary("amazon")
    parts = []
    for model, name in PAIRS.items():
        body = [
            [
                words,
                *(
                    f"{numbers[f'{model}, {words}, rates 0.3-0.9: CPU time / {peer}']:.2f}"
                    for peer in SOLVERS[model]
                ),
            ]
            for words in WORDS
        ]
        parts.append(table([f"time of {name} /", *SOLVERS[model]], body))
    return "\n\n".join(parts)


def classes() -> str:
    """Many classes: times and errors."""
    body = []
    for section, C, name in (
        ("reuters", 0.1, "Reuters-21578, 58 classes, 5,946 × 18,933 CSR, C of 0.01, 0.1, 1"),
        ("mnist", 0.01, "MNIST, 10 classes, 60,000 × 784 dense float32, C = 0.01"),
    ):
        numbers = summary(section)
        found = [row for row in rows(section) if float(row["C"]) == C]
        plain = next(percent(row) for row in found if row["model"] == "LinearSVC")
        for rate in dict.fromkeys(row["rate"] for row in found if row["rate"]):
            ours = next(percent(row) for row in found if row["rate"] == rate)
            pair = f"DropoutSVC on {{}}, rate {rate} / LinearSVC: {{}}time ratio"
            body.append(
                [
                    f"{name}, rate {rate}",
                    f"{numbers[pair.format(1, 'CPU ')]:.2f}",
                    f"{numbers[pair.format(2, '')]:.2f}",
                    f"{ours} / {plain} (C = {C:g})",
                ]
            )
    head = ["time / LinearSVC", "one thread", "two threads, by the clock", "test error, %, ours / LinearSVC"]
    return table(head, body)


PLAIN = ("LinearSVC hinge", "LinearSVC squared hinge", "LogisticRegression")
OURS = ("DropoutSVCCV", "DropoutLogisticRegressionCV")


def _errors(found: Rows, words: str, problems: Sequence[str]) -> dict[str, float]:
    """The mean test error of every model over some data sets, in per cent."""
    own = [row for row in found if row["words"] == words and row["problem"] in problems and row["C"]]
    models = dict.fromkeys(row["model"] for row in own)
    return {
        model: sum(100 * float(row["test_error"]) for row in own if row["model"] == model) / len(problems)
        for model in models
    }


def _against(found: Rows, problem: str, words: str, peer: str, model: str = "DropoutSVCCV") -> dict[str, str]:
    """The row that compares one of our models with a peer."""
    key = problem, words, peer, model
    return next(row for row in found if (row["problem"], row["words"], row["peer"], row["model"]) == key)


def interval(row: dict[str, str]) -> str:
    """How much lower an error is, with its 95 % interval."""
    part, low, high = (100 * float(row[name]) for name in ("reduction", "low", "high"))
    return f"{part:.1f} % [{low:.1f}, {high:.1f}]".replace("-", "−")


def choice() -> str:
    """Test errors with everything chosen by folds, and what is left against the best plain model."""
    found = rows("choice") + rows("choice_classes")
    lines = [("Amazon", "amazon", DOMAINS, words) for words in WORDS]
    for problem in dict.fromkeys(row["problem"] for row in rows("choice_classes")):
        counted = dict.fromkeys(row["words"] for row in found if row["problem"] == problem)
        lines += [(problem.capitalize(), problem, (problem,), words) for words in counted]
    body = []
    for name, problem, sets, words in lines:
        errors = _errors(found, words, sets)
        best = min((model for model in PLAIN if model in errors), key=errors.__getitem__)
        cells = [f"{errors[model]:.1f}" if model in errors else "" for model in (*PLAIN, *OURS)]
        body.append([f"{name}, {words}", *cells, interval(_against(found, problem, words, best))])
    head = ["test error, %", *PLAIN, *OURS, "DropoutSVCCV below the best plain model"]
    return f"{table(head, body)}\n\n{_what_is_left(found)}"


def _what_is_left(found: Rows) -> str:
    """The sentences that belong to the table of errors."""

    def told(row: dict[str, str]) -> str:
        return interval(row) + ("" if float(row["low"]) > 0 else " (within chance)")

    def peers(words: str) -> str:
        hinge, squared, logistic = (told(_against(found, "amazon", words, peer)) for peer in PLAIN)
        return (
            f"{hinge} against LinearSVC with the hinge, {squared} against LinearSVC() as it comes, "
            f"{logistic} against LogisticRegression()"
        )

    shares = [value for name, value in summary("choice").items() if name.endswith(": their share")]
    reuters = _against(found, "reuters", "counts", PLAIN[0])
    ours = [row for row in found if (row["problem"], row["model"]) == ("reuters", OURS[0]) and row["C"]]
    rates = {row["words"]: float(row["rate"]) for row in ours}
    twins = interval(_against(found, "amazon without twins", "counts", PLAIN[0]))
    significant = "significant" if float(reuters["p_value"]) < 0.05 else "not significant"
    return fill(
        f"How much less DropoutSVCCV errs on Amazon: on counts {peers('counts')}; on tf-idf "
        f"{peers(TFIDF)}. Reuters on counts: {significant} against the hinge (McNemar's p = "
        f"{float(reuters['p_value']):.2f}), rate {rates['counts']:g} is chosen; "
        f"on tf-idf, rate {rates[TFIDF]:g}. "
        f"{100 * min(shares):.1f} to {100 * max(shares):.1f} % of Amazon's test reviews are in the training "
        f"data too; without them the first number is {twins}.",
        WIDTH,
    )


def choice_sets() -> str:
    """Test errors and what was chosen, one line for every data set and way to count words."""
    found = [row for row in rows("choice") + rows("choice_classes") if row["C"]]
    cells: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    for row in found:
        cells.setdefault((row["problem"], row["words"]), {})[row["model"]] = row
    body = []
    for (problem, words), models in cells.items():
        errors = [_chosen(models[model]) if model in models else "" for model in (*PLAIN, *OURS)]
        body.append([f"{problem}, {words}", *errors])
    return table(["test error, % (C, rate)", *PLAIN, *OURS], body)


def _chosen(row: dict[str, str]) -> str:
    rate = f", {float(row['rate']):g}" if row["rate"] else ""
    return f"{percent(row)} ({float(row['C']):.2g}{rate})"


def choice_pairs() -> str:
    """How much lower the error of our models is than that of each peer, with intervals and p-values."""
    found = [row for row in rows("choice") + rows("choice_classes") if row["peer"]]
    cells: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in found:
        p = f", p = {float(row['p_value']):.1g}" if row["p_value"] else ""
        cells.setdefault((row["problem"], row["words"], row["model"]), {})[row["peer"]] = interval(row) + p
    body = [
        [f"{problem}, {words}", model, *(peers.get(peer, "") for peer in PLAIN)]
        for (problem, words, model), peers in cells.items()
    ]
    return table(["", "", *(f"below {peer}" for peer in PLAIN)], body)


def search() -> str:
    """The time of a search over C and rate, over that of one over C alone."""
    found = rows("search")
    numbers = summary("search")
    models = {
        "DropoutSVCCV, rates 0.1 to 0.8": "DropoutSVCCV",
        "DropoutSVCCV, rate 0 in place of 0.1": "DropoutSVCCV, rate 0 too",
        "DropoutSVCCV, its default noises": "DropoutSVCCV, default noises",
        "GridSearchCV(DropoutSVC), rates 0.1 to 0.8": "GridSearchCV(DropoutSVC)",
    }

    def cell(model: str, domain: str) -> str:
        own = {
            row["threads"]: row
            for row in found
            if (row["problem"], row["model"], row["words"]) == (domain, model, "counts")
        }
        alone = f"{float(own['1']['cpu_ratio_to_peer']):.2f}" if "1" in own else "–"
        return f"{alone} / {float(own['2']['ratio_to_peer']):.2f}"

    def mean(model: str) -> str:
        pair = f"{model} / GridSearchCV(LinearSVC), {TFIDF}"
        if f"{pair}, 1 threads: CPU time ratio" not in numbers:
            return ""
        alone, all_cores = (
            numbers[f"{pair}, {way} ratio"] for way in ("1 threads: CPU time", "2 threads: time")
        )
        return f"{alone:.2f} / {all_cores:.2f}"

    body = [[text, *(cell(model, name) for name in DOMAINS), mean(model)] for text, model in models.items()]
    return table(["time / GridSearchCV(LinearSVC)", *DOMAINS, "tf-idf, all four"], body)


def search_memory() -> str:
    """The memory of a search."""
    peak = next(value for name, value in summary("search").items() if name.endswith("input / input"))
    return fill(
        "X is shared, not copied; the scores and weights of the cells that are solved at once take memory of "
        f"their own, at the peak {peak:.1f} times the bytes of X (five folds, 100,000 × 20,000 CSR).",
        WIDTH,
    )


def hidden() -> str:
    """Times and errors of one hidden layer beside MLPClassifier's."""
    body = [
        [row["problem"], row["model"], f"{float(row['ratio_to_peer'] or 1):.1f}", percent(row)]
        for row in rows("latent_time")
    ]
    return table(["data", "model", "time / MLPClassifier's", "test error, %"], body)


def small() -> str:
    """scikit-learn's own tables, and regression on texts."""
    body = []
    for section in ("bundled", "hotel"):
        for row in rows(section):
            if row["model"] in ("DropoutSVC", "DropoutSVR"):
                body.append(
                    [
                        row["problem"],
                        f"{row['model']}, C = {float(row['C']):g}, rate {float(row['rate']):g}",
                        row["peer"],
                        f"{float(row['cpu_ratio_to_peer']):.2f}",
                        f"{float(row['cpu_s']) * 1000:.1f}",
                    ]
                )
    return table(["data", "model", "peer", "time / peer's", "ms"], body)


def growth() -> str:
    """How time grows with the size of the data."""
    numbers = summary("scaling")
    names = dict.fromkeys(name.rsplit(": ", 1)[0] for name in numbers)
    measures = ("non-zeros x", "time x", "time per iteration x")
    body = [[name, *(f"{numbers[f'{name}: {measure}']:.1f}" for measure in measures)] for name in names]
    return table(["", "non-zeros ×", "time ×", "time per iteration ×"], body)


def latent() -> str:
    """MNIST as pixels die, one hidden layer beside none."""
    found = {(row["model"], row["problem"]): row for row in rows("latent")}
    models = {
        "LinearSVC, C = 0.01": "LinearSVC",
        "LinearSVC, C = 0.001": "LinearSVC C=0.001",
        "DropoutSVC, rate 0.5, balanced, Gaussian": "DropoutSVC",
        "MLPClassifier, four copies at rate 0.2": "MLPClassifier 60, four copies, rate 0.2",
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
    """scikit-learn's digits: one hidden layer beside its peers, errors and the time of a fit."""
    found = {(row["model"], row["problem"]): row for row in rows("latent")}
    mlp, hidden = "MLPClassifier, 60 units", "LatentDropoutSVC, 60 units"
    models = {
        "LinearSVC, C chosen for whole images": "LinearSVC, C for whole",
        "LogisticRegression, C chosen for whole images": "LogisticRegression, C for whole",
        "LinearSVC, C chosen for half deleted": "LinearSVC, C for half",
        "LogisticRegression, C chosen for half deleted": "LogisticRegression, C for half",
        "DropoutSVC, rate 0.5, Gaussian, balanced, C chosen for half deleted": "DropoutSVC, C for half",
        "MCFClassifier, rate 0.5, C chosen for half deleted": "MCF-Logistic, C for half",
        mlp: "MLPClassifier 60",
        f"{mlp}, ten copies at rate 0.2": "MLPClassifier 60, ten copies, rate 0.2",
        f"{mlp}, ten copies at rate 0.5": "MLPClassifier 60, ten copies, rate 0.5",
        f"{hidden}, no noise": "LatentDropoutSVC K=60 taylor, noise 0",
        f"{hidden}, rate 0.1, Gaussian": "LatentDropoutSVC K=60 gaussian, noise 0.1",
        f"{hidden}, rate 0.2, Gaussian": "LatentDropoutSVC K=60 gaussian, noise 0.2",
    }
    body = [
        [
            text,
            percent(found[model, "digits"]),
            percent(found[model, "digits, half deleted"]),
            f"{float(found[model, 'digits']['ratio_to_peer']):.2g}",
        ]
        for text, model in models.items()
    ]
    return table(["test error, %", "whole", "half deleted", "time of a fit / MLPClassifier's"], body)


def deletion() -> str:
    """MNIST, everything chosen with as many pixels deleted; differences from the best plain model."""
    found = {(row["model"], row["deleted"]): row for row in rows("mnist_deletion")}
    rates = list(dict.fromkeys(rate for _, rate in found))
    peers = {
        rate: next(row["peer"] for row in found.values() if row["peer"] and row["deleted"] == rate)
        for rate in rates
    }

    def points(row: dict[str, str]) -> str:
        low, mean, high = (100 * float(row[name] or 0) for name in ("less_low", "less", "less_high"))
        return signed(mean, low, high) if row["peer"] else ""

    head = ["test error, %"]
    for rate in rates:
        head += [f"{100 * float(rate):g} % deleted", f"less than {peers[rate]} [95 %]"]
    body = []
    for model in dict.fromkeys(model for model, _ in found):
        own = [found[model, rate] for rate in rates]
        body.append([model, *(cell for row in own for cell in (percent(row), points(row)))])
    return table(head, body)


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
    for made in (
        price,
        amazon,
        amazon_rates,
        amazon_peers,
        classes,
        choice,
        choice_sets,
        choice_pairs,
        search,
        search_memory,
        hidden,
        small,
        growth,
        latent,
        digits,
        deletion,
        blocks,
        missing,
    )
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
