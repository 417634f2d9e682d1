"""Tables of text: delimiters, encodings, line ends, quotes, decimal signs, rows of unequal length."""

import csv
import gzip
import io
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apolar.cli.tables import TableError, read_table, text_table

X = np.random.default_rng(0).standard_normal((300, 4)) * 10.0 ** np.arange(-3, 5, 2)


@pytest.fixture
def blocks(monkeypatch):
    """Read text in blocks of so many characters."""
    return lambda size: monkeypatch.setattr(text_table, "BLOCK_SIZE", size)


# --- what other programs write --------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", " ", "  "])
def test_what_savetxt_writes(delimiter):
    np.savetxt("a.csv", X, delimiter=delimiter, fmt="%.17g")
    table = read_table("a.csv")
    np.testing.assert_array_equal(table.X, X)
    assert table.names == ("x1", "x2", "x3", "x4")
    assert (table.source, table.labels, table.n_dropped) == ("a.csv", None, 0)
    (note,) = table.notes
    assert note.startswith("No column names found: the columns are called 'x1', 'x2', 'x3' and 1 more.")
    assert table.X.dtype == np.float64
    assert not table.X.flags.writeable


def test_what_r_writes(read, left_out):
    # write.table: row names without a name above them, strings in quotes.
    table = read(
        '"height" "name"\n"1" 1.5 "Ann B"\n"2" 2.5 "say ""x"""\n"3" 3 "C"\n', "a.txt", label_column="name"
    )
    assert table.X.tolist() == [[1.5], [2.5], [3.0]]
    assert table.labels.tolist() == ["Ann B", 'say "x"', "C"]
    assert left_out(table) == ["column 1"]


def test_numbers_as_people_write_them(read):
    table = read('a,b\n +1.5 ,"2"\n-.5,3.\n1e3,1E-2\n')
    assert table.X.tolist() == [[1.5, 2], [-0.5, 3], [1000, 0.01]]


# --- lines and encodings --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["a,b\n1,2\n3,4\n", "a,b\r\n1,2\r\n3,4\r\n", "a,b\r1,2\r3,4\r", "a,b\n\n1,2\n\n  \n3,4"]
)
@pytest.mark.parametrize("start", ["", "\ufeff", "# made by hand\n# on a day\n", "\n\n#\n"])
@pytest.mark.parametrize("end", ["", "\n\n\n"])
def test_line_ends_marks_comments_and_blank_lines(read, text, start, end):
    table = read(start + text + end)
    assert (table.names, table.X.tolist()) == (("a", "b"), [[1, 2], [3, 4]])


def test_compressed_text(write, refusal, folder):
    text = b'a,b,t\n1,2,"x, y"\n3,4,z\n'
    with pa.CompressedOutputStream("a.csv.zst", "zstd") as file:
        file.write(text)
    # What the bytes say counts, not the name.
    names = ["a.csv.zst", write(gzip.compress(text), "a.csv.gz"), write(text, "b.csv.gz")]
    assert [read_table(name).X.tolist() for name in names] == [[[1, 2], [3, 4]]] * 3
    assert refusal((folder / "a.csv.zst").read_bytes()[:-4]).startswith("data.csv is truncated or damaged: ")
    whole = gzip.compress(b"a,b\n" + b"1,2\n" * 100)
    assert refusal(whole[:-12]) == (
        "data.csv is truncated or damaged: Compressed file ended before the end-of-stream marker was "
        "reached. Create or copy the file again."
    )
    assert refusal(whole[:15] + bytes(8) + whole[23:]).startswith("data.csv is truncated or damaged: ")


TEXT = "größe,b\n1,2\n3,4\n"


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        *((TEXT.encode(encoding), None) for encoding in ("utf-8-sig", "utf-16", "utf-32")),
        (b"\xfe\xff" + TEXT.encode("utf-16-be"), None),
        *((TEXT.encode(encoding), encoding) for encoding in ("latin-1", "cp1252", "utf-16-le", "utf-8")),
    ],
)
def test_encodings(read, content, encoding):
    table = read(content, encoding=encoding)
    assert (table.names, table.X.tolist()) == (("größe", "b"), [[1, 2], [3, 4]])


def test_wrong_encodings(refusal):
    for content, encoding, wrong in (
        ("a,b\n1,2\n3,é\n".encode("latin1"), None, "line 3: byte 0xe9 is not UTF-8"),
        (b"\xef\xbb\xbfa,b\r1,2\r3,\xe9\r", None, "line 3: byte 0xe9 is not UTF-8"),  # any line ends
        (TEXT, "ascii", "line 1: byte 0xc3 is not ASCII"),
        (TEXT.encode("utf-16-le"), None, "line 1: byte 0xf6 is not UTF-8"),
    ):
        assert refusal(content, encoding=encoding) == (
            f"data.csv, {wrong} text. Specify its encoding, such as --encoding latin-1 or utf-16-le."
        )
    for unknown in ("klingon", "rot13"):
        assert refusal(TEXT, encoding=unknown) == (
            f"Unknown encoding '{unknown}': give one such as --encoding latin-1."
        )
    assert refusal(b"a,b\n1,2\n\x00\x01,3\n") == (
        "data.csv, line 3: a zero byte, so this is not a text file. Save the table as CSV in UTF-8; "
        "if it is UTF-16 without a byte order mark, use --encoding utf-16-le."
    )


