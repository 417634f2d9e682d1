"""Tables of text: delimiters, encodings, line ends, quotes, decimal signs, rows of unequal length."""

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from apolar.cli.tables import read_table
from apolar.cli.tables import text as text_module

X = np.random.default_rng(0).standard_normal((300, 4)) * 10.0 ** np.arange(-3, 5, 2)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", " ", "  "])
@pytest.mark.parametrize("name", ["a.csv", "a.tab", "a"])
def test_what_savetxt_writes(delimiter, name):
    np.savetxt(name, X, delimiter=delimiter, fmt="%.17g")
    table = read_table(name)
    np.testing.assert_array_equal(table.X, X)
    assert table.names == ("x1", "x2", "x3", "x4")
    assert table.source == name
    assert (table.labels, table.row_numbers, table.n_dropped, table.skipped) == (None, None, 0, ())
    assert table.X.dtype == np.float64
    assert not table.X.flags.writeable


@pytest.mark.parametrize(
    "options", [{}, {"index": False}, {"index": False, "quoting": 1}, {"sep": ";", "decimal": ","}]
)
def test_what_pandas_writes(options):
    pd.DataFrame(X, columns=list("abcd")).to_csv("a.csv", **options)
    table = read_table("a.csv")
    np.testing.assert_array_equal(table.X, X)
    assert table.names == ("a", "b", "c", "d")
    assert table.skipped == (() if options.get("index") is False else ("column 1",))


def test_what_r_writes(read):
    # write.table: row names without a name above them, strings in quotes.
    table = read(
        '"height" "name"\n"1" 1.5 "Ann B"\n"2" 2.5 "say ""x"""\n"3" 3 "C"\n', "a.txt", label_column="name"
    )
    assert table.X.tolist() == [[1.5], [2.5], [3.0]]
    assert table.labels.tolist() == ["Ann B", 'say "x"', "C"]
    assert table.skipped == ("column 1",)


@pytest.mark.parametrize(
    "text", ["a,b\n1,2\n3,4\n", "a,b\r\n1,2\r\n3,4\r\n", "a,b\r1,2\r3,4\r", "a,b\n1,2\n3,4"]
)
@pytest.mark.parametrize("start", ["", "\ufeff", "# made by hand\n# on a day\n", "\n\n#\n"])
@pytest.mark.parametrize("end", ["", "\n\n\n", "\r\n\r\n"])
def test_line_ends_marks_comments_and_blank_lines(read, text, start, end):
    table = read(start + text + end)
    assert (table.names, table.X.tolist()) == (("a", "b"), [[1, 2], [3, 4]])


def test_blank_lines_between_rows(read):
    assert read("a,b\n\n1,2\n\n  \n3,4\n").X.tolist() == [[1, 2], [3, 4]]


def test_numbers_as_people_write_them(read):
    table = read('a,b\n +1.5 ,"2"\n-.5,3.\n1e3,1E-2\n')
    assert table.X.tolist() == [[1.5, 2], [-0.5, 3], [1000, 0.01]]


def test_gzip(write):
    name = write(gzip.compress(b"a,b\n1,2\n3,4\n"), "a.csv.gz")
    assert read_table(name).X.tolist() == [[1, 2], [3, 4]]
    # What the bytes say counts, not the name.
    assert read_table(write("a,b\n1,2\n3,4\n", "b.csv.gz")).X.tolist() == [[1, 2], [3, 4]]
    assert read_table(write(gzip.compress(b"a,b\n1,2\n3,4\n"), "c.csv")).X.tolist() == [[1, 2], [3, 4]]


def test_zstd(refusal, folder):
    with pa.CompressedOutputStream("a.csv.zst", "zstd") as file:
        file.write(b'a,b,t\n1,2,"x, y"\n3,4,z\n')
    assert read_table("a.csv.zst").X.tolist() == [[1, 2], [3, 4]]
    whole = (folder / "a.csv.zst").read_bytes()
    assert refusal(whole[:-4], "b.csv.zst").startswith("b.csv.zst is truncated or damaged")


def test_rows_that_polars_would_fill_up_are_refused(refusal):
    """Where commas stand inside of quotes, their number does not tell how many cells there are."""
    rows = '"a, b",1,2\n' * 30
    assert (
        refusal(f"t,x,y\n{rows}c,3\n{rows}") == "data.csv, line 32: 2 cells instead of 3. Correct the line."
    )
    assert refusal(f"t,x,y\n{rows}c\n{rows}") == "data.csv, line 32: 1 cell instead of 3. Correct the line."
    assert refusal("x,t\n1,a\n2\n3,b,\n4,c\n").startswith("data.csv, line 3: 1 cell instead of 2.")


def test_truncated_gzip(refusal):
    whole = gzip.compress(b"a,b\n" + b"1,2\n" * 100)
    assert refusal(whole[:-12], "a.csv.gz") == (
        "a.csv.gz is truncated or damaged: Compressed file ended before the end-of-stream marker was "
        "reached. Create or copy the file again."
    )
    damaged = whole[:15] + bytes(8) + whole[23:]
    assert refusal(damaged, "a.csv.gz").startswith("a.csv.gz is truncated or damaged: ")


