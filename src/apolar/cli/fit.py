"""`apolar fit`: clusters of a table, a model, and a report."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apolar.cli.console import Bar, line, new_console
from apolar.cli.errors import BadInput
from apolar.cli.labels import label_lines
from apolar.cli.messages import in_options
from apolar.cli.options import (
    FAMILY,
    MOST_COMPONENTS,
    check_sources,
    column_names,
    default_folder,
    noise_option,
    numbers_of_components,
    table_options,
)
from apolar.cli.output import Output

if TYPE_CHECKING:
    from apolar.cli.tables import TableFile
    from apolar.reports.analysis import Analysis

# The widths of the first columns of the table of means, and of each mean.
FIRST_WIDTH, MEAN_WIDTH = 26, 15


@click.command()
@click.argument("data", nargs=-1)
@click.option("-k", "--components", required=True, metavar="K", help="How many: 4, 2-6, or auto.")
@click.option(
    "--covariance",
    type=FAMILY,
    help="The form of the components, such as full, tied, diag, spherical, or mclust's code for it; full by "
    "default, chosen with -k auto.",
)
@table_options
@noise_option
@click.option("--label-column", metavar="NAME", help="Known classes, to compare the clusters with.")
@click.option(
    "--standardise/--no-standardise",
    "--standardize/--no-standardize",
    default=None,
    help="Divide columns by their deviations first; by default only of a sketch in mixed units.",
)
@click.option(
    "--sketch", type=click.Path(dir_okay=False), help="A sketch in place of DATA: spherical, no labels."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder for the results; apolar-DATA.")
@click.option("--no-report", is_flag=True, help="Write labels and model only.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def fit(
    data: tuple[str, ...],
    components: str,
    covariance: str | None,
    columns: str | None,
    label_column: str | None,
    drop_missing: bool,
    noise: bool | float | None,
    standardise: bool | None,
    sketch: str | None,
    output: Path | None,
    no_report: bool,
    seed: int,
    as_json: bool,
    **reading: Any,
) -> None:
    """Find clusters in a table: labels, model and report.

    DATA is a CSV, TSV, Parquet, Feather, NPY or XLSX file, several of them or
    a folder, or - for standard input. Columns that are numbers are used, but
    for those that cannot be clustered by: they are named. The results go to a folder: labels.csv
    (row, cluster, probability), model.npz (for `apolar predict`) and
    report.html. Clusters are numbered from 1, the largest first.

    \b
    Examples:
      apolar fit flowers.csv -k 3
      apolar fit flowers.csv -k auto --label-column species
      apolar fit flowers.csv -k 3 --noise
      apolar fit january.csv february.csv -k 4
      apolar fit - -k 4 --covariance spherical --columns x,y < points.tsv
      apolar fit --sketch sums.npz -k 4

    \b
    Exit code: 0, 2 for bad input, 130 if interrupted. Nothing is half-written.
    """
    if (not data) == (sketch is None):
        raise click.UsageError("Give either DATA or --sketch FILE.")
    if sketch is not None:
        from apolar.cli.sketch import fit_sketch

        for given, name in (
            (columns, "--columns"),
            (label_column, "--label-column"),
            (drop_missing, "--drop-missing"),
            (noise, "--noise"),
            *((value, f"--{name.replace('_', '-')}") for name, value in reading.items()),
        ):
            if given:
                raise click.UsageError(f"{name} needs the rows: a sketch has only their sums.")
        folder = output or default_folder(sketch)
        fit_sketch(Path(sketch), components, covariance, folder, as_json, standardise)
        return
    numbers = numbers_of_components(components, MOST_COMPONENTS)
    folder = output or default_folder(data[0])
    check_sources(data)
    from apolar import __version__
    from apolar._core.checks import is_missing
    from apolar.cli.tables import read_table
    from apolar.data.findings import KINDS

    with Output(folder) as files, Bar() as bar:
        bar.begin("reading")
        with read_table(
            data,
            columns=column_names(columns),
            label_column=label_column,
            drop_missing=drop_missing,
            keep_missing=True,
            leave_out=KINDS,
            progress=bar.reading,
            **reading,
        ) as table:
            if label_column is not None and all(map(is_missing, table.label_names)):
                raise BadInput("The label column is empty: leave --label-column out.")
            missing = table.missing_line
            # These take a second or two to load: a table that cannot be read is refused before.
            from apolar.reports.analysis import analysed

            if not no_report:
                from apolar.reports.page import need_report

                need_report()
            bar.begin("fitting")
            analysis = analysed(
                table.X,
                table.names,
                numbers,
                covariance_type=covariance,
                labels=table.labels,
                standardise=bool(standardise),
                noise=noise or False,
                seed=seed,
            )
            bar.begin("writing")
            written = {
                "labels": files.add_lines(
                    "labels.csv", label_lines(analysis.predicted, analysis.uncertainty, table.row_numbers)
                ),
                "model": files.add("model.npz", analysis.model.save),
            }
            if not no_report:
                from apolar.reports import Provenance, report_page

                provenance = Provenance(
                    table.source,
                    shlex.join(["apolar", *sys.argv[1:]]),
                    seed,
                    __version__,
                    table.n_dropped,
                    notes=table.notes,
                )
                page = report_page(analysis, table.X, provenance, wording=in_options)
                written["report"] = files.add_lines("report.html", [page])
    if as_json:
        click.echo(json.dumps(as_object(analysis, table, written), allow_nan=False))
    else:
        _print(analysis, table, written, missing)


def as_object(analysis: Analysis, table: TableFile, written: dict[str, Path]) -> dict[str, Any]:
    """Return the result as JSON can hold it."""
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
        "log_likelihood": analysis.log_likelihood,
        **analysis.criteria,
        "n_parameters": analysis.n_parameters,
        "converged": bool(model.converged_),
        "start": model.start_,
        "warnings": list(analysis.warnings),
        "reason": None if analysis.selection is None else analysis.selection.reason,
        "ari": None if analysis.truth is None else analysis.truth.ari,
        "error_rate": None if analysis.truth is None else analysis.truth.error_rate,
        "files": {name: str(path) for name, path in written.items()},
    }


def _print(analysis: Analysis, table: TableFile, written: dict[str, Path], missing: str) -> None:
    from rich import box
    from rich.table import Table

    from apolar.reports.words import agreement, headline

    console, model = new_console(), analysis.model
    for note in table.notes:
        console.print(line(note))
    if table.n_dropped:
        console.print(line(f"Left out {table.n_dropped} rows with missing values."))
    if missing:
        console.print(line(missing))
    console.print(line(headline(analysis)))
    if analysis.selection is not None:
        console.print(line(in_options(analysis.selection.reason)))
    shown = analysis.names[: max((console.width - FIRST_WIDTH) // MEAN_WIDTH, 1)]
    counts = analysis.counts
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("cluster", "rows", "weight", *shown, *(["..."] if len(analysis.names) > len(shown) else [])):
        grid.add_column(line(name), justify="right", no_wrap=True, max_width=MEAN_WIDTH)
    for k in range(len(model.weights_)):
        means = [
            f"{mean:.4g} ± {deviation:.2g}"
            for mean, deviation in zip(model.means_[k], analysis.deviations[k], strict=True)
        ]
        cells = [str(k + 1), f"{counts[k]:,}", f"{model.weights_[k]:.3f}", *means[: len(shown)]]
        grid.add_row(*(line(cell) for cell in cells), *(["..."] if len(analysis.names) > len(shown) else []))
    if analysis.has_noise:
        empty = [""] * (len(shown) + (len(analysis.names) > len(shown)))
        grid.add_row("noise", f"{analysis.n_noise:,}", f"{model.noise_weight_:.3f}", *empty)
    console.print(grid)
    console.print(line("Means ± deviations within the cluster."))
    if analysis.truth is not None:
        console.print(line(agreement(analysis)))
    bic = f"BIC {analysis.criteria['bic']:.2f} (lower is better), {analysis.n_parameters} parameters"
    console.print(line(f"{bic}; best start: {model.start_}."))
    for message in analysis.warnings:
        console.print(line(f"Warning: {in_options(message)}"))
    for name, path in written.items():
        console.print(line(f"{name + ':':8}{path}"))
