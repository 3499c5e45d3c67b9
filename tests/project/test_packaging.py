"""pyproject.toml: every extra holds what its files import, and every package has one lowest version."""

import ast
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import numpy
import pytest
import sklearn

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: Packages that are imported by another name than the one they are installed by.
IMPORTED_AS = {"scikit-learn": "sklearn", "pillow": "PIL", "pyyaml": "yaml", "pytest-xdist": "xdist"}
#: What the dependencies bring along, and what is there without any package.
GIVEN = {
    *sys.stdlib_module_names,
    "joblib",
    "threadpoolctl",
    "docutils",
    "liblinear",  # has no wheels; the benchmarks say how to install it, and leave its models out without it
    "marginout",
    "tests",
    "benchmarks",
    "reproduction",
    # Of one section of the benchmarks, which names the command that installs it where it is missing.
    "torch",
}


def packages(requirements):
    """The names by which requirements are imported; an extra of our own is what it holds."""
    names = set()
    for requirement in requirements:
        match = re.match(r"([\w.-]+)(?:\[([\w,]+)\])?", requirement)
        name, extras = match[1], match[2]
        if name == "marginout":
            for extra in extras.split(","):
                names |= packages(PROJECT["optional-dependencies"][extra])
        else:
            names.add(IMPORTED_AS.get(name, name.replace("-", "_")))
    return names


def imported(source):
    """Packages that a source imports anywhere, and those that it lists as extensions of Sphinx."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "extensions":
            yield from (name.partition(".")[0] for name in ast.literal_eval(node.value))


def sources(folder):
    """Python files below a folder, and the examples that its pages run."""
    for path in (ROOT / folder).rglob("*.py"):
        if not {"_build", "gallery", "generated"} & set(path.parts):
            yield path.read_text(encoding="utf-8")
    for path in (ROOT / folder).glob("*.md"):
        yield from re.findall(r"^\s*>>> ((?:import|from) .+)$", path.read_text(encoding="utf-8"), re.M)


@pytest.mark.parametrize(
    ("extra", "folders"),
    [
        # A page of the documentation imports every module, and an example runs.
        ("docs", ["docs", "examples", "src"]),
        ("test", ["tests", "src"]),
        ("bench", ["benchmarks"]),
        ("reproduction", ["reproduction"]),
    ],
)
def test_an_extra_holds_what_its_files_import(extra, folders):
    own = {path.stem for path in (ROOT / "docs" / "_ext").glob("*.py")}
    here = packages(PROJECT["dependencies"] + PROJECT["optional-dependencies"][extra])
    needed = {name for folder in folders for source in sources(folder) for name in imported(source)}
    assert len(needed) > 3
    assert sorted(needed - here - own - GIVEN) == []


def run(*command, folder=None):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """An sdist of what is committed, and the wheel that it makes."""
    pytest.importorskip("mesonpy")
    if not (ROOT / ".git").exists():
        pytest.skip("meson makes an sdist of a git checkout")
    folder = tmp_path_factory.mktemp("packages")
    make = "import sys, mesonpy; print(mesonpy.build_sdist(sys.argv[1]))"
    sdist = run(sys.executable, "-c", make, str(folder), folder=ROOT).split()[-1]
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    run(*wheel, "--wheel-dir", str(folder), str(folder / sdist), folder=folder)
    return folder / sdist, next(folder.glob("*.whl"))


def test_the_sdist_holds_what_a_build_and_a_reader_need(built):
    with tarfile.open(built[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"pyproject.toml", "meson.build", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff"}
    wanted |= {"src/marginout/_kernels/_newton.h", "tests/problems.py", "examples/data/reviews.csv"}
    assert wanted <= names


def test_the_wheel_works_in_an_environment_of_its_own(built, tmp_path):
    with zipfile.ZipFile(built[1]) as archive:
        names = set(archive.namelist())
        about = next(name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(about).decode()
    assert {"marginout/py.typed", "marginout/report/style.css", "marginout/report/script.js"} <= names
    assert not [name for name in names if name.endswith((".h", ".pyx", ".pxi"))]
    assert f"Version: {PROJECT['version']}" in metadata
    assert "License-Expression: BSD-3-Clause" in metadata
    venv.create(tmp_path / "own", with_pip=False)
    python = tmp_path / "own" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    inside = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(run(str(python), "-c", inside).strip())
    with zipfile.ZipFile(built[1]) as archive:
        archive.extractall(site)
    # What it requires is taken from where the tests run; marginout itself is not, nor is the checkout.
    code = (
        "import sys; sys.path += [p for p in sys.argv[1:] if p]; import marginout, numpy as np; "
        "from sklearn.datasets import load_iris; X, y = load_iris(return_X_y=True); "
        "print(marginout.__file__, marginout.__version__, marginout.DropoutSVC().fit(X, y).score(X, y))"
    )
    places = sorted({str(Path(sklearn.__file__).parents[1]), str(Path(numpy.__file__).parents[1])})
    where, version, score = run(str(python), "-c", code, *places, folder=tmp_path).split()
    assert Path(where).is_relative_to(site)
    assert version == PROJECT["version"]
    assert float(score) > 0.8


def test_groups_name_extras_that_there_are():
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    for name, requirements in groups.items():
        for requirement in requirements:
            if name == "dev":
                assert requirement["include-group"] in groups
            else:
                assert requirement == f"marginout[{name}]"
                assert name in PROJECT["optional-dependencies"]


def constraints(pyproject, tmp_path):
    """What `make test-oldest` installs, for a pyproject.toml."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "oldest.py", tmp_path / ".ci")
    (tmp_path / "pyproject.toml").write_text(pyproject, encoding="utf-8")
    command = [sys.executable, str(tmp_path / ".ci" / "oldest.py")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_package_has_one_lowest_version(tmp_path):
    found = constraints((ROOT / "pyproject.toml").read_text(encoding="utf-8"), tmp_path)
    assert found.returncode == 0, found.stderr
    lines = found.stdout.split()
    assert {"numpy==2.0", "meson-python==0.18"} <= set(lines)
    listed = sum(PROJECT["optional-dependencies"].values(), PROJECT["dependencies"])
    named = {re.split(r"[\[>]", requirement)[0] for requirement in listed} - {"marginout"}
    assert named <= {line.partition("==")[0] for line in lines}


@pytest.mark.parametrize("wrong", ["numpy>=2.1", "numpy", "numpy<3"])
def test_another_form_of_minimum_is_an_error(tmp_path, wrong):
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = constraints(text.replace('lint = ["ruff', f'lint = ["{wrong}", "ruff'), tmp_path)
    assert found.returncode == 1
    assert wrong in found.stderr


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_the_documentation_is_built_from_nothing():
    """A page that a failed build left behind is in no table of contents, which is an error."""
    steps = subprocess.run(
        ["make", "-n", "docs"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    build = steps[steps.index("rm -rf") :].splitlines()
    assert {"docs/api/generated", "docs/gallery", "docs/_build"} <= set(build[0].split())
    assert "sphinx" in build[1]
