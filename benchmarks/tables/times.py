"""Times / times of peers: one fit, many classes, a search, a hidden layer, files and workers."""

from __future__ import annotations

from textwrap import fill

from benchmarks import panel as halves
from benchmarks.problems import DOMAINS, WORDS
from benchmarks.report import geometric_mean
from benchmarks.tables.parts import TFIDF, WIDTH, percent, rows, summary, table

#: Names of our models in the results of `amazon`, and of their classes.
PAIRS = {"DropoutSVC": "DropoutSVC", "DropoutLR": "DropoutLogisticRegression"}
SOLVERS = {
    "DropoutSVC": ("LinearSVC", "LinearSVC squared hinge"),
    "DropoutLR": ("LogisticRegression", "LogisticRegression liblinear", "LogisticRegression liblinear dual"),
}


def price() -> str:
    """Sentence: time of a fit / time of a plain fit."""
    pairs = {"DropoutSVC": "LinearSVC", "DropoutLogisticRegression": "LogisticRegression"}
    names = {table.name for table in halves.TABLES if not table.regression}
    found = [
        float(row["cpu_ratio_to_peer"])
        for section in ("tables", "tables_development")
        for row in rows(section)
        if row["problem"] in names and pairs.get(row["model"]) == row["peer"]
    ]
    numbers = summary("sparse")

    def ratio(model: str, rates: str) -> str:
        mean, worst = (numbers[f"{model}, {rates}: {most}CPU time ratio"] for most in ("", "largest "))
        return f"{mean:.1f} times (worst cell {worst:.1f})"

    bound, default = "DropoutSVC", "DropoutSVC squared hinge gaussian"
    return fill(
        f"A fit takes {geometric_mean(found):.1f} times LinearSVC's or LogisticRegression's time on "
        f"{len(names)} tables, defaults on both sides (worst table {max(found):.1f}). On sparse and large "
        f"data it takes, of the time of LinearSVC with the hinge, {ratio(bound, 'rates from 0.3')} with the "
        f"paper's loss and rates of 0.3 to 0.9, {ratio(bound, 'rate 0.05')} at a rate of 0.05, and "
        f"{ratio(default, 'rate 0.5')} with the default loss at 0.5.",
        WIDTH,
    )


def amazon() -> str:
    """Table of time / time of the fastest peer: high rates, worst cell, low rate, chosen parameters."""
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
    """Table of time / time of the fastest peer, by rate."""
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
    """Tables of time / time of every peer."""
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
    """Table of times and errors with many classes."""
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


def small() -> str:
    """Table of times on small data sets of scikit-learn, and of regression on texts."""
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
    """Table of the growth of time with the size of the data."""
    numbers = summary("scaling")
    names = dict.fromkeys(name.rsplit(": ", 1)[0] for name in numbers)
    measures = ("non-zeros x", "time x", "time per iteration x")
    body = [[name, *(f"{numbers[f'{name}: {measure}']:.1f}" for measure in measures)] for name in names]
    return table(["what grows", "non-zeros ×", "time ×", "time per iteration ×"], body)


def search() -> str:
    """Table of the time of a search over C and rate / time of a search over C alone."""
    found = rows("search")
    numbers = summary("search")
    models = {
        "DropoutSVCCV, rates 0.1 to 0.8": "DropoutSVCCV",
        "DropoutSVCCV, rate 0 in place of 0.1": "DropoutSVCCV, rate 0 too",
        "DropoutSVCCV, eleven rates from 0 to 0.95": "DropoutSVCCV, eleven rates",
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
    """Sentence: memory of a search."""
    peak = next(value for name, value in summary("search").items() if name.endswith("input / input"))
    return fill(
        "X is shared, not copied; the scores and weights of the cells that are solved at once take memory of "
        f"their own, at the peak {peak:.1f} times the bytes of X (five folds, 100,000 × 20,000 CSR).",
        WIDTH,
    )


def hidden() -> str:
    """Table of times and errors of one hidden layer and of MLPClassifier."""
    body = [
        [row["problem"], row["model"], f"{float(row['ratio_to_peer'] or 1):.1f}", percent(row)]
        for row in rows("latent_time")
    ]
    return table(["data", "model", "time / MLPClassifier's", "test error, %"], body)


def drawn() -> str:
    """Table of times and errors of one hidden layer trained by drawn noise, PyTorch's and MLPClassifier."""
    found = {(row["problem"], row["model"]): row for row in rows("hidden")}
    body = [
        [
            model,
            f"{float(row['cpu_ratio_to_peer'] or 1):.2f}",
            percent(row),
            percent(found[f"{problem}, half deleted", model]),
        ]
        for (problem, model), row in found.items()
        if (f"{problem}, half deleted", model) in found
    ]
    return table(["mnist 10000", "time / PyTorch's", "test error, %", "half deleted, %"], body)


def drawn_large() -> str:
    """Sentence: errors and time of a hidden layer of 800 units on all digits."""
    found = {row["problem"]: row for row in rows("hidden_large")}
    whole, half = found["mnist"], found["mnist, half deleted"]
    model, C, rate = whole["model"].removeprefix("LatentDropoutLR, "), float(whole["C"]), float(whole["rate"])
    time = ""
    if whole["time_s"]:
        time = f" The fit takes {float(whole['time_s']) / 60:.1f} minutes, with threads = {whole['threads']}."
    return fill(
        f"All 60,000 digits, {model}, rate {rate:g} and C = {C:g}, chosen on the last 10,000 of them: "
        f"{100 * float(whole['test_error']):.2f} % of the test digits are wrong, "
        f"{percent(half)} % with half of their pixels deleted.{time}",
        WIDTH,
    )


def drawn_text() -> str:
    """Table of errors, or R², and times of hidden layers of 20 units and linear models on reviews."""
    head = ["reviews", "model", "C", "rate", "test error, %", "R²", "seconds of CPU time"]
    body = [
        [
            row["problem"].removesuffix(", chosen"),
            row["model"],
            f"{float(row['C']):g}" if "Dropout" in row["model"] else "–",
            f"{float(row['rate']):g}" if row["rate"] else "–",
            percent(row) if row["test_error"] else "",
            f"{float(row['r2']):.3f}" if row["r2"] else "",
            f"{float(row['cpu_s']):.2f}" if row["cpu_s"] else "",
        ]
        for row in rows("hidden_text")
    ]
    columns = len(head) if any(line[-1] for line in body) else -1  # the last one, unless on a busy machine
    return table(head[:columns], [line[:columns] for line in body])


def blocks() -> str:
    """Table of time of fits from files and on workers / time of the fit in memory."""
    files, cluster = summary("files"), summary("cluster")
    return table(
        ["a fit", "time / fit in memory"],
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
