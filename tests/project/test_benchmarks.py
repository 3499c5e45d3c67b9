"""The benchmarks run, and what they measure is what they say: no data files needed."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import SGDClassifier
from sklearn.svm import LinearSVC

from benchmarks import online, peers, problems, readme
from benchmarks.measure import Entry
from benchmarks.report import RESULTS, Report, record
from benchmarks.sections import SECTIONS, amazon, choice

ROOT = Path(__file__).parents[2]
COMMON = {"problem", "model", "C", "rate", "threads"}
TIMED = COMMON | {"time_s", "peer", "ratio_to_peer", "cpu_s", "cpu_ratio_to_peer", "converged"}


def run(*arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "MARGINOUT_DATA"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """Printed text and result folder of a quick run without data."""
    folder = tmp_path_factory.mktemp("results")
    return run("-m", "benchmarks", "--quick", "--csv", str(folder)), folder


def filled(path):
    """The rows of a CSV file, and the columns that some row fills."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return rows, {name for line in rows for name, value in line.items() if value}


@pytest.mark.parametrize(
    ("section", "columns"),
    [
        ("bundled", TIMED | {"suboptimality", "reference_gap", "test_error", "r2"}),
        ("scaling", TIMED | {"n", "d", "nnz"}),
        ("lost_pixels", {"problem", "model", "rate", "repeats", "test_error", "n", "d"}),
        ("memory", COMMON | {"input_mb", "peak_mb", "peak_over_input"}),
    ],
)
def test_sections_without_data_write_their_columns(quick, section, columns):
    rows, used = filled(quick[1] / f"{section}.csv")
    assert rows
    assert columns <= used


def test_ratios_are_times_over_the_peer_of_the_same_race(quick):
    rows, _ = filled(quick[1] / "bundled.csv")
    times = {(line["problem"], line["model"]): float(line["time_s"]) for line in rows}
    ours = next(line for line in rows if line["model"] == "DropoutSVC")
    expected = float(ours["time_s"]) / times[ours["problem"], ours["peer"]]
    assert ours["peer"] == "LinearSVC"
    assert float(ours["ratio_to_peer"]) == pytest.approx(expected)


def test_sections_without_their_data_say_what_is_missing(quick):
    text, folder = quick
    for section in (
        "amazon",
        "explicit",
        "competitors",
        "reuters",
        "mnist",
        "hotel",
        "search",
        "choice",
        "choice_classes",
        "choice_joint",
        "lost_columns",
        "latent_time",
        "hidden",
        "hidden_large",
        "hidden_text",
    ):
        assert f"== {section} skipped: " in text
        assert not (folder / f"{section}.csv").exists()
    assert "MARGINOUT_DATA" in text


def test_environment_is_stated(quick):
    text, folder = quick
    first = text.splitlines()[0]
    assert f"{os.cpu_count()} CPUs" in first
    assert "scikit-learn" in first
    noted = dict(
        line.split(": ", 1) for line in (folder / "environment.txt").read_text(encoding="utf-8").splitlines()
    )
    assert set(noted) == {path.stem for path in folder.glob("*.csv") if not path.stem.endswith("_summary")}
    assert all(re.search(r"CPUs, load [\d.]+ before, [\d.]+ after, Python", line) for line in noted.values())


def test_a_section_that_runs_again_replaces_its_own_line_alone(tmp_path):
    for section, before in (("a", 1.0), ("b", 2.0), ("a", 3.0)):
        record(section, before, tmp_path)
    lines = (tmp_path / "environment.txt").read_text(encoding="utf-8").splitlines()
    assert [line.split(" CPUs, ")[1].split(" before")[0] for line in lines] == ["load 3.00", "load 2.00"]


@pytest.mark.parametrize("section", SECTIONS)
def test_every_section_has_committed_results(section):
    rows, used = filled(RESULTS / f"{section}.csv")
    assert rows
    assert {"problem", "model"} <= used


def texts(counts):
    """A problem of word counts; the second half of the rows is for testing."""
    X, y = sp.csr_matrix(np.array(counts, dtype=float)), np.arange(len(counts)) % 2
    half = len(counts) // 2
    return problems.Problem("texts", X[:half], y[:half], X[half:], y[half:])


