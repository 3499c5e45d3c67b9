"""Beyond the paper: the text sets of Wang and Manning (2012, 2013), against tuned plain models."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import sem, t
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

import marginout
from marginout import DropoutLogisticRegression, DropoutSVC, MCFClassifier, NaiveBayesScaler
from reproduction import data
from reproduction.cells import Experiment, Result, Settings
from reproduction.writing import NOT_RUN, NotRunError, Results, Section, check, number, percent, table

#: Features and model of some pipelines.
Pairs = Sequence[tuple[str, str]]
#: How right each document is, from 0 to 1, without and with dropout.
Sides = dict[str, NDArray[np.float64]]

#: The best accuracy in % in Wang and Manning 2012 and 2013: naive Bayes, linear models, dropout.
PUBLISHED = {
    "AthR": 87.9,
    "XGraph": 91.2,
    "BbCrypt": 99.7,
    "MPQA": 86.7,
    "RT-s": 79.4,
    "Subj": 93.6,
}
AMAZON = tuple(f"Amazon {domain}" for domain in data.DOMAINS)
SETS = (*AMAZON, *PUBLISHED)
#: Sets of many documents: only the pipelines that folds choose on the others are tried.
LARGE = "RT-s", "Subj"
#: The longest n-grams. Amazon comes as counts, of words and pairs of them; MPQA as words.
LENGTHS: dict[str, tuple[int, ...]] = {"MPQA": (1,), **dict.fromkeys(AMAZON, (1,))}

HINGE, SQUARED, LR = "SVM", "SVM, squared hinge", "LR"
DROPOUT_SVM, DROPOUT_LR, GAUSSIAN_LR, MCF = (
    "Dropout-SVM",
    "Dropout-LR",
    "Dropout-LR, Gaussian",
    "MCF-Logistic",
)
COUNTS, BINARY, LOG, TFIDF, BAYES = "counts", "binary", "log counts", "tf-idf", "naive Bayes"
MODELS: dict[str, Any] = {
    HINGE: LinearSVC(loss="hinge", max_iter=5000, random_state=0),
    SQUARED: LinearSVC(max_iter=5000, random_state=0),
    LR: LogisticRegression(solver="liblinear", max_iter=1000, random_state=0),
    DROPOUT_SVM: DropoutSVC(loss="hinge", expectation="bound"),
    DROPOUT_LR: DropoutLogisticRegression(),
    GAUSSIAN_LR: DropoutLogisticRegression(expectation="gaussian"),
    MCF: MCFClassifier("logistic"),
}
PLAIN = [
    (features, model) for features in (COUNTS, BINARY, LOG, TFIDF, BAYES) for model in (HINGE, SQUARED, LR)
]
OURS = [(features, model) for features in (BINARY, TFIDF, BAYES) for model in (DROPOUT_SVM, DROPOUT_LR)]
OTHERS = [(BINARY, GAUSSIAN_LR), (BINARY, MCF)]
FEW = [(features, model) for model in (SQUARED, LR, DROPOUT_LR) for features in (TFIDF, BAYES)]

#: Values of C times the mean ‖x‖² of the training rows, and dropout rates. Beyond 30 the hinge fits all rows.
PLAIN_CS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
DROPOUT_CS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
CS = {HINGE: PLAIN_CS[:6], SQUARED: PLAIN_CS, LR: PLAIN_CS}
RATES = (0.1, 0.3, 0.5, 0.7, 0.9)
OUTER, INNER = 10, 3
#: Scores of inner folds that differ by less are equal.
ROUNDING = 1e-9


def cells(quick: bool) -> list[Settings]:
    if quick:
        tiny: Settings = {"Cs": [1.0, 10.0], "inner": 2, "rows": 200, "seed": 0}
        few = [(TFIDF, SQUARED, []), (BAYES, DROPOUT_LR, [0.5])]
        return [
            {"data": "MPQA", "ngrams": 1, "features": features, "model": model, "rates": rates, **tiny}
            for features, model, rates in few
        ]
    return [
        {
            "data": name,
            "ngrams": ngrams,
            "features": features,
            "model": model,
            "rates": [] if (features, model) in PLAIN else list(RATES),
            "Cs": list(CS.get(model, DROPOUT_CS)),
            "inner": INNER,
            "rows": None,
            "seed": 0,
        }
        for name in SETS
        for features, model in (FEW if name in LARGE else (*PLAIN, *OURS, *OTHERS))
        for ngrams in ((1,) if model == MCF else LENGTHS.get(name, (1, 2)))
    ]


def measure(settings: Settings) -> Result:
    """Choose C and the rate inside of every outer fold, and test once on it."""
    X, y, split = corpus(settings["data"], settings["ngrams"])
    if settings["rows"] is not None:
        kept = np.sort(np.random.default_rng(0).permutation(len(y))[: settings["rows"]])
        X, y, split = X[kept], y[kept], None
    cv_scores, chosen, seconds, correct = [], [], [], []
    for train, test in outer(y, split, settings["seed"]):
        score, rate, C = choose(X[train], y[train], settings)
        start = time.process_time()
        prepared, held = prepare(settings["features"], X[train], y[train], X[test])
        model = clone(MODELS[settings["model"]]).set_params(C=C / scale(prepared))
        if rate is not None:
            model.set_params(noise=rate)
        model.fit(prepared, y[train])
        seconds.append(time.process_time() - start)
        correct.append(model.predict(held) == y[test])
        cv_scores.append(score)
        chosen.append([rate, C])
    return {
        "cv_score": cv_scores,
        "chosen": chosen,
        "test_score": float(np.concatenate(correct).mean()),
        "n_tests": [len(right) for right in correct],
        "fit_seconds": float(np.mean(seconds)),
        "correct": [np.packbits(right).tobytes().hex() for right in correct],
    }


def outer(y: NDArray[Any], split: NDArray[Any] | None, seed: int) -> Iterator[tuple[Any, Any]]:
    """The split of the source, or ten folds."""
    if split is not None:
        yield np.flatnonzero(split == 0), np.flatnonzero(split == 1)
    else:
        yield from StratifiedKFold(OUTER, shuffle=True, random_state=seed).split(y, y)


def choose(X: Any, y: NDArray[Any], settings: Settings) -> tuple[float, float | None, float]:
    """The best score of the inner folds, its rate and its C. Ties: the smallest C, the lowest rate."""
    Cs, rates = settings["Cs"], settings["rates"] or [None]
    scores = np.zeros((len(Cs), len(rates)))
    folds = StratifiedKFold(settings["inner"], shuffle=True, random_state=settings["seed"])
    for train, held in folds.split(y, y):
        prepared, rest = prepare(settings["features"], X[train], y[train], X[held])
        scores += grid_scores(MODELS[settings["model"]], prepared, y[train], rest, y[held], Cs, rates)
    best = np.unravel_index(int(np.argmax(scores)), scores.shape)
    return float(scores[best]) / settings["inner"], rates[best[1]], Cs[best[0]]


def grid_scores(model: Any, X: Any, y: Any, X_held: Any, y_held: Any, Cs: Any, rates: Any) -> NDArray[Any]:
    """Accuracy on held-out rows, for every C and rate."""
    unit = scale(X)
    if isinstance(model, (DropoutSVC, DropoutLogisticRegression)):
        found = marginout.path(model, X, y, Cs=[C / unit for C in Cs], noises=rates)
        S = np.asarray(X_held @ found.coefs.reshape(-1, X.shape[1]).T).reshape(-1, *found.coefs.shape[:2])
        assert found.classes is not None
        right = found.classes[(S + found.intercepts[..., 0] > 0).astype(int)] == y_held[:, None, None]
        return np.asarray(right.mean(axis=0))
    scores = np.zeros((len(Cs), len(rates)))
    for i, C in enumerate(Cs):
        for j, rate in enumerate(rates):
            each = clone(model).set_params(C=C / unit, **({} if rate is None else {"noise": rate}))
            scores[i, j] = each.fit(X, y).score(X_held, y_held)
    return scores


def scale(X: Any) -> float:
    """Mean ‖x‖²."""
    return float((X.data**2).sum() / X.shape[0])


def prepare(features: str, X: Any, y: Any, X_held: Any) -> tuple[Any, Any]:
    """Features of training and held-out rows; what has to be learnt is learnt from the training rows."""
    seen = np.flatnonzero(np.asarray(X.sum(axis=0)).ravel())
    X, X_held = (part[:, seen] for part in (X, X_held))
    if features == COUNTS:
        return X, X_held
    if features == TFIDF:
        weighting = TfidfTransformer(sublinear_tf=True).fit(X)
        return weighting.transform(X), weighting.transform(X_held)
    if features == LOG:
        return normalize(X.log1p()), normalize(X_held.log1p())
    X, X_held = X.sign(), X_held.sign()
    if features == BAYES:
        bayes = NaiveBayesScaler().fit(X, y)
        return bayes.transform(X), bayes.transform(X_held)
    return X, X_held


@lru_cache(2)
def corpus(name: str, ngrams: int) -> tuple[Any, NDArray[Any], NDArray[Any] | None]:
    """Counts, labels, and the split if the source has one."""
    if name in AMAZON:
        problem = data.amazon(name.removeprefix("Amazon "))
        split = np.repeat([0, 1], [len(problem.y), len(problem.y_test)])
        return sp.vstack([problem.X, problem.X_test]).tocsr(), np.append(problem.y, problem.y_test), split
    if name == "MPQA":
        X, z = data.stored("fastdropout_mpqa.npz")
        return X, z["y"], None
    return data.ngrams(*data.texts(name), ngrams)


def section(results: Results) -> Section:
    found = {name: gather(results, name) for name in SETS}
    return Section(
        claim="(Not in the paper.) On text with few labels, dropout errs less than the best plain pipeline.",
        protocol="The sets of Wang and Manning (ACL 2012; ICML 2013) that are named in the table (RT-2k and "
        "IMDB are not run yet, CR is not at hand), and the four of Amazon. MPQA, RT-s and Subj: ten "
        "folds; AthR, XGraph and BbCrypt: the split by date of 20 newsgroups, without headers; "
        "Amazon: as in Figure 2. Features are words and marks of punctuation, and with “2-grams” "
        "pairs of them. On RT-s and Subj only the pipelines that are chosen most on the others are "
        "tried: tf-idf and naive Bayes features, on both sides. In every fold, three inner folds "
        "choose C (C‖x‖² from 0.1 to 300, of the hinge to 30, with dropout from 0.3 to 1000) and "
        "the dropout rate (0.1 to 0.9). “Best plain” is the pipeline, among all features, n-grams "
        "and losses without dropout, with the best score of the inner folds, chosen anew in every "
        "fold; “best with dropout” likewise; of pipelines with equal scores the answers are "
        "averaged. tf-idf has log counts and unit rows; “naive Bayes” are 0 and 1 times the "
        "log-count ratios. Intervals of a set: documents drawn again, both models on the same ones. The "
        "published accuracies are of splits and of words that are not known here in full.",
        checks=[
            check(
                "The best with dropout errs less than the best plain pipeline, on average.",
                lambda: gains(found),
            ),
            check(
                "It reaches the best published accuracy, within 1.96 standard errors.",
                lambda: published(found),
            ),
        ],
        tables=[summary(found), additions(results), *(detail(results, ngrams) for ngrams in (1, 2))],
    )


def gather(results: Results, name: str, plain: Pairs = PLAIN, dropout: Pairs = OURS) -> Sides | None:
    """How right the best of two lists of pipelines are; None if not run."""
    try:
        records = results.where(data=name).records()
    except NotRunError:
        return None
    pairs = {"plain": plain, "dropout": dropout}
    return {
        side: chosen([record for record in records if (record["features"], record["model"]) in pairs[side]])
        for side in pairs
    }


def chosen(records: list[Result]) -> NDArray[np.float64]:
    """How right the best pipeline of the inner folds is, fold by fold; of equals, their mean."""
    scores = np.array([record["cv_score"] for record in records])
    return np.concatenate(
        [
            np.mean([_answers(records[i], fold) for i in np.flatnonzero(equal_to_best)], axis=0)
            for fold, equal_to_best in enumerate((scores > scores.max(axis=0) - ROUNDING).T)
        ]
    )


def _answers(record: Result, fold: int) -> NDArray[np.uint8]:
    packed = np.frombuffer(bytes.fromhex(record["correct"][fold]), dtype=np.uint8)
    return np.unpackbits(packed)[: record["n_tests"][fold]]


def reduction(sides: Sides) -> float:
    """By how much, relatively, dropout lowers the error."""
    return 1 - float((1 - sides["dropout"]).mean() / (1 - sides["plain"]).mean())


def interval(sides: Sides) -> tuple[float, float]:
    """95 % interval of `reduction`: documents drawn again, both models on the same ones."""
    wrong = 1 - np.column_stack([sides["plain"], sides["dropout"]])
    kinds, counts = np.unique(wrong, axis=0, return_counts=True)
    draws = np.random.default_rng(0).multinomial(len(wrong), counts / len(wrong), size=10_000)
    plain, dropout = (draws @ kinds).T
    low, high = np.quantile(1 - dropout / np.maximum(plain, 1), [0.025, 0.975])
    return float(low), float(high)


def gains(found: dict[str, Sides | None]) -> tuple[bool | None, str]:
    """The mean over the sets, with Student's interval over the sets."""
    mean, low, high, count = mean_gain(found)
    words = (
        f"relative reduction of the error, mean of {count} sets: {percent(mean)}, 95 % interval over "
        f"the sets [{percent(low)}, {percent(high)}]"
    )
    return (low > 0) or (None if mean > 0 else False), words


