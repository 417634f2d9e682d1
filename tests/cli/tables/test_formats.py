"""Tables in Parquet, Feather and .npy files, and in workbooks."""

import datetime
import decimal
import pickle
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xlsxwriter
from pyarrow import feather, ipc, parquet

from apolar.cli.tables import columns, formats, read_table

X = np.random.default_rng(0).standard_normal((1000, 3))
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
    n=np.arange(1000), name=[f"n{i % 7}" for i in range(1000)], ok=True, day=datetime.date(2020, 1, 1)
)


def write_stream(table, path):
    with ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table, max_chunksize=300)


WRITERS = {
    "a.parquet": lambda table: parquet.write_table(table, "a.parquet", row_group_size=300),
    "a.pq": lambda table: parquet.write_table(table, "a.pq", compression="zstd"),
    "a.feather": lambda table: feather.write_feather(table, "a.feather", chunksize=300),
    "a.arrow": lambda table: write_stream(table, "a.arrow"),
}
NAMES = pytest.mark.parametrize("name", WRITERS)


def write_arrow(name, table=None):
    WRITERS[name](pa.Table.from_pandas(FRAME) if table is None else table)
    return name


# --- Parquet and Feather --------------------------------------------------------------------------


@NAMES
@pytest.mark.parametrize("limit", [0, 2**29])
def test_all_numbers_are_read(name, limit, monkeypatch, left_out):
    monkeypatch.setattr(columns, "FRAME_SIZE", 1024)
    table = read_table(write_arrow(name), in_memory_bytes=limit)
    assert table.names == ("a", "b", "c", "n")
    np.testing.assert_array_equal(table.X, FRAME[list("abcn")])
    assert isinstance(table.X, np.memmap) == (limit == 0)
    assert left_out(table) == ["name", "ok", "day"]


def test_numbers_of_every_kind(left_out):
    columns = {
        "i": pa.array([1, 2], pa.int8()),
        "u": pa.array([1, 2**63], pa.uint64()),
        "f": pa.array([1.5, 2.5], pa.float32()),
        "h": pa.array(np.array([1.5, 2.5], np.float16)),
        "d": pa.array([decimal.Decimal("1.25"), decimal.Decimal("2.50")]),
        "l": pa.array([[1], [2]]),
        "v": pa.nulls(2),
        "k": pa.array(["x", "y"]).dictionary_encode(),
    }
    parquet.write_table(pa.table(columns), "a.parquet")
    table = read_table("a.parquet", label_column="k")
    assert table.X.tolist() == [[1, 1, 1.5, 1.5, 1.25], [2, 2.0**63, 2.5, 2.5, 2.5]]
    assert left_out(table) == ["l", "v"]
    assert table.labels.tolist() == ["x", "y"]


def test_the_row_numbers_of_pandas_are_left_out(left_out):
    FRAME[FRAME["a"] > 0].to_parquet("a.parquet")
    table = read_table("a.parquet")
    assert table.names == ("a", "b", "c", "n")
    assert left_out(table) == ["name", "ok", "day", "__index_level_0__"]


@NAMES
def test_damaged_arrow_files(refusal, folder, name):
    content = (folder / write_arrow(name)).read_bytes()
    format = "Parquet" if name in ("a.parquet", "a.pq") else "Feather"
    for n_bytes in (3, 10, 1000, -1000):
        message = refusal(content[:n_bytes], name)
        assert message.startswith(f"{name} is not a {format} file, or is truncated or damaged: ")
        assert message.endswith(". Create or copy the file again.")
    page = content[:4] + bytes(56) + content[60:]
    if name == "a.parquet":
        assert refusal(page, name).startswith("a.parquet is not a Parquet file, or is truncated or damaged: ")


# --- .npy -----------------------------------------------------------------------------------------


def save(array, **options):
    np.save("a.npy", array, **options)
    return "a.npy"


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int8, np.uint64, ">f8", ">i4"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("limit", [0, 2**29])
def test_real_numbers_of_every_kind(dtype, order, limit):
    array = np.asarray(np.abs(X) * 10, dtype=dtype, order=order)
    table = read_table(save(array), in_memory_bytes=limit)
    np.testing.assert_array_equal(table.X, array.astype(np.float64))
    assert table.X.dtype == np.float64
    assert isinstance(table.X, np.memmap) == (limit == 0)
    assert not table.X.flags.writeable
    assert table.names == ("x1", "x2", "x3")


