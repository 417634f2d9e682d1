"""`apolar sketch` and `apolar merge`: the sums of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apolar.cli.console import Bar
from apolar.cli.errors import BadInput
from apolar.cli.options import check_sources, column_names, table_options
from apolar.cli.output import Output
from apolar.cli.paths import not_found
from apolar.cli.text import escaped

if TYPE_CHECKING:
    from apolar import MomentSketch

# What is left out of a sketch: what is constant, or a copy, may not be so in other parts of the table.
LEFT_OUT = ("row numbers", "few values")
# The highest powers of the rows, as in the library: without its imports a bad number is refused at once.
ORDERS = ("3", "4", "5", "6")


@click.command()
@click.argument("data", nargs=-1, required=True)
@table_options
@click.option(
    "--order",
    type=click.Choice(ORDERS),
    default="3",
    show_default=True,
    help="The highest power of the rows: 3 for spherical and diag components, 4 for tied and full ones, for "
    "-k auto, and for more components than columns, 5 or 6 for many of them in few columns.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The file of the sketch."
)
def sketch(
    data: tuple[str, ...],
    columns: str | None,
    drop_missing: bool,
    order: str,
    output: Path,
    **reading: Any,
) -> None:
    """Keep the sums of a table that determine its moments, and none of its rows.

    Sketches of parts of a table, made anywhere, add up with `apolar merge`, and
    `apolar fit --sketch` fits a mixture to them.

    \b
    Examples:
      apolar sketch january.csv -o january.npz
      apolar sketch january.csv --order 4 -o january.npz

    \b
    Exit code: 0, 2 for bad input, 130 if interrupted.
    """
    check_sources(data)
    from apolar import MomentSketch
    from apolar.cli.tables import read_table

    with Output(output.parent) as files, Bar() as bar:
        bar.begin("reading")
        with read_table(
            data,
            columns=column_names(columns),
            drop_missing=drop_missing,
            leave_out=LEFT_OUT,
            **reading,
        ) as table:
            sums = MomentSketch(table.X.shape[1], feature_names=table.names, order=int(order))
            sums.update(table.X)
            names = table.names
        files.add(output.name, sums.save)
    for note in table.notes:
        click.echo(escaped(note))
    shown = ", ".join(names[:5]) + ", ..." * (len(names) > 5)
    click.echo(escaped(f"{sums.n_rows:,} rows, {len(names)} columns ({shown}): {output}"))


@click.command()
@click.argument("sketches", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The file of the sum.")
def merge(sketches: tuple[Path, ...], output: Path) -> None:
    """Add up sketches.

    \b
    Example:
      apolar merge january.npz february.npz -o both.npz

    \b
    They must be of the same columns, in the same order, and of the same --order.
    Exit code: 0, 2 for bad input, 130 if interrupted.
    """
    total = loaded_sketch(sketches[0])
    for path in sketches[1:]:
        try:
            total = total + loaded_sketch(path)
        except ValueError as error:
            raise BadInput(f"{path} does not add up with {sketches[0]}: {error}") from error
    with Output(output.parent) as files:
        files.add(output.name, total.save)
    click.echo(escaped(f"{total.n_rows:,} rows, {total.n_features} columns: {output}"))


def loaded_sketch(path: Path) -> MomentSketch:
    """Return the sketch of a file."""
    if not path.exists():
        raise BadInput(not_found(path))
    from apolar import MomentSketch

    try:
        return MomentSketch.load(path)
    except OSError as error:
        raise BadInput(f"Cannot read {path}: {error.strerror or error}.") from error
    except ValueError as error:
        raise BadInput(str(error)) from error
