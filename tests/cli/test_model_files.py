"""Model files: what the command saves loads again, a crafted file is refused before anything runs."""

import io
import json
import zipfile

import numpy as np
import pytest

from marginout.cli import main, modelfile
from marginout.cli.errors import ModelError
from marginout.cli.models import FACTORIES

# --------------------------------------------------------------------------- what the command saves


@pytest.mark.parametrize("data", ["people.csv", "digits.npz", "digits.svmlight"])
@pytest.mark.parametrize(
    ("model", "task", "cv"), [(model, task, cv) for model, made in FACTORIES.items() for task, cv in made]
)
def test_every_model_that_the_command_saves_loads(files, tmp_path, model, task, cv, data):
    path, target = tmp_path / "m.model", "bought" if task == "classification" else "spent"
    arguments = ["--model", model, "--task", task, "--hidden", "2", "--out", path]
    arguments += ["--target", target] if data == "people.csv" else ["--scale"]
    arguments += ["--cv", "--folds", "2", "--C", "0.1", "--noise", "0.1,0.5"] if cv else []
    assert main([str(part) for part in ("fit", files / data, *arguments)]) == 0
    assert isinstance(modelfile.load(str(path)).estimator, FACTORIES[model][task, cv])


@pytest.mark.parametrize(
    "noise", ["deletion:0.3", "gaussian:0.1", "laplace:0.1", "bitswap:0.1", "poisson", "thinning:0.1"]
)
def test_every_noise_that_the_command_saves_loads(tmp_path, noise):
    X = np.random.default_rng(0).integers(0, 2, (40, 3))
    np.savez(tmp_path / "bits.npz", X=X, y=X[:, 0])
    path = tmp_path / "m.model"
    assert main(["fit", str(tmp_path / "bits.npz"), "--noise", noise, "--out", str(path)]) == 0
    assert modelfile.load(str(path)).estimator.noise is not None


def test_a_vocabulary_may_hold_the_words_of_the_format(tmp_path):
    words = ["__loader__ good", "__class__ bad", "__module__ good", "content bad"] * 10
    (tmp_path / "t.csv").write_text("note,y\n" + "".join(f"{w},{w.split()[1]}\n" for w in words))
    path = str(tmp_path / "m.model")
    assert main(["fit", str(tmp_path / "t.csv"), "--text", "note", "--target", "y", "--out", path]) == 0
    assert any("__loader__" in name for name in modelfile.load(path).names())


# --------------------------------------------------------------------------- what others may write


def json_node(value):
    return {
        "__class__": "str",
        "__module__": "builtins",
        "__loader__": "JsonNode",
        "content": json.dumps(value),
    }


def node(kind, name, **more):
    module, _, type_name = name.rpartition(".")
    return {"__class__": type_name, "__module__": module, "__loader__": kind, **more}


def listed(*nodes, kind="TupleNode", name="builtins.tuple"):
    return node(kind, name, content=list(nodes))


def mapped(**nodes):
    keys = [node("TypeNode", "builtins.str") for _ in nodes]
    return node(
        "DictNode",
        "builtins.dict",
        content=nodes,
        key_types=listed(*keys, kind="ListNode", name="builtins.list"),
    )


SVC = "marginout.estimators.svm.DropoutSVC"
MAKE = json_node("exploded")
#: Nodes that would make the folder "exploded", or call something else, if they were built.
CRAFTED = {
    "function": node("FunctionNode", "os.mkdir"),
    "function that skops trusts": node("FunctionNode", "numpy.add"),
    "type": node("TypeNode", "os.mkdir"),
    "method": node(
        "MethodNode",
        "pathlib.Path",
        content={
            "func": "mkdir",
            "obj": node("ConstructorFromReduceNode", "pathlib.Path", content=listed(MAKE)),
        },
    ),
    "method of a trusted type": node(
        "MethodNode", SVC, content={"func": "fit", "obj": node("ObjectNode", SVC, content=mapped())}
    ),
    "partial": node(
        "PartialNode",
        "functools.partial",
        content={
            "func": node("FunctionNode", "os.mkdir"),
            "args": listed(MAKE),
            "kwds": mapped(),
            "namespace": mapped(),
        },
    ),
    "operator": node("OperatorFuncNode", "operator.call", attrs=listed(node("TypeNode", "os.mkdir"), MAKE)),
    "operator behind a trusted name": node(
        "OperatorFuncNode", SVC, attrs=listed(node("TypeNode", "os.mkdir"), MAKE)
    ),
    "reduce": node("ConstructorFromReduceNode", "os.mkdir", content=listed(MAKE)),
    "tree": node("TreeNode", "sklearn.tree._tree.Tree", content=mapped(), __reduce__={"args": listed(MAKE)}),
    "loss": node("LossNode", "os.mkdir", content=mapped(), __reduce__={"args": listed(MAKE)}),
    "generator": node(
        "RandomGeneratorNode",
        "numpy.random.Generator",
        content={"bit_generator": mapped(bit_generator=json_node("seed")), "seed_sequence": mapped()},
    ),
    "object of another library": node("ObjectNode", "pathlib.PurePath", content=mapped()),
    "estimator that is never saved": node(
        "ObjectNode", "sklearn.preprocessing._function_transformer.FunctionTransformer", content=mapped()
    ),
    "list that calls a trusted type": listed(kind="ListNode", name=SVC),
    "list that calls mkdir": listed(MAKE, kind="ListNode", name="os.mkdir"),
    "array that calls a trusted type": node("NdArrayNode", SVC, type="json", content=[], shape=listed()),
    "trusted type called with arguments": node("ConstructorFromReduceNode", SVC, content=listed(MAKE)),
    "named tuple": listed(kind="TupleNode", name="sklearn.utils._bunch.Bunch"),
    "cached": node("CachedNode", "builtins.str", __id__=1),
    "no type": {"__loader__": "ObjectNode", "content": mapped()},
    "unknown kind": node("BrandNewNode", "builtins.str"),
}