def test_quotes(read):
    text = 'name,a,b\n"Doe, Ann",1,"2"\n"say ""hi""",3,4\n"two\nlines",5,6\n5" pipe,7,8\n'
    table = read(text, label_column="name")
    assert table.X.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert table.labels.tolist() == ["Doe, Ann", 'say "hi"', "two\nlines", '5" pipe']


def test_a_quote_that_is_not_closed(refusal, monkeypatch):
    rows = "".join(f"n{i},{i}\n" for i in range(50))
    never = "data.csv, line 52: a quote is opened and never closed. Close the quote, or remove it."
    for size in (2**22, 100):
        monkeypatch.setattr(text_module, "BLOCK_BYTES", size)
        assert refusal(f'name,a\n{rows}"x,2\nz,3\n') == never
        # Rows must not be lost in what looks like one cell.
        assert refusal(f'name,a\n{rows}x,"2\nz,3\n') == never
        assert refusal(f'name,a\n{rows}x,"2') == never
    # It is not said that there are no rows if the quote is opened in the header or the first row.
    assert refusal('name,a\nx,"2\nz,3\n') == never.replace("52", "2")
    assert refusal('"name,a\nx,2\nz,3\n') == never.replace("52", "1")
    monkeypatch.setattr(text_module, "BLOCK_BYTES", 2**22)
    long = (
        "a cell has more than 131,072 characters, as if a quote were not closed. "
        "Close the quote, or remove it."
    )
    assert refusal(f'name,a\n{rows}"x,2\n{rows * 1000}', "b.csv") == f"b.csv, line 52: {long}"
    assert refusal(f'name,a\n{rows * 30}"x,2\n{rows * 1000}', "b.csv") == f"b.csv, line 1,502: {long}"
    assert refusal(f'"name,a\n{rows * 1000}', "b.csv") == f"b.csv, line 1: {long}"
    assert refusal(f'name,a\n{rows}"x,2\nz",y,3\n') == (
        "data.csv, line 52: 3 cells instead of 2. "
        "A quoted cell spans several lines there: check whether it should."
    )


def test_latin1(refusal):
    assert refusal("a,b\n1,2\n3,é\n".encode("latin1")) == (
        "data.csv, line 3: byte 0xe9 at offset 10 is not UTF-8 text. "
        "Specify the encoding, such as --encoding latin-1."
    )
    # The mark at the start counts among the bytes; lines end in any way.
    assert refusal(b"\xef\xbb\xbfa,b\r1,2\r3,\xe9\r").startswith("data.csv, line 3: byte 0xe9 at offset 13 ")


def test_bytes_that_are_no_text(refusal):
    assert refusal(b"a,b\n1,2\n\x00\x01,3\n") == (
        "data.csv, line 3: a zero byte, so this is not a text file. Save the table as CSV in UTF-8; "
        "if it is UTF-16 without a byte order mark, use --encoding utf-16-le."
    )


@pytest.mark.parametrize(
    "text", ["a;b\n1,5;2,3\n4;5\n", '"a";"b"\n"1,5";2,3\n4;5\n', "a;b;c\n1,5;2,3;3.12.\n4;5;x\n"]
)
def test_decimal_commas(read, text):
    table = read(text)
    assert (table.names, table.X.tolist()) == (("a", "b"), [[1.5, 2.3], [4, 5]])


@pytest.mark.parametrize("sign", [".", ","])
def test_a_decimal_sign_that_comes_late(monkeypatch, read, sign):
    monkeypatch.setattr(text_module, "BLOCK_BYTES", 1000)
    table = read("a;b;c\n" + "1;2;x.\n" * 500 + f"1{sign}5;2;x\n" * 500)
    np.testing.assert_array_equal(table.X, [[1, 2]] * 500 + [[1.5, 2]] * 500)


def test_two_decimal_signs(refusal, monkeypatch):
    monkeypatch.setattr(text_module, "BLOCK_BYTES", 1000)
    assert refusal("a;b\n" + "1,5;2\n" * 500 + "1.5;2\n") == (
        "data.csv, line 502, column 'a': '1.5' is not a number. "
        "Write it with a decimal comma, like the other numbers, and without thousands separators, "
        "or exclude the column with --columns."
    )
    assert refusal("a;b\n" + "1.5;2\n" * 500 + "1,5;2\n") == (
        "data.csv, line 502, column 'a': '1,5' is not a number. Write it with a decimal point "
        "and without thousands separators, or exclude the column with --columns."
    )


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("a\tb\n1,5\t2\n2,5\t3\n", "1,5"),
        ("a b\n1,5 2\n2,5 3\n", "1,5"),
        ('a,b\n"1,234",2\n"5,678",3\n', "1,234"),
        ("a;b\n1.234,5;2\n5.678,5;3\n", "1.234,5"),
        ("a,b\n1'000.5,2\n2'000,3\n", "1'000.5"),
    ],
)
def test_a_column_of_numbers_that_cannot_be_read_is_not_left_out(refusal, text, cell):
    assert refusal(text) == (
        f"data.csv, line 2, column 'a': {cell!r} is not a number. Write it with a decimal point "
        "and without thousands separators, or exclude the column with --columns."
    )