def mean_gain(found: dict[str, Sides | None]) -> tuple[float, float, float, int]:
    """The mean relative reduction of the error, its 95 % interval over the sets, and their number."""
    values = [reduction(sides) for sides in finished(found).values()]
    mean, half = float(np.mean(values)), float(t.ppf(0.975, len(values) - 1) * sem(values))
    return mean, mean - half, mean + half, len(values)


def claim(found: dict[str, Sides | None]) -> str:
    """The mean in a sentence that says where the interval contains zero."""
    try:
        mean, low, high, count = mean_gain(found)
    except NotRunError:
        return NOT_RUN
    words = (
        f"with dropout there is {percent(mean)} less error than with the best plain pipeline, mean of "
        f"{count} sets, 95 % interval over the sets [{percent(low)}, {percent(high)}]"
    )
    words = f"{words}{', which contains zero' if low <= 0 <= high else ''}."
    return words.replace("[-", "[−").replace(", -", ", −")


def published(found: dict[str, Sides | None]) -> tuple[bool | None, str]:
    """Whether ours is nowhere significantly below."""
    words, behind = [], False
    for name, sides in finished(found).items():
        if name in PUBLISHED:
            ours = float(sides["dropout"].mean())
            error = sqrt(ours * (1 - ours) / len(sides["dropout"]))
            behind |= ours + 1.96 * error < PUBLISHED[name] / 100
            words.append(f"{name} {100 * ours:.1f} ± {100 * error:.1f} ({PUBLISHED[name]})")
    return not behind, "accuracy, standard error (published): " + ", ".join(words)


