"""Choose the columns of a table that are read."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from apolar.cli.tables.content import Content, TableError, count_noun, join_list, quote

ALL = "all"
"""In place of names: all columns."""


@dataclass(frozen=True)
class ColumnChoice:
    """The columns that are read, by their positions from zero, and those left out by default."""

    columns: tuple[int, ...]
    label: int | None
    skipped: tuple[int, ...] = ()


def choose_columns(
    content: Content,
    columns: Sequence[str | int] | str | None,
    label_column: str | int | None,
    keep: Sequence[str | int] = (),
) -> ColumnChoice:
    """Return which columns to read.

    Parameters
    ----------
    content : Content
    columns : sequence of str or int, optional
        Names, or numbers from one; by default all columns of numbers but the
        label column.
    label_column : str or int, optional
    keep : sequence of str or int, optional
        Columns that are read although they would be left out by default, or "all" for all of them.
    """
    table = content.columns
    label = None if label_column is None else find_columns(content, [label_column])[0]
    if columns is None:
        choice = _choose_by_default(content, label, keep)
    else:
        choice = ColumnChoice(
            find_columns(content, [columns] if isinstance(columns, str | int) else columns), label
        )
        if not choice.columns:
            raise TableError("No column is chosen: name at least one with --columns, or omit the option.")
        for position in choice.columns:
            column = table[position]
            if position == label:
                raise TableError(
                    f"Column {quote(column.name)} is the label column and cannot also be read as numbers: "
                    "remove it from --columns."
                )
            if column.problem:
                raise TableError(column.problem)
    names = [table[position].name for position in choice.columns]
    if len(set(names)) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        if len(set(choice.columns)) < len(names):
            raise TableError(f"Column {quote(name)} is chosen twice: name it once in --columns.")
        raise _ambiguous(content, name)
    return choice


def _choose_by_default(content: Content, label: int | None, keep: Sequence[str | int]) -> ColumnChoice:
    table = content.columns
    kept = set(find_columns(content, [column for column in keep if column != ALL]))
    for position in kept:
        column = table[position]
        if position == label:
            raise TableError(f"Column {quote(column.name)} is the label column: remove it from --keep.")
        if column.kind not in ("numbers", "row numbers"):
            raise TableError(
                f"Column {quote(column.name)} {column.holds}, not numbers: remove it from --keep."
            )
    if ALL in keep:
        kept |= {i for i, column in enumerate(table) if column.kind == "row numbers"}
    positions = [i for i in range(len(table)) if i != label]
    numeric = tuple(i for i in positions if table[i].is_numeric or i in kept)
    skipped = tuple(i for i in positions if not table[i].is_numeric and i not in kept)
    for i in skipped:
        if table[i].is_misread:
            raise TableError(table[i].problem)
    if not numeric:
        held = [f"{quote(table[i].name)} {table[i].holds}" for i in skipped]
        raise TableError(
            f"{content.name} has no numeric column: {join_list(held or ['it has only the label column'])}. "
            "Give a file with at least one column of numbers."
        )
    return ColumnChoice(numeric, label, skipped)


def find_columns(content: Content, wanted: Sequence[str | int]) -> tuple[int, ...]:
    """Return the positions of columns by their names, or by their numbers from one."""
    names = [column.name for column in content.columns]
    known = {name: i for i, name in enumerate(names)}
    return tuple(_find_column(content, names, known, column) for column in wanted)


def _find_column(content: Content, names: Sequence[str], known: dict[str, int], wanted: str | int) -> int:
    if isinstance(wanted, str) and wanted in known:
        if len(known) < len(names) and names.count(wanted) > 1:
            raise _ambiguous(content, wanted)
        return known[wanted]
    text = str(wanted).strip()
    if text.isdecimal() and text.isascii():
        if 1 <= int(text) <= len(names):
            return int(text) - 1
        raise TableError(
            f"{content.name} has no column {int(text)}: it has {count_noun(len(names), 'column')}, "
            "numbered from 1."
        )
    lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(text, names, n=3)
    if not close and text.lower() in lower:
        close = [lower[text.lower()]]
    guess = f" Did you mean {' or '.join(quote(name) for name in close)}?" if close else ""
    listed = join_list([quote(name) for name in names], shown=20)
    raise TableError(f"{content.name} has no column {quote(text)}.{guess} Its columns are {listed}.")


def _ambiguous(content: Content, name: str) -> TableError:
    numbers = [str(i) for i, column in enumerate(content.columns, start=1) if column.name == name]
    return TableError(
        f"{content.name} has {len(numbers)} columns called {quote(name)} (columns {join_list(numbers)}): "
        "rename them, or choose one by its number with --columns."
    )


def match_columns(first: Content, choice: ColumnChoice, other: Content, *, must_agree: bool) -> ColumnChoice:
    """Return where another file has the columns that are read of the first one.

    Parameters
    ----------
    first : Content
    choice : ColumnChoice
    other : Content
    must_agree : bool
        Whether all columns must be the same, not only those that are read.
    """
    names, others = ([column.name for column in content.columns] for content in (first, other))
    if must_agree and sorted(names) != sorted(others):
        missing, further = (
            [quote(name) for name in a if name not in set(b)] for a, b in ((names, others), (others, names))
        )
        parts = [f"it has no {join_list(missing)}"] if missing else []
        parts += [f"only it has {join_list(further)}"] if further else []
        raise TableError(
            f"{other.name} has other columns than {first.name}: {' and '.join(parts) or 'some are repeated'}."
            " Give files with the same columns, or choose columns with --columns."
        )
    label = None if choice.label is None else names[choice.label]
    return choose_columns(other, [names[position] for position in choice.columns], label)
