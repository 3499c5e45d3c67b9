"""Test errors with C and rate chosen by cross-validation, compared with plain models."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

from benchmarks.problems import DOMAINS, WORDS
from benchmarks.tables.parts import TFIDF, WIDTH, Row, percent, rows, summary, table

PLAIN = ("LinearSVC hinge", "LinearSVC squared hinge", "LogisticRegression")
OURS = ("DropoutSVCCV", "DropoutLogisticRegressionCV")
JOINT = "DropoutSVCCV, pairwise"


def choice() -> str:
    """Table of test errors with C and rate chosen by folds, and their reduction by DropoutSVCCV."""
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


def _what_is_left(found: list[Row]) -> str:
    """Sentences below the table of errors."""

    def told(row: Row) -> str:
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


def choice_joint() -> str:
    """Table of errors on text of one problem for all classes, of one for each, and of plain models."""
    found = rows("choice_joint")
    pairs = {row["peer"]: interval(row) for row in found if row["model"] == JOINT and row["peer"]}
    body = [
        [row["model"], percent(row), _chosen(row).split(" ", 1)[1], pairs.get(row["model"], "")]
        for row in found
        if row["C"]
    ]
    return table(["model", "test error, %", "(C, rate)", "the pairwise model errs less by"], body)


def choice_sets() -> str:
    """Table of test errors and chosen parameters, one line per data set and word features."""
    found = [row for row in rows("choice") + rows("choice_classes") if row["C"]]
    cells: dict[tuple[str, str], dict[str, Row]] = {}
    for row in found:
        cells.setdefault((row["problem"], row["words"]), {})[row["model"]] = row
    body = []
    for (problem, words), models in cells.items():
        errors = [_chosen(models[model]) if model in models else "" for model in (*PLAIN, *OURS)]
        body.append([f"{problem}, {words}", *errors])
    return table(["test error, % (C, rate)", *PLAIN, *OURS], body)


def _chosen(row: Row) -> str:
    rate = f", {float(row['rate']):g}" if row["rate"] else ""
    return f"{percent(row)} ({float(row['C']):.2g}{rate})"


def choice_pairs() -> str:
    """Table of the reduction of the error by our models against each peer, with intervals and p-values."""
    found = [row for row in rows("choice") + rows("choice_classes") if row["peer"]]
    cells: dict[tuple[str, str, str], Row] = {}
    for row in found:
        p = f", p = {float(row['p_value']):.1g}" if row["p_value"] else ""
        cells.setdefault((row["problem"], row["words"], row["model"]), {})[row["peer"]] = interval(row) + p
    body = [
        [f"{problem}, {words}", model, *(peers.get(peer, "") for peer in PLAIN)]
        for (problem, words, model), peers in cells.items()
    ]
    return table(["data", "model", *(f"below {peer}" for peer in PLAIN)], body)


def _errors(found: list[Row], words: str, problems: Sequence[str]) -> dict[str, float]:
    """Mean test error of every model over some data sets, in per cent."""
    own = [row for row in found if row["words"] == words and row["problem"] in problems and row["C"]]
    models = dict.fromkeys(row["model"] for row in own)
    return {
        model: sum(100 * float(row["test_error"]) for row in own if row["model"] == model) / len(problems)
        for model in models
    }


def _against(found: list[Row], problem: str, words: str, peer: str, model: str = "DropoutSVCCV") -> Row:
    """The row that compares one of our models with a peer."""
    key = problem, words, peer, model
    return next(row for row in found if (row["problem"], row["words"], row["peer"], row["model"]) == key)


def interval(row: Row) -> str:
    """Reduction of an error, with its 95 % interval."""
    part, low, high = (100 * float(row[name]) for name in ("reduction", "low", "high"))
    return f"{part:.1f} % [{low:.1f}, {high:.1f}]".replace("-", "−")
