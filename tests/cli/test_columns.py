"""The commands on tables with columns that are no measurements, on several files, and on other encodings."""

import json
import subprocess
import sys

import numpy as np
import pytest

import apolar
from cli.commands import labels, run


@pytest.fixture
def people(tmp_path):
    """Iris with a number for each row, a code of two values, a constant and a date."""
    X = apolar.datasets.load_iris().data
    path = tmp_path / "people.csv"
    with path.open("w") as file:
        file.write("id,a,b,c,d,sex,flat,when\n")
        for i, row in enumerate(X.tolist()):
            file.write(f"{i},{','.join(map(str, row))},{i % 2},7,2020-01-{1 + i % 28:02}\n")
    return path


LEFT_OUT = (
    "Dropped column 'when': it holds dates.",
    "Dropped column 'id': it numbers the rows. Use --keep id to include it.",
    "Dropped column 'sex': it has only 2 distinct values. Use --keep sex to include it.",
    "Dropped column 'flat': it is constant. Use --keep flat to include it.",
)


def test_fit_leaves_columns_out_and_says_so(people, tmp_path):
    result = run("fit", people, "-k", 3, "-o", tmp_path / "o")
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    page = (tmp_path / "o" / "report.html").read_text().replace("&#39;", "'")
    for note in LEFT_OUT:
        assert text.count(note) == 1
        assert note in page
    model = apolar.GaussianMixture.load(tmp_path / "o" / "model.npz")
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    # The model finds its columns by name, and says nothing of the others.
    labelled = run("predict", tmp_path / "o" / "model.npz", people, "-o", tmp_path / "labels.csv")
    assert labelled.exit_code == 0
    assert labelled.output == f"150 rows: {tmp_path / 'labels.csv'}\n"
    assert labels(tmp_path / "labels.csv") == labels(tmp_path / "o" / "labels.csv")


def test_constant_columns_do_not_change_the_choice(tmp_path):
    """With three constant columns one component was chosen, with very strong evidence."""
    iris = tmp_path / "iris.csv"
    X = apolar.datasets.load_iris().data
    np.savetxt(iris, X, delimiter=",", header="a,b,c,d", comments="", fmt="%.17g")
    flat = tmp_path / "flat.csv"
    constants = np.column_stack([X, np.ones((150, 3))])
    np.savetxt(flat, constants, delimiter=",", header="a,b,c,d,e,f,g", comments="", fmt="%.17g")
    answers = [
        json.loads(run("select", path, "--components", "1-3", "--covariance", "VEV", "--json").output)
        for path in (iris, flat)
    ]
    assert answers[0]["best"] == answers[1]["best"]
    assert answers[1]["best"]["components"] > 1
    assert len(answers[1]["notes"]) == 3
    shown = run("select", flat, "--components", "1-2", "--covariance", "full")
    assert "Dropped column 'e': it is constant. Use --keep e to include it." in " ".join(shown.output.split())


@pytest.mark.parametrize("command", ["fit -k 3", "select", "predict m.npz", "sketch -o o"])
def test_a_file_that_is_not_there_is_refused(command):
    result = run(*command.split(), "none.csv")
    assert result.exit_code == 2
    assert "There is no file none.csv: check the name and the folder." in result.output


@pytest.mark.parametrize("arguments", ["fit none.csv -k 3", "fit data.csv -k x", "select none.csv"])
def test_mistakes_are_found_before_libraries_are_loaded(arguments):
    code = (
        "import atexit, sys; atexit.register(lambda: print('numpy' in sys.modules)); "
        "from apolar.cli import main; main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments.split()], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert ended.stdout == "False\n"


def test_standard_input_is_read_once():
    result = run("fit", "-", "-", "-k", 2, stdin="1,2\n3,4\n")
    assert result.exit_code == 2
    assert "Standard input can be read only once" in result.output
