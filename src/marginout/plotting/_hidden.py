"""Draw hidden units, with the examples to which they respond most."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marginout._core.validation import check_count
from marginout.plotting._axes import pyplot


class HiddenUnitsDisplay:
    """Hidden units: their weights, the examples to which they respond most, their mean response by class.

    One row for each unit: its weight; as images, if `image_shape` is given, the examples to which it
    responds most; and its mean response by class, if the labels are known.

    Parameters
    ----------
    units : HiddenUnits
        From the `hidden_units` method of a fitted model.
    images : array of shape (n_units, n_examples) + image_shape, default=None
        The examples that each unit responds to most.

    Attributes
    ----------
    figure_ : matplotlib Figure
        Where it is drawn.
    axes_ : array of matplotlib Axes of shape (n_units, n_columns)
        One row per unit.
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
        """Compute the responses of the units, and draw them.

        Parameters
        ----------
        estimator : fitted LatentDropoutSVC, LatentDropoutLogisticRegression or LatentDropoutSVR
            A model with a `hidden_units` method.
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Examples to look for.
        y : array-like of shape (n_samples,), default=None
            Labels, for the mean responses by class.
        output : int, default=0
            The output whose weights are drawn: with several classes, the number of the class.
        n_units : int, default=6
            Number of units to draw, spread evenly from the largest weight to the smallest.
        n_examples : int, default=6
            Number of examples for each unit.
        image_shape : tuple of int, default=None
            Height, width and, in colour, channels of an example's image.
        figure : matplotlib Figure, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        display : HiddenUnitsDisplay
            What was drawn.
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
        """Draw the units.

        Parameters
        ----------
        figure : matplotlib Figure, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        display : HiddenUnitsDisplay
            Itself.
        """
        units, images = self.units, self.images
        n_images = 0 if images is None else images.shape[1]
        columns = n_images + 1
        if figure is None:
            size = 1.2 * n_images + 3.5, 1.3 * len(units.units)
            figure = pyplot().figure(figsize=size, layout="constrained")
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
        """Draw the mean responses by class, or, without labels, the responses of the examples."""
        if self.units.class_means is None:
            values, labels, name = self.units.responses[unit], self.units.examples[unit], "example"
        else:
            values, labels, name = self.units.class_means[unit], self.units.classes, "class"
        axis.bar(range(len(values)), values)
        axis.set_xticks(range(len(values)), [str(label) for label in labels])
        if unit == len(self.units.units) - 1:
            axis.set_xlabel(name)
        axis.set_title("mean response" if name == "class" else "response", fontsize="small")
