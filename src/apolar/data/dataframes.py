"""Tables with named columns: of pandas, polars and pyarrow, and data sets of files that pyarrow reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.data.checks import objects_to_float64
from apolar.data.rows import Rows

# The number of rows that are decoded at a time from a data set of files.
BATCH_ROWS = 2**16


class FrameValues:
    """The rows of a dataframe, which become an array of numbers as they are selected.

    Parameters
    ----------
    frame : narwhals.DataFrame
    labels : list
        Of the columns, as the user knows them.
    """

    ndim = 2

    def __init__(self, frame: Any, labels: list[Any]) -> None:
        self.frame, self.labels, self.shape = frame, labels, tuple(frame.shape)
        is_named = all(isinstance(label, str) for label in labels)
        self.names: tuple[str, ...] | None = tuple(labels) if is_named else None

    @staticmethod
    def recognises(X: Any) -> bool:
        """Return whether X is a dataframe; raise TypeError for a lazy one."""
        kind = type(X).__name__
        if kind == "LazyFrame":
            raise TypeError("X is a lazy table: call .collect() on it first.")
        if not (hasattr(X, "columns") or hasattr(X, "__dataframe__")):
            return False
        import narwhals

        return kind == "RecordBatch" or narwhals.dependencies.is_into_dataframe(X)

    @classmethod
    def of(cls, X: Any) -> FrameValues:
        """Return the rows of a dataframe."""
        import narwhals

        if type(X).__name__ == "RecordBatch":
            import pyarrow

            X = pyarrow.Table.from_batches([X])
        labels = list(X.column_names if hasattr(X, "column_names") else X.columns)
        if len(set(labels)) < len(labels):
            numbers = [f"{i}" for i in range(len(labels))]
            X = X.rename_columns(numbers) if hasattr(X, "rename_columns") else X.set_axis(numbers, axis=1)
        return cls(narwhals.from_native(X, eager_only=True), labels)

    def __getitem__(self, key: Any) -> Array:
        """Return rows at some positions, given as indices or a slice, or as a pair with all columns."""
        rows = self.frame[key[0] if isinstance(key, tuple) else key]
        columns = []
        for label, column in zip(self.labels, rows.iter_columns(), strict=True):
            try:
                columns.append(_numbers(column))
            except (TypeError, ValueError) as error:
                native = column.to_native()
                dtype = getattr(native, "dtype", column.dtype)
                message = f"Column {label!r} holds {dtype}, not numbers: drop it or encode it first."
                raise TypeError(message) from error
        return np.column_stack(columns)


def _numbers(column: Any) -> Array:
    """Return a column as numbers, NaN where a value is missing."""
    import narwhals

    if column.dtype == narwhals.Boolean and column.null_count():
        column = column.cast(narwhals.Float64)
    values = np.asarray(column.to_numpy())
    return values if values.dtype.kind in "buifc" else objects_to_float64(values)


class DatasetRows(Rows):
    """The rows of a data set of files that pyarrow reads.

    Parameters
    ----------
    dataset : pyarrow Dataset or ParquetFile

    Attributes
    ----------
    weights : array, shape (n_rows,), or None
    """

    names: tuple[str, ...]

    def __init__(self, dataset: Any) -> None:
        self.dataset, self.weights = dataset, None
        self.names = _numeric_columns(dataset)
        is_file = hasattr(dataset, "metadata")
        self._n_rows = int(dataset.metadata.num_rows if is_file else dataset.count_rows())

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return len(self.names)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self._n_rows

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield chunks of at most `size` rows, read from the files, and their weights or None."""
        if hasattr(self.dataset, "iter_batches"):
            batches = self.dataset.iter_batches(batch_size=BATCH_ROWS)
        else:
            # By default pyarrow reads many batches and files ahead, which takes memory.
            ahead = {"batch_readahead": 2, "fragment_readahead": 1}
            batches = self.dataset.to_batches(batch_size=BATCH_ROWS, **ahead)
        n_read = 0
        for batch in batches:
            values = FrameValues.of(batch)
            for start in range(0, batch.num_rows, size):
                block = values[start : start + size]
                weights = None if self.weights is None else self.weights[n_read : n_read + len(block)]
                n_read += len(block)
                yield block, weights


def is_dataset(X: Any) -> bool:
    """Return whether X is a Dataset or a ParquetFile of pyarrow."""
    if not type(X).__module__.startswith("pyarrow."):
        return False
    return type(X).__name__ == "ParquetFile" or (hasattr(X, "count_rows") and hasattr(X, "schema"))


def _numeric_columns(dataset: Any) -> tuple[str, ...]:
    """Return the names of the columns of a data set; raise TypeError if one is not numeric."""
    from pyarrow import types

    schema = dataset.schema_arrow if hasattr(dataset, "schema_arrow") else dataset.schema
    for field in schema:
        kind = field.type
        tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
        if not any(test(kind) for test in tests):
            raise TypeError(
                f"Column {field.name!r} of the data set holds {kind}, not numbers: pass chunks without it, "
                "an object whose __iter__ yields dataset.to_batches(columns=[...])."
            )
    if not schema.names:
        raise ValueError("The data set has no columns.")
    return tuple(schema.names)
