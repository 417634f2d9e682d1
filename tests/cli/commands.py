"""Commands run in this process, and the labels they write."""

import csv

from click.testing import CliRunner

from apolar.cli import main


def run(*arguments, stdin=None):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)


def labels(path):
    with path.open() as file:
        return [
            (int(row["row"]), int(row["cluster"]), float(row["probability"])) for row in csv.DictReader(file)
        ]
