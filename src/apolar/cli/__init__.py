"""The command line: one command per capability, one file per group of them."""

import os
import sys
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from apolar.cli.console import (
    EXAMPLES,
    BadInput,
    Bar,
    Interrupted,
    error_message,
    escape_lines,
    new_console,
    say,
    shown_path,
)
from apolar.cli.decompose_command import decompose
from apolar.cli.fit_command import fit, select
from apolar.cli.options import seed_option
from apolar.cli.output import WRITTEN
from apolar.cli.predict_command import predict
from apolar.cli.sketch_command import merge, sketch

# The headings of help, and the commands under each.
TASKS = {
    "Clusters of a table": ("example", "fit", "select", "predict"),
    "Sums instead of rows": ("sketch", "merge"),
    "Tensors, and the paper": ("decompose", "reproduce"),
}
# Where `all` goes, unless a folder is given.
FOLDER = "reproduced"


class Commands(click.Group):
    """Commands that end with one line whatever happens: bad input, an interruption, a full disk."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under the headings of `TASKS`."""
        for title, names in TASKS.items():
            with formatter.section(title):
                commands = [(name, self.get_command(ctx, name)) for name in names]
                lines = [(name, each.get_short_help_str(100)) for name, each in commands if each is not None]
                formatter.write_dl(lines)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        is_closed = sys.stdout is None
        _mend_streams()
        written = ctx.meta.setdefault(WRITTEN, [])
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except (KeyboardInterrupt, click.Abort) as error:
            saved = f"written before: {', '.join(written)}" if written else "nothing was written"
            raise Interrupted(f"Interrupted; {saved}.") from error
        except (BrokenPipeError, SystemExit):
            # The reader of the output closed the pipe; rich ends the program then.
            _say_written(written)
            raise
        except (ValueError, ImportError, MemoryError, OSError) as error:
            before = f" Written before: {', '.join(written)}." if written else ""
            raise BadInput(f"{error_message(error)}{before}") from error
        except click.ClickException as error:
            # Click repeats arguments as they are, and has no method to change a message.
            vars(error).update(message=escape_lines(error.message))
            raise
        if is_closed and not written:
            raise BadInput("Standard output is closed, and nothing could be shown: redirect it to a file.")
        if is_closed:
            _say_written(written)
        return result


def _mend_streams() -> None:
    """Replace closed streams, and let the others substitute characters that they cannot encode."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            # An open file here also keeps a result file from getting the file descriptor of the stream.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (open to the end)
        elif name == "stdout" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _say_written(written: list[str]) -> None:
    """Name the files that were written before the output was closed."""
    if written:
        say(f"Standard output was closed; written before: {', '.join(written)}.", err=True)


def _print_version(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
    """Print the version; with `--verbose`, all that a report of a problem should say."""
    if not is_asked:
        return
    if ctx.params["verbose"]:
        try:
            from apolar import show_versions
        except ImportError as error:  # of kernels that the environment asks for and that are not there
            raise BadInput(error_message(error)) from error
        show_versions()
    else:
        click.echo(f"{ctx.find_root().info_name}, version {version('apolar')}")
    ctx.exit()


# Eager options are read first, so that the order of the two does not matter.
@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, expose_value=False, callback=_print_version, help="Show the version and exit."
)
@click.option(
    *("-v", "--verbose"),
    is_flag=True,
    is_eager=True,
    help="With --version: also libraries, threads and kernels.",
)
def main(verbose: bool) -> None:
    """Find clusters in tables, and decompose symmetric tensors.

    \b
    Examples:
      apolar example iris
      apolar fit iris.csv -k 3
      apolar decompose "x^3 - 3*x*y^2"

    \b
    Shell completion: eval "$(_APOLAR_COMPLETE=bash_source apolar)", or zsh_source, fish_source.
    """
    if verbose:
        raise click.UsageError("--verbose needs --version.")


@main.command()
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


@main.command()
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
    names: tuple[str, ...], output: Path | None, simulations: int, repeats: int, seed: int, jobs: int | None
) -> None:
    """Reproduce the paper's tables and figures, next to its values.

    NAME is table1, table2, table5 ... table10 (the labels of the paper's
    source; in print Tables 1, 3, 2, 4, 5-8), figure1, figure2, figure3, a name
    such as iris, or all. Without a name, the list is shown.

    Table5 and table6 are 20 times 100 data sets each: half an hour together on
    two cores, less with --simulations and --repeats. With -o, each data set is
    saved when it is done, and the same command continues after an
    interruption.

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
    from apolar.datasets.bundled import import_reproduction

    console = new_console()
    printed, run = import_reproduction("printed"), import_reproduction("run")
    labels = printed.resolve_names(names)
    if not names:
        console.print(run.list_items())
        return
    is_all = any(name.lower() == "all" for name in names)
    folder = output or (Path(FOLDER) if is_all else None)
    sizes = f"--simulations {simulations} --repeats {repeats} --seed {seed}"
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
                command=f"apolar reproduce {' '.join(names)} {sizes}" if is_all else None,
            )
    except KeyboardInterrupt as error:
        saved = "nothing was saved: give -o DIR to save results as they come"
        if folder is not None:
            saved = f"what was done is in {folder}: run the same command to continue"
        raise Interrupted(f"Interrupted; {saved}.") from error
    except OSError as error:
        if folder is None:
            raise
        raise BadInput(f"Cannot write to {folder}: {error.strerror or error}.") from error
    if folder is not None:
        say(f"Written to {folder / run.PAGE if is_all else folder}")


for command in (fit, select, predict, sketch, merge, decompose):
    main.add_command(command)
