"""The errors with which commands end."""

import click

from apolar.cli.text import escaped


class OneLine(click.ClickException):
    """An error of one line, whatever names and strings of files are in it."""

    def format_message(self) -> str:
        """Return the line."""
        return escaped(self.message)


class BadInput(OneLine):
    """Bad input: one line, exit code 2."""

    exit_code = 2


class Interrupted(OneLine):
    """Interrupted by the user; the message says what was saved: one line, exit code 130."""

    exit_code = 130
