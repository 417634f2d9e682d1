"""`apolar select`: how many components, of which form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apolar.cli.console import Bar, new_console
from apolar.cli.messages import in_options
from apolar.cli.options import (
    CRITERION,
    FAMILY,
    MOST_COMPONENTS,
    check_sources,
    column_names,
    noise_option,
    numbers_of_components,
    table_options,
)
from apolar.cli.output import Output
from apolar.cli.text import escaped_lines

if TYPE_CHECKING:
    from apolar.selection import Row, Selection


@click.command()
@click.argument("data", nargs=-1, required=True)
@click.option("--components", default="1-9", show_default=True, metavar="K", help="Such as 1-9 or 2,4,8.")
@click.option(
    "--covariance",
    multiple=True,
    type=FAMILY,
    help="Forms to try, such as full, tied, diag, spherical, or mclust's codes; may be repeated. By default "
    "all of them.",
)
@click.option(
    "--criterion",
    type=CRITERION,
    default="bic",
    show_default=True,
    help="What decides: bic, aic, icl or evidence.",
)
@table_options
@noise_option
@click.option("--label-column", metavar="NAME", help="A column to leave out, such as known classes.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder for selection.csv.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def select(
    data: tuple[str, ...],
    components: str,
    covariance: tuple[str, ...],
    criterion: str,
    columns: str | None,
    label_column: str | None,
    drop_missing: bool,
    noise: bool | float | None,
    output: Path | None,
    seed: int,
    as_json: bool,
    **reading: Any,
) -> None:
    """Compare numbers and forms of components.

    \b
    Examples:
      apolar select flowers.csv --components 1-9
      apolar select flowers.csv --covariance full --covariance tied --criterion icl

    \b
    Exit code: 0, 2 for bad input, 130 if interrupted.
    """
    numbers = numbers_of_components(components, MOST_COMPONENTS)
    wanted = [numbers] if isinstance(numbers, int) else numbers
    check_sources(data)
    from apolar.cli.tables import read_table
    from apolar.data.findings import KINDS

    with Bar() as bar:
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
            missing = table.missing_line
            bar.begin("comparing")
            selection = _selected(table.X, wanted, covariance or None, criterion, seed, noise or False)
    if output is not None:
        with Output(output) as files:
            files.add_lines("selection.csv", [_as_csv(selection)])
    if as_json:
        rows = [{name: _plain(cell) for name, cell in _cells(row).items()} for row in selection.table]
        best = {"covariance": selection.best.covariance_type, "components": selection.best.n_components}
        result = {"best": best, "criterion": criterion, "reason": selection.reason, "table": rows}
        result |= {"columns": list(table.names), "notes": list(table.notes)}
        click.echo(json.dumps(result))
    else:
        from rich.text import Text

        for note in (*table.notes, *([missing] if missing else [])):
            new_console().print(Text(escaped_lines(note)))
        new_console().print(Text(escaped_lines(in_options(str(selection)))))


def _selected(
    X: Any, numbers: list[int], kinds: Any, criterion: str, seed: int, noise: bool | float
) -> Selection:
    import warnings

    from apolar.selection import select

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are in the table
        return select(X, numbers, kinds, criterion, random_state=seed, noise=noise)


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
        "failed": row.failed or "",
        "dropped": row.dropped or "",
    }


def _plain(cell: Any) -> Any:
    """Return a cell as JSON can hold it."""
    return None if isinstance(cell, float) and cell != cell else cell


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
