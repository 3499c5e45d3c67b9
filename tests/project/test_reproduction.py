"""The reproduction runs, survives being killed, and its report says what its results say."""

import json
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from marginout import LatentDropoutSVC
from reproduction import prepare, report
from reproduction.cells import Experiment, Store, grid, key
from reproduction.experiments import NAMES, load, nightmare, scoreboard
from reproduction.growing import Grown
from reproduction.protocol import WIDER, widened
from reproduction.runner import run, verify
from reproduction.visual_words import CONTRAST, PATCH, Vocabulary
from reproduction.writing import NOT_RUN, Check, Results, Section, check, positive

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "reproduction" / "results"

#: Bytes of the largest file that the repository takes.
LARGEST = 1_500_000

#: 30 cells of ten milliseconds through the real runner; every start of a cell leaves a line in a file.
KILLED = """
import sys, time
from pathlib import Path
from reproduction.cells import Experiment, Store, grid
from reproduction.runner import run
def measure(settings):
    with open(sys.argv[2], "a") as file:
        file.write(f"{settings['cell']}\\n")
    time.sleep(0.01)
    return {"square": settings["cell"] ** 2, "long": list(range(20000))}
experiment = Experiment("killed", "", "", lambda quick: grid(cell=range(30)), measure, None)
run(experiment, Store(Path(sys.argv[1])), part=(int(sys.argv[3]), int(sys.argv[4])))
"""


def command(*arguments, data=True, **environment):
    """A subprocess in the project's folder, with or without data."""
    variables = {name: value for name, value in os.environ.items() if data or name != "MARGINOUT_DATA"}
    variables |= {"OMP_NUM_THREADS": "1", **environment}
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def records(folder, experiment):
    """The records of an experiment's file, each line read by itself."""
    path = folder / f"{experiment}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_killed_run_loses_at_most_the_cell_in_progress(tmp_path):
    started, folder = tmp_path / "started", tmp_path / "results"
    draw, kills = random.Random(0), 0
    for _ in range(4):
        before = len(records(folder, "killed"))
        process = command("-c", KILLED, folder, started, 1, 1)
        # Wait for the first new cell, then for a random moment, or the kills would all fall on imports.
        while len(records(folder, "killed")) == before and process.poll() is None:
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.1))
        kills += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.communicate()
        for record in records(folder, "killed"):
            assert record["result"]["square"] == record["settings"]["cell"] ** 2
            assert len(record["result"]["long"]) == 20000
    process = command("-c", KILLED, folder, started, 1, 1)
    assert "cells to run" in process.communicate()[0]
    assert process.returncode == 0
    assert kills > 0
    assert len(records(folder, "killed")) == 30
    assert not list(folder.glob("*.partial"))
    starts = [int(line) for line in started.read_text().split()]
    assert set(starts) == set(range(30))
    assert len(starts) <= 30 + kills


def test_processes_side_by_side_keep_all_cells(tmp_path):
    started, folder = tmp_path / "started", tmp_path / "results"
    processes = [command("-c", KILLED, folder, started, part, 3) for part in (1, 2, 3)]
    for process in processes:
        text = process.communicate()[0]
        assert process.returncode == 0, text
        assert "10 of 10 cells to run" in text
    found = records(folder, "killed")
    assert {record["settings"]["cell"] for record in found} == set(range(30))
    keys = [key(record["settings"]) for record in found]
    assert len(keys) == 30
    assert keys == sorted(keys)


@pytest.mark.parametrize("cut", [b"", b"{", b'{"settings": {"cell"', b"\x00\x00\n"])
def test_a_broken_last_line_is_run_again(tmp_path, capsys, cut):
    """The line of one of four cells is cut off, at its beginning, in the middle, or written as zeros."""
    runs = []

    def measure(settings):
        runs.append(settings["cell"])
        return {"square": settings["cell"] ** 2}

    cells = grid(cell=range(4))
    experiment, store = Experiment("cells", "", "", lambda quick: cells, measure, None), Store(tmp_path)
    assert run(experiment, store)
    whole = records(tmp_path, "cells")
    lines = store.path("cells").read_bytes().splitlines(keepends=True)
    store.path("cells").write_bytes(b"".join(lines[:3]) + cut)
    lost = whole[3]["settings"]["cell"]
    if cut:
        with pytest.warns(UserWarning, match=r"cells\.jsonl: the last line is not complete"):
            assert store.load("cells", cells)[lost] is None
        with pytest.warns(UserWarning, match="its cell counts as not run"):
            assert run(experiment, store)
    else:
        assert run(experiment, store)
    assert runs == [0, 1, 2, 3, lost]
    assert "1 of 4 cells to run" in capsys.readouterr().out
    again = records(tmp_path, "cells")
    assert again[:3] == whole[:3]
    assert [record["settings"] for record in again] == [record["settings"] for record in whole]


