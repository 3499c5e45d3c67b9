"""scikit-learn's callback interface where it exists (1.9 and later), and nothing elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    FRAMES = 2  # between a user's call of `fit` and its body, for warnings to point at
except ImportError:  # scikit-learn < 1.9
    FRAMES = 1

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """An estimator that callbacks do not know."""

    def with_callbacks(method: Any) -> Any:
        return method


__all__ = ["FRAMES", "CallbackSupportMixin", "FitTask", "with_callbacks"]


class FitTask:
    """A fit and its iterations, as callbacks see them."""

    def __init__(self, estimator: Any, max_iter: int, X: Any, y: Any) -> None:
        self._estimator, self._data = estimator, {"X": X, "y": y}
        self._context = None
        if hasattr(estimator, "_init_callback_context"):
            self._context = estimator._init_callback_context(max_subtasks=max_iter)
            self._context.call_on_fit_task_begin(estimator=estimator, **self._data)

    @property
    def watched(self) -> bool:
        """Whether there is a callback that wants to hear of iterations."""
        return self._context is not None and bool(getattr(self._estimator, "_skl_callbacks", None))

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
