"""Columns that do not measure the rows: constants, row numbers, codes of few values, and copies."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from apolar._core.arrays import Array
from apolar.cli.console import quote
from apolar.cli.tables.columns import SAMPLE_ROWS
from apolar.exceptions import join_names

KINDS = ("constant", "row numbers", "few values", "duplicate")
"""The kinds of columns that say nothing about clusters, or would decide them alone. A further one, "rating",
is a column of few values in a table in which nearly all have few: there, they are the measurements."""

# A column with more than MAX_VALUES values is a measurement, or numbers the rows; with at most half as many,
# it holds codes, whatever its histogram is. Codes repeat MAX_VALUES times on average: in few rows,
# measurements have few values.
MAX_VALUES = 10
# If at least this fraction of the columns, and not one alone, have few values, they are the measurements.
MOSTLY_FEW = 0.75
# A column is constant, or a copy of another one up to its unit, up to this relative difference in every row.
CONSTANT_DIFFERENCE = 1e-13
COPY_DIFFERENCE = 1e-4
# More columns of a kind are dropped with one note.
MAX_NAMED = 3
# Larger integers are rounded in float64.
MAX_INTEGER = 2**53

# "id", "Index", "row_number", "customer_id", "patientID", "Unnamed: 0".
_NAME_OF_COUNTER = re.compile(
    r"(?i:unnamed:?[ _]*\d+)"
    r"|(?i:(.*[_ .-])?(id|ids|idx|index|uid|guid|key|row|rownum|row[_ ]?n(o|r|umber)|nr|no|number|serial))"
    r"|.*[a-z]I[Dd]"
)

# Common codes for missing values: -9, -99, 999, 9999.
_NINES = re.compile(r"-?9+")


@dataclass(frozen=True)
class ColumnFinding:
    """What was found about a column.

    Attributes
    ----------
    column : int
        From zero; -1 for a column that was not read.
    name : str
    kind : str
        One of `KINDS`, "rating", or the kind of a `Column` that holds no numbers.
    problem : str
        What it holds, as in "only 2 distinct values".
    n_values : int
        How many different values it has, if they are few.
    """

    column: int
    name: str
    kind: str
    problem: str
    n_values: int = 0


def find_no_measurements(X: Array, names: Sequence[str]) -> tuple[ColumnFinding, ...]:
    """Return the columns of a table that are not measurements, in their order, each once.

    A sample of the rows rules out most columns; all rows of the others are read. Missing values are ignored.
    """
    if X.shape[1] < 2 or len(X) < 2:
        return ()
    findings: dict[int, ColumnFinding] = {}
    with np.errstate(all="ignore"):  # huge values are refused where the rows are used
        sample = X[np.unique(np.linspace(0, len(X) - 1, min(SAMPLE_ROWS, len(X))).astype(np.int64))]
        for j in [j for j in range(len(names)) if _is_suspect(sample[:, j])]:
            kind, n_values = _kind_of(X[:, j], names[j])
            if kind:
                problem = f"only {n_values} distinct values" if kind == "few values" else kind
                if kind == "constant" and np.nanmax(np.abs(X[:, j])) > MAX_INTEGER:
                    problem += " in its first 15 digits, all that numbers here have"
                findings[j] = ColumnFinding(j, names[j], kind, problem, n_values)
        few = [j for j, finding in findings.items() if finding.kind == "few values"]
        if len(few) > 1 and len(few) >= MOSTLY_FEW * (len(names) - len(findings) + len(few)):
            findings |= {j: replace(findings[j], kind="rating") for j in few}
        others = [j for j in range(len(names)) if j not in findings or findings[j].kind == "rating"]
        for j, other in _similar_columns(sample, others).items():
            problem = _problem_of_copy(X[:, j], X[:, other], names[other])
            if problem:
                findings[j] = ColumnFinding(j, names[j], "duplicate", problem)
    return tuple(findings[j] for j in sorted(findings))


def _is_suspect(sample: Array) -> bool:
    """Return whether the sample of a column has few values, or different integers."""
    present = sample[~np.isnan(sample)]
    values = np.unique(present)
    is_counted = len(values) == len(present) and np.array_equal(values, np.floor(values))
    return len(present) > 0 and (is_counted or len(values) <= MAX_VALUES or _is_constant(values))


def _is_constant(values: Array) -> bool:
    """Return whether values, in order, differ by rounding only."""
    return bool(values[-1] - values[0] <= CONSTANT_DIFFERENCE * np.abs(values).max())


def _kind_of(column: Array, name: str) -> tuple[str, int]:
    """Return what a column holds instead of measurements, or "", and how many different values it has."""
    values, times = np.unique(column[~np.isnan(column)], return_counts=True)
    n_present, n_values = int(times.sum()), len(values)
    if _is_constant(values):
        return "constant", n_values
    is_repeated = n_values <= MAX_VALUES and n_present >= MAX_VALUES * n_values
    if is_repeated and not _is_rounded(values, times.tolist()):
        return "few values", n_values
    is_counted = n_values == n_present > MAX_VALUES and np.array_equal(values, np.floor(values))
    if is_counted and (values[-1] - values[0] + 1 == n_present or _NAME_OF_COUNTER.fullmatch(name.strip())):
        return "row numbers", n_values
    return "", n_values


def _is_rounded(values: Array, times: list[int]) -> bool:
    """Return whether values are evenly spaced and most frequent in the middle: a rounded measurement."""
    if len(values) <= MAX_VALUES // 2:
        return False
    steps = np.diff(values)
    peak = int(np.argmax(times))
    is_hill = times[:peak] == sorted(times[:peak]) and times[peak:] == sorted(times[peak:], reverse=True)
    is_bell = is_hill and 2 * max(times[0], times[-1]) < times[peak]
    return bool(is_bell and steps.max() <= 1.001 * steps.min())


def _similar_columns(sample: Array, columns: list[int]) -> dict[int, int]:
    """Return columns with the first column that they equal in the sample, up to their units."""
    if len(columns) > SAMPLE_ROWS:  # only exact copies, without a matrix of correlations
        first: dict[bytes, int] = {}
        same = {j: first.setdefault(sample[:, j].tobytes(), j) for j in columns}
        return {j: other for j, other in same.items() if other != j}
    present = np.ma.masked_invalid(sample[:, columns])
    centred = (present - present.mean(axis=0)).filled(0.0)
    norms = np.linalg.norm(centred, axis=0)
    scaled = centred / np.where(norms > 0, norms, 1)
    is_similar = np.abs(scaled.T @ scaled) > 1 - COPY_DIFFERENCE
    similar: dict[int, int] = {}
    for i, j in enumerate(columns):
        others = (columns[k] for k in np.flatnonzero(is_similar[i, :i]) if columns[k] not in similar)
        if (other := next(others, None)) is not None:
            similar[j] = other
    return similar


def _problem_of_copy(a: Array, b: Array, name: str) -> str:
    """Return what is said about a column that is a copy of another one, or "" if it is not a copy."""
    present = ~np.isnan(a)
    if not np.array_equal(present, ~np.isnan(b)):
        return ""
    a, b = a[present], b[present]
    if np.array_equal(a, b):
        return f"copy of column {quote(name)}"
    # One value that is far out makes any two columns look alike: the spread is that of most values.
    low, high = np.quantile(a, (0.1, 0.9))
    residuals = a - np.polyval(np.polyfit(b, a, 1), b)
    is_copy = np.abs(residuals).max() <= COPY_DIFFERENCE * ((high - low) or a.std())
    return f"column {quote(name)} in other units" if is_copy else ""


# --- notes ----------------------------------------------------------------------------------------


def notes_on_findings(
    findings: Sequence[ColumnFinding], leave_out: Collection[str], keeps: Collection[str] | None, option: str
) -> tuple[tuple[str, ...], list[ColumnFinding]]:
    """Return sentences on findings, and those whose columns are dropped.

    Parameters
    ----------
    findings : sequence of ColumnFinding
    leave_out : collection of str
        The kinds that are dropped; the others are only noted.
    keeps : collection of str or None
        Names of columns that stay; None for all.
    option : str
        The option that names them.
    """
    kept: list[str] = []
    dropped: list[ColumnFinding] = []
    for finding in findings:
        is_kept = finding.kind in KINDS and (keeps is None or finding.name in keeps)
        if finding.kind in leave_out and not is_kept:
            dropped.append(finding)
        elif finding.kind != "rating":
            reason = f" ({option})" if is_kept else ", as other parts of the table may differ"
            kept.append(f"Kept column {quote(finding.name)}{reason}: {finding.problem}.")
    n_of_kind = Counter(finding.kind for finding in dropped)
    groups: dict[tuple[str, str], list[str]] = {}
    for finding in dropped:
        problem = finding.problem if n_of_kind[finding.kind] <= MAX_NAMED else finding.kind
        groups.setdefault((finding.kind, problem), []).append(finding.name)
    notes = [_note_on_dropped(names, *group) for group, names in groups.items()] + kept
    ratings = [finding.n_values for finding in findings if finding.kind == "rating"]
    if ratings:
        notes.append(
            f"{len(ratings)} columns have at most {max(ratings)} distinct values, as in a survey: they are "
            "kept, and clusters may follow single answers."
        )
    return tuple(notes), dropped


def _note_on_dropped(names: list[str], kind: str, problem: str) -> str:
    """Return the sentence on columns that were dropped for one reason, with the option that includes them."""
    noun, pronoun = ("column", "it") if len(names) == 1 else ("columns", "them")
    text = f"Dropped {noun} {join_names([quote(name) for name in names])}: {problem}."
    if kind not in KINDS:
        return text
    doubled = [name.replace('"', '""') for name in names]
    listed = ",".join(f'"{name}"' if set(name) & set(',"\r\n') else name for name in doubled)
    option = shlex.quote(listed) if len(names) <= MAX_NAMED else "all"
    return f"{text} Use --keep {option} to include {pronoun}."


def notes_on_codes(X: Array, names: Sequence[str]) -> tuple[str, ...]:
    """Return sentences on numbers that may stand for missing values: nines, far from the other values."""
    notes = []
    sample = X[np.unique(np.linspace(0, len(X) - 1, min(SAMPLE_ROWS, len(X))).astype(np.int64))]
    for j, name in enumerate(names):
        values, times = np.unique(sample[~np.isnan(sample[:, j]), j], return_counts=True)
        if len(values) < 3:
            continue
        for end, next_to_it, other_end in ((0, 1, -1), (-1, -2, 0)):
            code = f"{values[end]:.10g}"
            if times[end] == 1 or not _NINES.fullmatch(code):
                continue
            gap, spread = abs(values[end] - values[next_to_it]), abs(values[next_to_it] - values[other_end])
            if gap > spread:
                notes.append(
                    f"Column {quote(name)} has the value {code} more than once, far from its other values: "
                    f"use --na-values {code} if it stands for a missing value."
                )
    return tuple(notes)
