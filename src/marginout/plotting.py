"""Displays in scikit-learn's manner. matplotlib is imported when one is drawn, not before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from marginout._path import RATES, Path, path
from marginout._validation import check_count
from marginout.noise import Dropout, Noise
from marginout.robustness import DeletionCurve, deletion_curve

Array = NDArray[np.float64]

__all__ = ["DeletionCurveDisplay", "HiddenUnitsDisplay", "PathDisplay", "ValidationMapDisplay"]


def _axes(ax: Any) -> Any:
    """The given axes, or new ones."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("Displays need matplotlib: pip install 'marginout[plot]'.") from None
    return plt.subplots(layout="constrained")[1]


class DeletionCurveDisplay:
    """The scores of fixed models as their features die, each a line with a band.

    Make it with :meth:`from_estimator`, :meth:`from_estimators` or :meth:`from_curve`.

    Parameters
    ----------
    curves : dict of str to DeletionCurve
        By the names that the legend gives them.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : list of matplotlib Line2D
        One per curve: the mean over the repeats.
    bands_ : list
        One per curve: a standard deviation to both sides of the mean; None for a single repeat.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.svm import LinearSVC
    >>> from marginout import DeletionCurveDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LinearSVC().fit(X[:900] / 16, y[:900])
    >>> display = DeletionCurveDisplay.from_estimator(model, X[900:] / 16, y[900:])  # doctest: +SKIP
    """

    def __init__(self, curves: Mapping[str, DeletionCurve]) -> None:
        self.curves = dict(curves)
        if not self.curves:
            raise ValueError("curves is empty: give at least one.")
        for name, curve in self.curves.items():
            if not isinstance(curve, DeletionCurve):
                raise TypeError(f"curves[{name!r}]={curve!r} must be a DeletionCurve, from deletion_curve.")

    @classmethod
    def from_curve(cls, curve: Any, *, ax: Any = None, **line_kw: Any) -> Self:
        """Draw what :func:`~marginout.robustness.deletion_curve` returned.

        Parameters
        ----------
        curve : DeletionCurve, a list of them, or a dict of names to them
        ax : matplotlib Axes, default=None
        **line_kw : dict
            For matplotlib's `plot`.

        Returns
        -------
        display : DeletionCurveDisplay
        """
        if isinstance(curve, DeletionCurve):
            curve = [curve]
        if not isinstance(curve, Iterable):
            raise TypeError(f"curve={curve!r} must be a DeletionCurve, or several in a list or a dict.")
        if not isinstance(curve, Mapping):
            curve = list(curve)
            curve = _named([getattr(each, "estimator_name", "") for each in curve], curve)
        return cls(curve).plot(ax=ax, **line_kw)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, name: str | None = None, ax: Any = None, **curve_kw: Any
    ) -> Self:
        """Score a fitted model as its features die, and draw it.

        Parameters
        ----------
        estimator : fitted classifier, regressor or pipeline
        X, y : test data
        name : str, default=None
            For the legend; the estimator's class by default.
        ax : matplotlib Axes, default=None
        **curve_kw : dict
            For :func:`~marginout.robustness.deletion_curve`: rates, n_repeats, kind, ...

        Returns
        -------
        display : DeletionCurveDisplay
        """
        curve = deletion_curve(estimator, X, y, **curve_kw)
        return cls({name or curve.estimator_name: curve}).plot(ax=ax)

    @classmethod
    def from_estimators(cls, estimators: Any, X: Any, y: Any, *, ax: Any = None, **curve_kw: Any) -> Self:
        """Score several fitted models on the same data, and draw them together.

        Parameters
        ----------
        estimators : list of fitted estimators, or dict of names to them
        X, y : test data
        ax : matplotlib Axes, default=None
        **curve_kw : dict
            For :func:`~marginout.robustness.deletion_curve`: rates, n_repeats, kind, ... With a
            whole number as `random_state` all models lose the same features.

        Returns
        -------
        display : DeletionCurveDisplay
        """
        if isinstance(estimators, Mapping):
            curves = {name: deletion_curve(each, X, y, **curve_kw) for name, each in estimators.items()}
            return cls(curves).plot(ax=ax)
        if not isinstance(estimators, Iterable) or hasattr(estimators, "fit"):
            raise TypeError(
                f"estimators={estimators!r} must be a list or a dict; from_estimator draws a single one."
            )
        drawn = [deletion_curve(each, X, y, **curve_kw) for each in estimators]
        return cls(_named([curve.estimator_name for curve in drawn], drawn)).plot(ax=ax)

    def plot(self, *, ax: Any = None, **line_kw: Any) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.
        **line_kw : dict
            For matplotlib's `plot`.

        Returns
        -------
        self : DeletionCurveDisplay
        """
        self.ax_ = _axes(ax)
        self.figure_ = self.ax_.figure
        self.lines_, self.bands_ = [], []
        for name, curve in self.curves.items():
            order = curve.rates.argsort(kind="stable")
            rates, mean, std = 100 * curve.rates[order], curve.mean[order], curve.std[order]
            (line,) = self.ax_.plot(rates, mean, **{"label": name, "marker": ".", **line_kw})
            band = None
            if curve.scores.shape[1] > 1:
                band = self.ax_.fill_between(
                    rates, mean - std, mean + std, color=line.get_color(), alpha=0.2, linewidth=0
                )
            self.lines_.append(line)
            self.bands_.append(band)
        kinds = sorted({curve.kind for curve in self.curves.values()})
        scores = sorted({curve.score_name for curve in self.curves.values()})
        self.ax_.set(xlabel=f"features deleted (%), {', '.join(kinds)}", ylabel=", ".join(scores))
        self.ax_.legend()
        return self


def _named(names: Sequence[str], items: Any) -> dict[str, Any]:
    """Items by their names, numbered where a name occurs twice."""
    seen: dict[str, Any] = {}
    for name, item in zip(names, items, strict=True):
        unique, number = name, 2
        while unique in seen:
            unique, number = f"{name} {number}", number + 1
        seen[unique] = item
    return seen


def _label(noise: Any) -> str:
    """A noise as a tick label: a rate is its number."""
    if isinstance(noise, Dropout) and np.ndim(noise.rate) == 0:
        return f"{noise.rate:g}"
    return repr(noise) if isinstance(noise, Noise) else f"{noise:g}"


class ValidationMapDisplay:
    """Cross-validated error (or score) over C and noise, as a map with the chosen cell marked.

    Read it along the ridge of good cells: where it runs towards larger C and heavier noise
    together, noise does the regularising; where it hugs rate 0, corruption does not help.

    Parameters
    ----------
    values : array of shape (n_Cs, n_noises)
        Mean error, or mean score.
    Cs : array of shape (n_Cs,)
    noises : list of n_noises floats or noise models
    chosen : tuple (C index, noise index)
    name : str
        What the values are.

    Attributes
    ----------
    ax_, figure_, im_, marker_, colorbar_
        Axes, figure and artists, once drawn.
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
        ax : matplotlib axes, default=None
        **kwargs
            Passed to `plot`.

        Returns
        -------
        display : ValidationMapDisplay
        """
        check_is_fitted(estimator, "scores_")
        values, name = estimator.scores_.mean(axis=0), "score"
        if estimator.scoring in (None, "accuracy") and hasattr(estimator, "classes_"):
            values, name = 1 - values, "error"
        i, j = divmod(estimator.best_index_, len(estimator.noises_))
        return cls(values, estimator.Cs_, estimator.noises_, (i, j), name).plot(ax, **kwargs)

    def plot(self, ax: Any = None, *, annotate: bool = False, cmap: str = "viridis") -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, default=None
        annotate : bool, default=False
            Whether to write each cell's value into it.
        cmap : str, default="viridis"
            The colour map; errors use it reversed, so that good cells are bright.

        Returns
        -------
        self
        """
        self.ax_ = _axes(ax)
        self.figure_ = self.ax_.figure
        colours = f"{cmap}_r" if self.name == "error" else cmap
        self.im_ = self.ax_.imshow(self.values, origin="lower", aspect="auto", cmap=colours)
        i, j = self.chosen
        (self.marker_,) = self.ax_.plot([j], [i], "o", ms=12, mfc="none", mec="red", mew=2)
        best = f"{self.name} {self.values[i, j]:.3g}"
        self.ax_.set_title(f"{best} at C={self.Cs[i]:.3g}, noise {_label(self.noises[j])}")
        self.ax_.set(xlabel="noise", ylabel="C", xticks=range(len(self.noises)), yticks=range(len(self.Cs)))
        wide = any(isinstance(noise, Noise) for noise in self.noises)
        self.ax_.set_xticklabels([_label(noise) for noise in self.noises], rotation=30 if wide else 0)
        self.ax_.set_yticklabels([f"{C:.3g}" for C in self.Cs])
        if annotate:
            for (row, column), value in np.ndenumerate(self.values):
                self.ax_.text(column, row, f"{value:.3f}", ha="center", va="center", fontsize="x-small")
        self.colorbar_ = self.figure_.colorbar(self.im_, ax=self.ax_, label=f"mean {self.name}")
        return self


