"""Tables as CSV, Markdown and HTML, and in the terminal."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apolar.reports.page import render_page
from apolar.scores import mclust_bic
from apolar_reproduction.methods import METHODS, PAPER_METHODS, PREPARATION, Clustering, Task
from apolar_reproduction.printed import ITEMS, STUDIES, TABLES, printed_values
from apolar_reproduction.study import Shares

if TYPE_CHECKING:
    from rich.table import Table

# Decimals in CSV files: more than any table prints.
DECIMALS = 6

METHOD_NAMES = {
    "em_km": "EM from the best of 50 runs of k-means",
    "em_mom": "EM from the paper's moments: algorithms 2 and 1, four Newton iterations",
    "em_mbhc": "EM from model-based hierarchical clustering",
    "em_emEM": "EM from the best of 50 short runs of EM, from random responsibilities",
    "em_moments": "the same EM from apolar's equivariant moments, weighted",
    "apolar": "apolar's search: GaussianMixture(k, covariance_type='spherical', prior='conjugate')",
    "oracle": "the same EM from the truth: the true parameters, or the true classes",
}


@dataclass(frozen=True)
class Column:
    """A column of a table as it is shown; `decimals` None shows a value of the paper as it is printed."""

    key: str
    title: str
    decimals: int | None = None

    @property
    def is_printed(self) -> bool:
        """Whether the values are the paper's."""
        return self.key.startswith("paper_")

    def text(self, record: dict[str, float | None], *, with_variance: bool = False) -> str:
        """Return the cell of a record."""
        value = record.get(self.key)
        if value is None:
            return ""
        text = f"{value}" if self.decimals is None else f"{value:.{self.decimals}f}"
        variance = record.get(f"{self.key}_variance") if with_variance else None
        return text if variance is None or math.isnan(variance) else f"{text} ({variance:.2f})"


@dataclass(frozen=True)
class Grid:
    """A table of the paper, with a row for each method.

    Attributes
    ----------
    name : str
        Of its CSV file.
    title : str
    note : str
        What the reader should know about it.
    columns : tuple of Column
        Those that are shown.
    records : dict of str to dict
        Values by method; None where the paper has none.
    """

    name: str
    title: str
    note: str
    columns: tuple[Column, ...]
    records: dict[str, dict[str, float | None]]

    @property
    def parts(self) -> tuple[list[str], list[str]]:
        """The methods of the paper, and ours."""
        ours = [method for method in self.records if method not in PAPER_METHODS]
        return [method for method in self.records if method in PAPER_METHODS], ours

    def cells(self, method: str, *, with_variance: bool = True) -> list[str]:
        """Return a row as it is shown, without the name of the method."""
        record = self.records[method]
        return [column.text(record, with_variance=with_variance) for column in self.columns]

    def as_csv(self) -> str:
        """Return all values as CSV; cells without a value are empty."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        keys = list(next(iter(self.records.values())))
        writer.writerow(["method", *keys])
        for method, record in self.records.items():
            values = [record[key] for key in keys]
            missing = [value is None or math.isnan(value) for value in values]
            cells = [
                "" if is_missing else f"{value:.{DECIMALS}f}"
                for value, is_missing in zip(values, missing, strict=True)
            ]
            writer.writerow([method, *cells])
        return buffer.getvalue()

    def as_markdown(self) -> str:
        """Return the table as Markdown."""
        titles = ["method", *(column.title for column in self.columns)]
        lines = [_markdown_row(titles), "|" + "|".join(["---"] + ["---:"] * len(self.columns)) + "|"]
        lines += [_markdown_row([method, *self.cells(method)]) for method in self.records]
        return "\n".join(lines)

    def as_rich(self) -> Table:
        """Return the table for a terminal of 80 columns."""
        from rich import box
        from rich.table import Table

        table = Table(
            title=self.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
        )
        table.add_column("method", no_wrap=True)
        for column in self.columns:
            table.add_column(
                column.title, justify="right", style="dim" if column.is_printed else "", no_wrap=True
            )
        for method in self.records:
            is_last = method == PAPER_METHODS[-1]
            table.add_row(method, *self.cells(method, with_variance=False), end_section=is_last)
        return table


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def table_grids(label: str, task: Task, results: dict[str, Clustering]) -> list[Grid]:
    """Return the table of one data set, and its BIC under both counts where the paper's count is wrong."""
    item, printed = TABLES[label], printed_values(label)
    keys = ("bic", "ari", "error_rate", "time_s")
    scores = {
        method: {
            **{key: getattr(result, key) for key in keys},
            **{f"paper_{key}": printed.get(method, {}).get(key) for key in keys},
        }
        for method, result in results.items()
    }
    titles = {"bic": "BIC", "ari": "ARI", "error_rate": "error", "time_s": "s"}
    n_rows, n_columns = task.X.shape
    note = (
        f"{n_rows} rows, {n_columns} columns, {task.n_components} clusters; {PREPARATION[label]}. BIC as "
        "mclust has it: the larger the better."
    )
    starts = ", ".join(
        f"{method} {1000 * result.start_s:.3g} ms" for method, result in results.items() if method != "apolar"
    )
    note += f" Of the times, the start alone: {starts}."
    columns = [
        column
        for key, title in titles.items()
        for column in (Column(key, title, item.size if key == "bic" else 4), Column(f"paper_{key}", "paper"))
    ]
    grids = [Grid(label, item.caption, note, tuple(columns), scores)]
    if item.printed_parameters is not None:
        counts = {
            method: {
                "paper_bic": printed.get(method, {}).get("bic"),
                "bic_printed_count": mclust_bic(result.log_likelihood, item.printed_parameters, n_rows),
                "bic_right_count": result.bic,
            }
            for method, result in results.items()
        }
        columns = [
            Column("paper_bic", "printed"),
            Column("bic_printed_count", "ours, printed count", item.size),
            Column("bic_right_count", "ours, right count", item.size),
        ]
        title = f"The printed BIC counts {item.printed_parameters} parameters, not {task.n_parameters}"
        grids.append(Grid(f"{label}_counts", title, "", tuple(columns), counts))
    return grids


