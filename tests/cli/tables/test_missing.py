"""Missing and infinite numbers."""

import numpy as np
import pytest

from apolar.cli.tables import read_table
from apolar.cli.tables import text as text_module


@pytest.mark.parametrize(
    "cell",
    ["", " ", '""', "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "None", "?", "-", ".", "NAN", "n/a"],
)
def test_every_way_to_say_missing(read, refusal, cell):
    text = f"a,b\n1,2\n3,{cell}\n5,6\n"
    table = read(text, drop_missing=True)
    assert table.X.tolist() == [[1, 2], [5, 6]]
    assert table.row_numbers.tolist() == [0, 2]
    assert table.n_dropped == 1
    assert refusal(text) == (
        "data.csv: 1 row has missing values, in column 'b'; see line 3. "
        "Fill them in, or leave those rows out with --drop-missing."
    )


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
@pytest.mark.parametrize("word", ["", "NA", "?"])
def test_missing_cells_anywhere(read, delimiter, word):
    rows = ["_,2,3", "1,2,3", "1,_,3", "1,2,_", "_,_,3", "1,_,_", "_,_,_", "4,5,6", "_,_,_"]
    table = read("\n".join(rows).replace(",", delimiter).replace("_", word), drop_missing=True)
    assert table.X.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert table.row_numbers.tolist() == [1, 7]
    assert table.n_dropped == 7


def test_what_is_said_of_many(refusal):
    names = ",".join(f"c{i}" for i in range(8))
    full = ",".join("1" * 8)
    rows = [full] * 20 + [",,,,,,7,8"] * 1200
    assert refusal("\n".join([names, *rows])) == (
        "data.csv: 1,200 rows have missing values, in columns 'c0', 'c1', 'c2', 'c3', 'c4' and 1 more; "
        "the first are on lines 22, 23, 24, 25 and 26. "
        "Fill them in, or leave those rows out with --drop-missing."
    )


def test_all_of_the_file_is_counted(monkeypatch, refusal, temporary):
    monkeypatch.setattr(text_module, "BLOCK_BYTES", 50)
    text = "a,b\n" + "1,2\n" * 50 + ",2\n" + "1,2\n" * 50 + "1,NA\n"
    assert refusal(text, in_memory_bytes=100) == (
        "data.csv: 2 rows have missing values, in columns 'a' and 'b'; see lines 52 and 103. "
        "Fill them in, or leave those rows out with --drop-missing."
    )
    assert list(temporary.iterdir()) == []


def test_nothing_is_left(refusal):
    assert refusal("a,b\n1,\n2,\n3,4\n,5\n", drop_missing=True) == (
        "data.csv: only one row is left without missing values; column 'b' has the most of them. "
        "Exclude such columns with --columns."
    )
    assert refusal("a,b\n1,\n,2\n", drop_missing=True).startswith(
        "data.csv: no row is left without missing values; "
    )


def test_blank_lines_of_one_column_are_missing_but_for_the_last(read):
    table = read("a\n1\n\n2\n\n\n", drop_missing=True)
    assert table.X.tolist() == [[1], [2]]
    assert table.row_numbers.tolist() == [0, 2]


@pytest.mark.parametrize("cell", ["inf", "-inf", "Infinity", "1e999"])
@pytest.mark.parametrize("drop", [False, True])
def test_infinite(refusal, cell, drop):
    assert refusal(f"a,b\n1,2\n,4\n3,{cell}\n", drop_missing=drop) == (
        "data.csv, line 4, column 'b': the number is infinite or too large. "
        "Correct it, or leave the cell empty and use --drop-missing."
    )


def test_labels_and_numbers_of_the_rows_that_are_kept(monkeypatch, write):
    monkeypatch.setattr(text_module, "BLOCK_BYTES", 300)
    present = np.random.default_rng(0).random(400) < 0.7
    present[:100] = True
    name = write("a,t\n" + "".join(f"{i if one else ''},t{i}\n" for i, one in enumerate(present)))
    table = read_table(name, drop_missing=True, label_column="t")
    np.testing.assert_array_equal(table.row_numbers, np.flatnonzero(present))
    np.testing.assert_array_equal(table.X[:, 0], np.flatnonzero(present))
    assert table.labels.tolist() == [f"t{i}" for i in np.flatnonzero(present)]
