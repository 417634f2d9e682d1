"""Which columns of a table are read."""

import difflib
from collections import Counter
from collections.abc import Sequence

from apolar.cli.tables.table import Column, ColumnChoice, TableError, counted, joined, quoted

_LISTED_NAMES = 20

ALL = "all"
"""In place of names: all columns."""


def chosen(
    source: str,
    table: Sequence[Column],
    columns: Sequence[str | int] | str | None,
    label_column: str | int | None,
    keep: Sequence[str | int] = (),
) -> ColumnChoice:
    """Return which columns to read.

    Parameters
    ----------
    source : str
        How messages call the file.
    table : sequence of Column
        All columns of the file.
    columns : sequence of str or int, optional
        Names, or numbers from one; by default all columns of numbers but the
        label column.
    label_column : str or int, optional
    keep : sequence of str or int, optional
        Columns that are read although they would be left out by default, or "all" for all of them.

    Returns
    -------
    choice : ColumnChoice
    """
    label = None if label_column is None else _position(source, table, label_column)
    if columns is None:
        choice = _by_default(source, table, label, keep)
    else:
        wanted = [columns] if isinstance(columns, str | int) else list(columns)
        if not wanted:
            raise TableError(
                "No column is chosen: name at least one with --columns, or leave the option out."
            )
        choice = ColumnChoice(tuple(_position(source, table, column) for column in wanted), label)
        for position, times in Counter(choice.columns).items():
            name = quoted(table[position].name)
            if times > 1:
                raise TableError(f"Column {name} is chosen {times} times: name it once in --columns.")
            if position == label:
                raise TableError(
                    f"Column {name} is the label column and cannot also be read as numbers: "
                    "take it out of --columns."
                )
            refusal = table[position].refusal
            if refusal is not None:
                raise TableError(refusal)
    _refuse_duplicates(source, table, choice.columns)
    return choice


def _by_default(
    source: str, table: Sequence[Column], label: int | None, keep: Sequence[str | int]
) -> ColumnChoice:
    positions = [position for position in range(len(table)) if position != label]
    kept = kept_positions(source, table, keep)
    for position in kept:
        column = table[position]
        if position == label:
            raise TableError(f"Column {quoted(column.name)} is the label column: take it out of --keep.")
        if column.refusal is not None or (not column.is_numeric and column.kind != "counter"):
            raise TableError(
                f"Column {quoted(column.name)} {column.note or 'holds no numbers'}, and numbers are needed: "
                "take it out of --keep."
            )
    if ALL in keep:
        kept |= {position for position in positions if table[position].kind == "counter"}
    numeric = tuple(position for position in positions if table[position].is_numeric or position in kept)
    skipped = tuple(position for position in positions if position not in numeric)
    for position in skipped:
        objection = table[position].objection
        if objection is not None:
            raise TableError(objection)
    if not numeric:
        notes = [f"{quoted(table[position].name)} {table[position].note}" for position in skipped]
        columns = joined(notes) if notes else "there is only the label column"
        raise TableError(
            f"{source} has no column of numbers: {columns}. Give a file with at least one column of numbers."
        )
    return ColumnChoice(numeric, label, skipped)


def kept_positions(source: str, table: Sequence[Column], keep: Sequence[str | int]) -> set[int]:
    """Return the positions of the columns that are named to be kept, those of `ALL` not among them."""
    return {_position(source, table, column) for column in keep if column != ALL}


def _position(source: str, table: Sequence[Column], wanted: str | int) -> int:
    """Return the position of a column by its name, or by its number from one."""
    names = [column.name for column in table]
    if isinstance(wanted, str) and wanted in names:
        if names.count(wanted) > 1:
            raise _duplicate(source, names, wanted)
        return names.index(wanted)
    text = str(wanted).strip()
    if text.isdecimal() and text.isascii():
        if 1 <= int(text) <= len(names):
            return int(text) - 1
        raise TableError(
            f"{source} has no column {int(text)}: it has {counted(len(names), 'column')}, numbered from 1."
        )
    close = difflib.get_close_matches(text, names, n=3)
    if not close:  # another case is closer than difflib thinks
        close = [name for name in names if name.lower() == text.lower()][:1]
    guess = f" Did you mean {' or '.join(quoted(name) for name in close)}?" if close else ""
    listed = joined([quoted(name) for name in names], shown=_LISTED_NAMES)
    raise TableError(f"{source} has no column {quoted(text)}.{guess} Its columns are {listed}.")


def _refuse_duplicates(source: str, table: Sequence[Column], positions: Sequence[int]) -> None:
    names = [table[position].name for position in positions]
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise _duplicate(source, [column.name for column in table], name)


def _duplicate(source: str, names: Sequence[str], name: str) -> TableError:
    numbers = [str(i) for i, other in enumerate(names, start=1) if other == name]
    return TableError(
        f"{source} has {len(numbers)} columns called {quoted(name)} (columns {joined(numbers)}): "
        "rename them, or choose one by its number with --columns."
    )
