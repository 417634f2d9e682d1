"""`apolar predict`: clusters of new rows, by a model that was saved."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from apolar.cli.console import Bar
from apolar.cli.errors import BadInput
from apolar.cli.labels import cluster_numbers, label_lines
from apolar.cli.options import check_sources, column_names, reading_options
from apolar.cli.output import Output
from apolar.cli.paths import not_found
from apolar.cli.text import escaped


@click.command()
@click.argument("model", type=click.Path())
@click.argument("data", nargs=-1, required=True)
@click.option(
    "--columns", metavar="NAMES", help="Columns to use, in the order of the model's; by name by default."
)
@click.option("--drop-missing", is_flag=True, help="Leave out rows with missing values.")
@reading_options
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="File for the labels; standard output by default."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with the labels.")
def predict(
    model: str,
    data: tuple[str, ...],
    columns: str | None,
    drop_missing: bool,
    output: Path | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Assign the rows of a table to the clusters of a model.

    MODEL is the model.npz that `apolar fit` wrote; DATA has the same columns,
    in any order. One line per row: its number, its cluster, the probability.

    \b
    Examples:
      apolar predict apolar-flowers/model.npz more.csv -o labels.csv
      apolar predict model.npz - < more.csv

    \b
    Exit code: 0, 2 for bad input, 130 if interrupted.
    """
    if output is not None and str(output) == "-":
        output = None
    if output is not None and any(_is_same(output, other) for other in (model, *data)):
        raise BadInput(f"{output} is what is read: choose another -o.")
    check_sources(data)
    if not Path(model).exists():
        raise BadInput(not_found(Path(model)))
    from apolar import GaussianMixture
    from apolar.cli.tables import read_table
    from apolar.reports.analysis import scored

    try:
        mixture = GaussianMixture.load(model)
    except OSError as error:
        raise BadInput(f"Cannot read {model}: {error.strerror or error}.") from error
    names = getattr(mixture, "feature_names_in_", None)
    chosen = column_names(columns) or (None if names is None else [str(name) for name in names])
    with Bar() as bar:
        bar.begin("reading")
        with read_table(
            data,
            columns=chosen,
            drop_missing=drop_missing,
            keep_missing=True,
            least_rows=1,
            progress=bar.reading,
            **reading,
        ) as table:
            if table.X.shape[1] != mixture.n_features_in_:
                n_columns = mixture.n_features_in_
                raise BadInput(
                    f"The model has {n_columns} columns, the table {table.X.shape[1]}: use --columns."
                )
            bar.begin("labelling")
            predicted, uncertainty, _ = scored(mixture, table.X)
            numbers, missing = table.row_numbers, table.missing_line
    if missing:
        click.echo(escaped(missing), err=True)
    if as_json:
        rows = range(1, len(predicted) + 1) if numbers is None else (numbers + 1).tolist()
        object_ = {
            "row": list(rows),
            "cluster": cluster_numbers(predicted),
            "probability": (1 - uncertainty).tolist(),
        }
        click.echo(json.dumps(object_, allow_nan=False))
    elif output is None:
        sys.stdout.writelines(label_lines(predicted, uncertainty, numbers))
    else:
        with Output(output.parent) as files:
            files.add_lines(output.name, label_lines(predicted, uncertainty, numbers))
        click.echo(escaped(f"{len(predicted):,} rows: {output}"), err=True)


def _is_same(output: Path, other: str) -> bool:
    """Return whether two names are those of the same file."""
    return output.exists() and Path(other).exists() and output.samefile(other)