class PathDisplay:
    """Coefficients along the noise, at one C: what dropout does to the weights.

    Parameters
    ----------
    path : Path
        From :func:`marginout.path`.

    Attributes
    ----------
    ax_, figure_, lines_
        Axes, figure and one line per feature, once drawn.
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
            Fitted or not; it is left as it is.
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        noises : sequence of floats or noise models, default=(0, 0.1, ..., 0.9, 0.95)
        sample_weight : array-like of shape (n_samples,), default=None
        ax : matplotlib axes, default=None
        **kwargs
            Passed to `plot`.

        Returns
        -------
        display : PathDisplay
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
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, default=None
        C : int, default=-1
            Which of the path's Cs.
        problem : int, default=0
            Which of its one-vs-rest problems.
        top : int, default=12
            How many features, those of the largest weight anywhere on the path.
        feature_names : sequence of str, default=None
            Names for the legend; numbers otherwise.

        Returns
        -------
        self
        """
        W = self.path.coefs[C, :, problem]
        chosen = np.argsort(-np.abs(W).max(axis=0), kind="stable")[:top]
        rates = all(isinstance(noise, float) for noise in self.path.noises)
        where = self.path.noises if rates else range(len(self.path.noises))
        self.ax_ = _axes(ax)
        self.figure_ = self.ax_.figure
        self.lines_ = []
        for feature in chosen:
            name = str(feature) if feature_names is None else str(feature_names[feature])
            self.lines_ += self.ax_.plot(where, W[:, feature], marker=".", label=name)
        self.ax_.axhline(0, color="grey", lw=0.5)
        self.ax_.set(xlabel="dropout rate" if rates else "noise", ylabel="weight")
        self.ax_.set_title(f"C={self.path.Cs[C]:.3g}")
        if not rates:
            self.ax_.set_xticks(list(where), [_label(noise) for noise in self.path.noises], rotation=30)
        self.ax_.legend(fontsize="x-small", ncols=2)
        return self


