"""Tables and figures made one after the other, each written as it is done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from apolar._core.files import atomic_file
from apolar.paper import figures, page, study, tables, writing
from apolar.paper.printed import FIGURES, STUDIES, caption
from apolar.plots.canvas import file_bytes, need_matplotlib
from apolar.reports.pages import need_jinja2

MARKDOWN = "summary.md"
PAGE = "index.html"


class ProgressCallback(Protocol):
    """Called as the work goes on."""

    def begin(self, label: str, total: int | None) -> None:
        """Take the label of the table or figure that begins, and how many data sets it is of, if many."""

    def step(self, done: int | None, what: str) -> None:
        """Take the number of data sets that are done, if there are many, and what is being done."""


def reproduced(
    labels: list[str],
    folder: Path | None,
    callback: ProgressCallback,
    *,
    seed: int = 0,
    n_simulations: int = study.N_SIMULATIONS,
    n_repeats: int = study.N_REPEATS,
    n_jobs: int | None = None,
    summary: tuple[str, str] | None = None,
) -> Iterator[tuple[str, page.Part]]:
    """Make tables and figures, and yield each when its files are written.

    Parameters
    ----------
    labels : list of str
    folder : Path or None
        Where files go; made if it is not there. None writes none.
    callback : ProgressCallback
    seed, n_simulations, n_repeats, n_jobs
        As in `tables.compared` and `study.studied`.
    summary : (str, str), optional
        The command and the version. If given, a page and a Markdown file with everything are written at the
        end.

    Yields
    ------
    label : str
    part : ComparedTable, Study, or (label, PNG)
    """
    if any(label in FIGURES for label in labels):
        need_matplotlib()
    if summary is not None:
        need_jinja2()
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    parts: list[page.Part] = []
    markdown: list[str] = []
    for label in labels:
        part: page.Part
        if label in FIGURES:
            callback.begin(label, None)
            figure = figures.drawn(label, seed)
            files = {f"{label}.{kind}": file_bytes(figure, kind, figures.DPI) for kind in ("png", "svg")}
            markdown.append(f"## {caption(label)}\n\n![{caption(label)}]({label}.png)\n")
            part = (label, files[f"{label}.png"])
        elif label in STUDIES:
            callback.begin(label, n_simulations * n_repeats)
            results = study.studied(
                label,
                n_simulations=n_simulations,
                n_repeats=n_repeats,
                seed=seed,
                path=None if folder is None else folder / f"{label}_runs.csv",
                n_jobs=n_jobs,
                callback=lambda n_done, total: callback.step(n_done, f"{n_done} of {total}"),
            )
            files = {name: text.encode() for name, text in writing.study_files(results).items()}
            markdown.append(writing.study_markdown(results))
            part = results
        else:
            callback.begin(label, None)
            table = tables.compared(label, seed, lambda method: callback.step(None, method))
            files = {name: text.encode() for name, text in writing.table_files(table).items()}
            markdown.append(writing.table_markdown(table))
            part = table
        parts.append(part)
        _write(folder, files)
        yield label, part
    if summary is not None:
        command, version = summary
        title = f"# The paper, reproduced\n\nMade by `{command}` with apolar {version}.\n"
        _write(
            folder,
            {
                MARKDOWN: "\n".join([title, *markdown]).encode(),
                PAGE: page.page(parts, command, version).encode(),
            },
        )


def _write(folder: Path | None, files: dict[str, bytes]) -> None:
    """Write files, each whole or not at all."""
    if folder is None:
        return
    for name, content in files.items():
        with atomic_file(folder / name) as file:
            file.write(content)
