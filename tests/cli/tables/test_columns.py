"""Which columns are read: headers, names, choices, labels, and columns that only number the rows."""

import pytest

from apolar.cli.tables.findings import KINDS


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b\n1,2\n3,4\n", ("a", "b")),
        ("1,2\n3,4\n", ("x1", "x2")),
        # The cell above the text says nothing, that above the numbers all.
        ("1,x\n3,y\n", ("x1",)),
        ("2001,b\n3,4\n5,6\n", ("2001", "b")),
        # A missing number is no name.
        ("3,?\n4,1\n5,6", ("x1", "x2")),
        (" a  b , c\n1,2\n3,4\n", ("a b", "c")),
        ("a,,c\n1,2,3\n3,4,5\n", ("a", "column 2", "c")),
        ("a,b,\n1,2,\n3,4,\n", ("a", "b")),
        ("a,b\n1,2,\n3,4,\n", ("a", "b")),
        ('"a, b",c\n1,2\n3,4\n', ("a, b", "c")),
        ('"a\nb",c\n1,2\n3,4\n', ("a b", "c")),
        ("y\n1\n2\n", ("y",)),
        ("1\n2\n", ("x1",)),
        ("my weight\n1.5\n2\n", ("my weight",)),
        ("day,a\n2020-01-01 12:00:00,1\n2020-01-02 12:00:00,2\n", ("a",)),
        ("a\tb\tt\n0.5\t0.5\t\n1.5\t1.5\t\n", ("a", "b")),
        ("n;a\nx, y;1,5\nz, w;2,5\n", ("a",)),
    ],
)
def test_headers(read, text, names):
    table = read(text, keep_missing=True)
    assert table.names == names
    assert len(table.X) in (2, 3)


@pytest.mark.parametrize(
    ("numbers", "is_left_out"),
    [("0 1 2", True), ("4 7 9", True), ("9 4 7", True), ("1 1 2", False), ("1 2.5 3", False)],
)
def test_a_first_column_without_a_name(read, numbers, is_left_out, left_out):
    text = ",a,b\n" + "".join(f"{number},{i},5\n" for i, number in enumerate(numbers.split()))
    table = read(text)
    assert table.names == (("a", "b") if is_left_out else ("column 1", "a", "b"))
    assert left_out(table) == (["column 1"] if is_left_out else [])
    # Who wants it gets it.
    assert read(text, columns=[1]).X.ravel().tolist() == [float(x) for x in numbers.split()]
    assert read(text, keep="column 1").names == ("column 1", "a", "b")


def test_no_column_of_numbers(refusal):
    assert refusal("a,b,c\nx,2020-01-01,\ny,2020-01-02,\n") == (
        "data.csv has no numeric column: 'a' (text), 'b' (dates) and 'c' (empty). "
        "Give a file with at least one column of numbers."
    )
    assert refusal("a\n1\n2\n", label_column="a") == (
        "data.csv has no numeric column: none is left or chosen. "
        "Give a file with at least one column of numbers."
    )
    many = ",".join(f"c{i}" for i in range(9))
    assert "'c4' (text) and 4 more." in refusal(f"{many}\n" + ",".join("x" * 9) + "\n")


TEXT = "height,weight,3,name\n1,2,3,Ann\n4,5,6,Bob\n7,8,9,Ann\n"


@pytest.mark.parametrize(
    ("columns", "names", "first"),
    [
        (None, ("height", "weight", "3"), [1, 2, 3]),
        (["weight", "height"], ("weight", "height"), [2, 1]),
        ("weight", ("weight",), [2]),
        (["2", 1], ("weight", "height"), [2, 1]),
        (["2", "weight"], ("weight",), [2]),
        # A name comes before a number.
        (["3"], ("3",), [3]),
    ],
)
def test_choices(read, columns, names, first, left_out):
    table = read(TEXT, columns=columns)
    assert table.names == names
    assert table.X[0].tolist() == first
    assert left_out(table) == (["name"] if columns is None else [])


def test_labels_are_text(read):
    table = read("a,b\n1,01\n2,\n3, x\n", label_column="b")
    assert table.X.tolist() == [[1], [2], [3]]
    assert table.labels.tolist() == ["01", "", "x"]


