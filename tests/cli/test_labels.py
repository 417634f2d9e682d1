"""Labels with all probabilities, the table with clusters at its right, lists of outliers; several files."""

import numpy as np
import polars as pl
import pytest

import apolar
from apolar.cli.tables import read_table
from cli.commands import answer, labels, refuse, rows_of, run, succeed

NEW = ["cluster", "p1", "p2", "outlier"]


@pytest.fixture
def points():
    """Two clusters in two columns, with a row that is far from both."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.standard_normal((30, 2)), rng.normal([8, 0], 1, (30, 2)), [[200.0, 200.0]]])
    return X.round(3)


def fit_to(tmp_path, name, text, *options):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return succeed(
        *("fit", path, "-k", 2, "--covariance", "tied", "--no-report", "--append", "-o", tmp_path / "o"),
        *options,
    )


def test_labels_have_the_probability_of_every_cluster(flowers, tmp_path):
    out = tmp_path / "out"
    succeed("fit", flowers, "-k", 3, "--no-report", "-o", out)
    rows = rows_of(out / "labels.csv")
    assert list(rows[0]) == ["row", "cluster", "probability", "outlier", "p1", "p2", "p3"]
    iris = apolar.datasets.load_iris()
    expected = apolar.GaussianMixture(3, random_state=0).fit(iris.data).predict_proba(iris.data)
    ours = np.array([[float(row[name]) for name in ("p1", "p2", "p3")] for row in rows])
    np.testing.assert_allclose(ours, expected, atol=1e-6)
    np.testing.assert_allclose([p for _, _, p in labels(out / "labels.csv")], expected.max(axis=1), atol=1e-6)


def test_noise_has_its_own_probability(points, tmp_path):
    text = "x,y\n" + "\n".join(f"{x},{y}" for x, y in points)
    fit_to(tmp_path, "t.csv", text, "--noise")
    rows = rows_of(tmp_path / "o" / "labels.csv")
    assert list(rows[0])[4:] == ["p1", "p2", "p_noise"]
    assert rows[60]["cluster"] == "-1"
    assert float(rows[60]["p_noise"]) > 0.99
    names = ["x", "y", "cluster", "p1", "p2", "p_noise", "outlier"]
    assert list(rows_of(tmp_path / "o" / "table.csv")[0]) == names


def test_a_table_keeps_its_text_and_its_rows(tmp_path, points):
    lines = [f'"n {i}, ""{i}""";{x:+.3f};{y:.4e}' for i, (x, y) in enumerate(points)]
    lines[3] = '"two\nlines";;1.5'
    fit_to(tmp_path, "t.csv", "# above\nname;x;cluster\n" + "\n\n".join(lines) + "\n", "--drop-missing")
    written = (tmp_path / "o" / "table.csv").read_text()
    # Each line begins as it did; of a row that was left out, the new cells are empty.
    header, *pieces = written.split("\n")
    assert header == "name;x;cluster;cluster_2;p1;p2;outlier"
    for old, new in zip("\n".join(lines).split("\n"), pieces, strict=False):
        assert new.startswith(old)
    assert '"two\nlines";;1.5;;;;\n' in written
    rows = rows_of(tmp_path / "o" / "table.csv", ";")
    expected = {row - 1: cluster for row, cluster, _ in labels(tmp_path / "o" / "labels.csv")}
    assert {i: int(row["cluster_2"]) for i, row in enumerate(rows) if row["cluster_2"]} == expected
    assert (len(rows), len(expected)) == (61, 60)


@pytest.mark.parametrize(
    ("names", "row", "header"),
    [
        ("x;y", "{};{}", "x;y;cluster;p1;p2;outlier"),
        ("x y", "  {}   {}", "x y cluster p1 p2 outlier"),
        ("", "{},{}", "x1,x2,cluster,p1,p2,outlier"),
        ("x,y", "r,{},{}", "column 1,x,y,cluster,p1,p2,outlier"),
        ("x,y", "{},{},", "x,y,column 3,cluster,p1,p2,outlier"),
    ],
    ids=["comma", "space", "no header", "row names", "trailing"],
)
def test_ways_to_write_a_table(tmp_path, points, names, row, header):
    lines = [
        row.format(*(str(x).replace(".", "," if ";" in row else ".") for x in point)) for point in points
    ]
    fit_to(tmp_path, "t.csv", "\n".join([names, *lines]) + "\n")
    written = (tmp_path / "o" / "table.csv").read_text().splitlines()
    assert written[0] == header
    for old, new in zip(lines, written[1:], strict=True):
        assert new.startswith(" ".join(old.split()))
    # What was written is a table with four more columns.
    again = read_table(tmp_path / "o" / "table.csv")
    assert again.names == (*(("x", "y") if names else ("x1", "x2")), "cluster", "p1", "p2")
    assert set(again.X[:, 2]) == {1, 2}
    np.testing.assert_allclose(again.X[:, 3:].sum(axis=1), 1, atol=2e-6)


