"""Several files and folders as one table."""

from pathlib import Path

import numpy as np
import pytest

from apolar.cli.tables import TableError, read_table


def said(*sources, **options):
    with pytest.raises(TableError) as caught:
        read_table(sources, **options)
    return str(caught.value)


def test_files_are_read_one_after_the_other(write):
    write("a,b,c\n1,2,x\n3,4,y\n", "one.csv")
    write("c;b;a\nz;6,5;5\n", "two.csv")
    np.save("three.npy", [[1.0, 2.0]])
    table = read_table(["one.csv", "two.csv"], label_column="c")
    assert table.X.tolist() == [[1, 2], [3, 4], [5, 6.5]]
    assert table.labels.tolist() == ["x", "y", "z"]
    assert table.files == ("one.csv", "two.csv")
    assert table.source == "one.csv and two.csv"
    assert table.file_of_rows.tolist() == [0, 0, 1]


def test_rows_are_counted_over_all_files(write):
    write("a,b\n1,2\n3,\n", "one.csv")
    write("a,b\n,6\n7,8\n", "two.csv")
    table = read_table(["one.csv", "two.csv"], drop_missing=True)
    assert table.row_numbers.tolist() == [0, 3]
    assert table.file_of_rows.tolist() == [0, 1]
    assert read_table("one.csv", keep_missing=True).file_of_rows.tolist() == [0, 0]


def test_a_folder_in_the_order_of_names():
    Path("months").mkdir()
    for month in (2, 10, 1):
        Path(f"months/{month:02}.csv").write_text(f"a,b\n{month},0\n")
    Path("months/notes.md").write_text("nothing")
    assert read_table("months").X[:, 0].tolist() == [1, 2, 10]


def test_other_columns_are_refused(write):
    write("a,b\n1,2\n3,4\n", "one.csv")
    write("a,c\n1,2\n3,4\n", "two.csv")
    assert said("one.csv", "two.csv") == (
        "two.csv has other columns than one.csv: it has no 'b' and only it has 'c'. Give files with the "
        "same columns, or choose columns with --columns."
    )
    assert read_table(["one.csv", "two.csv"], columns=["a"]).X[:, 0].tolist() == [1, 3, 1, 3]
    write("1,2,3\n4,5,6\n", "three.csv")
    write("1,2\n4,5\n", "four.csv")
    assert "three.csv has other columns than four.csv: only it has 'x3'" in said("four.csv", "three.csv")


def test_errors_name_the_file(write):
    write("a,b\n1,2\n3,4\n", "one.csv")
    write("a,b\n1,x\n3,y\n", "two.csv")
    assert said("one.csv", "two.csv").startswith("two.csv, line 2, column 'b': 'x' is not a number.")
    write("a,b\n1,inf\n", "two.csv")
    assert said("one.csv", "two.csv").startswith("two.csv, line 2, column 'b': the number is infinite")
    write("a,b\n1,\n3,4\n", "two.csv")
    assert "in column 'b'; see line 2 of two.csv. Fill" in said("one.csv", "two.csv")
    assert said("one.csv", "none.csv").startswith("There is no file none.csv")
    assert said("one.csv", "one.csv", "none.csv").startswith("There is no file none.csv")