def test_unknown_columns(refusal):
    for wanted, guess in (
        ("wieght", " Did you mean 'weight' or 'height'?"),
        ("NAME", " Did you mean 'name'?"),
        ("zzz", ""),
    ):
        for option in ({"columns": [wanted]}, {"label_column": wanted}):
            columns = "Its columns are 'height', 'weight', '3' and 'name'."
            assert refusal(TEXT, **option) == f"data.csv has no column '{wanted}'.{guess} {columns}"
    for number in (0, 5, "00"):
        assert refusal(TEXT, columns=[number]).startswith(f"data.csv has no column '{number}'.")
    header = ",".join(f"c{i}" for i in range(50))
    row = ",".join("1" * 50)
    assert refusal(f"{header}\n{row}\n{row}\n", columns=["q"]).endswith("'c18', 'c19' and 30 more.")


def test_choices_that_make_no_sense(refusal):
    for option in ("columns", "keep"):
        assert refusal(TEXT, **{option: ["height"]}, label_column="height") == (
            f"Column 'height' is the label column: remove it from --{option}."
        )
        # A column of text.
        assert refusal(TEXT, **{option: ["name"]}) == (
            "data.csv, line 2, column 'name': 'Ann' is not a number. "
            "Correct the cell, use --na-values Ann if it stands for a missing value, or exclude the column "
            "with --columns."
        )
    assert "has no column 'heigt'. Did you mean 'height'" in refusal(TEXT, keep=["heigt"])
    assert refusal(TEXT, columns=[]).startswith("data.csv has no numeric column: none is left or chosen.")


def test_names_that_are_there_twice(refusal, read):
    text = "a,b,a,t,t\n1,2,3,x,y\n4,5,6,z,w\n"
    message = (
        "data.csv has 2 columns called 'a' (columns 1 and 3): rename them, "
        "or choose one by its number with --columns."
    )
    assert refusal(text) == message
    assert refusal(text, columns=["a"]) == message
    assert refusal(text, columns=[1, 3]) == message
    # Only if it matters.
    assert read(text, columns=["b", 3]).names == ("b", "a")
    assert read("a,t,t\n1,x,y\n4,z,w\n").names == ("a",)


# --- what a file looks like -----------------------------------------------------------------------


def test_names_that_are_numbers(read):
    text = "2019,2020\n" + "1.5,2\n" * 3
    table = read(text)
    assert table.names == ("x1", "x2")
    assert "Use --header if the first row names them." in table.notes[0]
    table = read(text, header=True)
    assert (table.names, len(table.X), table.notes) == (("2019", "2020"), 3, ())
    assert read(text, header=False).notes == ()


def test_lines_above_the_table(read, refusal):
    text = "Sales\nof 2024\n\na,b,c\n" + "1,2,3\n4,5,6\n" * 5
    assert "If the lines above line 4 are a title, use --skip-rows 3." in refusal(text)
    assert read(text, skip_rows=3).names == ("a", "b", "c")
    assert len(read(text, skip_rows=3).X) == 10


def test_numbers_as_people_write_them(read, refusal):
    text = 'price,margin,profit\n"$1,200.50",12%,"(1,000)"\n$900.00,-3.5 %,"2,000,000"\n'
    assert "Use --thousands ',' to read thousands separators, currency and percent signs" in refusal(text)
    assert read(text, thousands=",").X.tolist() == [[1200.5, 12, -1000], [900, -3.5, 2e6]]
    assert read("a;b\n1.200,5 €;2\n-3,25;4\n", thousands=".").X.tolist() == [[1200.5, 2], [-3.25, 4]]


def test_codes_for_missing_values_are_noted(read):
    rows = "".join(f"{i % 7},{-999 if i % 10 == 0 else i / 10},{9 + i % 5}\n" for i in range(60))
    (note,) = read(
        f"a,b,c\n{rows}",
    ).notes
    assert note.startswith("Column 'b' has the value -999 more than once, far from its other values: use ")
    assert read(f"a,b,c\n{rows}", na_values=["-999"], keep_missing=True).n_missing.tolist() == [0, 6, 0]
    # Distances between numbers that are no codes may overflow.
    rows = "".join(f"{i % 7},{[-1.7e308, 1.6e308, 1.7e308][i % 3]}\n" for i in range(60))
    assert not read(f"a,b\n{rows}").notes


def test_text_of_few_values_is_kept_for_tables(read):
    rows = "".join(f"name {i},{'ab'[i % 2]},{i % 3},{i / 7}\n" for i in range(60))
    table = read(f"who,kind,code,x\n{rows}", leave_out=KINDS, id_column="who")
    assert table.names == ("x",)
    assert table.ids.tolist()[:2] == ["name 0", "name 1"]
    assert table.categories["kind"].tolist() == ["a", "b"] * 30
    assert table.categories["code"].tolist() == ["0", "1", "2"] * 20
    # Names are no categories.
    assert set(read(f"who,kind,code,x\n{rows}", leave_out=KINDS).categories) == {"kind", "code"}