def test_blocks_of_any_size_give_the_same(blocks, write):
    cells = "".join(f'{x!r},{y!r},"t {i}\n\n"\n' for i, (x, y, *_) in enumerate(X.tolist()))
    write(("# c\na,b,größe\n1,NA,u\n" + cells).encode("utf-16"))
    for size in (200, 333, 5000):
        blocks(size)
        table = read_table("data.csv", label_column="größe", drop_missing=True)
        np.testing.assert_array_equal(table.X, X[:, :2])
        np.testing.assert_array_equal(table.row_numbers, 1 + np.arange(300))
        assert table.labels[299].startswith("t 299")


@pytest.mark.parametrize(
    "text",
    [
        "# c\n\na,b,t\n" + '1,2,"x\ny"\n\n' * 100 + "1,2,z\n" * 100 + "1,?!,z\n",
        "a,b\n" + "\n" * 90 + "1,2\n3,4\n" * 20 + "\n" * 90 + "5,?!\n",
    ],
)
def test_line_numbers_hold_across_blocks(blocks, refusal, text):
    blocks(64)
    number = text.count("\n")
    assert refusal(text).startswith(f"data.csv, line {number:,}, column 'b': '?!' is not a number.")


# --- cells ----------------------------------------------------------------------------------------


def test_quotes(read):
    text = 'name,a,b\n"Doe, Ann",1,"2"\n"say ""hi""",3,4\n"two\nlines",5,6\n5" pipe,7,8\n'
    table = read(text, label_column="name")
    assert table.X.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert table.labels.tolist() == ["Doe, Ann", 'say "hi"', "two\nlines", '5" pipe']


def test_a_quote_that_is_not_closed(refusal, blocks):
    rows = "".join(f"n{i},{i}\n" for i in range(50))
    never = "data.csv, line 52: a quote is opened and never closed. Close the quote, or remove it."
    for size in (2**22, 100):
        blocks(size)
        # Rows must not be lost in what looks like one cell.
        for end in ('"x,2\nz,3\n', 'x,"2\nz,3\n', 'x,"2'):
            assert refusal(f"name,a\n{rows}{end}") == never
    # It is not said that there are no rows if the quote is opened in the header or the first row.
    assert refusal('name,a\nx,"2\nz,3\n') == never.replace("52", "2")
    assert refusal('"name,a\nx,2\nz,3\n') == never.replace("52", "1")
    blocks(2**22)
    long = (
        "a cell has more than 131,072 characters, as if a quote were not closed. "
        "Close the quote, or remove it."
    )
    assert refusal(f'name,a\n{rows * 30}"x,2\n{rows * 1000}') == f"data.csv, line 1,502: {long}"
    assert refusal(f'"name,a\n{rows * 1000}') == f"data.csv, line 1: {long}"
    assert refusal(f'name,a\n{rows}"x,2\nz",y,3\n') == (
        "data.csv, line 52: 3 cells instead of 2. "
        "A quoted cell spans several lines there: check whether it should."
    )


def test_decimal_commas(read):
    for text in ("a;b\n1,5;2,3\n4;5\n", '"a";"b"\n"1,5";2,3\n4;5\n', "a;b;c\n1,5;2,3;3.12.\n4;5;x\n"):
        table = read(text)
        assert (table.names, table.X.tolist()) == (("a", "b"), [[1.5, 2.3], [4, 5]])


@pytest.mark.parametrize("sign", [".", ","])
def test_a_decimal_sign_that_comes_late(blocks, read, sign):
    blocks(1000)
    table = read("a;b;c\n" + "1;2;x.\n" * 2000 + f"1{sign}5;2;x\n" * 500)
    np.testing.assert_array_equal(table.X, [[1, 2]] * 2000 + [[1.5, 2]] * 500)


