"""`apolar fit`, `select`, `predict`, `sketch`, `merge`: files, printed words, errors, interruption."""

import csv
import json
import math
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
    assert "Columns not used, as they hold no numbers to cluster by: species." in result.output


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


def test_sketches_add_up_and_give_a_mixture(tmp_path, monkeypatch):
    X, _ = apolar.datasets.make_example(1, 20_000, random_state=0)
    names = ["a", "b", "c", "d", "e", "f"]
    np.savetxt(tmp_path / "mixed.csv", X[:50, ::-1], delimiter=",", header=",".join(names[::-1]), comments="")
    assert run("sketch", tmp_path / "mixed.csv", "-o", tmp_path / "mixed.npz").exit_code == 0
    np.savetxt(tmp_path / "named.csv", X[:50], delimiter=",", header=",".join(names), comments="")
    assert run("sketch", tmp_path / "named.csv", "-o", tmp_path / "named.npz").exit_code == 0
    swapped = run("merge", tmp_path / "named.npz", tmp_path / "mixed.npz", "-o", tmp_path / "no.npz")
    assert swapped.exit_code == 2
    assert "have them in another order: a, b, c, d, e, f; f, e, d, c, b, a." in swapped.output
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
    model = apolar.GaussianMixture.load(tmp_path / "out" / "model.npz")
    assert not model.converged_
    assert math.isnan(model.lower_bound_)
    assert (
        "from the moments of a sketch alone: EM has not run and no likelihood was computed" in model.message_
    )
    # It can be saved again, and EM goes on from it.
    model.save(tmp_path / "again.npz")
    rows = X[:500]
    fitted = apolar.GaussianMixture(
        4, covariance_type="spherical", warm_start=tmp_path / "again.npz", n_threads=1
    ).fit(rows)
    assert math.isfinite(fitted.lower_bound_)
    monkeypatch.chdir(tmp_path)
    shown = run("fit", "--sketch", tmp_path / "both.npz", "-k", 4)
    assert "from moments alone" in shown.output
    assert (tmp_path / "apolar-both" / "model.npz").exists()


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
        (["fit", "--sketch", "x.npz", "-k", 2, "--drop-missing"], "--drop-missing needs the rows"),
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

    monkeypatch.setattr("apolar.report.analysis.analysed", stop)
    result = run("fit", flowers, "-k", 2, "-o", tmp_path / "a" / "b")
    assert result.exit_code == 130
    assert result.output.strip() == "Error: Interrupted; nothing was written."
    assert {path.name for path in tmp_path.iterdir()} == {"flowers.csv"}


def test_control_c_in_a_real_process(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "rows.npy", rng.standard_normal((400_000, 12)))
    command = [sys.executable, "-m", "apolar", "fit", "rows.npy", "-k", "auto", "--no-report"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=tmp_path, **pipes) as process:
        try:
            deadline = time.monotonic() + 60
            while not (tmp_path / "apolar-rows").exists():
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.05)
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            out, error = process.communicate(timeout=60)
        finally:
            process.kill()
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


@pytest.fixture
def model(flowers, tmp_path):
    """A model of the flowers."""
    assert run("fit", flowers, "-k", 2, "--no-report", "-o", tmp_path / "m").exit_code == 0
    return tmp_path / "m" / "model.npz"


def test_predict_takes_one_row(flowers, model, tmp_path):
    lines = flowers.read_text().splitlines()
    (tmp_path / "one.csv").write_text("\n".join(lines[:2]) + "\n")
    result = run("predict", model, tmp_path / "one.csv", "-o", "-")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == ["row,cluster,probability", "1,2,1"]


def test_links_are_followed_and_devices_are_refused(flowers, model, tmp_path):
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    real.write_text("old")
    link.symlink_to(real)
    assert run("predict", model, flowers, "-o", link).exit_code == 0
    assert link.is_symlink()
    assert real.read_text().startswith("row,cluster")
    os.mkfifo(tmp_path / "pipe")
    refused = run("predict", model, flowers, "-o", tmp_path / "pipe")
    assert refused.exit_code == 2
    assert "it is not a plain file. Choose another -o." in refused.output


def test_what_is_read_is_not_overwritten(flowers, model):
    before = model.read_bytes()
    for target in (model, flowers):
        result = run("predict", model, flowers, "-o", target)
        assert result.exit_code == 2
        assert "is what is read: choose another -o." in result.output
    assert model.read_bytes() == before


