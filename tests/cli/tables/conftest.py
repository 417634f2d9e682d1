"""Files of a few bytes in an empty folder, which is the current one, and what is said of bad ones."""

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


@pytest.fixture
def write():
    """Write a file of the current folder and return its name."""

    def write(content, name="data.csv"):
        Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    return write


@pytest.fixture
def read(write):
    """Read a file with this content."""
    return lambda content, name="data.csv", **options: read_table(write(content, name), **options)


@pytest.fixture
def refusal(write):
    """Return what is said of a file with this content: one line."""

    def refusal(content, name="data.csv", **options):
        with pytest.raises(TableError) as caught:
            read_table(write(content, name), **options)
        message = str(caught.value)
        assert message.isprintable()
        return message

    return refusal
