"""What the pages of the gallery do is what they say."""

import ast
from pathlib import Path

import numpy as np

EXAMPLES = Path(__file__).parents[2] / "examples"


class Pupil:
    """Notes what it is asked and what it is taught."""

    def __init__(self):
        self.seen: list[bytes] = []
        self.early: list[bytes] = []

    def partial_fit(self, X, y, classes=None):
        self.seen += [row.tobytes() for row in X]
        return self

    def predict(self, X):
        self.early += [row.tobytes() for row in X if row.tobytes() in self.seen]
        self.asked = len(self.seen) + len(X)
        return np.zeros(len(X), dtype=int)


def test_the_stream_of_the_gallery_predicts_every_image_before_it_is_learnt():
    tree = ast.parse((EXAMPLES / "plot_stream.py").read_text(encoding="utf-8"))
    imports = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.Assign)
    wanted = [node for node in tree.body if isinstance(node, imports)]
    last = next(i for i, node in enumerate(wanted) if isinstance(node, ast.FunctionDef))
    names: dict = {}
    exec(compile(ast.Module(wanted[: last + 1], []), "plot_stream.py", "exec"), names)
    pupil = Pupil()
    errors = names["progressive"](lambda: pupil, 0)
    digits = names["IMAGES"] / 16
    assert len(pupil.seen) == len(digits) == pupil.asked  # one pass, and all but the first part are predicted
    assert len(errors) == -(-len(digits) // names["PART"]) - 1
    assert pupil.early == []
    whole = {row.tobytes() for row in digits}
    halves = [len(whole.intersection(part)) for part in (pupil.seen[:900], pupil.seen[900:])]
    assert halves[0] == 900
    assert halves[1] < 20  # the later ones have dead pixels
