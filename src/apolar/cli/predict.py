"""`apolar predict`: clusters of new rows, by a model that was saved."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apolar.cli.console import Bar
from apolar.cli.errors import BadInput
from apolar.cli.labels import (
    appended_text,
    check_rereadable,
    cluster_numbers,
    csv_text,
    label_frames,
    outliers_sentence,
    row_numbers_of,
)
from apolar.cli.messages import in_options
from apolar.cli.options import (
    check_sources,
    column_names,
    need_data,
    outlier_level,
    outliers_option,
    reading_options,
)
from apolar.cli.output import Output
from apolar.cli.paths import not_found
from apolar.cli.text import escaped

if TYPE_CHECKING:
    from apolar import GaussianMixture
    from apolar.cli.tables import TableFile


@click.command()
@click.argument("model", type=click.Path())
@click.argument("data", nargs=-1)
@click.option(
    "--columns", metavar="NAMES", help="Columns to use, in the order of the model's; by name by default."
)
@click.option("--drop-missing", is_flag=True, help="Leave out rows with missing values.")
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
    drop_missing: bool,
    output: Path | None,
    append: bool,
    outliers: bool | float | None,
    report: Path | None,
    label_column: str | None,
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
        if target is not None and any(_is_same(target, other) for other in (model, *data)):
            raise BadInput(f"{target} is what is read: choose another {option}.")
    if append and as_json:
        raise click.UsageError("--append writes a table, --json prints an object: leave one of them out.")
    if append:
        check_rereadable(data)
    if label_column is not None and report is None:
        raise click.UsageError("--label-column is for the page: give --report FILE.")
    level = outlier_level(outliers)
    check_sources(data)
    if not Path(model).exists():
        raise BadInput(not_found(Path(model)))
    from apolar.cli.tables import read_table

    mixture = _loaded(model)
    from apolar.reports.scoring import score_table

    if report is not None:
        from apolar.reports.page import need_report

        try:
            need_report()
        except ImportError as error:
            raise BadInput('--report needs matplotlib and jinja2: pip install "apolar[report]".') from error
    names = getattr(mixture, "feature_names_in_", None)
    chosen = column_names(columns) or (None if names is None else [str(name) for name in names])
    with Bar() as bar:
        bar.begin("reading")
        with read_table(
            data,
            columns=chosen,
            label_column=label_column,
            drop_missing=drop_missing,
            keep_missing=True,
            min_rows=1,
            **reading,
        ) as table:
            if table.X.shape[1] != mixture.n_features_in_:
                n_columns = mixture.n_features_in_
                raise BadInput(
                    f"The model has {n_columns} columns, the table {table.X.shape[1]}: use --columns."
                )
            bar.begin("labelling")
            scores = score_table(mixture, table.X, level)
            numbers, missing = table.row_numbers, table.missing_line
            outlying = row_numbers_of(scores.outliers, numbers)
            if report is not None:
                _write_report(report, mixture, table, model, level)
            bar.end()
            if as_json:
                click.echo(json.dumps(_as_object(mixture, table, outlying, level), allow_nan=False))
            elif append:
                _write(appended_text(data, mixture, table, level, reading), output)
            else:
                _write(csv_text(label_frames(mixture, table, level)), output)
    if missing:
        click.echo(escaped(missing), err=True)
    if outliers is not None:
        click.echo(escaped(outliers_sentence(outlying, level)), err=True)
    if output is not None and not as_json:
        click.echo(escaped(f"{len(scores.predicted):,} rows: {output}"), err=True)
    if report is not None:
        click.echo(escaped(f"report: {report}"), err=True)


def _loaded(path: str) -> GaussianMixture:
    """Return the model of a file."""
    from apolar import GaussianMixture

    try:
        return GaussianMixture.load(path)
    except OSError as error:
        raise BadInput(f"Cannot read {path}: {error.strerror or error}.") from error


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

    rows = range(len(table.X)) if table.row_numbers is None else table.row_numbers.tolist()
    clusters: list[int] = []
    certainties: list[float | None] = []
    probabilities: list[list[float | None]] = []
    for scores in score_chunks(mixture, table.X, level):
        clusters += cluster_numbers(scores.predicted).tolist()
        is_far = np.isnan(scores.posteriors[:, 0]).tolist()
        for row, has_none in zip(scores.posteriors.tolist(), is_far, strict=True):
            probabilities.append([None] * len(row) if has_none else row)
            certainties.append(None if has_none else max(row))
    return {
        "row": [row + 1 for row in rows],
        "cluster": clusters,
        "probability": certainties,
        "probabilities": probabilities,
        "outliers": outlying,
        "outlier_level": level,
    }


def _write_report(path: Path, mixture: GaussianMixture, table: TableFile, model: str, level: float) -> None:
    """Write the page on rows under a model that was loaded."""
    from apolar import __version__
    from apolar.reports import Provenance, report_page
    from apolar.reports.analysis import describe

    analysis = describe(mixture, table.X, table.names, labels=table.labels, outlier_level=level)
    n_rows = mixture.n_samples_seen_
    loaded = f"The mixture was loaded from {model}: it was fitted to {n_rows:,.0f} rows, before."
    provenance = Provenance(
        table.source,
        shlex.join(["apolar", *sys.argv[1:]]),
        0,
        __version__,
        table.n_dropped,
        table.skipped,
        (*table.notes, loaded),
    )
    page = report_page(analysis, table.X, provenance, wording=in_options)
    with Output(path.parent) as files:
        files.add_lines(path.name, [page])


def _is_same(output: Path, other: str) -> bool:
    """Return whether two names are those of the same file."""
    return output.exists() and Path(other).exists() and output.samefile(other)
