"""Save and load model files: a pipeline stored by skops, and its description, in one zip.

Nothing in a file runs when it is loaded. The file is a tree of nodes. Each node has a kind, which says how an
object is made, and a type. Before skops reads the file, every node must have a kind and a type that `NODES`
lists together; skops then checks the types once more. A pickle is refused.
"""

from __future__ import annotations

import io
import json
import re
import sys
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marginout.cli.columns import Columns
from marginout.cli.convert import feature_names
from marginout.cli.errors import ModelError, need
from marginout.cli.output import to_json, write_atomically
from marginout.skops import trusted_types

#: Version of the description. A file with another number is refused.
FORMAT = 2
DESCRIPTION = "marginout.json"

#: Types that `convert` puts into a pipeline before the model, by the names that skops gives them.
PREPARATION = [
    "marginout.cli.convert.CategoryEncoder",
    "marginout.cli.convert.ColumnConverter",
    "sklearn.compose._column_transformer.ColumnTransformer",
    "sklearn.feature_extraction.text.TfidfTransformer",
    "sklearn.feature_extraction.text.TfidfVectorizer",
    "sklearn.impute._base.SimpleImputer",
    "sklearn.pipeline.Pipeline",
    "sklearn.preprocessing._data.MaxAbsScaler",
    "sklearn.preprocessing._data.StandardScaler",
    "sklearn.preprocessing._encoders.OneHotEncoder",
]
SCALARS = ["numpy.bool", "numpy.float32", "numpy.float64", "numpy.int32", "numpy.int64", "numpy.str_"]
#: Kinds of nodes that a model file may hold, and the types that each may make. Kinds that look up a
#: function, bind a method or make a call (FunctionNode, MethodNode, PartialNode, ...) are not listed.
NODES = {
    "ObjectNode": [*trusted_types(), *PREPARATION],  # made without __init__, then given its attributes
    "ConstructorFromReduceNode": [name for name in trusted_types() if name.startswith("marginout.noise.")],
    "JsonNode": ["builtins.str"],  # any value that JSON has
    "DictNode": ["builtins.dict"],
    "ListNode": ["builtins.list"],
    "TupleNode": ["builtins.tuple"],
    "SliceNode": ["builtins.slice"],
    "TypeNode": ["builtins.str", "builtins.int", "builtins.float", "builtins.bool", *SCALARS],
    "NdArrayNode": ["numpy.ndarray", *SCALARS],
    "MaskedArrayNode": ["numpy.ma.MaskedArray"],
    "DTypeNode": ["numpy.dtype"],
}
TRUSTED = sorted(set().union(*NODES.values()))
#: Bytes to which every file may unpack, and the factor of its own length to which a larger one may.
#: Vocabularies of half a million words unpack to 20 to 30 times their length; deflate can reach 1,032.
ROOM, RATIO = 2**30, 200


@dataclass
class Model:
    """A fitted pipeline and its description."""

    pipeline: Any
    about: dict[str, Any]

    @property
    def estimator(self) -> Any:
        """The last step of the pipeline."""
        return self.pipeline[-1]

    @property
    def columns(self) -> Columns | None:
        """The columns of a table; None for a model of svmlight or npz data."""
        return Columns(**self.about["columns"]) if self.about["columns"] else None

    @property
    def task(self) -> str:
        return str(self.about["task"])

    @property
    def classes(self) -> Any:
        """The labels; None for a regression."""
        return self.estimator.classes_ if self.task == "classification" else None

    def names(self) -> list[str]:
        """Readable names of the features."""
        return feature_names(self.pipeline, self.columns, self.about["feature_names"], self.about["base"])


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that train a model."""
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
    """The module skops.io, or an error that says how to install it."""
    try:
        import skops.io
    except ImportError:
        raise need("skops", "saving and loading models") from None
    return skops.io


def save(path: str, pipeline: Any, about: dict[str, Any]) -> None:
    """Write a model file, whole or not at all."""
    # Deflated, because skops writes a vocabulary as JSON, a hundred times longer than its words.
    content = io.BytesIO(require_skops().dumps(pipeline, compression=zipfile.ZIP_DEFLATED, compresslevel=3))
    about = {"format": FORMAT, "versions": versions(), **about}
    with zipfile.ZipFile(content, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(DESCRIPTION, to_json(about))
    write_atomically(path, lambda file: file.write(content.getbuffer()))


def load(path: str) -> Model:
    """Read a model file; the module's docstring lists what is refused."""
    content = _content(path)
    about, nodes = _parse(content, path)
    _check_version(about, path)
    _check_nodes(nodes, path)
    io_ = require_skops()
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


def _parse(content: bytes, path: str) -> tuple[dict[str, Any], Any]:
    """The description and the tree of nodes. Refuses a zip bomb, and parts in other folders."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names, size = archive.namelist(), sum(entry.file_size for entry in archive.infolist())
            if size > max(ROOM, RATIO * len(content)):
                raise ModelError(f"{path}: {len(content):,} bytes would unpack to {size:,}: refused")
            if len(set(names)) < len(names) or not all(re.fullmatch(r"[\w-][\w.-]*", name) for name in names):
                raise ModelError(f"{path}: its parts have names that no model of marginout has: refused")
            about, nodes = json.loads(archive.read(DESCRIPTION)), json.loads(archive.read("schema.json"))
    except ModelError:
        raise
    except KeyError as error:
        raise ModelError(
            f"{path}: a zip file, but no model of marginout: make one with marginout fit"
        ) from error
    except Exception as error:  # zipfile raises many kinds on junk
        raise ModelError(
            f"{path}: no model file, or a broken one ({error}): make one with marginout fit"
        ) from error
    if not isinstance(about, dict) or not isinstance(about.get("versions"), dict):
        raise ModelError(f"{path}: its description is broken: fit it again")
    return about, nodes


def _check_nodes(nodes: Any, path: str) -> None:
    """Refuse a node whose kind and type are not listed together in NODES, anywhere in the tree."""
    waiting = [nodes]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting.extend(node)
        elif isinstance(node, dict):
            waiting.extend(node.values())
            kind = node.get("__loader__")
            # A word of a vocabulary may be "__loader__" too; its value is a node, and a kind is a string.
            if isinstance(kind, str):
                name = f"{node.get('__module__')}.{node.get('__class__')}"
                if name not in NODES.get(kind, ()):
                    raise ModelError(f"{path}: it holds {name} as {kind}, which is not trusted: refused")


def _check_version(about: dict[str, Any], path: str) -> None:
    """Refuse another format; warn about another minor version of marginout or scikit-learn."""
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
