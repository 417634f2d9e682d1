"""Results of several files, of other encodings and of workbooks."""

import csv

import pytest
import xlsxwriter

from cli.commands import run


@pytest.fixture
def parts(flowers, tmp_path):
    """The flowers in two files of a folder."""
    header, *lines = flowers.read_text().splitlines(keepends=True)
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "a.csv").write_text(header + "".join(lines[:80]))
    (folder / "b.csv").write_text(header + "".join(lines[80:]))
    return folder


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("named", ["folder", "files"])
def test_labels_name_the_file_and_the_table_has_all_rows(flowers, parts, tmp_path, named):
    data = [parts] if named == "folder" else [parts / "a.csv", parts / "b.csv"]
    options = ("-k", 2, "--no-report", "--append", "-o", tmp_path / "o")
    result = run("fit", *data, *options)
    assert result.exit_code == 0, result.output
    labels = rows_of(tmp_path / "o" / "labels.csv")
    assert [row["file"] for row in labels] == [str(parts / "a.csv")] * 80 + [str(parts / "b.csv")] * 70
    assert [int(row["row"]) for row in labels] == list(range(1, 151))
    table = rows_of(tmp_path / "o" / "table.csv")
    assert [row["cluster"] for row in table] == [row["cluster"] for row in labels]
    assert [row["species"] for row in table] == [row["species"] for row in rows_of(flowers)]
    predicted = run("predict", tmp_path / "o" / "model.npz", *data)
    assert predicted.output == (tmp_path / "o" / "labels.csv").read_text()


def test_a_file_that_is_given_twice(parts):
    data = [parts / "a.csv", parts / "a.csv", parts / "b.csv"]
    assert run("fit", *data, "-k", 2, "--no-report", "-o", parts / "o").exit_code == 0
    files = [row["file"] for row in rows_of(parts / "o" / "labels.csv")]
    assert files == [str(parts / "a.csv")] * 160 + [str(parts / "b.csv")] * 70


def test_a_table_of_another_encoding(flowers, tmp_path):
    flowers.write_text(flowers.read_text().replace("setosa", "sétosa"), encoding="latin-1")
    options = ("-k", 2, "--no-report", "--append", "--encoding", "latin-1", "-o", tmp_path / "o")
    result = run("fit", flowers, *options)
    assert result.exit_code == 0, result.output
    assert rows_of(tmp_path / "o" / "table.csv")[0]["species"] == "sétosa"


@pytest.mark.parametrize("has_header", [True, False])
def test_a_workbook_becomes_csv(flowers, tmp_path, has_header):
    cells = list(csv.reader(flowers.read_text().splitlines()))
    rows = [[float(cell) for cell in row[:4]] + [row[4]] * has_header for row in cells[1:]]
    with xlsxwriter.Workbook(tmp_path / "t.xlsx") as book:
        sheet = book.add_worksheet()
        for i, row in enumerate([*cells[:has_header], *rows]):
            sheet.write_row(i, 0, row)
    result = run("fit", tmp_path / "t.xlsx", "-k", 2, "--no-report", "--append", "-o", tmp_path / "o")
    assert result.exit_code == 0, result.output
    table = rows_of(tmp_path / "o" / "table.csv")
    names = cells[0] if has_header else ["x1", "x2", "x3", "x4"]
    assert list(table[0]) == [*names, "cluster", "p1", "p2", "outlier"]
    assert len(table) == 150
    assert float(table[149][names[3]]) == float(cells[150][3])
