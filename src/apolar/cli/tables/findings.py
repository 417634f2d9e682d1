"""Columns that are no measurements of the rows: constants, row numbers, codes of few values, and copies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from apolar._core.arrays import Array
from apolar.cli.tables.column_values import ROUNDING, ColumnValues
from apolar.data.rows import ArrayRows, Rows

__all__ = ["KINDS", "ColumnFinding", "column_findings"]

KINDS = ("constant", "counter", "few values", "duplicate")
"""The kinds of columns that say nothing of clusters, or would decide them alone. A further one, "rating", is
a column of few values in a table in which nearly all have few: there, they are the measurements."""

# The part of the columns that have few values from which on they are the measurements.
MOSTLY_FEW = 0.75
# In fewer rows, consecutive integers are likely enough by chance.
MIN_COUNTED = 20
# A copy differs from a linear function of the other column by less than this part of its deviation, in every
# row: as much as numbers lose that are written with five digits.
MAX_DIFFERENCE = 1e-4
# Rows, spread over the table, that rule out most columns before all rows are looked at.
SAMPLE_ROWS = 2000
# Of more columns only copies without a change of units are found, and no table of correlations is made.
MAX_CORRELATED = 1000
# A column of more rows is not sorted to see whether its values are all different.
MAX_SORTED = 2**24

# "id", "Index", "row_number", "customer_id", "patientID", "Unnamed: 0".
_NAME_OF_COUNTER = re.compile(
    r"(unnamed:?[ _]*\d+)"
    r"|((.*[_ .-])?(id|ids|idx|index|uid|guid|key|row|rownum|row[_ ]?n(o|r|umber)|nr|no|number|serial))",
    re.IGNORECASE,
)
_CAMEL_ID = re.compile(r".*[a-z]I[Dd]")


@dataclass(frozen=True)
class ColumnFinding:
    """What was found about a column.

    Attributes
    ----------
    column : int
        From zero.
    name : str or None
    kind : {"constant", "counter", "few values", "duplicate", "rating"}
    n_values : int
        How many different values it has, if they are few.
    other : int or None
        The column that it is a copy of.
    other_name : str or None
    is_rescaled : bool
        Whether it is a copy in other units.
    """

    column: int
    name: str | None
    kind: str
    n_values: int = 0
    other: int | None = None
    other_name: str | None = None
    is_rescaled: bool = False

    @property
    def called(self) -> str:
        """The column by its name, or else by its number."""
        return _called(self.column, self.name)

    @property
    def problem(self) -> str:
        """What is said after the column."""
        if self.kind == "constant":
            return "is constant"
        if self.kind == "counter":
            return "numbers the rows"
        if self.kind == "duplicate":
            other = "" if self.other is None else _called(self.other, self.other_name)
            return f"is column {other} in other units" if self.is_rescaled else f"is a copy of column {other}"
        return f"has {self.n_values} values"


def _called(column: int, name: str | None) -> str:
    return str(column) if name is None else repr(name)


def column_findings(rows: Rows, names: Sequence[str] | None = None) -> tuple[ColumnFinding, ...]:
    """Return the columns that are no measurements, in their order.

    A sample of the rows rules out most columns; only of the others all rows are read. Missing values count
    for nothing. Looked at are arrays in memory and memory maps (of sparse matrices, only for constants), of
    two columns or more; elsewhere nothing is found.

    Parameters
    ----------
    rows : Rows
    names : sequence of str, optional
        Of the columns: a column of different integers that is called "id" numbers the rows.

    Returns
    -------
    findings : tuple of ColumnFinding
        At most one per column.
    """
    if not isinstance(rows, ArrayRows) or rows.n_features < 2 or rows.n_rows < 2:
        return ()
    if rows.is_sparse:
        return _constants_of_sparse(rows, names) if rows.in_memory else ()
    if not isinstance(rows.values, np.ndarray) or rows.values.dtype.kind not in "buif":
        return ()
    with np.errstate(all="ignore"):  # infinite and huge values are refused where the rows are used
        return _Search(rows, names).findings()


class _Search:
    """The columns of a table, as far as they have not been ruled out."""

    def __init__(self, rows: ArrayRows, names: Sequence[str] | None) -> None:
        self.rows = rows
        self.names = None if names is None else [str(name) for name in names]
        positions = np.unique(np.linspace(0, rows.n_rows - 1, min(SAMPLE_ROWS, rows.n_rows)).astype(np.int64))
        self.sample = np.asarray(rows.take(positions)[0], dtype=np.float64)

    def findings(self) -> tuple[ColumnFinding, ...]:
        n_rows, n_features = self.rows.n_rows, self.rows.n_features
        watched = {j: column for j in range(n_features) if (column := self._watched(j)) is not None}
        if n_rows > len(self.sample):
            self._watch_all_rows(watched)
        kinds: dict[int, str] = {}
        for j, column in watched.items():
            if column.is_constant:
                kinds[j] = "constant"
            elif column.has_few_values:
                kinds[j] = "few values"
            elif self._is_counter(j, column):
                kinds[j] = "counter"
        few = [j for j, kind in kinds.items() if kind == "few values"]
        n_others = sum(kind != "few values" for kind in kinds.values())
        if few and len(few) >= MOSTLY_FEW * (n_features - n_others):
            kinds |= dict.fromkeys(few, "rating")
        copies = self._copies([j for j in range(n_features) if kinds.get(j, "rating") == "rating"])
        return tuple(
            self._copy(j, *copies[j]) if j in copies else self._finding(j, kinds[j], watched[j].n_values)
            for j in range(n_features)
            if j in kinds or j in copies
        )

    def _name(self, j: int) -> str | None:
        return None if self.names is None else self.names[j]

    def _finding(self, j: int, kind: str, n_values: int) -> ColumnFinding:
        return ColumnFinding(j, self._name(j), kind, n_values)

    def _copy(self, j: int, other: int, is_rescaled: bool) -> ColumnFinding:
        return ColumnFinding(
            j, self._name(j), "duplicate", 0, other, self._name(other), is_rescaled=is_rescaled
        )

    # --- values -----------------------------------------------------------------------------

    def _watched(self, j: int) -> ColumnValues | None:
        column = ColumnValues()
        column.add(self.sample[:, j])
        if column.is_integer and column.counts is None:
            values = self.sample[~np.isnan(self.sample[:, j]), j]
            column.is_integer = len(np.unique(values)) == len(values)
        return column if column.is_open else None

    def _watch_all_rows(self, watched: dict[int, ColumnValues]) -> None:
        """Look at all rows of the columns that the sample has not ruled out."""
        open_columns = {j: ColumnValues(may_count=column.is_integer) for j, column in watched.items()}
        for j in watched:
            watched[j] = open_columns[j]
        for chunk in self._chunks():
            for j in list(open_columns):
                open_columns[j].add(chunk[:, j])
                if not open_columns[j].is_open:
                    del open_columns[j]
            if not open_columns:
                return

    def _chunks(self) -> Iterator[Array]:
        for chunk, _ in self.rows.read(self.rows.chunk_rows()):
            yield chunk

    def _is_counter(self, j: int, column: ColumnValues) -> bool:
        """Return whether integers, all different in the sample, number the rows."""
        if not column.is_integer or column.n_present < MIN_COUNTED:
            return False
        if column.is_run:
            return True
        name = self._name(j)
        is_named = name is not None and is_name_of_counter(name)
        is_dense = column.high - column.low + 1 == column.n_present
        if not (is_named or is_dense) or column.n_present > MAX_SORTED:
            return False
        if column.is_rising:
            return True
        values = np.concatenate([chunk[:, j] for chunk in self._chunks()])
        values = values[~np.isnan(values)]
        if is_dense:
            is_there = np.zeros(column.n_present, dtype=bool)
            is_there[(values - column.low).astype(np.int64)] = True
            return bool(is_there.all())
        return len(np.unique(values)) == column.n_present

    # --- copies -----------------------------------------------------------------------------

    def _copies(self, columns: list[int]) -> dict[int, tuple[int, bool]]:
        """Return for columns that are copies the first column that they are one of, and if units differ."""
        pairs = self._similar(columns)
        lines = {j: self._line(j, other) for j, other in pairs.items()}
        is_same = dict.fromkeys(pairs, True)
        for chunk in self._chunks() if pairs else ():
            for j, other in list(pairs.items()):
                a, b = (chunk[:, i].astype(np.float64) for i in (j, other))
                slope, offset, most = lines[j]
                missing = np.isnan(a)
                differences = np.abs(a - (slope * b + offset))[~missing]
                if not np.array_equal(missing, np.isnan(b)) or not np.all(differences <= most):
                    del pairs[j]
                elif is_same[j]:
                    is_same[j] = bool(np.all((a == b) | missing))
            if not pairs:
                break
        return {j: (other, not is_same[j]) for j, other in pairs.items()}

    def _similar(self, columns: list[int]) -> dict[int, int]:
        """Return columns with the first column that they equal in the sample, up to their units."""
        missing = np.isnan(self.sample)
        n_present = np.maximum((~missing).sum(axis=0), 1)
        centred = np.where(missing, 0.0, self.sample)
        centred = np.where(missing, 0.0, centred - centred.sum(axis=0) / n_present)
        norms = np.sqrt((centred**2).sum(axis=0))
        usable = [j for j in columns if 0 < norms[j] < np.inf]
        scaled = centred[:, usable] / norms[usable]
        if len(usable) > MAX_CORRELATED:
            first: dict[bytes, int] = {}
            same = {j: first.setdefault(self.sample[:, j].tobytes(), j) for j in usable}
            return {j: other for j, other in same.items() if other != j}
        is_similar = np.abs(scaled.T @ scaled) > 1 - MAX_DIFFERENCE
        similar: dict[int, int] = {}
        for at, j in enumerate(usable):
            others = [usable[i] for i in np.flatnonzero(is_similar[at, :at]) if usable[i] not in similar]
            if others:
                similar[j] = others[0]
        return similar

    def _line(self, j: int, other: int) -> tuple[float, float, float]:
        """Return slope and offset of a column as a function of another one, and the largest difference."""
        a, b = self.sample[:, j], self.sample[:, other]
        present = ~(np.isnan(a) | np.isnan(b))
        a, b = a[present], b[present]
        if np.array_equal(a, b):
            return 1.0, 0.0, 0.0 if len(a) == 0 else MAX_DIFFERENCE * _deviation(a)
        centred = b - b.mean()
        slope = float(centred @ a / (centred @ centred))
        return slope, float(a.mean() - slope * b.mean()), MAX_DIFFERENCE * _deviation(a)


def _deviation(values: Array) -> float:
    """Return the deviation of most values: one that is far out makes any two columns look alike."""
    low, high = np.quantile(values, (0.1, 0.9))
    middle = float(high - low) / 2.56  # of a normal distribution, its deviation
    return min(middle, float(values.std())) if middle > 0 else float(values.std())


def is_name_of_counter(name: str) -> bool:
    """Return whether a column is called as those are that name or number rows."""
    name = name.strip()
    return _NAME_OF_COUNTER.fullmatch(name) is not None or _CAMEL_ID.fullmatch(name) is not None


def _constants_of_sparse(rows: ArrayRows, names: Sequence[str] | None) -> tuple[ColumnFinding, ...]:
    values = sparse.csc_matrix(rows.values)
    low, high = (np.asarray(part.todense()).ravel() for part in (values.min(axis=0), values.max(axis=0)))
    constant = np.flatnonzero(high - low <= ROUNDING * np.maximum(np.abs(low), np.abs(high)))
    return tuple(
        ColumnFinding(j, None if names is None else str(names[j]), "constant") for j in constant.tolist()
    )
