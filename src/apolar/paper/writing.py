"""Tables as CSV and as Markdown."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence

from apolar.paper.methods import OUR_METHODS, PAPER_METHODS
from apolar.paper.printed import Share, caption
from apolar.paper.study import Study
from apolar.paper.tables import COLUMNS, COUNT_COLUMNS, Cell, ComparedTable
from apolar.paper.tasks import PREPARATION

# Decimals in CSV files: more than any table prints.
DECIMALS = 6
SHARES = ("bic", "ari", "ari_099", "error_rate", "near")

METHOD_NAMES = {
    "em_km": "EM from the best of 50 runs of k-means",
    "em_mom": "EM from the paper's moments: algorithms 2 and 1, four Newton iterations",
    "em_mbhc": "EM from model-based hierarchical clustering",
    "em_emEM": "EM from the best of 50 short runs of EM, from random responsibilities",
    "em_moments": "the same EM from apolar's equivariant moments, weighted",
    "apolar": "apolar's search: GaussianMixture(k, covariance_type='spherical', prior='conjugate')",
    "oracle": "the same EM from the truth: the true parameters, or the true classes",
}


# --- CSV ---------------------------------------------------------------------------------


def as_csv(columns: Sequence[str], records: Iterable[dict[str, Cell]]) -> str:
    """Return a table as CSV; cells without a value are empty."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    for record in records:
        writer.writerow([_csv_cell(record[column]) for column in columns])
    return buffer.getvalue()


def _csv_cell(value: Cell) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return value if isinstance(value, str) else f"{value:.{DECIMALS}f}"


def table_files(table: ComparedTable) -> dict[str, str]:
    """Return the files of a table of one data set, by name."""
    files = {
        f"{table.label}.csv": as_csv(COLUMNS, table.records()),
        f"{table.label}.md": table_markdown(table),
    }
    if table.printed.n_parameters is not None:
        files[f"{table.label}_counts.csv"] = as_csv(COUNT_COLUMNS, table.counts())
    return files


def study_records(study: Study) -> list[dict[str, Cell]]:
    """Return one row per method: percentages and their variances, ours and the paper's."""
    records: list[dict[str, Cell]] = []
    for method, shares in study.shares.items():
        record: dict[str, Cell] = {"method": method}
        for prefix, source in (("", shares), ("paper_", study.printed.rows.get(method))):
            for name in SHARES:
                share = getattr(source, name) if source is not None else None
                record[prefix + name] = share.mean if share else None
                record[f"{prefix}{name}_variance"] = share.variance if share else None
        records.append(record)
    return records


def study_columns() -> list[str]:
    """Return the columns of a table of stability."""
    names = [f"{name}{suffix}" for name in SHARES for suffix in ("", "_variance")]
    printed = [f"paper_{name}" for name in names if not name.startswith("near")]
    return ["method", *names, *printed]


def study_files(study: Study) -> dict[str, str]:
    """Return the files of a table of stability, by name."""
    return {
        f"{study.label}.csv": as_csv(study_columns(), study_records(study)),
        f"{study.label}.md": study_markdown(study),
    }


# --- Markdown ------------------------------------------------------------------------------


def table_markdown(table: ComparedTable) -> str:
    """Return a table of one data set, with the notes that belong to it."""
    parts = [f"## {caption(table.label)}"]
    n_rows, n_columns = table.task.X.shape
    parts.append(
        f"{n_rows} rows, {n_columns} columns, {table.task.n_components} clusters; "
        f"{PREPARATION[table.label]}. BIC as mclust has it: the larger the better."
    )
    parts.append(_scores_table(table, PAPER_METHODS))
    parts.append("What we recommend, and EM from the truth:")
    parts.append(_scores_table(table, OUR_METHODS))
    if table.counts():
        parts.append(
            f"The paper's BIC counts {table.printed.n_parameters} parameters; the model has "
            f"{table.right_count}. Under both counts:"
        )
        header = ["method", "printed", "ours, printed count", "ours, right count"]
        rows = [
            [_shown(record[column], table.printed.digits) for column in COUNT_COLUMNS]
            for record in table.counts()
        ]
        parts.append(_markdown(header, rows))
    starts = ", ".join(
        f"{method} {1000 * result.start_s:.3g} ms"
        for method, result in table.results.items()
        if method != "apolar"
    )
    parts.append(f"Of the times, the start alone: {starts}.")
    return "\n\n".join(parts) + "\n"


def _scores_table(table: ComparedTable, methods: tuple[str, ...]) -> str:
    has_paper = methods == PAPER_METHODS
    names = (
        ("bic", "BIC", table.printed.digits),
        ("ari", "ARI", 4),
        ("error_rate", "error rate", 4),
        ("time_s", "seconds", 4),
    )
    header = ["method"]
    for _, title, _ in names:
        header += [title, f"{title}, paper"] if has_paper else [title]
    rows = []
    for record in table.records():
        if record["method"] not in methods:
            continue
        row = [str(record["method"])]
        for name, _, digits in names:
            row.append(_shown(record[name], digits))
            if has_paper:
                row.append(_plain(record[f"paper_{name}"]))
        rows.append(row)
    return _markdown(header, rows)


def study_markdown(study: Study) -> str:
    """Return a table of stability."""
    n_sets = f"{study.n_repeats} times {study.n_simulations}"
    explanation = (
        f"{n_sets} data sets of Example {study.printed.example}: per cent in which a method is best, mean of "
        "the repeats and (variance). Values that agree as printed share the place. The paper's four methods "
        "are compared with each other; ours, each with the other three in the place of em_mom."
    )
    titles = ["BIC", "ARI", "ARI >= 0.99", "error rate"]
    header = ["method"]
    for title in titles:
        header += [title, "paper"]
    header.append("BIC within 1 of the best of all")
    rows = []
    for method, shares in study.shares.items():
        printed = study.printed.rows.get(method)
        row = [method]
        for name in SHARES[:-1]:
            row += [_percent(getattr(shares, name)), _percent(getattr(printed, name)) if printed else ""]
        rows.append([*row, _percent(shares.near)])
    return "\n\n".join([f"## {caption(study.label)}", explanation, _markdown(header, rows)]) + "\n"


def _percent(share: Share | None) -> str:
    if share is None:
        return ""
    variance = "" if math.isnan(share.variance) else f" ({share.variance:.2f})"
    return f"{share.mean:.2f}%{variance}"


def _shown(value: Cell, digits: int) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:.{digits}f}"


def _plain(value: Cell) -> str:
    """Return a value of the paper with the digits that it prints."""
    return "" if value is None else f"{value}"


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "|".join(["---"] + ["---:"] * (len(header) - 1)) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)
