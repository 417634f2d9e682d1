"""Where tables come from: paths, standard input, open files, and names that are wrong."""

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from apolar.cli.tables import FORMATS, TableError, read_table

X = np.arange(12.0).reshape(6, 2) + 0.5
SCRIPT = """
import sys
assert not {"pyarrow", "pandas", "click"} & set(sys.modules)
from apolar.cli.tables import TableError, read_table
assert "pyarrow" not in sys.modules
try:
    table = read_table("-")
    print(table.source, table.names, table.X.tolist())
except TableError as error:
    print(error)
"""


def piped(content):
    ended = subprocess.run([sys.executable, "-c", SCRIPT], input=content, capture_output=True, check=True)
    return ended.stdout.decode().strip()


def contents():
    yield "text", pd.DataFrame(X, columns=["a", "b"]).to_csv(index=False).encode()
    for name in ("parquet", "feather"):
        file = io.BytesIO()
        getattr(pd.DataFrame(X, columns=["a", "b"]), f"to_{name}")(file)
        yield name, file.getvalue()
    file = io.BytesIO()
    np.save(file, X)
    yield "npy", file.getvalue()


def test_standard_input_of_every_format(monkeypatch):
    assert piped(dict(contents())["text"]) == f"standard input ('a', 'b') {X.tolist()}"
    assert piped(b"") == "standard input is empty: give a file with a table of numbers."
    for format, content in contents():
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        table = read_table("-")
        np.testing.assert_array_equal(table.X, X)
        assert table.names == (("x1", "x2") if format == "npy" else ("a", "b"))


def test_open_files_paths_and_names_without_an_ending(write):
    for format, content in contents():
        name = write(content, "table")
        for source in (name, Path(name), io.BytesIO(content)):
            np.testing.assert_array_equal(read_table(source).X, X)
            np.testing.assert_array_equal(read_table(source, format=format).X if source == name else X, X)
        with open(name, "rb") as file:
            assert read_table(file).source == "table"
            assert not file.closed
    assert read_table(io.BytesIO(dict(contents())["text"])).source == "the open file"


def test_a_pipe_with_a_name(write):
    os.mkfifo("pipe")
    with subprocess.Popen(["cp", write(dict(contents())["npy"]), "pipe"]):
        np.testing.assert_array_equal(read_table("pipe").X, X)


def test_a_header_that_begins_like_parquet():
    assert read_table(io.BytesIO(b"PAR1,b\n1,2\n3,4\n")).names == ("PAR1", "b")


def test_what_is_no_source():
    with pytest.raises(TypeError, match="^source must be a path, '-' or a file open as bytes, not int.$"):
        read_table(5)
    with pytest.raises(TypeError, match="^the open file is open as text: open it as bytes, with mode 'rb'.$"):
        read_table(io.StringIO("a\n1\n2\n"))
    with pytest.raises(TypeError, match="in_memory_bytes must be an integer"):
        read_table("a.csv", in_memory_bytes=0.5)


def test_formats(refusal):
    assert tuple(FORMATS) == ("text", "parquet", "feather", "npy", "xlsx")
    assert refusal("1,2\n3,4\n", format="xls") == (
        "Unknown format 'xls': use one of text, parquet, feather, npy and xlsx."
    )


def said(source):
    with pytest.raises(TableError) as caught:
        read_table(source)
    return str(caught.value)


def test_no_such_file(write):
    write("1\n2\n", "measurements.csv")
    assert said("mesurements.csv") == "There is no file mesurements.csv: did you mean 'measurements.csv'?"
    assert said("q.npy") == "There is no file q.npy: check the name and the folder."
    assert said("nowhere/a.csv") == "There is no folder nowhere: check the name."
    assert said("a\nb.csv") == "There is no file 'a\\nb.csv': check the name and the folder."
    assert said("a\0b.csv") == "Cannot read 'a\\x00b.csv': embedded null byte."


def test_a_folder(write):
    Path("empty").mkdir()
    assert said("empty") == ("No table in the folder empty (it is empty). Give a folder of CSV files.")
    for name in ("b.csv", "a.csv", "c.py", ".d.csv"):
        write(f"{ord(name[0])}\n2\n", name)
    assert read_table(".").X[:, 0].tolist() == [ord("a"), 2, ord("b"), 2]
    write("", "e.parquet")
    assert said(".") == (
        "The folder . has tables of several formats, such as 'a.csv' and 'e.parquet': name the files, as "
        "in *.csv."
    )


def test_no_permission(write, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    name = write("1\n2\n")
    # The user who runs the tests may be one who may read everything.
    monkeypatch.setattr(Path, "open", refuse)
    assert said(name) == "Cannot read data.csv: Permission denied."


def test_a_file_that_cannot_be_read():
    class Broken(io.RawIOBase):
        def read(self, _=-1):
            raise OSError(5, "Input/output error")

    class Breaking(io.BytesIO):
        def read(self, size=-1):
            if self.tell():
                raise OSError(5, "Input/output error")
            return super().read(size)

    for broken in (Broken(), Breaking(b"a,b\n1,2\n3,4\n5,6\n7,8\n")):
        assert said(broken).startswith("Cannot copy the open file to a temporary file: Input/output error.")


@pytest.mark.parametrize(
    ("head", "what"),
    [
        (b"\x89HDF", "an HDF5 file, which cannot be read. Save the table as CSV or Parquet."),
        (b"BZh9", "compressed with bzip2, which cannot be read. Decompress it first, or use gzip or zstd."),
    ],
)
def test_files_of_other_programs(refusal, head, what):
    assert refusal(head + bytes(20), "a.xls") == f"a.xls is {what}"


def test_archives(refusal):
    head = b"PK\x03\x04" + bytes(20)
    assert refusal(head, "a.zip") == "a.zip is an archive, which cannot be read. Extract the table from it."
    assert refusal(head, "a.npz").endswith("Save one table with numpy.save.")
