"""Files of a few bytes in an empty folder, which is the current one, and what is said of bad ones."""

import re
import tempfile
from pathlib import Path

import pytest

from apolar.cli.tables import TableError, read_table


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder for temporary files, empty."""
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


def _write(content, name="data.csv"):
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return name


@pytest.fixture
def write():
    """Write a file of the current folder and return its name."""
    return _write


@pytest.fixture
def read():
    """Read a file with this content."""
    return lambda content, name="data.csv", **options: read_table(_write(content, name), **options)


@pytest.fixture
def said():
    """Return what is said of files that are refused: one line."""

    def said(*sources, **options):
        with pytest.raises(TableError) as caught:
            read_table(sources, **options)
        assert str(caught.value).isprintable()
        return str(caught.value)

    return said


@pytest.fixture
def refusal(said):
    """Return what is said of a file with this content: one line."""
    return lambda content, name="data.csv", **options: said(_write(content, name), **options)


@pytest.fixture
def left_out():
    """Return the names of the columns of which a note says that they were dropped."""

    def left_out(table):
        notes = [note.partition(":")[0] for note in table.notes if note.startswith("Dropped")]
        return re.findall("'([^']*)'", " ".join(notes))

    return left_out