ROWS = "a,b\n" + "1,2\n" * 2000
COMMA = "is not a number. Write it with a decimal comma, like the other numbers, or exclude the column"
CORRECT = "is not a number. Correct the cell"
POINT = "is not a number. Write it with a decimal point, or exclude the column"
THOUSANDS = "to read thousands separators, currency and percent signs, or exclude the column"
INFINITE = "the number is infinite or too large. Correct it, or leave the cell empty and use --drop-missing."
REFUSED = [
    (
        f"{ROWS}3,n/k\n4,x\n",
        f", line 2,002, column 'b': 'n/k' {CORRECT}, use --na-values n/k,x if they stand for missing values, "
        "or exclude the column with --columns.",
    ),
    # The first in the file is named, whatever its column; long cells are cut.
    (
        f"{ROWS}3,{'y' * 100}\nx,4\n",
        f", line 2,002, column 'b': '{'y' * 39}…' {CORRECT}, or exclude the column with --columns.",
    ),
    *(
        (f"{ROWS}{cell},2\n", f", line 2,002, column 'a': {cell!r} is not a number. ")
        for cell in ("1_000", "0x10", "1d5", "२", "1e", "1 2", "--1", "#1", "true")
    ),
    *(
        (f"{ROWS},4\n3,{cell}\n", f", line 2,003, column 'b': {INFINITE}")
        for cell in ("inf", "-Infinity", "1e999")
    ),
    # Columns of numbers that are written in another way are not dropped.
    ("a\tb\n1,5\t2\n2,5\t3\n", f", line 2, column 'a': '1,5' {POINT}"),
    (
        'a,b\n"1,234",2\n"5,678",3\n',
        f", line 2, column 'a': '1,234' is not a number. Use --thousands ',' {THOUSANDS}",
    ),
    (
        "a;b\n1.234,5;2\n5.678,5;3\n",
        f", line 2, column 'a': '1.234,5' is not a number. Use --thousands '.' {THOUSANDS}",
    ),
    (
        "a,b\n1'000.5,2\n2'000,3\n",
        ", line 2, column 'a': \"1'000.5\" is not a number. Use --thousands \"'\" ",
    ),
    ("a;b\n" + "1.5;2\n" * 500 + "1,5;2\n", f", line 502, column 'a': '1,5' {POINT}"),
    (
        "a;b\n" + "1,5;2\n" * 500 + "1.5;2\n",
        f", line 502, column 'a': '1.5' {COMMA}",
    ),
    # Rows of unequal length, also where their cells add up, or commas stand inside of quotes.
    ("a,b,c\n1,2,3\n4,5\n6,7,8\n", ", line 3: 2 cells instead of 3. Correct the line."),
    ("a,b\n1,2\n4,5,6\n6,7\n", ", line 3: 3 cells instead of 2. Correct the line."),
    ("a,b,c\n1,2,x\n4,5\n6,7,8,9\n", ", line 3: 2 cells instead of 3. Correct the line."),
    ("a b c\n1 2 3\n4 5\n6 7 8\n", ", line 3: 2 cells instead of 3. Correct the line."),
    ("x,t\n1,a\n2\n3,b,\n4,c\n", ", line 3: 1 cell instead of 2. Correct the line."),
    (
        "Sales\nmade in May\nx,y\n" + "1.5,2\n" * 50,
        ", line 2: 1 cell instead of 2. Correct the line. If the lines up to line 2 are a title, use "
        "--skip-rows 2.",
    ),
    ("sep=;\nx;y\n1;2\n3;4\n", ": line 1 is for spreadsheets only: use --skip-rows 1."),
    ("t,x,y\n{0}c,3\n{0}".format('"a, b",1,2\n' * 30), ", line 32: 2 cells instead of 3. Correct the line."),
    (
        "My data\na,b\n1,2\n3,4\n",
        ", line 2: 2 cells instead of 1. If the lines above line 2 are a title, use --skip-rows 1.",
    ),
    (
        "My data, by me, in May\na,b\n1,2\n3,4\n",
        ", line 2: 2 cells instead of 3. If the lines above line 2 are a title, use --skip-rows 1.",
    ),
    *(
        (content, " is empty: give a file with a table of numbers.")
        for content in ("", "\n\n \n", "# nothing\n", "\ufeff")
    ),
    ("a,b\n", " has a header and no rows below it: at least two are needed."),
    *(
        (content, " has only one row of numbers: at least two are needed.")
        for content in ("1,2\n", "a,b\n1,2\n")
    ),
    (
        "a,b\n1,\n2,\n3,4\n,5\n",
        ": only one row is left without missing values; column 'b' has the most of them.",
    ),
    ("a,b\n1,\n,2\n", ": no row is left without missing values; column 'a' has the most of them."),
]


@pytest.mark.parametrize(("content", "message"), REFUSED)
def test_what_is_refused(refusal, content, message):
    assert refusal(content, drop_missing=True).startswith(f"data.csv{message}")


# --- missing and infinite numbers -----------------------------------------------------------------


