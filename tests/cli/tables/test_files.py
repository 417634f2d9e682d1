"""Where tables come from: files, folders and streams; and temporary files, which never stay."""

import gc
import io
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from apolar.cli.tables import FORMATS, read_table, text_table

X = np.random.default_rng(0).standard_normal((4000, 5))


# --- several files --------------------------------------------------------------------------------


def test_files_are_read_one_after_the_other(write):
    write("a,b,c\n1,2,x\n3,,y\n", "one.csv")
    write("c;b;a\nz;6,5;5\n", "two.csv")
    table = read_table(["one.csv", "two.csv"], label_column="c", drop_missing=True)
    assert table.X.tolist() == [[1, 2], [5, 6.5]]
    assert table.labels.tolist() == ["x", "z"]
    assert (table.files, table.source) == (("one.csv", "two.csv"), "one.csv and two.csv")
    # Rows are counted over all files.
    assert (table.row_numbers.tolist(), table.file_of_rows.tolist()) == ([0, 2], [0, 1])


def test_a_folder_in_the_order_of_names(write, said):
    for folder in ("months", "empty"):
        Path(folder).mkdir()
    for month in (2, 10, 1):
        write(f"a,b\n{month},0\n", f"months/{month:02}.csv")
    write("nothing", "months/notes.md")
    write("1\n2\n", "months/.hidden.csv")
    assert read_table("months").X[:, 0].tolist() == [1, 2, 10]
    assert said("empty") == "No table in the folder empty: give a folder of CSV files."
    write("", "months/e.parquet")
    assert said("months") == (
        "The folder months has tables of several formats, parquet and text: name the files, as in "
        "months/*.csv."
    )


def test_errors_name_the_file(write, said):
    write("a,b\n1,2\n3,4\n", "one.csv")
    for text, message in (
        ("a,b\n1,x\n3,y\n", "two.csv, line 2, column 'b': 'x' is not a number."),
        ("a,b\n1,inf\n", "two.csv, line 2, column 'b': the number is infinite"),
        (
            "a,b\n1,\n3,4\n",
            "one.csv and two.csv: 1 row with missing values, in 'b'; the first is line 2 of two.csv.",
        ),
        (
            "a,c\n1,2\n3,4\n",
            "two.csv has other columns than one.csv: they differ in 'b' and 'c'. Give files with the same "
            "columns, or choose columns with --columns.",
        ),
    ):
        write(text, "two.csv")
        assert said("one.csv", "two.csv").startswith(message)
    assert read_table(["one.csv", "two.csv"], columns=["a"]).X[:, 0].tolist() == [1, 3, 1, 3]
    assert said("one.csv", "none.csv").startswith("There is no file none.csv")


# --- formats and names ----------------------------------------------------------------------------


def contents():
    frame, file = pd.DataFrame(X, columns=list("abcde")), io.BytesIO()
    yield "text", frame.to_csv(index=False).encode()
    np.save(file, X)
    yield "npy", file.getvalue()
    for name in ("parquet", "feather"):
        file = io.BytesIO()
        getattr(frame, f"to_{name}")(file)
        yield name, file.getvalue()


def test_streams_and_names_without_an_ending(write, monkeypatch):
    assert tuple(FORMATS) == ("text", "parquet", "feather", "npy", "xlsx")
    for _, content in contents():
        np.testing.assert_array_equal(read_table(write(content, "table")).X, X)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        table = read_table("-")
        np.testing.assert_array_equal(table.X, X)
        assert table.source == "standard input"
    os.mkfifo("pipe")
    with subprocess.Popen(["cp", write(content), "pipe"]):
        np.testing.assert_array_equal(read_table("pipe").X, X)
    # A header of text may begin like a Parquet file.
    assert read_table(write("PAR1,b\n1,2\n3,4\n", "table")).names == ("PAR1", "b")


