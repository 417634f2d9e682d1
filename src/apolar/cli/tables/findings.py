"""Columns that do not measure the rows: constants, row numbers, codes of few values, and copies."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from apolar._core.arrays import Array
from apolar.cli.tables.content import Column, TableError, join_list, quote

KINDS = ("constant", "row numbers", "few values", "duplicate")
"""The kinds of columns that say nothing about clusters, or would decide them alone. A further one, "rating",
is a column of few values in a table in which nearly all have few: there, they are the measurements."""

# A column with more than MAX_VALUES values is a measurement; with at most MAX_CODES, it holds codes, whatever
# its histogram is. Codes repeat MIN_REPEATS times on average: in few rows, measurements have few values.
MAX_VALUES, MAX_CODES, MIN_REPEATS = 10, 5, 10
# If at least this fraction of the columns have few values, they are the measurements.
MOSTLY_FEW = 0.75
# In fewer rows, consecutive integers are likely enough by chance; in more, columns are not sorted to tell.
MIN_COUNTED, MAX_SORTED = 20, 2**24
# A column is constant, or a copy of another one up to its unit, up to this relative difference in every row.
CONSTANT_DIFFERENCE, COPY_DIFFERENCE = 1e-13, 1e-4
# Rows, spread over the table, that rule out most columns before all rows are read; and numbers read at once.
FINDING_ROWS, CHUNK_SIZE = 2000, 2**20
# Of more columns only exact copies are found, without a matrix of correlations.
MAX_CORRELATED = 1000

# "id", "Index", "row_number", "customer_id", "patientID", "Unnamed: 0".
_NAME_OF_COUNTER = re.compile(
    r"(unnamed:?[ _]*\d+)"
    r"|((.*[_ .-])?(id|ids|idx|index|uid|guid|key|row|rownum|row[_ ]?n(o|r|umber)|nr|no|number|serial))",
    re.IGNORECASE,
)
_CAMEL_ID = re.compile(r".*[a-z]I[Dd]")

# What is said after the names of columns of a kind: of one, and of several.
_PHRASES = {
    "constant": ("is constant", "are constant"),
    "row numbers": ("numbers the rows", "number the rows"),
    "few values": ("has only {n} distinct values", "have few distinct values"),
    "duplicate": ("is a copy of column {other}", "are copies of others"),
    "nothing": ("is empty", "are empty"),
}


@dataclass(frozen=True)
class ColumnFinding:
    """What was found about a column.

    Attributes
    ----------
    column : int
        From zero.
    name : str
    kind : {"constant", "row numbers", "few values", "duplicate", "rating"}
    n_values : int
        How many different values it has, if they are few.
    other : str
        The column that it is a copy of.
    is_rescaled : bool
        Whether it is a copy in other units.
    """

    column: int
    name: str
    kind: str
    n_values: int = 0
    other: str = ""
    is_rescaled: bool = False

    @property
    def problem(self) -> str:
        """What is said after the column."""
        if self.is_rescaled:
            return f"is column {quote(self.other)} in other units"
        return _PHRASES[self.kind][0].format(n=self.n_values, other=quote(self.other))


def find_no_measurements(X: Array, names: Sequence[str]) -> tuple[ColumnFinding, ...]:
    """Return the columns of a table that are not measurements, in their order, each once.

    A sample of the rows rules out most columns; all rows of the others are read. Missing values are ignored.
    """
    if X.shape[1] < 2 or len(X) < 2:
        return ()
    with np.errstate(all="ignore"):  # huge values are refused where the rows are used
        return _Search(X, names).findings()


class _Search:
    """The columns of a table that a sample has not ruled out."""

    def __init__(self, X: Array, names: Sequence[str]) -> None:
        self.X, self.names = X, names
        self.sample = X[np.unique(np.linspace(0, len(X) - 1, min(FINDING_ROWS, len(X))).astype(np.int64))]
        is_missing = np.isnan(self.sample)
        ordered = np.sort(self.sample, axis=0)  # missing values come last
        n_values = 1 + np.count_nonzero(np.diff(ordered, axis=0) > 0, axis=0)
        low, high = np.fmin.reduce(self.sample), np.fmax.reduce(self.sample)
        n_present = np.count_nonzero(~is_missing, axis=0)
        is_integer = np.all((self.sample == np.floor(self.sample)) | is_missing, axis=0)
        self.may_count = is_integer & (n_values == n_present)
        open_columns = (n_values <= MAX_VALUES) | self.may_count | _is_constant(low, high)
        self.watched = np.flatnonzero(open_columns & (n_present > 0)).tolist()

    def findings(self) -> tuple[ColumnFinding, ...]:
        kinds: dict[int, str] = {}
        n_values = {}
        for j, counts, low, high, n_present in self._summaries():
            if _is_constant(low, high):
                kinds[j] = "constant"
            elif counts and n_present >= MIN_REPEATS * len(counts) and not _is_rounded(counts):
                kinds[j], n_values[j] = "few values", len(counts)
            elif self.may_count[j] and self._numbers_rows(j, low, high, n_present):
                kinds[j] = "row numbers"
        few = [j for j, kind in kinds.items() if kind == "few values"]
        if few and len(few) >= MOSTLY_FEW * (len(self.names) - len(kinds) + len(few)):
            kinds |= dict.fromkeys(few, "rating")
        copies = self._copies([j for j in range(len(self.names)) if kinds.get(j, "rating") == "rating"])
        return tuple(
            ColumnFinding(j, self.names[j], "duplicate", 0, self.names[copies[j][0]], copies[j][1])
            if j in copies
            else ColumnFinding(j, self.names[j], kinds[j], n_values.get(j, 0))
            for j in sorted(kinds.keys() | copies.keys())
        )

    def _chunks(self) -> Iterator[Array]:
        size = max(1, CHUNK_SIZE // self.X.shape[1])
        for start in range(0, len(self.X), size):
            yield self.X[start : start + size]

    def _summaries(self) -> Iterator[tuple[int, Counter[float] | None, float, float, int]]:
        """Yield for each watched column its values, if they are few, the extremes, and the number present."""
        counts: dict[int, Counter[float] | None] = {j: Counter() for j in self.watched}
        low, high = np.full((2, len(self.watched)), np.nan)
        n_present = np.zeros(len(self.watched), dtype=np.int64)
        for chunk in self._chunks() if self.watched else ():
            values = chunk[:, self.watched]
            low, high = np.fmin(low, np.fmin.reduce(values)), np.fmax(high, np.fmax.reduce(values))
            n_present += np.count_nonzero(~np.isnan(values), axis=0)
            for i, j in enumerate(self.watched):
                known = counts[j]
                if known is not None and not self.may_count[j]:
                    distinct, times = np.unique(values[~np.isnan(values[:, i]), i], return_counts=True)
                    known.update(dict(zip(distinct[: MAX_VALUES + 1].tolist(), times.tolist(), strict=False)))
                    counts[j] = known if len(known) <= MAX_VALUES else None
        yield from zip(
            self.watched, counts.values(), low.tolist(), high.tolist(), n_present.tolist(), strict=True
        )

    def _numbers_rows(self, j: int, low: float, high: float, n_present: int) -> bool:
        """Return whether a column holds different integers: consecutive ones, or in a column called id."""
        is_dense = high - low + 1 == n_present
        if n_present < MIN_COUNTED or not (is_dense or is_name_of_counter(self.names[j])):
            return False
        if n_present > MAX_SORTED:
            return is_dense
        values = np.concatenate([chunk[:, j] for chunk in self._chunks()])
        values = values[~np.isnan(values)]
        return bool(np.all(values == np.floor(values))) and len(np.unique(values)) == len(values)

    # --- copies -----------------------------------------------------------------------------

    def _copies(self, columns: list[int]) -> dict[int, tuple[int, bool]]:
        """Return for columns that are copies the first column that they are one of, and if units differ."""
        pairs = self._similar(columns)
        lines = {j: self._line(j, other) for j, other in pairs.items()}
        is_same = dict.fromkeys(pairs, True)
        for chunk in self._chunks() if pairs else ():
            for j, other in list(pairs.items()):
                a, b, (slope, offset, limit) = chunk[:, j], chunk[:, other], lines[j]
                present = ~np.isnan(a)
                differences = np.abs(a - (slope * b + offset))[present]
                if not np.array_equal(present, ~np.isnan(b)) or not np.all(differences <= limit):
                    del pairs[j]
                is_same[j] = is_same[j] and bool(np.all((a == b) | ~present))
        return {j: (other, not is_same[j]) for j, other in pairs.items()}

    def _similar(self, columns: list[int]) -> dict[int, int]:
        """Return columns with the first column that they equal in the sample, up to their units."""
        if len(columns) > MAX_CORRELATED:
            first: dict[bytes, int] = {}
            same = {j: first.setdefault(self.sample[:, j].tobytes(), j) for j in columns}
            return {j: other for j, other in same.items() if other != j}
        sample = self.sample[:, columns]
        centred = np.nan_to_num(
            sample - np.nan_to_num(np.nanmean(sample, axis=0)) if len(columns) else sample
        )
        norms = np.linalg.norm(centred, axis=0)
        usable = (norms > 0) & (norms < np.inf)
        kept = [j for j, is_usable in zip(columns, usable.tolist(), strict=True) if is_usable]
        scaled = centred[:, usable] / norms[usable]
        is_similar = np.abs(scaled.T @ scaled) > 1 - COPY_DIFFERENCE
        similar: dict[int, int] = {}
        for at, j in enumerate(kept):
            others = (kept[i] for i in np.flatnonzero(is_similar[at, :at]) if kept[i] not in similar)
            if (other := next(others, None)) is not None:
                similar[j] = other
        return similar

    def _line(self, j: int, other: int) -> tuple[float, float, float]:
        """Return slope and offset of a column as a function of another one, and the largest difference."""
        a, b = self.sample[:, j], self.sample[:, other]
        present = ~(np.isnan(a) | np.isnan(b))
        a, b = a[present], b[present]
        # One value that is far out makes any two columns look alike: the spread is that of most values.
        low, high = np.quantile(a, (0.1, 0.9))
        spread = min(float(high - low) / 2.56, float(a.std())) or float(a.std())
        if np.array_equal(a, b):
            return 1.0, 0.0, COPY_DIFFERENCE * spread
        centred = b - b.mean()
        slope = float(centred @ a / (centred @ centred))
        return slope, float(a.mean() - slope * b.mean()), COPY_DIFFERENCE * spread


def _is_constant(low: Array | float, high: Array | float) -> Array:
    return np.asarray(np.subtract(high, low) <= CONSTANT_DIFFERENCE * np.fmax(np.abs(low), np.abs(high)))


def _is_rounded(counts: Counter[float]) -> bool:
    """Return whether values are evenly spaced and most frequent in the middle: a rounded measurement."""
    if len(counts) <= MAX_CODES:
        return len(counts) < 2
    values = sorted(counts)
    times = [counts[value] for value in values]
    steps = np.diff(values)
    peak = int(np.argmax(times))
    is_hill = times[:peak] == sorted(times[:peak]) and times[peak:] == sorted(times[peak:], reverse=True)
    is_bell = is_hill and 2 * max(times[0], times[-1]) < times[peak]
    return bool(is_bell and steps.max() <= 1.001 * steps.min())


def is_name_of_counter(name: str) -> bool:
    """Return whether a column is called as those are that name or number rows."""
    name = name.strip()
    return _NAME_OF_COUNTER.fullmatch(name) is not None or _CAMEL_ID.fullmatch(name) is not None


# --- notes ----------------------------------------------------------------------------------------


def notes_on_skipped(columns: Sequence[Column]) -> tuple[str, ...]:
    """Return a sentence for each kind of columns that were dropped because they hold no measurements."""
    notes = []
    for kind in dict.fromkeys(column.kind for column in columns):
        names = [column.name for column in columns if column.kind == kind]
        one, several = _PHRASES.get(kind, (f"holds {kind}", f"hold {kind}"))
        notes.append(
            _note_dropped(names, one if len(names) == 1 else several, has_remedy=kind == "row numbers")
        )
    return tuple(notes)


def notes_on_findings(
    findings: Sequence[ColumnFinding], leave_out: Collection[str], keeps: Collection[str] | None, option: str
) -> tuple[list[str], list[ColumnFinding]]:
    """Return sentences on findings, and those whose columns are dropped.

    Parameters
    ----------
    findings : sequence of ColumnFinding
    leave_out : collection of str
        The kinds, of `KINDS`, that are dropped; the others are only noted.
    keeps : collection of str or None
        Names of columns that stay; None for all.
    option : str
        The option that names them.
    """
    notes, dropped = [], []
    for kind in dict.fromkeys(finding.kind for finding in findings if finding.kind in KINDS):
        others = []
        for finding in findings:
            if finding.kind != kind:
                continue
            is_kept = keeps is None or finding.name in keeps
            if kind in leave_out and not is_kept:
                others.append(finding)
                continue
            reason = f"({option})" if is_kept else "because other parts of the table may differ"
            notes.append(f"Column {quote(finding.name)} {finding.problem}; kept {reason}.")
        dropped += others
        if len(others) > 3:
            notes.append(_note_dropped([finding.name for finding in others], _PHRASES[kind][1]))
        else:
            notes += [_note_dropped([finding.name], finding.problem) for finding in others]
    ratings = [finding.n_values for finding in findings if finding.kind == "rating"]
    if ratings:
        notes.append(
            f"{len(ratings)} columns have at most {max(ratings)} distinct values, as in a survey: they are "
            "kept, and clusters may follow single answers."
        )
    return notes, dropped


def refuse_if_none_left(source: str, names: Sequence[str], dropped: Sequence[ColumnFinding]) -> None:
    """Refuse a table all of whose columns would be dropped."""
    if len(dropped) == len(names):
        if all(finding.kind == "constant" for finding in dropped):
            raise TableError(f"{source}: all rows are equal, so nothing separates clusters.")
        reasons = join_list([f"{quote(finding.name)} {finding.problem}" for finding in dropped])
        raise TableError(
            f"{source} has no column left to cluster by: {reasons}. Use --keep all to include them."
        )


def _note_dropped(names: Sequence[str], problem: str, *, has_remedy: bool = True) -> str:
    """Return the sentence on columns that were dropped, with the option that includes them."""
    nouns, it, them = ("column", "it", "it") if len(names) == 1 else ("columns", "they", "them")
    sentence = f"Dropped {nouns} {join_list([quote(name) for name in names])}: {it} {problem}."
    if not has_remedy:
        return sentence
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow(names)
    option = shlex.quote(buffer.getvalue()) if len(names) <= 3 else "all"
    return f"{sentence} Use --keep {option} to include {them}."
