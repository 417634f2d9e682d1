"""What has been read from a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from apolar._core.arrays import Array


@dataclass(frozen=True, eq=False)
class TableFile:
    """A table of numbers that was read from a file.

    It may be used in a `with` statement; at its end, `close` is called.

    Attributes
    ----------
    X : ndarray, shape (n_rows, n_columns)
        Finite float64 numbers, read-only: in memory, or a memory map of a
        temporary file (or of the user's .npy file) if they are many.
    names : tuple of str
        Of the columns of X.
    source : str
        The path of the file, or "standard input".
    label_codes : ndarray of int32, shape (n_rows,), or None
        The label of each row, as its position in `label_names`; None if no
        label column was asked for.
    label_names : tuple of str
        The texts of the label column, each once, in the order of the file.
    n_dropped : int
        Rows that were dropped because a number was missing.
    row_numbers : ndarray of int64, shape (n_rows,), or None
        The numbers of the kept rows in the file, from zero; None if no row
        was dropped.
    skipped : tuple of str
        Columns that were left out because they are empty, hold other things
        than numbers, or only number the rows; empty if columns were chosen.
    """

    X: Array
    names: tuple[str, ...]
    source: str
    label_codes: Array | None = None
    label_names: tuple[str, ...] = ()
    n_dropped: int = 0
    row_numbers: Array | None = None
    skipped: tuple[str, ...] = ()
    _remove: Callable[[], Any] | None = field(default=None, repr=False)

    @property
    def labels(self) -> Array | None:
        """The label column as text: an array of str objects, shape (n_rows,), or None."""
        if self.label_codes is None:
            return None
        return np.array(self.label_names, dtype=object)[self.label_codes]

    def close(self) -> None:
        """Remove the temporary file behind X, if there is one.

        X is then an empty table. The space on the disk is given back when no
        array made from X is in use any more.
        """
        if isinstance(self.X, np.memmap):
            object.__setattr__(self, "X", np.empty((0, len(self.names))))
        if self._remove is not None:
            self._remove()

    def __enter__(self) -> TableFile:
        """Return the table itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the table."""
        self.close()
