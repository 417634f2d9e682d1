"""Labels with all probabilities, the table with clusters at its right, and lists of outliers."""

import csv
import json

import numpy as np
import pytest

import apolar
from apolar.cli.tables import read_table
from cli.commands import labels, run

pa = pytest.importorskip("pyarrow")

NEW = ["cluster", "p1", "p2", "outlier"]


def rows_of(path, delimiter=","):
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


@pytest.fixture
def points():
    """Two clusters in two columns, with a row that is far from both."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.standard_normal((30, 2)), rng.normal([8, 0], 1, (30, 2)), [[200.0, 200.0]]])
    return X.round(3)


def fitted(tmp_path, name, text, *options):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    command = ("fit", path, "-k", 2, "--covariance", "tied", "--no-report", "--append", "-o", tmp_path / "o")
    result = run(*command, *options)
    assert result.exit_code == 0, result.output
    return result


def test_labels_have_the_probability_of_every_cluster(flowers, tmp_path):
    out = tmp_path / "out"
    assert run("fit", flowers, "-k", 3, "--no-report", "-o", out).exit_code == 0
    rows = rows_of(out / "labels.csv")
    assert list(rows[0]) == ["row", "cluster", "probability", "outlier", "p1", "p2", "p3"]
    iris = apolar.datasets.load_iris()
    expected = apolar.GaussianMixture(3, random_state=0).fit(iris.data).predict_proba(iris.data)
    ours = np.array([[float(row[name]) for name in ("p1", "p2", "p3")] for row in rows])
    np.testing.assert_allclose(ours, expected, atol=1e-6)
    np.testing.assert_allclose([p for _, _, p in labels(out / "labels.csv")], expected.max(axis=1), atol=1e-6)


def test_noise_has_its_own_probability(points, tmp_path):
    text = "x,y\n" + "\n".join(f"{x},{y}" for x, y in points)
    fitted(tmp_path, "t.csv", text, "--noise")
    rows = rows_of(tmp_path / "o" / "labels.csv")
    assert list(rows[0])[4:] == ["p1", "p2", "p_noise"]
    assert rows[60]["cluster"] == "-1"
    assert float(rows[60]["p_noise"]) > 0.99
    assert list(rows_of(tmp_path / "o" / "table.csv")[0]) == [
        "x",
        "y",
        "cluster",
        "p1",
        "p2",
        "p_noise",
        "outlier",
    ]


def test_a_table_keeps_its_text_and_its_rows(tmp_path, points):
    lines = [f'"n {i}, ""{i}""";{x:+.3f};{y:.4e}' for i, (x, y) in enumerate(points)]
    lines[3] = '"two\nlines";;1.5'
    text = "# above\nname;x;cluster\n" + "\n\n".join(lines) + "\n"
    fitted(tmp_path, "t.csv", text, "--drop-missing")
    written = (tmp_path / "o" / "table.csv").read_text()
    again = text.removeprefix("# above\n").replace("\n\n", "\n").rstrip("\n")
    # Each line begins as it did; of a row that was left out, the new cells are empty.
    pieces = written.split("\n")
    assert pieces[0] == "name;x;cluster;cluster_2;p1;p2;outlier"
    for old, new in zip(again.split("\n")[1:], pieces[1:], strict=False):
        assert new.startswith(old)
    assert '"two\nlines";;1.5;;;;\n' in written
    rows = rows_of(tmp_path / "o" / "table.csv", ";")
    assert len(rows) == 61
    expected = {row - 1: cluster for row, cluster, _ in labels(tmp_path / "o" / "labels.csv")}
    assert {i: int(row["cluster_2"]) for i, row in enumerate(rows) if row["cluster_2"]} == expected
    assert len(expected) == 60


@pytest.mark.parametrize("kind", ["comma", "space", "no header", "row names", "trailing"])
def test_ways_to_write_a_table(tmp_path, points, kind):
    names = {"comma": "x;y", "space": "x y", "row names": "x,y", "trailing": "x,y"}.get(kind)
    if kind == "comma":
        lines = [f"{a};{b}".replace(".", ",") for a, b in points]
    elif kind == "space":
        lines = [f"  {a}   {b}" for a, b in points]
    elif kind == "row names":
        lines = [f"r{i},{a},{b}" for i, (a, b) in enumerate(points)]
    else:
        lines = [f"{a},{b}" + "," * (kind == "trailing") for a, b in points]
    fitted(tmp_path, "t.csv", "\n".join(lines if names is None else [names, *lines]) + "\n")
    written = (tmp_path / "o" / "table.csv").read_text().splitlines()
    assert (
        written[0]
        == {
            "comma": "x;y;cluster;p1;p2;outlier",
            "space": "x y cluster p1 p2 outlier",
            "no header": "x1,x2,cluster,p1,p2,outlier",
            "row names": "column 1,x,y,cluster,p1,p2,outlier",
            "trailing": "x,y,column 3,cluster,p1,p2,outlier",
        }[kind]
    )
    for old, new in zip(lines, written[1:], strict=True):
        assert new.startswith(" ".join(old.split()))
    # What was written is a table with four more columns.
    again = read_table(tmp_path / "o" / "table.csv")
    numbers = ("x1", "x2") if kind == "no header" else ("x", "y")
    assert again.names == (*numbers, "cluster", "p1", "p2")
    assert set(again.X[:, 2]) == {1, 2}
    np.testing.assert_allclose(again.X[:, 3:].sum(axis=1), 1, atol=2e-6)