def test_a_last_line_without_its_end_is_complete(tmp_path):
    store = Store(tmp_path)
    store.save("cells", {"cell": 0}, {"square": 0}, 1.0)
    store.path("cells").write_bytes(store.path("cells").read_bytes().rstrip())
    assert store.load("cells", [{"cell": 0}])[0]["result"] == {"square": 0}
    store.save("cells", {"cell": 1}, {"square": 1}, 1.0)
    assert len(records(tmp_path, "cells")) == 2


def test_a_broken_line_before_the_last_is_an_error(tmp_path):
    """A file with the marks of a merge, or one that was edited: nothing is dropped without a word."""
    store = Store(tmp_path)
    for cell in range(2):
        store.save("cells", {"cell": cell}, {"square": cell**2}, 1.0)
    whole = store.path("cells").read_bytes()
    store.path("cells").write_bytes(b"<<<<<<< HEAD\n" + whole)
    with pytest.raises(ValueError, match=r"cells\.jsonl, line 1 is not JSON: remove it"):
        store.load("cells", [{"cell": 0}])
    with pytest.raises(ValueError, match="its cell is run again"):
        store.save("cells", {"cell": 2}, {"square": 4}, 1.0)
    assert store.path("cells").read_bytes() == b"<<<<<<< HEAD\n" + whole


def test_a_cell_saved_again_has_one_line(tmp_path):
    store = Store(tmp_path)
    for square in (3, 4):
        store.save("cells", {"cell": 2}, {"square": square}, 1.0)
    (record,) = records(tmp_path, "cells")
    assert record["result"] == {"square": 4}


def test_a_quick_run_of_everything(tmp_path):
    """Every cell is kept, or its missing file named; and none is run twice."""
    store, cache = Store(tmp_path / "results"), str(tmp_path / "cache")
    everything = ("-m", "reproduction", "run", "all", "--quick", "--results", store.folder)
    process = command(*everything, MARGINOUT_CACHE=cache)
    text = process.communicate()[0]
    assert process.returncode == 0, text
    for name in NAMES:
        found = store.load(name, load(name).cells(True))
        named = sum(map(int, re.findall(rf"== {name}: (\d+) cells skipped: \w+\.npz is ", text)))
        assert found.count(None) == named
        for record in filter(None, found):
            assert record["versions"]["marginout"]
            assert record["seconds"] > 0
            assert record["result"]
    again = command("-m", "reproduction", "run", "losses", "--quick", "--results", store.folder)
    assert "0 of 2 cells to run" in again.communicate()[0]


def test_without_data_the_rest_still_runs(tmp_path):
    arguments = ("-m", "reproduction", "run", "losses", "hotel", "--quick", "--results", tmp_path)
    process = command(*arguments, data=False)
    text = process.communicate()[0]
    assert process.returncode == 0
    assert "hotel_reviews_bow.npz is needed: set MARGINOUT_DATA" in text
    assert len(records(tmp_path, "losses")) == 2


def test_a_changed_setting_is_another_cell():
    assert key({"C": 1.0, "grid": [1, 2]}) != key({"C": 1.0, "grid": [1, 3]})
    assert key({"C": 1.0, "rate": 0.5}) == key({"C": 1.0, "rate": 0.5})
    for name in NAMES:
        cells = load(name).cells(False)
        assert len({key(settings) for settings in cells}) == len(cells)


@pytest.mark.parametrize(
    ("peak", "C", "at_edge"),
    [(1.0, 1.0, False), (10.0, 10.0, False), (1e3, 1e3, False), (1e-3, 1e-3, False), (1e9, 1e5, True)],
)
def test_a_grid_of_C_goes_on_beyond_its_edge(peak, C, at_edge):
    """The best value lies within, at the edge, beyond it, below it, and out of reach."""
    tried = []

    def best(Cs):
        tried.extend(Cs)
        found = max(Cs, key=lambda C: -abs(np.log10(C / peak)))
        return -abs(np.log10(found / peak)), found

    score, found, outermost = widened(best, [10.0, 0.1, 1.0])
    assert (found, outermost) == (C, at_edge)
    assert score == -abs(np.log10(C / peak))
    assert len(set(tried)) == len(tried) <= 3 + WIDER


