"""Rules of the house, read off the source: nobody asks which kind of object it was given.

Every exception is listed with its reason. A list that names more than there is fails too.
"""

import ast
import io
import re
import tokenize
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "marginout"
MODULES = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
#: Where losses, designs, objectives, shards, penalties, noises, solvers and models are defined. `Noise`
#: itself is none of them: a parameter may be a rate or a noise.
KINDS = "losses.py", "_core/", "_models/", "_search/", "estimators/", "solvers/", "noise/"

ASKS_FOR_A_KIND = {
    # The label of an axis: a rate is shorter than the noise that has it.
    ("plotting/_search.py", "Dropout"),
}
SAYS_RIDGE = {
    "_core/penalties.py",
    # The default penalty of the linear models.
    "_models/linear.py",
    # scikit-learn's model of that name.
    "cli/compare.py",
    "estimators/mcf.py",
    # Streams: C's part of their recursion, and additive noise, which acts as a ridge.
    "_models/online/stream.py",
    "_kernels/_online.pyx",
    # The docstring of `partial_fit`, for users, and a message.
    "_models/partial.py",
    "_models/online/partial_fit.py",
    # What a sum leaves out.
    "_kernels/_single_precision.h",
}
WRITES_HALF_SQUARES = {
    "_core/penalties.py",
    # ½‖w‖² + ½λ‖α‖² of the hidden layer, which has an objective of its own.
    "_models/latent/objective.py",
    "_models/latent/stochastic.py",
}
SAYS_PENALTY = {
    "_core/interfaces.py",
    "_core/objective.py",
    "_core/fit.py",
    # The solver for penalties with a kink.
    "solvers/proximal.py",
    # `ElasticLine` asks its penalty.
    "_core/penalties.py",
    # `_penalty`: the one that a model's parameters describe, and where it is passed on.
    "_models/linear.py",
    "estimators/fdrop.py",
    "estimators/mcf.py",
    "_search/problem.py",
    "_search/chains.py",
    # `hidden_penalty`, a parameter: the hidden layer has an objective of its own.
    "_models/latent/model.py",
    "_models/latent/objective.py",
    "_models/latent/stochastic.py",
    "estimators/latent.py",
    # `objective.penalty`: its curvature in a linear system, its value in a dual, whether it has that dual.
    "_models/mcf/least_squares.py",
    "_models/mcf/objective.py",
    "_models/mcf/solver.py",
    "_models/fdrop/solver.py",
    "solvers/dual.py",
    "solvers/irls.py",
    "solvers/newton.py",
    "solvers/single_precision.py",
}


def calls(name, *functions):
    """The calls of some functions in a module."""
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions:
            yield node


def classes(name):
    return [node for node in ast.walk(TREES[name]) if isinstance(node, ast.ClassDef)]


def asked_for(name):
    """Where a module asks for a class: isinstance(x, HERE), type(x) is HERE, case HERE()."""
    for call in calls(name, "isinstance", "issubclass"):
        yield call.args[1]
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Compare):
            called = [part.func for part in ast.walk(node) if isinstance(part, ast.Call)]
            if any(isinstance(function, ast.Name) and function.id == "type" for function in called):
                yield from node.comparators
        elif isinstance(node, ast.MatchClass):
            yield node.cls


def test_nobody_asks_which_kind_of_object_it_was_given():
    homes = {}
    for name in MODULES:
        if name.startswith(KINDS):
            for node in classes(name):
                homes.setdefault(node.name, set()).add(name)
    assert {"Hinge", "CsrDesign", "Objective", "Shard", "Ridge", "DropoutSVC", "Dropout"} <= set(homes)
    del homes["Noise"]
    found = set()
    for name in MODULES:
        for kinds in asked_for(name):
            asked = {node.id for node in ast.walk(kinds) if isinstance(node, ast.Name)}
            asked |= {node.attr for node in ast.walk(kinds) if isinstance(node, ast.Attribute)}
            found |= {(name, kind) for kind in asked & set(homes) if name not in homes[kind]}
    assert found == ASKS_FOR_A_KIND


def test_nobody_asks_whether_there_is_a_method():
    """What a design, loss or penalty need not have has a default in its interface."""
    verbs = set()
    for node in classes("_core/interfaces.py"):
        for part in node.body:
            if isinstance(part, ast.FunctionDef):
                verbs.add(part.name)
            elif isinstance(part, ast.AnnAssign):
                verbs.add(part.target.id)
    assert {"line", "gram", "uniform_rows", "kinked", "add_expansion", "certificate"} <= verbs
    verbs.remove("columns")  # of a data frame, too
    found = [
        f"{name}:{call.lineno}: {ast.unparse(call)}"
        for name in MODULES
        for call in calls(name, "getattr", "hasattr")
        if isinstance(call.args[1], ast.Constant) and call.args[1].value in verbs
    ]
    assert found == []


def without_strings(source):
    """The comments and the code of a module, without its docstrings and messages."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return " ".join(token.string for token in tokens if token.type != tokenize.STRING)


def test_one_file_knows_the_ridge():
    found = set()
    for path in sorted(SOURCE.rglob("*")):
        if path.suffix not in {".py", ".pyi", ".pyx", ".pxi", ".h"}:
            continue
        name, text = path.relative_to(SOURCE).as_posix(), path.read_text(encoding="utf-8")
        if name.startswith("estimators/"):  # docstrings are for users, who know the word
            text = without_strings(text)
        if re.search("ridge", text, re.IGNORECASE):
            found.add(name)
    assert found == SAYS_RIDGE


def test_one_file_writes_half_of_a_squared_norm():
    """0.5 * dots(W, W), or the same by vdot, is a penalty, or what is known of one."""
    found = set()
    for name, tree in TREES.items():
        products = [node for node in ast.walk(tree) if isinstance(node, ast.BinOp)]
        for node in products:
            halves = ast.unparse(node).startswith("0.5 *")
            for call in (part for part in ast.walk(node) if halves and isinstance(part, ast.Call)):
                if (
                    ast.unparse(call.func).endswith(("dots", "vdot"))
                    and len(set(map(ast.unparse, call.args))) == 1
                ):
                    found.add(name)
    assert found == WRITES_HALF_SQUARES


def identifiers(tree):
    for node in ast.walk(tree):
        for field in "id", "attr", "arg", "name":
            value = getattr(node, field, None)
            if isinstance(value, str):
                yield value


def test_few_files_know_that_there_is_a_penalty():
    found = {
        name for name, tree in TREES.items() if any("penalty" in each.lower() for each in identifiers(tree))
    }
    assert found == SAYS_PENALTY


def test_the_top_level_has_few_private_names():
    private = {path.stem for path in SOURCE.glob("_*")} - {"__init__", "__main__", "__pycache__"}
    assert len(private) <= 6, sorted(private)