@pytest.mark.parametrize("suffix", ["parquet", "feather", "npy"])
def test_tables_that_are_no_text_become_csv(tmp_path, points, suffix):
    from pyarrow import feather, parquet

    path = tmp_path / f"t.{suffix}"
    table = pa.table({"x": points[:, 0], "name": [f"n,{i}" for i in range(61)], "y": points[:, 1]})
    if suffix == "npy":
        np.save(path, points)
    else:
        (parquet.write_table if suffix == "parquet" else feather.write_feather)(table, path)
    fitted(tmp_path, f"t.{suffix}", path.read_bytes())
    rows = rows_of(tmp_path / "o" / "table.csv")
    names = ["x1", "x2"] if suffix == "npy" else ["x", "name", "y"]
    assert list(rows[0]) == [*names, *NEW]
    np.testing.assert_array_equal([float(row[names[0]]) for row in rows], points[:, 0])
    assert [int(row["cluster"]) for row in rows] == [c for _, c, _ in labels(tmp_path / "o" / "labels.csv")]


def test_outliers_are_listed_by_a_rule_that_is_said(tmp_path, points):
    text = "x,y\n" + "\n".join(f"{x},{y}" for x, y in points[:60])
    fitted(tmp_path, "t.csv", text, "--outliers", 0.9999999)
    written = rows_of(tmp_path / "o" / "outliers.csv")
    assert list(written[0]) == ["row", "cluster", "distance", "x", "y"]
    for row in written:
        np.testing.assert_array_equal([float(row["x"]), float(row["y"])], points[int(row["row"]) - 1])
    model = apolar.GaussianMixture.load(tmp_path / "o" / "model.npz")
    offsets = points[int(written[0]["row"]) - 1] - model.means_
    squares = [offset @ np.linalg.solve(model.covariances_, offset) for offset in offsets]
    assert float(written[0]["distance"]) == pytest.approx(min(squares) ** 0.5, rel=1e-4)
    result = fitted(tmp_path, "t.csv", text, "--outliers")
    assert "No outliers (5% chance of any false alarm per table)." in result.output
    assert (tmp_path / "o" / "outliers.csv").read_text() == "row,cluster,distance,x,y\n"
    result = fitted(tmp_path, "t.csv", text, "--json")
    assert json.loads(result.output)["outliers"] == []


def test_what_can_be_read_once_cannot_be_appended_to(flowers, model):
    result = run("predict", model, "-", "--append", stdin=flowers.read_text())
    assert result.exit_code == 2
    assert "--append reads the table twice" in result.output
    appended = run("predict", model, flowers, "--append")
    assert appended.output.splitlines()[0].endswith("petal_width,species,cluster,p1,p2,outlier")
    assert len(appended.output.splitlines()) == 151


def test_a_table_is_not_replaced_by_its_own_results(flowers):
    table = flowers.with_name("table.csv")
    before = flowers.read_bytes()
    table.write_bytes(before)
    result = run("fit", table, "-k", 2, "--append", "--no-report", "-o", table.parent)
    assert result.exit_code == 2
    assert "table.csv is also an input; choose another -o." in result.output
    assert table.read_bytes() == before
    assert not (table.parent / "labels.csv").exists()


def test_several_files_are_one_table(tmp_path, points):
    for name, rows in (("a.csv", points[:40]), ("b.csv", points[40:])):
        (tmp_path / name).write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in rows))
    command = ("fit", tmp_path / "a.csv", tmp_path / "b.csv", "-k", 2, "--covariance", "tied", "--no-report")
    result = run(*command, "--append", "-o", tmp_path / "o")
    assert result.exit_code == 0, result.output
    table, marked = (rows_of(tmp_path / "o" / name) for name in ("table.csv", "labels.csv"))
    assert [float(row["x"]) for row in table] == points[:, 0].tolist()
    assert [row["cluster"] for row in table] == [row["cluster"] for row in marked]
    assert [row["file"] for row in marked] == [str(tmp_path / "a.csv")] * 40 + [str(tmp_path / "b.csv")] * 21
    (tmp_path / "b.csv").write_text("y,x\n" + "".join(f"{y},{x}\n" for x, y in points[40:]))
    result = run(*command, "--append", "-o", tmp_path / "o")
    assert result.exit_code == 2
    assert "has other columns or another delimiter" in result.output
