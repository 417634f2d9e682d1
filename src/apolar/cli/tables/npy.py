"""Tables in NumPy's own files; nothing in them can run."""

import math
import os
import warnings
from collections.abc import Iterator
from typing import IO

import numpy as np

from apolar._core.arrays import Array
from apolar.cli.tables.table import Column, ColumnChoice, RowBatch, TableContent, TableError, TableInput

# Numbers in a batch.
_BATCH_SIZE = 2**18

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def open_npy(file: TableInput) -> TableContent:
    """Return the content of a .npy file: a table, or one column, of real numbers."""
    table = _mapped(file.name, file.file)
    n_bytes = os.fstat(file.file.fileno()).st_size

    def batches(choice: ColumnChoice) -> Iterator[RowBatch]:
        n_rows = len(table)
        size = max(1, _BATCH_SIZE // table.shape[1])
        for start in range(0, n_rows, size):
            rows = table[start : start + size]
            values = rows[:, choice.columns].astype(np.float64)
            labels = (
                None if choice.label is None else [_label(value) for value in rows[:, choice.label].tolist()]
            )
            stop = start + len(rows)
            yield RowBatch(values, labels, range(start + 1, stop + 1), n_bytes * stop // n_rows)

    columns = tuple(Column(f"x{i + 1}", True) for i in range(table.shape[1]))
    # Other processes map it by its name, which a copy of a stream does not have.
    is_plain = table.dtype == np.float64 and table.flags.c_contiguous and isinstance(file.file.name, str)
    return TableContent(columns, "row", batches, table if is_plain else None)


def _mapped(source: str, file: IO[bytes]) -> Array:
    """Return the table of a file as a memory map, after checking all that its header claims."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers written by Python 2, which are read all the same
            shape, is_fortran, dtype = _HEADERS[np.lib.format.read_magic(file)](file)
    except Exception as error:  # damaged bytes make NumPy's parser raise almost anything
        reason = "unknown version" if isinstance(error, KeyError) else (str(error).splitlines() or [""])[0]
        raise TableError(
            f"{source} is not a sound .npy file: {reason.rstrip('.')[:100] or 'its header is damaged'}. "
            "Save it again with numpy.save."
        ) from error
    if dtype.kind not in "iuf":
        raise TableError(
            f"{source} holds {'Python objects' if dtype.hasobject else dtype}, not real numbers. "
            "Save it again as an array of float64."
        )
    if len(shape) not in (1, 2) or min(shape) < 0 or (len(shape) == 2 and shape[1] == 0):
        raise TableError(
            f"{source} holds an array of shape {shape}, not a table of rows and columns. "
            "Save it again with two dimensions."
        )
    needed = math.prod(shape) * dtype.itemsize
    present = os.fstat(file.fileno()).st_size - file.tell()
    if present < needed:
        raise TableError(
            f"{source} is cut short: it has {present:,} of {needed:,} bytes of numbers. "
            "Make the file again, or take a copy."
        )
    if needed == 0:
        raise TableError(f"{source} has no rows: at least two are needed.")
    order = "F" if is_fortran else "C"
    array = np.memmap(file, dtype=dtype, mode="r", offset=file.tell(), shape=shape, order=order)  # type: ignore[call-overload]
    return array.reshape(-1, 1) if array.ndim == 1 else array


def _label(value: float) -> str:
    """Return a number as a label: 3.0 is "3"."""
    return str(int(value)) if math.isfinite(value) and value == int(value) else str(value)
