"""`apolar fit` and `select`: the files they write, and what they print."""

import csv
import json
import re

import numpy as np

import apolar
from cli.commands import labels, run


def test_fit_writes_labels_model_and_report(flowers, tmp_path):
    result = run("fit", flowers, "-k", 3, "-o", tmp_path / "out", "--label-column", "species")
    assert result.exit_code == 0, result.output
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"labels.csv", "model.npz", "report.html"}
    assigned = labels(tmp_path / "out" / "labels.csv")
    iris = apolar.datasets.load_iris()
    model = apolar.GaussianMixture(3, random_state=0).fit(iris.data)
    assert [cluster - 1 for _, cluster, _ in assigned] == model.predict(iris.data).tolist()
    assert [row for row, _, _ in assigned] == list(range(1, 151))
    assert "3 clusters in 150 rows" in result.output
    assert "adjusted Rand index 0.904" in result.output
    assert f"BIC {model.bic(iris.data):.2f} (lower is better), 44 parameters" in result.output
    report = (tmp_path / "out" / "report.html").read_text()
    assert "3 clusters in 150 rows" in report
    assert "versicolor" in report


def test_the_default_folder_has_the_name_of_the_table(flowers, monkeypatch):
    monkeypatch.chdir(flowers.parent)
    result = run("fit", flowers.name, "-k", 2, "--no-report", "--covariance", "spherical")
    assert result.exit_code == 0, result.output
    assert {path.name for path in (flowers.parent / "apolar-flowers").iterdir()} == {
        "labels.csv",
        "model.npz",
    }
    assert "Dropped column 'species': it holds text." in result.output


def test_json_is_one_object(flowers, tmp_path):
    result = run("fit", flowers, "-k", "2-3", "-o", tmp_path / "out", "--no-report", "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.output)
    assert answer["n_components"] == 2
    assert answer["covariance"] == "VEV"
    assert answer["columns"] == ["sepal_length", "sepal_width", "petal_length", "petal_width"]
    assert sum(answer["rows"]) == 150
    assert "lowest BIC" in answer["reason"]
    assert answer["files"]["labels"].endswith("labels.csv")


def test_standard_input_and_chosen_columns(flowers, tmp_path):
    text = flowers.read_text()
    result = run(
        "fit",
        "-",
        "-k",
        2,
        "--columns",
        "petal_length,4",
        "-o",
        tmp_path / "out",
        "--no-report",
        "--json",
        stdin=text,
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["columns"] == ["petal_length", "petal_width"]


def test_rows_with_missing_values(flowers, tmp_path):
    lines = flowers.read_text().splitlines()
    lines[5] = ",3.6,1.4,0.2,setosa"
    lines[9] = "4.9,NA,1.5,0.1,setosa"
    flowers.write_text("\n".join(lines) + "\n")
    result = run("fit", flowers, "-k", 2, "-o", tmp_path / "kept")
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert (
        "2 of 600 values are missing (columns 'sepal_length' (1) and 'sepal_width' (1)); incomplete rows"
        in said
    )
    assert [row for row, _, _ in labels(tmp_path / "kept" / "labels.csv")] == list(range(1, 151))
    page = (tmp_path / "kept" / "report.html").read_text()
    assert "2 values are missing" in page
    result = run("fit", flowers, "-k", 2, "--json", "--standardise", "-o", tmp_path / "json", "--no-report")
    assert json.loads(result.stdout)["n_missing"] == [1, 1, 0, 0]
    result = run("predict", tmp_path / "kept" / "model.npz", flowers)
    assert result.exit_code == 0, result.output
    assert "2 of 600 values are missing" in " ".join(result.output.split())
    assert len(re.findall(r"^\d+,\d", result.output, flags=re.MULTILINE)) == 150
    result = run("select", flowers, "--components", "1-2", "--covariance", "diag")
    assert "2 of 600 values are missing" in " ".join(result.output.split())
    result = run("fit", flowers, "-k", 2, "-o", tmp_path / "out", "--drop-missing", "--no-report")
    assert result.exit_code == 0, result.output
    assert "Left out 2 rows with missing values." in result.output
    numbers = [row for row, _, _ in labels(tmp_path / "out" / "labels.csv")]
    assert len(numbers) == 148
    assert 5 not in numbers
    assert 9 not in numbers


def test_select_prints_and_writes_a_table(flowers, tmp_path):
    result = run("select", flowers, "--components", "1-3", "--covariance", "full", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "2 full components have the lowest BIC" in result.output
    with (tmp_path / "out" / "selection.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["components"] for row in rows] == ["1", "2", "3"]
    answer = json.loads(run("select", flowers, "--components", "2", "--covariance", "diag", "--json").output)
    assert answer["best"] == {"covariance": "diag", "components": 2}


def test_select_by_evidence(flowers):
    options = ("--components", "1-4", "--covariance", "full", "--criterion", "evidence")
    answer = json.loads(run("select", flowers, *options, "--json").output)
    lowest = min(answer["table"], key=lambda row: row["evidence"])
    assert answer["best"] == {"covariance": "full", "components": lowest["components"]}
    assert answer["criterion"] == "evidence"
    assert "the lowest -2 log evidence" in answer["reason"]
    assert "-2 log evidence" in run("select", flowers, *options).output


def test_rows_without_a_class_do_not_count(flowers, tmp_path):
    lines = flowers.read_text().splitlines()
    for number in range(1, 13):
        lines[number] = lines[number].rsplit(",", 1)[0] + ","
    flowers.write_text("\n".join(lines) + "\n")
    result = run("fit", flowers, "-k", 3, "--label-column", "species", "-o", tmp_path / "o")
    assert result.exit_code == 0, result.output
    assert "5 of 138 rows (3.6%)" in result.output
    assert "The class of 12 rows is not known." in result.output


def test_a_comma_in_the_name_of_a_column(tmp_path):
    rng = np.random.default_rng(0)
    rows = "\n".join(f"{x},{y},{z}" for x, y, z in rng.standard_normal((30, 3)).round(4))
    (tmp_path / "t.csv").write_text('"a,b",c,d\n' + rows + "\n")
    options = ("-k", 1, "--no-report", "-o", tmp_path / "o", "--json")
    result = run("fit", tmp_path / "t.csv", "--columns", '"a,b",d', *options)
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["columns"] == ["a,b", "d"]
