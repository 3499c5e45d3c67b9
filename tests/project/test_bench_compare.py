"""The arithmetic of `benchmarks.compare`, on made-up result files; nothing is built or timed."""

import csv
import re
import subprocess
import sys
from math import sqrt
from pathlib import Path

import pytest

from benchmarks import compare
from benchmarks.report import COLUMNS

ROOT = Path(__file__).parents[2]


def row(model, cpu_s, problem="books", threads=1, **more):
    return {"problem": problem, "model": model, "threads": threads, "cpu_s": cpu_s, **more}


def written(folder, rows, section="amazon"):
    """A folder as `python -m benchmarks --csv FOLDER` leaves it."""
    folder.mkdir(parents=True)
    with (folder / f"{section}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    return folder


def rounds(tmp_path, base, head):
    """The folders of the rounds of base and of head, each a list of rows."""
    return (
        [written(tmp_path / f"{side}-{n}", rows) for n, rows in enumerate(lists, 1)]
        for side, lists in (("base", base), ("head", head))
    )


def test_a_ratio_is_the_least_time_of_head_over_the_least_of_base(tmp_path):
    base, head = rounds(
        tmp_path,
        [[row("DropoutSVC", 2.0, C=0.1, rate=0.5)], [row("DropoutSVC", 1.0, C=0.1, rate=0.5)]],
        [[row("DropoutSVC", 1.5, C=0.1, rate=0.5)], [row("DropoutSVC", 3.0, C=0.1, rate=0.5)]],
    )
    (cell,) = compare.cells("amazon", base, head)
    assert (cell.base_s, cell.head_s, cell.ratio) == (1.0, 1.5, 1.5)
    assert cell.name == "problem books, model DropoutSVC, C 0.1, rate 0.5, threads 1"


def test_a_section_is_the_geometric_mean_of_our_cells(tmp_path):
    models = ("DropoutSVC", "GridSearchCV(DropoutSVC)", "LinearSVC", "GridSearchCV(LinearSVC)")
    base, head = rounds(
        tmp_path,
        [[row(model, 1.0) for model in models]],
        [[row(model, seconds) for model, seconds in zip(models, (0.5, 1.2, 4.0, 9.0), strict=True)]],
    )
    found = compare.verdict("amazon", compare.cells("amazon", base, head))
    assert found.cells == 2
    assert found.ratio == pytest.approx(sqrt(0.5 * 1.2))
    assert found.within
    assert (found.worst_ratio, found.worst) == (
        1.2,
        "problem books, model GridSearchCV(DropoutSVC), threads 1",
    )
    assert found.peers_ratio == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("model", "ours"),
    [
        ("DropoutLR irls", True),
        ("LatentDropoutSVC, 20 units", True),
        ("MCFClassifier", True),
        ("FeatureDeletionSVC, 5 deletions", True),
        ("explicit M=16", True),
        ("LogisticRegression liblinear", False),
        ("SGDClassifier", False),
        ("MLPClassifier, 20 units", False),
    ],
)
def test_models_of_marginout_are_told_by_their_names(tmp_path, model, ours):
    base, head = rounds(tmp_path, [[row(model, 1.0)]], [[row(model, 1.0)]])
    assert [cell.ours for cell in compare.cells("amazon", base, head)] == [ours]


@pytest.mark.parametrize(("seconds", "within"), [(0.5, True), (1.029, True), (1.031, False)])
def test_three_per_cent_slower_is_the_limit(tmp_path, seconds, within):
    base, head = rounds(tmp_path, [[row("DropoutSVC", 1.0)]], [[row("DropoutSVC", seconds)]])
    found = compare.verdict("amazon", compare.cells("amazon", base, head))
    assert found.within is within
    assert found.peers_ratio is None
    assert ("NOT within 3 %" in compare.told(found)) is not within
    assert f"head / base {seconds:.3f} over 1 cells" in compare.told(found)


def test_rows_without_cpu_time_are_left_out(tmp_path):
    rows = [row("DropoutSVCCV", 1.0), row("DropoutSVCCV", None, threads=2)]
    base, head = rounds(tmp_path, [rows], [rows])
    assert len(compare.cells("amazon", base, head)) == 1
    base, head = rounds(tmp_path / "none", [rows[1:]], [rows[1:]])
    with pytest.raises(ValueError, match="amazon has no CPU time of a model of marginout"):
        compare.verdict("amazon", compare.cells("amazon", base, head))


def test_equal_names_are_cells_of_their_own_and_a_chosen_C_may_differ(tmp_path):
    base, head = rounds(
        tmp_path,
        [[row("DropoutSVCCV", 1.0, C=0.1), row("DropoutSVCCV", 2.0, C=0.1)]],
        [[row("DropoutSVCCV", 3.0, C=0.3), row("DropoutSVCCV", 8.0, C=0.1)]],
    )
    assert [cell.ratio for cell in compare.cells("amazon", base, head)] == [3.0, 4.0]


@pytest.mark.parametrize("other", [[], [row("DropoutSVR", 1.0)], [row("DropoutSVC", 1.0, threads=2)]])
def test_rows_that_are_not_the_same_are_not_compared(tmp_path, other):
    base, head = rounds(tmp_path, [[row("DropoutSVC", 1.0)]], [other])
    with pytest.raises(ValueError, match=r"rows of amazon\.csv are not the same"):
        compare.cells("amazon", base, head)


def test_base_and_head_run_in_turn_and_files_are_written_after_each_section(tmp_path, monkeypatch):
    order = []

    def measure(python, section, folder, arguments):
        order.append((section, python.name))
        if section == "mnist":
            return False
        written(folder / section, [row("DropoutSVC", 1.0 if python.name == "b" else 1.1)], section)
        (folder / section / f"{section}.csv").rename(folder / f"{section}.csv")
        return True

    monkeypatch.setattr(compare, "measure", measure)
    words = ["--base", "main", "amazon", "mnist", "search", "--csv", str(tmp_path / "new" / "out.csv")]
    found = compare.compare(Path("b"), Path("h"), tmp_path / "runs", compare.parse(words))
    assert [name for section, name in order if section == "amazon"] == ["b", "h", "b", "h"]
    assert [name for section, name in order if section == "mnist"] == ["b"]
    assert [each.section for each in found] == ["amazon", "search"]
    with (tmp_path / "new" / "out.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(line["section"], float(line["ratio"]), line["within"]) for line in lines] == [
        ("amazon", pytest.approx(1.1), "False"),
        ("search", pytest.approx(1.1), "False"),
    ]
    with (tmp_path / "new" / "out_cells.csv").open(newline="") as file:
        assert [line["head_s"] for line in csv.DictReader(file)] == ["1.1", "1.1"]


def test_the_sections_are_checked_before_anything_is_built(capsys):
    assert compare.parse(["--base", "main"]).sections == ["amazon", "reuters", "mnist", "search"]
    assert compare.parse(["--base", "main", "hotel", "--quick"]).sections == ["hotel"]
    with pytest.raises(SystemExit):
        compare.parse(["--base", "main", "amazn"])
    assert "no section amazn; the sections are bundled, amazon" in capsys.readouterr().err


def test_the_comparison_needs_the_standard_library_alone():
    """It builds its own environments, so that nothing need be installed before."""
    code = "import sys, benchmarks.compare; print([name for name in sys.modules if '.' not in name])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(re.findall(r"'(\w+)'", done.stdout))
    assert not loaded & {"numpy", "scipy", "sklearn", "marginout", "psutil"}
