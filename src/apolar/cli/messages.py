"""Messages of the library as the command line says them: options in place of parameters."""

from __future__ import annotations

import re
from collections.abc import Callable

from apolar.exceptions import ColumnError

# A name is not part of a longer one, of a path, or in quotes, where it is the user's own.
_ALONE = r"(?<![\w'\"/.-]){}(?![\w'\"/-])"

# The forms of the library's parameters in its messages, and those of the options; earlier ones first.
_OPTIONS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"n_components=range\((\d+), (\d+)\)", lambda match: f"--components {match[1]}-{int(match[2]) - 1}"),
    (r"n_components = (\d+)", r"\1"),
    (r"n_components=(\d+)", r"--components \1"),
    ("n_components", "--components"),
    ("covariance_type", "--covariance"),
)


def in_options(text: str) -> str:
    """Return a message of the library with the options of the command line in place of its parameters."""
    for parameter, option in _OPTIONS:
        text = re.sub(_ALONE.format(parameter), option, text)
    return text


def error_message(error: BaseException) -> str:
    """Return what the command line says of an error."""
    from apolar.cli.tables import TableError

    if isinstance(error, TableError):  # in the words of the command line already, with names of the user
        return str(error)
    message = in_options(str(error)) or "There is not enough memory: take fewer rows or columns."
    if isinstance(error, ColumnError):
        message += " Columns are chosen with --columns."
    return message
