"""What losing groups costs a fixed model, against data emptied by hand."""

from __future__ import annotations

from itertools import combinations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from joblib import parallel_config
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marginout import GroupImpactDisplay
from marginout.noise import GroupDropout
from marginout.robustness import deletion_curve, group_impact
from tests.paper import DropoutSVC

mpl.use("agg")

X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)
GROUPS = np.arange(30) % 10
NAMES = load_breast_cancer().feature_names
MODEL = LogisticRegression(max_iter=1000).fit(X[:300], y[:300])


def without(lost, fill=0.0):
    return np.where(np.isin(GROUPS, lost), fill, X[300:])


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array, pd.DataFrame])
def test_costs_are_lost_scores(storage):
    impact = group_impact(MODEL, storage(X[300:]), y[300:], GROUPS)
    assert impact.score == MODEL.score(X[300:], y[300:])
    for g in range(10):
        assert impact.costs[g] == pytest.approx(impact.score - MODEL.score(without([g]), y[300:]))
    assert impact.pairs.tolist() == [list(pair) for pair in combinations(range(10), 2)]
    for pair, cost in zip(impact.pairs, impact.pair_costs, strict=True):
        assert cost == pytest.approx(impact.score - MODEL.score(without(pair), y[300:]))
    assert impact.order[0] == impact.costs.argmax()
    partner, cost = impact.worst_partners()[0]
    assert cost == impact.pair_costs[(impact.pairs == 0).any(axis=1)].max()
    assert partner != 0


def test_nan_names_scorers_and_pipelines():
    """Raw data of a pipeline whose model takes NaN; groups by name; another scorer; a few pairs."""
    raw = pd.DataFrame(load_breast_cancer().data, columns=NAMES)
    measurements = [name.removeprefix("mean ") for name in NAMES[:10]]
    groups = {m: [f"mean {m}", f"{m} error", f"worst {m}"] for m in measurements}
    labels = np.array(measurements)[GROUPS]
    svc = DropoutSVC(C=0.1, noise=GroupDropout(labels, 0.3), missing="deleted")
    model = make_pipeline(StandardScaler(), svc).fit(raw[:300], y[:300])
    options = {"fill": np.nan, "scoring": "balanced_accuracy"}
    with parallel_config("threading"):
        impact = group_impact(model, raw[300:], y[300:], groups, max_pairs=3, n_jobs=2, **options)
    assert impact.labels == measurements
    assert impact.score_name == "balanced_accuracy"
    emptied = raw[300:].mask(np.broadcast_to(labels == "radius", (len(raw) - 300, 30)))
    from_hand = group_impact(model, emptied, y[300:], groups, **options).score
    assert impact.score - impact.costs[0] == pytest.approx(from_hand)
    assert len(impact.pairs) == 3
    assert set(impact.pairs.ravel().tolist()) == set(impact.order[:3].tolist())
    assert "radius" in str(impact)
    frame = impact.to_frame()
    assert frame.shape == (13, 4)
    assert frame.cost[0] == impact.costs.max()


def test_curves_of_named_groups():
    """The same words for groups in deletion_curve."""
    frame = pd.DataFrame(X, columns=[f"{'ab'[i % 2]}{i}" for i in range(30)])
    model = LogisticRegression(max_iter=1000).fit(frame, y)
    curves = [
        deletion_curve(model, frame, y, [0.5], 2, kind="groups", groups=groups, random_state=0)
        for groups in ({"a": "a", "b": "b"}, [["a"], ["b"]], np.arange(30) % 2)
    ]
    np.testing.assert_array_equal(curves[0].scores, curves[1].scores)
    np.testing.assert_array_equal(curves[0].scores, curves[2].scores)


WRONG = [
    ({"max_pairs": -1}, "max_pairs=-1 must be a whole number >= 0"),
    ({"fill": "nan"}, "fill='nan' must be a number, NaN or 'mean'"),
    ({"groups": [[0, 1]]}, "groups do not cover all features"),
    ({"X": sp.csr_array(X), "fill": np.nan}, "fill=nan would fill the zeros of sparse data"),
    ({"step": "last"}, "step='last' needs a pipeline"),
]


@pytest.mark.parametrize(("change", "match"), WRONG)
def test_what_is_wrong(change, match):
    with pytest.raises(ValueError, match=match):
        group_impact(MODEL, **{"X": X, "y": y, "groups": GROUPS, **change})


@pytest.mark.parametrize("max_pairs", [0, 100])
def test_display(max_pairs):
    display = GroupImpactDisplay.from_estimator(MODEL, X, y, GROUPS, max_pairs=max_pairs, max_groups=4)
    assert len(display.bars_) == 4
    assert (display.pair_bars_ is None) == (max_pairs == 0)
    widths = [bar.get_width() for bar in display.bars_]
    assert widths == sorted(display.impact.costs, reverse=True)[:4]
    again = GroupImpactDisplay.from_impact(display.impact, ax=display.ax_)
    assert again.figure_ is display.figure_
    mpl.pyplot.close(display.figure_)
    with pytest.raises(TypeError, match="must be a GroupImpact"):
        GroupImpactDisplay("cost")
