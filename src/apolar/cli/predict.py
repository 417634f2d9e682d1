"""`apolar predict`: clusters of new rows, by a model that was saved."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apolar.cli.console import BadInput, Bar, escape
from apolar.cli.fit import provenance, why_no_report
from apolar.cli.labels import (
    appended_text,
    check_rereadable,
    cluster_numbers,
    csv_text,
    label_frames,
    outliers_sentence,
    row_numbers_of,
)
from apolar.cli.options import (
    check_sources,
    column_names,
    need_data,
    outlier_level,
    outliers_option,
    reading_options,
)
from apolar.cli.output import Output

if TYPE_CHECKING:
    from apolar import GaussianMixture
    from apolar.cli.tables import TableFile


@click.command()
@click.argument("model", type=click.Path())
@click.argument("data", nargs=-1)
@click.option(
    "--columns", metavar="NAMES", help="Columns to use, in the order of the model's; by name by default."
)
@reading_options
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="File for the labels; standard output by default."
)
@click.option("--append", is_flag=True, help="In place of the labels, write DATA with them at the right.")
@outliers_option
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write a page on the rows, such as report.html.",
)
@click.option(
    "--label-column", metavar="NAME", help="Known classes, to compare the clusters with, for --report."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with the labels.")
def predict(
    model: str,
    data: tuple[str, ...],
    columns: str | None,
    output: Path | None,
    append: bool,
    outliers: bool | float | None,
    report: Path | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Assign the rows of a table to the clusters of a model.

    MODEL is the model.npz that `apolar fit` wrote; DATA has the same columns,
    in any order, or is - for standard input. One line per row: its number, its
    cluster, the probability, whether it is an outlier, and the probability of
    each cluster.

    \b
    Examples:
      apolar predict apolar-flowers/model.npz more.csv -o labels.csv
      apolar predict model.npz more.csv --append -o more-clusters.csv
      apolar predict model.npz more.csv --report more.html -o labels.csv
      apolar predict model.npz - < more.csv

    \b
    Exit code: 0, 2 for bad input, 130 if interrupted.
    """
    need_data(data, "apolar predict MODEL - < FILE")
    if output is not None and str(output) == "-":
        output = None
    for target, option in ((output, "-o"), (report, "--report")):
        inputs = [path for path in map(Path, (model, *data)) if path.exists()]
        if target is not None and target.exists() and any(map(target.samefile, inputs)):
            raise BadInput(f"Output file {target} is also an input; choose another {option}.")
    if append and as_json:
        raise click.UsageError("--append writes a table, --json prints an object: leave one of them out.")
    if append:
        check_rereadable(data)
    if reading["label_column"] is not None and report is None:
        raise click.UsageError("--label-column is for the page: give --report FILE.")
    level = outlier_level(outliers)
    check_sources([*data, model])
    from apolar import GaussianMixture
    from apolar.cli.tables import read_table
    from apolar.reports.scoring import score_table

    try:
        mixture = GaussianMixture.load(model)
    except OSError as error:
        raise BadInput(f"Cannot read {model}: {error.strerror or error}.") from error
    if report is not None and (problem := why_no_report()):
        raise BadInput(problem)
    names = getattr(mixture, "feature_names_in_", None)
    chosen = column_names(columns) or (None if names is None else [str(name) for name in names])
    with Bar() as bar:
        bar.begin("reading")
        with read_table(data, columns=chosen, keep_missing=True, min_rows=1, **reading) as table:
            if table.X.shape[1] != mixture.n_features_in_:
                n_columns = mixture.n_features_in_
                raise BadInput(
                    f"The model has {n_columns} columns, the table {table.X.shape[1]}: use --columns."
                )
            bar.begin("labelling")
            scores = score_table(mixture, table.X, level)
            outlying = row_numbers_of(scores.outliers, table.row_numbers)
            if report is not None:
                _write_report(report, mixture, table, model, level)
            bar.end()
            if as_json:
                click.echo(json.dumps(_as_object(mixture, table, outlying, level), allow_nan=False))
            else:
                labels = csv_text(label_frames(mixture, table, level))
                lines = appended_text(data, mixture, table, level, reading) if append else labels
                _write(lines, output)
    for sentence in (
        table.missing_line,
        outliers_sentence(outlying, level) if outliers is not None else "",
        f"{len(scores.predicted):,} rows: {output}" if output is not None and not as_json else "",
        f"report: {report}" if report is not None else "",
    ):
        if sentence:
            click.echo(escape(sentence), err=True)


def _write(lines: Iterable[str], output: Path | None) -> None:
    """Write lines to a file, or to standard output."""
    if output is None:
        sys.stdout.writelines(lines)
        return
    with Output(output.parent) as files:
        files.add_lines(output.name, lines)


def _as_object(
    mixture: GaussianMixture, table: TableFile, outlying: list[int], level: float
) -> dict[str, Any]:
    """Return the labels as JSON can hold them; null where there is no probability."""
    import numpy as np

    from apolar.reports.scoring import score_chunks

    chunks = list(score_chunks(mixture, table.X, level))
    numbers = np.arange(len(table.X)) if table.row_numbers is None else table.row_numbers
    exact = np.concatenate([chunk.posteriors for chunk in chunks])
    rows = [None if np.isnan(row[0]) else row for row in exact.tolist()]
    return {
        "row": (numbers + 1).tolist(),
        "cluster": cluster_numbers(np.concatenate([chunk.predicted for chunk in chunks])).tolist(),
        "probability": [None if row is None else max(row) for row in rows],
        "probabilities": [[None] * exact.shape[1] if row is None else row for row in rows],
        "outliers": outlying,
        "outlier_level": level,
    }


def _write_report(path: Path, mixture: GaussianMixture, table: TableFile, model: str, level: float) -> None:
    """Write the page on rows under a model that was loaded."""
    from apolar.reports import report_page
    from apolar.reports.analysis import describe

    analysis = describe(mixture, table.X, table.names, labels=table.labels, outlier_level=level)
    n_rows = mixture.n_samples_seen_
    loaded = f"The mixture was loaded from {model}: it was fitted to {n_rows:,.0f} rows, before."
    page = report_page(analysis, table.X, provenance(table, 0, loaded))
    with Output(path.parent) as files:
        files.add_lines(path.name, [page])
