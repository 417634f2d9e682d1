"""Tables in Parquet and Feather files."""

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, ipc, parquet

from apolar.cli.tables import TableError, formats, read_table

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


def write(name, table=None):
    WRITERS[name](pa.Table.from_pandas(FRAME) if table is None else table)
    return name


@NAMES
@pytest.mark.parametrize("limit", [0, 2**29])
def test_all_numbers_are_read(name, limit, temporary, monkeypatch):
    monkeypatch.setattr(formats, "FRAME_SIZE", 1024)
    with read_table(write(name), in_memory_bytes=limit) as table:
        assert table.names == ("a", "b", "c", "n")
        np.testing.assert_array_equal(table.X[:, :3], X)
        np.testing.assert_array_equal(table.X[:, 3], FRAME["n"])
        assert isinstance(table.X, np.memmap) == (limit == 0)
        assert table.skipped == ("name", "ok", "day")
    assert list(temporary.iterdir()) == []


@NAMES
def test_choices_and_labels(name):
    table = read_table(write(name), columns=["n", "b"], label_column="name")
    np.testing.assert_array_equal(table.X, FRAME[["n", "b"]])
    assert table.labels.tolist() == FRAME["name"].tolist()
    table = read_table(name, columns=["a"], label_column="day")
    assert tuple(dict.fromkeys(table.labels)) == ("2020-01-01",)
    with pytest.raises(TableError) as caught:
        read_table(name, columns=["a", "name"])
    assert (
        str(caught.value)
        == f"{name}: column 'name' holds text, not numbers. Choose other columns with --columns."
    )
    with pytest.raises(TableError, match=f"^{name}: column 'ok' holds true and false, not numbers"):
        read_table(name, columns=["ok"])


@NAMES
def test_missing_and_infinite_numbers(name):
    table = pa.table({"a": [1.0, None, 3.0, float("nan")], "b": [1, 2, None, 2**60]})
    with pytest.raises(TableError) as caught:
        read_table(write(name, table))
    assert str(caught.value) == (
        f"{name}: 3 rows have missing values, in columns 'a' and 'b'; see rows 2, 3 and 4. "
        "Fill them in, or leave those rows out with --drop-missing."
    )
    table = pa.table({"a": [1.0, None, 3.0], "b": [1, 2, 3], "t": ["x", "y", None]})
    complete = read_table(write(name, table), drop_missing=True, label_column="t")
    assert complete.X.tolist() == [[1, 1], [3, 3]]
    assert (complete.row_numbers.tolist(), complete.labels.tolist(), complete.n_dropped) == (
        [0, 2],
        ["x", ""],
        1,
    )
    with pytest.raises(TableError, match=f"^{name}, row 2, column 'a': the number is infinite or too large"):
        read_table(write(name, pa.table({"a": [1.0, np.inf, 3.0]})))


def test_numbers_of_every_kind():
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
    assert table.skipped == ("l", "v")
    assert table.labels.tolist() == ["x", "y"]


def test_what_pandas_and_polars_write():
    FRAME[FRAME["a"] > 0].to_parquet("a.parquet")
    table = read_table("a.parquet")
    assert table.names == ("a", "b", "c", "n")
    assert table.skipped == ("name", "ok", "day", "__index_level_0__")
    frame = pl.DataFrame(X, schema=["a", "b", "c"]).with_columns(t=pl.lit("x"))
    frame.write_parquet("b.parquet")
    frame.write_ipc("b.arrow")
    for name in ("b.parquet", "b.arrow"):
        table = read_table(name, label_column="t")
        np.testing.assert_array_equal(table.X, X)
        assert tuple(dict.fromkeys(table.labels)) == ("x",)


@NAMES
@pytest.mark.parametrize("n_bytes", [3, 10, 1000, -1000])
def test_files_that_are_cut_short(refusal, folder, name, n_bytes):
    content = (folder / write(name)).read_bytes()
    format = "Parquet" if name in ("a.parquet", "a.pq") else "Feather"
    message = refusal(content[:n_bytes], name)
    assert message.startswith(f"{name} is not a {format} file, or is truncated or damaged: ")
    assert message.endswith(". Create or copy the file again.")


def test_a_page_that_is_damaged(refusal, folder):
    content = bytearray((folder / write("a.parquet")).read_bytes())
    content[4:60] = bytes(56)
    assert refusal(bytes(content), "a.parquet").startswith(
        "a.parquet is not a Parquet file, or is truncated or damaged: "
    )