def rewrite(source, target, change):
    """A model file whose tree of nodes is changed."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "schema.json":
                schema = json.loads(content)
                change(schema)
                content = json.dumps(schema).encode()
            new.writestr(name, content)


@pytest.fixture
def refused(files, tmp_path, monkeypatch):
    """Load a file in an empty folder: a ModelError, and nothing has appeared there."""
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def check(path, message):
        with pytest.raises(ModelError, match=message):
            modelfile.load(str(path))
        assert not list(folder.iterdir())

    return check


@pytest.mark.parametrize("where", ["attribute", "step", "key type", "deep"])
@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_nodes_are_refused(files, tmp_path, refused, name, where):
    path = tmp_path / "crafted.model"
    crafted = CRAFTED[name]

    def change(schema):
        pipeline = schema["content"]
        if where == "attribute":
            pipeline["content"]["memory"] = crafted
        elif where == "step":
            pipeline["content"]["steps"]["content"].append(listed(json_node("model"), crafted))
        elif where == "key type":
            pipeline["key_types"]["content"][0] = crafted
        else:
            pipeline["content"]["verbose"] = mapped(a=listed(listed(mapped(b=crafted))))

    rewrite(files / "people.model", path, change)
    refused(path, "not trusted: refused")


def test_a_file_that_differs_by_nothing_loads(files, tmp_path):
    """Or the tests above would pass for files that `rewrite` has broken."""
    rewrite(files / "people.model", tmp_path / "same.model", lambda schema: None)
    assert modelfile.load(str(tmp_path / "same.model")).task == "classification"


@pytest.mark.parametrize("name", ["../exploded", "/exploded", "a/b.npy", "..\\exploded", "..", "C:x"])
def test_names_that_lead_elsewhere_are_refused(files, tmp_path, refused, name):
    path = tmp_path / "crafted.model"
    path.write_bytes((files / "people.model").read_bytes())
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, b"")
    refused(path, "names that no model of marginout has: refused")


def test_two_parts_of_one_name_are_refused(files, tmp_path, refused):
    path = tmp_path / "crafted.model"
    path.write_bytes((files / "people.model").read_bytes())
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("schema.json", json.dumps(CRAFTED["function"]))
    refused(path, "names that no model of marginout has: refused")


def test_a_file_that_unpacks_to_a_flood_is_refused(files, tmp_path, refused):
    """Two entries that claim a gigabyte each: refused by their word, before a byte is unpacked."""
    path = tmp_path / "crafted.model"
    content = io.BytesIO((files / "people.model").read_bytes())
    with zipfile.ZipFile(content, "a") as archive:
        for name in ("1.npy", "2.npy"):
            archive.writestr(name, b"0")
            archive.getinfo(name).file_size = 2**30
    path.write_bytes(content.getvalue())
    refused(path, "would unpack to 2,147,.*: refused")


def test_a_part_cannot_be_longer_than_it_says(files, tmp_path, refused):
    """The check above rests on it: zipfile reads no further than the length in the list of parts."""
    path = tmp_path / "crafted.model"
    with (
        zipfile.ZipFile(files / "people.model") as old,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
            if name == "schema.json":
                new.getinfo(name).file_size = 10
    refused(path, "broken")
