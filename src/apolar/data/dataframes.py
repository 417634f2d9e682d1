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


def as_frame(X: Any) -> Any:
    """Return a dataframe: of pandas as it is, of polars or pyarrow wrapped by narwhals; None if X is none."""
    kind = type(X).__name__
    if kind == "LazyFrame":
        raise TypeError("X is a lazy table: call .collect() on it first.")
    if kind == "RecordBatch":
        import pyarrow

        X = pyarrow.Table.from_batches([X])
    if not hasattr(X, "columns") and not hasattr(X, "__dataframe__"):
        return None
    if hasattr(X, "iloc"):
        return X
    if hasattr(X, "rename_columns") and len(set(X.column_names)) < len(X.column_names):
        X = X.rename_columns([f"{i}: {name}" for i, name in enumerate(X.column_names)])
    import narwhals

    try:
        frame = narwhals.from_native(X, eager_only=True)
    except TypeError:
        return None
    return frame if hasattr(frame, "columns") else None


def frame_values(frame: Any, part: Any) -> Array:
    """Return the rows of a dataframe at some positions, given as indices or a slice, as an array."""
    columns = []
    # Columns are selected by position: their names may be integers, or not unique.
    for i in range(frame.shape[1]):
        is_pandas = hasattr(frame, "iloc")
        column = frame.iloc[part, i] if is_pandas else frame[part, i]
        name = frame.columns[i]
        has_missing = bool((column.isna().any()) if is_pandas else column.null_count())
        try:
            values = _with_nan(column, is_pandas) if has_missing else np.asarray(column.to_numpy())
            columns.append(values if values.dtype.kind in "buifc" else objects_to_float64(values))
        except (TypeError, ValueError) as error:
            kind = f"Column {name!r} holds {column.dtype}, not numbers"
            raise TypeError(f"{kind}: drop it or encode it first.") from error
    return np.column_stack(columns)


def _with_nan(column: Any, is_pandas: bool) -> Array:
    """Return a column of numbers with NaN in place of what is missing."""
    if is_pandas:
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    if not column.dtype.is_numeric():
        raise TypeError("not numbers")
    return np.asarray(column.cast(narwhals_float()).to_numpy(), np.float64)


def narwhals_float() -> Any:
    """Return the dtype of double precision of narwhals."""
    import narwhals

    return narwhals.Float64


class DataframeRows(Rows):
    """The rows of a dataframe in memory.

    Parameters
    ----------
    frame : dataframe
        As `as_frame` returns it.
    weights : array, shape (n_rows,), or None
    """

    can_take = True
    in_memory = True

    def __init__(self, frame: Any, weights: Any = None) -> None:
        self.frame, self.weights = frame, weights
        if all(isinstance(name, str) for name in frame.columns):
            self.names = tuple(frame.columns)

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return int(self.frame.shape[1])

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.frame.shape[0])

    def read(self, size: int) -> Iterator[tuple[Any, Any]]:
        """Yield chunks of at most `size` rows, and their weights or None."""
        for start in range(0, self.n_rows, size):
            yield self.take(slice(start, min(start + size, self.n_rows)))

    def take(self, positions: Any) -> tuple[Any, Any]:
        """Return the rows at some positions, and their weights or None."""
        weights = None if self.weights is None else self.weights[positions]
        return frame_values(self.frame, positions), weights


class DatasetRows(Rows):
    """The rows of a data set of files that pyarrow reads.

    Parameters
    ----------
    dataset : pyarrow Dataset or ParquetFile
    names : tuple of str
        The names of its columns.
    n_rows : int
    weights : array, shape (n_rows,), or None
    """

    names: tuple[str, ...]

    def __init__(self, dataset: Any, names: tuple[str, ...], n_rows: int, weights: Any = None) -> None:
        self.dataset, self.names, self._n_rows, self.weights = dataset, names, n_rows, weights

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
        start = 0
        for values in dataset_batches(self.dataset, size):
            stop = start + len(values)
            yield values, None if self.weights is None else self.weights[start:stop]
            start = stop


def is_dataset(X: Any) -> bool:
    """Return whether X is a Dataset or a ParquetFile of pyarrow."""
    if not type(X).__module__.startswith("pyarrow."):
        return False
    return type(X).__name__ == "ParquetFile" or (hasattr(X, "count_rows") and hasattr(X, "schema"))


def dataset_columns(dataset: Any) -> tuple[str, ...]:
    """Return the names of the columns of a data set; raise TypeError if one is not numeric."""
    import pyarrow

    schema = dataset.schema_arrow if hasattr(dataset, "schema_arrow") else dataset.schema
    for field in schema:
        kind = field.type
        is_number = pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind)
        if not (is_number or pyarrow.types.is_boolean(kind) or pyarrow.types.is_decimal(kind)):
            raise TypeError(
                f"Column {field.name!r} of the data set holds {kind}, not numbers: pass chunks without it, "
                "an object whose __iter__ yields dataset.to_batches(columns=[...])."
            )
    return tuple(schema.names)


def dataset_rows(dataset: Any) -> int:
    """Return the number of rows of a data set."""
    return int(dataset.metadata.num_rows if hasattr(dataset, "metadata") else dataset.count_rows())


def dataset_batches(dataset: Any, size: int) -> Iterator[Array]:
    """Yield the rows of a data set, at most `size` at a time."""
    import pyarrow

    if hasattr(dataset, "iter_batches"):
        batches = dataset.iter_batches(batch_size=BATCH_ROWS)
    else:
        # By default pyarrow reads many batches and files ahead, which takes memory.
        batches = dataset.to_batches(batch_size=BATCH_ROWS, batch_readahead=2, fragment_readahead=1)
    for batch in batches:
        frame = as_frame(pyarrow.Table.from_batches([batch]))
        for start in range(0, batch.num_rows, size):
            yield frame_values(frame, slice(start, min(start + size, batch.num_rows)))
