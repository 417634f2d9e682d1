"""Commands run in this process, and the labels they write."""

import csv
import json
import math

import pytest
from click.testing import CliRunner

from apolar.cli import console, main


def run(*arguments, stdin=None):
    """Run a command, without lines of progress, which on a slow machine would be printed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(console, "SECONDS_OF_LINE", math.inf)
        return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)


def succeed(*arguments, stdin=None):
    """Run a command that ends well; return what it printed, on one line."""
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def answer(*arguments, stdin=None):
    """Return the object that a command prints."""
    return json.loads(succeed(*arguments, "--json", stdin=stdin))


def refuse(*arguments, stdin=None):
    """Run a command that refuses its input; return what it said, on one line."""
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return " ".join(result.output.split())


def names_in(folder):
    return {path.name for path in folder.iterdir()}


def rows_of(path, delimiter=","):
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def labels(path):
    return [(int(row["row"]), int(row["cluster"]), float(row["probability"])) for row in rows_of(path)]
