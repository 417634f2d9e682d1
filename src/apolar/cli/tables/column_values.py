"""The values of a column, as far as they are few, or could be row numbers."""

from __future__ import annotations

import numpy as np

from apolar._core.arrays import Array

__all__ = ["MAX_VALUES", "ColumnValues"]

# A column with more values than this is a measurement.
MAX_VALUES = 10
# Up to so many are codes or grades whatever their histogram is; more may be those of a rounded measurement.
MAX_CODES = 5
# Values repeat at least this often, on average; in fewer rows, a rounded measurement has few values, too.
MIN_REPEATS = 10
# A column whose values differ by less, relative to their size, is constant up to rounding.
ROUNDING = 1e-13


class ColumnValues:
    """The values of a column: how many there are, if they are few, and whether they could be row numbers.

    Parameters
    ----------
    may_count : bool, default=True
        Whether they could be row numbers for all that is known before.
    """

    def __init__(self, *, may_count: bool = True) -> None:
        self.counts: dict[float, int] | None = {}
        self.low, self.high = np.inf, -np.inf
        self.n_present = 0
        self.is_integer = may_count
        self.is_run = self.is_rising = True
        self._last: float | None = None

    def add(self, column: Array) -> None:
        """Look at further values."""
        values = column[~np.isnan(column)] if column.dtype.kind == "f" else column
        if len(values) == 0:
            return
        values = values.astype(np.float64)
        self.n_present += len(values)
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))
        if self.counts is not None:
            self._count(values)
        if self.is_integer:
            self._follow(values)

    def _count(self, values: Array) -> None:
        assert self.counts is not None
        for value in self.counts:
            is_equal = values == value
            n_equal = int(np.count_nonzero(is_equal))
            if n_equal:
                self.counts[value] += n_equal
                values = values[~is_equal]
            if not len(values):
                return
        # A few of them show most often that they are many.
        if len(self.counts) + len(np.unique(values[: 4 * MAX_VALUES])) > MAX_VALUES:
            self.counts = None
            return
        distinct, times = np.unique(values, return_counts=True)
        if len(self.counts) + len(distinct) > MAX_VALUES:
            self.counts = None
        else:
            self.counts.update(zip(distinct.tolist(), times.tolist(), strict=True))

    def _follow(self, values: Array) -> None:
        """See whether the values are integers that go on from the last ones."""
        self.is_integer = bool(np.all(values == np.floor(values)))
        if not self.is_integer:
            return
        before = values[:1] - 1 if self._last is None else np.array([self._last])
        steps = np.diff(np.concatenate([before, values]))
        self.is_run = self.is_run and bool(np.all(steps == 1))
        self.is_rising = self.is_rising and bool(np.all(steps > 0))
        self._last = float(values[-1])

    @property
    def is_constant(self) -> bool:
        """Whether the values are equal, up to rounding."""
        return self.n_present > 0 and self.high - self.low <= ROUNDING * max(abs(self.low), abs(self.high))

    @property
    def n_values(self) -> int:
        """How many different values there are; 0 if they are many."""
        return 0 if self.counts is None else len(self.counts)

    @property
    def has_few_values(self) -> bool:
        """Whether there are few values, each of them often, and not as of a rounded measurement."""
        if not self.counts or len(self.counts) < 2 or self.n_present < MIN_REPEATS * len(self.counts):
            return False
        return not _is_rounded(self.counts)

    @property
    def is_open(self) -> bool:
        """Whether the values seen so far could be those of a column that is no measurement."""
        return self.counts is not None or self.is_integer or self.is_constant


def _is_rounded(counts: dict[float, int]) -> bool:
    """Return whether values are evenly spaced and most frequent in the middle: a rounded measurement."""
    if len(counts) <= MAX_CODES:
        return False
    values = sorted(counts)
    times = [counts[value] for value in values]
    steps = np.diff(values)
    peak = int(np.argmax(times))
    is_hill = times[:peak] == sorted(times[:peak]) and times[peak:] == sorted(times[peak:], reverse=True)
    is_bell = is_hill and 2 * max(times[0], times[-1]) < times[peak]
    return bool(is_bell and steps.max() <= 1.001 * steps.min())
