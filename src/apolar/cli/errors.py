"""The errors with which commands end, of one line that cannot steer a terminal."""

import difflib
import os
from pathlib import Path

import click

from apolar.exceptions import ColumnError, ComponentError


class OneLine(click.ClickException):
    """An error of one line, whatever names and strings of files are in it."""

    def format_message(self) -> str:
        """Return the line."""
        return escape(self.message)


class BadInput(OneLine):
    """Bad input: one line, exit code 2."""

    exit_code = 2


class Interrupted(OneLine):
    """Interrupted by the user; the message says what was saved: one line, exit code 130."""

    exit_code = 130


def error_message(error: BaseException) -> str:
    """Return what the command line says of an error of the library."""
    if isinstance(error, ComponentError):
        return f"Cluster {error.component + 1} {error.problem}"
    if isinstance(error, ColumnError):
        return f"{error} Columns are chosen with --columns."
    return str(error) or "There is not enough memory: take fewer rows or columns."


def escape(text: str) -> str:
    """Return text in which control characters have no effect, on one line."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def escape_lines(text: str) -> str:
    """Return lines of text in which control characters have no effect."""
    return "\n".join(map(escape, text.split("\n")))


def not_found(path: Path) -> str:
    """Return what is said of a file that is not there: perhaps one of a similar name is."""
    name = shown_path(path)
    folder = path.parent
    if not folder.is_dir():
        return f"There is no folder {shown_path(folder)}: check the name."
    close = difflib.get_close_matches(path.name, names_in(folder), n=3, cutoff=0.7)
    guess = f"did you mean {' or '.join(repr(str(folder / other)) for other in close)}?" if close else ""
    return f"There is no file {name}: {guess or 'check the name and the folder.'}"


def shown_path(path: Path) -> str:
    """Return a path on one line."""
    return str(path) if str(path).isprintable() else repr(str(path))


def names_in(folder: Path) -> list[str]:
    """Return the names of the files in a folder; none if it cannot be read."""
    try:
        return os.listdir(folder)
    except OSError:
        return []
