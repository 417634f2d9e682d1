"""What was written is read again, whatever it was."""

import csv
import io

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from apolar.cli.tables import TableError, read_table
from apolar.cli.tables import text as text_module

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
def test_csv(table, delimiter, has_comma, quoting, line_end, block, data):
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
    before, text_module.BLOCK_BYTES = text_module.BLOCK_BYTES, block
    try:
        read = read_table(io.BytesIO(file.getvalue().encode()), label_column="label", drop_missing=True)
    finally:
        text_module.BLOCK_BYTES = before
    keep = [i for i, row in enumerate(rows) if None not in row]
    np.testing.assert_array_equal(read.X, [rows[i] for i in keep])
    assert read.labels.tolist() == [labels[i].strip() for i in keep]
    assert read.names == tuple(names)
    assert read.n_dropped == len(rows) - len(keep)
    assert read.row_numbers is None if len(keep) == len(rows) else read.row_numbers.tolist() == keep


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200) | st.text(alphabet='a1.,;\t "\n-e#', max_size=200).map(str.encode))
def test_any_bytes_are_a_table_or_one_line(content):
    try:
        table = read_table(io.BytesIO(content), format="text", drop_missing=True)
    except TableError as error:
        message = str(error)
    else:
        message = "none"
        assert np.isfinite(table.X).all()
        assert table.X.shape[0] >= 2
        assert table.X.shape[1] == len(table.names) >= 1
    assert message.isprintable()
