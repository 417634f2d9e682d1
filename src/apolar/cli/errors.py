"""What the commands say when they cannot go on."""

import click


class BadInput(click.ClickException):
    """Bad input: one line, exit code 2."""

    exit_code = 2


class Interrupted(click.ClickException):
    """Stopped by the user, with what was saved: one line, exit code 130."""

    exit_code = 130