def test_a_folder_in_the_way_of_one_file_keeps_all(flowers, tmp_path):
    out = tmp_path / "out"
    (out / "model.npz").mkdir(parents=True)
    (out / "labels.csv").write_text("old")
    result = run("fit", flowers, "-k", 2, "--no-report", "-o", out)
    assert result.exit_code == 2
    assert "it is a folder" in result.output
    assert (out / "labels.csv").read_text() == "old"
    assert {path.name for path in out.iterdir()} == {"labels.csv", "model.npz"}


def test_a_failure_at_the_last_moment_brings_the_old_files_back(flowers, tmp_path, monkeypatch):
    out = tmp_path / "out"
    assert run("fit", flowers, "-k", 2, "-o", out, "--no-report").exit_code == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    real = os.replace

    def failing(source, target):
        if (
            str(target).endswith("model.npz")
            and "part" not in str(target)
            and not str(source).endswith(".kept")
        ):
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr("apolar.cli.output.os.replace", failing)
    result = run("fit", flowers, "-k", 3, "-o", out, "--no-report")
    assert result.exit_code == 2
    assert "No space left on device. Nothing was changed." in result.output
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_values_beyond_all_clusters(flowers, model, tmp_path):
    (tmp_path / "far.csv").write_text(flowers.read_text() + "1e300,1e300,1e300,1e300,x\n")
    for options in ((), ("--json",)):
        result = run("predict", model, tmp_path / "far.csv", *options)
        assert result.exit_code == 2
        assert "Row 151 is too far from every cluster" in result.output


def test_rows_without_a_class_do_not_count(flowers, tmp_path):
    lines = flowers.read_text().splitlines()
    for number in range(1, 13):
        lines[number] = lines[number].rsplit(",", 1)[0] + ","
    flowers.write_text("\n".join(lines) + "\n")
    found = run("fit", flowers, "-k", 3, "--label-column", "species", "-o", tmp_path / "o")
    assert found.exit_code == 0, found.output
    assert "5 of 138 rows (3.6%)" in found.output
    assert "The class of 12 rows is not known." in found.output


def test_equal_rows_are_refused(tmp_path):
    (tmp_path / "equal.csv").write_text("a,b\n" + "1,2\n" * 20)
    for k in (2, "auto"):
        result = run("fit", tmp_path / "equal.csv", "-k", k, "-o", tmp_path / "o")
        assert result.exit_code == 2
        assert "All rows are equal" in result.output


def test_a_comma_in_the_name_of_a_column(tmp_path):
    rng = np.random.default_rng(0)
    rows = "\n".join(f"{x},{y},{z}" for x, y, z in rng.standard_normal((30, 3)).round(4))
    (tmp_path / "t.csv").write_text('"a,b",c,d\n' + rows + "\n")
    options = ("-k", 1, "--no-report", "-o", tmp_path / "o", "--json")
    result = run("fit", tmp_path / "t.csv", "--columns", '"a,b",d', *options)
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["columns"] == ["a,b", "d"]


def test_absurd_numbers_of_components(flowers):
    result = run("fit", flowers, "-k", "1-99999999999")
    assert result.exit_code == 2
    assert "asks for more than 10,000 components" in result.output


def test_names_in_messages_are_those_of_the_table(tmp_path):
    rng = np.random.default_rng(0)
    rows = "\n".join(f"{x},{y},7" for x, y in rng.standard_normal((60, 2)).round(4))
    (tmp_path / "t.csv").write_text("x,y,c\n" + rows + "\n")
    result = run("fit", tmp_path / "t.csv", "-k", 2, "-o", tmp_path / "o", "--covariance", "diag")
    assert result.exit_code == 0, result.output
    assert "Column &#39;c&#39; is constant" in (tmp_path / "o" / "report.html").read_text()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="There is no /dev/full here.")
def test_a_full_standard_output(flowers, model):
    with open("/dev/full", "w") as full:
        process = subprocess.run(
            [sys.executable, "-m", "apolar", "predict", str(model), str(flowers)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert process.returncode == 2
    assert "Traceback" not in process.stderr
    assert "No space left on device" in process.stderr


def test_an_interruption_while_things_are_imported(flowers, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["apolar.cli.sketch"], "_loaded", stop)
    result = run("merge", flowers, "-o", flowers.parent / "x.npz")
    assert result.exit_code == 130
    assert result.output.strip() == "Error: Interrupted; nothing was written."


# --- terminals ------------------------------------------------------------------------------

HOSTILE = "\x1b[31mred\x07"


def shell(command, **environment):
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command.replace("apolar ", f"{sys.executable} -m apolar ")],
        env=os.environ | environment,
        capture_output=True,
        check=False,
    )


