"""`apolar example`: the tables that the documents try the commands on."""

import pytest

from apolar.cli.console import EXAMPLES
from cli.commands import refuse, run, succeed


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_can_be_fitted_as_it_says(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    advice = run("example", name).output.splitlines()[-1]
    assert advice == f"Next: apolar fit {name}.csv -k auto --label-column {EXAMPLES[name]}"
    said = succeed("fit", f"{name}.csv", "-k", 2, "--no-report", "--label-column", EXAMPLES[name])
    assert "adjusted Rand index" in said


def test_a_file_is_not_replaced(tmp_path):
    path = tmp_path / "table.csv"
    succeed("example", "iris", "-o", path)
    path.write_text("mine")
    assert "table.csv exists: remove it, or choose another file with -o." in refuse(
        "example", "iris", "-o", path
    )
    assert path.read_text() == "mine"


def test_a_table_that_is_not_there_can_be_made(tmp_path):
    path = tmp_path / "olive.csv"
    assert "`apolar example olive` writes one" in refuse("fit", path, "-k", 2)