@pytest.mark.parametrize("suffix", ["parquet", "feather", "npy", "xlsx"])
def test_tables_that_are_no_text_become_csv(tmp_path, points, suffix):
    path = tmp_path / f"t.{suffix}"
    frame = pl.DataFrame({"x": points[:, 0], "name": [f"n,{i}" for i in range(61)], "y": points[:, 1]})
    writers = {"parquet": frame.write_parquet, "feather": frame.write_ipc, "xlsx": frame.write_excel}
    writers.get(suffix, lambda path: np.save(path, points))(path)
    fit_to(tmp_path, f"t.{suffix}", path.read_bytes())
    rows = rows_of(tmp_path / "o" / "table.csv")
    names = ["x1", "x2"] if suffix == "npy" else ["x", "name", "y"]
    assert list(rows[0]) == [*names, *NEW]
    np.testing.assert_array_equal([float(row[names[0]]) for row in rows], points[:, 0])
    assert [int(row["cluster"]) for row in rows] == [c for _, c, _ in labels(tmp_path / "o" / "labels.csv")]


def test_outliers_are_listed_by_a_rule_that_is_said(tmp_path, points):
    text = "x,y\n" + "\n".join(f"{x},{y}" for x, y in points[:60])
    fit_to(tmp_path, "t.csv", text, "--outliers", 0.9999999)
    written = rows_of(tmp_path / "o" / "outliers.csv")
    assert list(written[0]) == ["row", "cluster", "distance", "x", "y"]
    for row in written:
        np.testing.assert_array_equal([float(row["x"]), float(row["y"])], points[int(row["row"]) - 1])
    model = apolar.GaussianMixture.load(tmp_path / "o" / "model.npz")
    offsets = points[int(written[0]["row"]) - 1] - model.means_
    squares = [offset @ np.linalg.solve(model.covariances_, offset) for offset in offsets]
    assert float(written[0]["distance"]) == pytest.approx(min(squares) ** 0.5, rel=1e-4)
    said = fit_to(tmp_path, "t.csv", text, "--outliers")
    assert "No outliers (5% chance of any false alarm per table)." in said
    assert (tmp_path / "o" / "outliers.csv").read_text() == "row,cluster,distance,x,y\n"
    assert answer("fit", tmp_path / "t.csv", "-k", 2, "-o", tmp_path / "o")["outliers"] == []


def test_what_can_be_read_once_cannot_be_appended_to(flowers, model):
    said = refuse("predict", model, "-", "--append", stdin=flowers.read_text())
    assert "--append reads the table twice" in said
    appended = run("predict", model, flowers, "--append").output.splitlines()
    assert appended[0].endswith("petal_width,species,cluster,p1,p2,outlier")
    assert len(appended) == 151


# --- several files, encodings and workbooks -------------------------------------------------------


@pytest.mark.parametrize("named", ["folder", "files", "a file twice"])
def test_labels_name_the_file_and_the_table_has_all_rows(flowers, tmp_path, named):
    header, *lines = flowers.read_text().splitlines(keepends=True)
    a, b = tmp_path / "parts" / "a.csv", tmp_path / "parts" / "b.csv"
    a.parent.mkdir()
    a.write_text(header + "".join(lines[:80]))
    b.write_text(header + "".join(lines[80:]))
    data = {"folder": [a.parent], "files": [a, b], "a file twice": [a, a]}[named]
    second = (a, 80) if named == "a file twice" else (b, 70)
    succeed("fit", *data, "-k", 2, "--covariance", "diag", "--no-report", "--append", "-o", tmp_path / "o")
    marked, table = (rows_of(tmp_path / "o" / name) for name in ("labels.csv", "table.csv"))
    assert [row["file"] for row in marked] == [str(a)] * 80 + [str(second[0])] * second[1]
    assert [int(row["row"]) for row in marked] == list(range(1, len(marked) + 1))
    assert [row["cluster"] for row in table] == [row["cluster"] for row in marked]
    assert [row["species"] for row in table[:80]] == [row["species"] for row in rows_of(flowers)[:80]]
    predicted = run("predict", tmp_path / "o" / "model.npz", *data)
    assert predicted.output == (tmp_path / "o" / "labels.csv").read_text()
    b.write_text("\n".join(",".join(reversed(row.split(","))) for row in b.read_text().splitlines()))
    said = refuse(
        "fit", a, b, "-k", 2, "--covariance", "diag", "--append", "--no-report", "-o", tmp_path / "o"
    )
    assert "differs in columns or delimiter" in said


def test_a_table_of_another_encoding(flowers, tmp_path):
    flowers.write_text(flowers.read_text().replace("setosa", "sétosa"), encoding="latin-1")
    options = ("-k", 2, "--no-report", "--append", "--encoding", "latin-1", "-o", tmp_path / "o")
    succeed("fit", flowers, *options)
    assert rows_of(tmp_path / "o" / "table.csv")[0]["species"] == "sétosa"