def study_grid(label: str, shares: dict[str, Shares], n_simulations: int, n_repeats: int) -> Grid:
    """Return a table of stability."""
    printed = printed_values(label)
    titles = {"bic": "BIC", "ari": "ARI", "ari_099": ">= .99", "error_rate": "error"}
    keys = [f"{key}{suffix}" for key in titles for suffix in ("", "_variance")]
    records = {
        method: {**shares[method], **{f"paper_{key}": printed.get(method, {}).get(key) for key in keys}}
        for method in METHODS
    }
    columns = [
        column
        for key, title in titles.items()
        for column in (Column(key, title, 2), Column(f"paper_{key}", "paper", 2))
    ]
    note = (
        f"{n_repeats} times {n_simulations} data sets of Example {STUDIES[label].size}: percentage in which "
        "a method is best, mean of the repeats (and variance). Values that agree as printed share the place; "
        ">= .99: an ARI of at least 0.99; near: a BIC within 1 of the best of all. The paper's four methods "
        "are compared with each other; ours, each with the other three in the place of em_mom."
    )
    return Grid(label, STUDIES[label].caption, note, (*columns, Column("near", "near", 2)), records)


def markdown_of(grids: list[Grid]) -> str:
    """Return what belongs to one label as Markdown."""
    first, *others = grids
    parts = [f"## {first.title}", first.note, first.as_markdown()]
    for grid in others:
        parts += [f"{grid.title}:", grid.as_markdown()]
    return "\n\n".join(parts) + "\n"


def page_of(parts: dict[str, list[Grid] | str], command: str, version: str) -> str:
    """Return an HTML page that needs no other file.

    Parameters
    ----------
    parts : dict
        By label, tables, or the PNG of a figure in base 64.
    command : str
        The command that made the page.
    version : str
        The version of apolar.
    """
    return render_page(
        "apolar_reproduction",
        {},
        parts=parts,
        captions={label: item.caption for label, item in ITEMS.items()},
        methods=METHOD_NAMES,
        command=command,
        version=version,
    )
