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

from apolar.cli.console import BadInput, Bar, escape, line, new_console, new_grid
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
from apolar.cli.sketch import fit_sketch

if TYPE_CHECKING:
    from rich.table import Table

    from apolar.cli.tables import TableFile
    from apolar.reports import Provenance
    from apolar.reports.analysis import Analysis

# The width of the other columns of the table of means, that of a name, and the most columns of means.
OTHER_WIDTH, NAME_WIDTH, MAX_COLUMNS = 31, 15, 40


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
        of_rows = {"noise": noise, "append": append, "outliers": outliers, "columns": columns, **reading}
        _refuse_options_of_rows(of_rows)
        named = [name for part in covariance for name in part]
        folder = output or default_folder(sketch)
        fit_sketch(Path(sketch), components, named, folder, as_json, standardise)
        return
    numbers = numbers_of_components(components)
    check_sources(data)
    if append:
        check_rereadable(data)
    level = outlier_level(outliers)
    from apolar._core.checks import is_missing
    from apolar.cli.tables import expand_folders, read_table
    from apolar.cli.tables.findings import KINDS

    sources = [str(source) for source in expand_folders(data)]
    folder = output or default_folder(data[0])
    with Output(folder, reads=sources, is_fit=True) as files, Bar() as bar:
        bar.begin("reading")
        chosen: dict[str, Any] = {"columns": column_names(columns), "keep_missing": True, "leave_out": KINDS}
        with read_table(data, **chosen, **reading) as table:
            if table.labels is not None and all(map(is_missing, set(table.labels))):
                raise BadInput("The label column is empty: leave --label-column out.")
            from apolar.reports.analysis import analyse

            unreported = "" if no_report else why_no_report()
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
                text = appended_text(sources, model, table, level, reading)
                written["table"] = files.add_lines(table_name(sources[0]), text)
            if outliers is not None:
                text = outlier_text(model, table, analysis.predicted, analysis.outliers)
                written["outliers"] = files.add_lines("outliers.csv", text)
            if not no_report and not unreported:
                from apolar.reports import report_page

                page = report_page(analysis, table.X, provenance(table, seed, row_numbers=table.row_numbers))
                written["report"] = files.add_lines("report.html", [page, PAGE_MARK])
    if unreported:
        click.echo(escape(unreported), err=True)
    _show(analysis, table, written, as_json=as_json, lists_outliers=outliers is not None)


def _show(
    analysis: Analysis, table: TableFile, written: dict[str, Path], *, as_json: bool, lists_outliers: bool
) -> None:
    """Print the result, as text or as one object."""
    outlying = row_numbers_of(analysis.outliers, table.row_numbers)
    if as_json:
        click.echo(json.dumps(_as_object(analysis, table, written, outlying), allow_nan=False))
    else:
        is_told = bool(outlying) or lists_outliers
        _print(
            analysis, table, written, outliers_sentence(outlying, analysis.outlier_level) if is_told else ""
        )


def _refuse_options_of_rows(given: dict[str, Any]) -> None:
    """Refuse options that a sketch has no rows for."""
    for name, value in given.items():
        if value:
            raise click.UsageError(
                f"--{name.replace('_', '-')} needs the rows: a sketch has only their sums."
            )


def provenance(table: TableFile, seed: int, *notes: str, **details: Any) -> Provenance:
    """Return what a page says about how it was made."""
    from apolar import __version__
    from apolar.reports import Provenance

    command = shlex.join(["apolar", *sys.argv[1:]])
    notes = (*table.notes, *notes)
    return Provenance(table.source, command, seed, __version__, table.n_dropped, notes=notes, **details)


def why_no_report() -> str:
    """Return why there is no report, in one line; empty if there can be one."""
    from apolar.reports.page import need_report

    try:
        need_report()
    except ImportError:
        return 'No report can be written: it needs matplotlib and jinja2, pip install "apolar[report]".'
    return ""


def _warnings_of(analysis: Analysis) -> list[str]:
    """Return the warnings of a fit, that it stopped early the first."""
    from apolar.reports.text import NOT_CONVERGED

    return [*([] if analysis.model.converged_ else [NOT_CONVERGED]), *analysis.warnings]


def _as_object(
    analysis: Analysis, table: TableFile, written: dict[str, Path], outlying: Sequence[int]
) -> dict[str, Any]:
    """Return the result as JSON can hold it: null for numbers that are not finite."""
    from apolar.reports.text import choice

    model = analysis.model
    likelihoods = {"log_likelihood": analysis.log_likelihood, **analysis.criteria}
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
        **{name: float(value) if math.isfinite(value) else None for name, value in likelihoods.items()},
        "n_parameters": analysis.n_parameters,
        "converged": bool(model.converged_),
        "start": model.start_,
        "warnings": _warnings_of(analysis),
        "reason": None if analysis.selection is None else choice(analysis),
        "ari": None if analysis.truth is None else analysis.truth.ari,
        "error_rate": None if analysis.truth is None else analysis.truth.error_rate,
        "outliers": list(outlying),
        "outlier_level": analysis.outlier_level,
        "files": {name: str(path) for name, path in written.items()},
    }


def _print(analysis: Analysis, table: TableFile, written: dict[str, Path], outlying: str) -> None:
    from apolar.reports.text import agreement, choice, headline

    console = new_console()
    dropped = f"Left out {table.n_dropped} rows with missing values." if table.n_dropped else ""
    reason = "" if analysis.selection is None else choice(analysis)
    for text in (*table.notes, dropped, table.missing_line, headline(analysis), reason):
        if text:
            console.print(line(text))
    console.print(_means_grid(analysis, console.width))
    bic = f"BIC {analysis.criteria['bic']:.2f} (lower is better), {analysis.n_parameters} parameters"
    for text in (
        "Means ± standard deviations within the cluster.",
        "" if analysis.truth is None else agreement(analysis),
        f"{bic}; best start: {analysis.model.start_}.",
        outlying,
        *(f"Warning: {message}" for message in _warnings_of(analysis)),
        *(f"{name + ':':10}{path}" for name, path in written.items()),
    ):
        if text:
            console.print(line(text))


def _means_grid(analysis: Analysis, width: int) -> Table:
    """Return the means of the clusters, of as many columns as the terminal has room for."""
    from apolar._core.numbers import with_error

    model, counts, n_components = analysis.model, analysis.counts, len(analysis.model.weights_)
    grid = new_grid("cluster", "rows", "weight")
    shown: list[list[str]] = []
    used = OTHER_WIDTH
    for j, name in enumerate(analysis.names[:MAX_COLUMNS]):
        cells = [with_error(model.means_[k, j], analysis.deviations[k, j]) for k in range(n_components)]
        column_width = max(*map(len, cells), min(len(name), NAME_WIDTH))
        used += column_width + 2  # a space on each side
        if used > width and shown:
            break
        grid.add_column(line(name), justify="right", no_wrap=True, max_width=column_width)
        shown.append(cells)
    dots = ["..."] if len(analysis.names) > len(shown) else []
    for name in dots:
        grid.add_column(name)
    for k in range(n_components):
        cells = [column[k] for column in shown]
        grid.add_row(str(k + 1), f"{counts[k]:,}", f"{model.weights_[k]:.3f}", *cells, *dots)
    if analysis.has_noise:
        grid.add_row("noise", f"{analysis.n_noise:,}", f"{model.noise_weight_:.3f}")
    return grid
