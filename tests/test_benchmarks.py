"""The benchmarks run, and what they measure is what they say: no data files needed."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import readme

ROOT = Path(__file__).parents[1]
COMMON = {"problem", "model", "C", "rate", "threads"}
TIMED = COMMON | {"time_s", "peer", "ratio_to_peer", "converged"}


def run(*arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "MARGINOUT_DATA"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
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
        "accuracy",
        "search",
        "choice",
    ):
        assert f"== {section} skipped: " in text
        assert not (folder / f"{section}.csv").exists()
    assert "MARGINOUT_DATA" in text


def test_environment_is_stated(quick):
    text, folder = quick
    first = text.splitlines()[0]
    assert f"{os.cpu_count()} CPUs" in first
    assert "scikit-learn" in first
    assert (folder / "environment.txt").read_text(encoding="utf-8").strip() == first


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


def test_the_readme_states_the_memory_of_the_command():
    with (readme.RESULTS / "command_memory.csv").open(newline="", encoding="utf-8") as file:
        found = {row["what"]: float(row["GB"]) for row in csv.DictReader(file)}
    text = " ".join(readme.README.read_text(encoding="utf-8").split())
    assert max(found["score"], found["predict"]) < 0.4
    assert "predicting or scoring 1 GB takes less than 0.4 GB of memory" in text
    size, data = found["fit"], found["the data in memory (CSR, float64)"]
    assert f"fitting it {size:.1f} GB, of which {data} GB are the data" in text
