"""The progress of a fit: printed lines, and scikit-learn's callbacks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from sklearn.exceptions import ConvergenceWarning

from apolar.em.result import Fit
from apolar.exceptions import ApolarWarning

try:  # scikit-learn 1.9 or later
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as _with_callbacks
except ImportError:  # pragma: no cover - older scikit-learn
    CallbackSupportMixin = type(
        "CallbackSupportMixin",
        (),
        {"__doc__": "Takes the place of scikit-learn's class, where it has no callbacks."},
    )

    def _with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        return method


AnyMethod = TypeVar("AnyMethod", bound=Callable[..., Any])


def with_callbacks(method: AnyMethod) -> AnyMethod:
    """Return a method that manages scikit-learn's callbacks, where it has them; its type stays what it is."""
    managed: AnyMethod = _with_callbacks(method)
    return managed


__all__ = ["CallbackSupportMixin", "NotConvergedWarning", "Progress", "with_callbacks"]


class NotConvergedWarning(ApolarWarning, ConvergenceWarning):
    """EM stopped at max_iter: both an ApolarWarning and scikit-learn's ConvergenceWarning."""


class Progress:
    """A callback of EM that prints the progress of a fit, and calls scikit-learn's callbacks.

    Parameters
    ----------
    estimator : estimator
    X : object
        The rows as the user gave them, for the callbacks of scikit-learn.
    weight : float
        The sum of the weights of the rows.
    offset : float
        What is added to a log-likelihood per row, to get from whitened coordinates to the units of X.
    attributes : callable
        Returns the fitted attributes of a Fit.
    """

    def __init__(
        self,
        estimator: Any,
        X: Any,
        weight: float,
        offset: float,
        attributes: Callable[[Fit], dict[str, Any]],
    ) -> None:
        self.estimator, self.X = estimator, X
        self.weight, self.offset, self.attributes = weight, offset, attributes
        self.n_passes, self.last, self.began = 0, -float("inf"), time.perf_counter()
        self.context = None
        if getattr(estimator, "_skl_callbacks", None) or hasattr(estimator, "_parent_callback_ctx"):
            self.context = estimator._init_callback_context(max_subtasks=None)
            self.context.call_on_fit_task_begin(estimator=estimator, X=X)

    def __call__(self, fit: Fit) -> bool:
        """Report a pass; return whether a callback asks to stop."""
        self.n_passes += 1
        mean = fit.log_likelihood / self.weight + self.offset
        every = self.estimator.verbose_interval
        if self.estimator.verbose and (self.n_passes == 1 or self.n_passes % every == 0):
            gain = "" if self.n_passes == 1 else f", gain {mean - self.last:.3g}"
            taken = f", {time.perf_counter() - self.began:.2f} s" if self.estimator.verbose > 1 else ""
            print(f"pass {self.n_passes}: mean log-likelihood {mean:.8g}{gain}{taken}")
            self.last = mean
        if self.context is None:
            return False
        task = self.context.subcontext(task_name="pass")
        task.call_on_fit_task_begin(estimator=self.estimator, X=self.X)
        return bool(
            task.call_on_fit_task_end(
                estimator=self.estimator,
                X=self.X,
                reconstruction_attributes=lambda: self.attributes(fit),
            )
        )

    def end(self, message: str) -> None:
        """Report the end of the fit."""
        if self.estimator.verbose:
            print(f"after {self.n_passes} passes: {message}")
        if self.context is not None:
            # The estimator has all of its attributes by now: none is to be reconstructed.
            self.context.call_on_fit_task_end(
                estimator=self.estimator, X=self.X, reconstruction_attributes={}
            )
