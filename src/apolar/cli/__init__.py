"""The command line: one command per capability, one file per command."""

import os
import sys
from importlib.metadata import version
from typing import Any

import click

from apolar.cli.console import BadInput, Interrupted, error_message, escape, escape_lines
from apolar.cli.decompose import decompose
from apolar.cli.fit import fit
from apolar.cli.output import WRITTEN
from apolar.cli.predict import predict
from apolar.cli.reproduce import reproduce
from apolar.cli.select import select
from apolar.cli.sketch import merge, sketch

# Where `--verbose` is kept for `--version`.
VERBOSE = "apolar.verbose"


class Commands(click.Group):
    """Commands that end with one line whatever happens: bad input, an interruption, a full disk."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        is_closed = sys.stdout is None
        _mend_streams()
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            if is_closed and not _written(ctx):
                raise BadInput(
                    "Standard output is closed, and nothing could be shown: redirect it to a file."
                )
            if is_closed:
                _print_written(ctx)
        except (KeyboardInterrupt, click.Abort) as error:
            raise Interrupted(f"Interrupted; {_written(ctx) or 'nothing was written'}.") from error
        except (ValueError, ImportError, MemoryError) as error:
            raise BadInput(_with_written(error_message(error), ctx)) from error
        except BrokenPipeError:
            # The reader of the output closed the pipe before the names of the files were printed. Click ends
            # the command as usual.
            _print_written(ctx)
            raise
        except SystemExit as end:
            if end.code:  # rich ends so when it prints a table into a pipe that was closed
                _print_written(ctx)
            raise
        except OSError as error:
            reason = f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}."
            raise BadInput(_with_written(reason, ctx)) from error
        except click.ClickException as error:
            # Click repeats arguments as they are, and has no method to change a message.
            vars(error).update(message=escape_lines(error.message))
            raise
        return result


def _mend_streams() -> None:
    """Replace closed streams, and let the others substitute characters that they cannot encode."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            # An open file here also keeps a result file from getting the file descriptor of the stream.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (open to the end)
        elif mode == "w" and getattr(stream, "errors", "") in ("strict", "surrogateescape"):
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure is not None:
                reconfigure(errors="replace")


def _written(ctx: click.Context) -> str:
    """Return which files are written, in words; empty if there are none."""
    files = ctx.meta.get(WRITTEN, [])
    return f"written before: {', '.join(files)}" if files else ""


def _with_written(reason: str, ctx: click.Context) -> str:
    written = _written(ctx)
    return f"{reason} {written.capitalize()}." if written else reason


def _print_written(ctx: click.Context) -> None:
    written = _written(ctx)
    if written:
        click.echo(escape(f"Standard output was closed; {written}."), err=True)


def _print_version(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
    """Print the version; with `--verbose`, all that a report of a problem should say."""
    is_verbose = ctx.meta.get(VERBOSE, False)
    if not is_asked:
        if is_verbose:
            raise click.UsageError("--verbose goes with --version.", ctx)
        return
    if is_verbose:
        try:
            from apolar import show_versions
        except ImportError as error:  # of kernels that the environment asks for and that are not there
            raise BadInput(error_message(error)) from error
        show_versions()
    else:
        click.echo(f"{ctx.find_root().info_name}, version {version('apolar')}")
    ctx.exit()


def _keep_verbose(ctx: click.Context, _: click.Parameter, is_verbose: bool) -> None:
    ctx.meta[VERBOSE] = is_verbose


# Eager options are read first: so the order of the two does not matter.
@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, expose_value=False, callback=_print_version, help="Show the version and exit."
)
@click.option(
    *("-v", "--verbose"),
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_keep_verbose,
    help="With --version: also libraries, threads and kernels.",
)
def main() -> None:
    """Gaussian mixtures from moments, and symmetric tensor decomposition.

    \b
    Examples:
      apolar fit flowers.csv -k 3
      apolar reproduce iris
      apolar decompose "x^3 - 3*x*y^2"

    \b
    Shell completion: eval "$(_APOLAR_COMPLETE=bash_source apolar)", or zsh_source, fish_source.
    """


for command in (fit, select, predict, sketch, merge, decompose, reproduce):
    main.add_command(command)