def test_no_such_file(write, said, monkeypatch):
    write("1\n2\n", "measurements.csv")
    assert said("mesurements.csv") == "There is no file mesurements.csv: did you mean 'measurements.csv'?"
    assert said("q.npy") == "There is no file q.npy: check the name and the folder."
    assert said("nowhere/a.csv") == "There is no folder nowhere: check the name."
    assert said("a\nb.csv") == "There is no file 'a\\nb.csv': check the name and the folder."

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    # The user who runs the tests may be one who may read everything.
    monkeypatch.setattr(Path, "open", refuse)
    assert said("measurements.csv") == "Cannot read measurements.csv: Permission denied."


def test_files_of_other_programs(refusal):
    for head, what in (
        (b"\x89HDF", "an HDF5 file, which cannot be read. Save the table as CSV or Parquet."),
        (b"BZh9", "compressed with bzip2, which cannot be read. Decompress it first, or use gzip or zstd."),
    ):
        assert refusal(head + bytes(20), "a.xls") == f"a.xls is {what}"
    head = b"PK\x03\x04" + bytes(20)
    assert refusal(head, "a.zip") == "a.zip is an archive, which cannot be read. Extract the table from it."


# --- temporary files ------------------------------------------------------------------------------


def csv_file():
    pd.DataFrame(X, columns=list("abcde")).to_csv("a.csv", index=False)
    return "a.csv"


@pytest.fixture
def _small_blocks(monkeypatch):
    monkeypatch.setattr(text_table, "BLOCK_SIZE", 2**14)


@pytest.mark.usefixtures("_small_blocks")
def test_large_tables_are_mapped(temporary, said):
    table = read_table(csv_file(), in_memory_bytes=50_000)
    assert isinstance(table.X, np.memmap)
    np.testing.assert_array_equal(table.X, X)
    assert not table.X.flags.writeable
    # Other processes find it by its name, and it goes with the last array.
    assert [str(path) for path in temporary.iterdir()] == [table.X.filename]
    rows = table.X[3:]
    del table
    gc.collect()
    assert len(list(temporary.iterdir())) == 1
    del rows
    gc.collect()
    assert list(temporary.iterdir()) == []
    with open("a.csv", "a") as file:
        file.write("1,2,3,4,x\n")
    assert said("a.csv", in_memory_bytes=0).startswith("a.csv, line 4,002, column 'e': 'x' is not a number")
    assert list(temporary.iterdir()) == []


SCRIPT = """
from apolar.cli.tables import read_table
table = read_table("-", in_memory_bytes=0)
print(type(table.X).__name__)
"""


@pytest.mark.parametrize("is_stopped", [False, True])
def test_no_file_stays_when_the_program_ends(temporary, is_stopped):
    rows = b"1,2,3\n" * 720_000
    environment = os.environ | {"TMPDIR": str(temporary)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-c", SCRIPT], env=environment, **pipes) as program:
        program.stdin.write(rows)
        program.stdin.flush()
        ends = time.monotonic() + 30
        while not list(temporary.iterdir()) and time.monotonic() < ends:
            time.sleep(0.01)
        assert len(list(temporary.iterdir())) == 1
        if is_stopped:
            program.send_signal(signal.SIGINT)
        out, _ = program.communicate()
    assert (program.returncode == 0, out) == ((False, b"") if is_stopped else (True, b"memmap\n"))
    assert list(temporary.iterdir()) == []


@pytest.mark.usefixtures("_small_blocks")
def test_a_full_disk(temporary, said, monkeypatch):
    """The system refuses to make any file of this process longer than a limit, as a full disk would."""
    csv_file()
    file = io.BytesIO()
    np.save(file, X)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
    file.seek(0)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, limits[1]))
    try:
        message = said("a.csv", in_memory_bytes=0)
        stream = said("-")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert message.startswith("The table is too large for memory, and a temporary file of 6")
    assert " bytes or more cannot be written (File too large). Free some space" in message
    assert "temporary file: File too large. Set TMPDIR" in stream
    assert list(temporary.iterdir()) == []
