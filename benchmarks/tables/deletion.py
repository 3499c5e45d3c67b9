"""Test errors when features are deleted after training: pixels of MNIST and digits, whole measurements."""

from __future__ import annotations

from statistics import fmean, stdev

from scipy.stats import t

from benchmarks.tables.parts import Row, percent, rows, signed, table


def latent() -> str:
    """Table of errors on MNIST by share of deleted pixels, with and without a hidden layer."""
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
    """Table of errors and times on scikit-learn's digits: one hidden layer and its peers."""
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
    """Table of errors on MNIST, parameters chosen per deletion rate, and differences to the best peer."""
    found = {(row["model"], row["deleted"]): row for row in rows("mnist_deletion")}
    rates = list(dict.fromkeys(rate for _, rate in found))
    peers = {
        rate: next(row["peer"] for row in found.values() if row["peer"] and row["deleted"] == rate)
        for rate in rates
    }

    def points(row: Row) -> str:
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
    """Tables for measurements lost at prediction time: mean errors, and differences with intervals."""
    found: dict[tuple[str, str], list[float]] = {}
    for row in rows("missing_groups"):
        found.setdefault((row["model"], row["lost"]), []).append(100 * float(row["test_error"]))
    models, lost = (list(dict.fromkeys(key[i] for key in found)) for i in (0, 1))
    head = [f"{count} of 10 lost" for count in lost]
    errors = table(
        ["test error, %", *head],
        [[model, *(f"{fmean(found[model, count]):.2f}" for count in lost)] for model in models],
    )
    ours, deleted = (f"DropoutLogisticRegressionCV, {way}" for way in ("conditional", "deleted, group noise"))
    pairs = [
        (ours, "LogisticRegression, mean imputation"),
        (ours, "LogisticRegression, IterativeImputer"),
        (ours, "LogisticRegression, KNNImputer"),
        (ours, "LogisticRegression, one model per pattern"),
        (ours, "HistGradientBoosting, ten copies with losses"),
        (ours, deleted),
        (deleted, "LogisticRegression, mean imputation"),
        ("HistGradientBoosting, GaussianImputer", "HistGradientBoosting, complete data"),
    ]

    def interval(ours: str, peer: str, count: str) -> str:
        gains = [b - a for a, b in zip(found[ours, count], found[peer, count], strict=True)]
        # Folds share training data. Variance of Nadeau and Bengio: a test fold has 1/4 of the other examples.
        half = t.ppf(0.975, len(gains) - 1) * stdev(gains) * (1 / len(gains) + 1 / 4) ** 0.5
        return signed(fmean(gains), fmean(gains) - half, fmean(gains) + half)

    differences = table(
        ["first less than second, points [95 %]", *head],
        [[f"{ours} / {peer}", *(interval(ours, peer, count) for count in lost)] for ours, peer in pairs],
    )
    return f"{errors}\n\n{differences}"
