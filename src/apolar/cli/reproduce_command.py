"""`apolar reproduce`: the paper's tables and figures, with its printed values beside ours."""

from pathlib import Path

import click

from apolar.cli.console import BadInput, Bar, Interrupted, new_console, say
from apolar.cli.options import seed_option

# Where `all` goes, unless a folder is given.
FOLDER = "reproduced"


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help=f"Folder for the files; made if it is not there. For all: {FOLDER}.",
)
@click.option(
    "--simulations",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Data sets per repeat, of table5 and table6.",
)
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Repeats of table5 and table6.",
)
@seed_option
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Processes of table5 and table6; all cores by default."
)
def reproduce(
    names: tuple[str, ...],
    output: Path | None,
    simulations: int,
    repeats: int,
    seed: int,
    jobs: int | None,
) -> None:
    """Make tables and figures of the paper, its printed values beside ours.

    NAME is table1, table2, table5 ... table10 (the labels of the paper's
    source; in print Tables 1, 3, 2, 4, 5-8), figure1, figure2, figure3, a name
    such as iris, or all. Without a name, the list is shown.

    Table5 and table6 are 20 times 100 data sets each: half an hour together on
    two cores, less with --simulations and --repeats. With -o, each data set is
    saved as it is done, and the same command goes on after an interruption.

    This needs a clone of the repository, or the package in its folder
    reproduction.

    \b
    Examples:
      apolar reproduce iris
      apolar reproduce table1 figure1 -o results
      apolar reproduce table5 --simulations 20 --repeats 2
      apolar reproduce all -o results

    \b
    Exit code: 0, 2 for bad input, 130 if interrupted.
    """
    from apolar.datasets.reproduction import import_reproduction

    console = new_console()
    printed, run = import_reproduction("printed"), import_reproduction("run")
    labels = printed.resolve_names(names)
    if not names:
        console.print(run.list_items())
        return
    is_all = any(name.lower() == "all" for name in names)
    folder = output or (Path(FOLDER) if is_all else None)
    try:
        with Bar() as callback:
            run.reproduce(
                labels,
                folder,
                console,
                callback,
                seed=seed,
                n_simulations=simulations,
                n_repeats=repeats,
                n_jobs=jobs,
                command=_command(names, simulations, repeats, seed) if is_all else None,
            )
    except KeyboardInterrupt as error:
        is_long = any(label in printed.STUDIES for label in labels)
        raise Interrupted(_what_was_saved(folder, is_long)) from error
    except OSError as error:
        raise BadInput(f"Cannot write to {folder}: {error.strerror or error}.") from error
    if folder is not None:
        say(f"Written to {folder / run.PAGE if is_all else folder}")


def _command(names: tuple[str, ...], simulations: int, repeats: int, seed: int) -> str:
    return f"apolar reproduce {' '.join(names)} --simulations {simulations} --repeats {repeats} --seed {seed}"


def _what_was_saved(folder: Path | None, is_long: bool) -> str:
    if folder is None:
        remedy = " Give -o DIR to save results as they come." if is_long else ""
        return f"Interrupted; nothing was saved.{remedy}"
    return f"Interrupted. What was done is in {folder}; run the same command to go on."