def test_words_are_counted_as_named():
    problem = texts([[3, 0, 1], [1, 0, 0], [0, 2, 0], [2, 0, 2]])
    X = problem.X.toarray()
    made = {words: problem.words_as(words) for words in problems.WORDS}
    assert [each.words for each in made.values()] == list(problems.WORDS)
    assert (made["counts"].X.toarray() == X).all()
    assert (made["0 and 1"].X.toarray() == (X > 0)).all()
    logs = np.log1p(X)
    np.testing.assert_allclose(made["log counts"].X.toarray(), logs)
    unit = logs / np.linalg.norm(logs, axis=1, keepdims=True)
    np.testing.assert_allclose(made["log counts, unit rows"].X.toarray(), unit)
    # Document frequencies are those of the training rows: the second word occurs in none of them.
    idf = 1 + np.log(3 / (1 + np.array([2, 0, 1])))
    weights = np.array([[0, 1 + np.log(2), 0], [1 + np.log(2), 0, 1 + np.log(2)]]) * idf
    expected = weights / np.linalg.norm(weights, axis=1, keepdims=True)
    np.testing.assert_allclose(made["tf-idf, unit rows"].X_test.toarray(), expected)


def test_twins_are_test_rows_equal_to_a_training_row():
    problem = texts([[3, 0, 1], [1, 0, 0], [0, 2, 0], [1, 0, 0], [3, 0, 2], [3, 0, 1]])
    assert choice.known_rows(problem).tolist() == [True, False, True]


@pytest.mark.parametrize("start", [range(-8, -5), range(-3, 0)])
def test_a_grid_of_C_goes_on_where_its_edge_is_chosen(start):
    problem = problems.bundled("breast_cancer")
    grids = []

    def make(Cs):
        grids.append(Cs)
        return choice._grid(LinearSVC(random_state=0), 3, Cs)

    wide = choice._grid(LinearSVC(random_state=0), 3, 10.0 ** (np.arange(-8, 3) / 2))
    best = wide.fit(problem.X, problem.y).best_params_["C"]
    found = choice._widened(make, start, problem)
    assert found.best_params_["C"] == pytest.approx(best)
    assert grids[-1][0] < best < grids[-1][-1]
    assert [len(grid) for grid in grids] == list(range(3, 3 + 2 * len(grids), 2))


def test_intervals_are_those_of_the_paired_bootstrap():
    rng = np.random.default_rng(1)
    hard = rng.random(400) < 0.2
    other, own = hard ^ (rng.random(400) < 0.05), hard ^ (rng.random(400) < 0.03)
    reduction, low, high = choice.reduced([(own, other)])
    assert reduction == pytest.approx(1 - own.mean() / other.mean())
    drawn = rng.integers(400, size=(4000, 400))
    ratios = 1 - own[drawn].mean(axis=1) / other[drawn].mean(axis=1)
    np.testing.assert_allclose([low, high], np.quantile(ratios, [0.025, 0.975]), atol=0.015)
    # Several data sets: the mean of their errors, and a narrower interval.
    same, low4, high4 = choice.reduced([(own, other)] * 4)
    assert same == pytest.approx(reduction)
    assert (high4 - low4) / (high - low) == pytest.approx(0.5, abs=0.05)


@pytest.mark.skipif("MARGINOUT_DATA" not in os.environ, reason="needs the Amazon reviews and Reuters")
def test_errors_and_times_of_texts(tmp_path):
    command = [sys.executable, "-m", "benchmarks", "--quick", "--csv", str(tmp_path), "--only"]
    subprocess.run(
        [*command, "amazon", "choice", "choice_classes"], cwd=ROOT, check=True, capture_output=True
    )
    rows, _ = filled(tmp_path / "choice.csv")
    errors = {(line["problem"], line["model"]): float(line["test_error"]) for line in rows if line["C"]}
    pair = next(line for line in rows if line["problem"] == "amazon" and line["peer"] == choice.SQUARED)
    ours, other = (
        sum(errors[domain, model] for domain in ("books", "dvd")) for model in (pair["model"], choice.SQUARED)
    )
    assert float(pair["reduction"]) == pytest.approx(1 - ours / other)
    assert float(pair["low"]) < float(pair["reduction"]) < float(pair["high"])
    rows, _ = filled(tmp_path / "amazon.csv")
    raced = {line["model"] for line in rows if line["problem"] == "books"}
    assert raced == {peer.name for ours, theirs in amazon.PEERS.items() for peer in (ours, *theirs)}
    chosen = [line for line in rows if line["problem"] == "books, chosen" and line["model"] == "DropoutSVC"]
    stored, _ = filled(RESULTS / "choice.csv")
    found = next(line for line in stored if (line["problem"], line["model"]) == ("books", choice.SVC))
    assert [(line["C"], line["rate"]) for line in chosen] == [(found["C"], found["rate"])]


def test_mcnemar_looks_at_documents_that_one_model_gets_wrong():
    own, other = np.array([1, 1, 0, 0, 0, 0, 0], bool), np.array([1, 0, 1, 1, 1, 1, 1], bool)
    assert choice.mcnemar(own, other) == pytest.approx(2 * (1 + 6) / 2**6)
    assert choice.mcnemar(own, own) == 1.0


