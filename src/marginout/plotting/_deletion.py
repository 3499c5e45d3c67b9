"""Draw the scores of fixed models as their features die."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from marginout.plotting._axes import axes
from marginout.robustness import DeletionCurve, deletion_curve


class DeletionCurveDisplay:
    """Scores of fixed models as their features die, each a line with a band.

    Make it with :meth:`from_estimator`, :meth:`from_estimators` or :meth:`from_curve`.

    Parameters
    ----------
    curves : dict of str to DeletionCurve
        The curves, by their names in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it is drawn.
    figure_ : matplotlib Figure
        The figure of the axes.
    lines_ : list of matplotlib Line2D
        One per curve: the mean over the repeats.
    bands_ : list
        One per curve: mean ± one standard deviation; None for a single repeat.

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
        """Draw curves that :func:`~marginout.robustness.deletion_curve` returned.

        Parameters
        ----------
        curve : DeletionCurve, list of DeletionCurve, or dict of str to DeletionCurve
            The curves, perhaps by their names in the legend.
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.
        **line_kw : dict
            For matplotlib's `plot`.

        Returns
        -------
        display : DeletionCurveDisplay
            What was drawn.
        """
        if isinstance(curve, DeletionCurve):
            curve = [curve]
        if not isinstance(curve, Iterable):
            raise TypeError(f"curve={curve!r} must be a DeletionCurve, or several in a list or a dict.")
        if not isinstance(curve, Mapping):
            curve = list(curve)
            curve = named([getattr(each, "estimator_name", "") for each in curve], curve)
        return cls(curve).plot(ax=ax, **line_kw)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, name: str | None = None, ax: Any = None, **curve_kw: Any
    ) -> Self:
        """Score a fitted model as its features die, and draw the curve.

        Parameters
        ----------
        estimator : fitted classifier, regressor or pipeline
            It is not fitted again.
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features), or texts
            Test data.
        y : array-like of shape (n_samples,)
            True targets.
        name : str, default=None
            For the legend; the estimator's class by default.
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.
        **curve_kw : dict
            For :func:`~marginout.robustness.deletion_curve`: rates, n_repeats, kind, ...

        Returns
        -------
        display : DeletionCurveDisplay
            What was drawn.
        """
        curve = deletion_curve(estimator, X, y, **curve_kw)
        return cls({name or curve.estimator_name: curve}).plot(ax=ax)

    @classmethod
    def from_estimators(cls, estimators: Any, X: Any, y: Any, *, ax: Any = None, **curve_kw: Any) -> Self:
        """Score several fitted models on the same data, and draw their curves together.

        Parameters
        ----------
        estimators : list of fitted estimators, or dict of str to fitted estimator
            The models, perhaps by their names in the legend.
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features), or texts
            Test data.
        y : array-like of shape (n_samples,)
            True targets.
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.
        **curve_kw : dict
            For :func:`~marginout.robustness.deletion_curve`: rates, n_repeats, kind, ... With a
            whole number as `random_state` all models lose the same features.

        Returns
        -------
        display : DeletionCurveDisplay
            What was drawn.
        """
        if isinstance(estimators, Mapping):
            curves = {name: deletion_curve(each, X, y, **curve_kw) for name, each in estimators.items()}
            return cls(curves).plot(ax=ax)
        if not isinstance(estimators, Iterable) or hasattr(estimators, "fit"):
            raise TypeError(
                f"estimators={estimators!r} must be a list or a dict; from_estimator draws a single one."
            )
        drawn = [deletion_curve(each, X, y, **curve_kw) for each in estimators]
        return cls(named([curve.estimator_name for curve in drawn], drawn)).plot(ax=ax)

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
        display : DeletionCurveDisplay
            Itself.
        """
        self.ax_ = axes(ax)
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


def named(names: Sequence[str], items: Any) -> dict[str, Any]:
    """Map names to items; a name that occurs again gets a number."""
    seen: dict[str, Any] = {}
    for name, item in zip(names, items, strict=True):
        unique, number = name, 2
        while unique in seen:
            unique, number = f"{name} {number}", number + 1
        seen[unique] = item
    return seen
