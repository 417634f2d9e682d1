"""`apolar select`: how many components, of which form."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apolar.cli.console import Bar, new_console
from apolar.cli.messages import in_options
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
from apolar.cli.text import escaped_lines

if TYPE_CHECKING:
    from apolar.cli.tables import TableFile
    from apolar.selection import Row, Selection


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
    drop_missing: bool,
    label_column: str | None,
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
    from apolar.cli.tables import read_table
    from apolar.cli.tables.findings import KINDS

    with Bar() as bar:
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
            missing = table.missing_line
            bar.begin("comparing")
            selection = _selected(
                table,
                [numbers] if isinstance(numbers, int) else numbers,
                families(covariance, table.X.shape[1]),
                criterion,
                standardise=bool(standardise),
                random_state=seed,
                noise=noise or False,
                callback=bar.candidates,
            )
    if output is not None:
        with Output(output, reads=data) as files:
            files.add_lines("selection.csv", [_as_csv(selection)])
    reason = in_options(selection.reason)
    if as_json:
        rows = [{name: _plain(cell) for name, cell in _cells(row).items()} for row in selection.table]
        best = {"covariance": selection.best.covariance_type, "components": selection.best.n_components}
        result = {"best": best, "criterion": criterion, "reason": reason, "table": rows}
        result |= {"columns": list(table.names), "notes": list(table.notes)}
        click.echo(json.dumps(result, allow_nan=False))
    else:
        from rich.text import Text

        for note in (*table.notes, *([missing] if missing else [])):
            new_console().print(Text(escaped_lines(note)))
        new_console().print(Text(escaped_lines(in_options(str(selection)))))


def _selected(
    table: TableFile, numbers: list[int], kinds: Any, criterion: str, *, standardise: bool, **parameters: Any
) -> Selection:
    import warnings

    import numpy as np

    from apolar.reports.standardise import column_deviations, column_statistics, select_in_units

    mean, variances, n_missing = column_statistics(table.X, table.names)
    units = column_deviations(mean, variances, table.names) if standardise else np.ones(len(mean))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are in the table
        return select_in_units(
            table.X, numbers, kinds, criterion, units=units, n_missing=n_missing, **parameters
        )


def _cells(row: Row) -> dict[str, Any]:
    """Return a candidate by the names of the columns of the table that is written."""
    from apolar.scores import CRITERIA

    return {
        "covariance": row.covariance_type,
        "components": row.n_components,
        "parameters": row.n_parameters,
        "log_likelihood": row.log_likelihood,
        **{name: getattr(row, name) for name in CRITERIA},
        "converged": row.converged,
        "failed": in_options(row.failed or ""),
        "dropped": row.dropped or "",
    }


def _plain(cell: Any) -> Any:
    """Return a cell as JSON can hold it."""
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def _as_csv(selection: Selection) -> str:
    import csv
    import io

    buffer = io.StringIO()
    rows = [_cells(row) for row in selection.table]
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: "" if _plain(cell) is None else cell for name, cell in row.items()})
    return buffer.getvalue()
