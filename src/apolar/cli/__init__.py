"""The command line: one command a capability, one file a command."""

import click

from apolar.cli.decompose import decompose
from apolar.cli.reproduce import reproduce


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="apolar")
def main() -> None:
    """Gaussian mixtures from moments, and symmetric tensor decomposition."""


main.add_command(decompose)
main.add_command(reproduce)
