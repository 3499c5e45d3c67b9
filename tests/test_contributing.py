"""The map of the house: every file and every name in CONTRIBUTING.md and docs/extend.md exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "marginout"
PAGES = ["CONTRIBUTING.md", "docs/extend.md"]
#: Paths on the pages may begin at any of these.
BASES = ROOT, SOURCE, ROOT / "tests"
#: What is written as code and is no name of ours.
FOREIGN = {"--help", "apt-get install chromium chromium-driver"}


def text(page):
    return (ROOT / page).read_text(encoding="utf-8")


def trees(page):
    """The path on every line of the trees of a page."""
    for block in re.findall(r"^```text\n(.*?)^```", text(page), re.M | re.S):
        above = []
        for line in block.splitlines():
            name, _, _ = line.strip().partition(" ")
            del above[(len(line) - len(line.lstrip())) // 2 :]
            above.append(name)
            yield "".join(above)


def spans(page):
    """What is written as code, outside of blocks."""
    prose = re.sub(r"^```.*?^```", "", text(page), flags=re.M | re.S)
    prose = re.sub(r"^    .*$", "", prose, flags=re.M)
    return re.findall(r"`([^`\n]+)`", prose)


def is_path(span):
    return "/" in span or re.search(r"\.(py|pyx|pxi|h|md|toml|json)$", span) is not None


def exists(path):
    return any((base / path).exists() for base in BASES)


def definitions():
    """Every name that the source, the tests and their classes define, and the members of every class."""
    names, members = set(), {}
    for path in [*SOURCE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]:
        names |= {path.stem, path.parent.name}
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.attr)
            elif isinstance(node, ast.arg):
                names.add(node.arg)
            if isinstance(node, ast.ClassDef):
                own = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
                own |= {part.target.id for part in node.body if isinstance(part, ast.AnnAssign)}
                own |= {
                    each.id for part in node.body if isinstance(part, ast.Assign) for each in part.targets
                }
                members.setdefault(node.name, set()).update(own)
    return names, members


def is_known(span, names, members):
    """Whether a name is defined: `name`, `module.name`, `Class.member`, `name(arguments)`."""
    first, *others = re.sub(r"\(.*\)$", "", span).split(".")
    if first in members and others:
        return others[0] in members[first]
    return all(part in names for part in (first, *others) if part != "marginout")


@pytest.mark.parametrize("page", PAGES)
def test_files_exist(page):
    files = [*trees(page), *filter(is_path, spans(page))]
    assert len(files) > 5
    assert [path for path in files if not exists(path)] == []


@pytest.mark.parametrize("page", PAGES)
def test_names_exist(page):
    names, members = definitions()
    targets = set(re.findall(r"^([\w-]+):", text("Makefile"), re.M))
    unknown = []
    for span in spans(page):
        if span.startswith("make "):
            known = span.split()[1] in targets
        else:
            known = is_path(span) or span in FOREIGN or is_known(span, names, members)
        if not known:
            unknown.append(span)
    assert unknown == []


def test_commands_exist():
    targets = set(re.findall(r"^([\w-]+):", text("Makefile"), re.M))
    named = set(re.findall(r"^    make ([\w-]+)", text("CONTRIBUTING.md"), re.M))
    assert named <= targets
    assert {"test", "lint", "docs", "sanitize", "bench", "bench-compare"} <= named


def test_the_map_is_complete():
    """Where a folder's files are listed, all of them are; the others are headers and entries of packages."""
    listed = set(trees("CONTRIBUTING.md"))
    opened = {
        path.rpartition("/")[0] for path in listed if path.startswith("src/") and not path.endswith("/")
    }
    missing = []
    for folder in sorted(opened):
        for path in sorted((ROOT / folder).iterdir()):
            name = f"{folder}/{path.name}" + ("/" if path.is_dir() else "")
            code = path.suffix in {".py", ".pyx"} and path.name != "__init__.py"
            if (code or (path / "__init__.py").exists()) and name not in listed:
                missing.append(name)
    assert len(opened) > 8
    assert missing == []


def test_a_renamed_file_or_name_is_noticed():
    names, members = definitions()
    assert exists("_core/fit.py")
    assert not exists("_core/fitting.py")
    assert is_known("Design.pullback", names, members)
    assert not is_known("Design.push_forward", names, members)
    assert is_known("solvers.choose", names, members)
    assert not is_known("solvers.chosen_at_random", names, members)
