"""`apolar fit`: clusters of a table, a model, and a report."""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apolar.cli.console import Bar, line, new_console
from apolar.cli.errors import BadInput
from apolar.cli.labels import (
    appended_text,
    check_rereadable,
    csv_text,
    label_frames,
    outlier_text,
    outliers_sentence,
    row_numbers_of,
    table_name,
)
from apolar.cli.messages import in_options
from apolar.cli.options import (
    check_sources,
    column_names,
    default_folder,
    families,
    mixture_options,
    need_data,
    numbers_of_components,
    outlier_level,
    outliers_option,
    table_options,
)
from apolar.cli.output import PAGE_MARK, Output
from apolar.cli.text import escaped

if TYPE_CHECKING:
    from apolar.cli.tables import TableFile
    from apolar.reports.analysis import Analysis

# The width of the first columns of the table of means, that of a name, and the most columns of means.
FIRST_WIDTH, NAME_WIDTH, MAX_COLUMNS = 26, 15, 40


@click.command()
@click.argument("data", nargs=-1)
@mixture_options(components=None)
@table_options
@click.option("--label-column", metavar="NAME", help="Known classes, to compare the clusters with.")
@click.option("--sketch", type=click.Path(dir_okay=False), help="A sketch in place of DATA: no labels.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder for the results; apolar-DATA.")
@click.option("--append", is_flag=True, help="Also write DATA with clusters and probabilities: table.csv.")
@outliers_option
@click.option("--no-report", is_flag=True, help="Write no report.html.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def fit(
    data: tuple[str, ...],
    components: str | None,
    covariance: tuple[tuple[str, ...], ...],
    criterion: str,
    noise: bool | float | None,
    standardise: bool | None,
    seed: int,
    columns: str | None,
    drop_missing: bool,
    label_column: str | None,
    sketch: str | None,
    output: Path | None,
    append: bool,
    outliers: bool | float | None,
    no_report: bool,
    as_json: bool,
    **reading: Any,
) -> None:
    """Find clusters in a table: labels, model and report.

    DATA is a CSV, TSV, Parquet, Feather, NPY or XLSX file, several of them or
    a folder, or - for standard input. Columns that are numbers are used, but
    for those that cannot be clustered by: they are named. The results go to a
    folder: labels.csv (row, cluster, its probability, outlier, the probability
    of each cluster), model.npz (for `apolar predict`) and report.html. Clusters
    are numbered from 1, the largest first.

    \b
    Examples:
      apolar fit flowers.csv -k 3
      apolar fit flowers.csv -k auto --label-column species
      apolar fit flowers.csv -k 2-6 --covariance full,EEE,diag --criterion icl
      apolar fit flowers.csv -k 3 --append --outliers
      apolar fit flowers.csv -k 3 --noise
      apolar fit january.csv february.csv -k 4
      apolar fit - -k 4 --covariance spherical --columns x,y < points.tsv
      apolar fit --sketch sums.npz -k 4
      apolar fit --sketch sums.npz -k 4 --covariance diag

    \b
    Exit code: 0, 2 for bad input, 130 if interrupted. Nothing is half-written.
    """
    if data and sketch is not None:
        raise click.UsageError("Give either DATA or --sketch FILE.")
    if sketch is None:
        need_data(data, "apolar fit - -k 3 < FILE", "Give either DATA or --sketch FILE.")
    if components is None:
        raise click.UsageError("How many clusters? Give -k 3, -k 2-6, or -k auto to have the number chosen.")
    if sketch is not None:
        from apolar.cli.sketch_fit import fit_sketch

        for given, name in (
            (columns, "--columns"),
            (label_column, "--label-column"),
            (drop_missing, "--drop-missing"),
            (noise, "--noise"),
            (append, "--append"),
            (outliers, "--outliers"),
            *((value, f"--{name.replace('_', '-')}") for name, value in reading.items()),
        ):
            if given:
                raise click.UsageError(f"{name} needs the rows: a sketch has only their sums.")
        named = [name for part in covariance for name in part]
        folder = output or default_folder(sketch)
        fit_sketch(Path(sketch), components, named, folder, as_json, standardise)
        return
    numbers = numbers_of_components(components)
    check_sources(data)
    if append:
        check_rereadable(data)
    level = outlier_level(outliers)
    from apolar import __version__
    from apolar._core.checks import is_missing
    from apolar.cli.tables import read_table
    from apolar.cli.tables.findings import KINDS
    from apolar.cli.tables.formats import expand_folders

    sources = [str(source) for source in expand_folders(data)]

    folder = output or default_folder(data[0])
    with Output(folder, reads=sources, is_fit=True) as files, Bar() as bar:
        bar.begin("reading")
        with read_table(
            data,
            columns=column_names(columns),
            label_column=label_column,
            drop_missing=drop_missing,
            keep_missing=True,
            leave_out=KINDS,
            **reading,
        ) as table:
            if table.labels is not None and all(map(is_missing, set(table.labels))):
                raise BadInput("The label column is empty: leave --label-column out.")
            missing = table.missing_line
            from apolar.reports.analysis import analyse

            unreported = "" if no_report else _no_report()
            bar.begin("fitting")
            analysis = analyse(
                table.X,
                table.names,
                numbers,
                covariance_type=families(covariance, table.X.shape[1]),
                labels=table.labels,
                standardise=bool(standardise),
                criterion=criterion,
                noise=noise or False,
                seed=seed,
                outlier_level=level,
                callback=bar.candidates,
            )
            bar.begin("writing")
            model = analysis.model
            written = {
                "labels": files.add_lines("labels.csv", csv_text(label_frames(model, table, level))),
                "model": files.add("model.npz", model.save),
            }
            if append:
                name = table_name(sources[0])
                written["table"] = files.add_lines(name, appended_text(sources, model, table, level, reading))
            if outliers is not None:
                lines = outlier_text(model, table, analysis.predicted, analysis.outliers)
                written["outliers"] = files.add_lines("outliers.csv", lines)
            if not no_report and not unreported:
                from apolar.reports import Provenance, report_page

                provenance = Provenance(
                    table.source,
                    shlex.join(["apolar", *sys.argv[1:]]),
                    seed,
                    __version__,
                    table.n_dropped,
                    notes=table.notes,
                    row_numbers=table.row_numbers,
                )
                page = report_page(analysis, table.X, provenance, wording=in_options)
                written["report"] = files.add_lines("report.html", [page, PAGE_MARK])
    if unreported:
        click.echo(escaped(unreported), err=True)
    outlying = row_numbers_of(analysis.outliers, table.row_numbers)
    if as_json:
        click.echo(json.dumps(as_object(analysis, table, written, outlying), allow_nan=False))
    else:
        sentence = outliers_sentence(outlying, level) if outlying or outliers is not None else ""
        _print(analysis, table, written, missing, sentence)


