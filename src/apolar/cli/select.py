"""`apolar select`: how many components, of which form."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apolar.cli.console import Bar, escape, escape_lines
from apolar.cli.options import (
    check_sources,
    column_names,
    families,
    mixture_options,
    need_data,
    numbers_of_components,
    table_options,
)
from apolar.cli.output import Output

if TYPE_CHECKING:
    from apolar.selection import Row


@click.command()
@click.argument("data", nargs=-1)
@mixture_options(components="1-9")
@table_options
@click.option("--label-column", metavar="NAME", help="A column to leave out, such as known classes.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder for selection.csv.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def select(
    data: tuple[str, ...],
    components: str,
    covariance: tuple[tuple[str, ...], ...],
    criterion: str,
    noise: bool | float | None,
    standardise: bool | None,
    seed: int,
    columns: str | None,
    output: Path | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Compare numbers and forms of clusters.

    By default 1 to 9 clusters of every form; `apolar fit` takes the same
    options, and fits the best.

    \b
    Examples:
      apolar select flowers.csv
      apolar select flowers.csv -k 2-6 --covariance full,EEE,diag --criterion icl

    \b
    Exit code: 0, 2 for bad input, 130 if interrupted.
    """
    need_data(data, "apolar select - < FILE")
    numbers = numbers_of_components(components)
    check_sources(data)
    import numpy as np

    from apolar.cli.tables import read_table
    from apolar.cli.tables.findings import KINDS
    from apolar.reports.scoring import column_deviations, column_statistics, select_in_units

    with Bar() as bar:
        bar.begin("reading")
        reading |= {"columns": column_names(columns), "keep_missing": True, "leave_out": KINDS}
        with read_table(data, **reading) as table, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are in the table of the selection
            bar.begin("comparing")
            mean, variances, n_missing = column_statistics(table.X, table.names)
            selection = select_in_units(
                table.X,
                [numbers] if isinstance(numbers, int) else numbers,
                families(covariance, table.X.shape[1]),
                criterion,
                units=column_deviations(mean, variances, table.names) if standardise else np.ones(len(mean)),
                n_missing=n_missing,
                random_state=seed,
                noise=noise or False,
                callback=bar.candidates,
            )
    rows = [_as_cells(row) for row in selection.table]
    if output is not None:
        import polars as pl

        with Output(output, reads=data) as files:
            files.add_lines("selection.csv", [pl.DataFrame(rows, infer_schema_length=None).write_csv()])
    if not as_json:
        for note in (*table.notes, table.missing_line):
            click.echo(escape(note), nl=bool(note))
        click.echo(escape_lines(str(selection)))
        return
    best = {"covariance": selection.best.covariance_type, "components": selection.best.n_components}
    result = {"best": best, "criterion": criterion, "reason": selection.reason, "table": rows}
    result |= {"columns": list(table.names), "notes": list(table.notes)}
    click.echo(json.dumps(result, allow_nan=False))


def _as_cells(row: Row) -> dict[str, Any]:
    """Return a candidate by the names of the columns that are written; None for numbers it has not."""
    from apolar.scores import CRITERIA

    values = {name: getattr(row, name) for name in ("log_likelihood", *CRITERIA)}
    return {
        "covariance": row.covariance_type,
        "components": row.n_components,
        "parameters": row.n_parameters,
        **{name: float(value) if math.isfinite(value) else None for name, value in values.items()},
        "converged": row.converged,
        "failed": row.failed or "",
        "dropped": row.dropped or "",
    }
