"""Columns that are no measurements: which are found, and which are not."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine

import apolar
from apolar.cli.tables import findings
from apolar.cli.tables.findings import KINDS, find_no_measurements

N = 3000
RNG = np.random.default_rng(0)
MEASURED = RNG.standard_normal((N, 2))
ORDER = np.arange(N)
SHUFFLED = RNG.permutation(N)
ANSWERS = RNG.integers(1, 6, (N, 6))


def found(X, names=None):
    """Return what is found of columns: by their numbers, the kind."""
    findings = find_no_measurements(X, names or [f"x{j + 1}" for j in range(X.shape[1])])
    return {finding.column: finding.kind for finding in findings}


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        (
            None,
            [
                RNG.poisson(20, N),
                np.round(RNG.standard_normal(N)),  # seven values, the middle ones most often
                MEASURED.sum(axis=1),
                RNG.integers(0, 11, N),
                *(SHUFFLED // 2, SHUFFLED * 2, SHUFFLED + 0.5),
                np.where(ORDER == N // 2, 9, MEASURED[:, 0]),
                MEASURED @ [1, 1e-2],
            ],
        ),
        (
            "constant",
            [
                np.full(N, 0.1),
                np.where(ORDER % 3, 7.0, np.nan),
                # Up to the last digits.
                1e9 * (1 + 1e-15 * RNG.standard_normal(N)),
                10.0**18 + ORDER // 1000,
            ],
        ),
        ("row numbers", [ORDER, ORDER + 17, SHUFFLED, -ORDER]),
        # The first values may all be equal.
        ("few values", [np.where(ORDER == N - 1, 8, 7), *(np.sort(ORDER % n) for n in (2, 3, 10))]),
        ("duplicate", [MEASURED[:, 0], -MEASURED[:, 1], np.round(2.54 * MEASURED[:, 1] + 32, 6)]),
    ],
)
def test_what_is_found_of_a_column(kind, columns):
    for column in columns:
        table = np.column_stack([MEASURED, column])
        assert found(table) == ({} if kind is None else {2: kind})


def test_measurements_are_not_touched():
    for real in (load_wine(), load_breast_cancer(), apolar.datasets.load_iris()):
        assert found(real.data) == {}
    assert found(ORDER[:, None]) == {}
    # In few rows, rounded values and consecutive integers may be measurements.
    assert found(np.column_stack([MEASURED, ORDER])[:10]) == {}
    assert found(np.column_stack([MEASURED, SHUFFLED % 8])[:40]) == {}


@pytest.mark.parametrize(
    ("names", "is_found"),
    [
        (
            ("id", "ID", "index", "Unnamed: 0", "row_id", "patientID", "No", "row number", " Customer ID"),
            True,
        ),
        (("acid", "width", "humid", "keyboard", "nose", "monoxide", "arrow"), False),
    ],
)
def test_names_of_row_numbers(names, is_found):
    for name in names:
        codes = found(np.column_stack([MEASURED, 2 * SHUFFLED]), ["a", "b", name])
        assert codes == ({2: "row numbers"} if is_found else {})
    assert found(np.column_stack([MEASURED, SHUFFLED // 2]), ["a", "b", "id"]) == {}


def test_in_a_survey_few_values_are_the_measurements():
    assert found(ANSWERS) == dict.fromkeys(range(6), "rating")
    assert found(np.column_stack([ANSWERS, MEASURED]))[0] == "rating"
    assert found(np.column_stack([ANSWERS[:, :2], MEASURED])) == dict.fromkeys(range(2), "few values")
    # A copy is a copy there, too.
    assert found(np.column_stack([ANSWERS, ANSWERS[:, 3]]))[6] == "duplicate"


def test_copies_of_columns_with_missing_values_and_among_very_many(monkeypatch):
    holed = np.where(ORDER % 3, MEASURED[:, 0], np.nan)
    assert found(np.column_stack([MEASURED, holed])) == {}
    assert found(np.column_stack([holed, MEASURED[:, 1], holed])) == {2: "duplicate"}
    # There, only exact copies are looked for.
    monkeypatch.setattr(findings, "SAMPLE_ROWS", 1)
    assert found(np.column_stack([MEASURED, MEASURED[:, 0]])) == {2: "duplicate"}
    assert found(np.column_stack([MEASURED, 2 * MEASURED[:, 0]])) == {}


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
