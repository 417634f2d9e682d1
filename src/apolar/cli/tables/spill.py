"""Rows that are put one after another: in memory while they are few, then in a temporary file."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

import numpy as np

from apolar._core.arrays import Array, frozen
from apolar.cli.tables.errors import TableError, size_text

_COPIED_BYTES = 2**22


class Store:
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
                # In place, by an eighth: the system moves pages, not numbers, and little is left over.
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
    """Turn what the system says of the temporary folder into what the user can do."""
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
