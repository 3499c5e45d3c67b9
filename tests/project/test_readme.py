"""Every block of the README and every command of the docs runs as printed, and prints what is printed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("command.md", "tables.md")}
#: A fenced block: its language and its text.
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)
NUMBER = re.compile(r"[-−+]?\d[\d,]*\.?\d*")
#: Lines that differ from run to run.
PASSING = "time ", "created ", "versions "


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A folder with the sample files where the pages expect them, and an environment with the command."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "examples" / "data", folder / "examples" / "data")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return folder, {**os.environ, "PATH": path}


def shell(line, checkout):
    folder, environment = checkout
    command = ["bash", "-e", "-c", line]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(found, printed):
    """Compare words as they are, and numbers with room for other versions of scikit-learn."""
    # Of a ranking of features only the head: the last digits of a fit decide between neighbours.
    texts = [
        [line.rstrip() for line in text.strip().splitlines() if not line.startswith(PASSING)]
        for text in (found, printed)
    ]
    texts = [
        re.sub(r"^(features [^\n]*\n)(?:[^\n]+(?:\n|$))+", r"\1", "\n".join(lines), flags=re.M).splitlines()
        for lines in texts
    ]
    if any(line.endswith("seconds") for line in texts[1]):  # the column of the times
        texts = [[re.sub(r" [\d.]+$", "", line) for line in lines] for lines in texts]
    ours, theirs = ("\n".join(lines) for lines in texts)
    assert re.sub(" +", " ", NUMBER.sub("0", ours)) == re.sub(" +", " ", NUMBER.sub("0", theirs))
    numbers = [
        [float(number.replace("−", "-").replace(",", "")) for number in NUMBER.findall(text)]
        for text in (ours, theirs)
    ]
    assert numbers[0] == pytest.approx(numbers[1], rel=0.05, abs=1.5 if "%" in printed else 0.02)


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 150
    assert README.index("## When it helps") < README.index("times LinearSVC's")


def test_every_block_of_the_readme_is_run():
    assert [language for language, _ in BLOCK.findall(README)] == ["python", "text", "sh", "sh"]
    assert not re.search(r"^    \S", re.sub(BLOCK, "", README), re.M)


def test_the_first_block_prints_what_is_printed():
    (_, code), (_, printed), *_ = BLOCK.findall(README)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    check(done.stdout, printed)


def test_the_installation_names_extras_that_there_are():
    install = BLOCK.findall(README)[2][1]
    assert re.findall(r"^pip install (\S+)", install, re.M) == [".", "'.[cli]'"]


def test_the_commands_of_the_readme_run(checkout):
    block = BLOCK.findall(README)[3][1]
    assert block.count("marginout ") == 4
    shell(block, checkout)
    assert (checkout[0] / "report.html").stat().st_size > 10_000
    assert len((checkout[0] / "answers.csv").read_text().splitlines()) == 751


@pytest.mark.parametrize(
    ("page", "verbs"),
    [
        ("command.md", {"fit", "score", "predict", "stress", "compare", "info"}),
        ("tables.md", {"fit", "stress"}),
    ],
)
def test_pages_show_what_the_command_prints(checkout, page, verbs):
    seen = set()
    for language, text in BLOCK.findall(PAGES[page]):
        if language == "console":
            for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
                line, _, printed = part.partition("\n")
                check(shell(line, checkout).replace(f"{checkout[0]}{os.sep}", ""), printed)
                seen.add(line.split()[1])
    assert seen == verbs


def test_sample_files_are_small_and_plain():
    for path in (ROOT / "examples" / "data").glob("*.csv"):
        content = path.read_bytes()
        assert len(content) < 100_000
        assert content.isascii()
        assert path.name in (path.parent / "SOURCE.md").read_text(encoding="utf-8")
