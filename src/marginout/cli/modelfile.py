"""Model files: a pipeline stored by skops, and what is known about it, in one zip.

Nothing in a file runs when it is loaded: skops rebuilds objects of the types in TRUSTED and
of those it knows to be safe, and refuses all others. A pickle is refused.
"""

from __future__ import annotations

import io
import json
import sys
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from marginout.cli.errors import ModelError, need
from marginout.cli.output import to_json, write_atomically
from marginout.cli.prepare import Columns, feature_names
from marginout.skops import trusted_types

#: The shape of the description. A file with another number is of another time.
FORMAT = 2
DESCRIPTION = "marginout.json"

#: The types that a model file may hold beyond those that skops trusts; the dtype is SimpleImputer's.
TRUSTED = [*trusted_types(), "marginout.cli.convert.ColumnConverter", "numpy.dtype"]


@dataclass
class Model:
    """A fitted pipeline and its description."""

    pipeline: Any
    about: dict[str, Any]

    @property
    def estimator(self) -> Any:
        return self.pipeline[-1]

    @property
    def columns(self) -> Columns | None:
        return Columns(**self.about["columns"]) if self.about["columns"] else None

    @property
    def task(self) -> str:
        return str(self.about["task"])

    @property
    def classes(self) -> Any:
        return self.estimator.classes_ if self.task == "classification" else None

    def names(self) -> list[str]:
        """Readable names of the features."""
        return feature_names(self.pipeline, self.columns, self.about["feature_names"], self.about["base"])


def versions() -> dict[str, str]:
    """What a model was made with."""
    import numpy
    import scipy
    import sklearn

    import marginout

    return {
        "marginout": marginout.__version__,
        "scikit-learn": sklearn.__version__,
        "scipy": scipy.__version__,
        "numpy": numpy.__version__,
        "python": ".".join(map(str, sys.version_info[:3])),
    }


def require_skops() -> Any:
    """skops.io, or how to get it."""
    try:
        import skops.io
    except ImportError:
        raise need("skops", "saving and loading models") from None
    return skops.io


def save(path: str, pipeline: Any, about: dict[str, Any]) -> None:
    """Write a model file, whole or not at all."""
    # Deflated, for skops writes a vocabulary as JSON, a hundred times longer than its words.
    content = io.BytesIO(require_skops().dumps(pipeline, compression=zipfile.ZIP_DEFLATED, compresslevel=3))
    about = {"format": FORMAT, "versions": versions(), **about}
    with zipfile.ZipFile(content, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(DESCRIPTION, to_json(about))

    def write(file: BinaryIO) -> None:
        file.write(content.getbuffer())

    write_atomically(path, write)


def load(path: str) -> Model:
    """Read a model file; see the module about what is refused."""
    content = _content(path)
    about = _description(content, path)
    _check_version(about, path)
    io_ = require_skops()
    try:
        unknown = sorted(set(io_.get_untrusted_types(data=content)) - set(TRUSTED))
    except Exception as error:  # a broken zip can break skops anywhere
        raise ModelError(f"{path}: the file is broken ({type(error).__name__}): fit it again") from error
    if unknown:
        raise ModelError(f"{path}: it holds types that are not trusted ({', '.join(unknown[:3])}): refused")
    try:
        model = Model(io_.loads(content, trusted=TRUSTED), about)
        model.estimator.n_features_in_, model.columns, model.task, model.classes, model.names()
    except Exception as error:
        raise ModelError(
            f"{path}: it cannot be loaded ({type(error).__name__}: {error}): fit it again"
        ) from error
    return model


def _content(path: str) -> bytes:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from error
    if content.startswith(b"\x80") or content[:2] in (b"\x1f\x8b", b"x\x9c", b"BZ"):
        raise ModelError(
            f"{path}: a pickle or joblib file is refused, as it could run code: use marginout fit"
        )
    return content


def _description(content: bytes, path: str) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            about = json.loads(archive.read(DESCRIPTION))
    except KeyError as error:
        raise ModelError(
            f"{path}: no model of marginout fit, though a zip file: fit it with marginout"
        ) from error
    except Exception as error:  # zipfile raises many kinds on junk
        raise ModelError(
            f"{path}: no model file, or a broken one ({error}): make one with marginout fit"
        ) from error
    if not isinstance(about, dict) or not isinstance(about.get("versions"), dict):
        raise ModelError(f"{path}: its description is broken: fit it again")
    return about


def _check_version(about: dict[str, Any], path: str) -> None:
    """Another format is refused; another minor version of what computes is worth a note."""
    made, here = about["versions"], versions()
    if about.get("format") != FORMAT:
        raise ModelError(
            f"{path}: written by marginout {made.get('marginout')} in model format {about.get('format')}; "
            f"marginout {here['marginout']} reads format {FORMAT}: use that version, or fit it again"
        )
    for package in ("marginout", "scikit-learn"):
        if str(made.get(package)).split(".")[:2] != here[package].split(".")[:2]:
            warnings.warn(
                f"{path}: fitted with {package} {made.get(package)}, this is {here[package]}"
                ": check its predictions, or fit it again",
                stacklevel=3,
            )
