"""Messages of the library in the words of the command line: options in place of parameters."""

from __future__ import annotations

import re
from collections.abc import Callable

from apolar.exceptions import ColumnError

# A name that is not part of a longer one or of a path, and not in quotes, where it is the user's.
_ALONE = r"(?<![\w'\"/.-]){}(?![\w'\"/-])"

# Parameters as they appear in messages of the library, and the options for them. The order matters.
_OPTIONS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"n_components=range\((\d+), (\d+)\)", lambda match: f"--components {match[1]}-{int(match[2]) - 1}"),
    (r"n_components = (\d+)", r"\1"),
    (r"n_components=(\d+)", r"--components \1"),
    ("n_components", "--components"),
    (r"covariance_type='(\w+)'", r"--covariance \1"),
    ("covariance_type", "--covariance"),
    (r"are in \.table", "are in selection.csv, which -o writes"),
    ("noise=True", "--noise"),
    (r"noise=([\d.]+\d)", r"--noise=\1"),
    ("leave noise out", "leave --noise out"),
)


def in_options(text: str) -> str:
    """Return a message of the library with the options of the command line in place of its parameters."""
    for parameter, option in _OPTIONS:
        text = re.sub(_ALONE.format(parameter), option, text)
    return text


def error_message(error: BaseException) -> str:
    """Return the message of an error in the words of the command line."""
    from apolar.cli.tables import TableError

    if isinstance(error, TableError):  # already in the words of the command line, with names of the user
        return str(error)
    message = in_options(str(error)) or "There is not enough memory: take fewer rows or columns."
    if isinstance(error, ColumnError):
        message += " Columns are chosen with --columns."
    return message