def test_ratios_are_to_the_fastest_peer_of_the_race():
    report = Report()
    problem = problems.bundled("breast_cancer")
    rivals = [Entry(peer, 0.1) for peer in (peers.PLAIN_LR, peers.PRIMAL_LR, peers.DUAL_LR)]
    amazon._race(report, problem, [Entry(peers.LR, 0.1, 0.5)], rivals, 2, None, "here")
    ours, *theirs = report.rows
    fastest = min(theirs, key=lambda line: line.cpu_s)
    assert (ours.problem, ours.peer) == ("here", fastest.model)
    assert ours.cpu_ratio_to_peer == pytest.approx(ours.cpu_s / fastest.cpu_s)


def test_one_pass_stands_beside_the_errors_of_sgd():
    n = 2000
    lines = online.compare("generated", n)
    X, y, X_test, y_test, _ = online.generated(n)
    for name, average in (("SGDClassifier, %", False), ("averaged, %", True)):
        peer = SGDClassifier(alpha=1 / online.WEIGHTS["generated"], average=average, random_state=0)
        for i in range(0, n, online.CALL):
            peer.partial_fit(X[i : i + online.CALL], y[i : i + online.CALL], classes=[-1, 1])
        expected = f"{100 * (1 - peer.score(X_test, y_test)):.2f}"
        assert [line[name] for line in lines] == [expected] * len(online.RATES)
    assert all(float(line["objective above the optimum, %"]) > 0 for line in lines)


def test_progressive_errors_are_of_predictions_before_learning():
    # Coins, each with a feature of its own: whoever had learnt them first would know them all.
    line = online.progressive(
        "coins", sp.identity(600, format="csr"), np.random.default_rng(0).integers(2, size=600)
    )
    assert all(40 < float(value) < 60 for name, value in line.items() if "(" in name)
    assert line["examples"] == 600


def test_the_online_pages_files_have_the_columns_that_are_measured():
    _, used = filled(RESULTS / "online.csv")
    assert used == set(online.compare("generated", 1000)[0])


@pytest.mark.parametrize(
    "page", [*readme.PAGES, ROOT / "src" / "marginout" / "cli" / "demo.py"], ids=lambda page: page.name
)
def test_the_price_is_said_with_its_numbers(page):
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert "at the price of one" not in text


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere an earlier peak cannot be forgotten")
def test_peak_memory_is_the_fits_own():
    # 400 MB come and go before: they must neither hide 80 MB nor count for a process started later.
    code = (
        "import numpy as np; from functools import partial; from benchmarks import measure, peers, problems; "
        "np.ones(50_000_000).sum(); print(measure.peak_growth(lambda: np.ones(10_000_000))); "
        "load = partial(problems.dense, 2000, 100); "
        "print(*measure.peak_memory(load, measure.Entry(peers.SVC, 1.0, 0.5)))"
    )
    growth, peak, data = map(int, run("-c", code).split())
    assert growth == pytest.approx(80e6, rel=0.1)
    assert peak < 20e6
    assert data == 2000 * 100 * 4


def test_every_table_stands_on_some_page():
    texts = [page.read_text(encoding="utf-8") for page in readme.PAGES]
    assert {match[1] for text in texts for match in readme.MARKED.finditer(text)} == set(readme.TABLES)


@pytest.mark.parametrize("page", readme.PAGES, ids=lambda page: page.name)
def test_pages_show_what_was_measured(page):
    text = page.read_text(encoding="utf-8")
    assert readme.filled(text) == text
    broken = readme.MARKED.sub(r"<!-- \1 -->\n0.12\n<!-- end -->", text)
    assert readme.filled(broken) == text


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
def test_the_memory_of_the_command_is_measured(tmp_path):
    run("-m", "benchmarks.command_memory", "--size", "0.02", "--csv", str(tmp_path))
    with (tmp_path / "command_memory.csv").open(newline="", encoding="utf-8") as file:
        found = {row["what"]: float(row["GB"]) for row in csv.DictReader(file)}
    assert found["the file"] == pytest.approx(0.02, rel=0.5)
    assert all(0.05 < found[name] < 0.6 for name in ("fit", "score", "predict"))


def test_the_page_states_the_memory_of_the_command():
    with (RESULTS / "command_memory.csv").open(newline="", encoding="utf-8") as file:
        found = {row["what"]: float(row["GB"]) for row in csv.DictReader(file)}
    text = " ".join((ROOT / "docs" / "command.md").read_text(encoding="utf-8").split())
    assert max(found["score"], found["predict"]) < 0.4
    assert "predicting or scoring 1 GB takes less than 0.4 GB of memory" in text
    size, data = found["fit"], found["the data in memory (CSR, float64)"]
    assert f"fitting it {size:.1f} GB, of which {data} GB are the data" in text