def test_a_large_file_is_used_as_it_is(temporary, folder):
    table = read_table(save(X), in_memory_bytes=0)
    assert table.X.filename == str(folder / "a.npy")
    assert list(temporary.iterdir()) == []
    assert (folder / "a.npy").exists()
    np.testing.assert_array_equal(read_table(save(X[:, 0]), in_memory_bytes=0).X, X[:, :1])
    table = read_table(save(X), in_memory_bytes=0, columns=[1])
    assert len(list(temporary.iterdir())) == 1


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 2, 2)), "an array of shape (2, 2, 2), not a table of rows and columns."),
        (np.zeros(()), "an array of shape (), not a table of rows and columns."),
        (np.zeros((3, 2), complex), "complex128, not real numbers."),
        (np.zeros((3, 2), bool), "bool, not real numbers."),
        (np.array([["a"]]), "<U1, not real numbers."),
    ],
)
def test_arrays_that_are_no_tables(said, array, message):
    assert said(save(array)).startswith(f"a.npy holds {message} Save it again ")


def test_nothing_is_unpickled(said, refusal):
    class Bomb:
        def __reduce__(self):
            return print, ("never",)

    array = np.array([[Bomb()]], dtype=object)
    assert "Python objects" in said(save(array, allow_pickle=True))
    assert refusal(pickle.dumps(array), "b.npy").startswith("b.npy is not a .npy file of numbers")


# --- workbooks ------------------------------------------------------------------------------------

HEADER = ["name", "height", "born", "is_member", "weight"]
DAY = datetime.datetime(2020, 1, 2)
ROWS = [["Ann", 1 / 3, DAY, True, 60], ["Bob", 1.8, DAY, False, None], ["Cid", "1.9", DAY, True, "n/a"]]


def write_book(sheets):
    with xlsxwriter.Workbook("book.xlsx", {"default_date_format": "yyyy-mm-dd"}) as book:
        for title, rows in sheets.items():
            sheet = book.add_worksheet(title)
            for i, row in enumerate(rows):
                sheet.write_row(i, 0, row)
    return "book.xlsx"


def test_a_sheet_is_a_table(left_out):
    name = write_book({"empty": [], "people": [[], HEADER, *ROWS, [None] * 5, []]})
    table = read_table(name, label_column="name", keep_missing=True)
    assert table.names == ("height", "weight")
    np.testing.assert_array_equal(table.X, [[1 / 3, 60], [1.8, np.nan], [1.9, np.nan]])
    assert table.labels.tolist() == ["Ann", "Bob", "Cid"]
    assert left_out(table) == ["born", "is_member"]


def test_sheets_by_name(write, said):
    name = write_book({"one": [["a", "b"], [1, 2], [3, 4]], "two": [[5, 6], [7, 8]]})
    assert read_table(name).names == ("a", "b")
    table = read_table(name, sheet="two")
    assert (table.names, table.X.tolist()) == (("x1", "x2"), [[5, 6], [7, 8]])
    assert said(name, sheet="three") == "book.xlsx has no sheet 'three': its sheets are 'one' and 'two'."
    assert said(write("1,2\n3,4\n"), sheet="two") == (
        "data.csv is not a workbook and has no sheets: omit --sheet."
    )


def test_bad_workbooks(write, said, monkeypatch):
    assert said(write_book({"a": []})) == "book.xlsx has no table in its sheets 'a'."
    assert "the sheet 'a' is empty" in said("book.xlsx", sheet="a")
    assert "has a header and no rows below it" in said(write_book({"a": [["x", "y"]]}))
    mixed = [["x", "y"], *[[i, i * i] for i in range(20)], [1, "high"]]
    assert said(write_book({"a": mixed})) == (
        "book.xlsx, row 22, column 'y': 'high' is not a number. Correct the cell, use --na-values high if "
        "it stands for a missing value, or exclude the column with --columns."
    )
    write(b"PK\x03\x04" + bytes(200), "bad.xlsx")
    assert said("bad.xlsx").startswith("bad.xlsx is not a workbook, or is truncated or damaged")
    # The size is read from the directory of the archive, before anything is unpacked.
    monkeypatch.setattr(formats, "MAX_UNPACKED", 10**6)
    with zipfile.ZipFile("bomb.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("sheet.xml", bytes(10**6 + 1))
    assert (
        said("bomb.xlsx") == "bomb.xlsx unpacks to 1,000,001 bytes, too many for a workbook. Save it as CSV."
    )
