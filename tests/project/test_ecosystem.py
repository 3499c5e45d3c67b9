"""The snippets of docs/ecosystem.md for tools that the tests do not require: run where a tool is there."""

import re
from pathlib import Path

import numpy as np
import pytest
import skops.io
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marginout import DropoutLogisticRegression
from marginout.skops import trusted_types

PAGE = (Path(__file__).parents[2] / "docs" / "ecosystem.md").read_text(encoding="utf-8")
SERVER, TOOLS = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
#: The lines of each tool: from its import to the next one.
SNIPPETS = {re.match(r"import (\w+)", part)[1]: part for part in re.split(r"\n\n(?=import )", TOOLS)}


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What the page says that there is: a fitted pipeline, and data."""
    monkeypatch.chdir(tmp_path)
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    model = make_pipeline(StandardScaler(), DropoutLogisticRegression()).fit(X_train, y_train)
    given = {"model": model, "X": X_train, "X_test": X_test, "y_test": y_test, "table": X, "y": y}
    return {**given, "trusted_types": trusted_types, "DropoutLogisticRegression": DropoutLogisticRegression}


def test_every_tool_has_a_snippet():
    assert set(SNIPPETS) == {"mlflow", "shap", "skrub", "skore"}


@pytest.mark.parametrize("tool", SNIPPETS)
@pytest.mark.filterwarnings("ignore")
def test_snippets_run(names, tool):
    pytest.importorskip(tool)
    exec(SNIPPETS[tool], names)
    if tool == "shap":  # contributions add up to the score
        scores = names["model"].decision_function(names["X"])
        total = names["values"].values.sum(axis=1) + names["values"].base_values
        np.testing.assert_allclose(total, scores, rtol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_the_server_answers(names, tmp_path):
    pytest.importorskip("fastapi")
    testing = pytest.importorskip("fastapi.testclient")
    skops.io.dump(names["model"], tmp_path / "model.skops")
    spoken: dict = {}
    exec(SERVER, spoken)
    rows = names["X_test"].head(3)
    found = testing.TestClient(spoken["app"]).post("/predict", json=rows.to_dict("records"))
    assert found.status_code == 200
    np.testing.assert_allclose(found.json(), names["model"].predict_proba(rows)[:, 1])
