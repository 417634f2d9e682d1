"""Reading a table of numbers from a file of any format."""

import os
from collections.abc import Sequence
from typing import IO

import numpy as np

from apolar._core.checks import check_integer
from apolar.cli.tables.collect import ReadProgress, collected
from apolar.cli.tables.columns import chosen
from apolar.cli.tables.source import opened
from apolar.cli.tables.table import ColumnChoice, TableContent, TableFile

# Rows of a mapped table that are checked at once, in numbers.
_CHECKED_SIZE = 2**18


def read_table(
    source: str | os.PathLike[str] | IO[bytes],
    *,
    columns: Sequence[str | int] | str | None = None,
    label_column: str | int | None = None,
    drop_missing: bool = False,
    keep_missing: bool = False,
    least_rows: int = 2,
    format: str | None = None,
    in_memory_bytes: int = 2**29,
    progress: ReadProgress | None = None,
) -> TableFile:
    r"""Read a table of numbers from a file.

    The format follows from the name (.csv, .tsv, .tab, .txt, also with .gz;
    .parquet, .pq; .feather, .arrow; .npy), for other names and for streams
    from the first bytes. Parquet and Feather need pyarrow.

    Text is UTF-8. The delimiter is recognised: a comma, semicolon, tab, vertical
    bar or white space. Lines at the top that begin with # are passed over,
    blank lines too. With semicolons, numbers may have decimal commas, as in
    "1,5;2,3"; a file has one decimal sign. The first row is a header if some
    cell of it is not a number although the cells below it are; without one,
    the columns are called x1, x2 and so on. A number is missing where a cell
    is empty or one of NA, N/A, #N/A, NaN, null, None, ?, - and a single
    point, in capital or small letters.

    Columns of text are left out, and a first column without a name that only
    numbers the rows, as pandas and R write it. What a column holds is judged
    by the first 1000 rows: it is a column of numbers if nine cells of ten
    are, and then any other cell in it is an error.

    Parameters
    ----------
    source : str, path or binary file
        A path, "-" for standard input, or a file open as bytes.
    columns : sequence of str or int, optional
        The columns to read, by name, or by number from 1 if no column has
        that name; by default all columns of numbers.
    label_column : str or int, optional
        A column that is kept as strings and not among the numbers.
    drop_missing : bool, optional
        Leave out rows in which a number is missing; by default they are an
        error.
    keep_missing : bool, optional
        Keep rows in which a number is missing, which is then NaN, unless they
        are left out.
    least_rows : int, optional
        A table of fewer rows is an error.
    format : {"text", "parquet", "feather", "npy"}, optional
        By default it follows from the file.
    in_memory_bytes : int, optional
        A table that is larger is kept in a temporary file, removed by
        `close` or when the program ends; X is then a memory map.
    progress : callable, optional
        Called now and then with the number of bytes that have been read, and
        that of all bytes, or None if it is not known.

    Returns
    -------
    table : TableFile

    Raises
    ------
    TableError
        If the file or the request is not as it must be; its message is one
        line that names the place and what to do.

    Examples
    --------
    >>> import io
    >>> from apolar.cli.tables import read_table
    >>> table = read_table(io.BytesIO(b"height;weight;name\n1,80;75;Ann\n1,65;60;Bob\n"), label_column="name")
    >>> table.names
    ('height', 'weight')
    >>> table.X
    array([[ 1.8 , 75.  ],
           [ 1.65, 60.  ]])
    >>> table.labels
    array(['Ann', 'Bob'], dtype=object)
    """
    check_integer(in_memory_bytes, "in_memory_bytes", least=0)
    with opened(source, format) as (table_format, file):
        content = table_format.reader(file)
        choice = chosen(file.name, content.columns, columns, label_column)
        names = tuple(content.columns[position].name for position in choice.columns)
        if _usable_as_it_is(content, choice, in_memory_bytes) and content.mapped is not None:
            if progress is not None and file.n_bytes is not None:
                progress(file.n_bytes, file.n_bytes)
            return TableFile(content.mapped, names, file.name)
        return collected(
            content.batches(choice),
            source=file.name,
            names=names,
            skipped=tuple(content.columns[position].name for position in choice.skipped),
            unit=content.unit,
            drop_missing=drop_missing,
            keep_missing=keep_missing,
            least_rows=least_rows,
            in_memory_bytes=in_memory_bytes,
            progress=progress,
            total_bytes=file.n_bytes,
        )


def _usable_as_it_is(content: TableContent, choice: ColumnChoice, in_memory_bytes: int) -> bool:
    """Return whether a mapped file is large, sound, and all that is asked for."""
    table = content.mapped
    if table is None or table.nbytes <= in_memory_bytes or len(table) < 2:
        return False
    if choice.label is not None or choice.columns != tuple(range(table.shape[1])):
        return False
    size = max(1, _CHECKED_SIZE // table.shape[1])
    return all(bool(np.isfinite(table[start : start + size]).all()) for start in range(0, len(table), size))
