"""The progress of a selection, for a callback."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

__all__ = ["FITTING", "ON_ALL_ROWS", "REFINING", "Callback", "Progress", "counted"]

Callback = Callable[[str, int, int], object]
"""Takes what is done, how many candidates are done with it, and how many are to be."""

# What is done, one after the other.
FITTING, REFINING, ON_ALL_ROWS = "fitting", "refining", "fitting to all rows"

Value = TypeVar("Value")


class Progress:
    """Counts candidates, from any thread, and calls a callback.

    Parameters
    ----------
    callback : callable or None
    """

    def __init__(self, callback: Callback | None) -> None:
        self._callback = callback
        self._lock = threading.Lock()
        self._what, self._n_done, self._n_all = "", 0, 0

    def begin(self, what: str, n_all: int, n_done: int = 0) -> None:
        """Begin something that is to be done for so many candidates; for some it may be done already."""
        with self._lock:
            self._what, self._n_done, self._n_all = what, n_done, n_all
            self._report()

    def step(self) -> None:
        """Count one more candidate."""
        with self._lock:
            self._n_done += 1
            self._report()

    def _report(self) -> None:
        if self._callback is not None and self._n_all:
            self._callback(self._what, self._n_done, self._n_all)


def counted(callback: Callback | None, what: str, values: Iterable[Value], n_all: int) -> Iterator[Value]:
    """Yield values as they are, and report how many there have been."""
    progress = Progress(callback)
    progress.begin(what, n_all)
    for value in values:
        progress.step()
        yield value
