"""What is noticed about the columns of a table, what is done about it, and the sentences that say so."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from apolar.cli.tables.collect import RowStore
from apolar.cli.tables.findings import KINDS, ColumnFinding, column_findings
from apolar.cli.tables.table import Column, TableError, TableFile, joined, quoted
from apolar.data import open_rows

# Columns of a kind that are named in a sentence each; more are named together.
_MAX_SENTENCES = 3
# Numbers that are copied at once.
_COPIED_SIZE = 2**18

_WHY = {
    "constant": "is constant",
    "counter": "numbers the rows",
    "few values": "has {n} values and would become the clusters by itself",
}
_SEVERAL = {
    "constant": "are constant",
    "counter": "number the rows",
    "few values": "have few values and would become the clusters by themselves",
    "duplicate": "are copies of others",
}
_EMPTY, _COUNTER = "nothing", "counter"


def skipped_notes(columns: Sequence[Column]) -> tuple[str, ...]:
    """Return a sentence for each kind of columns that were left out as they hold no numbers to cluster by."""
    notes = []
    for kind in dict.fromkeys(column.kind for column in columns):
        names = [column.name for column in columns if column.kind == kind]
        called, is_one = _called(names), len(names) == 1
        if kind == _COUNTER:
            verb = "numbers" if is_one else "number"
            notes.append(f"{called} {verb} the rows: left out. {_remedy(names)}")
        elif kind == _EMPTY:
            notes.append(f"{called} {'is' if is_one else 'are'} empty: left out.")
        else:
            notes.append(f"{called} {'holds' if is_one else 'hold'} {kind}: left out.")
    return tuple(notes)


def examined(
    table: TableFile,
    *,
    is_chosen: bool,
    kept: Collection[str],
    keeps_all: bool,
    leave_out: Collection[str],
    in_memory_bytes: int,
) -> TableFile:
    """Return a table without the columns that are no measurements, and with notes on them.

    Parameters
    ----------
    table : TableFile
    is_chosen : bool
        Whether its columns were named by the user: then all of them stay.
    kept : collection of str
        Names of columns that stay.
    keeps_all : bool
        Whether all of them stay.
    leave_out : collection of str
        The kinds of findings, of `KINDS`, that are left out; the others are only noted.
    in_memory_bytes : int
        As in `read_table`.

    Returns
    -------
    table : TableFile
    """
    findings = column_findings(open_rows(table.X), table.names)
    groups: dict[tuple[str, str], list[ColumnFinding]] = {}
    for finding in findings:
        if finding.kind in KINDS:
            if is_chosen:
                done = "kept, as --columns names it"
            elif keeps_all or finding.name in kept:
                done = "kept, as --keep says"
            elif finding.kind in leave_out:
                done = ""
            else:
                done = "kept, as other parts of the table may differ"
            groups.setdefault((finding.kind, done), []).append(finding)
    dropped = [finding for (_, done), group in groups.items() if not done for finding in group]
    notes = [note for (kind, done), group in groups.items() for note in _sentences(kind, done, group)]
    ratings = [finding for finding in findings if finding.kind == "rating"]
    if ratings:
        most = max(finding.n_values for finding in ratings)
        notes.append(
            f"{len(ratings)} of {len(table.names)} columns have at most {most} values, as in a survey: they "
            "are kept, and clusters may follow single answers."
        )
    if len(dropped) == len(table.names):
        if all(finding.kind == "constant" for finding in dropped):
            raise TableError(f"{table.source}: All rows are equal: nothing separates clusters.")
        reasons = joined([f"{finding.called} {finding.problem}" for finding in dropped])
        raise TableError(
            f"{table.source} has no column left to cluster by: {reasons}. --keep all uses them as they are."
        )
    table = replace(table, notes=(*table.notes, *notes))
    positions = {finding.column for finding in dropped}
    return _without(table, positions, in_memory_bytes) if positions else table


def _sentences(kind: str, done: str, findings: Sequence[ColumnFinding]) -> list[str]:
    """Return what is said of findings of a kind, for all of which the same was done."""
    names = [str(finding.name) for finding in findings]
    if len(findings) > _MAX_SENTENCES:
        end = done.replace("names it", "names them") if done else "left out"
        sentence = f"{_called(names)} {_SEVERAL[kind]}: {end}."
        return [sentence if done else f"{sentence} --keep all uses them."]
    sentences = []
    for name, finding in zip(names, findings, strict=True):
        why = _WHY.get(kind, finding.problem).format(n=finding.n_values)
        if done and kind == "few values":
            why = why.replace("would", "may")
        sentence = f"Column {quoted(name)} {why}: {done or 'left out'}."
        sentences.append(sentence if done else f"{sentence} {_remedy([name])}")
    return sentences


def _called(names: Sequence[str]) -> str:
    return f"Column{'' if len(names) == 1 else 's'} {joined([quoted(name) for name in names])}"


def _remedy(names: Sequence[str]) -> str:
    """Return the option that uses columns that were left out."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow(names)
    option = shlex.quote(buffer.getvalue())
    return f"--keep {option} uses {'it' if len(names) == 1 else 'them'}."


def _without(table: TableFile, dropped: Collection[int], in_memory_bytes: int) -> TableFile:
    """Return a table without some columns, in memory or in a new temporary file."""
    kept = [j for j in range(len(table.names)) if j not in dropped]
    X, remove = table.X, None
    if isinstance(X, np.memmap):
        store = RowStore(len(kept), in_memory_bytes)
        size = max(1, _COPIED_SIZE // X.shape[1])
        try:
            for start in range(0, len(X), size):
                store.append(X[start : start + size][:, kept])
            X, remove = store.finish()
        finally:
            store.close()
            table.close()
    else:
        X = np.ascontiguousarray(X[:, kept])
        X.flags.writeable = False
    n_missing = None if table.n_missing is None else table.n_missing[kept]
    return replace(
        table,
        X=X,
        names=tuple(table.names[j] for j in kept),
        n_missing=n_missing if n_missing is not None and n_missing.any() else None,
        _remove=remove,
    )
