"""`apolar predict`: clusters of new rows, by a model that was saved."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apolar.cli.console import BadInput, Bar, print_object, say
from apolar.cli.fit_command import provenance
from apolar.cli.options import (
    GroupedCommand,
    check_sources,
    id_option,
    json_option,
    outliers_option,
    reading_options,
)
from apolar.cli.output import (
    Output,
    appended_text,
    check_rereadable,
    label_frames,
    label_lines,
    outliers_sentence,
)

if TYPE_CHECKING:
    import polars as pl


@click.command(cls=GroupedCommand)
@click.argument("model", type=click.Path())
@click.argument("data", nargs=-1)
@reading_options
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="File for the labels; standard output by default."
)
@click.option("--append", is_flag=True, help="Instead of the labels, write DATA with them at the right.")
@outliers_option
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write a page on the rows, such as report.html.",
)
@click.option(
    "--label-column", metavar="NAME", help="Known classes, to compare the clusters with, for --report."
)
@id_option
@json_option
def predict(
    model: str,
    data: tuple[str, ...],
    columns: list[str] | None,
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
      apolar predict apolar-iris/model.npz more.csv -o labels.csv
      apolar predict model.npz more.csv --append -o more-clusters.csv
      apolar predict model.npz more.csv --report more.html -o labels.csv
      apolar predict model.npz - < more.csv

    \b
    Exit code: 0, 2 for bad input, 130 if interrupted.
    """
    check_sources(data)
    if output is not None and str(output) == "-":
        output = None
    if append and as_json:
        raise click.UsageError("--append writes a table, --json prints an object: leave one of them out.")
    if append:
        check_rereadable(data)
    if reading["label_column"] is not None and report is None:
        raise click.UsageError("--label-column is for the page: give --report FILE.")
    check_sources([model])
    from apolar import GaussianMixture
    from apolar.cli.tables import read_table
    from apolar.reports import report_page
    from apolar.reports.analysis import describe
    from apolar.reports.page import need_report
    from apolar.reports.scoring import OUTLIER_LEVEL, TableScores, score_table

    level = outliers if isinstance(outliers, float) else OUTLIER_LEVEL
    mixture = GaussianMixture.load(model)
    if report is not None:
        need_report()
    names = getattr(mixture, "feature_names_in_", None)
    chosen = columns or (None if names is None else [str(name) for name in names])
    with Bar() as bar:
        bar.begin("reading")
        table = read_table(data, columns=chosen, keep_missing=True, min_rows=1, **reading)
        if table.X.shape[1] != mixture.n_features_in_:
            n_columns = mixture.n_features_in_
            raise BadInput(f"The model has {n_columns} columns, the table {table.X.shape[1]}: use --columns.")
        bar.begin("labelling")
        scores: TableScores
        if report is None:
            scores = score_table(mixture, table.X, level)
        else:
            labels = table.labels
            scores = describe(mixture, table.X, table.names, labels=labels, outlier_level=level)
            n_rows = f"{mixture.n_samples_seen_:,.0f} rows"
            loaded = f"The mixture was loaded from {model}: it was fitted to {n_rows}."
            page = report_page(scores, table.X, provenance(table, 0, loaded))
            with Output(report.parent, reads=[model, *data]) as files:
                files.add_lines(report.name, [page])
        bar.end()
        outlying = (table.row_numbers[scores.outliers] + 1).tolist()
        frames = label_frames(mixture, table, scores)
        lines = appended_text(data, mixture, table, scores, reading) if append else label_lines(frames)
        if as_json:
            answer = _as_object(frames) | {"outliers": outlying, "outlier_level": level}
            print_object(answer)
        elif output is None:
            sys.stdout.writelines(lines)
        else:
            with Output(output.parent, reads=[model, *data]) as files:
                files.add_lines(output.name, lines)
    say(
        table.missing_line,
        outliers_sentence(outlying, level) if outliers is not None else "",
        f"{len(table.row_numbers):,} rows: {output}" if output is not None and not as_json else "",
        f"report: {report}" if report is not None else "",
        err=True,
    )


def _as_object(frames: Iterator[pl.DataFrame]) -> dict[str, Any]:
    """Return labels as JSON can hold them; null where there is no probability."""
    import polars as pl

    labels = pl.concat(frames)
    columns = labels.select("row", "cluster", "probability").to_dict(as_series=False)
    return columns | {"probabilities": [list(row) for row in labels.select("^p(\\d+|_noise)$").rows()]}
