"""Print the lowest versions that pyproject.toml admits, as constraints for pip: ``make test-oldest``."""

import re
import tomllib
from pathlib import Path

REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(\[(?P<extras>[\w,]+)\])?(>=(?P<lowest>[\d.]+))?(; .+)?")


def lowest(pyproject: Path) -> dict[str, str]:
    """Lowest version of each package in dependencies, extras and build requirements.

    Requirements have one form, ``name[extras]>=version``, after which a system may be named, and a package
    has one minimum; else this is an error.
    """
    settings = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    project = settings["project"]
    versions: dict[str, str] = {}
    for group in (
        project["dependencies"],
        settings["build-system"]["requires"],
        *project["optional-dependencies"].values(),
    ):
        for requirement in group:
            match = REQUIREMENT.fullmatch(requirement)
            if match is None:
                raise SystemExit(f"{pyproject}: {requirement!r} is not of the form name[extras]>=version")
            name, version = match["name"], match["lowest"]
            if name == project["name"]:
                continue
            if version is None or versions.setdefault(name, version) != version:
                raise SystemExit(f"{pyproject}: {requirement!r}: one minimum for each package, please")
    return versions


if __name__ == "__main__":
    for name, version in sorted(lowest(Path(__file__).parents[1] / "pyproject.toml").items()):
        print(f"{name}=={version}")