def test_a_grid_of_C_ends_where_nothing_is_gained():
    """Its steps are those of the edge it leaves; equal scores and failed fits bring nothing."""
    scores = {0.01: 0.7, 0.03: 0.6, 0.3: 0.5, 0.00333: 0.8, 0.00111: 0.8}
    assert widened(lambda Cs: max((scores[C], C) for C in Cs), [0.01, 0.03, 0.3]) == (0.8, 0.00333, False)
    failing = {0.1: 0.5, 1.0: 0.6, 10.0: np.nan}
    assert widened(lambda Cs: max((failing[C], C) for C in Cs), [0.1, 1.0]) == (0.6, 1.0, False)


def test_a_single_C_is_all_there_is():
    assert widened(lambda Cs: (0.5, Cs[0]), [0.1]) == (0.5, 0.1, True)


def test_a_report_without_results_has_no_blanks(tmp_path):
    report.write(Store(tmp_path / "none"), tmp_path)
    text = (tmp_path / "REPORT.md").read_text(encoding="utf-8")
    assert text.count(f"| **{NOT_RUN}** |") == len(NAMES)
    assert "|  |" not in text.replace("|  | experiment |", "")
    for name in NAMES:
        assert f"`python -m reproduction run {name}`" in text


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_has_a_committed_result_and_every_result_a_cell(name):
    keys = [key(record["settings"]) for record in records(RESULTS, name)]
    assert keys == sorted(key(settings) for settings in load(name).cells(False))
    assert Store(RESULTS).path(name).stat().st_size < LARGEST


