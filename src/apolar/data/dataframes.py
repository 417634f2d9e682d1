"""Tables with named columns: of pandas, polars and pyarrow, and data sets of files that pyarrow reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from apolar._core.arrays import Array
from apolar.data.chunks import objects_to_float64
from apolar.data.rows import Rows


def is_dataframe(X: Any) -> bool:
    """Return whether X is a dataframe; raise TypeError for a lazy one."""
    kind = type(X).__name__
    if kind == "LazyFrame":
        raise TypeError("X is a lazy table: call .collect() on it first.")
    if not (hasattr(X, "columns") or hasattr(X, "__dataframe__")):
        return False
    import narwhals

    return kind == "RecordBatch" or narwhals.dependencies.is_into_dataframe(X)


def column_labels(X: Any) -> list[Any]:
    """Return the labels of the columns of a dataframe, which are strings or not."""
    return list(X.column_names if hasattr(X, "column_names") else X.columns)


def read_dataframe(X: Any, positions: Sequence[int] | None = None) -> tuple[Array, tuple[str, ...] | None]:
    """Return the values of a dataframe, NaN where they are missing, and the names of its columns.

    The names are None unless they are all strings. `positions` are the columns that are read; all by default.
    """
    import narwhals

    if type(X).__name__ == "RecordBatch":
        import pyarrow

        X = pyarrow.Table.from_batches([X])
    labels = column_labels(X)
    if len(set(labels)) < len(labels):
        # Columns are told apart by their numbers.
        numbers = [f"{i}" for i in range(len(labels))]
        X = X.rename_columns(numbers) if hasattr(X, "rename_columns") else X.set_axis(numbers, axis=1)
    frame = narwhals.from_native(X, eager_only=True)
    columns = []
    for position in range(len(labels)) if positions is None else positions:
        label, column = labels[position], frame[:, position]
        try:
            columns.append(_numbers(column))
        except (TypeError, ValueError) as error:
            dtype = getattr(column.to_native(), "dtype", column.dtype)
            message = f"Column {label!r} holds {dtype}, not numbers: drop it or encode it first."
            raise TypeError(message) from error
    names = tuple(labels) if all(isinstance(label, str) for label in labels) else None
    return np.column_stack(columns) if columns else np.empty(frame.shape), names


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
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.names = tuple(getattr(dataset, "schema_arrow", dataset.schema).names)
        if not self.names:
            raise ValueError("The data set has no columns.")
        self.n_features = len(self.names)
        is_file = hasattr(dataset, "metadata")
        self._n_rows = int(dataset.metadata.num_rows if is_file else dataset.count_rows())

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self._n_rows

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield chunks of at most `size` rows, read from the files."""
        if hasattr(self.dataset, "iter_batches"):
            batches = self.dataset.iter_batches(batch_size=size)
        else:
            # By default pyarrow reads many batches and files ahead, which takes memory.
            batches = self.dataset.to_batches(batch_size=size, batch_readahead=2, fragment_readahead=1)
        for batch in batches:
            yield read_dataframe(batch)[0], None


def is_dataset(X: Any) -> bool:
    """Return whether X is a Dataset or a ParquetFile of pyarrow."""
    if not type(X).__module__.startswith("pyarrow."):
        return False
    return type(X).__name__ == "ParquetFile" or (hasattr(X, "count_rows") and hasattr(X, "schema"))
