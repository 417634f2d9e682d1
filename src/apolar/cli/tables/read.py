"""Reading a table of numbers from files of any format."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from apolar._core.checks import check_integer
from apolar.cli.tables.collect import ReadProgress, collected
from apolar.cli.tables.columns import ALL, chosen, kept_positions
from apolar.cli.tables.encodings import check_encoding
from apolar.cli.tables.files import FileSequence, Source, expanded
from apolar.cli.tables.lines import is_number
from apolar.cli.tables.notes import examined, skipped_notes
from apolar.cli.tables.source import opened
from apolar.cli.tables.table import ColumnChoice, ReadOptions, RowBatch, TableContent, TableFile

# Rows of a mapped table that are checked at once, in numbers.
_CHECKED_SIZE = 2**18


def read_table(
    source: Source | Sequence[Source],
    *,
    columns: Sequence[str | int] | str | None = None,
    label_column: str | int | None = None,
    drop_missing: bool = False,
    keep_missing: bool = False,
    min_rows: int = 2,
    keep: Sequence[str | int] | str = (),
    leave_out: Collection[str] = (),
    encoding: str | None = None,
    na_values: Sequence[str] = (),
    sheet: str | None = None,
    format: str | None = None,
    in_memory_bytes: int = 2**29,
    progress: ReadProgress | None = None,
) -> TableFile:
    r"""Read a table of numbers from a file, or from several with the same columns.

    The format follows from the name (.csv, .tsv, .tab, .txt, also with .gz;
    .parquet, .pq; .feather, .arrow; .npy; .xlsx), for other names and for
    streams from the first bytes. Parquet and Feather need pyarrow, .xlsx
    openpyxl. Of a folder, all tables are read, in the order of their names.

    Text is UTF-8, or UTF-16 with its mark. The delimiter is recognised: a comma, semicolon, tab, vertical
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
    source : str, path or binary file, or a sequence of them
        A path, "-" for standard input, or a file open as bytes. Several files
        are one table: their columns must have the same names, in any order.
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
    min_rows : int, optional
        A table of fewer rows is an error.
    keep : sequence of str or int, optional
        Columns that are used although they would be left out; "all" for all
        that are numbers.
    leave_out : collection of str, optional
        Kinds of columns, of `apolar.cli.tables.findings.KINDS`, that are left out
        with a note, unless `columns` or `keep` names them; the other kinds
        are noted only. By default columns are not looked at.
    encoding : str, optional
        Of text.
    na_values : sequence of str, optional
        Further strings, or numbers, that stand for a missing value.
    sheet : str, optional
        The sheet of a workbook; by default the first that is not empty.
    format : {"text", "parquet", "feather", "npy", "xlsx"}, optional
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
    options = read_options(encoding, na_values, sheet)
    missing_numbers = [float(value) for value in na_values if is_number(value)]
    sources = expanded(source)
    keep = [keep] if isinstance(keep, str | int) else list(keep)
    with opened(sources[0], format, options) as (table_format, file):
        content = table_format.reader(file)
        choice = chosen(file.name, content.columns, columns, label_column, keep)
        names = tuple(content.columns[position].name for position in choice.columns)
        skipped = [content.columns[position] for position in choice.skipped]
        is_plain = len(sources) == 1 and not missing_numbers
        if is_plain and content.mapped is not None and _usable_as_it_is(content, choice, in_memory_bytes):
            if progress is not None and file.n_bytes is not None:
                progress(file.n_bytes, file.n_bytes)
            table = TableFile(content.mapped, names, file.name, files=(file.name,), first_rows=(0,))
        else:
            files = FileSequence(sources[1:], format, options, columns is None, file, content, choice)
            table = collected(
                _with_missing(files.batches(), missing_numbers),
                source=files.source,
                names=names,
                skipped=tuple(column.name for column in skipped),
                drop_missing=drop_missing,
                keep_missing=keep_missing,
                min_rows=min_rows,
                in_memory_bytes=in_memory_bytes,
                progress=progress,
                total_bytes=files.n_bytes,
            )
            table = replace(table, files=tuple(files.names), first_rows=tuple(files.first_rows))
        table = replace(table, notes=skipped_notes(skipped))
        if not leave_out:
            return table
        positions = () if columns is not None else kept_positions(file.name, content.columns, keep)
        return examined(
            table,
            is_chosen=columns is not None,
            kept=[content.columns[position].name for position in positions],
            keeps_all=ALL in keep,
            leave_out=leave_out,
            in_memory_bytes=in_memory_bytes,
        )


def read_options(
    encoding: str | None = None, na_values: Sequence[str] = (), sheet: str | None = None
) -> ReadOptions:
    """Return how files are read, by the parameters of `read_table`."""
    missing = frozenset(value for value in na_values if not is_number(value))
    return ReadOptions(None if encoding is None else check_encoding(encoding), missing, sheet)


def _with_missing(batches: Iterable[RowBatch], missing: Sequence[float]) -> Iterator[RowBatch]:
    """Yield batches with NaN in place of the numbers that stand for a missing value."""
    for batch in batches:
        if missing:
            batch.values[np.isin(batch.values, missing)] = np.nan
        yield batch


def _usable_as_it_is(content: TableContent, choice: ColumnChoice, in_memory_bytes: int) -> bool:
    """Return whether a mapped file is large, sound, and all that is asked for."""
    table = content.mapped
    if table is None or table.nbytes <= in_memory_bytes or len(table) < 2:
        return False
    if choice.label is not None or choice.columns != tuple(range(table.shape[1])):
        return False
    size = max(1, _CHECKED_SIZE // table.shape[1])
    return all(bool(np.isfinite(table[start : start + size]).all()) for start in range(0, len(table), size))
