"""Draw what the loss of each group of features costs."""

from __future__ import annotations

from typing import Any, Self

from marginout._core.validation import check_count
from marginout.plotting._axes import axes
from marginout.robustness import GroupImpact, group_impact


class GroupImpactDisplay:
    """Bars: the cost of the loss of each group for a fixed model, alone and with its worst partner.

    Make it with :meth:`from_estimator` or :meth:`from_impact`.

    Parameters
    ----------
    impact : GroupImpact
        What to draw.
    max_groups : int, default=20
        Largest number of groups to draw, the costliest first.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it is drawn.
    figure_ : matplotlib Figure
        The figure of the axes.
    bars_ : matplotlib BarContainer
        The cost of every group alone, the costliest on top.
    pair_bars_ : matplotlib BarContainer, or None without pairs
        The cost of the loss of the group together with the partner for which it is largest.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from marginout import DropoutSVC, GroupImpactDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = DropoutSVC(C=0.1).fit(scale(X), y)
    >>> GroupImpactDisplay.from_estimator(model, scale(X), y, np.arange(30) % 10)  # doctest: +SKIP
    """

    def __init__(self, impact: GroupImpact, *, max_groups: int = 20) -> None:
        if not isinstance(impact, GroupImpact):
            raise TypeError(f"impact={impact!r} must be a GroupImpact, from group_impact.")
        self.impact, self.max_groups = impact, check_count("max_groups", max_groups, 1)

    @classmethod
    def from_impact(cls, impact: GroupImpact, *, max_groups: int = 20, ax: Any = None) -> Self:
        """Draw the costs that :func:`~marginout.robustness.group_impact` returned.

        Parameters
        ----------
        impact : GroupImpact
            What to draw.
        max_groups : int, default=20
            Largest number of groups to draw, the costliest first.
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.

        Returns
        -------
        display : GroupImpactDisplay
            What was drawn.
        """
        return cls(impact, max_groups=max_groups).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        groups: Any,
        *,
        max_groups: int = 20,
        ax: Any = None,
        **impact_kw: Any,
    ) -> Self:
        """Score a fitted model without each group, and draw the costs.

        Parameters
        ----------
        estimator : fitted classifier, regressor or pipeline
            It is not fitted again.
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            Test data.
        y : array-like of shape (n_samples,)
            True targets.
        groups : array-like of shape (n_features,), or list or dict of lists of features
            As in :func:`~marginout.robustness.group_impact`.
        max_groups : int, default=20
            Largest number of groups to draw, the costliest first.
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.
        **impact_kw : dict
            For :func:`~marginout.robustness.group_impact`: max_pairs, fill, scoring, ...

        Returns
        -------
        display : GroupImpactDisplay
            What was drawn.
        """
        return cls(group_impact(estimator, X, y, groups, **impact_kw), max_groups=max_groups).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.

        Returns
        -------
        display : GroupImpactDisplay
            What was drawn.
        """
        impact = self.impact
        order = impact.order[: self.max_groups]
        places = range(len(order))
        self.ax_ = axes(ax)
        self.figure_ = self.ax_.figure
        worst = impact.worst_partners()
        self.pair_bars_ = None
        if worst:
            costs = [worst[g][1] if g in worst else 0.0 for g in order]
            self.pair_bars_ = self.ax_.barh(places, costs, color="0.8", label="with its worst partner")
            for place, g in zip(places, order, strict=True):
                if g in worst:
                    name = f" + {impact.labels[worst[g][0]]}"
                    self.ax_.annotate(name, (max(worst[g][1], 0.0), place), va="center", fontsize="small")
        self.bars_ = self.ax_.barh(places, impact.costs[order], height=0.5, label="alone")
        self.ax_.set_yticks(places, [str(impact.labels[g]) for g in order])
        self.ax_.invert_yaxis()
        self.ax_.margins(x=0.3)
        self.ax_.set_xlabel(f"lost {impact.score_name} (of {impact.score:.3f})")
        self.ax_.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
        return self