def finished(found: dict[str, Sides | None]) -> dict[str, Sides]:
    """The sets that have been run."""
    sets = {name: sides for name, sides in found.items() if sides is not None}
    if not sets:
        raise NotRunError
    return sets


def summary(found: dict[str, Sides | None]) -> str:
    body = []
    for name, sides in found.items():
        if sides is None:
            body.append([name, *[NOT_RUN] * 4])
            continue
        accuracy = [f"{100 * sides[side].mean():.1f}" for side in ("plain", "dropout")]
        low, high = (percent(end, 0) for end in interval(sides))
        body.append(
            [name, *accuracy, f"{percent(reduction(sides))} [{low}, {high}]", PUBLISHED.get(name, "")]
        )
    head = ["data", "best plain", "best with dropout", "less error [95 %]", "published"]
    return table(head, body, "Accuracy in %, pipelines chosen inside of every fold:")


def additions(results: Results) -> str:
    """What lowers the error of the best plain pipeline with tf-idf features: means over the sets."""
    tfidf, bayes = ([pair for pair in PLAIN if pair[0] == features] for features in (TFIDF, BAYES))
    added: dict[str, Pairs] = {
        "dropout": [pair for pair in OURS if pair[0] == TFIDF],
        "naive Bayes features in place of tf-idf": bayes,
        "naive Bayes features, and dropout": [pair for pair in OURS if pair[0] == BAYES],
        "either, chosen by folds": [*tfidf, *bayes],
        "either with dropout, chosen by folds": [pair for pair in OURS if pair[0] != BINARY],
    }
    body = []
    for words, pairs in added.items():
        try:
            mean, low, high, count = mean_gain({name: gather(results, name, tfidf, pairs) for name in SETS})
        except NotRunError:
            continue
        body.append([words, f"{percent(mean)} [{percent(low)}, {percent(high)}]"])
    if not body:
        return f"What adds to tf-idf: {NOT_RUN}."
    caption = f"What adds to the best plain pipeline with tf-idf features, mean of {count} sets:"
    return table(["what is compared", "less error [95 % over the sets]"], body, caption)


def detail(results: Results, ngrams: int) -> str:
    here = results.where(ngrams=ngrams)
    found = {(cell["data"], cell["features"], cell["model"]): cell for cell, _ in here.cells}
    names = [name for name in SETS if any(name == each[0] for each in found)]
    body = []
    for features, model in (*PLAIN, *OURS, *OTHERS):
        if any((name, features, model) in found for name in names):
            match = {"features": features, "model": model}
            body.append(
                [
                    model,
                    features,
                    *(
                        number(here.error, data=name, **match) if (name, features, model) in found else "–"
                        for name in names
                    ),
                ]
            )
    words = ", ".join(["words", "2-grams"][:ngrams])
    return table(
        ["model", "features", *names],
        body,
        f"Error, {words} (Amazon: words and 2-grams, as given):",
        labels=2,
    )


EXPERIMENT = Experiment(
    "scoreboard",
    "Beyond the paper",
    "Text with few labels, against tuned plain models",
    cells,
    measure,
    section,
)
