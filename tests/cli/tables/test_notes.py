"""What is said of columns, and which are left out."""

import numpy as np
import pytest

from apolar.cli.tables import read_table
from apolar.cli.tables.findings import KINDS


@pytest.fixture
def people():
    """A table with all kinds of columns that are no measurements."""
    rng = np.random.default_rng(0)
    height, weight = rng.normal(170, 10, 100), rng.normal(70, 12, 100)
    lines = ["person_id,name,born,height,inches,weight,sex,country,spare"]
    for i in range(100):
        born = f"19{50 + i % 50}-03-0{1 + i % 9}"
        row = (
            3 * i,
            f"p{i}",
            born,
            f"{height[i]:.4f}",
            f"{height[i] / 2.54:.6f}",
            f"{weight[i]:.3f}",
            i % 2,
            1,
        )
        lines.append(",".join(map(str, row)) + ",")
    return "\n".join(lines) + "\n"


def test_all_kinds_are_left_out_with_the_option_that_keeps_them(people, read):
    table = read(people, leave_out=KINDS)
    assert table.names == ("height", "weight")
    assert table.X.shape == (100, 2)
    assert set(table.notes) == {
        "Dropped column 'name': it holds text.",
        "Dropped column 'born': it holds dates.",
        "Dropped column 'spare': it is empty.",
        "Dropped column 'person_id': it numbers the rows. Use --keep person_id to include it.",
        "Dropped column 'inches': it is column 'height' in other units. Use --keep inches to include it.",
        "Dropped column 'sex': it has only 2 distinct values. Use --keep sex to include it.",
        "Dropped column 'country': it is constant. Use --keep country to include it.",
    }


def test_columns_are_kept(people, read):
    table = read(people, leave_out=KINDS, keep=["sex", "country"])
    assert table.names == ("height", "weight", "sex", "country")
    assert "Column 'sex' has only 2 distinct values; kept (--keep)." in table.notes
    names = ("person_id", "height", "inches", "weight", "sex", "country")
    assert read(people, leave_out=KINDS, keep=["all"]).names == names
    table = read(people, leave_out=KINDS, columns=["sex", "height"])
    assert table.names == ("sex", "height")
    assert table.notes == ("Column 'sex' has only 2 distinct values; kept (--columns).",)


def test_kinds_that_are_only_noted(people, read):
    table = read(people, leave_out=("row numbers", "few values"))
    assert table.names == ("height", "inches", "weight", "country")
    note = "Column 'country' is constant; kept because other parts of the table may differ."
    assert note in table.notes


def test_what_cannot_be_kept(people, refusal):
    assert refusal(people, leave_out=KINDS, keep=["name"]) == (
        "Column 'name' holds text such as 'p0', not numbers: remove it from --keep."
    )
    assert "has no column 'nam'. Did you mean 'name'?" in refusal(people, leave_out=KINDS, keep=["nam"])
    said = refusal(people, leave_out=KINDS, keep=["sex"], label_column="sex")
    assert said == "Column 'sex' is the label column: remove it from --keep."


def test_many_of_a_kind_are_named_together(read):
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.standard_normal((50, 2)), np.ones((50, 5))])
    text = "".join(",".join(map(str, row)) + "\n" for row in rows.tolist())
    table = read(text, leave_out=KINDS)
    assert table.notes == (
        "Dropped columns 'x3', 'x4', 'x5', 'x6' and 'x7': they are constant. Use --keep all to include them.",
    )
    assert table.names == ("x1", "x2")


def test_names_are_quoted_for_the_shell_and_the_list(read):
    rng = np.random.default_rng(0)
    rows = "".join(f"{x},1,2\n" for x in rng.standard_normal(30))
    table = read('x,"a, b",it\'s\n' + rows, leave_out=KINDS)
    assert table.notes[0].endswith("Use --keep '\"a, b\"' to include it.")
    assert table.notes[1].endswith("""Use --keep 'it'"'"'s' to include it.""")


def test_a_survey_is_kept(read):
    rng = np.random.default_rng(0)
    rows = "".join(",".join(map(str, row)) + "\n" for row in rng.integers(1, 6, (80, 4)).tolist())
    table = read(f"a,b,c,d\n{rows}", leave_out=KINDS)
    assert table.names == tuple("abcd")
    assert table.notes == (
        "4 columns have at most 5 distinct values, as in a survey: they are kept, and clusters may follow "
        "single answers.",
    )


def test_nothing_left(refusal):
    rows = "".join(f"{i},{i % 2},1\n" for i in range(50))
    said = refusal(f"id,b,c\n{rows}", leave_out=KINDS, columns=None, label_column="b")
    assert said == (
        "data.csv has no column left to cluster by: 'id' numbers the rows and 'c' is constant. "
        "Use --keep all to include them."
    )


def test_row_numbers_without_a_name(read):
    text = ",a,b\n" + "".join(f"{i},{x},{x * x}\n" for i, x in enumerate(np.random.default_rng(0).random(30)))
    assert read(text, leave_out=KINDS).notes == (
        "Dropped column 'column 1': it numbers the rows. Use --keep 'column 1' to include it.",
    )
    table = read(text, leave_out=KINDS, keep=["column 1"])
    assert table.names == ("column 1", "a", "b")
    assert table.notes == ("Column 'column 1' numbers the rows; kept (--keep).",)


def test_a_table_on_disk(people, write, temporary):
    with read_table(write(people), leave_out=KINDS, in_memory_bytes=100) as table:
        assert isinstance(table.X, np.memmap)
        assert table.names == ("height", "weight")
        np.testing.assert_array_equal(table.X, read_table("data.csv", columns=["height", "weight"]).X)
        assert len(list(temporary.iterdir())) == 1
    assert not list(temporary.iterdir())


def test_missing_values_are_those_of_the_columns_that_stay(read):
    rng = np.random.default_rng(0)
    text = "a,b,c\n" + "".join(
        f"{x:.4f},{x * x:.4f},{'' if i == 3 else 1}\n" for i, x in enumerate(rng.random(40))
    )
    assert read(text, leave_out=KINDS, keep_missing=True).n_missing is None
