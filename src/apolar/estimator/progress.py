"""What a fit says: printed lines, scikit-learn's callbacks, and warnings about rows and columns."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from apolar._core.arrays import Array, IndexArray
from apolar.em.result import Fit
from apolar.estimator.fitted import FittedState
from apolar.exceptions import ApolarWarning, ColumnWarning, FarRowsWarning, join_names, warn_user
from apolar.moments.covariance import is_constant

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


__all__ = [
    "CallbackSupportMixin",
    "FitProgress",
    "NotConvergedWarning",
    "warn_of_constant_columns",
    "warn_of_far_rows",
    "with_callbacks",
]

AnyMethod = TypeVar("AnyMethod", bound=Callable[..., Any])


def with_callbacks(method: AnyMethod) -> AnyMethod:
    """Return a method that manages scikit-learn's callbacks, where it has them; its type stays what it is."""
    managed: AnyMethod = _with_callbacks(method)
    return managed


class NotConvergedWarning(ApolarWarning, ConvergenceWarning):
    """EM stopped at max_iter: both an ApolarWarning and scikit-learn's ConvergenceWarning."""


class FitProgress:
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
    state : callable
        Returns the fitted state of a Fit.
    """

    def __init__(
        self, estimator: Any, X: Any, weight: float, offset: float, state: Callable[[Fit], FittedState]
    ) -> None:
        self.estimator, self.X = estimator, X
        self.weight, self.offset, self.state = weight, offset, state
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
                reconstruction_attributes=lambda: self.state(fit).attributes(),
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


def warn_of_far_rows(far_rows: IndexArray, has_weight: Array | None) -> None:
    """Warn of rows that are far from all others, by their positions among the rows that have a weight."""
    if len(far_rows):
        numbers = far_rows if has_weight is None else np.flatnonzero(has_weight)[far_rows]
        warn_user(FarRowsWarning(numbers.tolist()))


def warn_of_constant_columns(mean: Array, variances: Array, names: Sequence[Any] | None, used: str) -> None:
    """Warn once of all constant columns, unless no column varies.

    Parameters
    ----------
    mean, variances : ndarray, shape (n_features,)
        Of the columns.
    names : sequence of str or None
    used : str
        What is done with them.
    """
    constant = np.flatnonzero(is_constant(mean, variances)).tolist()
    if not constant or len(constant) == len(mean):
        return
    called = [str(i) if names is None else repr(str(names[i])) for i in constant]
    columns, are = ("Columns", "are") if len(constant) > 1 else ("Column", "is")
    warn_user(
        f"{columns} {join_names(called)} {are} constant. {used} Remove constant columns from X.",
        ColumnWarning,
    )
