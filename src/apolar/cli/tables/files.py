"""Several files that are one table."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from apolar.cli.tables.columns import chosen
from apolar.cli.tables.source import opened, tables_in
from apolar.cli.tables.table import (
    Column,
    ColumnChoice,
    ReadOptions,
    RowBatch,
    TableContent,
    TableError,
    TableInput,
    joined,
    quoted,
)

Source = str | os.PathLike[str] | IO[bytes]
"""A path, "-" for standard input, or a file open as bytes."""


def expanded(source: Source | Sequence[Source]) -> list[Source]:
    """Return single sources, in order: of a folder, the tables in it."""
    sources: list[Source] = list(source) if isinstance(source, list | tuple) else [source]  # type: ignore[list-item]
    if not sources:
        raise TableError("No file is given: name at least one.")
    single: list[Source] = []
    for each in sources:
        if isinstance(each, str | os.PathLike) and os.fspath(each) != "-" and Path(each).is_dir():
            single += tables_in(Path(each))
        else:
            single.append(each)
    return single


class FileSequence:
    """Files with the same columns, read one after the other; the first of them is open.

    Parameters
    ----------
    further : sequence of sources
        The files after the first.
    format : str or None
    options : ReadOptions
    must_agree : bool
        Whether the files must have the same columns, and not only those that are read.
    file : TableInput
        The first file.
    content : TableContent
    choice : ColumnChoice
        What is read of it.

    Attributes
    ----------
    names : list of str
        Of the files, as far as they have been read.
    first_rows : list of int
        The number of the first row of each.
    """

    def __init__(
        self,
        further: Sequence[Source],
        format: str | None,
        options: ReadOptions,
        must_agree: bool,
        file: TableInput,
        content: TableContent,
        choice: ColumnChoice,
    ) -> None:
        self.further, self.format, self.options, self.must_agree = further, format, options, must_agree
        self.file, self.content, self.choice = file, content, choice
        self.names = [file.name]
        self.first_rows = [0]

    @property
    def source(self) -> str:
        """How messages call the table."""
        if not self.further:
            return self.file.name
        return joined([self.file.name, *(_named(source) for source in self.further)], shown=3)

    @property
    def n_bytes(self) -> int | None:
        """The size of all files; None if only reading to the end shows it."""
        sizes = [self.file.n_bytes, *(_size(source) for source in self.further)]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def batches(self) -> Iterator[RowBatch]:
        """Yield the rows of all files, once."""
        n_rows = n_bytes = 0
        for batch in self._of_file(self.file, self.content, self.choice, 0):
            n_rows += len(batch.values)
            n_bytes = batch.n_bytes
            yield batch
        for source in self.further:
            with opened(source, self.format, self.options) as (table_format, file):
                self.names.append(file.name)
                self.first_rows.append(n_rows)
                content = table_format.reader(file)
                last = n_bytes
                for batch in self._of_file(file, content, self._same_columns(file.name, content), n_bytes):
                    n_rows += len(batch.values)
                    last = batch.n_bytes
                    yield batch
                n_bytes = last

    @staticmethod
    def _of_file(
        file: TableInput, content: TableContent, choice: ColumnChoice, n_before: int
    ) -> Iterator[RowBatch]:
        for batch in content.batches(choice):
            yield replace(batch, source=file.name, unit=content.unit, n_bytes=n_before + batch.n_bytes)

    def _same_columns(self, name: str, content: TableContent) -> ColumnChoice:
        """Return where another file has the columns of the first."""
        columns = self.content.columns
        if self.must_agree:
            _refuse_other_columns(self.file.name, columns, name, content.columns)
        label = None if self.choice.label is None else columns[self.choice.label].name
        wanted = [columns[position].name for position in self.choice.columns]
        return chosen(name, content.columns, wanted, label)


def _refuse_other_columns(
    first: str, columns: Sequence[Column], other: str, of_other: Sequence[Column]
) -> None:
    names, others = [column.name for column in columns], [column.name for column in of_other]
    parts = []
    if missing := [quoted(name) for name in names if name not in others]:
        parts.append(f"it has no {joined(missing)}")
    if further := [quoted(name) for name in others if name not in names]:
        parts.append(f"{joined(further)} {'is' if len(further) == 1 else 'are'} only there")
    if not parts and len(names) != len(others):
        parts.append(f"it has {len(others)} of them, and not {len(names)}")
    if parts:
        raise TableError(
            f"{other} has other columns than {first}: {', and '.join(parts)}. Give files with the same "
            "columns, or name those to use with --columns."
        )


def _named(source: Source) -> str:
    if isinstance(source, str | os.PathLike):
        return "standard input" if os.fspath(source) == "-" else str(source)
    return "an open file"


def _size(source: Source) -> int | None:
    try:
        is_path = isinstance(source, str | os.PathLike) and os.fspath(source) != "-"
        return os.stat(source).st_size if is_path else None  # type: ignore[arg-type]
    except OSError:
        return None
