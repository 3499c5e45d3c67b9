"""scikit-learn's callback interface where it exists (1.9 and later), and nothing elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn < 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """An estimator that callbacks do not know."""

    def with_callbacks(method: Any) -> Any:
        return method


__all__ = ["CallbackSupportMixin", "FitTask", "heard", "with_callbacks"]

#: Told the name of what a fit is made of, "cell" or "iteration", and the share of it that is done.
Listener = Callable[[str, float], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def heard(listener: Listener) -> Iterator[None]:
    """Within the block, fits tell the listener how far they are, whatever scikit-learn's version."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


class FitTask:
    """A fit and its iterations, as callbacks see them."""

    def __init__(self, estimator: Any, max_iter: int, X: Any, y: Any) -> None:
        self._estimator, self._data = estimator, {"X": X, "y": y}
        self._context = None
        self._listener, self._cells, self._done, self._share = _listener.get(), max_iter, 0, 0.0
        self._first, self._part = math.inf, 0
        if hasattr(estimator, "_init_callback_context"):
            self._context = estimator._init_callback_context(max_subtasks=max_iter)
            self._context.call_on_fit_task_begin(estimator=estimator, **self._data)

    @property
    def watched(self) -> bool:
        """Whether there is a callback that wants to hear of iterations."""
        return self._context is not None and bool(getattr(self._estimator, "_skl_callbacks", None))

    @property
    def heard(self) -> bool:
        """Whether a listener wants to hear how far the fit is."""
        return self._listener is not None

    def cell(self) -> None:
        """Tell the listener that one more of equal parts is done."""
        self._done += 1
        if self._listener is not None:
            self._listener("cell", self._done / self._cells)

    def near(self, distance: float, goal: float, part: int = 0, parts: int = 1) -> None:
        """Tell the listener how far the fit, one part after the other, is.

        In each part the distance that is left falls geometrically to the goal, about.
        """
        if self._listener is None or not (0 < distance < math.inf and goal > 0):
            return
        if part != self._part or self._first == math.inf:
            self._first, self._part = max(distance, 2 * goal), part
        share = math.log(self._first / distance) / math.log(self._first / goal)
        self._share = max(self._share, (part + min(max(share, 0.0), 0.99)) / parts)
        self._listener("iteration", self._share)

    def iteration(self, attributes: Callable[[], dict[str, Any]] | None, name: str = "iteration") -> bool:
        """Report one more iteration, or another part of the fit; whether a callback asks to stop.

        Parts that leave no model behind have no attributes.
        """
        if self._context is None or not self.watched:
            return False
        task = self._context.subcontext(task_name=name)
        task.call_on_fit_task_begin(estimator=self._estimator, **self._data)
        return bool(
            task.call_on_fit_task_end(
                estimator=self._estimator, reconstruction_attributes=attributes, **self._data
            )
        )

    def end(self, attributes: Callable[[], dict[str, Any]]) -> None:
        """Report the end of the fit."""
        if self._context is not None:
            self._context.call_on_fit_task_end(
                estimator=self._estimator, reconstruction_attributes=attributes, **self._data
            )
