"""Tables in Parquet and Feather files, if pyarrow is installed."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.cli.tables.table import (
    Column,
    ColumnChoice,
    RowBatch,
    TableContent,
    TableError,
    TableInput,
    quoted,
)

_BATCH_ROWS = 2**16

# The row numbers of pandas, when it stores them beside the table.
_INDEX = re.compile(r"__index_level_\d+__")

Parts = Callable[[Sequence[int]], Iterator[tuple[list[Any], int]]]
"""Takes positions of columns and yields those columns, a batch of rows at a time, and the bytes read."""


def open_parquet(file: TableInput) -> TableContent:
    """Return the content of a Parquet file."""
    _require_pyarrow("Parquet")
    from pyarrow import parquet

    source, n_bytes = file.name, file.n_bytes or 0
    with _damage(source, "Parquet"):
        table = parquet.ParquetFile(file.file, page_checksum_verification=True)
        schema = table.schema_arrow

    def parts(positions: Sequence[int]) -> Iterator[tuple[list[Any], int]]:
        # Columns are read by their names: if some names are there twice, all, and taken by their positions.
        is_unique = len(set(schema.names)) == len(schema.names)
        keys = [schema.names[i] for i in positions] if is_unique else list(positions)
        n_rows = 0
        with _damage(source, "Parquet"):
            for batch in table.iter_batches(_BATCH_ROWS, columns=keys if is_unique else None):
                n_rows += batch.num_rows
                done = n_bytes * n_rows // max(1, table.metadata.num_rows)
                yield [batch.column(key) for key in keys], done

    return _content(source, schema, parts)


def open_feather(file: TableInput) -> TableContent:
    """Return the content of a Feather file: Arrow's own format, as a file or as a stream."""
    _require_pyarrow("Feather")
    from pyarrow import ipc

    source, binary, n_bytes = file.name, file.file, file.n_bytes or 0

    def opened(positions: Sequence[int] | None = None) -> Any:
        options = ipc.IpcReadOptions(included_fields=None if positions is None else list(positions))
        binary.seek(0)
        is_file = binary.read(6) == b"ARROW1"
        binary.seek(0)
        return ipc.open_file(binary, options=options) if is_file else ipc.open_stream(binary, options=options)

    def parts(positions: Sequence[int]) -> Iterator[tuple[list[Any], int]]:
        # They come in the order of the file, not in that of the request.
        order = sorted(positions)
        with _damage(source, "Feather"):
            for stored in _record_batches(opened(order)):
                for start in range(0, stored.num_rows, _BATCH_ROWS):
                    batch = stored.slice(start, _BATCH_ROWS)
                    yield [batch.column(order.index(i)) for i in positions], min(binary.tell(), n_bytes)

    with _damage(source, "Feather"):
        schema = opened().schema
    return _content(source, schema, parts)


def _record_batches(table: Any) -> Iterator[Any]:
    if hasattr(table, "num_record_batches"):
        yield from (table.get_batch(i) for i in range(table.num_record_batches))
    else:
        yield from table


def _content(source: str, schema: Any, parts: Parts) -> TableContent:
    def batches(choice: ColumnChoice) -> Iterator[RowBatch]:
        needed = [*choice.columns, *([] if choice.label is None else [choice.label])]
        first = 1
        for columns, done in parts(needed):
            stop = first + len(columns[0])
            values = np.empty((stop - first, len(choice.columns)))
            for i in range(len(choice.columns)):
                values[:, i] = _numbers(columns[i])
            labels = None if choice.label is None else _strings(columns[-1])
            yield RowBatch(values, labels, range(first, stop), done)
            first = stop

    return TableContent(tuple(_column(source, field) for field in schema), "row", batches)


def _column(source: str, field: Any) -> Column:
    from pyarrow import types

    if types.is_integer(field.type) or types.is_floating(field.type) or types.is_decimal(field.type):
        is_index = _INDEX.fullmatch(field.name) is not None
        note = "numbers the rows" if is_index else ""
        return Column(field.name, not is_index, note, kind="counter")
    is_text = (
        types.is_string(field.type) or types.is_large_string(field.type) or types.is_dictionary(field.type)
    )
    is_date = types.is_temporal(field.type)
    kind = "text" if is_text else "dates" if is_date else str(field.type)
    what = f"column {quoted(field.name)} holds {kind}, not numbers"
    refusal = f"{source}: {what}. Choose other columns with --columns."
    return Column(field.name, False, f"holds {kind}", refusal, kind=kind)


def _numbers(column: Any) -> Array:
    """Return a column as float64; NaN where it is null."""
    from pyarrow import float64, types

    if types.is_decimal(column.type):
        column = column.cast(float64())
    values: Array = column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    return values


def _strings(column: Any) -> list[str]:
    return ["" if value is None else str(value) for value in column.to_pylist()]


def _require_pyarrow(format: str) -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise TableError(f'{format} files need pyarrow: pip install "apolar[tables]".') from error


@contextmanager
def _damage(source: str, format: str) -> Iterator[None]:
    """Turn what pyarrow raises, which is almost anything when bytes are damaged, into one line."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise TableError(
            f"{source} is not a {format} file, or is cut short or damaged: {reason}. "
            "Make the file again, or take a copy."
        ) from error
