"""Tables of numbers from files of any format, in memory or in a temporary file, with errors of one line."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from apolar._core.arrays import Array, frozen
from apolar.cli.console import TableError, count_noun, quote
from apolar.cli.tables.columns import (
    ALL,
    SAMPLE_ROWS,
    ColumnChoice,
    Content,
    cell_place,
    choose_columns,
    find_columns,
    match_columns,
    not_a_number,
    row_slices,
)
from apolar.cli.tables.findings import (
    ColumnFinding,
    find_no_measurements,
    notes_on_codes,
    notes_on_findings,
)
from apolar.cli.tables.formats import FORMATS, Source, expand_folders, open_table, source_name
from apolar.exceptions import join_names

# Columns of text with more different values are names or descriptions of the rows.
MAX_CATEGORIES = 20

__all__ = ["FORMATS", "TableError", "TableFile", "expand_folders", "read_table"]


@dataclass(frozen=True, eq=False)
class TableFile:
    """A table of numbers that was read from files.

    Attributes
    ----------
    X : ndarray, shape (n_rows, n_columns)
        Float64 numbers, NaN where one is missing, read-only: in memory, or a memory map of a
        temporary file (or of the user's .npy file) if they are many. The temporary file goes with the last
        array made from X, or when the program ends.
    names : tuple of str
        The names of the columns of X.
    source : str
        The path of the file, or "standard input"; of several, all of them.
    labels, ids : ndarray of object, shape (n_rows,), or None
        The label column, and that which names the rows, as strings; None if there is none.
    categories : dict
        By name, the strings of columns that are not among the numbers and have few different values.
    n_dropped : int
        Rows that were dropped because a number was missing.
    row_numbers : ndarray of int64, shape (n_rows,)
        The numbers of the rows, from zero, counted over all files with those that were dropped.
    n_missing : ndarray of int, shape (n_columns,)
        How many numbers of each column are missing in X.
    notes : tuple of str
        What was noticed about the columns and what was done, a sentence each, with the option that undoes it.
    files : tuple of str
        The files in their order.
    file_of_rows : ndarray of int, shape (n_rows,)
        The file that each row is from, as its position in `files`.
    """

    X: Array
    names: tuple[str, ...]
    source: str
    labels: Array | None
    ids: Array | None
    categories: dict[str, Array]
    n_dropped: int
    row_numbers: Array
    n_missing: Array
    notes: tuple[str, ...]
    files: tuple[str, ...]
    file_of_rows: Array

    @property
    def missing_line(self) -> str:
        """How many values are missing, in one line; empty if none is."""
        pairs = zip(self.names, self.n_missing.tolist(), strict=True)
        holed = [f"{quote(name)} ({n:,})" for name, n in pairs if n]
        if not holed:
            return ""
        total = int(self.n_missing.sum())
        return (
            f"{total:,} of {self.X.size:,} values {'is' if total == 1 else 'are'} missing (column"
            f"{'' if len(holed) == 1 else 's'} {join_names(holed)}); incomplete rows are kept."
        )


def read_table(
    source: Source | Sequence[Source],
    *,
    columns: Sequence[str | int] | str | None = None,
    label_column: str | int | None = None,
    id_column: str | int | None = None,
    drop_missing: bool = False,
    keep_missing: bool = False,
    min_rows: int = 2,
    keep: Sequence[str | int] | str = (),
    leave_out: Collection[str] = (),
    in_memory_bytes: int = 2**29,
    **reading: Any,
) -> TableFile:
    """Read a table of numbers from a file, or from several with the same columns.

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
    source : str or path, or a sequence of them
        A path, or "-" for standard input. Several files are one table: their
        columns must have the same names, in any order.
    columns : sequence of str or int, optional
        The columns to read, by name, or by number from 1 if no column has
        that name; by default all columns of numbers.
    label_column : str or int, optional
        A column that is kept as strings and not among the numbers.
    id_column : str or int, optional
        A column that names the rows, which is kept in the same way.
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
    in_memory_bytes : int, optional
        A table that is larger is kept in a temporary file; X is then a memory map.
    **reading
        What the file looks like: `encoding`, `na_values`, `sheet`, `header`, `skip_rows` and `thousands` of
        `TableInput`.

    Returns
    -------
    table : TableFile

    Raises
    ------
    TableError
        If the file or the request is not as it must be; its message is one
        line that names the place and what to do.
    """
    sources = expand_folders(source)
    files = tuple(map(source_name, sources))
    shown = join_names(files, most=3)
    keep = [keep] if isinstance(keep, str | int) else list(keep)
    with open_table(sources[0], **reading) as first:
        choice = choose_columns(first, columns, label_column, keep, id_column)
        names = tuple(first.columns[position].name for position in choice.columns)
        rows = _Rows(names, drop_missing, list(choice.strings))

        def read_blocks() -> Iterator[Array]:
            yield from rows.read(0, first, choice)
            for i, other in enumerate(sources[1:], start=1):
                with open_table(other, **reading) as following:
                    matched = match_columns(first, choice, following, must_agree=columns is None)
                    yield from rows.read(i, following, matched)
            rows.check(shown, min_rows, may_miss=drop_missing or keep_missing)

        is_whole = not choice.strings and choice.columns == tuple(range(len(first.columns)))
        # Other processes map a table by its name, which a copy of a stream loses at the end.
        is_as_it_is = is_whole and len(sources) == 1 and Path(sources[0]).is_file()
        X = first.mapped
        if (
            X is not None
            and X.nbytes > in_memory_bytes
            and is_as_it_is
            and not (drop_missing or reading.get("na_values"))
        ):
            for _ in read_blocks():
                pass  # the file itself is the table, and is only looked through
        else:
            X = _store_rows(read_blocks(), in_memory_bytes)
    others = [first.columns[i] for i in choice.skipped]
    skipped = [ColumnFinding(-1, column.name, column.kind, column.holds) for column in others]
    findings = find_no_measurements(X, names) if leave_out else ()
    known = pl.concat(rows.blocks).with_columns(number=pl.int_range(pl.len()))
    stay = known.filter(pl.col("is_complete") | (not drop_missing))
    keeps_all = ALL in keep or columns is not None
    notes, dropped = notes_on_findings(
        [*skipped, *findings],
        {*leave_out, *(finding.kind for finding in skipped)},
        None if keeps_all else [first.columns[i].name for i in find_columns(first, keep)],
        "--keep" if columns is None else "--columns",
    )
    notes += notes_on_codes(X, names)
    if not first.has_names:
        example = join_names([quote(name) for name in names], most=3)
        notes += (
            f"No column names found: the columns are called {example}. "
            "Use --header if the first row names them.",
        )
    if n_dropped := len(known) - len(stay):
        notes += (f"Dropped {count_noun(n_dropped, 'row')} with missing values.",)
    categories = {key.removeprefix("text "): stay[key].to_numpy() for key in rows.categories(stay)}
    codes = [finding for finding in dropped if finding.kind == "few values"]
    categories |= {
        code.name: np.array([f"{x:.10g}" for x in X[:, code.column]], dtype=object) for code in codes
    }
    left = [j for j in range(len(names)) if j not in {finding.column for finding in dropped}]
    if len(left) < len(names):
        if not left and all(finding.kind == "constant" for finding in findings):
            raise TableError(f"{shown}: all rows are equal, so nothing separates clusters.")
        if not left:
            reasons = join_names([f"{quote(finding.name)} ({finding.problem})" for finding in findings])
            raise TableError(
                f"{shown} has no column left to cluster by: {reasons}. Use --keep all to include them."
            )
        X = _store_rows((X[part][:, left] for part in row_slices(*X.shape)), in_memory_bytes)
    return TableFile(
        X,
        tuple(names[j] for j in left),
        shown,
        stay["label"].to_numpy() if "label" in stay.columns else None,
        stay["id"].to_numpy() if "id" in stay.columns else None,
        categories,
        n_dropped,
        stay["number"].to_numpy(),
        np.where(drop_missing, 0, rows.n_missing)[left],
        notes,
        files,
        stay["file"].to_numpy(),
    )


class _Rows:
    """What is known about the rows of one table, which are read from one file after the other.

    Parameters
    ----------
    names : tuple of str
        The names of the columns.
    drops : bool
        Whether rows in which a number is missing are left out; otherwise they have NaN.
    strings : sequence of str
        What is read as strings: keys of `ColumnChoice.strings`.
    """

    def __init__(self, names: tuple[str, ...], drops: bool, strings: Sequence[str]) -> None:
        self.names, self.drops = names, drops
        self.n_missing = np.zeros(len(names), dtype=np.int64)
        self.many: set[str] = set()
        schema = {"file": pl.Int64, "is_complete": pl.Boolean, **dict.fromkeys(strings, pl.String)}
        self.blocks = [pl.DataFrame(schema=schema)]
        self.first_incomplete = ""

    def read(self, file: int, content: Content, choice: ColumnChoice) -> Iterator[Array]:
        """Yield the rows of a file that stay, some at a time; the file is given by its position."""
        positions = [*choice.columns, *choice.strings.values()]
        for frame, places in content.frames(positions):
            values = self._parse(content, frame[:, : len(self.names)], places)
            is_missing = np.isnan(values)
            is_complete: Array = np.count_nonzero(is_missing, axis=1) == 0
            self.n_missing += np.count_nonzero(is_missing, axis=0)
            texts = (
                frame[:, len(self.names) :]
                .cast(pl.String)
                .with_columns(pl.all().str.strip_suffix(".0").str.strip_chars().fill_null(""))
            )
            texts.columns = [*choice.strings]
            # Nothing is kept of text with many values, which may be long.
            texts_alone = [key for key in texts.columns if key.startswith("text ")]
            self.many |= {key for key in texts_alone if texts[key].n_unique() > MAX_CATEGORIES}
            nothing = {key: pl.lit(None, pl.String) for key in self.many}
            known = pl.DataFrame({"file": np.full(len(values), file), "is_complete": is_complete})
            self.blocks.append(known.hstack(texts.with_columns(**nothing).get_columns()))
            if not is_complete.all() and not self.first_incomplete:
                place = places[int(np.argmin(is_complete))]
                self.first_incomplete = f"{content.unit} {place:,} of {content.name}"
            yield values[is_complete] if self.drops else values

    def categories(self, known: pl.DataFrame) -> list[str]:
        """Return the keys of columns of text with several values, each in some rows."""
        texts = [key for key in known.columns if key.startswith("text ") and key not in self.many]
        return [key for key in texts if 1 < known[key].n_unique() <= MAX_CATEGORIES]

    def _parse(self, content: Content, frame: pl.DataFrame, places: Sequence[int]) -> Array:
        """Return the numbers of a frame, NaN where one is missing; refuse cells that are not numbers."""
        values, is_wrong = content.parse(frame)
        is_bad = is_wrong | np.isinf(values)
        if is_bad.any():
            row, i = np.argwhere(is_bad)[0].tolist()
            where = content.name, content.unit, places[row], self.names[i]
            if is_wrong[row, i]:
                wrong = (frame.row(row)[i] for row, i in np.argwhere(is_wrong)[:SAMPLE_ROWS].tolist())
                raise TableError(not_a_number(*where, wrong, content.parse))
            raise TableError(
                f"{cell_place(*where)}: the number is infinite or too large. Correct it, or leave the cell "
                "empty and use --drop-missing."
            )
        return values

    def check(self, source: str, min_rows: int, *, may_miss: bool) -> None:
        """Refuse a table with too few rows, or with missing numbers that are not allowed."""
        n_rows = sum(map(len, self.blocks))
        n_incomplete = sum(len(block.filter(~block["is_complete"])) for block in self.blocks)
        n_left = n_rows - n_incomplete * self.drops
        if n_rows < min(2, min_rows):
            problem = "only one row of numbers" if n_rows else "no rows"
            raise TableError(f"{source} has {problem}: at least two are needed.")
        if self.first_incomplete and not may_miss:
            holed = [quote(self.names[i]) for i in np.flatnonzero(self.n_missing).tolist()]
            raise TableError(
                f"{source}: {count_noun(n_incomplete, 'row')} with missing values, in {join_names(holed)}; "
                f"the first is {self.first_incomplete}. Fill them in, or leave such rows out with "
                "--drop-missing."
            )
        if n_left < min_rows:
            most = self.names[int(np.argmax(self.n_missing))]
            raise TableError(
                f"{source}: {'only one row is' if n_left else 'no row is'} left without missing "
                f"values; column {quote(most)} has the most of them. Exclude such columns with --columns."
            )


# --- where rows are kept ----------------------------------------------------------------------


def _store_rows(blocks: Iterable[Array], in_memory_bytes: int) -> Array:
    """Return the rows of blocks as one table, read-only.

    They are kept in memory, or in a temporary file if they are more bytes than `in_memory_bytes`.
    """
    waiting: list[Array] = []
    blocks = iter(blocks)
    for block in blocks:
        waiting.append(block)
        if sum(each.nbytes for each in waiting) > in_memory_bytes:
            return _store_on_disk(chain(waiting, blocks))
    return frozen(np.ascontiguousarray(np.concatenate(waiting)))


def _store_on_disk(blocks: Iterable[Array]) -> Array:
    """Return the rows of blocks as a memory map of a temporary file, which goes with it."""
    # Not removed when it is closed: other processes map it by its name.
    file = tempfile.NamedTemporaryFile(prefix="apolar-", delete=False)  # noqa: SIM115
    path = Path(file.name)
    n_rows = 0
    try:
        with file:
            for block in blocks:
                n_rows += len(block)
                n_columns = block.shape[1]
                file.write(np.ascontiguousarray(block).data)
    except OSError as error:
        path.unlink()
        size = f"{8 * n_rows * n_columns:,} bytes"
        raise TableError(
            f"The table is too large for memory, and a temporary file of {size} or more cannot be "
            f"written ({error.strerror or error}). Free some space, or set TMPDIR to a folder with more."
        ) from error
    except BaseException:
        path.unlink()
        raise
    table = np.memmap(file.name, dtype=np.float64, mode="r", shape=(n_rows, n_columns))
    weakref.finalize(table, path.unlink, missing_ok=True)
    return table
