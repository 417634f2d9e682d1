"""From batches of rows to a table: missing numbers, labels, and rows kept in memory or a temporary file."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any

import numpy as np

from apolar._core.arrays import Array, frozen
from apolar.cli.tables.table import RowBatch, TableError, TableFile, counted, joined, quoted, size_text

ReadProgress = Callable[[int, int | None], object]
"""Takes the bytes that have been read, and all bytes of the file or None."""

_SHOWN_PLACES = 5
_COPIED_BYTES = 2**22


def collected(
    batches: Iterable[RowBatch],
    *,
    source: str,
    names: tuple[str, ...],
    skipped: tuple[str, ...],
    drop_missing: bool,
    keep_missing: bool,
    min_rows: int,
    in_memory_bytes: int,
    progress: ReadProgress | None,
    total_bytes: int | None,
) -> TableFile:
    """Return the rows of all batches as one table.

    Parameters
    ----------
    batches : iterable of RowBatch
    source : str
        How messages call the table.
    names, skipped : tuple of str
        The columns of the batches, and those that were left out.
    drop_missing : bool
    keep_missing : bool
        Whether rows with missing numbers are kept, if they are not left out.
    in_memory_bytes : int
    progress : callable, optional
    total_bytes : int or None
        Of the file; None if only reading to the end shows it.

    Returns
    -------
    table : TableFile
    """
    missing = _MissingNumbers(len(names))
    keeps_all = keep_missing and not drop_missing
    labels: _LabelColumn | None = None
    n_rows = 0
    store = RowStore(len(names), in_memory_bytes)
    try:
        for batch in batches:
            keep = _kept_rows(batch, missing, n_rows, names=names)
            n_rows += len(batch.values)
            if keeps_all:
                keep = None
            if missing.n_rows and not (drop_missing or keeps_all):
                store.close()  # from here on, missing numbers are only counted for the message
            else:
                part_read = min(1, batch.n_bytes / total_bytes) if total_bytes else None
                store.append(batch.values if keep is None else batch.values[keep], part_read)
            if batch.labels is not None:
                labels = labels or _LabelColumn()
                labels.append(
                    batch.labels
                    if keep is None
                    else [label for label, is_kept in zip(batch.labels, keep, strict=True) if is_kept]
                )
            if progress is not None:
                progress(batch.n_bytes, total_bytes)
        unused = _MissingNumbers(len(names)) if keeps_all else missing
        _refuse_too_few(n_rows, unused, drop_missing, min_rows, source=source, names=names)
        X, remove = store.finish()
    finally:
        store.close()
    codes, label_names = labels.finish() if labels is not None else (None, ())
    n_dropped, kept = (0, None) if keeps_all else (missing.n_rows, missing.kept())
    n_missing = missing.in_column if keeps_all and missing.n_rows else None
    return TableFile(
        X, names, source, codes, label_names, n_dropped, kept, skipped, n_missing=n_missing, _remove=remove
    )


def _kept_rows(
    batch: RowBatch, missing: _MissingNumbers, first: int, *, names: Sequence[str]
) -> Array | None:
    """Return which rows of a batch have all their numbers; None if all do, as in every batch before."""
    values = batch.values
    # If the sum is finite, all numbers are. If it is not, it may have overflowed, and each is looked at.
    with np.errstate(over="ignore", invalid="ignore"):
        finite = bool(np.isfinite(values.sum()))
    if finite and not missing.n_rows:
        return None
    infinite = np.isinf(values)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise TableError(
            f"{batch.source}, {batch.unit} {batch.places[row]:,}, column {quoted(names[column])}: the number "
            "is infinite or too large. Put a finite number, or leave the cell empty and use --drop-missing."
        )
    keep = missing.add(first, np.isnan(values), batch)
    return None if keep.all() else keep


def _refuse_too_few(
    n_rows: int,
    missing: _MissingNumbers,
    drop_missing: bool,
    min_rows: int,
    *,
    source: str,
    names: Sequence[str],
) -> None:
    if n_rows == 0:
        raise TableError(f"{source} has no rows: at least two are needed.")
    if missing.n_rows and not drop_missing:
        raise TableError(missing.message(source, names))
    if n_rows == 1 < min_rows:
        raise TableError(f"{source} has only one row of numbers: at least two are needed.")
    left = n_rows - missing.n_rows
    if left < min_rows:
        most = names[int(np.argmax(missing.in_column))]
        raise TableError(
            f"{source}: {'no row is' if left == 0 else 'only one row is'} left without missing values; "
            f"column {quoted(most)} has the most of them. Leave such columns out with --columns."
        )


class _LabelColumn:
    """The label column: each string once, and a number for each row."""

    def __init__(self) -> None:
        self._codes = array("i")
        self._known: dict[str, int] = {}

    def append(self, labels: Iterable[str]) -> None:
        known = self._known
        self._codes.extend([known.setdefault(label, len(known)) for label in labels])

    def finish(self) -> tuple[Array, tuple[str, ...]]:
        return frozen(np.array(self._codes, dtype=np.int32)), tuple(self._known)


class _MissingNumbers:
    """Where numbers are missing, as far as a message says, and the numbers of the rows that are kept."""

    def __init__(self, n_columns: int) -> None:
        self.n_rows = 0
        self.in_column = np.zeros(n_columns, dtype=np.int64)
        self.places: list[tuple[str, str, int]] = []
        self._kept: list[Array] = []

    def add(self, first: int, absent: Array, batch: RowBatch) -> Array:
        """Count the missing numbers of a batch and return which of its rows are kept."""
        rows: Array = np.any(absent, axis=1)
        if not self.n_rows and rows.any():
            self._kept.append(np.arange(first))
        self.n_rows += int(rows.sum())
        self.in_column += absent.sum(axis=0)
        for row in np.flatnonzero(rows)[: _SHOWN_PLACES - len(self.places)]:
            self.places.append((batch.source, batch.unit, batch.places[row]))
        if self.n_rows:
            self._kept.append(first + np.flatnonzero(~rows))
        return np.logical_not(rows)

    def kept(self) -> Array | None:
        return frozen(np.concatenate(self._kept).astype(np.int64)) if self._kept else None

    def message(self, source: str, names: Sequence[str]) -> str:
        holed = [quoted(name) for name, n in zip(names, self.in_column, strict=True) if n]
        several = self.n_rows > 1
        if all(file == source for file, _, _ in self.places):
            unit = f"{self.places[0][1]}{'s' if several else ''} "
            places = [f"{place:,}" for _, _, place in self.places]
        else:
            unit, places = "", [f"{unit} {place:,} of {file}" for file, unit, place in self.places]
        return (
            f"{source}: {counted(self.n_rows, 'row')} {'have' if several else 'has'} missing values, "
            f"in column{'s' if len(holed) > 1 else ''} {joined(holed)}; "
            f"{'the first are on' if self.n_rows > _SHOWN_PLACES else 'see'} "
            f"{unit}{joined(places)}. "
            "Fill them in, or leave those rows out with --drop-missing."
        )


# --- where rows are kept ----------------------------------------------------------------------


class RowStore:
    """A growing table of float64 rows.

    Parameters
    ----------
    n_columns : int
    in_memory_bytes : int
        The table goes to a temporary file once it is larger.
    """

    def __init__(self, n_columns: int, in_memory_bytes: int) -> None:
        self._n_columns = n_columns
        self._in_memory_bytes = in_memory_bytes
        self._n_rows = 0
        self._buffer: Array = np.empty((0, n_columns))
        self._file: IO[bytes] | None = None
        self._remove: weakref.finalize[..., Any] | None = None

    def append(self, block: Array, part_read: float | None = None) -> None:
        """Add rows.

        Parameters
        ----------
        block : ndarray, shape (n, n_columns)
        part_read : float, optional
            How much of the source has been read with this block, from 0 to 1:
            by it, the space on the disk is checked before it is filled.
        """
        n_rows = self._n_rows + len(block)
        if self._file is None and n_rows * self._row_bytes > self._in_memory_bytes:
            self._spill(int(n_rows / part_read) * self._row_bytes if part_read else None)
        if self._file is not None:
            self._write(self._file, block)
        else:
            if n_rows > len(self._buffer):
                # In place, and by an eighth: the system moves pages, not numbers, and little is left unused.
                self._buffer.resize((n_rows + n_rows // 8, self._n_columns), refcheck=False)
            self._buffer[self._n_rows : n_rows] = block
        self._n_rows = n_rows

    def finish(self) -> tuple[Array, Callable[[], Any] | None]:
        """Return the table, read-only, and what removes the file behind it, or None."""
        if self._file is None or self._remove is None:
            self._buffer.resize((self._n_rows, self._n_columns), refcheck=False)
            return frozen(self._buffer), None
        path = self._file.name
        with _disk_errors(self._n_rows * self._row_bytes):
            self._file.close()
        table = np.memmap(path, dtype=np.float64, mode="r", shape=(self._n_rows, self._n_columns))
        # From here on the file lives as long as the table, or until the program ends.
        remove = _remover(table, path)
        self._remove.detach()
        self._remove = None
        return table, remove

    def close(self) -> None:
        """Forget the rows, and remove the temporary file unless `finish` gave it away."""
        self._buffer = np.empty((0, self._n_columns))
        if self._file is not None:
            with suppress(OSError):  # a full disk refuses what is left in the buffer of the file
                self._file.close()
        if self._remove is not None:
            self._remove()

    @property
    def _row_bytes(self) -> int:
        return 8 * self._n_columns

    def _spill(self, needed: int | None) -> None:
        with _disk_errors(needed):
            folder = tempfile.gettempdir()
            free = shutil.disk_usage(folder).free
            if needed is not None and needed > free:
                raise _full(folder, needed, free)
            # Not removed when it is closed: other processes map it by its name.
            self._file = tempfile.NamedTemporaryFile(prefix="apolar-", suffix=".numbers", delete=False)  # noqa: SIM115
            self._remove = _remover(self, self._file.name)
        self._write(self._file, self._buffer[: self._n_rows])
        self._buffer = np.empty((0, self._n_columns))

    def _write(self, file: IO[bytes], block: Array) -> None:
        with _disk_errors(self._n_rows * self._row_bytes + block.nbytes):
            file.write(np.ascontiguousarray(block, dtype=np.float64).data)


@contextmanager
def spooled(read: Callable[[int], bytes]) -> Iterator[IO[bytes]]:
    """Copy a stream to a temporary file without a name, so that it can be read from any place."""
    with tempfile.TemporaryFile() as file:
        n_bytes = 0
        while piece := read(_COPIED_BYTES):
            n_bytes += len(piece)
            with _disk_errors(n_bytes):
                file.write(piece)
        with _disk_errors(n_bytes):
            file.flush()
        file.seek(0)
        yield file


def _remover(owner: object, path: str) -> weakref.finalize[..., Any]:
    """Return what removes a file: when called, when its owner goes, or when the program ends."""
    return weakref.finalize(owner, _unlink, path, os.getpid())


def _unlink(path: str, process: int) -> None:
    # A copy of the process must not remove what the first still uses.
    if os.getpid() == process:
        with suppress(OSError):
            os.unlink(path)


@contextmanager
def _disk_errors(needed: int | None) -> Iterator[None]:
    """Turn errors of the system on the temporary folder into what the user can do."""
    try:
        yield
    except OSError as error:
        try:
            folder = tempfile.gettempdir()
        except OSError:
            folder = "for temporary files"
        raise _full(folder, needed, None, error.strerror or str(error)) from error


def _full(folder: str, needed: int | None, free: int | None, reason: str | None = None) -> TableError:
    space = "more space" if needed is None else f"{'about' if free else 'at least'} {size_text(needed)}"
    why = f"there are {size_text(free)}" if free is not None else f"it cannot be written ({reason})"
    return TableError(
        f"The table is too large for memory and needs {space} in the folder {folder}, and {why}. "
        "Free some space, or set TMPDIR to a folder with more."
    )