def _no_report() -> str:
    """Return why there is no report, in one line; empty if there can be one."""
    from apolar.reports.page import need_report

    try:
        need_report()
    except ImportError:
        return (
            'No report is written, as matplotlib and jinja2 are not both there: pip install "apolar[report]".'
        )
    return ""


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def as_object(
    analysis: Analysis, table: TableFile, written: dict[str, Path], outlying: Sequence[int]
) -> dict[str, Any]:
    """Return the result as JSON can hold it."""
    from apolar.reports.text import choice

    model = analysis.model
    return {
        "source": table.source,
        "n_rows": analysis.n_rows,
        "n_dropped": table.n_dropped,
        "n_missing": analysis.n_missing.tolist(),
        "columns": list(analysis.names),
        "notes": list(table.notes),
        "n_components": len(model.weights_),
        "covariance": analysis.covariance_type,
        "standardised": analysis.standardised,
        "weights": model.weights_.tolist(),
        "rows": analysis.counts.tolist(),
        "noise_weight": float(model.noise_weight_),
        "noise_rows": analysis.n_noise,
        "means": model.means_.tolist(),
        "deviations": analysis.deviations.tolist(),
        "log_likelihood": _finite(analysis.log_likelihood),
        **{name: _finite(value) for name, value in analysis.criteria.items()},
        "n_parameters": analysis.n_parameters,
        "converged": bool(model.converged_),
        "start": model.start_,
        "warnings": [in_options(message) for message in analysis.warnings],
        "reason": None if analysis.selection is None else in_options(choice(analysis)),
        "ari": None if analysis.truth is None else analysis.truth.ari,
        "error_rate": None if analysis.truth is None else analysis.truth.error_rate,
        "outliers": list(outlying),
        "outlier_level": analysis.outlier_level,
        "files": {name: str(path) for name, path in written.items()},
    }


def _print(
    analysis: Analysis, table: TableFile, written: dict[str, Path], missing: str, outlying: str
) -> None:
    from rich import box
    from rich.table import Table

    from apolar._core.numbers import with_error
    from apolar.reports.text import agreement, choice, headline

    console, model = new_console(), analysis.model
    for note in table.notes:
        console.print(line(note))
    if table.n_dropped:
        console.print(line(f"Left out {table.n_dropped} rows with missing values."))
    if missing:
        console.print(line(missing))
    console.print(line(headline(analysis)))
    if analysis.selection is not None:
        console.print(line(in_options(choice(analysis))))
    counts, n_components = analysis.counts, len(model.weights_)
    means = [
        [with_error(model.means_[k, j], analysis.deviations[k, j]) for k in range(n_components)]
        for j in range(min(len(analysis.names), MAX_COLUMNS))
    ]
    shown = _shown(analysis.names, means, console.width - FIRST_WIDTH)
    dots = ["..."] if len(analysis.names) > len(shown) else []
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("cluster", "rows", "weight"):
        grid.add_column(name, justify="right", no_wrap=True)
    for name, cells in zip(shown, means, strict=False):
        width = max(max(map(len, cells)), min(len(name), NAME_WIDTH))
        grid.add_column(line(name), justify="right", no_wrap=True, max_width=width)
    for name in dots:
        grid.add_column(name)
    for k in range(n_components):
        of_cluster = [cells[k] for cells in means[: len(shown)]]
        grid.add_row(str(k + 1), f"{counts[k]:,}", f"{model.weights_[k]:.3f}", *of_cluster, *dots)
    if analysis.has_noise:
        empty = [""] * (len(shown) + len(dots))
        grid.add_row("noise", f"{analysis.n_noise:,}", f"{model.noise_weight_:.3f}", *empty)
    console.print(grid)
    console.print(line("Means ± deviations within the cluster."))
    if analysis.truth is not None:
        console.print(line(agreement(analysis)))
    bic = f"BIC {analysis.criteria['bic']:.2f} (lower is better), {analysis.n_parameters} parameters"
    console.print(line(f"{bic}; best start: {model.start_}."))
    if outlying:
        console.print(line(outlying))
    for message in analysis.warnings:
        console.print(line(f"Warning: {in_options(message)}"))
    for name, path in written.items():
        console.print(line(f"{name + ':':10}{path}"))


def _shown(names: Sequence[str], means: Sequence[Sequence[str]], width: int) -> Sequence[str]:
    """Return the names of the columns that the width of the terminal has room for: at least one."""
    used, n_shown = 0, 0
    for name, cells in zip(names, means, strict=False):
        used += max(*map(len, cells), min(len(name), NAME_WIDTH)) + 1
        if used > width:
            break
        n_shown += 1
    return names[: max(n_shown, 1)]
