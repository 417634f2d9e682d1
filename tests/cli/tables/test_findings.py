"""Columns that are no measurements: which are found, and which are not."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine

import apolar
from apolar.cli.tables import findings
from apolar.cli.tables.findings import KINDS, find_no_measurements


@pytest.fixture(params=[300, 5000], ids=["all rows in the sample", "more rows"])
def measured(request):
    """Two columns that are measurements."""
    return np.random.default_rng(0).standard_normal((request.param, 2))


def findings_of(X, names=None):
    return find_no_measurements(X, names or [f"x{j + 1}" for j in range(X.shape[1])])


def found(X, names=None):
    return [(finding.column, finding.kind) for finding in findings_of(X, names)]


def with_column(measured, column):
    return np.column_stack([measured, column])


def test_measurements_are_not_touched(measured):
    rng = np.random.default_rng(1)
    counts = rng.poisson(20, len(measured))
    rounded = np.round(rng.standard_normal(len(measured)))  # seven values, the middle ones most often
    assert found(np.column_stack([measured, counts, rounded, measured.sum(axis=1)])) == []
    for real in (load_wine(), load_breast_cancer(), apolar.datasets.load_iris()):
        assert found(real.data) == []
    # In few rows, rounded values and consecutive integers may be measurements.
    assert found(np.column_stack([rng.standard_normal(40), rng.integers(0, 8, 40)])) == []
    assert found(np.column_stack([rng.standard_normal(10), np.arange(10)])) == []
    assert found(np.column_stack([rng.standard_normal(11), np.arange(11)])) == [(1, "row numbers")]


def test_integers_that_are_equal_in_double_precision_are_not_called_constant(measured):
    codes = 10.0**18 + np.arange(len(measured)) // 1000
    (finding,) = findings_of(with_column(measured, codes))
    assert finding.problem == "constant in its first 15 digits, all that numbers here have"


def test_constants(measured):
    n = len(measured)
    assert found(with_column(measured, np.full(n, 0.1))) == [(2, "constant")]
    # Up to the last digits, and where values are missing.
    jitter = 1e9 * (1 + 1e-15 * np.random.default_rng(0).standard_normal(n))
    assert found(with_column(measured, jitter)) == [(2, "constant")]
    assert found(with_column(measured, np.where(np.arange(n) % 3, 7.0, np.nan))) == [(2, "constant")]
    almost = np.full(n, 7.0)
    almost[n // 2 + 1] = 8
    assert found(with_column(measured, almost)) == [(2, "few values")]


def test_row_numbers(measured):
    n = len(measured)
    shuffled = np.random.default_rng(0).permutation(n)
    for column in (np.arange(n), np.arange(n) + 17, shuffled, -np.arange(n)):
        assert found(with_column(measured, column)) == [(2, "row numbers")]
    for column in (shuffled // 2, shuffled * 2, shuffled + 0.5):
        assert found(with_column(measured, column)) == []


def test_names_of_row_numbers(measured):
    codes = 2 * np.random.default_rng(0).permutation(len(measured))
    for name in (
        "id",
        "ID",
        "index",
        "Unnamed: 0",
        "row_id",
        "patientID",
        "No",
        "row number",
        " Customer ID",
    ):
        assert found(with_column(measured, codes), ["a", "b", name]) == [(2, "row numbers")]
    for name in ("acid", "width", "humid", "keyboard", "nose", "monoxide", "arrow"):
        assert found(with_column(measured, codes), ["a", "b", name]) == []
    assert found(with_column(measured, codes // 4), ["a", "b", "id"]) == []


def test_few_values(measured):
    rng = np.random.default_rng(2)
    for n_values in (2, 3, 10):
        column = rng.integers(0, n_values, len(measured))
        for codes in (column, np.sort(column)):  # the first may all be equal
            (finding,) = findings_of(with_column(measured, codes))
            assert (finding.kind, finding.n_values) == ("few values", n_values)
    assert found(with_column(measured, rng.integers(0, 11, len(measured)))) == []


def test_in_a_survey_few_values_are_the_measurements(measured):
    answers = np.random.default_rng(0).integers(1, 6, (len(measured), 6))
    assert found(answers) == [(j, "rating") for j in range(6)]
    assert found(np.column_stack([answers, measured]))[0] == (0, "rating")
    assert found(np.column_stack([answers[:, :2], measured])) == [(0, "few values"), (1, "few values")]
    # A copy is a copy there, too.
    assert found(np.column_stack([answers, answers[:, 3]]))[-1] == (6, "duplicate")


def test_copies(measured, monkeypatch):
    n = len(measured)
    columns = np.column_stack([measured, measured[:, 0], np.round(2.54 * measured[:, 1] + 32, 6)])
    assert [(f.column, f.kind, f.problem) for f in findings_of(columns)] == [
        (2, "duplicate", "copy of column 'x1'"),
        (3, "duplicate", "column 'x2' in other units"),
    ]
    assert found(with_column(measured, -measured[:, 1])) == [(2, "duplicate")]
    # One row that differs, another column, another pattern of missing values: no copies.
    other = measured[:, 0].copy()
    other[n // 2 + 1] += 1
    holed = np.where(np.arange(n) % 3, measured[:, 0], np.nan)
    for column in (other, measured[:, 0] + 1e-2 * measured[:, 1], holed):
        assert found(with_column(measured, column)) == []
    assert found(np.column_stack([holed, measured[:, 1], holed])) == [(2, "duplicate")]
    # Among very many columns, only exact copies are looked for; a single column is not examined.
    monkeypatch.setattr(findings, "SAMPLE_ROWS", 1)
    assert found(with_column(measured, measured[:, 0])) == [(2, "duplicate")]
    assert found(with_column(measured, 2 * measured[:, 0])) == []
    assert found(np.arange(n)[:, None]) == []


# --- what is said of columns, and which are dropped -----------------------------------------------


@pytest.fixture
def people():
    """A table with all kinds of columns that are no measurements."""
    rng = np.random.default_rng(0)
    height, weight = rng.normal(170, 10, 100), rng.normal(70, 12, 100)
    lines = ["person_id,name,born,height,inches,weight,sex,country,spare"]
    for i, (h, w) in enumerate(zip(height, weight, strict=True)):
        born = f"19{50 + i % 50}-03-0{1 + i % 9}"
        lines.append(f"{3 * i},p{i},{born},{h:.4f},{h / 2.54:.6f},{w:.3f},{i % 2},1,")
    return "\n".join(lines) + "\n"


def test_all_kinds_are_dropped_with_the_option_that_keeps_them(people, read):
    table = read(people, leave_out=KINDS)
    assert table.names == ("height", "weight")
    assert table.X.shape == (100, 2)
    assert set(table.notes) == {
        "Dropped column 'name': text.",
        "Dropped column 'born': dates.",
        "Dropped column 'spare': empty.",
        "Dropped column 'person_id': row numbers. Use --keep person_id to include it.",
        "Dropped column 'inches': column 'height' in other units. Use --keep inches to include it.",
        "Dropped column 'sex': only 2 distinct values. Use --keep sex to include it.",
        "Dropped column 'country': constant. Use --keep country to include it.",
    }
    table = read(people, leave_out=KINDS, keep=["sex", "country"])
    assert table.names == ("height", "weight", "sex", "country")
    assert "Kept column 'sex' (--keep): only 2 distinct values." in table.notes
    names = ("person_id", "height", "inches", "weight", "sex", "country")
    assert read(people, leave_out=KINDS, keep=["all"]).names == names
    table = read(people, leave_out=KINDS, columns=["sex", "height"])
    assert (table.names, *table.notes) == (
        ("sex", "height"),
        "Kept column 'sex' (--columns): only 2 distinct values.",
    )


def test_a_code_among_numbers_is_named_with_the_option_that_reads_it(read):
    table = read("a,b,c\n1,n.a.,x\n2,3,y\n3,4,1\n4,n.a.,z\n5,6,x\n", leave_out=KINDS)
    assert (
        "Dropped column 'b': numbers and 'n.a.' (use --na-values n.a. if that is a missing value)."
    ) in table.notes
    assert "Dropped column 'c': text." in table.notes


def test_many_of_a_kind_are_named_together(read):
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.standard_normal((50, 2)), np.ones((50, 5))])
    table = read("".join(",".join(map(str, row)) + "\n" for row in rows.tolist()), leave_out=KINDS)
    assert table.notes[0] == (
        "Dropped columns 'x3', 'x4', 'x5', 'x6' and 'x7': constant. Use --keep all to include them."
    )
    assert table.names == ("x1", "x2")


def test_names_are_quoted_for_the_shell_and_the_list(read):
    rows = "".join(f"{x},1,2\n" for x in np.random.default_rng(0).standard_normal(30))
    table = read('x,"a, b",it\'s\n' + rows, leave_out=KINDS)
    assert table.notes[0].endswith("""Use --keep '"a, b",it'"'"'s' to include them.""")


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
    assert refusal(f"id,b,c\n{rows}", leave_out=KINDS, label_column="b") == (
        "data.csv has no column left to cluster by: 'id' (row numbers) and 'c' (constant). "
        "Use --keep all to include them."
    )
    said = refusal("a,b\n" + "1,2\n" * 20, leave_out=KINDS)
    assert said == "data.csv: all rows are equal, so nothing separates clusters."
