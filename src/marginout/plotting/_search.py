"""Draw searches over C and noise, and coefficients along the noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from marginout._core.interfaces import Array
from marginout._search.path import Path, path
from marginout._search.problem import RATES
from marginout.noise import Dropout, Noise
from marginout.plotting._axes import axes


def label(noise: Any) -> str:
    """Tick label of a noise: a dropout rate as a number, another noise as its repr."""
    if isinstance(noise, Dropout) and np.ndim(noise.rate) == 0:
        return f"{noise.rate:g}"
    return repr(noise) if isinstance(noise, Noise) else f"{noise:g}"


class ValidationMapDisplay:
    """Map of the cross-validated error (or score) over C and noise, with the chosen cell marked.

    Look where the good cells lie. If they extend towards larger C and stronger noise together, the noise
    regularises the model; if they stay near rate 0, corruption does not help.

    Parameters
    ----------
    values : array of shape (n_Cs, n_noises)
        Mean error, or mean score.
    Cs : array of shape (n_Cs,)
        The values of C.
    noises : list of n_noises floats or noise models
        The noises.
    chosen : tuple of two int
        Numbers of the C and of the noise of the chosen cell.
    name : str, default="error"
        Name of the values.

    Attributes
    ----------
    ax_, figure_, im_, marker_, colorbar_
        Axes, figure and artists, after `plot`.
    """

    def __init__(
        self, values: Array, Cs: Array, noises: list[Any], chosen: tuple[int, int], name: str = "error"
    ) -> None:
        self.values, self.Cs, self.noises = np.asarray(values), np.asarray(Cs), list(noises)
        self.chosen, self.name = chosen, name

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the map of a fitted DropoutSVCCV, DropoutSVRCV or DropoutLogisticRegressionCV.

        Parameters
        ----------
        estimator : fitted search
            With the default accuracy the map shows the error, with any other score the score.
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.
        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        display : ValidationMapDisplay
            What was drawn.
        """
        check_is_fitted(estimator, "scores_")
        values, name = estimator.scores_.mean(axis=0), "score"
        if estimator.scoring in (None, "accuracy") and is_classifier(estimator):
            values, name = 1 - values, "error"
        i, j = divmod(estimator.best_index_, len(estimator.noises_))
        return cls(values, estimator.Cs_, estimator.noises_, (i, j), name).plot(ax, **kwargs)

    def plot(self, ax: Any = None, *, annotate: bool = False, cmap: str = "viridis") -> Self:
        """Draw the map.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.
        annotate : bool, default=False
            Whether to write each cell's value into it.
        cmap : str, default="viridis"
            The colour map; it is reversed for errors, so that good cells are bright.

        Returns
        -------
        display : ValidationMapDisplay
            Itself.
        """
        self.ax_ = axes(ax)
        self.figure_ = self.ax_.figure
        colours = f"{cmap}_r" if self.name == "error" else cmap
        self.im_ = self.ax_.imshow(self.values, origin="lower", aspect="auto", cmap=colours)
        i, j = self.chosen
        (self.marker_,) = self.ax_.plot([j], [i], "o", ms=12, mfc="none", mec="red", mew=2)
        best = f"{self.name} {self.values[i, j]:.3g}"
        self.ax_.set_title(f"{best} at C={self.Cs[i]:.3g}, noise {label(self.noises[j])}")
        self.ax_.set(xlabel="noise", ylabel="C", xticks=range(len(self.noises)), yticks=range(len(self.Cs)))
        wide = any(isinstance(noise, Noise) for noise in self.noises)
        self.ax_.set_xticklabels([label(noise) for noise in self.noises], rotation=30 if wide else 0)
        self.ax_.set_yticklabels([f"{C:.3g}" for C in self.Cs])
        if annotate:
            for (row, column), value in np.ndenumerate(self.values):
                self.ax_.text(column, row, f"{value:.3f}", ha="center", va="center", fontsize="x-small")
        self.colorbar_ = self.figure_.colorbar(self.im_, ax=self.ax_, label=f"mean {self.name}")
        return self


class PathDisplay:
    """Coefficients along the noise, at one C: the effect of dropout on the weights.

    Parameters
    ----------
    path : Path
        From :func:`marginout.path`.

    Attributes
    ----------
    ax_, figure_, lines_
        Axes, figure and one line per feature, after `plot`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        noises: Any = RATES,
        sample_weight: Any = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Fit an estimator along some noises, at its own C, and draw its coefficients.

        Parameters
        ----------
        estimator : DropoutSVC, DropoutSVR or DropoutLogisticRegression
            Fitted or not; it is not changed.
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,)
            Class labels or targets.
        noises : sequence of floats or noise models, default=(0, 0.1, ..., 0.9, 0.95)
            Dropout rates, or models from :mod:`marginout.noise`.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the examples, >= 0.
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.
        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        display : PathDisplay
            What was drawn.
        """
        found = path(estimator, X, y, Cs=[estimator.C], noises=noises, sample_weight=sample_weight)
        return cls(found).plot(ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        C: int = -1,
        problem: int = 0,
        top: int = 12,
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """Draw the coefficients.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.
        C : int, default=-1
            Number of the C, among those of the path.
        problem : int, default=0
            Number of the one-vs-rest problem.
        top : int, default=12
            Number of features to draw: those of the largest weights on the path.
        feature_names : sequence of str, default=None
            Names for the legend; numbers otherwise.

        Returns
        -------
        display : PathDisplay
            Itself.
        """
        W = self.path.coefs[C, :, problem]
        chosen = np.argsort(-np.abs(W).max(axis=0), kind="stable")[:top]
        rates = all(isinstance(noise, float) for noise in self.path.noises)
        where = self.path.noises if rates else range(len(self.path.noises))
        self.ax_ = axes(ax)
        self.figure_ = self.ax_.figure
        self.lines_ = []
        for feature in chosen:
            name = str(feature) if feature_names is None else str(feature_names[feature])
            self.lines_ += self.ax_.plot(where, W[:, feature], marker=".", label=name)
        self.ax_.axhline(0, color="grey", lw=0.5)
        self.ax_.set(xlabel="dropout rate" if rates else "noise", ylabel="weight")
        self.ax_.set_title(f"C={self.path.Cs[C]:.3g}")
        if not rates:
            self.ax_.set_xticks(list(where), [label(noise) for noise in self.path.noises], rotation=30)
        self.ax_.legend(fontsize="x-small", ncols=2)
        return self
