"""Read a table of numbers from files of any format, into memory or into a temporary file."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import IO, Any

import numpy as np
import polars as pl

from apolar._core.arrays import Array, frozen
from apolar._core.checks import check_integer
from apolar.cli.tables.columns import ALL, ColumnChoice, choose_columns, find_columns, match_columns
from apolar.cli.tables.content import (
    Content,
    NumberParser,
    ReadOptions,
    TableError,
    count_noun,
    join_list,
    quote,
    size_text,
)
from apolar.cli.tables.findings import (
    find_no_measurements,
    notes_on_findings,
    notes_on_skipped,
    refuse_if_none_left,
)
from apolar.cli.tables.formats import FRAME_SIZE, Source, expand_folders, open_table, source_name
from apolar.cli.tables.text import check_encoding, not_a_number


@dataclass(frozen=True, eq=False)
class TableFile:
    """A table of numbers that was read from files.

    It may be used in a `with` statement; at its end, `close` is called.

    Attributes
    ----------
    X : ndarray, shape (n_rows, n_columns)
        Float64 numbers, NaN where one is missing, read-only: in memory, or a memory map of a
        temporary file (or of the user's .npy file) if they are many.
    names : tuple of str
        The names of the columns of X.
    source : str
        The path of the file, or "standard input"; of several, all of them.
    labels : ndarray of object, shape (n_rows,), or None
        The label column as strings; None if there is none.
    n_dropped : int
        Rows that were dropped because a number was missing.
    row_numbers : ndarray of int64, shape (n_rows,), or None
        The numbers of the kept rows, from zero, counted over all files; None
        if no row was dropped.
    skipped : tuple of str
        Columns that were left out because they are empty, hold other things
        than numbers, or only number the rows; empty if columns were chosen.
    n_missing : ndarray of int, shape (n_columns,), or None
        How many numbers of each column are missing in X; None if none is.
    notes : tuple of str
        What was noticed about the columns and what was done, a sentence each, with the option that undoes it.
    files : tuple of str
        The files in their order.
    first_rows : tuple of int
        The number of the first row of each file, as `row_numbers` counts.
    """

    X: Array
    names: tuple[str, ...]
    source: str
    labels: Array | None = None
    n_dropped: int = 0
    row_numbers: Array | None = None
    skipped: tuple[str, ...] = ()
    n_missing: Array | None = None
    notes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    first_rows: tuple[int, ...] = (0,)
    _remove: Callable[[], Any] | None = field(default=None, repr=False)

    @property
    def missing_line(self) -> str:
        """How many values are missing, in one line; empty if none is."""
        if self.n_missing is None:
            return ""
        pairs = zip(self.names, self.n_missing.tolist(), strict=True)
        holed = [f"{quote(name)} ({n:,})" for name, n in pairs if n]
        total = int(self.n_missing.sum())
        return (
            f"{total:,} of {self.X.size:,} values {'is' if total == 1 else 'are'} missing (column"
            f"{'' if len(holed) == 1 else 's'} {join_list(holed)}); incomplete rows are kept."
        )

    @property
    def file_of_rows(self) -> Array:
        """The file that each row is from, as its position in `files`: int, shape (n_rows,)."""
        numbers = np.arange(len(self.X)) if self.row_numbers is None else self.row_numbers
        return np.searchsorted(np.array(self.first_rows), numbers, side="right") - 1

    def close(self) -> None:
        """Remove the temporary file behind X, if there is one.

        X is then an empty table. The space on the disk is given back when no
        array made from X is in use any more.
        """
        if isinstance(self.X, np.memmap):
            object.__setattr__(self, "X", np.empty((0, len(self.names))))
        if self._remove is not None:
            self._remove()

    def __enter__(self) -> TableFile:
        """Return the table itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the table."""
        self.close()


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
) -> TableFile:
    r"""Read a table of numbers from a file, or from several with the same columns.

    The format follows from the name (.csv, .tsv, .tab, .txt, also with .gz or
    .zst; .parquet, .pq; .feather, .arrow; .npy; .xlsx, .xls, .ods), for other
    names and for streams from the first bytes. All tables of a folder are read,
    in the order of their names.

    Text is UTF-8, or UTF-16 and UTF-32 with their marks. The delimiter is
    recognised: a comma, semicolon, tab, vertical bar or white space. Lines at
    the top that begin with # are skipped, and so are blank lines. With
    semicolons, numbers may have decimal commas, as in "1,5;2,3"; a file has one
    decimal sign. The first row is a header if some
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
        are noted only. By default columns are not examined.
    encoding : str, optional
        The encoding of text.
    na_values : sequence of str, optional
        Further strings, or numbers, that stand for a missing value.
    sheet : str, optional
        The sheet of a workbook; by default the first that is not empty.
    format : {"text", "parquet", "feather", "npy", "xlsx"}, optional
        By default it follows from the file.
    in_memory_bytes : int, optional
        A table that is larger is kept in a temporary file, removed by
        `close` or when the program ends; X is then a memory map.

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
    sources = expand_folders(source)
    keep = [keep] if isinstance(keep, str | int) else list(keep)
    rows = _Rows(drop_missing, keep_missing, na_values, in_memory_bytes)
    with open_table(sources[0], format, options) as content, rows.store:
        choice = choose_columns(content, columns, label_column, keep)
        names = tuple(content.columns[position].name for position in choice.columns)
        if len(sources) == 1 and not na_values and _is_usable(content, choice, in_memory_bytes):
            assert content.mapped is not None
            table = TableFile(content.mapped, names, content.name, files=(content.name,))
        else:
            rows.read(content, choice, names)
            for other in sources[1:]:
                with open_table(other, format, options) as following:
                    chosen = match_columns(content, choice, following, must_agree=columns is None)
                    rows.read(following, chosen, names)
            shown = join_list([source_name(each) for each in sources], shown=3)
            table = rows.finish(shown, min_rows)
    skipped = [content.columns[position] for position in choice.skipped]
    names_of_skipped = tuple(column.name for column in skipped)
    table = replace(table, skipped=names_of_skipped, notes=notes_on_skipped(skipped))
    if not leave_out:
        return table
    kept = {content.columns[i].name for i in find_columns(content, [name for name in keep if name != ALL])}
    option = "--keep" if columns is None else "--columns"
    keeps_all = ALL in keep or columns is not None
    findings = find_no_measurements(table.X, table.names)
    notes, dropped = notes_on_findings(findings, leave_out, None if keeps_all else kept, option)
    table = replace(table, notes=(*table.notes, *notes))
    refuse_if_none_left(table.source, names, dropped)
    return _without(table, {finding.column for finding in dropped}, in_memory_bytes) if dropped else table


def read_options(
    encoding: str | None = None, na_values: Sequence[str] = (), sheet: str | None = None
) -> ReadOptions:
    """Return how files are read, by the parameters of `read_table`."""
    return ReadOptions(None if encoding is None else check_encoding(encoding), frozenset(na_values), sheet)


def _is_usable(content: Content, choice: ColumnChoice, in_memory_bytes: int) -> bool:
    """Return whether a mapped file is large, complete, and all that is asked for."""
    table = content.mapped
    if table is None or table.nbytes <= in_memory_bytes or len(table) < 2:
        return False
    if choice.label is not None or choice.columns != tuple(range(table.shape[1])):
        return False
    size = max(1, FRAME_SIZE // table.shape[1])
    return all(bool(np.isfinite(table[start : start + size]).all()) for start in range(0, len(table), size))


class _Rows:
    """The rows of one table, collected from the frames of its files."""

    def __init__(self, drop: bool, keep: bool, na_values: Sequence[str], in_memory_bytes: int) -> None:
        self.drops, self.keeps = drop, keep and not drop
        missing = NumberParser()(pl.Series(na_values, dtype=pl.String))[0]
        self.missing_numbers = missing[~np.isnan(missing)]
        self.store = RowStore(in_memory_bytes)
        self.n_rows, self.n_incomplete = 0, 0
        self.n_missing: Any = 0
        self.kept: list[Array] = []
        self.labels: list[Array] = []
        self.files: tuple[str, ...] = ()
        self.first_rows: tuple[int, ...] = ()
        self.incomplete: list[tuple[str, str, int]] = []

    def read(self, content: Content, choice: ColumnChoice, names: tuple[str, ...]) -> None:
        """Read all rows of a file."""
        self.names = names
        self.files = (*self.files, content.name)
        self.first_rows = (*self.first_rows, self.n_rows)
        positions = [*choice.columns, *([] if choice.label is None else [choice.label])]
        for frame, places in content.frames(positions):
            values = self._values(content, frame, places)
            absent = np.isnan(values)
            is_complete = ~absent.any(axis=1)
            self.n_missing = self.n_missing + np.count_nonzero(absent, axis=0)
            self.n_incomplete += len(values) - int(np.count_nonzero(is_complete))
            for row in np.flatnonzero(~is_complete)[: 5 - len(self.incomplete)]:
                self.incomplete.append((content.name, content.unit, places[row]))
            kept = slice(None) if self.keeps else is_complete
            if self.keeps or self.drops or not self.n_incomplete:
                self.store.append(values[kept])
            if not self.keeps:
                self.kept.append(self.n_rows + np.flatnonzero(is_complete))
            if choice.label is not None:
                strings = frame.to_series(len(names)).cast(pl.String).str.strip_suffix(".0").str.strip_chars()
                self.labels.append(strings.fill_null("").to_numpy()[kept])
            self.n_rows += len(values)

    def _values(self, content: Content, frame: pl.DataFrame, places: Sequence[int]) -> Array:
        """Return the numbers of a frame, NaN where one is missing; refuse cells that are not numbers."""
        values = np.empty((len(frame), len(self.names)))
        wrong = []
        for i, cells in enumerate(frame.get_columns()[: len(self.names)]):
            values[:, i], is_wrong = content.parse(cells)
            if is_wrong.any():
                wrong.append((int(is_wrong.argmax()), i))
        if wrong:
            row, i = min(wrong)
            where = content.name, content.unit, places[row], self.names[i]
            raise TableError(not_a_number(*where, frame[row, i], content.parse.decimal))
        if len(self.missing_numbers):
            values[np.isin(values, self.missing_numbers)] = np.nan
        with np.errstate(over="ignore", invalid="ignore"):
            infinite = np.isinf(values) if not np.isfinite(values.sum()) else np.zeros(0)
        if infinite.any():
            row, i = np.argwhere(infinite)[0]
            raise TableError(
                f"{content.name}, {content.unit} {places[row]:,}, column {quote(self.names[i])}: the number "
                "is infinite or too large. Correct it, or leave the cell empty and use --drop-missing."
            )
        return values

    def finish(self, source: str, min_rows: int) -> TableFile:
        """Return the table; refuse one with too few rows, or with missing numbers that are not allowed."""
        if self.n_rows == 0:
            raise TableError(f"{source} has no rows: at least two are needed.")
        if self.n_incomplete and not (self.drops or self.keeps):
            raise TableError(self._missing_message(source))
        if self.n_rows == 1 < min_rows:
            raise TableError(f"{source} has only one row of numbers: at least two are needed.")
        left = self.n_rows - (0 if self.keeps else self.n_incomplete)
        if left < min_rows:
            most = self.names[int(np.argmax(self.n_missing))]
            raise TableError(
                f"{source}: {'no row is' if left == 0 else 'only one row is'} left without missing values; "
                f"column {quote(most)} has the most of them. Exclude such columns with --columns."
            )
        X, remove = self.store.finish()
        is_dropped = self.drops and self.n_incomplete > 0
        return TableFile(
            X,
            self.names,
            source,
            np.concatenate(self.labels) if self.labels else None,
            self.n_incomplete if is_dropped else 0,
            frozen(np.concatenate(self.kept)) if is_dropped else None,
            n_missing=self.n_missing if self.keeps and self.n_incomplete else None,
            files=self.files,
            first_rows=self.first_rows,
            _remove=remove,
        )

    def _missing_message(self, source: str) -> str:
        holed = [quote(name) for name, n in zip(self.names, self.n_missing.tolist(), strict=True) if n]
        several = self.n_incomplete > 1
        if all(file == source for file, _, _ in self.incomplete):
            unit = f"{self.incomplete[0][1]}{'s' if several else ''} "
            places = [f"{place:,}" for _, _, place in self.incomplete]
        else:
            unit, places = "", [f"{unit} {place:,} of {file}" for file, unit, place in self.incomplete]
        return (
            f"{source}: {count_noun(self.n_incomplete, 'row')} {'have' if several else 'has'} missing values,"
            f" in column{'s' if len(holed) > 1 else ''} {join_list(holed)}; "
            f"{'the first are on' if self.n_incomplete > len(places) else 'see'} {unit}{join_list(places)}. "
            "Fill them in, or leave those rows out with --drop-missing."
        )


def _without(table: TableFile, dropped: Collection[int], in_memory_bytes: int) -> TableFile:
    """Return a table without some columns, in memory or in a new temporary file."""
    kept = [j for j in range(len(table.names)) if j not in dropped]
    size = max(1, FRAME_SIZE // table.X.shape[1])
    with RowStore(in_memory_bytes) as store:
        for start in range(0, len(table.X), size):
            store.append(table.X[start : start + size][:, kept])
        X, remove = store.finish()
    table.close()
    n_missing = None if table.n_missing is None else table.n_missing[kept]
    return replace(
        table,
        X=X,
        names=tuple(table.names[j] for j in kept),
        n_missing=n_missing if n_missing is not None and n_missing.any() else None,
        _remove=remove,
    )


# --- where rows are kept ----------------------------------------------------------------------


class RowStore:
    """A growing table of float64 rows, in memory or in a temporary file once it is larger than a limit.

    Used in a `with` statement, at whose end the file is removed unless `finish` gave it away.

    Parameters
    ----------
    in_memory_bytes : int
    """

    def __init__(self, in_memory_bytes: int) -> None:
        self._limit = in_memory_bytes
        self._blocks: list[Array] = []
        self._shape = (0, 0)
        self._file: IO[bytes] | None = None
        self._remove: weakref.finalize[..., Any] | None = None

    def __enter__(self) -> RowStore:
        return self

    def __exit__(self, *_: object) -> None:
        self._blocks = []
        if self._file is not None:
            with suppress(OSError):  # a full disk refuses what is left in the buffer of the file
                self._file.close()
        if self._remove is not None:
            self._remove()

    def append(self, block: Array) -> None:
        """Add rows."""
        self._blocks.append(block)
        self._shape = (self._shape[0] + len(block), block.shape[1])
        n_bytes = 8 * self._shape[0] * self._shape[1]
        if n_bytes > self._limit:
            with _disk_errors(n_bytes):
                if self._file is None:
                    # Not removed when it is closed: other processes map it by its name.
                    self._file = tempfile.NamedTemporaryFile(prefix="apolar-", delete=False)  # noqa: SIM115
                    self._remove = _remover(self, self._file.name)
                for waiting in self._blocks:
                    self._file.write(np.ascontiguousarray(waiting).data)
            self._blocks = []

    def finish(self) -> tuple[Array, Callable[[], Any] | None]:
        """Return the table, read-only, and what removes the file behind it, or None."""
        if self._file is None or self._remove is None:
            table, start = np.empty(self._shape), 0
            while self._blocks:  # each is freed once it is copied
                block = self._blocks.pop(0)
                table[start : start + len(block)] = block
                start += len(block)
            return frozen(table), None
        with _disk_errors(8 * self._shape[0] * self._shape[1]):
            self._file.close()
        table = np.memmap(self._file.name, dtype=np.float64, mode="r", shape=self._shape)
        # From here on the file lives as long as the table, or until the program ends.
        self._remove.detach()
        self._remove = None
        return table, _remover(table, self._file.name)


def _remover(owner: object, path: str) -> weakref.finalize[..., Any]:
    """Return what removes a file: when called, when its owner goes, or when the program ends."""
    return weakref.finalize(owner, _unlink, path, os.getpid())


def _unlink(path: str, process: int) -> None:
    # A copy of the process must not remove what the first still uses.
    if os.getpid() == process:
        with suppress(OSError):
            os.unlink(path)


@contextmanager
def _disk_errors(needed: int) -> Iterator[None]:
    """Turn errors of the system on the temporary folder into what the user can do."""
    try:
        yield
    except OSError as error:
        raise TableError(
            f"The table is too large for memory, and a temporary file of {size_text(needed)} or more cannot "
            f"be written ({error.strerror or error}). Free some space, or set TMPDIR to a folder with more."
        ) from error