@pytest.mark.parametrize("cell", ["", " ", '""', "NA", "N/A", "#N/A", "nan", "NULL", "None", "?", "-", "."])
def test_every_way_to_say_missing(read, refusal, cell):
    text = f"a,b\n1,2\n3,{cell}\n5,6\n"
    table = read(text, drop_missing=True)
    assert table.X.tolist() == [[1, 2], [5, 6]]
    assert (table.row_numbers.tolist(), table.n_dropped) == ([0, 2], 1)
    np.testing.assert_array_equal(read(text, keep_missing=True).X, [[1, 2], [3, np.nan], [5, 6]])
    assert refusal(text) == (
        "data.csv: 1 row with missing values, in 'b'; the first is line 3 of data.csv. "
        "Fill them in, or leave such rows out with --drop-missing."
    )


def test_further_missing_values(read, refusal):
    text = "a,b,c\n1,unknown,-999\n-999,2,3\n4,5,6\n"
    table = read(text, na_values=["unknown", "-999"], keep_missing=True)
    np.testing.assert_array_equal(table.X, [[1, np.nan, np.nan], [np.nan, 2, 3], [4, 5, 6]])
    assert table.n_missing.tolist() == [1, 1, 1]
    # The strings are taken as they are, and a longer one is another; numbers count in all formats.
    assert "'unknowns' is not a number" in refusal(
        "a,b\n" + "1,2\n" * 10 + "1,unknowns\n", na_values=["unknown"]
    )
    np.save("x.npy", [[1.0, -999.0], [2.0, 3.0]])
    assert read_table("x.npy", na_values=["-999"], keep_missing=True).n_missing.tolist() == [0, 1]


# --- laws -----------------------------------------------------------------------------------------

MISSING = st.sampled_from(["", "NA", "N/A", "NaN", "null", "?", "-", ".", " "])
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
LABELS = st.text(alphabet='abc,;|\t "\néß漢#', max_size=8)


@st.composite
def tables(draw):
    """Rows of numbers or None, the first two without None, and a label for each."""
    n_columns = draw(st.integers(2, 5))
    full = st.lists(NUMBERS, min_size=n_columns, max_size=n_columns)
    holed = st.lists(st.none() | NUMBERS, min_size=n_columns, max_size=n_columns)
    rows = draw(st.lists(full, min_size=2, max_size=2)) + draw(st.lists(holed, max_size=30))
    return rows, draw(st.lists(LABELS, min_size=len(rows), max_size=len(rows)))


def read_bytes(content, **options):
    """Read a table of these bytes."""
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        Path(file.name).write_bytes(content)
        return read_table(file.name, **options)


@settings(max_examples=60, deadline=None)
@given(
    table=tables(),
    delimiter=st.sampled_from(",;\t|"),
    has_comma=st.booleans(),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    line_end=st.sampled_from(["\n", "\r\n"]),
    block=st.sampled_from([500, 2**22]),
    data=st.data(),
)
def test_what_is_written_is_read(table, delimiter, has_comma, quoting, line_end, block, data):
    rows, labels = table
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator=line_end)
    names = [f"c{i}" for i in range(len(rows[0]))]
    writer.writerow([*names, "label"])
    for row, label in zip(rows, labels, strict=True):
        cells = [data.draw(MISSING) if cell is None else repr(cell) for cell in row]
        if has_comma and delimiter == ";":
            cells = [cell.replace(".", ",") if cell != "." else cell for cell in cells]
        writer.writerow([*cells, label])
    before, text_table.BLOCK_SIZE = text_table.BLOCK_SIZE, block
    try:
        read = read_bytes(file.getvalue().encode(), label_column="label", drop_missing=True)
    finally:
        text_table.BLOCK_SIZE = before
    keep = [i for i, row in enumerate(rows) if None not in row]
    np.testing.assert_array_equal(read.X, [rows[i] for i in keep])
    assert read.labels.tolist() == [labels[i].strip() for i in keep]
    assert read.names == tuple(names)
    assert (read.row_numbers.tolist(), read.n_dropped) == (keep, len(rows) - len(keep))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200) | st.text(alphabet='a1.,;\t "\n-e#', max_size=200).map(str.encode))
def test_any_bytes_are_a_table_or_one_line(content):
    message, table = "", None
    try:
        table = read_bytes(content, drop_missing=True)
    except TableError as error:
        message = str(error)
    assert message.isprintable()
    if table is not None:
        assert np.isfinite(table.X).all()
        assert table.X.shape[0] >= 2
        assert table.X.shape[1] == len(table.names) >= 1


def test_the_remedy_names_all_codes_of_the_rows_and_those_given_before(refusal):
    text = "a,b\n" + "1,2\n" * 100 + "unknown,3\n4,n.a.\n5,6\n"
    assert "use --na-values unknown,n.a. if they stand for missing values" in refusal(text)
    assert "use --na-values n.a.,unknown if it stands for a missing value" in refusal(
        text, na_values=["n.a."]
    )
