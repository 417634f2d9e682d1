"""From batches of rows to a table: missing and infinite values, labels, and where the rows are kept."""

from array import array
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from apolar._core.arrays import Array, frozen
from apolar.cli.tables.content import Batch
from apolar.cli.tables.errors import TableError, counted, joined, quoted
from apolar.cli.tables.spill import Store
from apolar.cli.tables.table import TableFile

Progress = Callable[[int, int | None], object]
"""Takes the bytes that have been read, and all bytes of the file or None."""

_SHOWN_PLACES = 5


class _Labels:
    """The label column: each text once, and a number for each row."""

    def __init__(self) -> None:
        self._codes = array("i")
        self._known: dict[str, int] = {}

    def append(self, texts: Iterable[str]) -> None:
        known = self._known
        self._codes.extend([known.setdefault(text, len(known)) for text in texts])

    def finish(self) -> tuple[Array, tuple[str, ...]]:
        return frozen(np.array(self._codes, dtype=np.int32)), tuple(self._known)


class _Missing:
    """Where numbers are missing, as far as a message tells, and the numbers of the rows that are kept."""

    def __init__(self, n_columns: int) -> None:
        self.n_rows = 0
        self.in_column = np.zeros(n_columns, dtype=np.int64)
        self.places: list[int] = []
        self._kept: list[Array] = []

    def add(self, first: int, absent: Array, places: Sequence[int]) -> Array:
        """Count the missing numbers of a batch and return which of its rows are kept."""
        rows: Array = np.any(absent, axis=1)
        if not self.n_rows and rows.any():
            self._kept.append(np.arange(first))
        self.n_rows += int(rows.sum())
        self.in_column += absent.sum(axis=0)
        for row in np.flatnonzero(rows)[: _SHOWN_PLACES - len(self.places)]:
            self.places.append(places[row])
        if self.n_rows:
            self._kept.append(first + np.flatnonzero(~rows))
        return np.logical_not(rows)

    def kept(self) -> Array | None:
        return frozen(np.concatenate(self._kept).astype(np.int64)) if self._kept else None

    def message(self, source: str, unit: str, names: Sequence[str]) -> str:
        holed = [quoted(name) for name, n in zip(names, self.in_column, strict=True) if n]
        places = [f"{place:,}" for place in self.places]
        several = self.n_rows > 1
        return (
            f"{source}: {counted(self.n_rows, 'row')} {'have' if several else 'has'} missing values, "
            f"in column{'s' if len(holed) > 1 else ''} {joined(holed)}; "
            f"{'the first are on' if self.n_rows > _SHOWN_PLACES else 'see'} "
            f"{unit}{'s' if several else ''} {joined(places)}. "
            "Fill them in, or leave those rows out with --drop-missing."
        )


def collected(
    batches: Iterable[Batch],
    *,
    source: str,
    names: tuple[str, ...],
    skipped: tuple[str, ...],
    unit: str,
    drop_missing: bool,
    least_rows: int,
    in_memory_bytes: int,
    progress: Progress | None,
    total_bytes: int | None,
) -> TableFile:
    """Return the rows of all batches as one table.

    Parameters
    ----------
    batches : iterable of Batch
    source : str
    names, skipped : tuple of str
        The columns of the batches, and those that were left out.
    unit : str
        What the places of the batches count: "line" or "row".
    drop_missing : bool
    in_memory_bytes : int
    progress : callable, optional
    total_bytes : int or None
        Of the file; None if only reading to the end tells.

    Returns
    -------
    table : TableFile
    """
    missing = _Missing(len(names))
    labels: _Labels | None = None
    n_rows = 0
    store = Store(len(names), in_memory_bytes)
    try:
        for batch in batches:
            keep = _kept_rows(batch, missing, n_rows, source=source, unit=unit, names=names)
            n_rows += len(batch.values)
            if missing.n_rows and not drop_missing:
                store.close()  # only counted from here on, for the message
            else:
                part_read = min(1, batch.n_bytes / total_bytes) if total_bytes else None
                store.append(batch.values if keep is None else batch.values[keep], part_read)
            if batch.labels is not None:
                labels = labels or _Labels()
                labels.append(
                    batch.labels
                    if keep is None
                    else [text for text, one in zip(batch.labels, keep, strict=True) if one]
                )
            if progress is not None:
                progress(batch.n_bytes, total_bytes)
        _refuse_too_few(n_rows, missing, drop_missing, least_rows, source=source, unit=unit, names=names)
        X, remove = store.finish()
    finally:
        store.close()
    codes, texts = labels.finish() if labels is not None else (None, ())
    return TableFile(X, names, source, codes, texts, missing.n_rows, missing.kept(), skipped, remove)


def _kept_rows(
    batch: Batch, missing: _Missing, first: int, *, source: str, unit: str, names: Sequence[str]
) -> Array | None:
    """Return which rows of a batch have all their numbers; None if all do, as in every batch before."""
    values = batch.values
    # One sum is finite only if all numbers are, or it overflows, and then they are looked at.
    with np.errstate(over="ignore", invalid="ignore"):
        finite = bool(np.isfinite(values.sum()))
    if finite and not missing.n_rows:
        return None
    infinite = np.isinf(values)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise TableError(
            f"{source}, {unit} {batch.places[row]:,}, column {quoted(names[column])}: the number is infinite "
            "or too large. Put a finite number, or leave the cell empty and use --drop-missing."
        )
    keep = missing.add(first, np.isnan(values), batch.places)
    return None if keep.all() else keep


def _refuse_too_few(
    n_rows: int,
    missing: _Missing,
    drop_missing: bool,
    least_rows: int,
    *,
    source: str,
    unit: str,
    names: Sequence[str],
) -> None:
    if n_rows == 0:
        raise TableError(f"{source} has no rows: at least two are needed.")
    if missing.n_rows and not drop_missing:
        raise TableError(missing.message(source, unit, names))
    if n_rows == 1 < least_rows:
        raise TableError(f"{source} has only one row of numbers: at least two are needed.")
    left = n_rows - missing.n_rows
    if left < least_rows:
        most = names[int(np.argmax(missing.in_column))]
        raise TableError(
            f"{source}: {'no row is' if left == 0 else 'only one row is'} left without missing values; "
            f"column {quoted(most)} has the most of them. Leave such columns out with --columns."
        )
