"""Tables of times on sparse and large data, beside every peer."""

from __future__ import annotations

from benchmarks.report import geometric_mean
from benchmarks.tables.parts import Row, rows, summary, table

#: Names in the results, and on the pages.
MODELS = {
    "DropoutSVC": "DropoutSVC, hinge, bound",
    "DropoutSVC hinge gaussian": "DropoutSVC, hinge, gaussian",
    "DropoutSVC squared hinge gaussian": "DropoutSVC as it comes",
    "DropoutLR": "DropoutLogisticRegression, bound",
    "DropoutLR gaussian": "DropoutLogisticRegression, gaussian",
}
RATES = ("0.0", "0.05", "0.1", "0.3", "0.5", "0.9")
PEERS = (
    "LinearSVC squared hinge",
    "SGDClassifier",
    "Snap ML SVM",
    "liblinear-multicore hinge",
    "LogisticRegression liblinear dual",
    "Snap ML LR",
    "liblinear-multicore LR",
)
RATIO = "cpu_ratio_to_peer"


def sparse() -> str:
    """Table of time / time of LinearSVC or LogisticRegression by rate, means and worst cells."""
    numbers = summary("sparse")
    body = []
    for model, name in MODELS.items():
        cells = []
        for rate in RATES:
            found = numbers.get(f"{model}, rate {rate}: CPU time ratio")
            worst = numbers.get(f"{model}, rate {rate}: largest CPU time ratio")
            cells.append("" if found is None or worst is None else f"{found:.2f} ({worst:.1f})")
        heavy = numbers[f"{model}, rates from 0.3: CPU time ratio"]
        body.append([name, *cells, f"{heavy:.2f}", f"{numbers[f'{model}: largest suboptimality']:.0e}"])
    head = ["time / the plain model's, mean (worst)", *(f"rate {float(rate):g}" for rate in RATES)]
    return table([*head, "0.3 to 0.9", "above the optimum, at most"], body)


def sparse_sets() -> str:
    """Table of the same by data set, at the middle rate, with other libraries' models."""
    found = [row for row in rows("sparse") if row["threads"] == "1" and row[RATIO]]
    places = dict.fromkeys((row["problem"], row["words"]) for row in found)
    columns = [*((model, "0.5") for model in MODELS), *((peer, "") for peer in PEERS)]
    lines: dict[str, list[tuple[str, str]]] = {}
    for problem, words in places:
        domain = problem in ("books", "dvd", "electronics", "kitchen")
        name = "Amazon" if domain else problem
        lines.setdefault(f"{name}, {words}" if words else name, []).append((problem, words))
    body = []
    for name, group in lines.items():
        own = [row for row in found if (row["problem"], row["words"]) in group]
        body.append([name, *(_mean(own, model, rate) for model, rate in columns)])
    return table(["data", *(MODELS.get(model, model) for model, _ in columns)], body)


def _mean(own: list[Row], model: str, rate: str) -> str:
    ratios = [float(row[RATIO]) for row in own if row["model"] == model and row["rate"] == rate]
    return f"{geometric_mean(ratios):.2f}" if ratios else ""
