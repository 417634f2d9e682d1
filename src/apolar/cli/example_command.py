"""`apolar example`: a bundled table as a file, to try the other commands on."""

from importlib import resources
from pathlib import Path

import click

from apolar.cli.console import EXAMPLES, BadInput, say, shown_path


@click.command()
@click.argument("name", type=click.Choice([*EXAMPLES]))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file; NAME.csv by default.")
def example(name: str, output: Path | None) -> None:
    """Write a small table as a CSV file, to try the other commands on.

    NAME is iris (150 flowers), olive (572 oils) or diabetes (145 people).

    \b
    Examples:
      apolar example iris
      apolar fit iris.csv -k 3 --label-column species
    """
    target = output or Path(f"{name}.csv")
    table = resources.files("apolar.datasets").joinpath("data", f"{name}.csv").read_bytes()
    try:
        with target.open("xb") as file:
            file.write(table)
    except FileExistsError as error:
        raise BadInput(f"{shown_path(target)} exists: remove it, or choose another file with -o.") from error
    say(f"Written: {shown_path(target)}.")
    say(f"Next: apolar fit {shown_path(target)} -k auto --label-column {EXAMPLES[name]}")