def test_rows_of_unequal_length(refusal):
    assert refusal("a,b,c\n1,2,3\n4,5\n6,7,8\n") == (
        "data.csv, line 3: 2 cells instead of 3. Correct the line."
    )
    assert refusal("a,b\n1,2\n4,5,6\n6,7\n") == "data.csv, line 3: 3 cells instead of 2. Correct the line."
    # Also where NumPy does not look, and where the numbers of cells add up.
    assert refusal("a,b,c\n1,2,x\n4,5\n6,7,8,9\n", columns=["a"]) == (
        "data.csv, line 3: 2 cells instead of 3. Correct the line."
    )
    assert refusal("a b c\n1 2 3\n4 5\n6 7 8\n", columns=["a"]) == (
        "data.csv, line 3: 2 cells instead of 3. Correct the line."
    )


def test_a_title_above_the_table(refusal):
    for title, n_cells in (("My data", "1"), ("My data, by me, in May, at home", "4")):
        rows = "a,b\n1,2\n3,4\n"
        assert refusal(f"{title}\n{rows}") == (
            f"data.csv, line 2: 2 cells instead of {n_cells}. If line 1 is a title, remove it."
        )


@pytest.mark.parametrize("content", ["", "\n\n \n", "# nothing\n", "\ufeff"])
def test_empty(refusal, content):
    assert refusal(content) == "data.csv is empty: give a file with a table of numbers."


def test_too_few_rows(refusal):
    assert refusal("a,b\n") == "data.csv has a header and no rows below it: at least two are needed."
    message = "data.csv has only one row of numbers: at least two are needed."
    assert refusal("1,2\n") == message
    assert refusal("a,b\n1,2\n") == message


def test_a_bad_cell_far_down(refusal):
    rows = "a,b\n" + "1,2\n" * 2000
    assert refusal(f"{rows}3,n/k\n4,x\n") == (
        "data.csv, line 2,002, column 'b': 'n/k' is not a number. "
        "Correct the cell (leave it empty if the value is missing), or exclude the column with --columns."
    )
    # The first in the file is named, whatever its column; long cells are cut.
    assert refusal(f"{rows}3,{'y' * 100}\nx,4\n").startswith(
        f"data.csv, line 2,002, column 'b': '{'y' * 39}…' is not a number. "
    )


@pytest.mark.parametrize("cell", ["1_000", "0x10", "1d5", "२", "1e", "1 2", "--1", "#1", "true"])
def test_what_is_no_number(refusal, cell):
    message = refusal("a,b\n" + "1,2\n" * 20 + f"{cell},2\n")
    assert message.startswith(f"data.csv, line 22, column 'a': {cell!r} is not a number. ")


def test_blocks_of_any_size_give_the_same(monkeypatch, write):
    rng = np.random.default_rng(1)
    cells = [[repr(number) for number in row] for row in X.tolist()]
    for i in rng.integers(len(X), size=20):
        cells[i][rng.integers(4)] = rng.choice(["", "NA", '"5"', " 6 "])
    text = "a,b,c,d,e\n" + "".join(
        ",".join(row) + (f',"t {i}\n\n"\n' if i % 3 == 0 else f",u{i}\n") for i, row in enumerate(cells)
    )
    name = write(text)
    whole = read_table(name, label_column="e", drop_missing=True)
    assert whole.n_dropped > 0
    for size in (200, 333, 1000, 5000):
        monkeypatch.setattr(text_module, "BLOCK_BYTES", size)
        table = read_table(name, label_column="e", drop_missing=True)
        np.testing.assert_array_equal(table.X, whole.X)
        np.testing.assert_array_equal(table.row_numbers, whole.row_numbers)
        assert table.labels.tolist() == whole.labels.tolist()


def test_headers_and_gaps_that_fill_blocks(monkeypatch, read, refusal):
    monkeypatch.setattr(text_module, "BLOCK_BYTES", 50)
    rows = "1,2\n3,4\n" + "\n" * 50 + "5,6\n" + "\n" * 50
    header = "a" * 20 + "," + "b" * 20
    table = read(f"# {header}\n{header}\n{rows}")
    assert table.names == ("a" * 20, "b" * 20)
    assert table.X.tolist() == [[1, 2], [3, 4], [5, 6]]
    far_down = "\n" * 90
    assert refusal(f"{header}\n\n\n\n\n\n\n\n1,2\n3,4\n{far_down}5,x\n").startswith(
        f"data.csv, line 101, column '{'b' * 20}': 'x' is not a number. "
    )


def test_line_numbers_hold_across_blocks(monkeypatch, refusal):
    monkeypatch.setattr(text_module, "BLOCK_BYTES", 64)
    text = "# c\n\na,b,t\n" + '1,2,"x\ny"\n\n' * 100 + "1,2,z\n" * 100 + "1,?!,z\n"
    line = text.count("\n")
    assert refusal(text).startswith(f"data.csv, line {line:,}, column 'b': '?!' is not a number.")
