"""Tables that are too large for memory: temporary files, which never stay."""

import gc
import io
import os
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from apolar.cli.tables import TableError, read_table
from apolar.cli.tables import text as text_module

X = np.random.default_rng(0).standard_normal((4000, 5))


def csv_file(name="a.csv"):
    pd.DataFrame(X, columns=list("abcde")).to_csv(name, index=False)
    return name


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(text_module, "BLOCK_BYTES", 2**14)


@pytest.mark.usefixtures("small_blocks")
def test_large_tables_are_mapped(temporary):
    with read_table(csv_file(), in_memory_bytes=50_000) as table:
        assert isinstance(table.X, np.memmap)
        np.testing.assert_array_equal(table.X, X)
        assert not table.X.flags.writeable
        # Other processes find it by its name.
        assert [str(path) for path in temporary.iterdir()] == [table.X.filename]
        some = table.X[5:9]
    assert list(temporary.iterdir()) == []
    np.testing.assert_array_equal(some, X[5:9])
    assert table.X.shape == (0, 5)
    table.close()


@pytest.mark.usefixtures("small_blocks")
def test_the_file_goes_with_the_table(temporary):
    table = read_table(csv_file(), in_memory_bytes=0)
    rows = table.X[3:]
    del table
    gc.collect()
    assert len(list(temporary.iterdir())) == 1
    del rows
    gc.collect()
    assert list(temporary.iterdir()) == []


@pytest.mark.usefixtures("small_blocks")
def test_an_error_leaves_no_file(temporary):
    with open(csv_file(), "a") as file:
        file.write("1,2,3,4,x\n")
    with pytest.raises(TableError, match="^a.csv, line 4,002, column 'e': 'x' is not a number"):
        read_table("a.csv", in_memory_bytes=0)
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


@pytest.mark.usefixtures("small_blocks")
def test_a_full_disk(temporary):
    """The system refuses to make any file of this process longer than a limit, as a full disk would."""
    csv_file()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, limits[1]))
    try:
        with pytest.raises(TableError) as caught:
            read_table("a.csv", in_memory_bytes=0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    message = str(caught.value)
    assert message.startswith("The table is too large for memory, and a temporary file of 6")
    assert message.endswith(
        " kB or more cannot be written (File too large). "
        "Free some space, or set TMPDIR to a folder with more."
    )
    assert list(temporary.iterdir()) == []


def test_a_stream_that_does_not_fit_the_disk(temporary):
    file = io.BytesIO()
    np.save(file, X)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, limits[1]))
    try:
        with pytest.raises(TableError, match="temporary file: File too large. Set TMPDIR"):
            read_table(io.BytesIO(file.getvalue()))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(temporary.iterdir()) == []


def test_a_folder_that_is_not_there(temporary):
    temporary.rmdir()
    with pytest.raises(TableError, match=r"to a temporary file: No such file or directory\. Set TMPDIR"):
        read_table(io.BytesIO(b"1,2\n3,4\n"), in_memory_bytes=0)
