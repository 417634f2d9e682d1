"""Tables and figures made one after the other, each written and printed as it is done."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from apolar import __version__
from apolar._core.files import atomic_file
from apolar.plots import scatter_matrix
from apolar.plots.chart import need_library
from apolar_reproduction.methods import METHODS, cluster, load_task, time_method
from apolar_reproduction.output import Grid, markdown_of, page_of, study_grid, table_grids
from apolar_reproduction.printed import FIGURES, ITEMS, STUDIES
from apolar_reproduction.study import run_study

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console
    from rich.table import Table

MARKDOWN = "summary.md"
PAGE = "index.html"
# EM from the equivariant moments; the figures in the paper show EM from the paper's moments.
FIGURE_METHOD = "em_moments"
DPI = 110


class ProgressCallback(Protocol):
    """Called as the work goes on."""

    def begin(self, what: str, total: float | None = None) -> None:
        """Take the label of the table or figure that begins, and the number of data sets of a study."""

    def step(self, done: float | None, what: str = "") -> None:
        """Take the number of data sets that are done, if there are many, and what is being done."""

    def end(self) -> None:
        """Finish a table or figure."""


def reproduce(
    labels: list[str],
    folder: Path | None,
    console: Console,
    callback: ProgressCallback,
    *,
    seed: int,
    n_simulations: int,
    n_repeats: int,
    n_jobs: int | None = None,
    command: str | None = None,
) -> None:
    """Make tables and figures; print each, and write its files, as it is done.

    Parameters
    ----------
    labels : list of str
    folder : Path or None
        Where files go; made if it is not there. None writes none.
    console : rich.console.Console
    callback : ProgressCallback
    seed, n_simulations, n_repeats, n_jobs
        As in `run_study`.
    command : str, optional
        The command that makes everything. If given, a page and a Markdown file are written at the end.
    """
    if any(label in FIGURES for label in labels):
        need_library("matplotlib")
    if command is not None:
        need_library("jinja2")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    parts: dict[str, list[Grid] | str] = {}
    markdown: list[str] = []
    for label in labels:
        caption = ITEMS[label].caption
        callback.begin(label, n_simulations * n_repeats if label in STUDIES else None)
        if label in FIGURES:
            figure = draw_figure(label, seed)
            files = {f"{label}.{kind}": file_bytes(figure, kind) for kind in ("png", "svg")}
            markdown.append(f"## {caption}\n\n![{caption}]({label}.png)\n")
            parts[label] = base64.b64encode(files[f"{label}.png"]).decode("ascii")
            callback.end()
            console.print(f"{caption}: {label}.png, {label}.svg", markup=False)
        else:
            if label in STUDIES:
                shares = run_study(
                    label,
                    n_simulations=n_simulations,
                    n_repeats=n_repeats,
                    seed=seed,
                    path=None if folder is None else folder / f"{label}_runs.csv",
                    n_jobs=n_jobs,
                    callback=lambda n_done, total: callback.step(n_done, f"{n_done} of {total}"),
                )
                grids = [study_grid(label, shares, n_simulations, n_repeats)]
            else:
                grids = compare_methods(label, seed, callback)
            parts[label] = grids
            markdown.append(markdown_of(grids))
            files = {f"{grid.name}.csv": grid.as_csv().encode() for grid in grids}
            files[f"{label}.md"] = markdown[-1].encode()
            callback.end()
            for grid in grids:
                console.print(grid.as_rich())
                if grid.note:
                    console.print(grid.note + "\n", markup=False)
        _write(folder, files)
    if command is not None:
        title = f"# The paper, reproduced\n\nMade by `{command}` with apolar {__version__}.\n"
        page = page_of(parts, command, __version__)
        _write(folder, {MARKDOWN: "\n".join([title, *markdown]).encode(), PAGE: page.encode()})


def compare_methods(label: str, seed: int, callback: ProgressCallback) -> list[Grid]:
    """Return the table of one data set, after running every method on it."""
    task = load_task(label, seed)
    results = {}
    for method in METHODS:
        callback.step(None, method)
        results[method] = time_method(method, task, seed)
    return table_grids(label, task, results)


def draw_figure(label: str, seed: int = 0) -> Figure:
    """Return a figure of the paper: true clusters above the diagonal, those of EM from moments below.

    Parameters
    ----------
    label : {"figure1", "figure2", "figure3"}
    seed : int, default=0
        As in the table whose data it shows.

    Returns
    -------
    figure : matplotlib.figure.Figure
    """
    from matplotlib.figure import Figure

    item = FIGURES[label]
    task = load_task(item.source, seed)
    result = cluster(FIGURE_METHOD, task, seed)
    return scatter_matrix(
        task.X,
        task.labels,
        result.predicted,
        model=result.mixture,
        columns=item.size,
        feature_names=task.feature_names,
        class_names=task.class_names or None,
        title=item.caption,
        figure=Figure(figsize=(1.9 * item.size + 0.6, 1.9 * item.size + 1.5)),
    )


def file_bytes(figure: Figure, kind: str) -> bytes:
    """Return a figure as a PNG or SVG file; the same figure always gives the same bytes."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "apolar"}):
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(buffer, format=kind, dpi=DPI, metadata=metadata)
    return buffer.getvalue()


def list_items() -> Table:
    """Return the list of tables and figures, for the terminal."""
    from rich.table import Table

    table = Table(title="apolar reproduce NAME... | all", title_justify="left", box=None, pad_edge=False)
    for name in ("name", "what it is", "also"):
        table.add_column(name, no_wrap=name != "what it is")
    for label, item in ITEMS.items():
        table.add_row(label, item.caption.removeprefix(f"{label} "), item.alias)
    return table


def _write(folder: Path | None, files: dict[str, bytes]) -> None:
    """Write files, each whole or not at all."""
    if folder is None:
        return
    for name, content in files.items():
        with atomic_file(folder / name) as file:
            file.write(content)
