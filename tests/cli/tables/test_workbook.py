"""Tables in Excel workbooks."""

import datetime
import zipfile

import numpy as np
import pytest
import xlsxwriter

from apolar.cli.tables import TableError, formats, read_table

HEADER = ["name", "height", "born", "is_member", "weight"]
DAY = datetime.datetime(2020, 1, 2)
ROWS = [["Ann", 1.7, DAY, True, 60], ["Bob", 1.8, DAY, False, None], ["Cid", "1.9", DAY, True, "n/a"]]


@pytest.fixture
def write_book():
    def write_book(sheets, name="book.xlsx"):
        with xlsxwriter.Workbook(name, {"default_date_format": "yyyy-mm-dd"}) as book:
            for title, rows in sheets.items():
                sheet = book.add_worksheet(title)
                for i, row in enumerate(rows):
                    sheet.write_row(i, 0, row)
        return name

    return write_book


def said(source, **options):
    with pytest.raises(TableError) as caught:
        read_table(source, **options)
    message = str(caught.value)
    assert message.isprintable()
    return message


def test_a_sheet_is_a_table(write_book):
    name = write_book({"empty": [], "people": [[], HEADER, *ROWS, [None] * 5, []]})
    table = read_table(name, label_column="name", keep_missing=True)
    assert table.names == ("height", "weight")
    np.testing.assert_array_equal(table.X, [[1.7, 60], [1.8, np.nan], [1.9, np.nan]])
    assert table.labels.tolist() == ["Ann", "Bob", "Cid"]
    assert table.notes == (
        "Dropped column 'born': it holds dates.",
        "Dropped column 'is_member': it holds true and false.",
    )


def test_sheets_by_name(write_book, write):
    name = write_book({"one": [["a", "b"], [1, 2], [3, 4]], "two": [[5, 6], [7, 8]]})
    assert read_table(name).names == ("a", "b")
    table = read_table(name, sheet="two")
    assert (table.names, table.X.tolist()) == (("x1", "x2"), [[5, 6], [7, 8]])
    assert said(name, sheet="three") == "book.xlsx has no sheet 'three': its sheets are 'one' and 'two'."
    assert said(write("1,2\n3,4\n"), sheet="two") == (
        "data.csv is not a workbook and has no sheets: omit --sheet."
    )


def test_bad_workbooks(write_book, write):
    assert said(write_book({"a": []})) == "book.xlsx has no table in its sheets 'a'."
    assert "the sheet 'a' is empty" in said("book.xlsx", sheet="a")
    assert "has a header and no rows below it" in said(write_book({"a": [["x", "y"]]}))
    mixed = [["x", "y"], *[[i, i * i] for i in range(20)], [1, "high"]]
    assert said(write_book({"a": mixed})) == (
        "book.xlsx, row 22, column 'y': 'high' is not a number. Correct the cell (leave it empty if the "
        "value is missing), or exclude the column with --columns."
    )
    write(b"PK\x03\x04" + bytes(200), "bad.xlsx")
    assert said("bad.xlsx").startswith("bad.xlsx is not a workbook, or is truncated or damaged")


def test_rows_in_several_batches(write_book):
    rows = np.random.default_rng(0).random((5000, 2)).round(6)
    name = write_book({"a": rows.tolist()})
    np.testing.assert_array_equal(read_table(name).X, rows)
    np.testing.assert_array_equal(read_table([name, name]).X, np.vstack([rows, rows]))


def test_a_workbook_that_unpacks_to_too_much(monkeypatch):
    """The size is read from the directory of the archive, before anything is unpacked."""
    monkeypatch.setattr(formats, "MAX_UNPACKED", 10**6)
    with zipfile.ZipFile("bomb.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("sheet.xml", bytes(10**6 + 1))
    assert said("bomb.xlsx") == "bomb.xlsx unpacks to 1 MB, too much for a workbook. Save it as CSV."
