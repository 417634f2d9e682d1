"""The command line: one command per capability, one file per group of them."""

import os
import sys
from importlib.metadata import version
from typing import Any

import click

from apolar.cli.console import BadInput, Interrupted, error_message, escape_lines, say
from apolar.cli.decompose_command import decompose
from apolar.cli.fit_command import fit, select
from apolar.cli.output import WRITTEN
from apolar.cli.predict_command import predict
from apolar.cli.reproduce_command import reproduce
from apolar.cli.sketch_command import merge, sketch


class Commands(click.Group):
    """Commands that end with one line whatever happens: bad input, an interruption, a full disk."""

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


# Eager options are read first: so the order of the two does not matter.
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
    """Gaussian mixtures from moments, and symmetric tensor decomposition.

    \b
    Examples:
      apolar fit flowers.csv -k 3
      apolar reproduce iris
      apolar decompose "x^3 - 3*x*y^2"

    \b
    Shell completion: eval "$(_APOLAR_COMPLETE=bash_source apolar)", or zsh_source, fish_source.
    """
    if verbose:
        raise click.UsageError("--verbose goes with --version.")


for command in (fit, select, predict, sketch, merge, decompose, reproduce):
    main.add_command(command)