def test_every_committed_file_belongs_to_an_experiment():
    assert {path.stem for path in RESULTS.glob("*.jsonl")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_no_committed_C_is_the_edge_of_a_grid_that_could_go_on(name):
    for record in records(RESULTS, name):
        if record["result"].get("C_at_edge"):
            assert record["result"]["C"] not in record["settings"]["Cs"]


def test_the_first_part_of_the_examples_has_all_classes():
    model = Grown(LatentDropoutSVC(2, random_state=0), 1.0, parts=2, finish=1000)
    X, y = np.eye(8), np.repeat([0, 1], 4)
    with pytest.raises(ValueError, match="parts=2 parts lacks a class"):
        model.fit(X, y)
    assert model.fit(X, y[[0, 4, 1, 5, 2, 6, 3, 7]]).predict(X).shape == (8,)


def test_the_committed_report_is_that_of_the_committed_results(tmp_path):
    report.write(Store(RESULTS), tmp_path)
    written = (tmp_path / "REPORT.md").read_text(encoding="utf-8")
    assert written == (ROOT / "reproduction" / "REPORT.md").read_text(encoding="utf-8")
    for figure in re.findall(r"\(figures/(\w+\.svg)\)", written):
        assert (ROOT / "reproduction" / "figures" / figure).is_file()


@pytest.mark.parametrize("name", ["losses", "amazon"])
def test_a_cell_run_again_gives_the_committed_number(name):
    experiment = load(name)
    if name == "amazon" and "MARGINOUT_DATA" not in os.environ:
        pytest.skip("needs MARGINOUT_DATA")
    # The cheapest kind of cell: a search by the library itself.
    settings = next(
        cell
        for cell in experiment.cells(False)
        if cell["rate"] == 0.5 and cell.get("model", "Dropout-SVM") == "Dropout-SVM"
    )
    (record,) = Store(RESULTS).load(name, [settings])
    kept = record["result"]
    again = experiment.measure(settings)
    for field, value in kept.items():
        # A few test reviews on the boundary may change sides with another BLAS.
        assert again[field] == pytest.approx(value, rel=0.1 if name == "losses" else 2e-3, abs=1e-4)


def test_verify_finds_a_score_that_does_not_come_back(tmp_path, capsys):
    def measure(settings):
        return {"test_score": 0.9, "test_errors": [0.1, 0.2], "C": settings["cell"]}

    experiment = Experiment("cells", "", "", lambda quick: grid(cell=range(4)), measure, None)
    store = Store(tmp_path)
    assert run(experiment, store)
    assert verify(experiment, store, count=9, seed=0)
    store.save("cells", {"cell": 2}, {"test_score": 0.9, "test_errors": [0.1, 0.203]}, 1.0)
    assert not verify(experiment, store, count=9, seed=0)
    assert "DIFFERS to 0.0030: cell=2" in capsys.readouterr().out
    store.save("cells", {"cell": 2}, {"seconds": 1.0}, 1.0)
    assert verify(experiment, store, count=9, seed=0)
    assert "3 of 3 cells again" in capsys.readouterr().out


def test_a_gain_within_its_standard_error_is_not_decided():
    assert positive([0.02, 0.03], [0.005, 0.005]) is True
    assert positive([0.02, 0.003], [0.005, 0.005]) is None
    assert positive([0.02, -0.003], [0.005, 0.005]) is False
    small = check("", lambda: (None, "numbers"))
    assert (small.holds, small.word) == (False, "not decided")
    assert Section("", "", [small]).verdict == "not decided"
    assert Section("", "", [small, Check("", True, "")]).verdict == "holds in part"
    assert Section("", "", [small, Check("", False, "")]).verdict == "not decided"


@pytest.mark.parametrize(
    ("holds", "verdict"),
    [
        ([True, True], "holds"),
        ([True, False], "holds in part"),
        ([False, False], "does not hold"),
        ([None], NOT_RUN),
        ([True, None], "holds (1 of 2 parts run)"),
    ],
)
def test_verdicts(holds, verdict):
    assert Section("", "", [Check("", each, "") for each in holds]).verdict == verdict


def test_the_rate_is_chosen_by_the_validation_score_not_the_test_score(tmp_path):
    cells = grid(rate=[0.1, 0.5])
    experiment = Experiment("chosen", "", "", lambda quick: cells, lambda settings: {}, None)
    store = Store(tmp_path)
    for settings, cv, test in zip(cells, (0.8, 0.9), (0.95, 0.85), strict=True):
        store.save("chosen", settings, {"cv_score": cv, "test_score": test}, 1.0)
    results = Results.of(experiment, store)
    assert results.chosen_error() == pytest.approx(0.15)
    assert results.error() == pytest.approx(0.1)


def test_the_best_pipeline_of_a_fold_is_that_of_the_inner_folds(tmp_path):
    """Two folds of four texts: the pipeline with the best inner score answers, however the test goes."""
    store = Store(tmp_path)
    best = {0: (scoreboard.TFIDF, scoreboard.SQUARED), 1: (scoreboard.BAYES, scoreboard.LR)}
    right = {0: [True, False, False, False], 1: [True, True, False, True]}
    for cell in scoreboard.cells(False):
        if cell["data"] == "MPQA":
            mine = [best[fold] == (cell["features"], cell["model"]) for fold in (0, 1)]
            answers = [np.array(right[fold]) ^ (not mine[fold]) for fold in (0, 1)]
            result = {
                "cv_score": [0.9 if own else 0.8 for own in mine],
                "n_tests": [4, 4],
                "correct": [np.packbits(each).tobytes().hex() for each in answers],
            }
            store.save("scoreboard", cell, result, 0.0)
    sides = scoreboard.gather(Results.of(scoreboard.EXPERIMENT, store), "MPQA")
    assert sides["plain"].tolist() == right[0] + right[1]
    assert scoreboard.gather(Results.of(scoreboard.EXPERIMENT, store), "AthR") is None
    sides["dropout"] = np.ones(8, dtype=bool)
    assert scoreboard.reduction(sides) == 1.0


def test_pipelines_with_equal_inner_scores_are_averaged():
    """Which of two equals comes first must not decide; a third, that scores less, does not count."""
    answers = [[1, 1, 0, 0], [1, 0, 0, 1], [1, 1, 1, 1]]
    records = [
        {"cv_score": [score], "n_tests": [4], "correct": [np.packbits(right).tobytes().hex()]}
        for score, right in zip((0.1 + 0.2, 0.3, 0.2), answers, strict=True)
    ]
    for order in (records, records[::-1]):
        assert scoreboard.chosen(order).tolist() == [1.0, 0.5, 0.0, 0.5]


def test_the_interval_of_a_set_draws_documents_for_both_models_again():
    rng = np.random.default_rng(1)
    sides = {"plain": rng.choice([0.0, 0.5, 1.0], 400), "dropout": rng.choice([0.0, 1.0], 400)}
    draws = rng.integers(400, size=(4000, 400))
    reductions = 1 - (1 - sides["dropout"][draws]).mean(axis=1) / (1 - sides["plain"][draws]).mean(axis=1)
    assert scoreboard.interval(sides) == pytest.approx(np.quantile(reductions, [0.025, 0.975]), abs=0.015)


def test_visual_words_are_the_nearest_prototypes_counted_by_quadrant():
    rng = np.random.default_rng(0)
    images = rng.integers(256, size=(3, 32, 32, 3), dtype=np.uint8)
    vocabulary = Vocabulary.learn(images, n_words=5, n_patches=200, seed=0)
    counts = vocabulary.counts(images)
    assert counts.shape == (3, 20)
    expected = np.zeros((3, 20))
    for n, image in enumerate(images.astype(float)):
        for top in range(26):
            for left in range(26):
                # Windows have the channel first, as sliding_window_view puts the patch last.
                patch = image[top : top + PATCH, left : left + PATCH].transpose(2, 0, 1).ravel()
                patch = (patch - patch.mean()) / np.sqrt(patch.var() + CONTRAST)
                white = (patch - vocabulary.mean) @ vocabulary.whiten
                word = ((vocabulary.words - white) ** 2).sum(axis=1).argmin()
                expected[n, (2 * (top >= 13) + (left >= 13)) * 5 + word] += 1
    # In float32 a patch between two prototypes may fall to either.
    assert abs(counts.toarray() - expected).sum() <= 4
    assert (counts.sum(axis=1) == 676).all()


def test_whitened_patches_are_uncorrelated():
    rng = np.random.default_rng(0)
    smooth = rng.normal(size=(40, 8, 8, 3)).repeat(4, axis=1).repeat(4, axis=2)
    images = np.clip(128 + 40 * smooth + rng.normal(scale=20, size=smooth.shape), 0, 255).astype(np.uint8)
    vocabulary = Vocabulary.learn(images, n_words=4, n_patches=5000, seed=0)
    again = vocabulary.whiten @ vocabulary.whiten
    # W (Σ + εI) W = I, so that Σ + εI = W⁻²: symmetric, and no eigenvalue below ε.
    eigenvalues = np.linalg.eigvalsh(np.linalg.inv(again.astype(float)))
    assert eigenvalues.min() == pytest.approx(0.1, rel=0.05)
    np.testing.assert_allclose(vocabulary.whiten, vocabulary.whiten.T, atol=1e-5)


def test_prepare_makes_the_same_file_of_batches_and_sheets(tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    sheets, batches = tmp_path / "sheets", tmp_path / "batches"
    sheets.mkdir()
    batches.mkdir()
    train_labels = []
    for name in prepare.TRAIN + prepare.TEST:
        pixels = rng.integers(256, size=(4, 32, 32, 3), dtype=np.uint8)
        labels = rng.integers(10, size=4).tolist()
        image.fromarray(pixels.reshape(4, 1024, 3)).save(sheets / f"{name}.png")
        flat = pixels.transpose(0, 3, 1, 2).reshape(4, -1)
        (batches / name).write_bytes(pickle.dumps({b"data": flat, b"labels": labels}, protocol=3))
        train_labels += labels if name in prepare.TRAIN else []
    (sheets / "train_lables.json").write_text(json.dumps(train_labels))
    (sheets / "test_lables.json").write_text(json.dumps(labels))
    monkeypatch.setenv("MARGINOUT_CACHE", str(tmp_path))
    prepare.prepare(sheets, None)
    prepare.prepare(batches, tmp_path / "other.npz")
    with np.load(tmp_path / "cifar10.npz") as one, np.load(tmp_path / "other.npz") as other:
        assert one["X_train"].shape == (20, 32, 32, 3)
        for name in ("X_train", "y_train", "X_test", "y_test"):
            np.testing.assert_array_equal(one[name], other[name])


def test_batches_may_not_run_code(tmp_path):
    for name in prepare.TRAIN + prepare.TEST:
        (tmp_path / name).write_bytes(pickle.dumps({b"data": os.getcwd}, protocol=3))
    with pytest.raises(pickle.UnpicklingError, match="holds no"):
        prepare.prepare(tmp_path, tmp_path / "out.npz")
    assert not (tmp_path / "out.npz").exists()


def test_figure_6_lets_the_svms_do_without_an_offset():
    cells = nightmare.cells(False)
    for model in (nightmare.HINGE, nightmare.FDROP, nightmare.SVM):
        own = [cell for cell in cells if cell["model"] == model]
        without = [cell for cell in own if cell.get("offset") is False]
        assert 0 < len(without) < len(own)
        assert not any(nightmare.make(cell).fit_intercept for cell in without)
        assert all(nightmare.make(cell).fit_intercept for cell in own if cell not in without)