def test_letters_that_a_terminal_cannot_show_are_replaced(flowers, tmp_path):
    ended = shell(
        f"apolar fit {flowers} -k 2 --no-report -o {tmp_path / 'out'}", PYTHONIOENCODING="ascii", LANG="C"
    )
    assert ended.returncode == 0, ended.stderr
    assert b"Means ? deviations" in ended.stdout
    assert b"model.npz" in ended.stdout
    assert sorted(os.listdir(tmp_path / "out")) == ["labels.csv", "model.npz"]


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX")
def test_a_standard_output_that_is_closed(flowers, model, tmp_path):
    closed = shell(f"apolar sketch {flowers} -o {tmp_path / 'a.npz'} >&-")
    assert closed.returncode == 0, closed.stderr
    assert closed.stderr.decode() == f"Standard output was closed; written before: {tmp_path / 'a.npz'}.\n"
    piped = shell(f"apolar fit --sketch {tmp_path / 'a.npz'} -k 1 -o {tmp_path / 'out'} | true")
    assert b"Traceback" not in piped.stderr
    assert (tmp_path / "out" / "model.npz").exists()
    nothing = shell(f"apolar predict {model} {flowers} >&-")
    assert nothing.returncode == 2
    assert nothing.stderr.startswith(b"Error: Standard output is closed")


def test_a_failure_after_files_were_written_names_them(flowers, tmp_path, monkeypatch):
    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys.modules["apolar.cli.fit"], "_print", fails)
    result = run("fit", flowers, "-k", 1, "--no-report", "-o", tmp_path / "out")
    assert result.exit_code == 2
    assert result.output.startswith("Error: No space left on device. Written before: ")
    assert str(tmp_path / "out" / "model.npz") in result.output


def test_names_cannot_steer_the_terminal(tmp_path):
    rows = np.random.default_rng(0).standard_normal((30, 2))
    table = tmp_path / f"a{HOSTILE}.csv"
    lines = [f"{HOSTILE},b{HOSTILE}", *(f"{x},{y}" for x, y in rows)]
    table.write_text("\n".join(lines))
    folder = tmp_path / f"out{HOSTILE}"
    sums = folder / "a.npz"
    for arguments in (
        ["fit", table, "-k", 1, "--no-report", "-o", folder],
        ["sketch", table, "-o", sums],
        ["merge", sums, sums, "-o", sums],
        ["fit", "--sketch", sums, "-k", 1, "-o", folder],
        ["select", table, "--components", 1, "--covariance", "diag"],
        ["fit", table, "-k", 1, "--columns", f"c{HOSTILE}"],
        ["fit", tmp_path / f"none{HOSTILE}\nmore", "-k", 1],
        ["predict", folder / "model.npz", f"none{HOSTILE}"],
        ["fit", table, HOSTILE, "-k", 1],
        ["decompose", f"x^2 {HOSTILE}"],
        ["decompose", "x^2", "--variables", f"x,{HOSTILE}"],
        [HOSTILE],
    ):
        result = run(*arguments)
        assert result.exit_code in (0, 2), result.output
        assert result.exception is None or isinstance(result.exception, SystemExit)
        assert "\x1b" not in result.output
        assert "\x07" not in result.output


@pytest.mark.parametrize("command", [["fit", "-k", "1", "--no-report"], ["decompose"]])
def test_a_damaged_header_of_an_array_is_one_line(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.eye(3) + 1)
    sound = (tmp_path / "a.npy").read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(sound)
        for place in rng.integers(6, 128, size=rng.integers(1, 4)):
            damaged[place] = rng.integers(256)
        (tmp_path / "a.npy").write_bytes(damaged)
        result = run(command[0], "a.npy", *command[1:])
        assert result.exit_code in (0, 1, 2), result.output
        assert result.exception is None or isinstance(result.exception, SystemExit), damaged
        if result.exit_code == 2:
            assert result.output.startswith("Error: ")
            assert result.output.count("\n") == 1
