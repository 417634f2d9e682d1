"""The command line: one command a capability, one file a command."""

import sys
from typing import Any

import click

from apolar.cli.decompose import decompose
from apolar.cli.errors import BadInput, Interrupted
from apolar.cli.fit import fit
from apolar.cli.predict import predict
from apolar.cli.reproduce import reproduce
from apolar.cli.select import select
from apolar.cli.sketch import merge, sketch


class Commands(click.Group):
    """Commands that end with one line whatever happens: bad input, an interruption, a full disk."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except (KeyboardInterrupt, click.Abort) as error:
            raise Interrupted("Interrupted; nothing was written.") from error
        except (ValueError, ImportError, MemoryError) as error:
            raise BadInput(str(error)) from error
        except BrokenPipeError:
            raise  # whoever read the output has seen enough: click ends quietly
        except OSError as error:
            raise BadInput(
                f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}."
            ) from error
        return result


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="apolar")
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
