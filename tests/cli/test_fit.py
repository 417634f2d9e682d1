"""`apolar fit`, `select`, `predict`, `sketch`, `merge`: files, printed words, errors, interruption."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from click.testing import CliRunner

import apolar
from apolar.cli import main


@pytest.fixture
def flowers(tmp_path):
    """Iris as a CSV file, in a folder of its own."""
    iris = apolar.datasets.load_iris()
    path = tmp_path / "flowers.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*iris.feature_names, "species"])
        writer.writerows(
            [*row, iris.target_names[target]]
            for row, target in zip(iris.data.tolist(), iris.target, strict=True)
        )
    return path


def run(*arguments, stdin=None):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)


def labels(path):
    with path.open() as file:
        return [
            (int(row["row"]), int(row["cluster"]), float(row["probability"])) for row in csv.DictReader(file)
        ]


def test_fit_writes_labels_model_and_report(flowers, tmp_path):
    result = run("fit", flowers, "-k", 3, "-o", tmp_path / "out", "--label-column", "species")
    assert result.exit_code == 0, result.output
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"labels.csv", "model.npz", "report.html"}
    found = labels(tmp_path / "out" / "labels.csv")
    iris = apolar.datasets.load_iris()
    model = apolar.GaussianMixture(3, random_state=0).fit(iris.data)
    assert [cluster - 1 for _, cluster, _ in found] == model.predict(iris.data).tolist()
    assert [row for row, _, _ in found] == list(range(1, 151))
    assert "150 rows fall into 3 clusters" in result.output
    assert "adjusted Rand index 0.904" in result.output
    assert f"BIC {model.bic(iris.data):.2f} (lower is better), 44 parameters" in result.output
    report = (tmp_path / "out" / "report.html").read_text()
    assert "150 rows fall into 3 clusters" in report
    assert "versicolor" in report


def test_the_default_folder_has_the_name_of_the_table(flowers, monkeypatch):
    monkeypatch.chdir(flowers.parent)
    result = run("fit", flowers.name, "-k", 2, "--no-report", "--covariance", "spherical")
    assert result.exit_code == 0, result.output
    assert {path.name for path in (flowers.parent / "apolar-flowers").iterdir()} == {
        "labels.csv",
        "model.npz",
    }
    assert "Left out, as they are no numbers: species." in result.output


def test_json_is_one_object(flowers, tmp_path):
    result = run("fit", flowers, "-k", "2-3", "-o", tmp_path / "out", "--no-report", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert found["n_components"] == 2
    assert found["covariance"] == "full"
    assert found["columns"] == ["sepal_length", "sepal_width", "petal_length", "petal_width"]
    assert sum(found["rows"]) == 150
    assert "lowest BIC" in found["reason"]
    assert found["files"]["labels"].endswith("labels.csv")


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


def test_standardised_spherical_clusters_predict_the_same_on_the_raw_table(flowers, tmp_path):
    out = tmp_path / "out"
    options = ("--covariance", "spherical", "--standardise", "--no-report", "-o", out)
    assert run("fit", flowers, "-k", 3, *options).exit_code == 0
    result = run("predict", out / "model.npz", flowers, "-o", tmp_path / "again.csv")
    assert result.exit_code == 0, result.output
    assert labels(tmp_path / "again.csv") == labels(out / "labels.csv")


def test_predict_finds_columns_by_name_and_prints_by_default(flowers, tmp_path):
    out = tmp_path / "out"
    assert run("fit", flowers, "-k", 3, "--no-report", "-o", out).exit_code == 0
    with flowers.open() as file:
        rows = list(csv.DictReader(file))
    shuffled = tmp_path / "shuffled.csv"
    with shuffled.open("w", newline="") as file:
        writer = csv.DictWriter(
            file, ["species", "petal_width", "sepal_length", "petal_length", "sepal_width"]
        )
        writer.writeheader()
        writer.writerows(rows)
    result = run("predict", out / "model.npz", shuffled)
    assert result.exit_code == 0
    assert result.output == (out / "labels.csv").read_text()
    as_json = json.loads(run("predict", out / "model.npz", shuffled, "--json").output)
    assert as_json["cluster"] == [cluster for _, cluster, _ in labels(out / "labels.csv")]


def test_rows_with_missing_values(flowers, tmp_path):
    lines = flowers.read_text().splitlines()
    lines[5] = ",3.6,1.4,0.2,setosa"
    lines[9] = "4.9,NA,1.5,0.1,setosa"
    flowers.write_text("\n".join(lines) + "\n")
    refused = run("fit", flowers, "-k", 2, "-o", tmp_path / "out")
    assert refused.exit_code == 2
    assert "--drop-missing" in refused.output
    assert not (tmp_path / "out").exists()
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
    found = json.loads(run("select", flowers, "--components", "2", "--covariance", "diag", "--json").output)
    assert found["best"] == {"covariance": "diag", "components": 2}


def test_sketches_add_up_and_give_a_mixture(tmp_path):
    X, _ = apolar.datasets.make_example(1, 20_000, random_state=0)
    for name, part in (("one", X[:8000]), ("two", X[8000:])):
        np.save(tmp_path / f"{name}.npy", part)
        result = run("sketch", tmp_path / f"{name}.npy", "-o", tmp_path / f"{name}.npz")
        assert result.exit_code == 0, result.output
    result = run("merge", tmp_path / "one.npz", tmp_path / "two.npz", "-o", tmp_path / "both.npz")
    assert result.exit_code == 0, result.output
    assert "20,000 rows, 6 columns" in result.output
    found = json.loads(
        run("fit", "--sketch", tmp_path / "both.npz", "-k", 4, "--json", "-o", tmp_path / "out").output
    )
    expected = apolar.mixture_from_moments(X, 4)
    np.testing.assert_allclose(found["weights"], expected.weights, rtol=1e-6)
    result = run(
        "predict", tmp_path / "out" / "model.npz", tmp_path / "one.npy", "-o", tmp_path / "labels.csv"
    )
    assert result.exit_code == 0, result.output
    assert len(labels(tmp_path / "labels.csv")) == 8000
    shown = run("fit", "--sketch", tmp_path / "both.npz", "-k", 4)
    assert "from moments alone" in shown.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "nowhere.csv", "-k", 2], "nowhere.csv"),
        (["fit", "FLOWERS", "-k", "many"], "'many' is no number of components: write 4, 2-6, 2,4,8 or auto."),
        (["fit", "FLOWERS", "-k", "0"], "'0' is no number of components"),
        (["fit", "FLOWERS", "-k", 2, "--columns", "petal_lenght"], "petal_length"),
        (["fit", "FLOWERS", "-k", 2, "--columns", "a,,b"], "has an empty name"),
        (["fit", "FLOWERS", "-k", 200], "200"),
        (["fit", "-k", 2], "Give either DATA or --sketch FILE."),
        (["fit", "FLOWERS", "-k", 2, "--sketch", "x.npz"], "Give either DATA or --sketch FILE."),
        (["fit", "--sketch", "FLOWERS", "-k", 2], "flowers.csv"),
        (["fit", "--sketch", "x.npz", "-k", "auto"], "must be given, such as -k 4"),
        (["fit", "--sketch", "x.npz", "-k", 2, "--covariance", "full"], "spherical components only"),
        (["fit", "--sketch", "x.npz", "-k", 2, "--standardise"], "--standardise needs the rows"),
        (["predict", "nowhere.npz", "FLOWERS"], "There is no file nowhere.npz."),
        (["predict", "FLOWERS", "FLOWERS"], "flowers.csv"),
        (["merge", "nowhere.npz", "-o", "OUT"], "There is no file nowhere.npz."),
        (["sketch", "nowhere.csv", "-o", "OUT"], "nowhere.csv"),
        (["select", "FLOWERS", "--components", "3-1"], "'3-1' is no number of components"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(flowers, monkeypatch, arguments, message):
    monkeypatch.chdir(flowers.parent)
    before = {path.name for path in flowers.parent.iterdir()}
    result = run(*(flowers if argument == "FLOWERS" else argument for argument in arguments))
    assert result.exit_code == 2, result.output
    assert message in result.output
    assert "Traceback" not in result.output
    error = [line for line in result.output.splitlines() if line.startswith("Error:")]
    assert len(error) == 1
    assert {path.name for path in flowers.parent.iterdir()} == before


def test_an_output_that_cannot_be_written(flowers):
    blocked = flowers.parent / "file"
    blocked.write_text("in the way")
    result = run("fit", flowers, "-k", 2, "-o", blocked / "below")
    assert result.exit_code == 2
    assert f"Cannot write to {blocked / 'below'}" in result.output
    assert blocked.read_text() == "in the way"


def test_a_full_disk_leaves_the_old_results(flowers, tmp_path, monkeypatch):
    out = tmp_path / "out"
    assert run("fit", flowers, "-k", 2, "-o", out, "--no-report").exit_code == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(apolar.GaussianMixture, "save", full)
    result = run("fit", flowers, "-k", 3, "-o", out, "--no-report")
    assert result.exit_code == 2
    assert "No space left on device. Nothing was changed." in result.output
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_an_interruption_leaves_nothing(flowers, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("apolar.analysis.analysed", stop)
    result = run("fit", flowers, "-k", 2, "-o", tmp_path / "a" / "b")
    assert result.exit_code == 130
    assert result.output.strip() == "Error: Interrupted; nothing was written."
    assert {path.name for path in tmp_path.iterdir()} == {"flowers.csv"}


def test_control_c_in_a_real_process(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "rows.npy", rng.standard_normal((400_000, 12)))
    command = [sys.executable, "-m", "apolar", "fit", "rows.npy", "-k", "auto", "--no-report"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "apolar-rows").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert "Traceback" not in error + out
    assert {path.name for path in tmp_path.iterdir()} == {"rows.npy"}


def test_help_is_quick_and_imports_little():
    heavy = ("numpy", "scipy", "sklearn", "rich", "jinja2", "matplotlib")
    code = f"import sys, apolar.cli; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("command", ["fit", "select", "predict", "sketch", "merge", "decompose", "reproduce"])
def test_every_command_has_help_with_an_example(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"apolar {command} " in result.output