class HiddenUnitsDisplay:
    """What hidden units see: their weights, the examples they respond to most, their means by class.

    One row for each unit: its weight, its most responsive examples as images when
    `image_shape` is given, and its mean response by class when the labels are known.

    Parameters
    ----------
    units : HiddenUnits
        From the `hidden_units` method of a fitted model.
    images : array of shape (n_units, n_examples) + image_shape, default=None

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : array of matplotlib Axes of shape (n_units, n_columns)
    """

    def __init__(self, units: Any, images: NDArray[Any] | None = None) -> None:
        self.units = units
        self.images = images

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        output: int = 0,
        n_units: int = 6,
        n_examples: int = 6,
        image_shape: tuple[int, ...] | None = None,
        figure: Any = None,
    ) -> Self:
        """Compute and draw.

        Parameters
        ----------
        estimator : a fitted model with a `hidden_units` method
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
            Labels, for the mean responses by class.
        output : int, default=0
            Which output's weights: the class, of several.
        n_units : int, default=6
            How many units to draw, spread evenly from the largest weight to the smallest.
        n_examples : int, default=6
            Examples for each unit.
        image_shape : tuple of int, default=None
            Height, width and, in colour, channels of an example's image.
        figure : matplotlib Figure, default=None

        Returns
        -------
        display : HiddenUnitsDisplay
        """
        n_units = check_count("n_units", n_units, 1)
        units = estimator.hidden_units(X, y, output=output, n_examples=n_examples)
        chosen = np.unique(np.linspace(0, len(units.units) - 1, n_units).round().astype(int))
        images = None
        if image_shape is not None:
            X = X.tocsr() if sp.issparse(X) else np.asarray(X)
            lengths = np.atleast_1d(image_shape)
            if lengths.shape not in ((2,), (3,)) or lengths.min() < 1 or lengths.prod() != X.shape[1]:
                raise ValueError(
                    f"image_shape={image_shape!r} must be height, width and, in colour, channels, and their "
                    f"product {X.shape[1]}, the number of features."
                )
            rows = X[units.examples[chosen].ravel()]
            rows = rows.toarray() if sp.issparse(rows) else rows
            images = rows.reshape(len(chosen), -1, *image_shape)
        return cls(units.select(chosen), images).plot(figure=figure)

    def plot(self, *, figure: Any = None) -> Self:
        """Draw on a figure, a new one by default."""
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise ImportError("Displays need matplotlib: pip install 'marginout[plot]'.") from None

        units, images = self.units, self.images
        n_images = 0 if images is None else images.shape[1]
        columns = n_images + 1
        if figure is None:
            figure = plt.figure(figsize=(1.2 * n_images + 3.5, 1.3 * len(units.units)), layout="constrained")
        ratios = [*[1.0] * n_images, 2.5]
        axes = figure.subplots(len(units.units), columns, squeeze=False, width_ratios=ratios)
        for row, unit, weight, number in zip(axes, range(len(axes)), units.weights, units.units, strict=True):
            for axis, image in zip(row[:n_images], [] if images is None else images[unit], strict=True):
                axis.imshow(image, cmap="gray" if image.ndim == 2 else None)
                axis.set(xticks=[], yticks=[])
            self._bars(row[-1], unit)
            row[0].set_ylabel(f"unit {number}\nw = {weight:.2f}", rotation=0, ha="right", va="center")
        self.figure_, self.axes_ = figure, axes
        return self

    def _bars(self, axis: Any, unit: int) -> None:
        """Mean responses by class, or the responses of the examples where labels are not known."""
        if self.units.class_means is None:
            values, labels, name = self.units.responses[unit], self.units.examples[unit], "example"
        else:
            values, labels, name = self.units.class_means[unit], self.units.classes, "class"
        axis.bar(range(len(values)), values)
        axis.set_xticks(range(len(values)), [str(label) for label in labels])
        if unit == len(self.units.units) - 1:
            axis.set_xlabel(name)
        axis.set_title("mean response" if name == "class" else "response", fontsize="small")
